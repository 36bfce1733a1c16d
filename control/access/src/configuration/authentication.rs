//! `AuthenticationConfiguration`: issuers of JSON Web Tokens, and paths for anonymous
//! requests.

use std::collections::HashSet;

use control_cel::{Env, Issues, Program, Type, compile};
use control_types::names;
use serde::Deserialize;

use super::egress::Kind;
use super::{ConfigurationError, Problems};
use crate::oidc::{self, Expression, Issuer, Mapping};

/// The contents of the file, validated and compiled.
#[derive(Debug, Default)]
pub struct Authentication {
    /// Issuers whose tokens are believed.
    pub issuers: Vec<Issuer>,
    /// Anonymous requests; `None` if the file does not configure them.
    pub anonymous: Option<Anonymous>,
}

/// The requests that are allowed without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anonymous {
    /// None.
    Nowhere,
    /// All; whether they are allowed is for authorizers to say.
    Everywhere,
    /// Those for these paths.
    Paths(Vec<String>),
}

impl Anonymous {
    /// Whether a request for `path` may come without credentials.
    #[must_use]
    pub fn may_ask(&self, path: &str) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Everywhere => true,
            Self::Paths(paths) => paths.iter().any(|known| known == path),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthenticationFile {
    #[serde(default)]
    jwt: Vec<Jwt>,
    anonymous: Option<AnonymousFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnonymousFile {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    conditions: Vec<AnonymousCondition>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnonymousCondition {
    path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Jwt {
    issuer: IssuerFile,
    claim_validation_rules: Vec<ClaimRule>,
    claim_mappings: Mappings,
    user_validation_rules: Vec<UserRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct IssuerFile {
    url: String,
    #[serde(rename = "discoveryURL")]
    discovery_url: String,
    certificate_authority: String,
    audiences: Vec<String>,
    audience_match_policy: String,
    egress_selector_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct ClaimRule {
    claim: String,
    required_value: String,
    expression: String,
    message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UserRule {
    expression: String,
    message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Mappings {
    username: MappingFile,
    groups: MappingFile,
    uid: MappingFile,
    extra: Vec<ExtraFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MappingFile {
    claim: String,
    prefix: Option<String>,
    expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct ExtraFile {
    key: String,
    value_expression: String,
}

/// Reads the file. `own` are the issuers of service accounts' tokens, which no
/// other may claim to be.
///
/// # Errors
/// [`ConfigurationError`].
pub fn parse(text: &[u8], own: &[String]) -> Result<Authentication, ConfigurationError> {
    let file: AuthenticationFile = super::read(text, "AuthenticationConfiguration")?;
    let mut problems = Problems::default();
    let mut issuers = Vec::new();
    let (mut urls, mut discovery) = (HashSet::new(), HashSet::new());
    for (at, jwt) in file.jwt.iter().enumerate() {
        let path = format!("jwt[{at}]");
        check_issuer(&jwt.issuer, own, &format!("{path}.issuer"), &mut problems);
        if !urls.insert(&jwt.issuer.url) {
            problems.duplicate(&format!("{path}.issuer.url"), &jwt.issuer.url);
        }
        let url = &jwt.issuer.discovery_url;
        if !url.is_empty() && !discovery.insert(url) {
            problems.duplicate(&format!("{path}.issuer.discoveryURL"), url);
        }
        issuers.extend(issuer(jwt, &path, &mut problems));
    }
    let anonymous = file.anonymous.map(|file| {
        if !file.enabled && !file.conditions.is_empty() {
            problems.0.push(
                "anonymous.conditions: Invalid value: enabled should be set to true when conditions are defined"
                    .to_owned(),
            );
        }
        match (file.enabled, file.conditions.is_empty()) {
            (false, _) => Anonymous::Nowhere,
            (true, true) => Anonymous::Everywhere,
            (true, false) => {
                Anonymous::Paths(file.conditions.into_iter().map(|one| one.path).collect())
            }
        }
    });
    problems.none()?;
    Ok(Authentication { issuers, anonymous })
}

fn check_issuer(issuer: &IssuerFile, own: &[String], path: &str, problems: &mut Problems) {
    let url = format!("{path}.url");
    if issuer.url.is_empty() {
        problems.required(&url, "");
    } else {
        if own.contains(&issuer.url) {
            let own = own.join(" ");
            let why = format!("URL must not overlap with disallowed issuers: [{own}]");
            problems.invalid(&url, &issuer.url, &why);
        }
        check_url(&issuer.url, &url, problems);
    }
    if !issuer.discovery_url.is_empty() {
        let path = format!("{path}.discoveryURL");
        let same = issuer.url.trim_end_matches('/') == issuer.discovery_url.trim_end_matches('/');
        if same {
            let why = "discoveryURL must be different from URL";
            problems.invalid(&path, &issuer.discovery_url, why);
        }
        check_url(&issuer.discovery_url, &path, problems);
    }
    check_audiences(issuer, path, problems);
    let authority = &issuer.certificate_authority;
    if !authority.is_empty() && control_pki::parse_certificates(authority).is_err() {
        let path = format!("{path}.certificateAuthority");
        let why = "data does not contain any valid RSA or ECDSA certificates";
        problems.invalid(&path, "<omitted>", why);
    }
    let egress = &*issuer.egress_selector_type;
    if !matches!(egress, "" | "controlplane" | "cluster") {
        let path = format!("{path}.egressSelectorType");
        let why = "egress selector must be either controlplane or cluster";
        problems.invalid(&path, egress, why);
    }
}

fn check_url(url: &str, path: &str, problems: &mut Problems) {
    let rest = match url.split_once("://") {
        Some(("https", rest)) => rest,
        other => {
            problems.invalid(path, url, "URL scheme must be https");
            other.map_or("", |(_, rest)| rest)
        }
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        problems.invalid(path, url, "URL must not contain a username or password");
    }
    if rest.contains('?') {
        problems.invalid(path, url, "URL must not contain a query");
    }
    if rest.contains('#') {
        problems.invalid(path, url, "URL must not contain a fragment");
    }
}

fn check_audiences(issuer: &IssuerFile, path: &str, problems: &mut Problems) {
    let (audiences, policy) = (&issuer.audiences, &*issuer.audience_match_policy);
    let list = format!("{path}.audiences");
    if audiences.is_empty() {
        let why = format!("at least one {list} is required");
        return problems.required(&list, &why);
    }
    let mut seen = HashSet::new();
    for (at, audience) in audiences.iter().enumerate() {
        let item = format!("{list}[{at}]");
        if audience.is_empty() {
            problems.required(&item, "");
        }
        if !seen.insert(audience) {
            problems.duplicate(&item, audience);
        }
    }
    let path = format!("{path}.audienceMatchPolicy");
    if audiences.len() > 1 && policy != "MatchAny" {
        let why = "audienceMatchPolicy must be MatchAny for multiple audiences";
        problems.invalid(&path, policy, why);
    }
    if audiences.len() == 1 && !matches!(policy, "" | "MatchAny") {
        let why = "audienceMatchPolicy must be empty or MatchAny for single audience";
        problems.invalid(&path, policy, why);
    }
}

/// Compiles an issuer; returns `None` if one of its rules is invalid.
fn issuer(jwt: &Jwt, path: &str, problems: &mut Problems) -> Option<Issuer> {
    let before = problems.0.len();
    let file = &jwt.issuer;
    let mut made = Issuer {
        url: file.url.clone(),
        discovery_url: Some(file.discovery_url.clone()).filter(|url| !url.is_empty()),
        authority: Some(file.certificate_authority.clone()).filter(|pem| !pem.is_empty()),
        audiences: file.audiences.clone(),
        egress: Kind::of_issuer(&file.egress_selector_type),
        ..Issuer::default()
    };
    claim_rules(
        jwt,
        &mut made,
        &format!("{path}.claimValidationRules"),
        problems,
    );
    mappings(
        &jwt.claim_mappings,
        &mut made,
        &format!("{path}.claimMappings"),
        problems,
    );
    let mut seen = HashSet::new();
    for (at, rule) in jwt.user_validation_rules.iter().enumerate() {
        let path = format!("{path}.userValidationRules[{at}].expression");
        if rule.expression.is_empty() {
            problems.required(&path, "");
        } else if !seen.insert(&rule.expression) {
            problems.duplicate(&path, &rule.expression);
        } else {
            let env = Env::new().with("user", Type::Object(&oidc::USER_INFO));
            let rule = truth(&rule.expression, &rule.message, &env, &path, problems);
            made.user_rules.extend(rule);
        }
    }
    check_email(jwt, path, problems);
    (problems.0.len() == before).then_some(made)
}

fn claim_rules(jwt: &Jwt, made: &mut Issuer, path: &str, problems: &mut Problems) {
    let (mut claims, mut expressions) = (HashSet::new(), HashSet::new());
    for (at, rule) in jwt.claim_validation_rules.iter().enumerate() {
        let path = format!("{path}[{at}]");
        match (rule.claim.is_empty(), rule.expression.is_empty()) {
            (false, false) => {
                problems.invalid(&path, &rule.claim, "claim and expression can't both be set");
            }
            (true, true) => problems.required(&path, "claim or expression is required"),
            (false, true) => {
                if !rule.message.is_empty() {
                    let why = "may not be specified when claim is set";
                    problems.invalid(&format!("{path}.message"), &rule.message, why);
                }
                if !claims.insert(&rule.claim) {
                    problems.duplicate(&format!("{path}.claim"), &rule.claim);
                }
                made.required
                    .push((rule.claim.clone(), rule.required_value.clone()));
            }
            (true, false) => {
                if !rule.required_value.is_empty() {
                    let why = "may not be specified when expression is set";
                    problems.invalid(&format!("{path}.requiredValue"), &rule.required_value, why);
                }
                let path = format!("{path}.expression");
                if expressions.insert(&rule.expression) {
                    let rule = truth(
                        &rule.expression,
                        &rule.message,
                        &claims_env(),
                        &path,
                        problems,
                    );
                    made.claim_rules.extend(rule);
                } else {
                    problems.duplicate(&path, &rule.expression);
                }
            }
        }
    }
}

fn mappings(file: &Mappings, made: &mut Issuer, path: &str, problems: &mut Problems) {
    let one = |of: &MappingFile,
               name: &str,
               prefixed: bool,
               required: bool,
               problems: &mut Problems| {
        let path = format!("{path}.{name}");
        match (of.claim.is_empty(), of.expression.is_empty()) {
            (false, false) => {
                problems.invalid(&path, "", "claim and expression can't both be set");
                None
            }
            (true, true) => {
                if required {
                    problems.required(&path, "claim or expression is required");
                }
                None
            }
            (true, false) => {
                if let Some(prefix) = &of.prefix {
                    let why = "may not be specified when expression is set";
                    problems.invalid(&format!("{path}.prefix"), prefix, why);
                }
                let path = format!("{path}.expression");
                let program = made_of(&of.expression, &path, problems)?;
                Some(Mapping::Expression(program))
            }
            (false, true) => {
                if prefixed && of.prefix.is_none() {
                    let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                    problems.required(&format!("{path}.prefix"), why);
                }
                let prefix = of.prefix.clone().unwrap_or_default();
                Some(Mapping::Claim(of.claim.clone(), prefix))
            }
        }
    };
    made.username = one(&file.username, "username", true, true, problems).unwrap_or_default();
    made.groups = one(&file.groups, "groups", true, false, problems);
    made.uid = one(&file.uid, "uid", false, false, problems);
    let mut seen = HashSet::new();
    for (at, extra) in file.extra.iter().enumerate() {
        let path = format!("{path}.extra[{at}]");
        let key = format!("{path}.key");
        check_extra_key(&extra.key, &key, problems);
        if !seen.insert(&extra.key) {
            problems.duplicate(&key, &extra.key);
            continue;
        }
        let path = format!("{path}.valueExpression");
        if extra.value_expression.is_empty() {
            problems.required(&path, "valueExpression is required");
        } else if let Some(program) = made_of(&extra.value_expression, &path, problems) {
            made.extra.push((extra.key.clone(), program));
        }
    }
}

fn check_extra_key(key: &str, path: &str, problems: &mut Problems) {
    let Some((domain, rest)) = key
        .split_once('/')
        .filter(|(a, b)| !a.is_empty() && !b.is_empty())
    else {
        if key.is_empty() {
            problems.required(path, "");
        } else {
            let why = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
            problems.invalid(path, key, why);
        }
        return;
    };
    for why in names::dns1123_subdomain(domain) {
        problems.invalid(path, domain, &why);
    }
    debug_assert!(!rest.is_empty());
    if key != key.to_lowercase() {
        problems.invalid(path, key, "must be lowercase");
    }
    let reserved = ["k8s.io", "kubernetes.io"];
    if reserved.iter().any(|own| {
        domain == *own
            || domain
                .strip_suffix(own)
                .is_some_and(|rest| rest.ends_with('.'))
    }) {
        let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
        problems.invalid(path, key, why);
    }
}

/// Checks that unverified email addresses are not mapped to user names, which would let
/// anyone choose the name.
fn check_email(jwt: &Jwt, path: &str, problems: &mut Problems) {
    let username = &jwt.claim_mappings.username.expression;
    let uses = |text: &str, claim: &str| {
        text.contains(&format!("claims.{claim}"))
            || text.contains(&format!("claims.?{claim}"))
            || text.contains(&format!("claims['{claim}']"))
            || text.contains(&format!("claims[\"{claim}\"]"))
    };
    let others = jwt
        .claim_validation_rules
        .iter()
        .map(|rule| &rule.expression);
    let extra = jwt
        .claim_mappings
        .extra
        .iter()
        .map(|extra| &extra.value_expression);
    let verified = std::iter::once(username)
        .chain(others)
        .chain(extra)
        .any(|text| uses(text, "email_verified"));
    let plain = uses(&username.replace("email_verified", ""), "email");
    if plain && !verified {
        let path = format!("{path}.claimMappings.username.expression");
        let why = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression";
        problems.invalid(&path, username, why);
    }
}

fn claims_env() -> Env {
    Env::new().with("claims", Type::map(Type::Dyn))
}

fn made_of(text: &str, path: &str, problems: &mut Problems) -> Option<Expression> {
    expression(text, "", &claims_env(), path, problems)
}

/// A rule must be true or false.
fn truth(
    text: &str,
    message: &str,
    env: &Env,
    path: &str,
    problems: &mut Problems,
) -> Option<Expression> {
    let made = expression(text, message, env, path, problems)?;
    if matches!(made.program.type_of(), Type::Bool) {
        return Some(made);
    }
    problems.invalid(path, text, "must evaluate to bool");
    None
}

fn expression(
    text: &str,
    message: &str,
    env: &Env,
    path: &str,
    problems: &mut Problems,
) -> Option<Expression> {
    match compiled(text, env) {
        Ok(program) => Some(Expression {
            text: text.to_owned(),
            message: message.to_owned(),
            program,
        }),
        Err(issues) => {
            problems.invalid(path, text, &format!("compilation failed: {issues}"));
            None
        }
    }
}

fn compiled(text: &str, env: &Env) -> Result<Program, Issues> {
    compile(text, env)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = r#"
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: https://issuer
    audiences: [a, b]
    audienceMatchPolicy: MatchAny
  claimValidationRules:
  - claim: hd
    requiredValue: example.com
  - expression: "claims.exp - claims.nbf <= 86400"
    message: too long
  claimMappings:
    username: {expression: "'x:' + claims.sub"}
    groups: {claim: roles, prefix: ""}
    uid: {claim: sub}
    extra:
    - {key: acme.io/team, valueExpression: claims.team}
  userValidationRules:
  - expression: "!user.username.startsWith('system:')"
anonymous:
  enabled: true
  conditions: [{path: /livez}]
"#;

    #[test]
    fn a_right_file_is_compiled() {
        let read = parse(RIGHT.as_bytes(), &[]).expect("right");
        let issuer = &read.issuers[0];
        assert_eq!(issuer.audiences, ["a", "b"]);
        assert_eq!((issuer.claim_rules.len(), issuer.user_rules.len()), (1, 1));
        let anonymous = read.anonymous.expect("said");
        assert!(anonymous.may_ask("/livez") && !anonymous.may_ask("/livez/ping"));
    }

    #[test]
    fn each_fault_names_its_field() {
        for (from, to, words) in [
            (
                "https://issuer",
                "http://issuer",
                "jwt[0].issuer.url: Invalid value: \"http://issuer\": URL scheme must be https",
            ),
            (
                "audienceMatchPolicy: MatchAny",
                "audienceMatchPolicy: \"\"",
                "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
            ),
            (
                "[a, b]",
                "[]",
                "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
            ),
            (
                "prefix: \"\"",
                "expression: claims.x",
                "jwt[0].claimMappings.groups: Invalid value: \"\": claim and expression can't both be set",
            ),
            (
                ", prefix: \"\"",
                "",
                "jwt[0].claimMappings.groups.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
            ),
            (
                "acme.io/team",
                "a.k8s.io/team",
                "jwt[0].claimMappings.extra[0].key: Invalid value: \"a.k8s.io/team\": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
            ),
            (
                "'x:' + claims.sub",
                "claims.email",
                "claims.email_verified must be used",
            ),
            (
                "claims.exp - claims.nbf <= 86400",
                "claims.sub",
                "must evaluate to bool",
            ),
            (
                "!user.username.startsWith('system:')",
                "user.name == ''",
                "compilation failed: ERROR: <input>:1:5: undefined field 'name'",
            ),
            (
                "enabled: true",
                "enabled: false",
                "enabled should be set to true when conditions are defined",
            ),
            (
                "https://issuer",
                "https://own",
                "URL must not overlap with disallowed issuers: [https://own]",
            ),
            ("uid:", "uidd:", "unknown field"),
        ] {
            assert!(RIGHT.contains(from), "{from}");
            let text = RIGHT.replacen(from, to, 1);
            let error = parse(text.as_bytes(), &["https://own".to_owned()]).expect_err(to);
            assert!(error.to_string().contains(words), "{to}: {error}");
        }
    }
}
