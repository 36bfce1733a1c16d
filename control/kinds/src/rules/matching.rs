//! Match rules of webhooks and policies.

use control_types::value::Value;

use super::{labels, names, one_of};
use crate::error::{Errors, Path};
use crate::tree::{Read, Write};

/// Sets the defaults of rules.
pub(crate) fn default_rules(rules: &mut [Value]) {
    for rule in rules {
        rule.absent("scope", "*");
    }
}

/// Sets the defaults of `matchConstraints` and `matchResources`.
pub(crate) fn default_resources(resources: Option<&mut Value>) {
    let Some(resources) = resources else { return };
    resources.absent("matchPolicy", "Equivalent");
    resources.absent("namespaceSelector", Value::object());
    resources.absent("objectSelector", Value::object());
    default_rules(resources.items_mut("resourceRules"));
    default_rules(resources.items_mut("excludeResourceRules"));
}

fn texts<'a>(owner: &'a Value, field: &str) -> Vec<&'a str> {
    owner.items(field).iter().map(Read::as_text).collect()
}

/// Checks that `*` is the only item.
fn alone(owner: &Value, field: &str, others: &str, at: &Path<'_>, errors: &mut Errors) {
    let list = texts(owner, field);
    if list.len() > 1 && list.contains(&"*") {
        let why = format!("if '*' is present, must not specify other {others}");
        errors.invalid(at, owner.at(field).clone(), why);
    }
}

/// A rule with its operations.
pub(crate) fn rule(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let operations_at = at.child("operations");
    let operations = texts(rule, "operations");
    if operations.is_empty() {
        errors.required(&operations_at, "");
    }
    alone(rule, "operations", "operations", &operations_at, errors);
    for (i, operation) in operations.iter().enumerate() {
        let known = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        one_of(operation, known, &operations_at.index(i), errors);
    }
    let groups_at = at.child("apiGroups");
    if rule.items("apiGroups").is_empty() {
        errors.required(&groups_at, "");
    }
    alone(rule, "apiGroups", "API groups", &groups_at, errors);
    let versions_at = at.child("apiVersions");
    let versions = texts(rule, "apiVersions");
    if versions.is_empty() {
        errors.required(&versions_at, "");
    }
    alone(rule, "apiVersions", "API versions", &versions_at, errors);
    for (i, _) in versions.iter().enumerate().filter(|(_, v)| v.is_empty()) {
        errors.required(&versions_at.index(i), "");
    }
    resources(rule, &at.child("resources"), errors);
    if rule.has("scope") {
        let scopes = &["*", "Cluster", "Namespaced"];
        one_of(rule.text("scope"), scopes, &at.child("scope"), errors);
    }
}

fn resources(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = texts(rule, "resources");
    if list.is_empty() {
        errors.required(at, "");
    }
    let (mut whole, mut everywhere) = (Vec::new(), Vec::new());
    let mut plain = false;
    for (i, resource) in list.iter().enumerate() {
        let at = at.index(i);
        if resource.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let Some((of, sub)) = resource.split_once('/') else {
            plain = *resource != "*";
            continue;
        };
        if whole.contains(&of) {
            let why = format!("if '{of}/*' is present, must not specify {resource}");
            errors.invalid(&at, *resource, why);
        }
        if everywhere.contains(&sub) {
            let why = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.invalid(&at, *resource, why);
        }
        if sub == "*" {
            whole.push(of);
        }
        if of == "*" {
            everywhere.push(sub);
        }
    }
    if list.len() > 1 && list.contains(&"*/*") {
        errors.invalid(
            at,
            rule.at("resources").clone(),
            "if '*/*' is present, must not specify other resources",
        );
    }
    if list.contains(&"*") && plain {
        errors.invalid(
            at,
            rule.at("resources").clone(),
            "if '*' is present, must not specify other resources without subresources",
        );
    }
}

