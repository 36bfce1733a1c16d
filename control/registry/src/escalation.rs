//! Nobody gives others more than they have: what a role or a binding would
//! grant must be held by who writes it, unless they may `escalate` or `bind`.

use std::collections::{BTreeMap, BTreeSet};

use control_access::{Attributes, Rule};
use control_types::meta;
use control_types::status::{Status, quote};
use control_types::value::Value;

use crate::context::Context;
use crate::served_resource::ServedResource;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Refuses a role or binding, new or changed (`old`), that grants what its
/// writer does not hold. Other kinds pass.
///
/// # Errors
/// 403, naming the rules; 404 when a binding names a role that does not exist.
pub fn check(
    context: &Context,
    served: &ServedResource,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if served.resource.group != GROUP || context.user.is_master() {
        return Ok(());
    }
    // Who deletes (finalizers, owners) grants nothing.
    if old.is_some_and(|old| grants(old) == grants(new)) {
        return Ok(());
    }
    match served.resource.plural {
        "roles" | "clusterroles" => role(context, served, new, old),
        _ => binding(context, served, new),
    }
}

/// The part of an object that decides what it grants.
fn grants(object: &Value) -> Vec<Option<&Value>> {
    let members = ["rules", "aggregationRule", "roleRef", "subjects"];
    let mut parts: Vec<_> = members.iter().map(|member| object.get(member)).collect();
    parts.push(object.path(&["metadata", "labels"]));
    parts
}

fn role(
    context: &Context,
    served: &ServedResource,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let info = &context.info;
    let escalate = Attributes {
        user: context.user.clone(),
        verb: "escalate".into(),
        group: GROUP.into(),
        version: "*".into(),
        resource: served.resource.plural.into(),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        is_resource_request: true,
        ..Attributes::default()
    };
    if context.may(&escalate) {
        return Ok(());
    }
    confirm(context, served, new, &rules_of(new))?;
    // An aggregated role can come to hold anything.
    let aggregates = |role: &Value| {
        !role
            .items_at(&["aggregationRule", "clusterRoleSelectors"])
            .is_empty()
    };
    if aggregates(new) || old.is_some_and(aggregates) {
        let all = |list: &[&str]| {
            list.iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let everything = [
            Rule {
                verbs: all(&["*"]),
                api_groups: all(&["*"]),
                resources: all(&["*"]),
                ..Rule::default()
            },
            Rule {
                verbs: all(&["*"]),
                non_resource_urls: all(&["*"]),
                ..Rule::default()
            },
        ];
        if confirm(context, served, new, &everything).is_err() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(forbidden(served, new, why));
        }
    }
    Ok(())
}

fn binding(context: &Context, served: &ServedResource, new: &Value) -> Result<(), Status> {
    let field = |name: &str| new.str_at(&["roleRef", name]).unwrap_or_default();
    let (plural, key) = match field("kind") {
        "ClusterRole" => ("clusterroles", field("name").to_owned()),
        "Role" => (
            "roles",
            format!("{}/{}", context.info.namespace, field("name")),
        ),
        // Validation has more to say about it.
        _ => return Ok(()),
    };
    let bind = Attributes {
        user: context.user.clone(),
        verb: "bind".into(),
        group: GROUP.into(),
        version: "*".into(),
        resource: plural.into(),
        namespace: context.info.namespace.clone(),
        name: field("name").to_owned(),
        is_resource_request: true,
        ..Attributes::default()
    };
    if context.may(&bind) {
        return Ok(());
    }
    let role = context
        .registry
        .cached(GROUP, plural, &key)
        // In the words of kube-apiserver, which names what was asked for.
        .ok_or_else(|| Status::not_found(GROUP, served.resource.plural, field("name")))?
        .value()
        .map_err(Status::internal)?;
    confirm(context, served, new, &rules_of(&role))
}

fn rules_of(role: &Value) -> Vec<Rule> {
    role.items_at(&["rules"])
        .iter()
        .map(Rule::from_value)
        .collect()
}

/// Whether the user holds all of `wanted` in the namespace of the request.
fn confirm(
    context: &Context,
    served: &ServedResource,
    object: &Value,
    wanted: &[Rule],
) -> Result<(), Status> {
    let authorizer = &context.registry.authorizer;
    let held = authorizer.granted(&context.user, &context.info.namespace);
    let missing = missing(&held.rules, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let lines: BTreeSet<String> = compact(missing).iter().map(shown).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    let mut why = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&context.user.name),
        quoted(&context.user.groups),
        lines.join("\n")
    );
    if let Some(error) = held.error {
        why.push_str(&format!("; resolution errors: [{error}]"));
    }
    Err(forbidden(served, object, &why))
}

