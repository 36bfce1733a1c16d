//! Rules for names, labels and keys, with the messages that Kubernetes gives.
//!
//! Every check answers with messages, none when the text is good; the caller puts
//! the field before them (`k8s.io/apimachinery/pkg/util/validation`).

/// Longest DNS label (RFC 1123), in bytes.
pub const LABEL_MAX: usize = 63;
/// Longest DNS subdomain (RFC 1123), in bytes.
pub const SUBDOMAIN_MAX: usize = 253;

const LABEL_RE: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_RE: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const QUALIFIED_RE: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// `must be no more than N bytes`, as newer checks word it.
fn max_bytes(length: usize) -> String {
    format!("must be no more than {length} bytes")
}

/// `must be no more than N characters`, as older checks word it.
fn max_characters(length: usize) -> String {
    format!("must be no more than {length} characters")
}

/// `must be between A and B, inclusive`
#[must_use]
pub fn range_error(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// A message that quotes the regular expression and examples.
#[must_use]
pub fn regex_error(text: &str, regex: &str, examples: &[&str]) -> String {
    let mut out = text.to_owned();
    if examples.is_empty() {
        out.push_str(" (regex used for validation is '");
    } else {
        out.push_str(" (e.g. ");
        for (at, example) in examples.iter().enumerate() {
            if at > 0 {
                out.push_str(" or ");
            }
            out.push('\'');
            out.push_str(example);
            out.push_str("', ");
        }
        out.push_str("regex used for validation is '");
    }
    out.push_str(regex);
    out.push_str("')");
    out
}

fn is_label_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alnum = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(alnum)
        && bytes.last().is_some_and(alnum)
        && bytes.iter().all(|byte| alnum(byte) || *byte == b'-')
}

fn is_subdomain_shape(text: &str) -> bool {
    text.split('.').all(is_label_shape)
}

fn is_qualified_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// A lowercase DNS label of RFC 1123.
#[must_use]
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(max_characters(LABEL_MAX));
    }
    if !is_label_shape(text) {
        errors.push(if is_subdomain_shape(text) {
            "must not contain dots".to_owned()
        } else {
            regex_error(LABEL_TEXT, LABEL_RE, &["my-name", "123-abc"])
        });
    }
    errors
}

/// A lowercase DNS subdomain of RFC 1123: the rule for most object names.
#[must_use]
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    subdomain(text, max_characters(SUBDOMAIN_MAX))
}

fn subdomain(text: &str, too_long: String) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(too_long);
    }
    if !is_subdomain_shape(text) {
        errors.push(regex_error(SUBDOMAIN_TEXT, SUBDOMAIN_RE, &["example.com"]));
    }
    errors
}

/// A subdomain that may hold underscores, as a search domain in a pod's DNS settings.
#[must_use]
pub fn dns1123_subdomain_with_underscore(text: &str) -> Vec<String> {
    let label = |label: &str| {
        let body = label.strip_prefix('_').unwrap_or(label).as_bytes();
        let alnum = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        body.first().is_some_and(alnum)
            && body.last().is_some_and(alnum)
            && body.iter().all(|byte| alnum(byte) || b"-_".contains(byte))
    };
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(max_characters(SUBDOMAIN_MAX));
    }
    if !text.split('.').all(label) {
        errors.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    errors
}

/// A DNS label of RFC 1035 (starts with a letter): the rule for Service names.
#[must_use]
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(max_characters(LABEL_MAX));
    }
    if !(is_label_shape(text) && text.as_bytes()[0].is_ascii_lowercase()) {
        errors.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// A subdomain behind `*.`, as a host of an Ingress.
#[must_use]
pub fn wildcard_dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(max_characters(SUBDOMAIN_MAX));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain_shape) {
        errors.push(regex_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{SUBDOMAIN_RE}"),
            &["*.example.com"],
        ));
    }
    errors
}

/// Returns the name that a prefix for generated names is validated as: a trailing dash is
/// allowed because more characters follow.
#[must_use]
pub fn mask_trailing_dash(prefix: &str) -> String {
    if prefix.len() > 1 && prefix.ends_with('-') && prefix.is_char_boundary(prefix.len() - 2) {
        format!("{}a", &prefix[..prefix.len() - 2])
    } else {
        prefix.to_owned()
    }
}

/// A qualified name: the rule for label and annotation keys, finalizers, resources.
#[must_use]
pub fn qualified_name(text: &str) -> Vec<String> {
    let examples = &["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let messages = subdomain(prefix, max_bytes(SUBDOMAIN_MAX));
                errors.extend(
                    messages
                        .iter()
                        .map(|message| format!("prefix part {message}")),
                );
            }
            *name
        }
        _ => {
            let rule = regex_error(QUALIFIED_TEXT, QUALIFIED_RE, examples);
            errors.push(format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return errors;
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", max_bytes(LABEL_MAX)));
    }
    if !is_qualified_shape(name) {
        errors.push(format!(
            "name part {}",
            regex_error(QUALIFIED_TEXT, QUALIFIED_RE, examples)
        ));
    }
    errors
}

