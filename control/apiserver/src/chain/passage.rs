//! A request on its way through the filters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_request::body::Body;
use control_request::{Annotations, RequestInfo, Warnings};
use control_tracing::{RequestTrace, Span};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use super::in_flight::InFlight;
use crate::api::Api;

/// A request on its way through the filters.
pub(super) struct Passage<'a> {
    pub api: &'a Arc<Api>,
    /// The limits that hold where priority and fairness is turned off.
    pub in_flight: Option<&'a InFlight>,
    pub record: &'a mut Record,
    pub info: &'a Arc<RequestInfo>,
    pub parts: Parts,
    pub body: Body,
    /// When the request came.
    pub began: Instant,
    /// How long it may take; none: as long as it likes.
    pub time: Option<Duration>,
}

/// What is known of a request besides its answer.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub warnings: Warnings,
    pub annotations: Annotations,
    /// What the audit log is told; `None` where nothing is.
    pub audit: Option<control_audit::Entry>,
    /// What the collector of traces is told; `None` where nothing is.
    pub traced: Option<RequestTrace>,
    /// Under which id the request is found.
    pub id: Option<HeaderValue>,
    /// How long it waited for a seat.
    pub waited: Duration,
    /// Whether it was refused, or ended, for the server's own sake.
    pub terminated: bool,
    /// Headers that the answer gets, good or bad.
    pub headers: HeaderMap,
}

impl Record {
    /// A step begins, and ends when what is returned is dropped.
    pub fn step(&self, name: &'static str) -> Option<Span> {
        self.traced.as_ref()?.whole().child(name)
    }

    /// The request is refused before anybody looks at what was sent.
    pub fn unheard(&mut self) {
        if let Some(entry) = &mut self.audit {
            entry.unheard();
        }
    }
}
