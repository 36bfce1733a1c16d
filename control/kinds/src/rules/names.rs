//! Names: DNS labels and subdomains, qualified names, keys, ports, numbers.
//!
//! Every function returns the messages about invalid text; none if it is valid. The
//! messages are those that the API documents and that clients match on.

use crate::error::{Errors, Path};

/// Messages about invalid text; empty if it is valid.
pub type Messages = Vec<String>;

const LABEL_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_FMT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// "must be no more than N …": `unit` is "characters" or "bytes".
pub(crate) fn max_len(length: usize, unit: &str) -> String {
    format!("must be no more than {length} {unit}")
}

/// "must be between LO and HI, inclusive".
pub(crate) fn between(lo: i64, hi: i64) -> String {
    format!("must be between {lo} and {hi}, inclusive")
}

pub(crate) fn regex_message(message: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{regex}')");
    }
    let list = examples
        .iter()
        .map(|e| format!("'{e}', "))
        .collect::<Vec<_>>()
        .join(" or ");
    format!("{message} (e.g. {list}regex used for validation is '{regex}')")
}

fn is_label(text: &[u8]) -> bool {
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    !text.is_empty()
        && text.iter().all(|b| alnum(b) || *b == b'-')
        && text.first().is_some_and(alnum)
        && text.last().is_some_and(alnum)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|part| is_label(part.as_bytes()))
}

/// RFC 1123 label: at most 63 of `[a-z0-9-]`, alphanumeric at both ends.
#[must_use]
pub fn dns_label(text: &str) -> Messages {
    let mut out = Messages::new();
    if text.len() > 63 {
        out.push(max_len(63, "characters"));
    }
    if !is_label(text.as_bytes()) {
        if is_subdomain(text) {
            out.push("must not contain dots".into());
        } else {
            out.push(regex_message(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_FMT,
                &["my-name", "123-abc"],
            ));
        }
    }
    out
}

fn subdomain_with(text: &str, unit: &str) -> Messages {
    let mut out = Messages::new();
    if text.len() > 253 {
        out.push(max_len(253, unit));
    }
    if !is_subdomain(text) {
        out.push(regex_message(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_FMT,
            &["example.com"],
        ));
    }
    out
}

/// RFC 1123 subdomain: labels joined by dots, at most 253 in all.
#[must_use]
pub fn dns_subdomain(text: &str) -> Messages {
    subdomain_with(text, "characters")
}