/// The value of a label.
#[must_use]
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(max_bytes(LABEL_MAX));
    }
    if !text.is_empty() && !is_qualified_shape(text) {
        errors.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED_RE})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// A C identifier.
#[must_use]
pub fn c_identifier(text: &str) -> Vec<String> {
    let good = text.bytes().enumerate().all(|(at, byte)| {
        byte == b'_' || byte.is_ascii_alphabetic() || (at > 0 && byte.is_ascii_digit())
    });
    if good && !text.is_empty() {
        return Vec::new();
    }
    vec![regex_error(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The name of an environment variable as older rules want it.
#[must_use]
pub fn env_var_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let good = text.bytes().enumerate().all(|(at, byte)| {
        b"-._".contains(&byte) || byte.is_ascii_alphabetic() || (at > 0 && byte.is_ascii_digit())
    });
    if !good || text.is_empty() {
        errors.push(regex_error(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        ));
    }
    errors.extend(upward_path(text));
    errors
}

/// The name of an environment variable: printable ASCII without `=`.
#[must_use]
pub fn relaxed_env_var_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if text
        .bytes()
        .any(|byte| !(b' '..=b'~').contains(&byte) || byte == b'=')
    {
        errors.push("a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned());
    }
    errors
}

/// A key of a `ConfigMap` or Secret.
#[must_use]
pub fn config_map_key(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(max_characters(SUBDOMAIN_MAX));
    }
    if text.is_empty()
        || !text
            .bytes()
            .all(|byte| b"-._".contains(&byte) || byte.is_ascii_alphanumeric())
    {
        errors.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    errors.extend(upward_path(text));
    errors
}

/// A key that would lead out of the directory it becomes a file in.
fn upward_path(text: &str) -> Option<String> {
    match text {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if text.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// A port's number.
#[must_use]
pub fn port_number(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) {
        Vec::new()
    } else {
        vec![range_error(1, 65535)]
    }
}

/// A port's name (an IANA service name).
#[must_use]
pub fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 15 {
        errors.push(max_characters(15));
    }
    let charset = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if text.is_empty() || !text.bytes().all(charset) {
        errors.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// `N%`
#[must_use]
pub fn percent(text: &str) -> Vec<String> {
    let good = text
        .strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    if good {
        return Vec::new();
    }
    vec![regex_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// The name of an HTTP header.
#[must_use]
pub fn http_header_name(text: &str) -> Vec<String> {
    if !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_alphanumeric())
    {
        return Vec::new();
    }
    vec![regex_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// A name that is one segment of a URL path.
#[must_use]
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|illegal| text.contains(*illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_texts_give_no_message() {
        assert!(dns1123_label("a-1").is_empty());
        assert!(dns1123_subdomain("a.b-c.d").is_empty());
        assert!(dns1035_label("web").is_empty());
        assert!(qualified_name("example.com/Some_name.x").is_empty());
        assert!(label_value("").is_empty());
        assert!(port_name("http-2").is_empty());
        assert!(config_map_key("a_B.c").is_empty());
        assert!(wildcard_dns1123_subdomain("*.a.b").is_empty());
        assert!(dns1123_subdomain_with_underscore("_tcp.a_b").is_empty());
    }

    #[test]
    fn bad_texts_give_the_messages_of_kubernetes() {
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns1123_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(
            qualified_name("/"),
            [
                "prefix part must be non-empty",
                "name part must be non-empty",
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        );
        assert_eq!(
            label_value(&"a".repeat(64)),
            ["must be no more than 63 bytes"]
        );
        assert_eq!(
            dns1123_label(&"a".repeat(64)),
            ["must be no more than 63 characters"]
        );
        assert_eq!(config_map_key(".."), ["must not be '..'"]);
        assert_eq!(
            path_segment("a/b%"),
            ["may not contain '/'", "may not contain '%'"]
        );
    }

    #[test]
    fn checks_survive_any_text() {
        for text in ["", "é", "-", "a-é", "\0", "*.", "/", "a/b/c"] {
            for check in [
                dns1123_label,
                dns1123_subdomain,
                dns1035_label,
                qualified_name,
                label_value,
                port_name,
                env_var_name,
                config_map_key,
                c_identifier,
                percent,
                path_segment,
                wildcard_dns1123_subdomain,
                dns1123_subdomain_with_underscore,
            ] {
                let _ = check(text);
                let _ = check(&mask_trailing_dash(text));
            }
        }
        assert_eq!(mask_trailing_dash("web-"), "wea");
    }
}
