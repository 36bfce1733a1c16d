//! Traces of requests, sent to a collector of OpenTelemetry (KEP-647).
//!
//! A request is traced when whoever sent it says so (`traceparent`, W3C Trace
//! Context), or by chance. Only members of `system:masters` and `system:monitoring`
//! are believed that: for others a trace of our own begins, which points to theirs.
//! Spans wait in a bounded queue; what does not fit in is lost, and counted. Where no
//! collector is configured a request costs a look at a pointer.

mod config;
mod otlp;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use control_access::User;
use http::header::USER_AGENT;
use http::request::Parts;
use http::{HeaderMap, Method};

use self::otlp::{Exporter, Span};
use crate::egress::Dialer;
use crate::exposition::{Kind, Page};
use crate::request::RequestInfo;

pub use self::config::{Config, Error};

/// Groups whose members say themselves whether they are traced.
const BELIEVED: [&str; 2] = ["system:masters", "system:monitoring"];
/// How much of what clients say of themselves is told on.
const LONGEST: usize = 1024;

/// Samples requests, and sends spans.
#[derive(Debug)]
pub struct Tracer {
    /// Traces whose number is less are sampled.
    bound: u64,
    exporter: Exporter,
}

/// Another span, of which this one is a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parent {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

/// A request that may be traced.
#[derive(Debug)]
pub(crate) struct Traced {
    tracer: Arc<Tracer>,
    parent: Option<Parent>,
    is_believed: bool,
    began: (SystemTime, Instant),
    method: Method,
    target: String,
    agent: String,
    name: String,
    audit_id: String,
    steps: Vec<(&'static str, Instant, Instant)>,
    code: u16,
}

// === impl Tracer ===

impl Tracer {
    /// Sends to the collector of a configuration, which is reached by `dialer`, on the
    /// runtime that this is called on. Whether the collector is there is not asked.
    ///
    /// # Errors
    /// When its address is none.
    pub fn new(config: &Config, dialer: Dialer) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            bound: bound(config.rate),
            exporter: Exporter::to(&config.endpoint, dialer)?,
        }))
    }

    /// A request that came; `None` if it will not be traced, whoever sent it.
    pub(crate) fn begin(
        self: &Arc<Self>,
        parts: &Parts,
        info: &RequestInfo,
        audit_id: &str,
    ) -> Option<Traced> {
        let parent = parts.headers.get("traceparent");
        let parent = parent.and_then(|text| Parent::parse(text.to_str().ok()?));
        if self.bound == 0 && !parent.is_some_and(|parent| parent.sampled) {
            return None;
        }
        Some(Traced {
            tracer: Arc::clone(self),
            parent,
            is_believed: false,
            began: (SystemTime::now(), Instant::now()),
            method: parts.method.clone(),
            target: clipped(
                parts
                    .uri
                    .path_and_query()
                    .map_or("", |target| target.as_str()),
            ),
            agent: clipped(agent(&parts.headers)),
            name: name(&parts.method, info),
            audit_id: clipped(audit_id),
            steps: Vec::with_capacity(4),
            code: 0,
        })
    }

    /// Waits until what was gathered is sent, if that is soon.
    pub(crate) async fn close(&self) {
        self.exporter.close().await;
    }

    /// Tells Prometheus how many spans were lost.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub(crate) fn write(&self, page: &mut Page) {
        let name = "orlop_tracing_spans_lost";
        page.family(
            name,
            Kind::Counter,
            "Spans that the collector was too slow to take.",
        );
        let lost = self.exporter.lost() as f64;
        page.sample("orlop_tracing_spans_lost_total", &[], lost);
    }
}

/// The number below which a trace's own must be: what
/// `TraceIDRatioBased` of OpenTelemetry's Go library computes.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a million is exact enough"
)]
fn bound(per_million: u32) -> u64 {
    if per_million >= 1_000_000 {
        return 1 << 63;
    }
    (f64::from(per_million) / 1e6 * (1_u64 << 63) as f64) as u64
}

// === impl Parent ===

impl Parent {
    /// Reads `traceparent` (W3C Trace Context, 3.2).
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = bytes::<1>(parts.next()?)?;
        let trace = bytes::<16>(parts.next()?)?;
        let span = bytes::<8>(parts.next()?)?;
        let flags = bytes::<1>(parts.next()?)?;
        // Later versions may say more.
        let is_whole = version != [0] || parts.next().is_none();
        let parent = Self {
            trace,
            span,
            sampled: flags[0] & 1 == 1,
        };
        (is_whole && version != [0xff] && trace != [0; 16] && span != [0; 8]).then_some(parent)
    }
}

/// Lower-case hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |letter: u8| match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
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

fn agent(headers: &HeaderMap) -> &str {
    let agent = headers.get(USER_AGENT);
    agent
        .and_then(|agent| agent.to_str().ok())
        .unwrap_or_default()
}

fn clipped(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST);
    text[..end].to_owned()
}

// === impl Traced ===

impl Traced {
    /// It is known who asks.
    pub(crate) fn of(&mut self, user: &User) {
        let mut groups = user.groups.iter();
        self.is_believed = groups.any(|group| BELIEVED.contains(&group.as_str()));
    }

    /// A step that began then has ended.
    pub(crate) fn step(&mut self, name: &'static str, began: Instant) {
        self.steps.push((name, began, Instant::now()));
    }

    /// It is answered.
    pub(crate) fn answered(&mut self, code: u16) {
        self.code = code;
    }

    /// The spans of it, if it is to be traced.
    fn spans(&self, now: Instant) -> Vec<Span> {
        let own_trace: [u8; 16] = rand::random();
        let (trace, parent, link, sampled) = match self.parent {
            Some(parent) if self.is_believed => {
                (parent.trace, Some(parent.span), None, parent.sampled)
            }
            other => {
                let [.., a, b, c, d, e, f, g, h] = own_trace;
                let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
                let link = other.map(|other| (other.trace, other.span));
                (own_trace, None, link, number < self.tracer.bound)
            }
        };
        if !sampled {
            return Vec::new();
        }
        let (wall, began) = self.began;
        let at = |moment: Instant| {
            let since = wall + moment.saturating_duration_since(began);
            let since = since.duration_since(SystemTime::UNIX_EPOCH);
            u64::try_from(since.unwrap_or(Duration::ZERO).as_nanos()).unwrap_or(u64::MAX)
        };
        let whole: [u8; 8] = rand::random();
        let mut all = vec![Span {
            trace,
            span: whole,
            parent,
            link,
            name: self.name.clone(),
            is_server: true,
            began: at(began),
            ended: at(now),
            failed: self.code >= 500 || self.code == 0,
            attributes: vec![
                ("http.request.method", self.method.as_str().into()),
                ("http.target", self.target.as_str().into()),
                (
                    "url.path",
                    self.target.split('?').next().unwrap_or_default().into(),
                ),
                ("user_agent.original", self.agent.as_str().into()),
                ("audit-id", self.audit_id.as_str().into()),
                ("http.response.status_code", i64::from(self.code).into()),
            ],
        }];
        all.extend(self.steps.iter().map(|(name, began, ended)| Span {
            trace,
            span: rand::random(),
            parent: Some(whole),
            link: None,
            name: (*name).to_owned(),
            is_server: false,
            began: at(*began),
            ended: at(*ended),
            failed: false,
            attributes: Vec::new(),
        }));
        all
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        for span in self.spans(Instant::now()) {
            self.tracer.exporter.send(span);
        }
    }
}

#[cfg(test)]
mod tests;
