//! The roles and bindings that every cluster has from the start.

use control_types::value;
use control_types::value::Value;

/// The table; its format is explained at its top.
const POLICY: &str = include_str!("policy.txt");

const RBAC: &str = "rbac.authorization.k8s.io";
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Returns the objects: ClusterRoles, Roles, ClusterRoleBindings, RoleBindings, complete
/// with labels and the annotation that makes the server reconcile them. The rules of an
/// aggregated role are those of its parts.
#[must_use]
pub fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    for line in POLICY
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(rule) = line.strip_prefix("  ") {
            let role = objects.last_mut().map(|role| {
                role.make_object()
                    .get_or_insert_with("rules", || value!([]))
            });
            role.into_iter()
                .for_each(|rules| rules.make_array().push(self::rule(rule)));
        } else {
            objects.extend(object(line));
        }
    }
    aggregate(&mut objects);
    objects
}

/// The rules of node agents, which the node authorizer applies without any
/// binding.
#[must_use]
pub fn node_rules() -> Vec<crate::Rule> {
    let node = objects().into_iter().find(|object| {
        object.str_at(&["kind"]) == Some("ClusterRole")
            && object.str_at(&["metadata", "name"]) == Some("system:node")
    });
    node.iter()
        .flat_map(|role| role.items_at(&["rules"]))
        .map(crate::Rule::from_value)
        .collect()
}

fn object(line: &str) -> Option<Value> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let place = words.next()?;
    let mut labels = value!({ "kubernetes.io/bootstrapping": "rbac-defaults" });
    let mut sources = Vec::new();
    let mut object = value!({ "apiVersion": "rbac.authorization.k8s.io/v1" });
    object.insert("kind", kind);
    let mut metadata = value!({});
    match place.split_once('/') {
        Some((namespace, name)) => {
            metadata.insert("name", name);
            metadata.insert("namespace", namespace);
        }
        None => {
            metadata.insert("name", place);
        }
    }
    if kind.ends_with("Binding") {
        let (role_kind, role) = words.next()?.split_once(':')?;
        let mut role_ref = value!({});
        role_ref.insert("apiGroup", RBAC);
        role_ref.insert("kind", role_kind);
        role_ref.insert("name", role);
        object.insert("roleRef", role_ref);
        let subjects: Vec<Value> = words.filter_map(subject).collect();
        if !subjects.is_empty() {
            object.insert("subjects", subjects);
        }
    } else {
        for word in words {
            if let Some(target) = word.strip_prefix('+') {
                labels.insert(format!("{AGGREGATE}{target}").as_str(), "true");
            } else if let Some(source) = word.strip_prefix('<') {
                let mut selector = value!({});
                selector.set_path(&["matchLabels", &format!("{AGGREGATE}{source}")], "true");
                sources.push(selector);
            }
        }
    }
    if !sources.is_empty() {
        object.set_path(&["aggregationRule", "clusterRoleSelectors"], sources);
    }
    metadata.insert("labels", labels);
    metadata.insert(
        "annotations",
        value!({ "rbac.authorization.kubernetes.io/autoupdate": "true" }),
    );
    object.insert("metadata", metadata);
    Some(object)
}

fn subject(word: &str) -> Option<Value> {
    let (kind, name) = word.split_once(':')?;
    let mut subject = value!({});
    match kind {
        "sa" => {
            let (namespace, name) = name.split_once('/')?;
            subject.insert("kind", "ServiceAccount");
            subject.insert("name", name);
            subject.insert("namespace", namespace);
        }
        "user" | "group" => {
            subject.insert("apiGroup", RBAC);
            subject.insert("kind", if kind == "user" { "User" } else { "Group" });
            subject.insert("name", name);
        }
        _ => return None,
    }
    Some(subject)
}

fn rule(line: &str) -> Value {
    let list = |words: &str| -> Vec<Value> {
        words
            .split(',')
            .map(|word| Value::from(if word == "\"\"" { "" } else { word }))
            .collect()
    };
    let mut rule = value!({});
    let mut words = line.split(' ');
    let verbs = words.next().unwrap_or_default();
    let rest: Vec<_> = words.collect();
    if let Some(groups) = rest.first().and_then(|word| word.strip_prefix('@')) {
        rule.insert("apiGroups", list(groups));
        if let Some(names) = rest.get(2).and_then(|word| word.strip_prefix('=')) {
            rule.insert("resourceNames", list(names));
        }
        rule.insert("resources", list(rest.get(1).copied().unwrap_or_default()));
    } else {
        rule.insert(
            "nonResourceURLs",
            rest.into_iter().map(Value::from).collect::<Vec<_>>(),
        );
    }
    rule.insert("verbs", list(verbs));
    rule
}

