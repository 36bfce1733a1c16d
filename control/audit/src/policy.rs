//! Which requests are written down, and how much of them (`audit.k8s.io/v1`
//! `Policy`).

use std::path::Path;

use control_access::User;
use control_types::value::Value;
use control_types::yaml;
use serde::Deserialize;

use control_request::RequestInfo;

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("the audit policy `{path}` cannot be read")]
    File {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What is in it is no policy.
    #[error("the audit policy is none: {0}")]
    Wrong(String),
}

/// Error for a rule that makes no sense.
#[derive(Debug, thiserror::Error)]
enum RuleError {
    #[error("rules cannot apply to both regular resources and non-resource URLs")]
    BothKinds,
    #[error("nonResourceURLs: `{path}` must begin with a '/' character")]
    RelativePath { path: String },
    #[error("nonResourceURLs: wildcards '*' must be the final character of `{path}`")]
    Wildcard { path: String },
    #[error("resources: using resourceNames requires at least one resource")]
    NoResource,
}

/// How much is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum Level {
    /// Nothing.
    None,
    /// Who asked for what, and what became of it.
    Metadata,
    /// That, and what the client sent.
    Request,
    /// That, and what it was answered.
    RequestResponse,
}

/// When it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Stage {
    /// The request came.
    RequestReceived,
    /// The answer of a long request began.
    ResponseStarted,
    /// The answer ended.
    ResponseComplete,
    /// The server failed.
    Panic,
}

/// A policy, validated.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

/// What a policy says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How much of it is written down.
    pub level: Level,
    /// At which stages not, a bit each.
    omitted: u8,
    /// Whether `managedFields` of objects are left out.
    pub omit_managed_fields: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<Resources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    paths: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

// === impl Policy ===

impl Policy {
    /// Reads a policy file, YAML or JSON.
    ///
    /// # Errors
    /// When there is none, or when what it says makes no sense.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let bytes = std::fs::read(path).map_err(|source| PolicyError::File {
            path: path.display().to_string(),
            source,
        })?;
        Self::parse(&bytes)
    }

    /// Reads a policy.
    ///
    /// # Errors
    /// When what it says makes no sense.
    pub fn parse(bytes: &[u8]) -> Result<Self, PolicyError> {
        let wrong = PolicyError::Wrong;
        let document = yaml::read(bytes).map_err(|error| wrong(error.to_string()))?;
        let spec: Spec = control_types::value::from_value(&document.value)
            .map_err(|error| wrong(error.to_string()))?;
        if (&*spec.api_version, &*spec.kind) != ("audit.k8s.io/v1", "Policy") {
            return Err(wrong(format!(
                "it is a `{}` of `{}`, and must be a `Policy` of `audit.k8s.io/v1`",
                spec.kind, spec.api_version
            )));
        }
        if spec.rules.is_empty() {
            return Err(wrong("it has no rules".into()));
        }
        for (at, rule) in spec.rules.iter().enumerate() {
            rule.validate()
                .map_err(|error| wrong(format!("rules[{at}]: {error}")))?;
        }
        Ok(Self {
            rules: spec.rules,
            omit_stages: spec.omit_stages,
            omit_managed_fields: spec.omit_managed_fields,
        })
    }

    /// What is written down of a request: as the first rule says that is about it,
    /// nothing if none is.
    #[must_use]
    pub fn judge(&self, info: &RequestInfo, user: Option<&User>) -> Verdict {
        let rule = self.rules.iter().find(|rule| rule.matches(info, user));
        let own = rule.map_or(&[][..], |rule| &rule.omit_stages);
        let stages = self.omit_stages.iter().chain(own);
        Verdict {
            level: rule.map_or(Level::None, |rule| rule.level),
            omitted: stages.fold(0, |all, stage| all | stage.bit()),
            omit_managed_fields: rule
                .and_then(|rule| rule.omit_managed_fields)
                .unwrap_or(self.omit_managed_fields),
        }
    }
}

// === impl Rule ===

