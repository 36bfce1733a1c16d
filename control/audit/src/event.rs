//! What is written down of a request (`audit.k8s.io/v1` `Event`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use control_access::User;
use control_types::status::{Status, quote};
use control_types::value;
use control_types::value::Value;
use jiff::Timestamp;

use super::policy::{Level, Stage};

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// How much it tells.
    pub level: Level,
    /// Under which id the request is found.
    pub id: String,
    /// At which stage of the request.
    pub stage: Stage,
    /// Path and query as they were sent.
    pub uri: String,
    /// The verb.
    pub verb: &'static str,
    /// Who asked, if that was found out.
    pub user: User,
    /// As whom, and by which constrained right.
    pub other: Option<(User, String)>,
    /// From where, by way of which proxies.
    pub sources: Vec<String>,
    /// With which program.
    pub agent: String,
    /// What it was about.
    pub about: Option<Value>,
    /// What became of it.
    pub status: Option<Value>,
    /// What the client sent, JSON.
    pub request: Option<Bytes>,
    /// What it was answered, JSON.
    pub response: Option<Bytes>,
    /// When it came.
    pub received: Timestamp,
    /// When this stage was reached.
    pub at: Timestamp,
    /// What else is known.
    pub annotations: BTreeMap<Cow<'static, str>, String>,
}

/// What an answer is told as: its code, and for a failure all of it.
#[must_use]
pub fn status(code: u16, failure: Option<&Status>) -> Value {
    let mut told = value!({"metadata": {}});
    if let Some(failure) = failure
        && let Value::Object(all) = failure.to_value()
    {
        for (key, value) in all.iter() {
            if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata" | "code") {
                told.insert(key.clone(), value.clone());
            }
        }
    }
    told.insert("code", i64::from(code));
    told
}

// === impl Event ===

impl Event {
    /// No event: what tells who gathers them that no more will come.
    pub(super) fn end() -> Self {
        Self {
            level: Level::None,
            id: String::new(),
            stage: Stage::Panic,
            uri: String::new(),
            verb: "",
            user: User::default(),
            other: None,
            sources: Vec::new(),
            agent: String::new(),
            about: None,
            status: None,
            request: None,
            response: None,
            received: Timestamp::UNIX_EPOCH,
            at: Timestamp::UNIX_EPOCH,
            annotations: BTreeMap::new(),
        }
    }

    /// Whether this is none.
    pub(super) fn is_end(&self) -> bool {
        self.level == Level::None
    }

    /// The event as the API has it, without a line break.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut event = Value::object();
        event.insert("kind", "Event");
        event.insert("apiVersion", "audit.k8s.io/v1");
        self.members(&mut event);
        event.to_vec_with(&self.request, &self.response)
    }

    fn members(&self, event: &mut Value) {
        event.insert("level", self.level.name());
        event.insert("auditID", self.id.as_str());
        event.insert("stage", self.stage.name());
        event.insert("requestURI", self.uri.as_str());
        event.insert("verb", self.verb);
        event.insert("user", user(&self.user));
        if let Some((other, constraint)) = &self.other {
            event.insert("impersonatedUser", user(other));
            if !constraint.is_empty() {
                event.insert(
                    "authenticationMetadata",
                    value!({"impersonationConstraint": (constraint.as_str())}),
                );
            }
        }
        if !self.sources.is_empty() {
            event.insert("sourceIPs", texts(&self.sources));
        }
        if !self.agent.is_empty() {
            event.insert("userAgent", self.agent.as_str());
        }
        if let Some(about) = &self.about {
            event.insert("objectRef", about.clone());
        }
        if let Some(status) = &self.status {
            event.insert("responseStatus", status.clone());
        }
        // The objects come here, as bytes.
        event.insert("requestReceivedTimestamp", micro(self.received));
        event.insert("stageTimestamp", micro(self.at));
        if !self.annotations.is_empty() {
            let mut annotations = Value::object();
            for (key, value) in &self.annotations {
                annotations.insert(&**key, value.as_str());
            }
            event.insert("annotations", annotations);
        }
    }

    /// The event in kube-apiserver's old format of one line.
    #[must_use]
    pub fn to_legacy(&self) -> String {
        let list = |texts: &[String]| {
            let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
            texts.join(",")
        };
        let (name, groups) = match &self.user {
            user if user.name.is_empty() => ("<none>", "<none>".to_owned()),
            user if user.groups.is_empty() => (&*user.name, "<none>".to_owned()),
            user => (&*user.name, list(&user.groups)),
        };
        let (other, other_groups) = match &self.other {
            None => ("<self>", "<lookup>".to_owned()),
            Some((other, _)) if other.groups.is_empty() => (&*other.name, "<lookup>".to_owned()),
            Some((other, _)) => (&*other.name, list(&other.groups)),
        };
        let about = self.about.as_ref();
        let namespace = about.and_then(|about| about.str_at(&["namespace"]));
        let code = self
            .status
            .as_ref()
            .and_then(|status| status.i64_at(&["code"]));
        let mut line = String::new();
        let _ = write!(
            line,
            "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={} asgroups={} user-agent={} namespace={} uri={} response=\"{}\"",
            self.received,
            quote(&self.id),
            quote(self.stage.name()),
            quote(self.sources.first().map_or("<unknown>", |ip| ip)),
            quote(self.verb),
            quote(name),
            quote(&groups),
            quote(other),
            quote(&other_groups),
            quote(&self.agent),
            quote(namespace.unwrap_or("<none>")),
            quote(&self.uri),
            code.map_or_else(|| "<deferred>".to_owned(), |code| code.to_string()),
        );
        line
    }
}