/// Gives roles that are made of others the rules of those, which may be made of
/// others themselves.
fn aggregate(objects: &mut [Value]) {
    // Deep enough for any chain in the table: admin of edit of view.
    for _ in 0..4 {
        for at in 0..objects.len() {
            let selectors: Vec<String> = objects[at]
                .items_at(&["aggregationRule", "clusterRoleSelectors"])
                .iter()
                .filter_map(|selector| {
                    selector
                        .get("matchLabels")?
                        .as_object()?
                        .keys()
                        .next()
                        .map(ToString::to_string)
                })
                .collect();
            if selectors.is_empty() {
                continue;
            }
            let mut rules: Vec<Value> = Vec::new();
            for selector in &selectors {
                for other in objects.iter() {
                    if other.str_at(&["metadata", "labels", selector]).is_none() {
                        continue;
                    }
                    for rule in other.items_at(&["rules"]) {
                        if !rules.contains(rule) {
                            rules.push(rule.clone());
                        }
                    }
                }
            }
            objects[at].insert("rules", rules);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, Rbac, User};

    fn may(
        rbac: &Rbac,
        user: &User,
        verb: &str,
        group: &str,
        resource: &str,
        namespace: &str,
    ) -> bool {
        let question = Attributes {
            user: user.clone(),
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            is_resource_request: true,
            ..Attributes::default()
        };
        rbac.allows(&question)
    }

    #[test]
    fn every_binding_names_a_role_of_the_table_and_every_role_has_rules() {
        let objects = objects();
        let has = |kind: &str, namespace: Option<&str>, name: &str| {
            objects.iter().any(|object| {
                object.str_at(&["kind"]) == Some(kind)
                    && object.str_at(&["metadata", "namespace"]) == namespace
                    && object.str_at(&["metadata", "name"]) == Some(name)
            })
        };
        for object in &objects {
            let name = object.str_at(&["metadata", "name"]).expect("a name");
            let Some(role) = object.str_at(&["roleRef", "name"]) else {
                assert!(!object.items_at(&["rules"]).is_empty(), "{name}");
                continue;
            };
            let kind = object.str_at(&["roleRef", "kind"]).expect("a kind");
            let namespace = if kind == "Role" {
                object.str_at(&["metadata", "namespace"])
            } else {
                None
            };
            assert!(has(kind, namespace, role), "{name} binds {kind} {role}");
        }
    }

    #[test]
    fn components_may_do_their_work_and_no_more() {
        let rbac = Rbac::new(&objects());
        let scheduler = User::named("system:kube-scheduler", []);
        assert!(may(&rbac, &scheduler, "list", "", "pods", ""));
        assert!(!may(&rbac, &scheduler, "get", "", "secrets", "default"));
        let replicas = User::service_account("kube-system", "replicaset-controller", "");
        assert!(may(&rbac, &replicas, "create", "", "pods", "default"));
        assert!(!may(
            &rbac,
            &replicas,
            "create",
            "apps",
            "deployments",
            "default"
        ));
        assert!(!may(
            &rbac,
            &User::anonymous(),
            "list",
            "",
            "pods",
            "default"
        ));
        assert!(may(
            &rbac,
            &User::named("root", ["system:masters"]),
            "delete",
            "",
            "nodes",
            ""
        ));
    }

    #[test]
    fn anonymous_users_see_health_and_version_only() {
        let rbac = Rbac::new(&objects());
        let may = |path: &str| {
            let question = Attributes {
                user: User::anonymous(),
                verb: "get".to_owned(),
                path: path.to_owned(),
                ..Attributes::default()
            };
            rbac.allows(&question)
        };
        assert!(may("/healthz") && may("/readyz") && may("/version"));
        assert!(!may("/api") && !may("/metrics") && !may("/openapi/v3"));
    }

    #[test]
    fn admin_has_all_that_edit_has_and_edit_all_that_view_has() {
        let objects = objects();
        let rules = |name: &str| {
            let role = objects
                .iter()
                .find(|object| object.str_at(&["metadata", "name"]) == Some(name));
            role.expect("a role").items_at(&["rules"]).to_vec()
        };
        let (admin, edit, view) = (rules("admin"), rules("edit"), rules("view"));
        assert!(view.iter().all(|rule| edit.contains(rule)));
        assert!(edit.iter().all(|rule| admin.contains(rule)));
        assert!(view.len() < edit.len() && edit.len() < admin.len());
    }
}
