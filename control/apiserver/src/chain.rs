//! What every request passes through, in this order: request info, who asks,
//! limits, whether they may, the handler; and what every answer gets: a Status
//! for every failure, a metric, an audit id.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control_access::{Attributes, Selection, User};
use control_types::status::Status;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use tokio::sync::Semaphore;

use crate::api::Api;
use crate::body::{self, Body};
use crate::metrics::RequestLabels;
use crate::negotiate::Format;
use crate::request::RequestInfo;
use crate::{reply, route};

/// How long a request that is not a watch or the like may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Requests from the network that may read at the same time.
const READS: usize = 800;
/// Requests from the network that may write at the same time.
const WRITES: usize = 400;

/// Whether a request may be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not, for this reason (may be empty).
    Deny(String),
}

/// The authorities that a server believes, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorities {
    /// Of clients' certificates.
    pub clients: String,
    /// Of proxies that vouch for users by header, if any are believed.
    pub front_proxy: Option<String>,
}

/// Why something is allowed or not, for people who ask (`SubjectAccessReview`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be done.
    pub allowed: bool,
    /// Whether an authorizer forbids it, whatever others would say.
    pub denied: bool,
    /// The reason; may be empty.
    pub reason: String,
    /// What could not be asked or found.
    pub error: Option<String>,
}

/// The rules that hold for a user in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// The rules.
    pub rules: Vec<control_access::Rule>,
    /// Whether there may be others.
    pub incomplete: bool,
    /// What could not be found out.
    pub error: Option<String>,
}

/// As whom a request is made, for somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonated {
    /// The user that counts.
    pub user: User,
    /// The verb that allowed it, when the caller may impersonate only for some
    /// actions (KEP-5284); empty else.
    pub constraint: String,
}

/// What steps before the handler tell besides their verdict.
#[derive(Debug, Clone, Copy)]
pub struct Notes<'a> {
    /// To the client.
    pub warnings: &'a Warnings,
    /// To the audit log.
    pub annotations: &'a Annotations,
}

/// Who callers are and what they may do.
pub trait Access: Send + Sync + 'static {
    /// Tells who sends a request, by its certificate (the extension
    /// [`crate::listen::PeerCertificates`]) or its token. No credentials at all
    /// are the anonymous user; wrong ones are an error.
    fn authenticate<'a>(
        &'a self,
        parts: &'a Parts,
        notes: Notes<'a>,
    ) -> BoxFuture<'a, Result<User, Status>>;

    /// As whom `caller` wants this request to be made; `None` when as himself.
    fn impersonate<'a>(
        &'a self,
        caller: &'a User,
        parts: &'a Parts,
        info: &'a RequestInfo,
    ) -> Option<BoxFuture<'a, Result<Impersonated, Status>>> {
        let _ = (caller, parts, info);
        None
    }

    /// Whether the user may do this. Where that is for other servers to say, the
    /// thread waits: requests are decided by [`decide`].
    fn authorize(&self, attributes: &Attributes) -> Verdict;

    /// As [`Access::authorize`], for other servers to say; `None` when no other
    /// server is asked.
    fn ask<'a>(&'a self, attributes: &'a Attributes) -> Option<BoxFuture<'a, Answered>> {
        let _ = attributes;
        None
    }

    /// As [`Access::authorize`], with reasons.
    fn explain<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Decision> {
        let decision = match self.authorize(attributes) {
            Verdict::Allow => Decision {
                allowed: true,
                ..Decision::default()
            },
            Verdict::Deny(reason) => Decision {
                reason,
                ..Decision::default()
            },
        };
        std::future::ready(decision).boxed()
    }

    /// Called once, when the caches are filled and before the first request:
    /// the place to follow roles and bindings.
    fn attach(&self, api: &Arc<Api>) {
        let _ = api;
    }

    /// Whom this server believes, if that is public.
    fn authorities(&self) -> Option<&Authorities> {
        None
    }

    /// Issues service accounts' tokens; `None` if there are none here.
    fn tokens(&self) -> Option<&control_access::Tokens> {
        None
    }

    /// Whose token this is, for one of `audiences` (empty: for this server).
    ///
    /// # Errors
    /// Why it is nobody's, in the words of a `TokenReview`.
    fn review_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
        notes: Notes<'a>,
    ) -> BoxFuture<'a, Result<control_access::Bearer, String>> {
        let _ = (token, audiences, notes);
        std::future::ready(Err("invalid bearer token".to_owned())).boxed()
    }

    /// The rules that hold for a user in a namespace, whoever says so.
    fn rules(&self, user: &User, namespace: &str) -> Held {
        let _ = (user, namespace);
        Held::default()
    }

    /// The rules that roles give to a user in a namespace: what the user may
    /// pass on.
    fn granted(&self, user: &User, namespace: &str) -> Held {
        let _ = (user, namespace);
        Held::default()
    }
}

