//! `AuthorizationConfiguration`: who decides, in which order.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use control_cel::{Bindings, Budget, Env, Object, Program, Type, Val, compile};
use control_types::status::quote;
use control_types::value::Value;
use control_types::{error_chain, names};
use serde::Deserialize;

use super::{ConfigurationError, Problems};

/// One authorizer of the file.
#[derive(Debug)]
pub enum Authorizer {
    /// `Node`
    Node,
    /// `RBAC`
    Rbac,
    /// `ABAC`
    Abac,
    /// `AlwaysAllow`
    AlwaysAllow,
    /// `AlwaysDeny`
    AlwaysDeny,
    /// `Webhook`
    Webhook(Box<Webhook>),
}

/// An authorization webhook.
#[derive(Debug)]
pub struct Webhook {
    /// Its name in metrics.
    pub name: String,
    /// How long a yes is remembered; nothing: not at all.
    pub authorized: Duration,
    /// How long a no is remembered.
    pub unauthorized: Duration,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// `v1` or `v1beta1` of `SubjectAccessReview`.
    pub version: String,
    /// Whether a failure denies the request; otherwise it has no opinion then.
    pub denies_on_failure: bool,
    /// The kubeconfig that names it.
    pub kubeconfig: PathBuf,
    /// Conditions that must all hold before it is called.
    pub conditions: Vec<MatchCondition>,
}

/// A compiled match condition.
#[derive(Debug)]
pub struct MatchCondition {
    text: String,
    program: Program,
}

/// Error for match conditions that cannot be evaluated; kube-apiserver's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// The value is no boolean.
    #[error("expression '{0}' does not evaluate to a boolean")]
    NotBoolean(String),
    /// The evaluation fails.
    #[error("cel evaluation error: expression '{expression}' resulted in error")]
    Evaluation {
        /// The condition.
        expression: String,
        /// Why it fails.
        source: control_cel::Error,
    },
    /// Several conditions fail.
    #[error("[{}]", .0.iter().map(|it| error_chain(it)).collect::<Vec<_>>().join(", "))]
    Several(Vec<ConditionError>),
}

