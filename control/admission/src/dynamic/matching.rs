//! Whether a policy or webhook is about a request: rules, selectors, equivalence.
//!
//! What is configured is read once into [`Constraints`]; [`Constraints::find`] then
//! asks per request. The order of its questions is that of kube-apiserver's matchers,
//! so that a selector that cannot be answered only matters where the rules match.

use std::sync::Arc;

use control_types::labels::{self, Selector};
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;

use control_strategy::ServedVersion;

use crate::attributes::Attributes;
use crate::operation::Operation;

/// Which requests a policy, a binding or a webhook is about. An absent selector selects
/// nothing, as everywhere; defaults make it an empty one.
#[derive(Clone, Debug)]
pub struct Constraints {
    namespaces: Result<Selector, labels::Error>,
    objects: Result<Selector, labels::Error>,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    exact: bool,
    /// Whether no rules mean every request (of policies' `matchResources`) or none.
    open: bool,
}

/// A rule: operations on resources.
#[derive(Clone, Debug)]
pub struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource.
    resources: Vec<(String, String)>,
    scope: Scope,
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Any,
    Namespaced,
    Cluster,
    /// A word that nobody knows.
    Unknown,
}

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub struct RequestedResource<'a> {
    /// The operation.
    pub operation: Operation,
    /// API group.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Plural.
    pub plural: &'a str,
    /// Subresource, or empty.
    pub subresource: &'a str,
    /// Namespace, or empty.
    pub namespace: &'a str,
    /// Name, or empty.
    pub name: &'a str,
}

impl<'a> RequestedResource<'a> {
    /// What a request asks of a resource: its own, or one that is the same.
    #[must_use]
    pub fn from_attributes(attributes: &Attributes<'a>, served: &'a ServedVersion) -> Self {
        Self {
            operation: attributes.operation,
            group: served.resource.group,
            version: served.resource.version,
            plural: served.resource.plural,
            subresource: attributes.subresource,
            namespace: attributes.namespace,
            name: attributes.name,
        }
    }
}

impl Constraints {
    /// Reads those of a webhook.
    #[must_use]
    pub fn of_webhook(hook: &Value) -> Self {
        Self {
            namespaces: Selector::from_object(hook.get("namespaceSelector")),
            objects: Selector::from_object(hook.get("objectSelector")),
            rules: rules(hook, "rules"),
            excluded: Vec::new(),
            exact: hook.str_at(&["matchPolicy"]) != Some("Equivalent"),
            open: false,
        }
    }

    /// Reads `matchConstraints` of a policy or `matchResources` of a binding.
    #[must_use]
    pub fn of_policy(resources: &Value) -> Self {
        Self {
            namespaces: Selector::from_object(resources.get("namespaceSelector")),
            objects: Selector::from_object(resources.get("objectSelector")),
            rules: rules(resources, "resourceRules"),
            excluded: rules(resources, "excludeResourceRules"),
            exact: resources.str_at(&["matchPolicy"]) != Some("Equivalent"),
            open: true,
        }
    }

