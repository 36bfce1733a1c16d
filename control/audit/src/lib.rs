//! Auditing (`audit.k8s.io/v1`): who asked for what, and how it was answered.
//!
//! A [`Policy`] decides what is recorded of a request; events go to one or two
//! [sinks](SinkOptions): a file, a server. Where nothing is configured a request
//! costs nothing.

mod event;
mod log;
mod policy;
mod sink;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use control_access::User;
use control_metrics::{Kind, Page};
use control_types::status::Status;
use control_types::value::Value;
use control_types::{coerce, meta, protobuf, registry, yaml};
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;

use self::event::Event;
use self::sink::Sink;
use control_proxy::egress::kubeconfig;
use control_request::peer::{ClientAddr, PeerCertificates};
use control_request::{Annotations, RequestInfo};

pub use log::{Format, LogOptions};
pub use policy::{Level, Policy, PolicyError, Stage, Verdict};
pub use sink::{Batch, Mode, SinkOptions, SinkTarget, Truncate};

/// How much of a client's description of itself is written.
const AGENT: usize = 1024;

/// Why requests cannot be audited.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be opened.
    #[error("the audit log `{}` cannot be opened", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The webhook's configuration cannot be used.
    #[error("the audit webhook cannot be used")]
    Webhook(#[source] kubeconfig::Error),
}

/// A policy and where its events go.
#[derive(Debug)]
pub struct Audit {
    policy: Policy,
    sinks: Vec<Sink>,
    events: AtomicU64,
    rejected: AtomicU64,
    levels: [AtomicU64; 4],
}

/// What is known of a request that is audited.
#[derive(Debug)]
pub struct Entry {
    audit: Arc<Audit>,
    verdict: Verdict,
    event: Event,
    annotations: Annotations,
    /// What the request was about before its object was looked at.
    unheard: Option<Option<Value>>,
}

/// A request that may be audited.
#[derive(Debug, Clone, Copy)]
pub struct AuditedRequest<'a> {
    /// What its method and path say.
    pub info: &'a RequestInfo,
    /// Its head.
    pub parts: &'a Parts,
    /// Who asks, once that is known.
    pub user: Option<&'a User>,
    /// Under which id.
    pub id: &'a HeaderValue,
    /// When it came.
    pub received: Timestamp,
    /// What filters and handlers add to its events.
    pub annotations: &'a Annotations,
}

// === impl Audit ===

impl Audit {
    /// Opens the sinks. What gathers events runs on the runtime that this is called
    /// on.
    ///
    /// # Errors
    /// When a sink cannot be opened.
    pub fn open(
        policy: Policy,
        sinks: impl IntoIterator<Item = SinkOptions>,
    ) -> Result<Arc<Self>, Error> {
        let sinks = sinks.into_iter().map(Sink::open);
        Ok(Arc::new(Self {
            policy,
            sinks: sinks.collect::<Result<_, _>>()?,
            events: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            levels: Default::default(),
        }))
    }

    /// Waits until what was gathered is written.
    pub async fn close(&self) {
        for sink in &self.sinks {
            sink.close().await;
        }
    }

    /// What the policy says of a request; `None` when nothing is written.
    pub fn begin(self: &Arc<Self>, asked: &AuditedRequest<'_>) -> Option<Entry> {
        let verdict = self.policy.judge(asked.info, asked.user);
        self.levels[place(verdict.level)].fetch_add(1, Ordering::Relaxed);
        if verdict.level == Level::None {
            return None;
        }
        if verdict.level >= Level::Request {
            asked.annotations.want_object();
        }
        let AuditedRequest { info, parts, .. } = *asked;
        let uri = parts.uri.path_and_query();
        let event = Event {
            level: verdict.level,
            id: asked.id.to_str().unwrap_or_default().to_owned(),
            stage: Stage::RequestReceived,
            uri: uri.map_or_else(String::new, ToString::to_string),
            verb: info.verb,
            user: asked.user.cloned().unwrap_or_default(),
            other: None,
            sources: sources(parts),
            agent: agent(&parts.headers),
            about: info.is_resource.then(|| about(info)),
            status: None,
            request: None,
            response: None,
            received: asked.received,
            at: asked.received,
            annotations: BTreeMap::new(),
        };
        Some(Entry {
            audit: Arc::clone(self),
            verdict,
            event,
            annotations: asked.annotations.clone(),
            unheard: None,
        })
    }