fn forbidden(served: &ServedResource, object: &Value, why: &str) -> Status {
    Status::forbidden(GROUP, served.resource.plural, meta::name(object), why)
}

/// What of `wanted` no rule of `held` covers, a verb and a resource at a time.
fn missing(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    wanted
        .iter()
        .flat_map(single)
        .filter(|one| !held.iter().any(|held| covers(held, one)))
        .collect()
}

/// A rule as rules of one verb, group, resource and name, or verb and path, each.
fn single(rule: &Rule) -> Vec<Rule> {
    let one = |text: &String| vec![text.clone()];
    let mut out = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part = Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..Rule::default()
                };
                if rule.resource_names.is_empty() {
                    out.push(part);
                    continue;
                }
                out.extend(rule.resource_names.iter().map(|name| Rule {
                    resource_names: one(name),
                    ..part.clone()
                }));
            }
        }
    }
    for path in &rule.non_resource_urls {
        out.extend(rule.verbs.iter().map(|verb| Rule {
            verbs: one(verb),
            non_resource_urls: one(path),
            ..Rule::default()
        }));
    }
    out
}

/// Whether a rule covers one that [`single`] made.
fn covers(held: &Rule, one: &Rule) -> bool {
    let in_list = |list: &[String], all: &[String]| {
        list.iter().any(|entry| entry == "*") || all.iter().all(|wanted| list.contains(wanted))
    };
    let resource = |wanted: &String| {
        held.resources.iter().any(|own| own == "*" || own == wanted)
            || wanted
                .split_once('/')
                .is_some_and(|(_, sub)| held.resources.contains(&format!("*/{sub}")))
    };
    let path = |wanted: &String| {
        held.non_resource_urls.iter().any(|own| {
            own == wanted
                || own
                    .strip_suffix('*')
                    .is_some_and(|prefix| wanted.starts_with(prefix.trim_end_matches('*')))
        })
    };
    in_list(&held.verbs, &one.verbs)
        && in_list(&held.api_groups, &one.api_groups)
        && one.resources.iter().all(resource)
        && one.non_resource_urls.iter().all(path)
        && (held.resource_names.is_empty()
            || (!one.resource_names.is_empty()
                && one
                    .resource_names
                    .iter()
                    .all(|name| held.resource_names.contains(name))))
}

/// Brings the verbs of one resource together again, for people to read.
fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let mut out = Vec::new();
    let mut by_resource: BTreeMap<(Vec<String>, Vec<String>, Vec<String>), Vec<String>> =
        BTreeMap::new();
    for rule in rules {
        if rule.resources.is_empty() {
            out.push(rule);
        } else {
            by_resource
                .entry((rule.api_groups, rule.resources, rule.resource_names))
                .or_default()
                .extend(rule.verbs);
        }
    }
    let compacted = by_resource.into_iter();
    out.extend(
        compacted.map(|((api_groups, resources, resource_names), verbs)| Rule {
            verbs,
            api_groups,
            resources,
            resource_names,
            ..Rule::default()
        }),
    );
    out
}

fn shown(rule: &Rule) -> String {
    let parts = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("{name}:{}", quoted(list)))
        .collect();
    format!("{{{}}}", parts.join(", "))
}

/// A list of texts as Go prints it with `%q`.
fn quoted(list: &[String]) -> String {
    let texts: Vec<_> = list.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn rule(value: Value) -> Rule {
        Rule::from_value(&value)
    }

    #[test]
    fn what_is_held_covers_its_parts_and_no_more() {
        let held = [
            rule(
                value!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]}),
            ),
            rule(
                value!({"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"], "resourceNames": ["web"]}),
            ),
            rule(value!({"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]})),
        ];
        let covered = |value| missing(&held, &[rule(value)]).is_empty();
        assert!(covered(
            value!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})
        ));
        assert!(covered(
            value!({"verbs": ["get"], "apiGroups": [""], "resources": ["x/scale"]})
        ));
        assert!(covered(
            value!({"verbs": ["get"], "nonResourceURLs": ["/metrics/x"]})
        ));
        assert!(covered(
            value!({"verbs": ["delete"], "apiGroups": ["apps"], "resources": ["y"], "resourceNames": ["web"]})
        ));
        for more in [
            value!({"verbs": ["watch"], "apiGroups": [""], "resources": ["pods"]}),
            value!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]}),
            value!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}),
            value!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["y"]}),
            value!({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}),
        ] {
            assert!(!covered(more.clone()), "{more:?}");
        }
    }

    #[test]
    fn missing_rights_are_shown_a_line_for_each_resource() {
        let wanted = rule(
            value!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
        );
        let lines: Vec<_> = compact(missing(&[], &[wanted])).iter().map(shown).collect();
        assert_eq!(
            lines,
            [r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}"#]
        );
    }
}
