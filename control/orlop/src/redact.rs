//! Removes secrets from text and objects that leave the machine.
//!
//! Everything in a support bundle passes through [`text`] last, after any other
//! redaction. It prefers to remove too much.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// The replacement of a secret.
pub const MARK: &str = "<redacted>";

/// Patterns of secrets.
static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // PEM (RFC 7468) of keys, also where line breaks are escaped.
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\z)",
        // JSON Web Tokens (RFC 7519).
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*",
        // Bootstrap tokens.
        r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",
        // Credentials in URLs (RFC 3986, section 3.2.1).
        r"(?P<before>[a-z][a-z0-9+.-]*://)[^/\s@:]+:[^/\s@]+(?P<after>@)",
        // HTTP authorization (RFC 9110).
        r"(?i)(?P<before>\b(bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}",
        // Fields and options by their names, in JSON, YAML, and command lines.
        r#"(?i)(?P<before>\b[a-z0-9_.-]*(password|passwd|secret|token|api[_-]?key|private[_-]?key|client-key-data|credential|passphrase)[a-z0-9_-]*\\?["']?\s*[:=]\s*)(?P<value>\\?"[^"\\]*\\?"|'[^']*'|[^\s,;&"'}\]]+)"#,
        r#"(?i)(?P<before>--[a-z0-9-]*(password|secret|token|key)\s+)[^\s"'-][^\s"']*"#,
    ]
    .into_iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// Values of fields by these names are secrets, or may hold some.
const SECRET_FIELDS: [&str; 8] = [
    "password",
    "secret",
    "token",
    "key-data",
    "privatekey",
    "apikey",
    "credential",
    "passphrase",
];
/// Names that hold none, though they sound so.
const HARMLESS_FIELDS: [&str; 8] = [
    "secretname",
    "secretref",
    "automountserviceaccounttoken",
    "imagepullsecrets",
    "secrets",
    "serviceaccounttoken",
    "tokenexpirationseconds",
    "continue_token",
];

/// Takes secrets out of a text.
#[must_use]
pub fn text(text: &str) -> String {
    let mut text = text.to_owned();
    for pattern in SECRETS.iter() {
        let replaced = pattern.replace_all(&text, |found: &Captures<'_>| {
            let part = |name| found.name(name).map_or("", |it| it.as_str());
            let value = part("value");
            // Empty values are no secrets, and neither are counts of secrets.
            if matches!(value, "true" | "false" | "null" | "\"\"" | "''" | "{" | "[") {
                return found[0].to_owned();
            }
            let quote = if value.starts_with('"') { "\"" } else { "" };
            format!("{}{quote}{MARK}{quote}{}", part("before"), part("after"))
        });
        text = replaced.into_owned();
    }
    text
}

/// Removes secrets from an API object, and useless parts: values of environment
/// variables, arguments of containers' commands, annotations that repeat objects, field
/// managers, data of Secrets and ConfigMaps.
pub fn object(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(object),
        Value::Object(fields) => {
            fields.remove("managedFields");
            let kind = fields.get("kind").and_then(Value::as_str);
            if matches!(
                kind,
                Some("Secret" | "ConfigMap" | "SecretList" | "ConfigMapList")
            ) {
                for name in ["data", "stringData", "binaryData", "items"] {
                    if let Some(data) = fields.get_mut(name) {
                        *data = MARK.into();
                    }
                }
            }
            for (name, field) in fields.iter_mut() {
                match name.as_str() {
                    "env" => environment(field),
                    "annotations" => annotations(field),
                    "command" | "args" if field.is_array() => *field = MARK.into(),
                    name if is_secret(name) && (field.is_string() || field.is_object()) => {
                        *field = MARK.into();
                    }
                    _ => object(field),
                }
            }
        }
        _ => {}
    }
}

/// Values of variables; where they come from stays.
fn environment(field: &mut Value) {
    for variable in field.as_array_mut().into_iter().flatten() {
        if let Some(value) = variable.get_mut("value") {
            *value = MARK.into();
        }
    }
}

fn annotations(field: &mut Value) {
    for (name, value) in field.as_object_mut().into_iter().flatten() {
        if name.ends_with("last-applied-configuration") || is_secret(name) {
            *value = MARK.into();
        }
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !HARMLESS_FIELDS.contains(&name.as_str())
        && SECRET_FIELDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(SECRETS.len(), 7);
    }

    #[test]
    fn secrets_are_taken_out_of_text() {
        for (before, secret) in [
            (
                "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n",
                "MHcCAQEE",
            ),
            ("-----BEGIN PRIVATE KEY-----\\nMIGHAgEA", "MIGHAgEA"),
            (
                "token eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrIn0.c2ln used",
                "eyJpc3MiOiJrIn0",
            ),
            ("join with abcdef.0123456789abcdef now", "0123456789abcdef"),
            ("https://me:hunter2@registry/v2", "hunter2"),
            ("Authorization: Bearer abc.def-ghi_jkl", "abc.def-ghi_jkl"),
            ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
            ("password: hunter2", "hunter2"),
            ("DB_PASSWORD=hunter2 PORT=1", "hunter2"),
            (r#"{"token":"hunter2","port":1}"#, "hunter2"),
            (r#"{\"clientSecret\":\"hunter2\"}"#, "hunter2"),
            ("client-key-data: TUlHSEFnRUE=", "TUlHSEFnRUE="),
            ("orlop agent --token hunter2 --join x", "hunter2"),
            ("--bootstrap-token=hunter2", "hunter2"),
        ] {
            let after = text(before);
            assert!(!after.contains(secret), "{before} became {after}");
            assert!(after.contains(MARK), "{before} became {after}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for line in [
            "2026-05-01T12:00:00Z INFO node is ready node=node-1 address=10.0.0.1",
            "service default/web: 3 endpoints, generation 7",
            "automountServiceAccountToken: true",
            r#"{"nodeEligible":true,"lastUpdated":"2026-05-01T11:50:00Z"}"#,
            "-----BEGIN CERTIFICATE-----",
        ] {
            assert_eq!(text(line), line);
        }
    }

    #[test]
    fn secrets_are_taken_out_of_objects_and_the_rest_stays() {
        let mut pod = json!({
            "kind": "Pod",
            "metadata": {
                "name": "web",
                "managedFields": [{ "manager": "kubectl" }],
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{\"env\":\"hunter2\"}",
                    "example.com/owner": "team-a",
                },
            },
            "spec": {
                "automountServiceAccountToken": false,
                "imagePullSecrets": [{ "name": "registry" }],
                "containers": [{
                    "image": "web:1",
                    "args": ["--pass", "hunter2"],
                    "env": [
                        { "name": "PASS", "value": "hunter2" },
                        { "name": "REF", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
                    ],
                }],
            },
            "status": { "podIP": "10.0.0.7" },
        });
        object(&mut pod);
        let text = pod.to_string();
        assert!(
            !text.contains("hunter2") && !text.contains("managedFields"),
            "{text}"
        );
        for kept in ["web:1", "10.0.0.7", "team-a", "registry", "secretKeyRef"] {
            assert!(text.contains(kept), "{kept} is not in {text}");
        }
        let mut secret = json!({ "kind": "Secret", "data": { "tls.crt": "aHVudGVyMg==" } });
        object(&mut secret);
        assert_eq!(secret, json!({ "kind": "Secret", "data": MARK }));
    }
}
