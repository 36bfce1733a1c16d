//! What every request passes through, in kube-apiserver's order
//! (`DefaultBuildHandlerChain`): what it asks for, a deadline, who asks, as whom,
//! whether there is a seat, whether they may, the handler; and what every answer
//! gets: a Status for every failure, a metric, an audit id, headers.

mod access;
mod context;
mod cors;
mod deadline;
mod finish;
mod in_flight;
mod settings;
mod stale;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use control_access::{Attributes, User};
use control_types::status::{Status, quote};
use futures::FutureExt;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, RETRY_AFTER, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};

use self::in_flight::InFlight;
use crate::api::Api;
use crate::audit;
use crate::fairness::{Asked, Refused, Seat};
use crate::features::Feature;
use crate::request_counts::{Done, Key};
use crate::route;
use control_registry::reply::{self, Answer};
use control_request::body::{self, Body};
use control_request::negotiate::Format;
use control_request::peer::{GoAway, PeerCertificates};
use control_request::{Annotations, RequestContext, RequestInfo, Warnings};
use control_tracing::{Span, Traced};

pub use access::{Access, Authorities, Impersonated, Notes};
pub use context::Context;
use control_registry::authorizer::{Verdict, VerdictResult, attributes, decide, denied};
pub use cors::Origins;
pub use settings::Settings;

/// How large a Status may be that is looked into for the audit log.
const STATUS: usize = 64 * 1024;
/// Paths that are answered while the server stops, too.
const ANSWERED_TO_THE_END: [&str; 4] = ["/readyz", "/livez", "/healthz", "/metrics"];

/// The chain. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    api: Arc<Api>,
    in_flight: Option<InFlight>,
}

/// What is known of a request besides its answer.
#[derive(Debug, Default)]
struct Record {
    warnings: Warnings,
    annotations: Annotations,
    /// What the audit log is told; `None` where nothing is.
    audit: Option<audit::Entry>,
    /// What the collector of traces is told; `None` where nothing is.
    traced: Option<Traced>,
    /// Under which id the request is found.
    id: Option<HeaderValue>,
    /// How long it waited for a seat.
    waited: std::time::Duration,
    /// Whether it was refused, or ended, for the server's own sake.
    terminated: bool,
    /// Headers that the answer gets, good or bad.
    headers: HeaderMap,
}

impl Record {
    /// A step begins, and ends when what is returned is dropped.
    fn step(&self, name: &'static str) -> Option<Span> {
        self.traced.as_ref()?.whole().child(name)
    }

