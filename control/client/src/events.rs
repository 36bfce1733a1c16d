//! Events: messages of a component to people about an object.
//!
//! Recording never waits and never fails for the caller: a separate task sends the
//! events. Equal events are counted in one object, many similar ones are combined, and an
//! object with too many events is silenced for a while (the limits are those of the stock
//! components).

mod correlator;
mod repeats;

use serde_json::{Value, json};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::correlator::{Correlator, Decision};
use crate::client::{Client, Discard, Patch};
use crate::error::Error;
use crate::meta::Meta;
use crate::resource::{Resource, resources};
use crate::time;

pub use self::repeats::RepeatFilter;

/// Events that may wait to be sent; more are dropped.
const BACKLOG: usize = 1000;

/// The API through which events are written. Readers of either see both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `v1`, as kubelet and the controllers write them.
    Core,
    /// `events.k8s.io/v1`, as the scheduler writes them: with an action.
    Events,
}

/// Whether an event is good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// A person may want to look.
    Warning,
}

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectReference {
    /// The API version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `ReplicaSet`.
    pub kind: String,
    /// Empty for cluster-scoped objects, whose events are in `default`.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's identity.
    pub uid: String,
    /// The part of the object, such as `spec.containers{web}`; may be empty.
    pub field_path: String,
}

impl ObjectReference {
    /// A reference to an object of `resource`.
    #[must_use]
    pub fn to_object(resource: &Resource, meta: &Meta) -> Self {
        Self {
            api_version: resource.api_version(),
            kind: resource.kind.to_string(),
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
            field_path: String::new(),
        }
    }

    fn to_json(&self) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
        });
        if let Some(object) = object.as_object_mut() {
            for (key, value) in [
                ("namespace", &self.namespace),
                ("fieldPath", &self.field_path),
            ] {
                if !value.is_empty() {
                    object.insert(key.to_owned(), json!(value));
                }
            }
        }
        object
    }

    /// The same, about a part of the object.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>) -> Self {
        self.field_path = path.into();
        self
    }
}

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Note {
    regarding: ObjectReference,
    related: Option<ObjectReference>,
    severity: Severity,
    reason: String,
    action: String,
    message: String,
}

/// Records events. Cloning is cheap. Events still waiting when the last clone
/// is dropped are sent.
#[derive(Clone, Debug)]
pub struct Recorder {
    sender: mpsc::Sender<Note>,
}

impl Recorder {
    /// A recorder for `component` (such as `kubelet`) on `host` (the node's
    /// name; for [`Format::Events`] the instance's name). Must be called
    /// within a tokio runtime.
    #[must_use]
    pub fn new(client: &Client, component: &str, host: &str, format: Format) -> Self {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let sink = Arc::new(Sink {
            client: client.clone(),
            component: component.to_owned(),
            host: host.to_owned(),
            format,
        });
        // The receiver outlives a run of the task, and with it the queued events.
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        control_supervise::task("event-recorder")
            .detail(component)
            .spawn_restarting(move || {
                let (sink, receiver) = (Arc::clone(&sink), Arc::clone(&receiver));
                async move { sink.run(&mut *receiver.lock().await).await }
            });
        Self { sender }
    }

    /// Records an event. `action` is what was done or attempted (only [`Format::Events`]
    /// shows it).
    pub fn event(
        &self,
        regarding: &ObjectReference,
        severity: Severity,
        reason: &str,
        action: &str,
        message: impl Into<String>,
    ) {
        self.send(Note {
            regarding: regarding.clone(),
            related: None,
            severity,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message: shorten(message.into()),
        });
    }

    /// Records an event that involves two objects: it happened to `regarding`, on behalf
    /// of `related`.
    pub fn event_related(
        &self,
        regarding: &ObjectReference,
        related: &ObjectReference,
        severity: Severity,
        reason: &str,
        action: &str,
        message: impl Into<String>,
    ) {
        self.send(Note {
            regarding: regarding.clone(),
            related: Some(related.clone()),
            severity,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message: shorten(message.into()),
        });
    }

    fn send(&self, note: Note) {
        if let Err(error) = self.sender.try_send(note) {
            let note = error.into_inner();
            let (reason, name) = (note.reason, note.regarding.name);
            tracing::debug!(reason, name, "too many events, dropping this one");
        }
    }

    /// How many events may still be recorded before some are dropped, until those
    /// that wait are sent.
    #[must_use]
    pub fn room(&self) -> usize {
        self.sender.capacity()
    }

    /// Good news.
    pub fn normal(&self, regarding: &ObjectReference, reason: &str, message: impl Into<String>) {
        self.event(regarding, Severity::Normal, reason, reason, message);
    }

    /// Bad news.
    pub fn warning(&self, regarding: &ObjectReference, reason: &str, message: impl Into<String>) {
        self.event(regarding, Severity::Warning, reason, reason, message);
    }
}

/// The API allows 1024 bytes.
fn shorten(mut message: String) -> String {
    const MOST: usize = 1024;
    const DOTS: &str = "...";
    if message.len() > MOST {
        let mut end = MOST - DOTS.len();
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message.push_str(DOTS);
    }
    message
}

