//! Spans on their way to a collector: OTLP 1 over gRPC
//! (`opentelemetry.proto.collector.trace.v1.TraceService`).

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::{Channel, Endpoint, Uri};

use super::Connect;
use super::config::Error;

/// How many spans wait at most; how many are sent together, and when at the latest.
/// Those of OpenTelemetry's own batches.
const QUEUE: usize = 2048;
const BATCH: usize = 512;
const LATEST: Duration = Duration::from_secs(5);
/// How long a collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of the server waits for it.
const LAST: Duration = Duration::from_secs(3);
/// Where a collector listens that is named without a port.
const PORT: u16 = 4317;
const PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Whose a span is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// This server's own.
    #[default]
    Internal,
    /// Of one who answers.
    Server,
    /// Of one who asks.
    Client,
}

/// A span that has ended. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SpanData {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    pub parent: Option<[u8; 8]>,
    /// A span of another trace.
    pub link: Option<([u8; 16], [u8; 8])>,
    pub name: Cow<'static, str>,
    pub kind: Kind,
    pub began: u64,
    pub ended: u64,
    pub failed: bool,
    pub attributes: Vec<(&'static str, Attribute)>,
}

/// What a span says besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    Text(String),
    Number(i64),
}

impl Attribute {
    /// Whether it says nothing.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// Gathers spans and sends them.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: mpsc::Sender<Message>,
    lost: AtomicU64,
}

#[derive(Debug)]
pub(super) enum Message {
    Span(Box<SpanData>),
    /// All before it are to be sent now.
    Flush(oneshot::Sender<()>),
}

// === impl Exporter ===

impl Exporter {
    pub(super) fn to(endpoint: &str, connector: impl Connect) -> Result<Self, Error> {
        let channel = channel(endpoint, connector)?;
        let (queue, told) = mpsc::channel(QUEUE);
        // Kept between runs, with what waits in it.
        let told = Arc::new(tokio::sync::Mutex::new(told));
        control_supervise::task("trace-exporter").spawn_restarting(move || {
            let (channel, told) = (channel.clone(), Arc::clone(&told));
            async move { run(channel, &mut *told.lock().await).await }
        });
        Ok(Self {
            queue,
            lost: AtomicU64::new(0),
        })
    }

    /// One that sends nothing, and what it would send.
    #[cfg(test)]
    pub(super) fn kept() -> (Self, mpsc::Receiver<Message>) {
        let (queue, told) = mpsc::channel(QUEUE);
        let lost = AtomicU64::new(0);
        (Self { queue, lost }, told)
    }

    pub(super) fn send(&self, span: SpanData) {
        if self.queue.try_send(Message::Span(Box::new(span))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) async fn close(&self) {
        let flushed = async {
            let (done, answered) = oneshot::channel();
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                let _ = answered.await;
            }
        };
        let _ = tokio::time::timeout(LAST, flushed).await;
    }
}

/// A connection that is made when it is needed, and again.
fn channel(endpoint: &str, connector: impl Connect) -> Result<Channel, Error> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::Wrong(format!(
            "endpoint `{endpoint}`: {why}; write host:port or unix:///path"
        ))
    };
    if let Some(path) = endpoint.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path).to_owned();
        let connect = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move {
                tokio::net::UnixStream::connect(path)
                    .await
                    .map(TokioIo::new)
            }
        });
        let endpoint = Endpoint::from_static("http://collector").timeout(TIMEOUT);
        return Ok(endpoint.connect_with_connector_lazy(connect));
    }
    let address = match endpoint.split_once("://") {
        None => endpoint,
        Some(("dns", address)) => address.trim_start_matches('/'),
        Some(_) => return Err(wrong(&"it is neither a host nor a unix socket")),
    };
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    let endpoint = endpoint.map_err(|error| wrong(&error))?.timeout(TIMEOUT);
    let connect = tower::service_fn(move |uri: Uri| {
        let connector = connector.clone();
        async move {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            let port = uri.port_u16().unwrap_or(PORT);
            connector.connect(host, port).await.map(TokioIo::new)
        }
    });
    Ok(endpoint.connect_with_connector_lazy(connect))
}

