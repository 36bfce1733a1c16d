//! What the request chain is told: kube-apiserver's options of the same names.

use std::sync::Arc;
use std::time::Duration;

use super::origins::Origins;
use crate::features::Gates;
use control_audit::Audit;
use control_tracing::Tracer;

/// Settings of the chain. The defaults are kube-apiserver's.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether requests are queued by priority and fairness; else the two limits
    /// refuse what is too much (`--enable-priority-and-fairness`).
    pub priority_and_fairness: bool,
    /// Requests that read at the same time (`--max-requests-inflight`).
    pub max_requests: usize,
    /// Requests that write at the same time
    /// (`--max-mutating-requests-inflight`). Priority and fairness divides the sum
    /// of both among its levels.
    pub max_mutating_requests: usize,
    /// How long a request may take that is not a watch or the like
    /// (`--request-timeout`).
    pub request_timeout: Duration,
    /// How long a watch lasts at least whose client does not say
    /// (`--min-request-timeout`).
    pub min_request_timeout: Duration,
    /// The part of HTTP/2 requests, at most 0.02, whose connection is told to go
    /// away, so that clients spread over several servers (`--goaway-chance`).
    pub goaway_chance: f64,
    /// From where browsers may call (`--cors-allowed-origins`).
    pub origins: Option<Origins>,
    /// The directives of the `Strict-Transport-Security` header, joined; empty for
    /// none (`--strict-transport-security-directives`).
    pub transport_security: String,
    /// How long the server goes on after it was told to stop, while it says that it
    /// is not ready (`--shutdown-delay-duration`).
    pub shutdown_delay: Duration,
    /// Whether what comes after that is refused with 429 while open requests end,
    /// instead of the socket being closed at once
    /// (`--shutdown-send-retry-after`).
    pub shutdown_retry_after: bool,
    /// How long open requests may take to end then.
    pub shutdown_grace: Duration,
    /// How long a client may take to send a request's head over HTTP/1.1, and how
    /// long a connection may be idle between requests.
    pub header_timeout: Duration,
    /// How long nothing may be asked over HTTP/2, or at all, before the connection is
    /// closed.
    pub idle_timeout: Duration,
    /// How long nothing may be heard of an HTTP/2 client before it is asked whether it
    /// is there; it may take half as long to answer.
    pub ping_interval: Duration,
    /// Whether `/debug/pprof` is served (`--profiling`).
    pub profiling: bool,
    /// Feature gates (`--feature-gates`).
    pub gates: Gates,
    /// All options and their values, by name, for `/flagz`.
    pub flags: Arc<[(String, String)]>,
    /// Host and port at which clients reach the servers together, whichever of them is there;
    /// this server's own unless set.
    pub shared_address: Option<std::net::SocketAddr>,
    /// Metrics of other parts of the process, in OpenMetrics without an end.
    pub more_metrics: Option<fn(&mut String)>,
    /// Who is told how requests went; `None` for nobody.
    pub tracer: Option<Arc<Tracer>>,
    /// What is written down of requests; `None` for nothing.
    pub audit: Option<Arc<Audit>>,
    /// Which steps of admission are on, and what they are told.
    pub admission: Arc<control_admission::Settings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            priority_and_fairness: true,
            max_requests: 400,
            max_mutating_requests: 200,
            request_timeout: Duration::from_secs(60),
            min_request_timeout: Duration::from_secs(1800),
            goaway_chance: 0.0,
            origins: None,
            transport_security: String::new(),
            shutdown_delay: Duration::ZERO,
            shutdown_retry_after: false,
            shutdown_grace: Duration::from_secs(10),
            header_timeout: Duration::from_secs(32),
            idle_timeout: Duration::from_secs(90),
            ping_interval: Duration::from_secs(30),
            profiling: true,
            gates: Gates::default(),
            flags: Arc::default(),
            shared_address: None,
            more_metrics: None,
            tracer: None,
            audit: None,
            admission: Arc::default(),
        }
    }
}
