//! Traces of requests, sent to a collector of OpenTelemetry (KEP-647).
//!
//! ```text
//! request ──▶ Traced: a number, and whether it is sent      request.rs
//!               └─ whole ─┬─ authentication, …, Create       the chain
//!                         └── child() ─┬─ Call … webhook, … etcd3, SerializeObject
//!                                      └── to_other() ──▶ traceparent   span.rs, context.rs
//! ended spans ──▶ bounded queue ──▶ OTLP                     otlp.rs
//! ```
//!
//! A request is traced when whoever sent it says so (`traceparent`, W3C Trace
//! Context), or by chance. Only members of `system:masters` and `system:monitoring`
//! are believed that: for others a trace of our own begins, which points to theirs.
//! Until it is known who asks, a request that came with a `traceparent` has no number
//! yet: its spans wait, and the servers that are asked who it is are told of none.
//! Spans wait in a bounded queue; what does not fit in is lost, and counted. Where no
//! collector is configured a request costs a look at a pointer, and each place where a
//! span would begin a look at a thread's variable.

mod config;
mod context;
mod otlp;
mod request;
mod span;

use std::sync::Arc;

use control_metrics::{Kind, Page};
use http::request::Parts;

use self::otlp::Exporter;
use control_request::RequestInfo;
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::config::{Config, Error};
pub use self::request::{RequestTrace, of_verb};
pub use self::span::{Span, child, child_of, to_other, under};

/// Samples requests, and sends spans.
#[derive(Debug)]
pub struct Tracer {
    /// Traces whose number is less are sampled.
    bound: u64,
    exporter: Exporter,
}

/// Opens connections to the collector.
pub trait Connect: Clone + Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Connects to a host and port.
    fn connect(
        &self,
        host: &str,
        port: u16,
    ) -> impl Future<Output = std::io::Result<Self::Stream>> + Send;
}

// === impl Tracer ===

impl Tracer {
    /// Sends to the collector of a configuration, to which `connect` opens connections, on the
    /// runtime that this is called on. Whether the collector is there is not asked.
    ///
    /// # Errors
    /// When its address is none.
    pub fn new(config: &Config, connect: impl Connect) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            bound: bound(config.rate),
            exporter: Exporter::to(&config.endpoint, connect)?,
        }))
    }

    /// A request that came; `None` if it will not be traced, whoever sent it.
    pub fn begin(
        self: &Arc<Self>,
        parts: &Parts,
        info: &RequestInfo,
        audit_id: &str,
    ) -> Option<RequestTrace> {
        RequestTrace::begin(self, parts, info, audit_id)
    }

    /// Whether a trace of its own with this number is sent.
    fn samples(&self, number: [u8; 16]) -> bool {
        let [.., a, b, c, d, e, f, g, h] = number;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.bound
    }

    /// Waits until what was gathered is sent, if that is soon.
    pub async fn close(&self) {
        self.exporter.close().await;
    }

    /// Tells Prometheus how many spans were lost.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub fn write(&self, page: &mut Page) {
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

#[cfg(test)]
mod tests;