/// RFC 1123 subdomain whose labels may hold underscores.
#[must_use]
pub fn dns_subdomain_with_underscore(text: &str) -> Messages {
    let mut out = Messages::new();
    if text.len() > 253 {
        out.push(max_len(253, "characters"));
    }
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part).as_bytes();
        part.first().is_some_and(alnum)
            && part.last().is_some_and(alnum)
            && part.iter().all(|b| alnum(b) || matches!(b, b'-' | b'_'))
    };
    if !text.split('.').all(label) {
        out.push(regex_message(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    out
}

/// RFC 1035 label: as an RFC 1123 label, but starting with a letter.
#[must_use]
pub fn dns1035_label(text: &str) -> Messages {
    let mut out = Messages::new();
    if text.len() > 63 {
        out.push(max_len(63, "characters"));
    }
    if !is_label(text.as_bytes()) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        out.push(regex_message(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    out
}

/// `*.` and a subdomain.
#[must_use]
pub fn wildcard_subdomain(text: &str) -> Messages {
    let mut out = Messages::new();
    if text.len() > 253 {
        out.push(max_len(253, "characters"));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        out.push(regex_message(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{SUBDOMAIN_FMT}"),
            &["*.example.com"],
        ));
    }
    out
}

fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

const QUALIFIED_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A label key, an annotation key, a resource name: `[prefix/]name`.
#[must_use]
pub fn qualified(text: &str) -> Messages {
    let mut out = Messages::new();
    let examples = ["MyName", "my.name", "123-abc"];
    let mut parts = text.split('/');
    let (first, second, more) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    if more.is_some() {
        let message = regex_message(QUALIFIED_MESSAGE, QUALIFIED_FMT, &examples);
        return vec![format!(
            "a valid label key {message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )];
    }
    let name = match second {
        None => first,
        Some(name) => {
            if first.is_empty() {
                out.push("prefix part must be non-empty".into());
            } else {
                out.extend(
                    subdomain_with(first, "bytes")
                        .into_iter()
                        .map(|m| format!("prefix part {m}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        out.push(format!("name part {}", max_len(63, "bytes")));
    }
    if !is_qualified_part(name) {
        out.push(format!(
            "name part {}",
            regex_message(QUALIFIED_MESSAGE, QUALIFIED_FMT, &examples)
        ));
    }
    out
}

/// A label's value: empty, or at most 63 of a qualified name's letters.
#[must_use]
pub fn label_value(text: &str) -> Messages {
    let mut out = Messages::new();
    if text.len() > 63 {
        out.push(max_len(63, "bytes"));
    }
    if !text.is_empty() && !is_qualified_part(text) {
        out.push(regex_message(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    out
}

fn dots(text: &str) -> Option<&'static str> {
    match text {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        _ if text.starts_with("..") => Some("must not start with '..'"),
        _ => None,
    }
}

/// A key of a `ConfigMap` or a `Secret`.
#[must_use]
pub fn config_key(text: &str) -> Messages {
    let mut out = Messages::new();
    if text.len() > 253 {
        out.push(max_len(253, "characters"));
    }
    if text.is_empty()
        || !text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    {
        out.push(regex_message(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    out.extend(dots(text).map(String::from));
    out
}

/// An environment variable's name: printable ASCII without `=`.
#[must_use]
pub fn env_var(text: &str) -> Messages {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".into()];
    }
    if text.chars().any(|c| !(' '..='~').contains(&c) || c == '=') {
        return vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".into()];
    }
    Messages::new()
}

/// An IANA service name, as container ports have.
#[must_use]
pub fn port_name(text: &str) -> Messages {
    let mut out = Messages::new();
    if text.len() > 15 {
        out.push(max_len(15, "characters"));
    }
    if text.is_empty()
        || !text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)".into());
    }
    if text.contains("--") {
        out.push("must not contain consecutive hyphens".into());
    }
    if text.starts_with('-') || text.ends_with('-') {
        out.push("must not begin or end with a hyphen".into());
    }
    out
}

/// A port's number.
#[must_use]
pub fn port_number(port: i64) -> Messages {
    if (1..=65535).contains(&port) {
        Messages::new()
    } else {
        vec![between(1, 65535)]
    }
}

/// A percentage such as `25%`.
#[must_use]
pub fn percent(text: &str) -> Messages {
    let digits = text.strip_suffix('%').unwrap_or("");
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Messages::new();
    }
    vec![regex_message(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// The name of an HTTP header.
#[must_use]
pub fn http_header(text: &str) -> Messages {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Messages::new();
    }
    vec![regex_message(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// Validates a name that is one segment of a URL path.
#[must_use]
pub fn path_segment(text: &str) -> Messages {
    match text {
        "." => return vec!["may not be '.'".into()],
        ".." => return vec!["may not be '..'".into()],
        _ => {}
    }
    path_segment_prefix(text)
}

/// Validates a prefix of a name that is one segment of a URL path.
#[must_use]
pub fn path_segment_prefix(text: &str) -> Messages {
    ["/", "%"]
        .iter()
        .filter(|c| text.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// How an object of a kind may be called. The flag says that the text is a
/// prefix (`generateName`), whose last hyphen will be followed by more.
pub(crate) type NameRule = fn(&str, prefix: bool) -> Messages;

/// Replaces the trailing hyphen of a prefix by a letter that stands for the generated
/// rest.
fn unprefixed(text: &str, prefix: bool) -> String {
    match text.strip_suffix('-') {
        Some(head) if prefix && !head.is_empty() => format!("{head}a"),
        _ => text.to_owned(),
    }
}

/// Most objects: a DNS subdomain.
pub(crate) fn subdomain_name(text: &str, prefix: bool) -> Messages {
    if prefix {
        dns_subdomain(&unprefixed(text, prefix))
    } else {
        dns_subdomain(text)
    }
}

/// A domain and a path below it, as in `acme.io/foo`.
pub(crate) fn domain_path(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        errors.required(at, "");
        return;
    }
    let (host, path) = text.split_once('/').unwrap_or_default();
    if host.is_empty() || path.is_empty() {
        errors.invalid(
            at,
            text,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        );
        return;
    }
    errors.invalid_each(at, host, dns_subdomain(host));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !path.bytes().all(allowed) {
        let regex = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
        errors.invalid(at, path, regex_message("Invalid path", regex, &[]));
    }
}

/// Namespaces and some others: a DNS label.
pub(crate) fn label_name(text: &str, prefix: bool) -> Messages {
    if prefix {
        dns_label(&unprefixed(text, prefix))
    } else {
        dns_label(text)
    }
}

/// RBAC kinds: any path segment.
pub(crate) fn segment_name(text: &str, prefix: bool) -> Messages {
    if prefix {
        path_segment_prefix(text)
    } else {
        path_segment(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_refuse_upper_case_dots_and_hyphens_at_the_ends() {
        assert!(dns_label("a-b1").is_empty());
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns_label("-a").len(), 1);
        assert_eq!(dns_label(&"A".repeat(64)).len(), 2);
        assert!(!dns1035_label("1a").is_empty());
    }

    #[test]
    fn qualified_names_have_at_most_one_prefix() {
        assert!(qualified("example.com/My_Name").is_empty());
        assert_eq!(qualified("/x"), ["prefix part must be non-empty"]);
        assert!(qualified("a/b/c")[0].starts_with("a valid label key must consist"));
        assert_eq!(qualified("").len(), 2);
    }

    #[test]
    fn keys_may_not_climb() {
        assert_eq!(config_key(".."), ["must not be '..'"]);
        assert_eq!(config_key("..a"), ["must not start with '..'"]);
        assert!(config_key(".a").is_empty());
    }

    #[test]
    fn generated_names_may_end_with_a_hyphen() {
        assert!(subdomain_name("web-", true).is_empty());
        assert!(!subdomain_name("web-", false).is_empty());
    }
}
