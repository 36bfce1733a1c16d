//! Watches of the server in memory.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::target::text;
use super::{Api, ObjectKey, ResourceName};

/// An open watch.
pub(super) struct Watcher {
    pub(super) api: Api,
    pub(super) incarnation: u64,
    pub(super) resource: ResourceName,
    pub(super) namespace: String,
    pub(super) selector: Selector,
    /// The revision that was shown last; none before the initial events.
    pub(super) cursor: Option<u64>,
    pub(super) cuts: u64,
    pub(super) changed: watch::Receiver<u64>,
    pub(super) deadline: tokio::time::Instant,
}

impl Watcher {
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        loop {
            self.changed.borrow_and_update();
            self.api.unless_dead(self.incarnation).await;
            if let Some(chunk) = self.ready() {
                return Some(chunk);
            }
            tokio::select! {
                _ = self.changed.changed() => {}
                () = tokio::time::sleep_until(self.deadline) => return None,
            }
            tokio::time::sleep(Duration::from_micros(rand::random_range(100..5_000))).await;
        }
    }

    fn matches(&self, key: &ObjectKey, object: &Value) -> bool {
        key.resource == self.resource
            && (self.namespace.is_empty() || key.namespace == self.namespace)
            && self.selector.matches(object)
    }

    fn ready(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        let api = self.api.clone();
        let state = api.state();
        if state.cuts != self.cuts {
            return Some(Err(std::io::ErrorKind::ConnectionReset.into()));
        }
        let held = state.held.get(&self.resource).copied();
        let Some(cursor) = self.cursor else {
            if held.is_some() {
                return None;
            }
            let mut lines = String::new();
            for (key, object) in state.of_resource(&self.resource) {
                if self.matches(key, object) {
                    lines += &format!("{}\n", json!({"type": "ADDED", "object": object}));
                }
            }
            self.cursor = Some(state.revision);
            lines += &format!(
                "{}\n",
                json!({"type": "BOOKMARK", "object": {"metadata": {
                "resourceVersion": state.revision.to_string(),
                "annotations": {"k8s.io/initial-events-end": "true"}}}})
            );
            return Some(Ok(lines.into()));
        };
        let until = held.unwrap_or(state.revision);
        let mut lines = String::new();
        // The log is in order: what is new is at its end.
        let new = state.log.partition_point(|event| event.revision <= cursor);
        for event in &state.log[new..] {
            if event.revision <= until && self.matches(&event.key, &event.object) {
                lines += &format!("{}\n", json!({"type": event.kind, "object": event.object}));
            }
        }
        self.cursor = Some(cursor.max(until));
        (!lines.is_empty()).then(|| Ok(lines.into()))
    }
}

/// Which objects of a resource.
#[derive(Debug, Default)]
pub(super) struct Selector(Vec<(String, bool, String)>);

impl Selector {
    pub(super) fn of(query: &HashMap<String, String>) -> Self {
        let mut terms = Vec::new();
        let mut add = |prefix: &str, selector: Option<&String>| {
            let parts = selector.map(String::as_str).unwrap_or_default().split(',');
            for term in parts.filter(|term| !term.is_empty()) {
                let (key, value) = term.split_once('=').unwrap_or((term, ""));
                let equal = !key.ends_with('!');
                let key = key.trim_end_matches('!');
                let pointer = if prefix.is_empty() {
                    format!("/{}", key.replace('.', "/"))
                } else {
                    format!("{prefix}/{}", key.replace('/', "~1"))
                };
                terms.push((pointer, equal, value.trim_start_matches('=').to_owned()));
            }
        };
        add("", query.get("fieldSelector"));
        add("/metadata/labels", query.get("labelSelector"));
        Self(terms)
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let holds = |(pointer, equal, value): &(String, bool, String)| {
            (text(object, pointer) == value) == *equal
        };
        self.0.iter().all(holds)
    }
}
