//! What may differ between two correct servers is made the same: identities,
//! times, versions, allocated addresses, generated names, order of what has none.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// Members of which only whether they are set is compared.
const VOLATILE: [&str; 21] = [
    "acquireTime",
    "continue",
    "creationTimestamp",
    "deletionTimestamp",
    "eventTime",
    "expirationTimestamp",
    "firstTimestamp",
    "lastHeartbeatTime",
    "lastProbeTime",
    "lastTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "remainingItemCount",
    "renewTime",
    "resourceVersion",
    "selfLink",
    "startTime",
    "storageVersionHash",
    "time",
    "token",
    "uid",
];

/// Annotations of ours: the address from which a node registered (docs/get-started/join-a-machine.md).
const OWN: [&str; 1] = ["orlop.dev/joined-from"];

/// A text that one run makes up, and what stands for it.
struct Mask(Regex, &'static str);

fn mask(pattern: &str, with: &'static str) -> Mask {
    Mask(
        Regex::new(pattern).unwrap_or_else(|error| panic!("{error}")),
        with,
    )
}

static MASKS: LazyLock<[Mask; 11]> = LazyLock::new(|| {
    [
        mask(r"\borc-[a-z0-9]+-\d+\b", "<ns>"),
        mask(
            r"\b(kube-api-access-|[a-z0-9-]*gen-)[a-z0-9]{5}\b",
            "${1}<gen>",
        ),
        mask(
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "<uid>",
        ),
        mask(r#"(\bresourceVersion: )"?\d+"?"#, "${1}<set>"),
        // An object within a text, quoted once or twice.
        mask(r#"(\bresourceVersion\\*":\\*")\d+"#, "${1}<set>"),
        mask(
            r"(Too large resource version: \d+, current: )\d+",
            "${1}<set>",
        ),
        // The certificate of the one who asks.
        mask(r"\bX509SHA256=[0-9a-f]{64}\b", "<certificate>"),
        mask(r"(ResourceVersion in record \()\d+", "${1}<set>"),
        // Where this machine's servers are, and their certificates within texts.
        mask(r"127\.0\.0\.1:\d{4,5}", "<address>"),
        mask(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]+", "<pem>"),
        mask(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    ]
});

static CELLS: LazyLock<[Mask; 3]> = LazyLock::new(|| {
    [
        // When a container restarted last: a date in the question, an age in the answer.
        mask(r"\((\d+[smhdy])+ ago\)", "(<age> ago)"),
        mask(r"\b10\.96\.\d+\.\d+\b", "<ip>"),
        mask(r":3[0-2]\d\d\d/", ":<port>/"),
    ]
});

/// What stands allocated in a document of YAML.
static DOCUMENT: LazyLock<[Mask; 5]> = LazyLock::new(|| {
    [
        mask(r"\b10\.96\.\d+\.\d+\b", "<ip>"),
        mask(r"(\bnodePort: )\d+", "${1}<port>"),
        mask(r"(?m)^(\s*- )\d+s$", "${1}<age>"),
        mask(r"(?m)^(\s*remainingItemCount: )\d+$", "${1}<set>"),
        mask(r"(?m)^(\s*continue: )\S+$", "${1}<set>"),
    ]
});

static AGE: LazyLock<Mask> = LazyLock::new(|| mask(r"^(\d+[smhdy])+$", "<age>"));

/// A text without what one run makes up.
pub fn text(text: &str) -> String {
    let out = masked(text, &*MASKS);
    if out.starts_with("apiVersion: ") {
        masked(&out, &*DOCUMENT)
    } else {
        out
    }
}

fn masked(text: &str, masks: &[Mask]) -> String {
    let mut out = Cow::Borrowed(text);
    for Mask(pattern, with) in masks {
        if pattern.is_match(&out) {
            let replaced = pattern.replace_all(&out, |found: &Captures<'_>| {
                let mut expanded = String::new();
                found.expand(with, &mut expanded);
                expanded
            });
            out = Cow::Owned(replaced.into_owned());
        }
    }
    out.into_owned()
}

/// A value without what may differ. Done twice it is the same as done once, so
/// that recorded answers may be given, too.
pub fn value(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter_map(without_own)
                .map(|(key, value)| member((key, &value)))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(self::value).collect(),
        Value::String(text) => Value::String(self::text(text)),
        other => other.clone(),
    }
}

/// A member without the annotations that our server adds and a stock one does not; `None`
/// where nothing else is in it.
fn without_own<'a>((key, value): (&'a String, &'a Value)) -> Option<(&'a String, Cow<'a, Value>)> {
    let found = ["annotations", "f:annotations"].contains(&key.as_str());
    let own = |key: &str| OWN.contains(&key.trim_start_matches("f:"));
    match value.as_object() {
        Some(map) if found && map.keys().any(|key| own(key)) => {
            let mut rest = map.clone();
            rest.retain(|key, _| !own(key));
            let holds = rest.keys().any(|key| key != ".");
            holds.then_some((key, Cow::Owned(Value::Object(rest))))
        }
        _ => Some((key, Cow::Borrowed(value))),
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value == ""
}

fn member((key, value): (&String, &Value)) -> (String, Value) {
    let key = text(key);
    let made = match key.as_str() {
        "clusterIPs" if *value != serde_json::json!(["None"]) => {
            let count = value.as_array().map_or(0, Vec::len);
            vec![Value::from("<allocated>"); count].into()
        }
        "clusterIPs" => value.clone(),
        key if VOLATILE.contains(&key) => {
            if is_empty(value) {
                value.clone()
            } else {
                "<set>".into()
            }
        }
        "clusterIP" | "nodePort" | "healthCheckNodePort"
            if !is_empty(value) && value != "None" && value != 0 =>
        {
            "<allocated>".into()
        }
        "managedFields" => {
            let entries = value.as_array().into_iter().flatten();
            let entries = entries.map(|entry| match self::value(entry) {
                Value::Object(mut entry) => {
                    entry.remove("time");
                    Value::Object(entry)
                }
                other => other,
            });
            in_order(entries)
        }
        "resourceRules" | "nonResourceRules" => {
            in_order(value.as_array().into_iter().flatten().map(self::value))
        }
        "cells" => value.as_array().into_iter().flatten().map(cell).collect(),
        _ => self::value(value),
    };
    (key, made)
}

/// A cell of a table.
fn cell(value: &Value) -> Value {
    match self::value(value) {
        Value::String(text) if AGE.0.is_match(&text) => AGE.1.into(),
        Value::String(text) => masked(&text, &*CELLS).into(),
        other => other,
    }
}

fn in_order(items: impl Iterator<Item = Value>) -> Value {
    let mut items: Vec<(String, Value)> = items.map(|item| (sorted(&item), item)).collect();
    items.sort_by(|(a, _), (b, _)| a.cmp(b));
    items.into_iter().map(|(_, item)| item).collect()
}

/// JSON with members in alphabetical order.
pub fn sorted(value: &Value) -> String {
    fn ordered(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut members: Vec<_> = map.iter().collect();
                members.sort_by_key(|(key, _)| *key);
                let members = members.into_iter();
                Value::Object(
                    members
                        .map(|(key, value)| (key.clone(), ordered(value)))
                        .collect::<Map<_, _>>(),
                )
            }
            Value::Array(items) => items.iter().map(ordered).collect(),
            other => other.clone(),
        }
    }
    ordered(value).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_run_makes_up_is_masked() {
        let made = json!({
            "metadata": {
                "name": "gen-x7k2p",
                "namespace": "orc-00123-4",
                "uid": "0f8fad5b-d9cb-469f-a165-70867728950e",
                "resourceVersion": "17",
                "continue": ""
            },
            "spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "nodePort": 0},
            "message": "at 2026-11-21T10:00:00Z in orc-00123-4",
            "rows": [{"cells": ["a", "10.96.1.2", "80:30123/TCP", "3d4h", "3 (4d5h ago)"]}]
        });
        let expected = json!({
            "metadata": {
                "name": "gen-<gen>",
                "namespace": "<ns>",
                "uid": "<set>",
                "resourceVersion": "<set>",
                "continue": ""
            },
            "spec": {"clusterIP": "<allocated>", "clusterIPs": ["<allocated>"], "nodePort": 0},
            "message": "at <time> in <ns>",
            "rows": [{"cells": ["a", "<ip>", "80:<port>/TCP", "<age>", "3 (<age> ago)"]}]
        });
        assert_eq!(value(&made), expected);
        assert_eq!(value(&expected), expected);
    }

    #[test]
    fn headless_services_stay_headless() {
        let headless = json!({"clusterIP": "None", "clusterIPs": ["None"]});
        assert_eq!(value(&headless), headless);
    }

    #[test]
    fn managers_have_no_order_and_no_times() {
        let one = json!({"managedFields": [{"manager": "b", "time": "x"}, {"manager": "a"}]});
        let other = json!({"managedFields": [{"manager": "a", "time": "y"}, {"manager": "b"}]});
        assert_eq!(value(&one), value(&other));
    }
}