/// The known modes.
pub const MODES: [&str; 6] = [
    "ABAC",
    "AlwaysAllow",
    "AlwaysDeny",
    "Node",
    "RBAC",
    "Webhook",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorizationFile {
    #[serde(default)]
    authorizers: Vec<AuthorizerFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AuthorizerFile {
    #[serde(rename = "type")]
    of: String,
    name: String,
    webhook: Option<WebhookFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct WebhookFile {
    #[serde(rename = "authorizedTTL")]
    authorized: String,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized: String,
    cache_unauthorized_requests: Option<bool>,
    timeout: String,
    subject_access_review_version: String,
    match_condition_subject_access_review_version: String,
    failure_policy: String,
    connection_info: Connection,
    match_conditions: Vec<ConditionFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Connection {
    #[serde(rename = "type")]
    of: String,
    kube_config_file: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConditionFile {
    expression: String,
}

/// Reads the file.
///
/// # Errors
/// [`ConfigurationError`].
pub fn parse(text: &[u8]) -> Result<Vec<Authorizer>, ConfigurationError> {
    let file: AuthorizationFile = super::read(text, "AuthorizationConfiguration")?;
    let mut problems = Problems::default();
    if file.authorizers.is_empty() {
        problems.required(
            "authorizers",
            "at least one authorization mode must be defined",
        );
    }
    let (mut types, mut names_seen) = (HashSet::new(), HashSet::new());
    let mut made = Vec::new();
    for (at, authorizer) in file.authorizers.iter().enumerate() {
        let path = format!("authorizers[{at}]");
        let of = &*authorizer.of;
        if of.is_empty() {
            problems.required(&format!("{path}.type"), "");
            continue;
        }
        if !MODES.contains(&of) {
            problems.unsupported(&format!("{path}.type"), of, &MODES);
            continue;
        }
        if !types.insert(of) && of != "Webhook" {
            problems.duplicate(&format!("{path}.type"), of);
            continue;
        }
        check_name(
            authorizer,
            &mut names_seen,
            &format!("{path}.name"),
            &mut problems,
        );
        made.extend(authorizer_of(authorizer, &path, &mut problems));
    }
    problems.none()?;
    Ok(made)
}

fn check_name<'a>(
    authorizer: &'a AuthorizerFile,
    seen: &mut HashSet<&'a str>,
    path: &str,
    problems: &mut Problems,
) {
    let name = &*authorizer.name;
    let wrong = names::dns1123_subdomain(name);
    if name.is_empty() {
        problems.required(path, "");
    } else if !seen.insert(name) {
        problems.duplicate(path, name);
    } else if !wrong.is_empty() {
        let why = format!("authorizer name is invalid: {}", wrong.join(", "));
        problems.invalid(path, name, &why);
    } else if authorizer.of != "Webhook" && name != authorizer.of.to_lowercase() {
        let (of, right) = (&authorizer.of, authorizer.of.to_lowercase());
        let why = format!("expected name {right} for authorizer {of} instead of {name}");
        problems.0.push(why);
    }
}

fn authorizer_of(file: &AuthorizerFile, path: &str, problems: &mut Problems) -> Option<Authorizer> {
    if file.of != "Webhook" && file.webhook.is_some() {
        let why = "may only be specified when type=Webhook";
        problems.invalid(&format!("{path}.webhook"), "non-null", why);
    }
    Some(match &*file.of {
        "Node" => Authorizer::Node,
        "RBAC" => Authorizer::Rbac,
        "ABAC" => Authorizer::Abac,
        "AlwaysAllow" => Authorizer::AlwaysAllow,
        "AlwaysDeny" => Authorizer::AlwaysDeny,
        _ => {
            let Some(webhook) = &file.webhook else {
                problems.required(&format!("{path}.webhook"), "required when type=Webhook");
                return None;
            };
            return webhook_of(&file.name, webhook, path, problems);
        }
    })
}

fn webhook_of(
    name: &str,
    file: &WebhookFile,
    path: &str,
    problems: &mut Problems,
) -> Option<Authorizer> {
    let before = problems.0.len();
    let timeout = duration(&file.timeout, "", &format!("{path}.timeout"), problems);
    if timeout > Duration::from_secs(30) {
        let why = "must be > 0s and <= 30s";
        problems.invalid(&format!("{path}.timeout"), &file.timeout, why);
    }
    let lasts = |text: &str, usual, field: &str, keep: Option<bool>, problems: &mut Problems| {
        let time = duration(text, usual, &format!("{path}.{field}"), problems);
        if keep == Some(false) {
            Duration::ZERO
        } else {
            time
        }
    };
    let authorized = lasts(
        &file.authorized,
        "5m",
        "authorizedTTL",
        file.cache_authorized_requests,
        problems,
    );
    let unauthorized = lasts(
        &file.unauthorized,
        "30s",
        "unauthorizedTTL",
        file.cache_unauthorized_requests,
        problems,
    );
    let one_of = |value: &str, field: &str, known: &[&str], problems: &mut Problems| {
        let path = format!("{path}.{field}");
        if value.is_empty() {
            problems.required(&path, "");
        } else if !known.contains(&value) {
            problems.unsupported(&path, value, known);
        }
    };
    let version = &file.subject_access_review_version;
    one_of(
        version,
        "subjectAccessReviewVersion",
        &["v1", "v1beta1"],
        problems,
    );
    let of_conditions = &file.match_condition_subject_access_review_version;
    if !of_conditions.is_empty() {
        one_of(
            of_conditions,
            "matchConditionSubjectAccessReviewVersion",
            &["v1"],
            problems,
        );
    } else if !file.match_conditions.is_empty() {
        let path = format!("{path}.matchConditionSubjectAccessReviewVersion");
        problems.required(&path, "required if match conditions are specified");
    }
    one_of(
        &file.failure_policy,
        "failurePolicy",
        &["NoOpinion", "Deny"],
        problems,
    );
    let kubeconfig = connection(&file.connection_info, path, problems);
    let conditions = conditions(&file.match_conditions, path, problems);
    (problems.0.len() == before).then(|| {
        Authorizer::Webhook(Box::new(Webhook {
            name: name.to_owned(),
            authorized,
            unauthorized,
            timeout,
            version: version.clone(),
            denies_on_failure: file.failure_policy == "Deny",
            kubeconfig,
            conditions,
        }))
    })
}

fn duration(text: &str, usual: &str, path: &str, problems: &mut Problems) -> Duration {
    let text = if text.is_empty() { usual } else { text };
    if text.is_empty() {
        problems.required(path, "");
        return Duration::ZERO;
    }
    let parsed = control_types::time::parse_duration(text).filter(|time| !time.is_zero());
    parsed.unwrap_or_else(|| {
        problems.invalid(path, text, "must be > 0s");
        Duration::ZERO
    })
}

fn connection(file: &Connection, path: &str, problems: &mut Problems) -> PathBuf {
    let file_path = format!("{path}.connectionInfo.kubeConfigFile");
    match &*file.of {
        "KubeConfigFile" => match file.kube_config_file.as_deref() {
            None | Some("") => problems.required(&file_path, ""),
            Some(name) if !name.starts_with('/') => {
                problems.invalid(&file_path, name, "must be an absolute path");
            }
            Some(name) => return PathBuf::from(name),
        },
        "" => problems.required(&format!("{path}.connectionInfo.type"), ""),
        other => {
            let path = format!("{path}.connectionInfo.type");
            problems.unsupported(&path, other, &["KubeConfigFile"]);
        }
    }
    PathBuf::new()
}

/// How many conditions one webhook may have.
const MOST_CONDITIONS: usize = 64;

fn conditions(files: &[ConditionFile], path: &str, problems: &mut Problems) -> Vec<MatchCondition> {
    let path = format!("{path}.matchConditions");
    if files.len() > MOST_CONDITIONS {
        let count = files.len();
        let why = format!("{path}: Too many: {count}: must have at most {MOST_CONDITIONS} items");
        problems.0.push(why);
        return Vec::new();
    }
    let env = Env::new().with("request", Type::Object(&REQUEST));
    let mut seen = HashSet::new();
    let mut made = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let path = format!("{path}[{at}].expression");
        let text = &file.expression;
        if text.trim().is_empty() {
            problems.required(&path, "");
        } else if !seen.insert(text) {
            problems.duplicate(&path, text);
        } else {
            match compile(text, &env) {
                Ok(program) if matches!(program.type_of(), Type::Bool) => {
                    made.push(MatchCondition {
                        text: text.clone(),
                        program,
                    });
                }
                Ok(_) => problems.invalid(&path, text, "must evaluate to bool"),
                Err(issues) => {
                    problems.invalid(&path, text, &format!("compilation failed: {issues}"));
                }
            }
        }
    }
    made
}

fn requirements() -> Type {
    Type::list(Type::Object(&REQUIREMENT))
}

static REQUIREMENT: Object = Object {
    name: "kubernetes.SelectorRequirement",
    fields: &[
        ("key", || Type::String),
        ("operator", || Type::String),
        ("values", || Type::list(Type::String)),
    ],
};

static FIELD_SELECTOR: Object = Object {
    name: "kubernetes.FieldSelectorAttributes",
    fields: &[
        ("rawSelector", || Type::String),
        ("requirements", requirements),
    ],
};

static LABEL_SELECTOR: Object = Object {
    name: "kubernetes.LabelSelectorAttributes",
    fields: &[
        ("rawSelector", || Type::String),
        ("requirements", requirements),
    ],
};

static RESOURCE: Object = Object {
    name: "kubernetes.ResourceAttributes",
    fields: &[
        ("namespace", || Type::String),
        ("verb", || Type::String),
        ("group", || Type::String),
        ("version", || Type::String),
        ("resource", || Type::String),
        ("subresource", || Type::String),
        ("name", || Type::String),
        ("fieldSelector", || Type::Object(&FIELD_SELECTOR)),
        ("labelSelector", || Type::Object(&LABEL_SELECTOR)),
    ],
};

static PATH: Object = Object {
    name: "kubernetes.NonResourceAttributes",
    fields: &[("path", || Type::String), ("verb", || Type::String)],
};

/// `request` in match conditions: the specification of a `SubjectAccessReview`.
static REQUEST: Object = Object {
    name: "kubernetes.SubjectAccessReviewSpec",
    fields: &[
        ("resourceAttributes", || Type::Object(&RESOURCE)),
        ("nonResourceAttributes", || Type::Object(&PATH)),
        ("user", || Type::String),
        ("groups", || Type::list(Type::String)),
        ("extra", || Type::map(Type::list(Type::String))),
        ("uid", || Type::String),
    ],
};

// === impl Webhook ===

impl Webhook {
    /// Returns whether it is called for a request (the specification of a
    /// `SubjectAccessReview`).
    ///
    /// # Errors
    /// When no condition is false and one cannot be evaluated.
    pub fn concerns(&self, request: &Value) -> Result<bool, ConditionError> {
        let mut errors = Vec::new();
        for condition in &self.conditions {
            let bindings = Bindings::new().with("request", Val::tree(request));
            let result = condition
                .program
                .evaluate(&bindings, &mut Budget::per_call());
            match result.map(|value| value.as_bool()) {
                Ok(Some(true)) => {}
                Ok(Some(false)) => return Ok(false),
                Ok(None) => errors.push(ConditionError::NotBoolean(condition.text.clone())),
                Err(source) => errors.push(ConditionError::Evaluation {
                    expression: condition.text.clone(),
                    source,
                }),
            }
        }
        match errors.len() {
            0 => Ok(true),
            1 => Err(errors.remove(0)),
            _ => Err(ConditionError::Several(errors)),
        }
    }
}

/// Returns the authorizers of `--authorization-mode`; the webhook's settings come from
/// flags, too.
///
/// # Errors
/// Unknown or duplicate modes.
pub fn of_modes(
    modes: &[String],
    webhook: Option<Webhook>,
) -> Result<Vec<Authorizer>, ConfigurationError> {
    let mut problems = Problems::default();
    let mut seen = HashSet::new();
    let mut webhook = webhook;
    let mut made = Vec::new();
    for mode in modes {
        if !seen.insert(mode) {
            let why = format!(
                "authorization-mode {} has mode specified more than once",
                quote(mode)
            );
            problems.0.push(why);
            continue;
        }
        match &**mode {
            "Node" => made.push(Authorizer::Node),
            "RBAC" => made.push(Authorizer::Rbac),
            "ABAC" => made.push(Authorizer::Abac),
            "AlwaysAllow" => made.push(Authorizer::AlwaysAllow),
            "AlwaysDeny" => made.push(Authorizer::AlwaysDeny),
            "Webhook" => match webhook.take() {
                Some(webhook) => made.push(Authorizer::Webhook(Box::new(webhook))),
                None => problems.0.push(
                    "authorization-mode Webhook's authorization config file not passed".to_owned(),
                ),
            },
            other => {
                let why = format!("authorization-mode {} is not a valid mode", quote(other));
                problems.0.push(why);
            }
        }
    }
    if modes.is_empty() {
        problems
            .0
            .push("at least one authorization-mode must be passed".to_owned());
    }
    problems.none()?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    const RIGHT: &str = r"
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Node, name: node}
- type: Webhook
  name: opa
  webhook:
    timeout: 3s
    unauthorizedTTL: 10s
    cacheAuthorizedRequests: false
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /etc/opa.yaml}
    matchConditions:
    - expression: has(request.resourceAttributes) && request.resourceAttributes.namespace != 'kube-system'
- {type: RBAC, name: rbac}
";

    #[test]
    fn a_right_file_is_compiled() {
        let made = parse(RIGHT.as_bytes()).expect("right");
        let [
            Authorizer::Node,
            Authorizer::Webhook(hook),
            Authorizer::Rbac,
        ] = &made[..]
        else {
            panic!("{made:?}");
        };
        assert_eq!(
            (hook.authorized, hook.unauthorized, hook.timeout),
            (
                Duration::ZERO,
                Duration::from_secs(10),
                Duration::from_secs(3)
            )
        );
        let of = |namespace: &str| value!({ "resourceAttributes": { "namespace": namespace } });
        assert_eq!(hook.concerns(&of("a")), Ok(true));
        assert_eq!(hook.concerns(&of("kube-system")), Ok(false));
        assert_eq!(
            hook.concerns(&value!({ "nonResourceAttributes": { "path": "/x" } })),
            Ok(false)
        );
    }

    #[test]
    fn each_fault_names_its_field() {
        for (from, to, words) in [
            (
                "type: RBAC",
                "type: rbac",
                r#"authorizers[2].type: Unsupported value: "rbac": supported values: "ABAC", "AlwaysAllow""#,
            ),
            (
                "name: rbac",
                "name: other",
                "expected name rbac for authorizer RBAC instead of other",
            ),
            (
                "timeout: 3s",
                "timeout: 31s",
                r#"authorizers[1].timeout: Invalid value: "31s": must be > 0s and <= 30s"#,
            ),
            (
                "failurePolicy: Deny",
                "failurePolicy: Allow",
                r#"authorizers[1].failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny""#,
            ),
            (
                "/etc/opa.yaml",
                "opa.yaml",
                r#"authorizers[1].connectionInfo.kubeConfigFile: Invalid value: "opa.yaml": must be an absolute path"#,
            ),
            (
                "has(request.resourceAttributes) && request.resourceAttributes.namespace != 'kube-system'",
                "request.user",
                "must evaluate to bool",
            ),
            (
                "request.resourceAttributes.namespace",
                "request.verb",
                "undefined field 'verb'",
            ),
            (
                "matchConditionSubjectAccessReviewVersion: v1",
                "",
                "required if match conditions are specified",
            ),
            (
                "{type: Node, name: node}",
                "{type: RBAC, name: node}",
                "authorizers[2].type: Duplicate value: \"RBAC\"",
            ),
        ] {
            assert!(RIGHT.contains(from), "{from}");
            let text = RIGHT.replacen(from, to, 1);
            let error = parse(text.as_bytes()).expect_err(to).to_string();
            assert!(error.contains(words), "{to}: {error}");
        }
    }
}