    /// The request is refused before anybody looks at what was sent.
    fn unheard(&mut self) {
        if let Some(entry) = &mut self.audit {
            entry.unheard();
        }
    }
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
        let key = Key::of(&self.api, &info, &parts);
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
            response = tell(
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
        let done = Done {
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
        if info.is_long_running() {
            return self.admitted(record, info, parts, body, began, None).await;
        }
        let time = deadline::of(parts.uri.query(), self.api.config.chain.request_timeout)?;
        let admitted = self.admitted(record, info, parts, body, began, Some(time));
        let Ok(answer) = tokio::time::timeout(time, admitted).await else {
            record.terminated = true;
            return Err(Status::timeout(
                "request did not complete within the allotted timeout",
                0,
            ));
        };
        answer
    }

    async fn admitted(
        &self,
        record: &mut Record,
        info: &Arc<RequestInfo>,
        mut parts: Parts,
        mut body: Body,
        began: Instant,
        time: Option<std::time::Duration>,
    ) -> Answer {
        let api = &self.api;
        let settings = &api.config.chain;
        if let Some(origins) = &settings.origins
            && let Some(origin) = origins.of(&parts.headers)
        {
            cors::allow(&mut record.headers, origin);
            if let Some(answer) = cors::preflight(&parts.method) {
                return Ok(answer);
            }
        }
        let access = &api.config.access;
        let (caller, is_local) = match parts.extensions.get::<User>() {
            // In-process components say who they are; the network listener
            // never sets this.
            Some(user) => (user.clone(), true),
            None => {
                let notes = Notes {
                    warnings: &record.warnings,
                    annotations: &record.annotations,
                };
                let asked = Instant::now();
                let step = record.step("authentication");
                let found =
                    control_tracing::under(step.as_ref(), access.authenticate(&parts, notes)).await;
                drop(step);
                let counts = &api.metrics.requests;
                let shown = parts.headers.contains_key(AUTHORIZATION)
                    || parts.extensions.get::<PeerCertificates>().is_some();
                counts.authenticated(found.is_ok(), shown, asked.elapsed());
                if let Ok(user) = &found {
                    api.metrics.access.user(&user.name);
                }
                match found {
                    Ok(user) => (user, false),
                    Err(status) => {
                        self.audit(record, info, &parts, None);
                        if let Some(entry) = &mut record.audit {
                            entry.refused(status.code, &audit::credentials(&parts));
                        }
                        return Err(status);
                    }
                }
            }
        };
        self.audit(record, info, &parts, Some(&caller));
        if let Some(traced) = &mut record.traced
            && !traced.of(&caller)
        {
            record.traced = None;
        }
        if let Some(entry) = &mut record.audit {
            if !entry.reach(audit::Stage::RequestReceived).await {
                return Err(Status::internal("failed to store audit event"));
            }
            if entry.wants_response() {
                // Its object is to be read before it is packed.
                parts.headers.remove(ACCEPT_ENCODING);
            }
            let whole = entry.wants_request();
            if (whole || entry.wants_name()) && time.is_some() && !info.is_read_only() {
                let bytes = control_strategy::decode::read(body).await?;
                match info.verb {
                    "delete" | "deletecollection" => entry.deletion(&parts.headers, &bytes),
                    _ if whole => entry.request(&parts.headers, &bytes),
                    _ => entry.name(&parts.headers, &bytes),
                }
                body = body::full(bytes);
            }
        }
        let other = match access.impersonate(&caller, &parts, info) {
            Some(asked) if !is_local => {
                let step = record.step("impersonation");
                Some(control_tracing::under(step.as_ref(), asked).await?)
            }
            _ => None,
        };
        if let (Some(entry), Some(other)) = (&mut record.audit, &other) {
            entry.impersonated(other);
        }
        let user = other.map_or(caller, |other| other.user);
        let wait = time.unwrap_or(settings.request_timeout) / 4;
        let step = record.step("priorityandfairness");
        let seat = self.seat(record, info, &parts, &user, wait).await;
        drop(step);
        let seat = match seat {
            Ok(seat) => seat,
            Err(answer) => {
                record.terminated = true;
                record.unheard();
                return Ok(answer);
            }
        };
        let attributes = attributes(info, &user);
        let asked = Instant::now();
        let step = record.step("authorization");
        let verdict =
            control_tracing::under(step.as_ref(), self.allowed(record, &attributes)).await?;
        drop(step);
        let counts = &api.metrics.requests;
        counts.authorized(verdict == Verdict::Allow, asked.elapsed());
        if let Verdict::Deny(reason) = verdict {
            record.unheard();
            return Err(denied(&attributes, &reason));
        }
        let (seat, opening) = match seat {
            // A watch gives its seat back when it has begun.
            Some(Place::Level(seat)) if info.verb == "watch" => {
                (None, Some(api.fairness.open(info, parts.uri.query(), seat)))
            }
            seat => (seat, None),
        };
        // Streams of clients over the network end before those of callers in the process,
        // who have last words to write.
        let ending = match parts.extensions.get::<User>() {
            Some(_) => &api.shutdown,
            None => api.lifecycle.draining(),
        };
        let request = RequestContext {
            info: Arc::clone(info),
            user,
            parts,
            began,
            warnings: record.warnings.clone(),
            annotations: record.annotations.clone(),
        };
        let inner = control_registry::Context {
            registry: Arc::clone(&api.registry),
            ending: ending.clone(),
            place: Mutex::new(opening.map(|opening| Box::new(opening) as _)),
            request,
        };
        let context = Context {
            api: Arc::clone(api),
            inner,
        };
        let mut answer = match &record.traced {
            None => route::route(context, body).await,
            Some(traced) => {
                let verb = control_tracing::of_verb(traced.whole(), info);
                let within = verb.as_ref().unwrap_or(traced.whole());
                Box::pin(control_tracing::under(
                    Some(within),
                    route::route(context, body),
                ))
                .await
            }
        };
        if let (Some(seat), Ok(response)) = (seat, &mut answer)
            && http_body::Body::size_hint(response.body())
                .exact()
                .is_none()
        {
            // It is still being made: the seat is held until it is, but not for
            // who reads it slowly.
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            let body = std::mem::replace(response.body_mut(), body::empty());
            *response.body_mut() = finish::until(body, end);
            let most = settings.request_timeout;
            tokio::spawn(async move {
                let _ = tokio::time::timeout(most, ended).await;
                drop(seat);
            });
        }
        answer
    }

    /// Begins the audit log's entry of a request, if there is to be one.
    fn audit(&self, record: &mut Record, info: &RequestInfo, parts: &Parts, user: Option<&User>) {
        let (Some(audit), Some(id)) = (&self.api.config.chain.audit, &record.id) else {
            return;
        };
        record.audit = audit.begin(&audit::Asked {
            info,
            parts,
            user,
            id,
            received: jiff::Timestamp::now(),
            annotations: &record.annotations,
        });
    }

    /// Whether a request may be done, and why, if the audit log is to know.
    async fn allowed(&self, record: &Record, attributes: &Attributes) -> VerdictResult {
        let access = &self.api.config.access;
        if record.audit.is_none() {
            return decide(&**access, attributes).await;
        }
        let decision = access.explain(attributes).await;
        if !decision.allowed && decision.error.is_some() {
            // Whether that is a refusal or a failure is not for an explanation to say.
            record
                .annotations
                .add("authorization.k8s.io/reason", "internal error");
            return decide(&**access, attributes).await;
        }
        let annotations = &record.annotations;
        let (verdict, word) = if decision.allowed {
            (Verdict::Allow, "allow")
        } else {
            (Verdict::Deny(decision.reason.clone()), "forbid")
        };
        annotations.add("authorization.k8s.io/decision", word);
        annotations.add("authorization.k8s.io/reason", decision.reason);
        Ok(verdict)
    }

    /// The place of a request among others, if it needs one; else what it is
    /// refused with.
    async fn seat(
        &self,
        record: &mut Record,
        info: &Arc<RequestInfo>,
        parts: &Parts,
        user: &User,
        wait: std::time::Duration,
    ) -> Result<Option<Place>, Response<Body>> {
        if info.is_long_running() && info.verb != "watch" {
            return Ok(None);
        }
        if let Some(in_flight) = &self.in_flight {
            if info.verb == "watch" || user.is_master() {
                return Ok(None);
            }
            return match in_flight.enter(info.is_read_only()) {
                Some(permit) => Ok(Some(Place::InFlight(permit))),
                None => Err(too_many(1)),
            };
        }
        let asked = Asked {
            info,
            query: parts.uri.query(),
            user,
            wait,
        };
        let fairness = &self.api.fairness;
        let began = Instant::now();
        let admitted = fairness.admit(&self.api, &asked, &mut record.headers).await;
        record.waited = began.elapsed();
        match admitted {
            Ok(seat) => Ok(Some(Place::Level(seat))),
            Err(Refused { retry_after }) => Err(too_many(retry_after)),
        }
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

/// Tells the audit log of an answer, now and when it ends.
async fn tell(
    mut entry: audit::Entry,
    response: Response<Body>,
    failure: Option<&Status>,
    panicked: bool,
    (is_long, deletes): (bool, bool),
) -> Response<Body> {
    let code = response.status().as_u16();
    if code != 401 || failure.is_none() {
        entry.answered(code, failure);
    } else {
        // Who it was is not known, and how he tried was told already; the answer
        // is the whole of it.
        entry.reach(audit::Stage::ResponseStarted).await;
        return response;
    }
    if panicked {
        entry.reach(audit::Stage::Panic).await;
        return response;
    }
    if is_long {
        entry.reach(audit::Stage::ResponseStarted).await;
        let last = audit::Last(Some(entry));
        return response.map(|body| finish::until(body, last));
    }
    // What was deleted stands in a Status, which is written at any level.
    let deleted = deletes && failure.is_none();
    let response = if entry.wants_response() || deleted {
        let (head, body) = response.into_parts();
        match http_body_util::BodyExt::collect(body).await {
            Ok(all) => {
                let bytes = all.to_bytes();
                if entry.wants_response() {
                    entry.response(&head.headers, &bytes);
                }
                if deleted && bytes.len() <= STATUS {
                    entry.deleted(&head.headers, &bytes);
                }
                Response::from_parts(head, body::full(bytes))
            }
            Err(error) => {
                let status = Status::internal(error);
                reply::failure(&status, Format::default())
            }
        }
    } else {
        response
    };
    entry.reach(audit::Stage::ResponseComplete).await;
    response
}

/// What a request occupies while it is answered.
#[derive(Debug)]
enum Place {
    Level(Seat),
    InFlight(
        #[expect(dead_code, reason = "held, not looked at")] tokio::sync::OwnedSemaphorePermit,
    ),
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

fn too_many(retry_after: u64) -> Response<Body> {
    let mut answer = reply::text(429, "Too many requests, please try again later.\n");
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(retry_after));
    answer
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