/// Sends what comes until nobody can send any more.
async fn run(channel: Channel, told: &mut mpsc::Receiver<Message>) {
    let mut failing = false;
    loop {
        let mut batch = Vec::new();
        let mut flushed = None;
        let Some(mut next) = told.recv().await else {
            return;
        };
        let end = tokio::time::sleep(LATEST);
        tokio::pin!(end);
        loop {
            match next {
                Message::Span(span) => batch.push(message::Span::from(*span)),
                Message::Flush(done) => {
                    flushed = Some(done);
                    break;
                }
            }
            if batch.len() >= BATCH {
                break;
            }
            next = tokio::select! {
                more = told.recv() => match more {
                    Some(more) => more,
                    None => break,
                },
                () = &mut end => break,
            };
        }
        if !batch.is_empty() {
            let spans = batch.len();
            match export(channel.clone(), message::Request::from_spans(batch)).await {
                Ok(_) => failing = false,
                // Once, not every five seconds.
                Err(status) if !failing => {
                    failing = true;
                    tracing::warn!(spans, code = ?status.code(), error = status.message(), "the collector takes no traces");
                }
                Err(_) => {}
            }
        }
        if let Some(done) = flushed {
            let _ = done.send(());
        }
    }
}

async fn export(
    channel: Channel,
    request: message::Request,
) -> Result<message::Response, tonic::Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    let ready = grpc.ready().await;
    ready.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let codec = tonic_prost::ProstCodec::<message::Request, message::Response>::default();
    let path = PathAndQuery::from_static(PATH);
    let sent = grpc.unary(tonic::Request::new(request), path, codec).await;
    sent.map(tonic::Response::into_inner)
}

/// The messages of OTLP, as far as they are used.
pub(super) mod message {
    use super::Attribute;

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Request {
        #[prost(message, repeated, tag = "1")]
        pub resource_spans: Vec<ResourceSpans>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Response {}

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ResourceSpans {
        #[prost(message, optional, tag = "1")]
        pub resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub scope_spans: Vec<ScopeSpans>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ScopeSpans {
        #[prost(message, optional, tag = "1")]
        pub scope: Option<Scope>,
        #[prost(message, repeated, tag = "2")]
        pub spans: Vec<Span>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Scope {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub version: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Span {
        #[prost(bytes = "vec", tag = "1")]
        pub trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub span_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "4")]
        pub parent_span_id: Vec<u8>,
        #[prost(string, tag = "5")]
        pub name: String,
        #[prost(int32, tag = "6")]
        pub kind: i32,
        #[prost(fixed64, tag = "7")]
        pub start_time_unix_nano: u64,
        #[prost(fixed64, tag = "8")]
        pub end_time_unix_nano: u64,
        #[prost(message, repeated, tag = "9")]
        pub attributes: Vec<KeyValue>,
        #[prost(message, repeated, tag = "13")]
        pub links: Vec<Link>,
        #[prost(message, optional, tag = "15")]
        pub status: Option<Status>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Link {
        #[prost(bytes = "vec", tag = "1")]
        pub trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub span_id: Vec<u8>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Status {
        #[prost(int32, tag = "3")]
        pub code: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct KeyValue {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(message, optional, tag = "2")]
        pub value: Option<AnyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct AnyValue {
        #[prost(oneof = "Any", tags = "1, 3")]
        pub value: Option<Any>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Any {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(int64, tag = "3")]
        Number(i64),
    }

    impl Request {
        pub fn from_spans(spans: Vec<Span>) -> Self {
            let text = |key: &str, value: &str| pair(key, Attribute::from(value));
            Self {
                resource_spans: vec![ResourceSpans {
                    resource: Some(Resource {
                        attributes: vec![
                            text("service.name", "apiserver"),
                            text("service.version", env!("CARGO_PKG_VERSION")),
                        ],
                    }),
                    scope_spans: vec![ScopeSpans {
                        scope: Some(Scope {
                            name: "control-apiserver".to_owned(),
                            version: env!("CARGO_PKG_VERSION").to_owned(),
                        }),
                        spans,
                    }],
                }],
            }
        }
    }

    impl From<super::SpanData> for Span {
        fn from(span: super::SpanData) -> Self {
            const ERROR: i32 = 2;
            let kind = match span.kind {
                super::Kind::Internal => 1,
                super::Kind::Server => 2,
                super::Kind::Client => 3,
            };
            let attributes = span.attributes.into_iter();
            Self {
                trace_id: span.trace.to_vec(),
                span_id: span.span.to_vec(),
                parent_span_id: span.parent.map_or_else(Vec::new, |parent| parent.to_vec()),
                name: span.name.into_owned(),
                kind,
                start_time_unix_nano: span.began,
                end_time_unix_nano: span.ended,
                attributes: attributes.map(|(key, value)| pair(key, value)).collect(),
                links: span
                    .link
                    .map(|(trace, span)| Link {
                        trace_id: trace.to_vec(),
                        span_id: span.to_vec(),
                    })
                    .into_iter()
                    .collect(),
                status: span.failed.then_some(Status { code: ERROR }),
            }
        }
    }

    fn pair(key: &str, value: Attribute) -> KeyValue {
        KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue {
                value: Some(match value {
                    Attribute::Text(text) => Any::Text(text),
                    Attribute::Number(number) => Any::Number(number),
                }),
            }),
        }
    }
}
