//! The trace of a request: whose number it has, and whether it is sent.

use std::sync::Arc;

use control_access::User;
use http::header::USER_AGENT;
use http::request::Parts;
use http::{HeaderMap, Method};

use super::Tracer;
use super::context::{Parent, TRACEPARENT};
use super::span::{Span, Trace};
use control_request::RequestInfo;

/// Groups whose members say themselves whether they are traced.
const BELIEVED: [&str; 2] = ["system:masters", "system:monitoring"];
/// How much of what clients say of themselves is told on.
const LONGEST: usize = 1024;

/// A request that may be traced.
#[derive(Debug)]
pub struct RequestTrace {
    trace: Arc<Trace>,
    whole: Span,
    /// The number that it has if it is a trace of its own, and whether it is sent then.
    own: ([u8; 16], bool),
    /// What the client says of it.
    theirs: Option<Parent>,
    /// Whether it was answered.
    answered: bool,
}

impl RequestTrace {
    /// A request that came; `None` if it will not be traced, whoever sent it.
    pub(super) fn begin(
        tracer: &Arc<Tracer>,
        parts: &Parts,
        info: &RequestInfo,
        audit_id: &str,
    ) -> Option<Self> {
        let theirs = parts.headers.get(TRACEPARENT);
        let theirs = theirs.and_then(|text| Parent::parse(text.to_str().ok()?));
        let own: [u8; 16] = rand::random();
        let by_chance = tracer.samples(own);
        if !by_chance && !theirs.is_some_and(|theirs| theirs.sampled) {
            return None;
        }
        let target = parts.uri.path_and_query();
        let target = clipped(target.map_or("", |target| target.as_str()));
        let trace = Trace::new(Arc::clone(tracer));
        let whole = trace
            .root(name(&parts.method, info))
            .with("http.request.method", parts.method.as_str())
            .with("http.target", target)
            .with("url.path", target.split('?').next().unwrap_or_default())
            .with("user_agent.original", clipped(agent(&parts.headers)))
            .with("audit-id", clipped(audit_id));
        if theirs.is_none() {
            // Whoever asks, it is a trace of its own.
            trace.decide(Some(own));
        }
        Some(Self {
            trace,
            whole,
            own: (own, by_chance),
            theirs,
            answered: false,
        })
    }

    /// It is known who asks. Returns whether it is traced.
    pub fn set_user(&mut self, user: &User) -> bool {
        let mut groups = user.groups.iter();
        self.decide(groups.any(|group| BELIEVED.contains(&group.as_str())));
        self.trace.number().is_some()
    }

    fn decide(&mut self, is_believed: bool) {
        if self.trace.is_decided() {
            return;
        }
        let (own, by_chance) = self.own;
        let (parent, link, number) = match self.theirs {
            Some(theirs) if is_believed => {
                (Some(theirs), None, theirs.sampled.then_some(theirs.trace))
            }
            link => (None, link, by_chance.then_some(own)),
        };
        self.whole.follows(parent, link);
        self.trace.decide(number);
    }

    /// The span of the whole request.
    pub fn whole(&self) -> &Span {
        &self.whole
    }

    /// It is answered.
    pub fn answered(&mut self, code: u16) {
        self.answered = true;
        self.whole.set("http.response.status_code", i64::from(code));
        if code >= 500 {
            self.whole.fails();
        }
    }
}

impl Drop for RequestTrace {
    fn drop(&mut self) {
        // Who asked it did not become known.
        self.decide(false);
        if !self.answered {
            self.whole.fails();
        }
    }
}

/// What kube-apiserver calls a request's span.
fn name(method: &Method, info: &RequestInfo) -> String {
    if !info.is_resource {
        return method.to_string();
    }
    let mut name = format!(
        "{method} /{}",
        if info.group.is_empty() { "api" } else { "apis" }
    );
    for part in [
        &*info.group,
        &*info.version,
        if info.namespace.is_empty() {
            ""
        } else {
            "namespaces/{:namespace}"
        },
        &*info.resource,
        if info.name.is_empty() { "" } else { "{:name}" },
        &*info.subresource,
    ] {
        if !part.is_empty() {
            name.push('/');
            name.push_str(part);
        }
    }
    name
}

/// The span of what is done to objects, which is called after the verb.
pub fn of_verb(whole: &Span, info: &RequestInfo) -> Option<Span> {
    let name = match info.verb {
        "get" => "Get",
        "list" => "List",
        "create" => "Create",
        "update" => "Update",
        "patch" => "Patch",
        "delete" | "deletecollection" => "Delete",
        _ => return None,
    };
    let span = whole.child(name)?;
    Some(
        span.with("verb", info.verb)
            .with("api-group", &*info.group)
            .with("api-version", &*info.version)
            .with("resource", &*info.resource)
            .with("subresource", &*info.subresource)
            .with("namespace", &*info.namespace)
            .with("name", &*info.name),
    )
}

fn agent(headers: &HeaderMap) -> &str {
    let agent = headers.get(USER_AGENT);
    agent
        .and_then(|agent| agent.to_str().ok())
        .unwrap_or_default()
}

fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}
