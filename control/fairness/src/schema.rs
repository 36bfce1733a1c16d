//! Flow schemas: which level a request belongs to, and which flow in it.

use control_types::meta;
use control_types::value::Value;
use serde::Deserialize;

use crate::SpecError;

/// The properties of a request that decide about its flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Digest<'a> {
    /// The user's name.
    pub user: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
    /// Whether it is about a resource.
    pub is_resource: bool,
    /// The verb.
    pub verb: &'a str,
    /// API group.
    pub group: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
    /// Subresource, or empty.
    pub subresource: &'a str,
    /// Namespace, or empty.
    pub namespace: &'a str,
    /// The whole path.
    pub path: &'a str,
}

/// The distinguisher of flows within a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinguisher {
    /// Nothing: they are one flow.
    None,
    /// By the user.
    User,
    /// The namespace.
    Namespace,
}

/// A flow schema, ready to be matched.
#[derive(Clone, Debug)]
pub struct FlowSchema {
    /// Its name.
    pub name: String,
    /// Its uid, which responses contain.
    pub uid: String,
    /// The name of its priority level.
    pub level: String,
    /// Schemas are tried in rising order of this, then of names.
    pub precedence: i32,
    /// The distinguisher of its flows.
    pub distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Clone, Debug)]
enum Subject {
    Anybody,
    User(String),
    Group(String),
    /// Namespace and name of a service account; no name for all of the namespace.
    Account(String, Option<String>),
}

#[derive(Clone, Debug)]
struct ResourceRule {
    verbs: Names,
    groups: Names,
    resources: Names,
    namespaces: Names,
    cluster: bool,
}

#[derive(Clone, Debug)]
struct PathRule {
    verbs: Names,
    paths: Vec<String>,
}