impl Rule {
    fn validate(&self) -> Result<(), RuleError> {
        let of_resources = !(self.resources.is_empty() && self.namespaces.is_empty());
        if of_resources && !self.paths.is_empty() {
            return Err(RuleError::BothKinds);
        }
        for path in self.paths.iter().filter(|path| *path != "*") {
            if !path.starts_with('/') {
                return Err(RuleError::RelativePath { path: path.clone() });
            }
            if path.trim_end_matches('*').contains('*') || path.ends_with("**") {
                return Err(RuleError::Wildcard { path: path.clone() });
            }
        }
        for resources in &self.resources {
            if !resources.resource_names.is_empty() && resources.resources.is_empty() {
                return Err(RuleError::NoResource);
            }
        }
        Ok(())
    }

    fn matches(&self, info: &RequestInfo, user: Option<&User>) -> bool {
        let listed = |list: &[String], name: &str| list.iter().any(|known| known == name);
        if !self.users.is_empty() && !user.is_some_and(|user| listed(&self.users, &user.name)) {
            return false;
        }
        let mut groups = user.into_iter().flat_map(|user| &user.groups);
        if !self.user_groups.is_empty() && !groups.any(|group| listed(&self.user_groups, group)) {
            return false;
        }
        if !self.verbs.is_empty() && !listed(&self.verbs, info.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return info.is_resource
                && (self.namespaces.is_empty() || listed(&self.namespaces, &info.namespace))
                && (self.resources.is_empty()
                    || self.resources.iter().any(|one| one.matches(info)));
        }
        if !self.paths.is_empty() {
            return !info.is_resource
                && self.paths.iter().any(|path| {
                    path == "*"
                        || *path == info.path
                        || path
                            .strip_suffix('*')
                            .is_some_and(|prefix| info.path.starts_with(prefix))
                });
        }
        true
    }
}

// === impl Resources ===

impl Resources {
    fn matches(&self, info: &RequestInfo) -> bool {
        if self.group != info.group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !self.resource_names.contains(&info.name) {
            return false;
        }
        self.resources.iter().any(|rule| {
            if rule == "*" {
                return true;
            }
            match rule.split_once('/') {
                None => info.subresource.is_empty() && *rule == info.resource,
                Some(("*", sub)) => !sub.is_empty() && sub == info.subresource,
                Some((resource, "*")) => resource == info.resource,
                Some((resource, sub)) => resource == info.resource && sub == info.subresource,
            }
        })
    }
}

// === impl Stage ===