    /// Writes what was counted.
    #[expect(clippy::cast_precision_loss, reason = "counts of a page for people")]
    pub fn write(&self, page: &mut Page) {
        let name = "apiserver_audit_event";
        page.family(
            name,
            Kind::Counter,
            "Counter of audit events generated and sent to the audit backend.",
        );
        let count = self.events.load(Ordering::Relaxed);
        page.sample("apiserver_audit_event_total", &[], count as f64);
        let name = "apiserver_audit_error";
        page.family(name, Kind::Counter, "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.");
        for sink in &self.sinks {
            let (plugin, lost) = sink.lost();
            page.sample(
                "apiserver_audit_error_total",
                &[("plugin", plugin)],
                lost as f64,
            );
        }
        let name = "apiserver_audit_level";
        page.family(
            name,
            Kind::Counter,
            "Counter of policy levels for audit events (1 per request).",
        );
        for level in [
            Level::None,
            Level::Metadata,
            Level::Request,
            Level::RequestResponse,
        ] {
            let count = self.levels[place(level)].load(Ordering::Relaxed);
            let labels = [("level", level.name())];
            page.sample("apiserver_audit_level_total", &labels, count as f64);
        }
        let name = "apiserver_audit_requests_rejected";
        page.family(
            name,
            Kind::Counter,
            "Counter of apiserver requests rejected due to an error in audit logging backend.",
        );
        let count = self.rejected.load(Ordering::Relaxed);
        page.sample("apiserver_audit_requests_rejected_total", &[], count as f64);
    }
}

fn place(level: Level) -> usize {
    match level {
        Level::None => 0,
        Level::Metadata => 1,
        Level::Request => 2,
        Level::RequestResponse => 3,
    }
}

// === impl Entry ===

impl Entry {
    /// The request is made as another user; `constraint` is the verb of constrained
    /// impersonation that allowed it, or empty.
    pub fn impersonated(&mut self, user: &User, constraint: &str) {
        self.event.other = Some((user.clone(), constraint.to_owned()));
    }

    /// Whether the client's object is written.
    pub fn wants_request(&self) -> bool {
        self.event.level >= Level::Request
    }

    /// Whether the answer's object is written.
    pub fn wants_response(&self) -> bool {
        self.event.level >= Level::RequestResponse
    }

    /// The client sent this.
    pub fn request(&mut self, headers: &HeaderMap, body: &Bytes) {
        let Some((tree, bytes)) = self.object(headers, body) else {
            return;
        };
        self.unheard = Some(self.event.about.clone());
        if let (Some(tree), Some(about)) = (tree, &mut self.event.about) {
            for key in ["name", "uid", "resourceVersion"] {
                if let Some(text) = tree.str_at(&["metadata", key])
                    && !text.is_empty()
                    && about.get(key).is_none()
                {
                    about.insert(key, text);
                }
            }
        }
        self.event.request = Some(bytes);
    }

    /// Nobody looks at what the client sent: the request goes no further.
    pub fn unheard(&mut self) {
        self.event.request = None;
        if let Some(about) = self.unheard.take() {
            self.event.about = about;
        }
    }

    /// The client deletes with these options, which are written as the kind that they
    /// are to kube-apiserver.
    pub fn deletion(&mut self, headers: &HeaderMap, body: &Bytes) {
        let Some((Some(mut tree), _)) = self.object(headers, body) else {
            return;
        };
        tree.insert("kind", "DeleteOptions");
        tree.insert("apiVersion", "meta.k8s.io/__internal");
        self.event.request = Some(tree.to_vec().into());
    }

