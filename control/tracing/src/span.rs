//! Spans: parts of a request that are measured, one within another.
//!
//! Whatever is polled [`under`] a span finds it as the current one of its task:
//! [`child`] begins a part of it, and [`tell`] lets other servers make theirs parts of
//! it. Where nothing is recorded, which is everywhere without a tracer, each of them
//! looks at a thread's variable and does nothing else.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures::future::Either;
use http::{HeaderMap, Request};
use tokio::task::futures::TaskLocalFuture;

use super::Tracer;
use super::context::{Parent, TRACEPARENT};
use super::otlp::{self, Attribute, Kind};

tokio::task_local! {
    static CURRENT: Current;
}

/// How many spans may wait until it is known whether they are sent: those of who asks.
const WAITING: usize = 64;

/// The span that a task is in.
#[derive(Debug, Clone)]
pub struct Current {
    trace: Arc<Trace>,
    span: [u8; 8],
}

/// The trace of one request, as far as it is recorded here.
#[derive(Debug)]
pub(super) struct Trace {
    tracer: Arc<Tracer>,
    began: (SystemTime, Instant),
    /// Under which number it is sent; `None` when it is not. Not set until it is known
    /// whether whoever asks is believed the number of his own.
    number: OnceLock<Option<[u8; 16]>>,
    waiting: Mutex<Vec<otlp::SpanData>>,
}

/// A span that has begun. It ends when it is dropped.
#[derive(Debug)]
pub struct Span(Box<ActiveSpan>);

#[derive(Debug)]
struct ActiveSpan {
    trace: Arc<Trace>,
    data: otlp::SpanData,
}

/// Begins a part of what this task is in; `None` where nothing is recorded.
pub fn child(name: impl Into<Cow<'static, str>>) -> Option<Span> {
    CURRENT
        .try_with(|current| current.trace.child(current.span, name.into()))
        .ok()?
}

/// As [`child`], for a request to another server, which `headers` tell of it.
pub fn to_other(name: impl Into<Cow<'static, str>>, headers: &mut HeaderMap) -> Option<Span> {
    let mut span = child(name)?;
    span.0.data.kind = Kind::Client;
    span.tell(headers);
    Some(span)
}

/// As [`to_other`], for a request over HTTP.
pub fn child_of<B>(request: &mut Request<B>) -> Option<Span> {
    CURRENT.try_with(|_| ()).ok()?;
    let span = to_other(format!("HTTP {}", request.method()), request.headers_mut())?;
    let uri = request.uri();
    let span = span
        .with("http.request.method", request.method().as_str())
        .with("server.address", uri.host().unwrap_or_default())
        .with("url.full", uri.to_string().as_str());
    Some(match uri.port_u16() {
        Some(port) => span.with("server.port", i64::from(port)),
        None => span,
    })
}

/// Lets work be done within a span, if there is one.
pub fn under<F: Future>(span: Option<&Span>, work: F) -> Either<TaskLocalFuture<Current, F>, F> {
    match span {
        None => Either::Right(work),
        Some(span) => {
            let current = Current {
                trace: Arc::clone(&span.0.trace),
                span: span.0.data.span,
            };
            Either::Left(CURRENT.scope(current, work))
        }
    }
}

// === impl Trace ===

impl Trace {
    pub fn new(tracer: Arc<Tracer>) -> Arc<Self> {
        Arc::new(Self {
            tracer,
            began: (SystemTime::now(), Instant::now()),
            number: OnceLock::new(),
            waiting: Mutex::default(),
        })
    }

    /// The span of the request itself.
    pub fn root(self: &Arc<Self>, name: String) -> Span {
        self.begin(None, name.into(), Kind::Server, self.began.1)
    }

    /// A part of `parent`; `None` if it is not sent.
    fn child(self: &Arc<Self>, parent: [u8; 8], name: Cow<'static, str>) -> Option<Span> {
        if let Some(None) = self.number.get() {
            return None;
        }
        Some(self.begin(Some(parent), name, Kind::Internal, Instant::now()))
    }

    fn begin(
        self: &Arc<Self>,
        parent: Option<[u8; 8]>,
        name: Cow<'static, str>,
        kind: Kind,
        began: Instant,
    ) -> Span {
        Span(Box::new(ActiveSpan {
            trace: Arc::clone(self),
            data: otlp::SpanData {
                span: rand::random(),
                parent,
                name,
                kind,
                began: self.at(began),
                ..otlp::SpanData::default()
            },
        }))
    }

    /// It is known under which number the spans are sent, or that they are not.
    pub fn decide(&self, number: Option<[u8; 16]>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.number.set(number).is_err() {
            return;
        }
        if let Some(number) = number {
            for span in waiting.drain(..) {
                self.send(span, number);
            }
        }
    }

    /// The number, once it is known.
    pub fn number(&self) -> Option<[u8; 16]> {
        self.number.get().copied().flatten()
    }

    pub fn is_decided(&self) -> bool {
        self.number.get().is_some()
    }

    fn ended(&self, mut span: otlp::SpanData) {
        span.ended = self.at(Instant::now());
        if self.number.get().is_none() {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if self.number.get().is_none() {
                if waiting.len() < WAITING {
                    waiting.push(span);
                }
                return;
            }
        }
        if let Some(number) = self.number() {
            self.send(span, number);
        }
    }

    fn send(&self, mut span: otlp::SpanData, number: [u8; 16]) {
        span.trace = number;
        self.tracer.exporter.send(span);
    }

    /// Nanoseconds since 1970.
    fn at(&self, moment: Instant) -> u64 {
        let (wall, began) = self.began;
        let since = wall + moment.saturating_duration_since(began);
        let since = since.duration_since(SystemTime::UNIX_EPOCH);
        u64::try_from(since.unwrap_or(Duration::ZERO).as_nanos()).unwrap_or(u64::MAX)
    }
}

// === impl Span ===

impl Span {
    /// A part of this one.
    pub fn child(&self, name: &'static str) -> Option<Self> {
        self.0.trace.child(self.0.data.span, name.into())
    }

    /// Says something of it, unless that is empty.
    pub fn with(mut self, key: &'static str, value: impl Into<Attribute>) -> Self {
        self.set(key, value);
        self
    }

    /// As [`Span::with`].
    pub fn set(&mut self, key: &'static str, value: impl Into<Attribute>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.data.attributes.push((key, value));
        }
    }

    /// Another server answered with this code, or not at all.
    pub fn answered(mut self, code: Option<u16>) {
        match code {
            Some(code) => {
                self.set("http.response.status_code", i64::from(code));
                if code >= 400 {
                    self.fails();
                }
            }
            None => self.fails(),
        }
    }

    /// What was to be done was not.
    pub fn fails(&mut self) {
        self.0.data.failed = true;
    }

    /// It is a part of a span of another server, or belongs to one of another trace.
    pub(super) fn follows(&mut self, parent: Option<Parent>, link: Option<Parent>) {
        self.0.data.parent = parent.map(|parent| parent.span);
        self.0.data.link = link.map(|link| (link.trace, link.span));
    }

    /// Tells another server of it, once it is known under which number it is sent.
    fn tell(&self, headers: &mut HeaderMap) {
        let told = self.0.trace.number().and_then(|trace| {
            let parent = Parent {
                trace,
                span: self.0.data.span,
                sampled: true,
            };
            parent.header()
        });
        if let Some(told) = told {
            headers.insert(TRACEPARENT, told);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let data = std::mem::take(&mut self.0.data);
        self.0.trace.ended(data);
    }
}