impl Stage {
    fn bit(self) -> u8 {
        match self {
            Self::RequestReceived => 1,
            Self::ResponseStarted => 2,
            Self::ResponseComplete => 4,
            Self::Panic => 8,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

// === impl Level ===

impl Level {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// Whether a stage is written down.
    #[must_use]
    pub fn wants(&self, stage: Stage) -> bool {
        self.level != Level::None && self.omitted & stage.bit() == 0
    }
}

/// Takes `managedFields` out of an object, of the items of a list, or of the rows of
/// a table.
pub(super) fn without_managed_fields(object: &mut Value) {
    object.remove_path(&["metadata", "managedFields"]);
    if let Some(items) = object.get_mut("items") {
        for item in items.make_array() {
            item.remove_path(&["metadata", "managedFields"]);
        }
    }
    if let Some(rows) = object.get_mut("rows") {
        for row in rows.make_array() {
            row.remove_path(&["object", "metadata", "managedFields"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;
    use http::Method;

    use super::*;

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  users: ["system:kube-proxy"]
  verbs: ["watch"]
  resources:
  - group: ""
    resources: ["endpoints", "services", "services/status"]
- level: None
  userGroups: ["system:authenticated"]
  nonResourceURLs: ["/api*", "/version"]
- level: Request
  resources:
  - group: ""
    resources: ["configmaps"]
    resourceNames: ["here"]
  namespaces: ["kube-system"]
  omitManagedFields: false
- level: Metadata
  resources:
  - group: "*"
    resources: ["*/log", "secrets/*"]
  omitStages: [Panic]
- level: RequestResponse
  resources:
  - group: "apps"
"#;

    fn judge(method: Method, path: &str, user: &User) -> Verdict {
        let (path, query) = path
            .split_once('?')
            .map_or((path, None), |(path, query)| (path, Some(query)));
        let info = RequestInfo::parse(&method, path, query);
        Policy::parse(POLICY.as_bytes())
            .expect("a policy")
            .judge(&info, Some(user))
    }

    #[test]
    fn the_first_rule_that_is_about_a_request_decides() {
        let ann = User::named("ann", []);
        let proxy = User::named("system:kube-proxy", []);
        for (path, user, level) in [
            ("/api/v1/services?watch=1", &proxy, Level::None),
            ("/api/v1/services", &proxy, Level::None),
            ("/apis/apps/v1/deployments", &ann, Level::RequestResponse),
            (
                "/apis/apps/v1/namespaces/a/deployments/x/scale",
                &ann,
                Level::RequestResponse,
            ),
            (
                "/api/v1/namespaces/kube-system/configmaps/here",
                &ann,
                Level::Request,
            ),
            (
                "/api/v1/namespaces/kube-system/configmaps/there",
                &ann,
                Level::None,
            ),
            ("/api/v1/namespaces/a/configmaps/here", &ann, Level::None),
            ("/api/v1/namespaces/a/pods/p/log", &ann, Level::Metadata),
            ("/api/v1/namespaces/a/secrets/s", &ann, Level::Metadata),
            ("/version", &ann, Level::None),
            ("/metrics", &ann, Level::None),
        ] {
            assert_eq!(judge(Method::GET, path, user).level, level, "{path}");
        }
    }

    #[test]
    fn stages_of_policy_and_rule_are_left_out_together() {
        let ann = User::named("ann", []);
        let verdict = judge(Method::GET, "/api/v1/namespaces/a/secrets/s", &ann);
        assert!(!verdict.wants(Stage::RequestReceived) && !verdict.wants(Stage::Panic));
        assert!(verdict.wants(Stage::ResponseComplete));
        assert!(verdict.omit_managed_fields);
        let here = "/api/v1/namespaces/kube-system/configmaps/here";
        assert!(!judge(Method::GET, here, &ann).omit_managed_fields);
        let none = judge(Method::GET, "/version", &ann);
        assert!(!none.wants(Stage::ResponseComplete));
    }

    #[test]
    fn a_policy_that_makes_no_sense_is_refused() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        for (text, word) in [
            ("kind: Policy\nrules: [{level: None}]", "audit.k8s.io/v1"),
            (&format!("{head}rules: []"), "no rules"),
            (&format!("{head}rules: [{{level: Loud}}]"), "Loud"),
            (
                &format!("{head}rules: [{{level: None, nonResourceURLs: [\"a\"]}}]"),
                "begin with",
            ),
            (
                &format!("{head}rules: [{{level: None, nonResourceURLs: [\"/a*b\"]}}]"),
                "final",
            ),
            (
                &format!(
                    "{head}rules: [{{level: None, nonResourceURLs: [\"/a\"], namespaces: [b]}}]"
                ),
                "both",
            ),
            (
                &format!("{head}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]"),
                "resourceNames",
            ),
            ("{", ""),
        ] {
            let error = Policy::parse(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn managed_fields_go_from_objects_lists_and_tables() {
        let object = value!({"metadata": {"name": "a", "managedFields": []}});
        let bare = value!({"metadata": {"name": "a"}});
        for (mut full, expected) in [
            (object.clone(), bare.clone()),
            (
                value!({"items": [(object.clone())]}),
                value!({"items": [(bare.clone())]}),
            ),
            (
                value!({"rows": [{"object": (object)}]}),
                value!({"rows": [{"object": (bare)}]}),
            ),
        ] {
            without_managed_fields(&mut full);
            assert_eq!(full, expected);
        }
    }
}
