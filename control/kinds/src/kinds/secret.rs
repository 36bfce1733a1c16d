//! Secret: bytes by key, of a type that says which keys.

use control_types::value::Value;

use super::config_map::{MAX_SIZE, check_immutable, decoded_len};
use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, immutable, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{Field, FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "Secret",
    namespaced: Some(true),
    default,
    prepare_update,
    validate_create,
    validate_update,
    warnings,
    selectable: &["type"],
    selectable_fields,
    columns: columns::SECRET,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn default(object: &mut Value) {
    object.blank("type", "Opaque");
    // write-only convenience: text that becomes bytes, over what `data` says
    let Some(Value::Object(text)) = object.get("stringData").cloned() else {
        return;
    };
    object.drop_field("stringData");
    if text.is_empty() {
        return;
    }
    let data = object.make("data");
    for (key, value) in text.iter() {
        data.put(key, encode(value.as_text().as_bytes()));
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding.
fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    out
}

/// The bytes behind base64; `None` when it is none.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0);
    for b in text.bytes().filter(|b| *b != b'=') {
        let value = ALPHABET.iter().position(|a| *a == b)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    Some(out)
}

fn prepare_update(new: &mut Value, old: &Value) {
    // the type of a secret may not change; left out, it stays
    new.blank("type", old.text("type"));
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    let at = Path::new("data");
    let data = object.at("data");
    let mut total = 0;
    for (key, value) in object.entries("data") {
        errors.invalid_each(&at.key(key), key, names::config_key(key));
        total += decoded_len(value.as_text());
    }
    if total > MAX_SIZE {
        errors.too_long(&at, MAX_SIZE);
    }
    let required = |key: &str, errors: &mut Errors| errors.required(&at.key(key), "");
    match object.text("type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if object.at("metadata").at("annotations").text(key).is_empty() {
                errors.required(&Path::new("metadata.annotations").key(key), "");
            }
        }
        "kubernetes.io/dockercfg" => docker(data, ".dockercfg", &at, errors),
        "kubernetes.io/dockerconfigjson" => docker(data, ".dockerconfigjson", &at, errors),
        "kubernetes.io/basic-auth"
            if data.get("username").is_none() && data.get("password").is_none() =>
        {
            required("username", errors);
            required("password", errors);
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            required("ssh-privatekey", errors);
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if data.get(key).is_none() {
                    required(key, errors);
                }
            }
        }
        _ => {}
    }
}

/// Registry credentials: a JSON object.
fn docker(data: &Value, key: &str, at: &Path<'_>, errors: &mut Errors) {
    let Some(text) = data.get(key) else {
        errors.required(&at.key(key), "");
        return;
    };
    let bytes = decode(text.as_text()).unwrap_or_default();
    let problem = match serde_json::from_slice::<serde_json::Value>(&bytes) {
        Ok(serde_json::Value::Object(_) | serde_json::Value::Null) => return,
        Ok(other) => {
            let kind = match other {
                serde_json::Value::Array(_) => "array",
                serde_json::Value::String(_) => "string",
                serde_json::Value::Bool(_) => "bool",
                _ => "number",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(e) if e.is_eof() => "unexpected end of JSON input".into(),
        Err(_) => {
            let first = String::from_utf8_lossy(&bytes)
                .trim_start()
                .chars()
                .next()
                .unwrap_or(' ');
            format!("invalid character '{first}' looking for beginning of value")
        }
    };
    errors.invalid(&at.key(key), "<secret contents redacted>", problem);
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| check(object, errors))
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        immutable(new.at("type"), old.at("type"), &Path::new("type"), errors);
        check_immutable(new, old, &["data"], errors);
        check(new, errors);
    })
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    if object.text("type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let has_pem = |key: &str| {
        decode(object.at("data").text(key))
            .is_some_and(|bytes| String::from_utf8_lossy(&bytes).contains("-----BEGIN "))
    };
    if !has_pem("tls.crt") {
        return vec!["tls: failed to find any PEM data in certificate input".into()];
    }
    if !has_pem("tls.key") {
        return vec!["tls: failed to find any PEM data in key input".into()];
    }
    Vec::new()
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    vec![("type", object.text("type").to_owned())]
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = i64::try_from(object.size("data")).unwrap_or(i64::MAX);
    vec![
        name(object),
        object.text("type").into(),
        count.into(),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_bytes_and_wins_over_data() {
        let mut object =
            Value::from_slice(br#"{"data":{"a":"eA=="},"stringData":{"a":"hello","b":"hi"}}"#)
                .expect("test object");
        default(&mut object);
        assert_eq!(object.at("data").text("a"), "aGVsbG8=");
        assert_eq!(object.at("data").text("b"), "aGk=");
        assert!(!object.has("stringData"));
        assert_eq!(decode("aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(decode("!"), None);
    }

    #[test]
    fn a_tls_secret_needs_both_halves() {
        let object = Value::from_slice(
            br#"{"metadata":{"name":"t","namespace":"n"},"type":"kubernetes.io/tls","data":{"tls.crt":""}}"#,
        )
        .expect("test object");
        let found = validate_create(&object);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "data[tls.key]: Required value");
    }
}