/// A verdict, or 500 when nobody could give one.
pub type Answered = Result<Verdict, Status>;

/// Whether the user may do this, asking whoever must be asked.
///
/// # Errors
/// 500 when nobody allows it and somebody could not be asked.
pub async fn decide(access: &dyn Access, attributes: &Attributes) -> Answered {
    match access.ask(attributes) {
        None => Ok(access.authorize(attributes)),
        Some(asked) => asked.await,
    }
}

/// One request, understood and allowed.
#[derive(Debug)]
pub struct Context {
    /// What all handlers share.
    pub api: Arc<Api>,
    /// What is asked for.
    pub info: RequestInfo,
    /// Who asks.
    pub user: User,
    /// Method, address, headers, extensions.
    pub parts: Parts,
    /// When the request came.
    pub began: Instant,
    /// What the client is told besides the answer, be it good or bad.
    pub warnings: Warnings,
    /// What the audit log is told besides the request.
    pub annotations: Annotations,
}

/// Keys and values that steps add to the audit log's entry of a request.
#[derive(Debug, Clone, Default)]
pub struct Annotations(Arc<Mutex<BTreeMap<Cow<'static, str>, String>>>);

impl Annotations {
    /// Tells something; what was told first of a key stays.
    pub fn add(&self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key.into()).or_insert_with(|| value.into());
    }

    /// All so far.
    #[must_use]
    pub fn all(&self) -> BTreeMap<Cow<'static, str>, String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }
}

/// Texts for `Warning` headers, gathered while a request is handled.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds a text.
    pub fn push(&self, text: impl Into<String>) {
        self.extend([text.into()]);
    }

    /// Adds texts.
    pub fn extend(&self, texts: impl IntoIterator<Item = String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(texts);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Context {
    /// The raw query.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.parts.uri.query()
    }

    /// One decoded value of the query.
    #[must_use]
    pub fn query_value(&self, wanted: &str) -> Option<String> {
        crate::request::pairs(self.query().unwrap_or_default())
            .find(|(key, _)| key == wanted)
            .map(|(_, value)| value)
    }

    /// Tells the audit log something; what was told first of a key stays.
    pub fn annotate(&self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.annotations.add(key, value);
    }

    /// Whether the user may do something else than what was asked for.
    #[must_use]
    pub fn may(&self, attributes: &Attributes) -> bool {
        self.api.config.access.authorize(attributes) == Verdict::Allow
    }

    /// Whether the user may also do `verb` to what the request is about: a write
    /// that makes what is not there is a creation.
    ///
    /// # Errors
    /// 403.
    pub async fn must_be_allowed(&self, verb: &str) -> Result<(), Status> {
        let mut attributes = attributes(&self.info, &self.user);
        verb.clone_into(&mut attributes.verb);
        match decide(&*self.api.config.access, &attributes).await? {
            Verdict::Allow => Ok(()),
            Verdict::Deny(reason) => Err(denied(&attributes, &reason)),
        }
    }
}

/// The chain. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    api: Arc<Api>,
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

impl Chain {
    pub(crate) fn new(api: Arc<Api>) -> Self {
        Self {
            api,
            reads: Arc::new(Semaphore::new(READS)),
            writes: Arc::new(Semaphore::new(WRITES)),
        }
    }

