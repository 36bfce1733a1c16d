//! Attribute-based access control: one policy a line, as `--authorization-policy-file`
//! has them (`abac.authorization.kubernetes.io/v1beta1`).

use serde::Deserialize;

use crate::attributes::Attributes;
use crate::rbac::Rule;
use crate::user::User;

/// The policies of a file.
#[derive(Debug, Clone, Default)]
pub struct Abac(Vec<Policy>);

/// Error for an unusable file.
#[derive(Debug, thiserror::Error)]
#[error("error reading policy file, line {line}: {text}: {why}")]
pub struct AbacError {
    line: usize,
    text: String,
    why: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Policy {
    user: String,
    group: String,
    readonly: bool,
    #[serde(rename = "apiGroup")]
    api_group: String,
    namespace: String,
    resource: String,
    #[serde(rename = "nonResourcePath")]
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionedPolicy {
    api_version: String,
    kind: String,
    #[serde(default)]
    spec: Policy,
}

// === impl Abac ===

impl Abac {
    /// Reads a file: JSON objects, one a line; lines that begin with `#` are
    /// comments.
    ///
    /// # Errors
    /// The first line that is no policy. Policies without version, which
    /// kube-apiserver warns of, are refused: they would allow more than they say.
    pub fn parse(text: &str) -> Result<Self, AbacError> {
        let mut all = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let wrong = |why: String| AbacError {
                line: at + 1,
                text: trimmed.to_owned(),
                why,
            };
            let policy: VersionedPolicy =
                serde_json::from_str(trimmed).map_err(|error| wrong(error.to_string()))?;
            let known = policy.api_version == "abac.authorization.kubernetes.io/v1beta1";
            if !known || policy.kind != "Policy" {
                let why =
                    "expected apiVersion abac.authorization.kubernetes.io/v1beta1 and kind Policy";
                return Err(wrong(why.to_owned()));
            }
            all.push(policy.spec);
        }
        Ok(Self(all))
    }

    /// Whether a policy allows the request.
    #[must_use]
    pub fn allows(&self, attributes: &Attributes) -> bool {
        self.0.iter().any(|policy| policy.allows(attributes))
    }

    /// The rules that hold for the user in a namespace.
    #[must_use]
    pub fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        let mut rules = Vec::new();
        for policy in &self.0 {
            let here = policy.namespace == "*" || policy.namespace == namespace;
            if !here || !policy.is_for(user) {
                continue;
            }
            let verbs: Vec<String> = if policy.readonly {
                ["get", "list", "watch"].map(str::to_owned).into()
            } else {
                vec!["*".to_owned()]
            };
            if !policy.resource.is_empty() {
                rules.push(Rule {
                    verbs: verbs.clone(),
                    api_groups: vec![policy.api_group.clone()],
                    resources: vec![policy.resource.clone()],
                    ..Rule::default()
                });
            }
            if !policy.path.is_empty() {
                rules.push(Rule {
                    verbs,
                    non_resource_urls: vec![policy.path.clone()],
                    ..Rule::default()
                });
            }
        }
        rules
    }
}

// === impl Policy ===

impl Policy {
    fn allows(&self, asked: &Attributes) -> bool {
        let reads = matches!(&*asked.verb, "get" | "list" | "watch");
        if !self.is_for(&asked.user) || (self.readonly && !reads) {
            return false;
        }
        let is = |own: &str, wanted: &str| own == "*" || own == wanted;
        if asked.is_resource_request {
            is(&self.namespace, &asked.namespace)
                && is(&self.resource, &asked.resource)
                && is(&self.api_group, &asked.group)
        } else {
            is(&self.path, &asked.path)
                || (self.path.ends_with('*')
                    && asked.path.starts_with(self.path.trim_end_matches('*')))
        }
    }

    /// Returns whether the policy names the user, the group, or both; one that names
    /// neither applies to nobody.
    fn is_for(&self, user: &User) -> bool {
        let name = self.user == "*" || self.user == user.name;
        let group = self.group == "*" || user.is_in(&self.group);
        match (self.user.is_empty(), self.group.is_empty()) {
            (true, true) => false,
            (false, true) => name,
            (true, false) => group,
            (false, false) => name && group,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
# Administrators
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"ann","namespace":"*","resource":"*","apiGroup":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"dev","user":"*","namespace":"a","resource":"pods","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"system:authenticated","nonResourcePath":"/api*","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"namespace":"*","resource":"*"}}
"#;

    fn ask(user: &User, verb: &str, resource: &str, namespace: &str) -> Attributes {
        Attributes {
            user: user.clone(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            is_resource_request: true,
            ..Attributes::default()
        }
    }

    #[test]
    fn policies_allow_what_they_name() {
        let abac = Abac::parse(FILE).expect("right");
        let (ann, dev) = (User::named("ann", []), User::named("bob", ["dev"]));
        assert!(abac.allows(&ask(&ann, "delete", "nodes", "")));
        assert!(abac.allows(&ask(&dev, "list", "pods", "a")));
        for no in [
            ask(&dev, "delete", "pods", "a"),
            ask(&dev, "list", "pods", "b"),
            ask(&dev, "list", "secrets", "a"),
            ask(&User::named("eve", []), "list", "pods", "a"),
        ] {
            assert!(!abac.allows(&no), "{no:?}");
        }
        let path = |verb: &str, path: &str| Attributes {
            user: dev.clone(),
            verb: verb.to_owned(),
            path: path.to_owned(),
            ..Attributes::default()
        };
        assert!(abac.allows(&path("get", "/api/v1")) && !abac.allows(&path("post", "/api")));
        assert!(!abac.allows(&path("get", "/metrics")));
        assert_eq!(abac.rules(&dev, "a").len(), 1);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for wrong in [
            r#"{"user":"ann"}"#,
            "{",
            r#"{"apiVersion":"v1","kind":"Policy"}"#,
        ] {
            let error = Abac::parse(&format!("# x\n{wrong}")).expect_err(wrong);
            assert!(error.to_string().contains("line 2"), "{error}");
        }
    }
}