    /// The resource as which a request is matched: its own, or one that is the same
    /// under another name. None if this is not about it.
    ///
    /// # Errors
    /// 404 when its namespace is not there, 500 when a selector cannot be read.
    pub fn find(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<Arc<ServedVersion>>, Status> {
        let namespace = self.selects_namespace(attributes, object);
        if let Ok(false) = namespace {
            return Ok(None);
        }
        let selected = self.selects_object(object, old);
        if let Ok(false) = selected {
            return Ok(None);
        }
        if self.covered(&self.excluded, attributes).is_some() {
            return Ok(None);
        }
        let found = if self.rules.is_empty() && self.open {
            Some(Arc::clone(attributes.served))
        } else {
            self.covered(&self.rules, attributes)
        };
        let Some(found) = found else {
            return Ok(None);
        };
        namespace?;
        selected?;
        Ok(Some(found))
    }

    fn covered(&self, rules: &[Rule], attributes: &Attributes<'_>) -> Option<Arc<ServedVersion>> {
        let own = RequestedResource::from_attributes(attributes, attributes.served);
        if rules.iter().any(|rule| rule.matches(own)) {
            return Some(Arc::clone(attributes.served));
        }
        if self.exact || !rules.iter().any(|rule| rule.matches_elsewhere(own)) {
            return None;
        }
        let subresource = attributes.subresource;
        let mut same = attributes.cluster.equivalents(attributes.served);
        same.retain(|other| subresource.is_empty() || other.subresource(subresource).is_some());
        // Earlier rules come first.
        rules.iter().find_map(|rule| {
            let mut others = same
                .iter()
                .filter(|other| other.api_version != attributes.served.api_version);
            others
                .find(|other| rule.matches(RequestedResource::from_attributes(attributes, other)))
                .map(Arc::clone)
        })
    }

    fn selects_namespace(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        let name = attributes.namespace;
        let plural = attributes.served.resource.plural;
        if name.is_empty() && plural != "namespaces" {
            // What lives in no namespace is not excused by one.
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if plural == "namespaces"
            && attributes.subresource.is_empty()
            && written
            && let Some(object) = object
        {
            return Ok(selector.matches(object));
        }
        let there = attributes.cluster.get("", "namespaces", name);
        let there = there.ok_or_else(|| Status::not_found("", "namespaces", name))?;
        Ok(selector.matches_with(|key| there.label(key)))
    }

    fn selects_object(&self, object: Option<&Value>, old: Option<&Value>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        // What has no metadata, such as options, has no labels to select.
        let selects = |object: &Value| meta::metadata(object).is_some() && selector.matches(object);
        Ok(object.is_some_and(selects) || old.is_some_and(selects))
    }
}

fn rules(of: &Value, field: &str) -> Vec<Rule> {
    of.items_at(&[field]).iter().map(Rule::read).collect()
}

fn texts(rule: &Value, field: &str) -> Vec<String> {
    let items = rule.items_at(&[field]).iter();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn is_in(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

// === impl Rule ===

impl Rule {
    /// Reads `RuleWithOperations` or `NamedRuleWithOperations`.
    #[must_use]
    pub fn read(rule: &Value) -> Self {
        let resources = texts(rule, "resources")
            .into_iter()
            .map(|text| match text.split_once('/') {
                Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
                None => (text, String::new()),
            })
            .collect();
        Self {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources,
            scope: match rule.str_at(&["scope"]) {
                None | Some("*") => Scope::Any,
                Some("Namespaced") => Scope::Namespaced,
                Some("Cluster") => Scope::Cluster,
                Some(_) => Scope::Unknown,
            },
            names: texts(rule, "resourceNames"),
        }
    }

    /// Whether the rule is about what is asked.
    #[must_use]
    pub fn matches(&self, asked: RequestedResource<'_>) -> bool {
        self.matches_elsewhere(asked)
            && is_in(&self.groups, asked.group)
            && is_in(&self.versions, asked.version)
    }

    /// As [`Rule::matches`], whatever the group and version: those of resources that
    /// are the same differ in nothing else.
    fn matches_elsewhere(&self, asked: RequestedResource<'_>) -> bool {
        let operation = asked.operation.as_str();
        let is_namespace = (asked.group, asked.version, asked.plural) == ("", "v1", "namespaces");
        let is_of_cluster = is_namespace || asked.namespace.is_empty();
        let in_scope = match self.scope {
            Scope::Any => true,
            Scope::Namespaced => !is_of_cluster,
            Scope::Cluster => is_of_cluster,
            Scope::Unknown => false,
        };
        in_scope
            && is_in(&self.operations, operation)
            && self.resources.iter().any(|(resource, subresource)| {
                (resource == "*" || resource == asked.plural)
                    && (subresource == "*" || subresource == asked.subresource)
            })
            && (self.names.is_empty() || self.names.iter().any(|name| name == asked.name))
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn asked<'a>(plural: &'a str, subresource: &'a str) -> RequestedResource<'a> {
        RequestedResource {
            operation: Operation::Create,
            group: "",
            version: "v1",
            plural,
            subresource,
            namespace: "n",
            name: "a",
        }
    }

    fn rule(resources: &[&str], more: Value) -> Rule {
        let resources: Vec<Value> = resources.iter().map(|text| Value::from(*text)).collect();
        let mut rule = value!({
            "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": (resources)
        });
        for (key, value) in more
            .as_object()
            .into_iter()
            .flat_map(control_types::Map::iter)
        {
            rule.insert(key.as_str().to_owned(), value.clone());
        }
        Rule::read(&rule)
    }

    #[test]
    fn resources_and_subresources_match_by_name_or_star() {
        // The resources of a rule; what is asked; whether that matches.
        let table: &[(&[&str], (&str, &str), bool)] = &[
            (&["pods"], ("pods", ""), true),
            (&["pods"], ("pods", "status"), false),
            (&["pods/status"], ("pods", "status"), true),
            (&["pods/status"], ("pods", ""), false),
            // A star behind the slash means the resource itself as well.
            (&["pods/*"], ("pods", ""), true),
            (&["pods/*"], ("pods", "exec"), true),
            (&["pods/*"], ("services", ""), false),
            (&["*"], ("pods", ""), true),
            (&["*"], ("pods", "status"), false),
            (&["*/*"], ("pods", "status"), true),
            (&["*/*"], ("pods", ""), true),
            (&["*/scale"], ("pods", "scale"), true),
            (&["*/scale"], ("pods", ""), false),
            (&["services", "pods"], ("pods", ""), true),
            (&[], ("pods", ""), false),
        ];
        for (resources, (plural, subresource), wanted) in table {
            let rule = rule(resources, Value::object());
            assert_eq!(
                rule.matches(asked(plural, subresource)),
                *wanted,
                "{resources:?} and {plural}/{subresource}"
            );
        }
    }

    #[test]
    fn groups_versions_operations_and_names_must_be_listed() {
        let pod = asked("pods", "");
        let table = [
            (value!({}), true),
            (value!({"apiGroups": ["*"]}), true),
            (value!({"apiGroups": ["apps"]}), false),
            (value!({"apiGroups": []}), false),
            (value!({"apiVersions": ["v2", "*"]}), true),
            (value!({"apiVersions": ["v2"]}), false),
            (value!({"operations": ["*"]}), true),
            (value!({"operations": ["UPDATE", "DELETE"]}), false),
            (value!({"resourceNames": ["a", "b"]}), true),
            (value!({"resourceNames": ["b"]}), false),
        ];
        for (more, wanted) in table {
            let rule = rule(&["pods"], more.clone());
            assert_eq!(rule.matches(pod), wanted, "{more:?}");
        }
    }

    #[test]
    fn scope_tells_namespaces_from_what_lives_in_them() {
        let pod = asked("pods", "");
        let node = RequestedResource {
            namespace: "",
            ..asked("nodes", "")
        };
        // Requests about a namespace carry its name as their namespace.
        let namespace = asked("namespaces", "");
        for (scope, wanted) in [
            ("*", [true, true, true]),
            ("Namespaced", [true, false, false]),
            ("Cluster", [false, true, true]),
            ("Galactic", [false, false, false]),
        ] {
            let rule = rule(&["*"], value!({ "scope": (scope) }));
            assert_eq!(
                [pod, node, namespace].map(|asked| rule.matches(asked)),
                wanted,
                "{scope}"
            );
        }
    }

    #[test]
    fn absent_selectors_select_nothing_and_empty_ones_all() {
        let with =
            |selector: Value| Constraints::of_webhook(&value!({ "objectSelector": (selector) }));
        let object = value!({"metadata": {"labels": {"a": "b"}}});
        let options = value!({"kind": "PodExecOptions"});
        assert_eq!(
            with(Value::object()).selects_object(Some(&options), None),
            Ok(true)
        );
        assert_eq!(
            with(Value::Null).selects_object(Some(&object), None),
            Ok(false)
        );
        let labelled = with(value!({"matchLabels": {"a": "b"}}));
        assert_eq!(labelled.selects_object(Some(&object), None), Ok(true));
        // What was selected before the change still is.
        assert_eq!(
            labelled.selects_object(Some(&value!({"metadata": {}})), Some(&object)),
            Ok(true)
        );
        assert_eq!(labelled.selects_object(Some(&options), None), Ok(false));
        let absent = with(value!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}));
        assert_eq!(absent.selects_object(Some(&options), None), Ok(false));
        let broken = with(value!({"matchExpressions": [{"key": "a", "operator": "Near"}]}));
        assert_eq!(
            broken
                .selects_object(Some(&object), None)
                .map_err(|status| status.code),
            Err(500)
        );
    }
}