// === impl Severity ===

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

// === impl Sink ===

struct Sink {
    client: Client,
    component: String,
    host: String,
    format: Format,
}

impl Sink {
    async fn run(&self, notes: &mut mpsc::Receiver<Note>) {
        let mut correlator = Correlator::default();
        let never = CancellationToken::new();
        while let Some(note) = notes.recv().await {
            let (note, decision) = correlator.decide(std::time::Instant::now(), note);
            let written = match decision {
                Decision::Drop => continue,
                Decision::Create => self.create(&note).await.map(Some),
                Decision::Repeat { name, count } => match self.repeat(&note, &name, count).await {
                    // it expired: a new one
                    Err(error) if error.is_not_found() => self.create(&note).await.map(Some),
                    other => other.map(|()| None),
                },
            };
            match written {
                Ok(Some(name)) => correlator.created(&note, name),
                Ok(None) => {}
                // in a namespace that ends nothing can be created: no loss
                Err(error) if error.is_namespace_terminating() || error.is_not_found() => {
                    correlator.failed(&note);
                }
                Err(error) => {
                    correlator.failed(&note);
                    tracing::debug!(
                        error = error.chain(),
                        reason = note.reason,
                        "failed to record an event"
                    );
                    if matches!(error, Error::Connection(_) | Error::Transport(_)) {
                        pause(&never).await;
                    }
                }
            }
        }
    }

    const fn resource(&self) -> &'static Resource {
        const CORE: &Resource = &resources::EVENTS;
        const EVENTS: &Resource = &resources::EVENTS_V1;
        match self.format {
            Format::Core => CORE,
            Format::Events => EVENTS,
        }
    }

    /// Creates the event; its name.
    async fn create(&self, note: &Note) -> Result<String, Error> {
        let now = jiff::Timestamp::now();
        let name = event_name(&note.regarding.name, now);
        let body = self.body(note, &name, now);
        let namespace = event_namespace(&note.regarding);
        self.client
            .create::<Discard>(self.resource(), namespace, &body)
            .await?;
        Ok(name)
    }

    async fn repeat(&self, note: &Note, name: &str, count: u32) -> Result<(), Error> {
        let now = jiff::Timestamp::now();
        let patch = match self.format {
            Format::Core => {
                json!({"count": count, "lastTimestamp": time::seconds(now), "message": note.message})
            }
            Format::Events => {
                json!({"series": {"count": count, "lastObservedTime": time::micros(now)}})
            }
        };
        let namespace = event_namespace(&note.regarding);
        self.client
            .patch::<Discard>(self.resource(), namespace, name, "", Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    fn body(&self, note: &Note, name: &str, now: jiff::Timestamp) -> Value {
        let metadata = json!({"name": name, "namespace": event_namespace(&note.regarding)});
        let object = note.regarding.to_json();
        let mut event = match self.format {
            Format::Core => json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": metadata,
                "involvedObject": object,
                "reason": note.reason,
                "message": note.message,
                "source": {"component": self.component, "host": self.host},
                "firstTimestamp": time::seconds(now),
                "lastTimestamp": time::seconds(now),
                "count": 1,
                "type": note.severity.as_str(),
                "reportingComponent": self.component,
                "reportingInstance": self.host,
            }),
            Format::Events => json!({
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": metadata,
                "eventTime": time::micros(now),
                "reportingController": self.component,
                "reportingInstance": self.host,
                "action": note.action,
                "reason": note.reason,
                "regarding": object,
                "note": note.message,
                "type": note.severity.as_str(),
            }),
        };
        if let (Some(related), Some(event)) = (&note.related, event.as_object_mut()) {
            event.insert("related".to_owned(), related.to_json());
        }
        event
    }
}

/// While the server cannot be reached, not every event in the backlog needs to
/// try in vain.
async fn pause(stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(std::time::Duration::from_secs(1)) => {}
    }
}

fn event_namespace(regarding: &ObjectReference) -> &str {
    if regarding.namespace.is_empty() {
        "default"
    } else {
        &regarding.namespace
    }
}

/// The object's name and the time: unique, and still a DNS subdomain.
fn event_name(object: &str, now: jiff::Timestamp) -> String {
    let suffix = format!(".{:x}", now.as_nanosecond().unsigned_abs());
    let mut end = object.len().min(253 - suffix.len());
    while !object.is_char_boundary(end) {
        end -= 1;
    }
    let head = object.get(..end).unwrap_or_default();
    format!("{}{suffix}", head.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_stay_within_the_limit() {
        let now = jiff::Timestamp::from_second(1_800_000_000).unwrap();
        assert_eq!(event_name("web", now), "web.18fae27693b40000");
        let long = event_name(&"a".repeat(253), now);
        assert_eq!(long.len(), 253);
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let message = shorten("é".repeat(600));
        assert!(message.len() <= 1024 && message.ends_with("..."));
        assert_eq!(shorten("short".to_owned()), "short");
    }
}