    /// Whether only the name is missing of what the client's object says.
    pub fn wants_name(&self) -> bool {
        let about = self.event.about.as_ref();
        self.event.verb == "create" && about.is_some_and(|about| about.get("name").is_none())
    }

    /// The client sent this, of which only the name is written.
    pub fn name(&mut self, headers: &HeaderMap, body: &Bytes) {
        self.request(headers, body);
        self.event.request = None;
    }

    /// It was answered a Status, though nothing failed: that something was deleted.
    pub fn deleted(&mut self, headers: &HeaderMap, body: &Bytes) {
        let Some((Some(tree), _)) = self.object(headers, body) else {
            return;
        };
        let Some(told) = &mut self.event.status else {
            return;
        };
        if meta::kind(&tree) == "Status" {
            for key in ["status", "message", "reason", "details"] {
                if let Some(value) = tree.get(key) {
                    told.insert(key, value.clone());
                }
            }
        }
    }

    /// It was answered this.
    pub fn response(&mut self, headers: &HeaderMap, body: &Bytes) {
        self.event.response = self.object(headers, body).map(|(_, bytes)| bytes);
    }

    /// It was answered so.
    pub fn answered(&mut self, code: u16, failure: Option<&Status>) {
        self.event.status = Some(event::status(code, failure));
    }

    /// It was answered by nobody: the message of a status without a code.
    pub fn refused(&mut self, code: u16, message: &str) {
        let mut status = control_types::value!({"metadata": {}});
        status.insert("message", message);
        status.insert("code", i64::from(code));
        self.event.status = Some(status);
    }

    /// A stage is reached. Whether the request may go on.
    pub async fn reach(&mut self, stage: Stage) -> bool {
        if !self.verdict.wants(stage) {
            return true;
        }
        let event = Arc::new(self.at(stage));
        self.audit.events.fetch_add(1, Ordering::Relaxed);
        let mut may = true;
        for sink in &self.audit.sinks {
            may &= sink.take(&event).await;
        }
        if !may && stage == Stage::RequestReceived {
            self.audit.rejected.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    fn at(&mut self, stage: Stage) -> Event {
        self.event.stage = stage;
        if stage != Stage::RequestReceived {
            self.event.at = Timestamp::now();
        }
        if let Some(mut sent) = self.annotations.take_object() {
            if self.verdict.omit_managed_fields {
                policy::without_managed_fields(&mut sent);
            }
            self.event.request = Some(sent.to_vec().into());
        }
        let mut event = self.event.clone();
        event.annotations = self.annotations.all();
        event
    }

    /// An object as JSON, and as a tree where there is one.
    fn object(&self, headers: &HeaderMap, body: &Bytes) -> Option<(Option<Value>, Bytes)> {
        if body.is_empty() {
            return None;
        }
        let media = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let media = media.unwrap_or("application/json");
        let mut tree = if media.contains("protobuf") {
            let mut tree = protobuf::decode(body).ok()?;
            // In protobuf zeros are written that JSON leaves out.
            let version = meta::api_version(&tree);
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            if let Some(kind) = registry::schema_of(group, version, meta::kind(&tree)) {
                coerce::coerce(&mut tree, kind).ok()?;
                coerce::complete(&mut tree, kind);
            }
            tree
        } else if media.contains("yaml") {
            yaml::read(body).ok()?.value
        } else {
            // What is no JSON would make the event none.
            Value::from_slice(body).ok()?
        };
        if self.verdict.omit_managed_fields {
            policy::without_managed_fields(&mut tree);
        } else if media.contains("json") {
            let bytes = body.clone();
            return Some((Some(tree), bytes));
        }
        let bytes = tree.to_vec().into();
        Some((Some(tree), bytes))
    }
}

/// Tells a request's last stage when it is dropped, as streams are.
#[derive(Debug)]
pub struct LastStage(Option<Entry>);

impl LastStage {
    /// Keeps the entry of a request whose answer is a stream.
    #[must_use]
    pub fn new(entry: Entry) -> Self {
        Self(Some(entry))
    }
}

impl Drop for LastStage {
    fn drop(&mut self) {
        let Some(mut entry) = self.0.take() else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                entry.reach(Stage::ResponseComplete).await;
            });
        }
    }
}