/// `matchConstraints` of policies, `matchResources` of bindings.
pub(crate) fn match_resources(resources: &Value, at: &Path<'_>, errors: &mut Errors) {
    one_of(
        resources.text("matchPolicy"),
        &["Equivalent", "Exact"],
        &at.child("matchPolicy"),
        errors,
    );
    for field in ["namespaceSelector", "objectSelector"] {
        labels::selector(resources.at(field), &at.child(field), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let all = at.child(field);
        for (i, one) in resources.items(field).iter().enumerate() {
            let at = all.index(i);
            let names_at = at.child("resourceNames");
            let list = texts(one, "resourceNames");
            for (j, name) in list.iter().enumerate() {
                let at = names_at.index(j);
                errors.invalid_each(&at, name, names::segment_name(name, false));
                if list.iter().take(j).any(|other| other == name) {
                    errors.duplicate(&at, *name);
                }
            }
            rule(one, &at, errors);
        }
    }
}

/// Mutating policies see writes only.
pub(crate) fn only_writes(resources: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("resourceRules").to_string();
    let at = Path::new(&at);
    for one in resources.items("resourceRules") {
        for operation in texts(one, "operations") {
            one_of(
                operation,
                &["*", "CONNECT", "CREATE", "UPDATE"],
                &at.child("operations"),
                errors,
            );
        }
    }
}

/// Validates the endpoint of a webhook.
pub(crate) fn client(config: &Value, at: &Path<'_>, errors: &mut Errors) {
    match (config.has("url"), config.has("service")) {
        (true, false) => url(config.text("url"), &at.child("url"), errors),
        (false, true) => service(config.at("service"), &at.child("service"), errors),
        _ => errors.required(at, "exactly one of url or service is required"),
    }
}

/// The first `%` that no two hexadecimal digits follow, with what follows.
fn bad_escape(text: &str) -> Option<&str> {
    text.match_indices('%').find_map(|(at, _)| {
        let hex = |i: usize| {
            text.as_bytes()
                .get(at + i)
                .is_some_and(u8::is_ascii_hexdigit)
        };
        let end = (at + 3).min(text.len());
        (!(hex(1) && hex(2))).then(|| text.get(at..end).unwrap_or("%"))
    })
}

/// The address of a webhook: https, a host, a path.
fn url(text: &str, at: &Path<'_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let shown = crate::error::quoted(text);
    let refuse = |why: &str, errors: &mut Errors| {
        errors.required(
            at,
            format!("url must be a valid URL: parse {shown}: {why}{FORM}"),
        );
    };
    if text.chars().any(char::is_control) {
        refuse("net/url: invalid control character in URL", errors);
        return;
    }
    if let Some(escape) = bad_escape(text) {
        refuse(
            &format!("invalid URL escape {}", crate::error::quoted(escape)),
            errors,
        );
        return;
    }
    let (rest, fragment) = match text.split_once('#') {
        Some((rest, fragment)) => (rest, fragment),
        None => (text, ""),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let is_scheme = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_lowercase(), rest),
        Some((before, _)) if !before.contains('/') => {
            let why = if before.is_empty() {
                "missing protocol scheme"
            } else {
                "first path segment in URL cannot contain colon"
            };
            refuse(why, errors);
            return;
        }
        _ => (String::new(), rest),
    };
    let authority = rest
        .strip_prefix("//")
        .map_or("", |rest| rest.split('/').next().unwrap_or(""));
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.contains(' ') {
        refuse("invalid character \" \" in host name", errors);
        return;
    }
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        errors.invalid(at, scheme, why);
    }
    if host.is_empty() {
        errors.invalid(at, "", format!("host must be specified{FORM}"));
    }
    for (part, why) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !part.is_empty() {
            errors.invalid(at, part, why);
        }
    }
}

/// A service that is called, with its port and path.
pub(crate) fn service(service: &Value, at: &Path<'_>, errors: &mut Errors) {
    // the API tells a missing name by its neighbour, and the reverse
    for (field, said) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(field).is_empty() {
            errors.required(&at.child(said), "");
        }
    }
    let port = service.num("port");
    let wrong = names::port_number(port);
    if !wrong.is_empty() {
        let why = format!("port is not valid: {}", wrong.join(", "));
        errors.invalid(&at.child("port"), port, why);
    }
    let (path, at) = (service.text("path"), at.child("path"));
    if matches!(path, "" | "/") {
        return;
    }
    if path == "//" {
        errors.invalid(&at, path, "segment[0] may not be empty");
        return;
    }
    if !path.starts_with('/') {
        errors.invalid(&at, path, "must start with a '/'");
    }
    let mut chars = path.chars();
    chars.next();
    let inner = chars.as_str();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (i, segment) in inner.split('/').enumerate() {
        if segment.is_empty() {
            errors.invalid(&at, path, format!("segment[{i}] may not be empty"));
            continue;
        }
        for message in names::dns_subdomain(segment) {
            errors.invalid(&at, path, format!("segment[{i}]: {message}"));
        }
    }
}

/// `paramKind` of a policy.
pub(crate) fn param_kind(kind: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (version_at, text) = (at.child("apiVersion"), kind.text("apiVersion"));
    let parts: Vec<&str> = text.split('/').collect();
    match parts.as_slice() {
        [""] => errors.required(&version_at, ""),
        [version] | ["", version] if !version.is_empty() => {
            group_version("", version, &version_at, errors);
        }
        [group, version] if !version.is_empty() => {
            group_version(group, version, &version_at, errors);
        }
        [group, _] => {
            group_version(group, "v1", &version_at, errors);
            errors.invalid(&version_at, text, "version must be specified");
        }
        _ => {
            let why = format!("unexpected GroupVersion string: {text}");
            errors.invalid(&version_at, text, why);
        }
    }
    let name = kind.text("kind");
    if name.is_empty() {
        errors.required(&at.child("kind"), "");
        return;
    }
    let wrong = names::dns1035_label(&name.to_lowercase());
    if !wrong.is_empty() {
        let why = format!(
            "may have mixed case, but should otherwise match: {}",
            wrong.join(",")
        );
        errors.invalid(&at.child("kind"), name, why);
    }
}

fn group_version(group: &str, version: &str, at: &Path<'_>, errors: &mut Errors) {
    let wrong = names::dns_subdomain(group);
    if !group.is_empty() && !wrong.is_empty() {
        errors.invalid(at, group, wrong.join(","));
    }
    let wrong = names::dns1035_label(version);
    if !wrong.is_empty() {
        errors.invalid(at, version, wrong.join(","));
    }
}
