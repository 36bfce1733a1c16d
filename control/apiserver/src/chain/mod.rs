//! What every request passes through: a deadline, then the filters in kube-apiserver's order
//! (`DefaultBuildHandlerChain`; `filters` lists them, each has a file) and the handler; and
//! what every answer gets: a Status for every failure, a metric, an audit id, headers.

mod auditing;
mod authentication;
mod authorization;
mod cors;
mod deadline;
mod finish;
mod handling;
mod impersonation;
mod in_flight;
mod origins;
mod passage;
mod seats;
mod settings;
mod stale;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use control_access::User;
use control_types::status::{Status, quote};
use futures::FutureExt;
use http::header::{ACCEPT_ENCODING, CONNECTION, RETRY_AFTER, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};

use self::in_flight::InFlight;
use self::passage::{Passage, Record};
use crate::api::Api;
use crate::features::Feature;
use crate::request_counts::{Key, RequestOutcome};
use control_registry::reply::{self, Answer};
use control_request::body::{self, Body};
use control_request::negotiate::Format;
use control_request::peer::GoAway;
use control_request::{Annotations, RequestInfo};

pub use origins::Origins;
pub use settings::Settings;

/// Paths that are answered while the server stops, too.
const ANSWERED_TO_THE_END: [&str; 4] = ["/readyz", "/livez", "/healthz", "/metrics"];

/// The chain. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    api: Arc<Api>,
    in_flight: Option<InFlight>,
}

impl Chain {
    pub(crate) fn new(api: Arc<Api>) -> Self {
        let settings = &api.config.chain;
        let in_flight = (!settings.priority_and_fairness)
            .then(|| InFlight::new(settings.max_requests, settings.max_mutating_requests));
        Self { api, in_flight }
    }

    /// What all handlers share.
    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// Answers one request; never fails and never panics.
    pub(crate) async fn answer(self, request: Request<Body>) -> Response<Body> {
        let began = Instant::now();
        let open = self.api.lifecycle.begin();
        let (mut parts, body) = request.into_parts();
        let head = parts.method == Method::HEAD;
        let info = RequestInfo::parse(&parts.method, parts.uri.path(), parts.uri.query());
        let info = Arc::new(info);
        let is_long = info.is_long_running();
        if !self
            .api
            .config
            .chain
            .gates
            .enabled(Feature::APIResponseCompression)
            && !info.path.starts_with("/openapi/")
        {
            parts.headers.remove(ACCEPT_ENCODING);
        }
        let key = Key::new(&self.api.storage, &info, &parts);
        let counts = &self.api.metrics.requests;
        let running = counts.begin(key, &info);
        if let Some(bytes) = http_body::Body::size_hint(&body).exact()
            && bytes > 0
            && !info.is_read_only()
        {
            counts.sends(key, info.verb, bytes);
        }
        let format = Format::of_error(&parts.headers, parts.uri.query());
        let mut record = Record::default();
        let id = audit_id(&parts.headers);
        if let Some(tracer) = &self.api.config.chain.tracer {
            record.traced = tracer.begin(&parts, &info, id.to_str().unwrap_or_default());
        }
        record.headers.insert("audit-id", id.clone());
        if self.api.config.chain.audit.is_some() {
            record.annotations = Annotations::kept();
            record.id = Some(id);
        }
        if self.sends_go_away(&parts) {
            request_go_away(&parts, &mut record.headers);
        }
        let answered = if let Some(refusal) = self.refusal(&info, &parts, &mut record.headers) {
            Ok(Ok(refusal))
        } else {
            let steps = self.steps(&mut record, &info, parts, body, began);
            AssertUnwindSafe(steps).catch_unwind().await
        };
        let panicked = answered.is_err();
        let (mut response, failure) = match answered {
            Ok(Ok(response)) => (response, None),
            Ok(Err(status)) => (reply::failure(&status, format), Some(status)),
            Err(_) => {
                tracing::error!(
                    verb = key.verb(),
                    resource = key.resource(),
                    "a handler panicked"
                );
                let status = Status::internal(
                    "this request caused apiserver to panic. Look in the logs for details",
                );
                (reply::failure(&status, format), Some(status))
            }
        };
        if let Some(entry) = record.audit.take() {
            response = auditing::write_answer(
                entry,
                response,
                failure.as_ref(),
                panicked,
                (is_long, info.verb == "delete"),
            )
            .await;
        }
        let mut warnings = record.warnings.take();
        if failure.is_none() {
            warnings.extend(stale::warning(&info, self.api.store().outage()));
        }
        reply::warn(&mut response, &warnings);
        cors::strict_transport(
            &mut record.headers,
            &self.api.config.chain.transport_security,
        );
        for (name, value) in std::mem::take(&mut record.headers) {
            if let Some(name) = name {
                response.headers_mut().insert(name, value);
            }
        }
        let size = http_body::Body::size_hint(response.body()).exact();
        if head {
            // Its length is told, but in HTTP/2 not one byte of it may be sent.
            *response.body_mut() = body::empty();
        }
        if let Some(traced) = &mut record.traced {
            traced.answered(response.status().as_u16());
        }
        if is_long {
            // It is traced as long as it lasts.
            let until = (running, open, record.traced.take());
            response = response.map(|body| finish::until(body, until));
        }
        let done = RequestOutcome {
            code: response.status().as_u16(),
            took: began.elapsed(),
            waited: record.waited,
            size,
            terminated: record.terminated,
        };
        counts.done(key, done);
        response
    }