/// A list of names; `None` stands for all names (`*`).
#[derive(Clone, Debug)]
struct Names(Option<Vec<String>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SchemaSpec {
    matching_precedence: i32,
    priority_level_configuration: SubjectName,
    distinguisher_method: Option<Method>,
    rules: Vec<RuleSpec>,
}

impl Default for SchemaSpec {
    fn default() -> Self {
        Self {
            matching_precedence: 1000,
            priority_level_configuration: SubjectName::default(),
            distinguisher_method: None,
            rules: Vec::new(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SubjectName {
    name: String,
    namespace: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Method {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RuleSpec {
    subjects: Vec<SubjectSpec>,
    resource_rules: Vec<ResourceSpec>,
    non_resource_rules: Vec<PathSpec>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SubjectSpec {
    kind: String,
    user: SubjectName,
    group: SubjectName,
    service_account: SubjectName,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ResourceSpec {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    cluster_scope: bool,
    namespaces: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PathSpec {
    verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    paths: Vec<String>,
}

// === impl FlowSchema ===

impl FlowSchema {
    /// Reads a stored object.
    ///
    /// # Errors
    /// When its spec is not of the shape of `flowcontrol.apiserver.k8s.io/v1`.
    pub fn read(object: &Value) -> Result<Self, SpecError> {
        let name = meta::name(object).to_owned();
        let spec = object.get("spec").cloned().unwrap_or_else(Value::object);
        let spec: SchemaSpec =
            control_types::value::from_value(&spec).map_err(|error| SpecError {
                name: name.clone(),
                why: error.to_string(),
            })?;
        let distinguisher = match &spec.distinguisher_method {
            None => Distinguisher::None,
            Some(method) if method.kind == "ByNamespace" => Distinguisher::Namespace,
            Some(_) => Distinguisher::User,
        };
        Ok(Self {
            name,
            uid: meta::uid(object).to_owned(),
            level: spec.priority_level_configuration.name,
            precedence: spec.matching_precedence,
            distinguisher,
            rules: spec.rules.into_iter().map(Rule::new).collect(),
        })
    }

    /// Whether the request is of this schema.
    #[must_use]
    pub fn matches(&self, digest: &Digest<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(digest))
    }

    /// Returns the distinguisher of the request's flow within this schema.
    #[must_use]
    pub fn flow<'a>(&self, digest: &Digest<'a>) -> &'a str {
        match self.distinguisher {
            Distinguisher::None => "",
            Distinguisher::User => digest.user,
            Distinguisher::Namespace => digest.namespace,
        }
    }
}

// === impl Rule ===

impl Rule {
    fn new(spec: RuleSpec) -> Self {
        Self {
            subjects: spec.subjects.into_iter().filter_map(Subject::new).collect(),
            resources: spec.resource_rules.into_iter().map(Into::into).collect(),
            paths: spec
                .non_resource_rules
                .into_iter()
                .map(Into::into)
                .collect(),
        }
    }

    fn matches(&self, digest: &Digest<'_>) -> bool {
        self.subjects.iter().any(|subject| subject.matches(digest))
            && if digest.is_resource {
                self.resources.iter().any(|rule| rule.matches(digest))
            } else {
                self.paths.iter().any(|rule| rule.matches(digest))
            }
    }
}

// === impl Subject ===

impl Subject {
    fn new(spec: SubjectSpec) -> Option<Self> {
        Some(match spec.kind.as_str() {
            "User" if spec.user.name == "*" => Self::Anybody,
            "User" => Self::User(spec.user.name),
            "Group" if spec.group.name == "*" => Self::Anybody,
            "Group" => Self::Group(spec.group.name),
            "ServiceAccount" => {
                let SubjectName { name, namespace } = spec.service_account;
                Self::Account(namespace, (name != "*").then_some(name))
            }
            _ => return None,
        })
    }

    fn matches(&self, digest: &Digest<'_>) -> bool {
        match self {
            Self::Anybody => true,
            Self::User(name) => name == digest.user,
            Self::Group(name) => digest.groups.iter().any(|group| group == name),
            Self::Account(namespace, name) => digest
                .user
                .strip_prefix("system:serviceaccount:")
                .and_then(|rest| rest.strip_prefix(namespace.as_str()))
                .and_then(|rest| rest.strip_prefix(':'))
                .is_some_and(|rest| name.as_ref().is_none_or(|name| name == rest)),
        }
    }
}

// === impl ResourceRule ===

impl From<ResourceSpec> for ResourceRule {
    fn from(spec: ResourceSpec) -> Self {
        Self {
            verbs: Names::new(spec.verbs),
            groups: Names::new(spec.api_groups),
            resources: Names::new(spec.resources),
            namespaces: Names::new(spec.namespaces),
            cluster: spec.cluster_scope,
        }
    }
}

impl ResourceRule {
    fn matches(&self, digest: &Digest<'_>) -> bool {
        self.verbs.have(digest.verb)
            && self.resources.have_resource(digest)
            && self.groups.have(digest.group)
            && if digest.namespace.is_empty() {
                self.cluster
            } else {
                self.namespaces.have(digest.namespace)
            }
    }
}

// === impl PathRule ===

impl From<PathSpec> for PathRule {
    fn from(spec: PathSpec) -> Self {
        Self {
            verbs: Names::new(spec.verbs),
            paths: spec.paths,
        }
    }
}

impl PathRule {
    fn matches(&self, digest: &Digest<'_>) -> bool {
        self.verbs.have(digest.verb)
            && self.paths.iter().any(|path| {
                let below = path.strip_suffix('*').unwrap_or(path);
                let below = below.strip_suffix('/').unwrap_or(below);
                path == "*"
                    || path == digest.path
                    || digest
                        .path
                        .strip_prefix(below)
                        .is_some_and(|rest| rest.starts_with('/'))
            })
    }
}

// === impl Names ===

impl Names {
    fn new(names: Vec<String>) -> Self {
        let all = names.len() == 1 && names[0] == "*";
        Self((!all).then_some(names))
    }

    fn have(&self, name: &str) -> bool {
        self.0
            .as_ref()
            .is_none_or(|names| names.iter().any(|known| known == name))
    }

    /// `pods` is the resource alone, `pods/log` one of its subresources.
    fn have_resource(&self, digest: &Digest<'_>) -> bool {
        let is = |name: &String| {
            if digest.subresource.is_empty() {
                return name == digest.resource;
            }
            name.strip_prefix(digest.resource)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| rest == digest.subresource)
        };
        self.0.as_ref().is_none_or(|names| names.iter().any(is))
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn schema(subjects: Value, resources: Value, paths: Value) -> FlowSchema {
        FlowSchema::read(&value!({
            "metadata": {"name": "x", "uid": "u"},
            "spec": {
                "matchingPrecedence": 7,
                "priorityLevelConfiguration": {"name": "l"},
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{"subjects": (subjects), "resourceRules": (resources), "nonResourceRules": (paths)}]
            }
        }))
        .expect("a schema")
    }

    fn everything() -> Value {
        value!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}])
    }

    const GET: Digest<'_> = Digest {
        user: "ann",
        groups: &[],
        is_resource: true,
        verb: "get",
        group: "",
        resource: "pods",
        subresource: "",
        namespace: "a",
        path: "/api/v1/namespaces/a/pods/x",
    };

    #[test]
    fn subjects_are_users_groups_and_service_accounts() {
        let groups = ["ops".to_owned()];
        let robot = "system:serviceaccount:a:robot";
        for (subject, user, expected) in [
            (
                value!({"kind": "User", "user": {"name": "ann"}}),
                "ann",
                true,
            ),
            (
                value!({"kind": "User", "user": {"name": "ann"}}),
                "bob",
                false,
            ),
            (value!({"kind": "User", "user": {"name": "*"}}), "bob", true),
            (
                value!({"kind": "Group", "group": {"name": "ops"}}),
                "ann",
                true,
            ),
            (
                value!({"kind": "Group", "group": {"name": "dev"}}),
                "ann",
                false,
            ),
            (
                value!({"kind": "Group", "group": {"name": "*"}}),
                "ann",
                true,
            ),
            (
                value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "robot"}}),
                robot,
                true,
            ),
            (
                value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "rob"}}),
                robot,
                false,
            ),
            (
                value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "*"}}),
                robot,
                true,
            ),
            (
                value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "", "name": "*"}}),
                robot,
                false,
            ),
            (
                value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "b", "name": "*"}}),
                robot,
                false,
            ),
        ] {
            let schema = schema(value!([(subject.clone())]), everything(), value!([]));
            let digest = Digest {
                user,
                groups: &groups,
                ..GET
            };
            assert_eq!(schema.matches(&digest), expected, "{subject:?} {user}");
        }
    }

    #[test]
    fn resource_rules_ask_for_verb_group_resource_and_scope() {
        let rules = value!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"], "namespaces": ["a"]}]);
        let schema = schema(
            value!([{"kind": "User", "user": {"name": "*"}}]),
            rules,
            value!([]),
        );
        for (digest, expected) in [
            (GET, true),
            (
                Digest {
                    verb: "watch",
                    ..GET
                },
                false,
            ),
            (
                Digest {
                    group: "apps",
                    ..GET
                },
                false,
            ),
            (
                Digest {
                    subresource: "log",
                    ..GET
                },
                true,
            ),
            (
                Digest {
                    subresource: "exec",
                    ..GET
                },
                false,
            ),
            (
                Digest {
                    namespace: "b",
                    ..GET
                },
                false,
            ),
            // All namespaces are asked for with the cluster's scope.
            (
                Digest {
                    namespace: "",
                    ..GET
                },
                false,
            ),
            (
                Digest {
                    is_resource: false,
                    ..GET
                },
                false,
            ),
        ] {
            assert_eq!(schema.matches(&digest), expected, "{digest:?}");
        }
        assert_eq!(schema.flow(&GET), "ann");
    }

    #[test]
    fn path_rules_hold_for_what_is_below() {
        let rules = value!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/logs/*"]}]);
        let schema = schema(
            value!([{"kind": "User", "user": {"name": "*"}}]),
            value!([]),
            rules,
        );
        for (path, expected) in [
            ("/healthz", true),
            ("/healthz/etcd", true),
            ("/healthzz", false),
            ("/logs/a/b", true),
            ("/logs", false),
            ("/metrics", false),
        ] {
            let digest = Digest {
                is_resource: false,
                path,
                ..GET
            };
            assert_eq!(schema.matches(&digest), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_schema_is_an_error_that_names_it() {
        let broken = value!({"metadata": {"name": "x"}, "spec": {"rules": 7}});
        let error = FlowSchema::read(&broken).expect_err("refused");
        assert!(error.to_string().contains("`x`"), "{error}");
    }
}
