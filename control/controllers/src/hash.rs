//! Hashes of JSON that do not depend on its formatting.
//!
//! Object keys are sorted, and values that the API treats as absent are left out: nulls,
//! empty lists, and those empty objects that Go's encoder writes for absent values. So
//! two servers that print the same template differently yield the same hash, and a
//! restart never starts a rollout.

use serde_json::Value;

use crate::template_dump;

const OFFSET_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0000_0100_0000_01b3;
const OFFSET_128: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME_128: u128 = (1 << 88) + 0x13b;
const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;

/// Letters and digits that form no words; names of Kubernetes use them.
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Objects that may be empty without meaning anything.
const EMPTY_MEANS_ABSENT: [&str; 9] = [
    "annotations",
    "labels",
    "limits",
    "metadata",
    "nodeSelector",
    "requests",
    "resources",
    "securityContext",
    "matchLabels",
];

/// A 64-bit FNV-1a digest of `value`, without `metadata.labels[skip_label]`.
pub(crate) fn digest64(value: &Value, skip_label: &str) -> u64 {
    let mut state = OFFSET_64;
    walk(value, skip_label, &mut |bytes| {
        for byte in bytes {
            state = (state ^ u64::from(*byte)).wrapping_mul(PRIME_64);
        }
    });
    state
}

/// The hash by which kube-controller-manager orders ports and subsets: FNV-1a, 128 bits, over
/// the dump of a value of this type of the API.
///
/// # Errors
/// When the value cannot be dumped as Go does it.
pub(crate) fn order_hash(
    name: &str,
    value: &Value,
) -> Result<u128, template_dump::UnsupportedValue> {
    let mut state = OFFSET_128;
    template_dump::dump_as(name, value, &mut |bytes| {
        for byte in bytes {
            state = (state ^ u128::from(*byte)).wrapping_mul(PRIME_128);
        }
    })?;
    Ok(state)
}

/// Returns the value of the `pod-template-hash` label, as kube-controller-manager
/// computes it: FNV-1a, 32 bits, over a dump of the template and the collision count, in
/// the alphabet of generated names.
///
/// A template that cannot be dumped as in Go gets another hash: controllers find their
/// objects by comparing templates, and the hash only has to be stable.
pub(crate) fn template_hash(template: &Value, collisions: Option<i32>) -> String {
    let mut state = OFFSET_32;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            state = (state ^ u32::from(*byte)).wrapping_mul(PRIME_32);
        }
    };
    let mut text = Vec::new();
    match template_dump::dump(template, &mut |bytes| text.extend_from_slice(bytes)) {
        Ok(()) => eat(&text),
        Err(template_dump::UnsupportedValue) => walk(template, "", &mut eat),
    }
    if let Some(count) = collisions {
        eat(&i64::from(count).to_le_bytes());
    }
    safe_encode(&state.to_string())
}

/// The hash of a ControllerRevision, byte for byte as kube-controller-manager computes
/// it: FNV-1, 32 bits, over the serialised data and the collision count in decimal, in
/// the alphabet of generated names.
pub(crate) fn revision_hash(data: &str, collisions: i32) -> String {
    let probe = collisions.to_string();
    let state = data
        .bytes()
        .chain(probe.bytes())
        .fold(OFFSET_32, |state, byte| {
            state.wrapping_mul(PRIME_32) ^ u32::from(byte)
        });
    safe_encode(&state.to_string())
}

/// A 64-bit FNV-1a digest of a text.
pub(crate) fn text_digest(text: &str) -> u64 {
    text.bytes().fold(OFFSET_64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(PRIME_64)
    })
}

/// Maps each character into the alphabet of generated names.
pub(crate) fn safe_encode(text: &str) -> String {
    text.bytes()
        .map(|b| char::from(SAFE[usize::from(b) % SAFE.len()]))
        .collect()
}

fn walk(value: &Value, skip_label: &str, eat: &mut impl FnMut(&[u8])) {
    match value {
        Value::Null => eat(b"n"),
        Value::Bool(true) => eat(b"t"),
        Value::Bool(false) => eat(b"f"),
        Value::Number(number) => {
            eat(b"#");
            eat(number.to_string().as_bytes());
        }
        Value::String(text) => eat_text(text, eat),
        Value::Array(items) => {
            eat(b"[");
            for item in items {
                walk(item, "", eat);
            }
            eat(b"]");
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            eat(b"{");
            for key in keys {
                let Some(item) = map.get(key) else { continue };
                if key == skip_label || absent(key, item, skip_label) {
                    continue;
                }
                eat_text(key, eat);
                // the label to skip is that of the outermost metadata only
                let below = matches!(key.as_str(), "metadata" | "labels");
                walk(item, if below { skip_label } else { "" }, eat);
            }
            eat(b"}");
        }
    }
}

fn eat_text(text: &str, eat: &mut impl FnMut(&[u8])) {
    eat(b"\"");
    eat(&text.len().to_le_bytes());
    eat(text.as_bytes());
}

fn absent(key: &str, value: &Value, skip_label: &str) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => {
            EMPTY_MEANS_ABSENT.contains(&key)
                && map
                    .iter()
                    .all(|(k, v)| (key == "labels" && k == skip_label) || absent(k, v, skip_label))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ways_of_writing_the_same_template_have_one_digest() {
        let a = json!({"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},
            "spec":{"containers":[{"name":"c","image":"i","resources":{}}],"tolerations":[],"securityContext":{}}});
        let b = json!({"spec":{"containers":[{"image":"i","name":"c"}]},
            "metadata":{"labels":{"pod-template-hash":"x","app":"web"}}});
        assert_eq!(
            digest64(&a, "pod-template-hash"),
            digest64(&b, "pod-template-hash")
        );
    }

    #[test]
    fn a_template_with_only_the_hash_label_is_one_without_labels() {
        let a = json!({"spec":{"x":1}});
        let b = json!({"metadata":{"labels":{"pod-template-hash":"x"}},"spec":{"x":1}});
        assert_eq!(
            digest64(&a, "pod-template-hash"),
            digest64(&b, "pod-template-hash")
        );
    }

    #[test]
    fn what_has_a_meaning_changes_the_digest() {
        let with = |volume: Value| json!({"spec":{"volumes":[volume]}});
        assert_ne!(
            digest64(&with(json!({"name":"v","emptyDir":{}})), ""),
            digest64(&with(json!({"name":"v"})), "")
        );
        assert_ne!(
            digest64(&json!({"args":["a","b"]}), ""),
            digest64(&json!({"args":["ab"]}), "")
        );
    }

    #[test]
    fn collision_count_changes_the_hash() {
        let template = json!({"spec":{"containers":[{"name":"c"}]}});
        let first = template_hash(&template, None);
        assert_eq!(first, template_hash(&template, None));
        assert_ne!(first, template_hash(&template, Some(1)));
        assert!(first.bytes().all(|b| SAFE.contains(&b)));
    }
}