/// Which credentials a request brought, for an event about their failure.
pub fn credentials(parts: &Parts) -> String {
    let mut tried = Vec::new();
    let header = parts.headers.get(AUTHORIZATION);
    let header = header
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let scheme = header
        .trim()
        .split_once(' ')
        .map(|(scheme, _)| scheme.to_lowercase());
    match scheme.as_deref() {
        Some("basic") => tried.push("basic"),
        Some("bearer") => tried.push("bearer"),
        _ => {}
    }
    if control_request::pairs(parts.uri.query().unwrap_or_default())
        .any(|(key, value)| key == "access_token" && !value.trim().is_empty())
    {
        tried.push("access_token");
    }
    if parts.extensions.get::<PeerCertificates>().is_some() {
        tried.push("x509");
    }
    if tried.is_empty() {
        "Authentication failed, no credentials provided".to_owned()
    } else {
        format!("Authentication failed, attempted: {}", tried.join(", "))
    }
}

fn about(info: &RequestInfo) -> Value {
    let mut about = Value::object();
    for (key, text) in [
        ("resource", &info.resource),
        ("namespace", &info.namespace),
        ("name", &info.name),
        ("apiGroup", &info.group),
        ("apiVersion", &info.version),
        ("subresource", &info.subresource),
    ] {
        if !text.is_empty() {
            about.insert(key, text.as_str());
        }
    }
    about
}

/// The client, by way of proxies that say so; the last is who is connected.
fn sources(parts: &Parts) -> Vec<String> {
    let header = |name: &str| {
        let value = parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let mut sources: Vec<String> = Vec::new();
    let forwarded = header("x-forwarded-for");
    let real = header("x-real-ip");
    for text in forwarded.split(',').chain([real.as_str()]) {
        if let Ok(address) = text.trim().parse::<std::net::IpAddr>() {
            let address = address.to_string();
            if !sources.contains(&address) {
                sources.push(address);
            }
        }
    }
    let connected = parts.extensions.get::<ClientAddr>().map_or_else(
        || "127.0.0.1".to_owned(),
        |ClientAddr(address)| address.ip().to_canonical().to_string(),
    );
    if sources.last() != Some(&connected) {
        sources.push(connected);
    }
    sources
}

fn agent(headers: &HeaderMap) -> String {
    let header = headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok());
    let header = header.unwrap_or_default();
    match header.char_indices().nth(AGENT) {
        Some((end, _)) => format!("{}...TRUNCATED", &header[..end]),
        None => header.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/api?access_token=x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn proxies_are_believed_for_the_log_but_the_connection_is_told_too() {
        let mut parts = parts(&[
            ("x-forwarded-for", "192.0.2.7, evil, 192.0.2.8"),
            ("x-real-ip", "192.0.2.7"),
        ]);
        parts
            .extensions
            .insert(ClientAddr("198.51.100.1:77".parse().expect("an address")));
        assert_eq!(sources(&parts), ["192.0.2.7", "192.0.2.8", "198.51.100.1"]);
    }

    #[test]
    fn tried_credentials_are_told_but_not_shown() {
        let parts = parts(&[("authorization", "Bearer secret")]);
        let told = credentials(&parts);
        assert_eq!(
            told,
            "Authentication failed, attempted: bearer, access_token"
        );
    }

    #[test]
    fn long_descriptions_are_cut() {
        let long = "x".repeat(2000);
        let parts = parts(&[("user-agent", &long)]);
        let told = agent(&parts.headers);
        assert_eq!(told.len(), 1024 + "...TRUNCATED".len());
    }
}