    /// Everything that must be done in time.
    async fn steps(
        &self,
        record: &mut Record,
        info: &Arc<RequestInfo>,
        parts: Parts,
        body: Body,
        began: Instant,
    ) -> Answer {
        let time = if info.is_long_running() {
            None
        } else {
            let most = self.api.config.chain.request_timeout;
            Some(deadline::parse(parts.uri.query(), most)?)
        };
        let filtered = filters(Passage {
            api: &self.api,
            in_flight: self.in_flight.as_ref(),
            record: &mut *record,
            info,
            parts,
            body,
            began,
            time,
        });
        let Some(time) = time else {
            return filtered.await;
        };
        let Ok(answer) = tokio::time::timeout(time, filtered).await else {
            record.terminated = true;
            return Err(Status::timeout(
                "request did not complete within the allotted timeout",
                0,
            ));
        };
        answer
    }

    /// What is answered instead: to a path that says nothing, and once the server stops
    /// and is to say so.
    fn refusal(
        &self,
        info: &RequestInfo,
        parts: &Parts,
        headers: &mut HeaderMap,
    ) -> Option<Response<Body>> {
        if info.of_nothing {
            let path = &info.path;
            let why = format!(
                "Internal Server Error: {}: failed to create RequestInfo: unable to determine kind and namespace from url, {path}\n",
                quote(path)
            );
            return Some(reply::text(500, why));
        }
        if !self.api.lifecycle.refuses()
            || ANSWERED_TO_THE_END
                .iter()
                .any(|path| info.path.starts_with(path))
            || parts.extensions.get::<User>().is_some()
            || agent(&parts.headers).starts_with("kube-apiserver/")
        {
            return None;
        }
        request_go_away(parts, headers);
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        Some(reply::text(
            429,
            "The apiserver is shutting down, please try again later.\n",
        ))
    }

    /// Whether a connection is to be ended by chance, so that its client may find
    /// another server.
    fn sends_go_away(&self, parts: &Parts) -> bool {
        let chance = self.api.config.chain.goaway_chance;
        chance > 0.0 && parts.version == Version::HTTP_2 && rand::random_bool(chance.min(1.0))
    }
}

/// The filters in their order, each in a file of its own, and the handler behind them.
async fn filters(mut passage: Passage<'_>) -> Answer {
    if let Some(answer) = cors::filter(&mut passage) {
        return Ok(answer);
    }
    let (caller, is_local) = authentication::authenticate(&mut passage).await?;
    auditing::write_request(&mut passage, &caller).await?;
    let user = impersonation::impersonate(&mut passage, caller, is_local).await?;
    let place = match seats::take(&mut passage, &user).await {
        Ok(place) => place,
        Err(answer) => return Ok(answer),
    };
    authorization::authorize(&mut passage, &user).await?;
    handling::handle(passage, user, place).await
}

/// Lets a connection end after this answer.
fn request_go_away(parts: &Parts, headers: &mut HeaderMap) {
    if parts.version == Version::HTTP_2 {
        if let Some(go_away) = parts.extensions.get::<GoAway>() {
            go_away.request();
        }
    } else {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

fn agent(headers: &HeaderMap) -> &str {
    headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// The id under which a request is found in logs: the client's, or a new one.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    if let Some(given) = headers.get("audit-id")
        && !given.is_empty()
    {
        return given.clone();
    }
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    let mut text = uuid::Uuid::encode_buffer();
    let text = id.hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}