    /// Answers one request; never fails and never panics.
    pub(crate) async fn answer(self, request: Request<Body>) -> Response<Body> {
        let began = Instant::now();
        let (parts, body) = request.into_parts();
        let head = parts.method == Method::HEAD;
        let info = RequestInfo::parse(&parts.method, parts.uri.path(), parts.uri.query());
        let labels = RequestLabels::of(&info);
        let metrics = &self.api.metrics;
        let running = metrics.begin(&info);
        let warnings = Warnings::default();
        let format = Format::of_error(&parts.headers, parts.uri.query());
        let steps = self
            .clone()
            .steps(info, parts, body, began, warnings.clone());
        let answered = AssertUnwindSafe(steps).catch_unwind().await;
        let mut response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(status)) => reply::failure(&status, format),
            Err(_) => {
                tracing::error!(verb = labels.verb, resource = %labels.resource, "a handler panicked");
                let status = Status::internal(
                    "this request caused apiserver to panic. Look in the logs for details",
                );
                reply::failure(&status, format)
            }
        };
        reply::warn(&mut response, &warnings.take());
        if let Ok(id) = HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()) {
            response.headers_mut().insert("audit-id", id);
        }
        if head {
            // Its length is told, but in HTTP/2 not one byte of it may be sent.
            *response.body_mut() = body::empty();
        }
        drop(running);
        metrics.done(labels, response.status().as_u16(), began.elapsed());
        response
    }

    async fn steps(
        self,
        info: RequestInfo,
        parts: Parts,
        body: Body,
        began: Instant,
        warnings: Warnings,
    ) -> reply::Answer {
        let access = &self.api.config.access;
        let annotations = Annotations::default();
        let (user, local) = match parts.extensions.get::<User>() {
            // In-process components say who they are; the network listener
            // never sets this.
            Some(user) => (user.clone(), true),
            None => {
                let notes = Notes {
                    warnings: &warnings,
                    annotations: &annotations,
                };
                let caller = access.authenticate(&parts, notes).await?;
                let other = match access.impersonate(&caller, &parts, &info) {
                    Some(asked) => Some(asked.await?.user),
                    None => None,
                };
                (other.unwrap_or(caller), false)
            }
        };
        let attributes = attributes(&info, &user);
        if let Verdict::Deny(reason) = decide(&**access, &attributes).await? {
            return Err(denied(&attributes, &reason));
        }
        let long = info.is_long_running();
        let time = if long {
            TIMEOUT
        } else {
            allotted(parts.uri.query())?
        };
        let limit = if info.is_read_only() {
            &self.reads
        } else {
            &self.writes
        };
        let _permit = if local || long {
            None
        } else {
            Some(limit.try_acquire().map_err(|_| {
                Status::too_many_requests("too many requests, please try again later", 1)
            })?)
        };
        let context = Context {
            api: Arc::clone(&self.api),
            info,
            user,
            parts,
            began,
            warnings,
            annotations,
        };
        let handler = route::route(context, body);
        if long {
            return handler.await;
        }
        tokio::time::timeout(time, handler)
            .await
            .unwrap_or_else(|_| {
                Err(Status::timeout(
                    "request did not complete within the allotted timeout",
                    0,
                ))
            })
    }
}

/// How long a request may take: what it says itself, at most [`TIMEOUT`].
fn allotted(query: Option<&str>) -> Result<Duration, Status> {
    let asked = crate::request::pairs(query.unwrap_or_default())
        .find(|(key, value)| key == "timeout" && !value.is_empty());
    let Some((_, text)) = asked else {
        return Ok(TIMEOUT);
    };
    let parsed = crate::duration::parse(&text).ok_or_else(|| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - time: invalid duration {}",
            control_types::status::quote(&text)
        ))
    })?;
    Ok(if parsed.is_zero() {
        TIMEOUT
    } else {
        parsed.min(TIMEOUT)
    })
}

/// What authorizers look at of a request.
pub(crate) fn attributes(info: &RequestInfo, user: &User) -> Attributes {
    Attributes {
        user: user.clone(),
        verb: info.verb.to_owned(),
        group: info.group.clone(),
        version: info.version.clone(),
        resource: info.resource.clone(),
        subresource: info.subresource.clone(),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        path: info.path.clone(),
        is_resource_request: info.is_resource,
        selection: Selection::parse(&info.field_selector, &info.label_selector),
    }
}

/// 403 in Kubernetes' words.
#[must_use]
pub fn denied(attributes: &Attributes, reason: &str) -> Status {
    let user = control_types::status::quote(&attributes.user.name);
    let mut why = if attributes.is_resource_request {
        let resource = if attributes.subresource.is_empty() {
            attributes.resource.clone()
        } else {
            format!("{}/{}", attributes.resource, attributes.subresource)
        };
        let scope = if attributes.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!(
                "in the namespace {}",
                control_types::status::quote(&attributes.namespace)
            )
        };
        format!(
            "User {user} cannot {} resource {} in API group {} {scope}",
            attributes.verb,
            control_types::status::quote(&resource),
            control_types::status::quote(&attributes.group)
        )
    } else {
        format!(
            "User {user} cannot {} path {}",
            attributes.verb,
            control_types::status::quote(&attributes.path)
        )
    };
    if !reason.is_empty() {
        why.push_str(": ");
        why.push_str(reason);
    }
    if attributes.is_resource_request {
        Status::forbidden(
            &attributes.group,
            &attributes.resource,
            &attributes.name,
            &why,
        )
    } else {
        Status::forbidden("", "", "", &why)
    }
}