/// Writing a tree with two members that are bytes already.
trait WithObjects {
    fn to_vec_with(&self, request: &Option<Bytes>, response: &Option<Bytes>) -> Vec<u8>;
}

impl WithObjects for Value {
    fn to_vec_with(&self, request: &Option<Bytes>, response: &Option<Bytes>) -> Vec<u8> {
        let Value::Object(members) = self else {
            return self.to_vec();
        };
        let more = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let mut out = Vec::with_capacity(1024 + more(request) + more(response));
        out.push(b'{');
        for (at, (key, value)) in members.iter().enumerate() {
            if key.as_str() == "requestReceivedTimestamp" {
                for (name, bytes) in [("requestObject", request), ("responseObject", response)] {
                    if let Some(bytes) = bytes {
                        out.extend_from_slice(b",\"");
                        out.extend_from_slice(name.as_bytes());
                        out.extend_from_slice(b"\":");
                        out.extend_from_slice(bytes.trim_ascii());
                    }
                }
            }
            if at > 0 {
                out.push(b',');
            }
            Value::write_string(key.as_str(), &mut out);
            out.push(b':');
            value.write(&mut out);
        }
        out.push(b'}');
        out
    }
}

fn user(user: &User) -> Value {
    let mut told = Value::object();
    if !user.name.is_empty() {
        told.insert("username", user.name.as_str());
    }
    if !user.uid.is_empty() {
        told.insert("uid", user.uid.as_str());
    }
    if !user.groups.is_empty() {
        told.insert("groups", texts(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = Value::object();
        let mut all: Vec<_> = user.extra.iter().collect();
        all.sort();
        for (key, values) in all {
            extra.insert(key.as_str(), texts(values));
        }
        told.insert("extra", extra);
    }
    told
}

fn texts(texts: &[String]) -> Value {
    Value::Array(texts.iter().map(|text| text.as_str().into()).collect())
}

/// A time as `metav1.MicroTime` writes it.
fn micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn event() -> Event {
        let at: Timestamp = "2026-01-02T03:04:05.678901Z".parse().expect("a time");
        Event {
            level: Level::RequestResponse,
            id: "7".into(),
            stage: Stage::ResponseComplete,
            uri: "/api/v1/namespaces/a/pods?x=\"y\"".into(),
            verb: "create",
            user: User::named("ann", []),
            other: None,
            sources: vec!["192.0.2.1".into()],
            agent: "kubectl".into(),
            about: Some(value!({"resource": "pods", "namespace": "a", "apiVersion": "v1"})),
            status: Some(status(201, None)),
            request: Some(Bytes::from_static(b"{\"a\":1}\n")),
            response: Some(Bytes::from_static(b"{\"b\":2}")),
            received: at,
            at,
            annotations: BTreeMap::from([(Cow::from("k"), "v".to_owned())]),
        }
    }

    #[test]
    fn events_are_written_as_the_api_has_them() {
        let text = String::from_utf8(event().to_json()).expect("text");
        assert_eq!(
            text,
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"7","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/pods?x=\"y\"","verb":"create","user":{"username":"ann","groups":["system:authenticated"]},"sourceIPs":["192.0.2.1"],"userAgent":"kubectl","objectRef":{"resource":"pods","namespace":"a","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"requestObject":{"a":1},"responseObject":{"b":2},"requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z","stageTimestamp":"2026-01-02T03:04:05.678901Z","annotations":{"k":"v"}}"#
        );
        Value::from_slice(text.as_bytes()).expect("JSON");
    }

    #[test]
    fn failures_are_told_with_their_reason() {
        let told = status(404, Some(&Status::not_found("", "pods", "x")));
        assert_eq!(
            String::from_utf8(told.to_vec()).expect("text"),
            r#"{"metadata":{},"status":"Failure","message":"pods \"x\" not found","reason":"NotFound","details":{"name":"x","kind":"pods"},"code":404}"#
        );
    }

    #[test]
    fn the_old_format_is_one_line() {
        let mut event = event();
        event.other = Some((User::named("bob", []), String::new()));
        assert_eq!(
            event.to_legacy(),
            r#"2026-01-02T03:04:05.678901Z AUDIT: id="7" stage="ResponseComplete" ip="192.0.2.1" method="create" user="ann" groups="\"system:authenticated\"" as="bob" asgroups="\"system:authenticated\"" user-agent="kubectl" namespace="a" uri="/api/v1/namespaces/a/pods?x=\"y\"" response="201""#
        );
    }
}
