//! Objects without what differs between two runs of the same program: times, uids, revisions,
//! random names, allocated addresses and ports.

use std::collections::BTreeMap;

use control_client::{Resource, resources};
use regex::Regex;
use serde_json::Value;

use super::mirror::Known;

/// A cluster's objects of a case in a form that can be compared: by resource and canonical
/// name, the objects with that name, in order.
pub type Snapshot = BTreeMap<String, Vec<Value>>;

/// Replaces names, uids, times and addresses in texts.
pub struct Normalizer {
    names: Vec<(String, String)>,
    uids: Vec<(String, String)>,
    patterns: Vec<(Regex, &'static str)>,
}

impl Normalizer {
    /// A normalizer for a case with these objects. `case` is its name.
    pub fn new(case: &str, known: &BTreeMap<String, Known>) -> Result<Self, regex::Error> {
        let mut names: Vec<(String, String)> = known
            .values()
            .filter_map(|one| {
                let prefix = one.generate_name.as_ref()?;
                (one.name != *prefix).then(|| (one.name.clone(), format!("{prefix}*")))
            })
            .collect();
        // A name may be the beginning of another.
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.dedup();
        let canonical = |name: &str| {
            let found = names.iter().find(|(known, _)| known == name);
            found.map_or_else(|| name.to_owned(), |(_, canonical)| canonical.clone())
        };
        let uids = known.iter().map(|(uid, one)| {
            let name = canonical(&one.name);
            (uid.clone(), format!("uid of {} {name}", one.kind))
        });
        let uids = uids.collect();
        let pattern = |text: &str, with| Regex::new(text).map(|regex| (regex, with));
        let patterns = vec![
            pattern(
                r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                "uid",
            )?,
            pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "time")?,
            pattern(r"kube-api-access-[a-z0-9]{5}", "kube-api-access")?,
            pattern(
                r"-----BEGIN CERTIFICATE-----[\s\S]*-----END CERTIFICATE-----\s*",
                "certificate",
            )?,
            // The minute in the names of a CronJob's Jobs.
            pattern(r"-2[89]\d{6}\b", "-minute")?,
            pattern(r"\b10\.(96|244)\.\d+\.\d+(/\d+)?", "address")?,
            pattern(&format!(r"\b{case}\b"), "case")?,
        ];
        Ok(Self {
            names,
            uids,
            patterns,
        })
    }

    /// A text without what is random.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in self.uids.iter().chain(&self.names) {
            if text.contains(from.as_str()) {
                text = text.replace(from.as_str(), to);
            }
        }
        for (pattern, with) in &self.patterns {
            if let std::borrow::Cow::Owned(replaced) = pattern.replace_all(&text, *with) {
                text = replaced;
            }
        }
        text
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(|item| self.value(item)).collect();
                if is_set(&items) {
                    items.sort_by_key(Value::to_string);
                }
                items.into()
            }
            Value::Object(fields) => fields
                .iter()
                .filter(|(key, _)| *key != "resourceVersion")
                .map(|(key, value)| (self.text(key), self.value(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            other => other.clone(),
        }
    }

    /// All objects of a case.
    pub fn snapshot(&self, objects: &[(Resource, Vec<Value>)]) -> Snapshot {
        let mut all = Snapshot::new();
        for (resource, objects) in objects {
            for object in objects {
                // A conflict with the kubelet, which is made up for by the next attempt.
                if *resource == resources::EVENTS && object["reason"] == "FailedUpdate" {
                    continue;
                }
                let (name, object) = if *resource == resources::EVENTS {
                    self.event(object)
                } else {
                    self.object(resource, object)
                };
                let name = format!("{resource}/{name}");
                all.entry(name).or_default().push(object);
            }
        }
        for (name, objects) in &mut all {
            objects.sort_by_key(Value::to_string);
            if name.starts_with("events/") {
                // How often a thing is tried, and how events are counted, is a matter of time.
                objects.dedup();
            }
        }
        all
    }

    /// What is compared of an event.
    fn event(&self, event: &Value) -> (String, Value) {
        let about = &event["involvedObject"];
        let text = |value: &Value| self.text(value.as_str().unwrap_or_default());
        let name = format!("{} {}", text(&about["kind"]), text(&about["name"]));
        let told = serde_json::json!({
            "type": event["type"], "reason": event["reason"],
            "component": event["source"]["component"],
        });
        (name, told)
    }

    fn object(&self, resource: &Resource, object: &Value) -> (String, Value) {
        let mut object = object.clone();
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("managedFields");
        }
        if *resource == resources::SERVICES
            && let Some(ports) = object
                .pointer_mut("/spec/ports")
                .and_then(Value::as_array_mut)
        {
            for port in ports {
                if !port["nodePort"].is_null() {
                    port["nodePort"] = "port".into();
                }
            }
        }
        let object = self.value(&object);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        (name.to_owned(), object)
    }
}

/// Whether the order of a list says nothing: conditions, endpoints, addresses, references.
fn is_set(items: &[Value]) -> bool {
    let has = |fields: &[&str]| {
        let mut objects = items.iter();
        objects.all(|item| fields.iter().any(|field| item.get(field).is_some()))
    };
    has(&["type", "addresses", "ip", "uid"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known() -> BTreeMap<String, Known> {
        let one = |kind: &str, name: &str, prefix: Option<&str>| Known {
            kind: kind.to_owned(),
            name: name.to_owned(),
            generate_name: prefix.map(ToOwned::to_owned),
        };
        [
            (
                "3f0c7f5e-0000-4000-8000-000000000001".to_owned(),
                one("Pod", "web-abc12", Some("web-")),
            ),
            (
                "3f0c7f5e-0000-4000-8000-000000000002".to_owned(),
                one("ReplicaSet", "web", None),
            ),
        ]
        .into()
    }

    #[test]
    fn texts_lose_what_is_random() {
        let normal = Normalizer::new("case-7", &known()).unwrap();
        for (text, wanted) in [
            ("Created pod: web-abc12", "Created pod: web-*"),
            ("case-7/web at 2026-01-01T00:00:00Z", "case/web at time"),
            ("3f0c7f5e-0000-4000-8000-000000000001", "uid of Pod web-*"),
            ("3f0c7f5e-0000-4000-8000-000000000009", "uid"),
            ("cron-29413212", "cron-minute"),
            ("10.244.0.7 and 10.96.3.4", "address and address"),
            ("case-70", "case-70"),
        ] {
            assert_eq!(normal.text(text), wanted);
        }
    }

    #[test]
    fn alike_objects_are_counted_and_events_are_not() {
        let normal = Normalizer::new("case-7", &known()).unwrap();
        let pod = |name: &str| json!({"metadata": {"name": name, "resourceVersion": "5"}});
        let event = |name: &str| {
            json!({"metadata": {"name": name}, "reason": "Created", "type": "Normal",
                "involvedObject": {"kind": "Pod", "name": "web-abc12"}})
        };
        let objects = [
            (resources::PODS, vec![pod("web-abc12"), pod("web-abc12")]),
            (resources::EVENTS, vec![event("a"), event("b")]),
        ];
        let snapshot = normal.snapshot(&objects);
        assert_eq!(snapshot["pods/web-*"].len(), 2);
        assert_eq!(snapshot["events/Pod web-*"].len(), 1);
    }
}
