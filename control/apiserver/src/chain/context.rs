//! A request on its way, with what steps tell the client and the audit log.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use control_access::{Attributes, User};
use control_proxy::ProxiedRequest;
use control_types::status::Status;
use control_types::value::Value;
use http::request::Parts;

use super::access::{Verdict, attributes, decide, denied};
use tokio_util::sync::CancellationToken;

use crate::api::{Api, ServedResource};
use crate::fairness::Opening;
use control_request::RequestInfo;
use control_strategy::ObjectSchema;

/// One request, understood and allowed.
#[derive(Debug)]
pub struct Context {
    /// What all handlers share.
    pub api: Arc<Api>,
    /// What is asked for.
    pub info: Arc<RequestInfo>,
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
    pub(super) opening: Mutex<Option<Opening>>,
}

/// What steps add to the audit log's entry of a request: keys and values, and the
/// client's object as it was understood. Nothing is kept where nobody audits.
#[derive(Debug, Clone, Default)]
pub struct Annotations(Option<Arc<Told>>);

#[derive(Debug, Default)]
struct Told {
    texts: Mutex<BTreeMap<Cow<'static, str>, String>>,
    /// Whether the client's object is to be written.
    wants_object: AtomicBool,
    object: Mutex<Option<Value>>,
}

/// Texts for `Warning` headers, gathered while a request is handled.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

// === impl Annotations ===

impl Annotations {
    /// Annotations that somebody will read.
    #[must_use]
    pub fn kept() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether anybody will read them: what is costly to find out may be left out
    /// else.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Tells something; what was told first of a key stays.
    pub fn add(&self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        if let Some(all) = &self.0 {
            let mut texts = all.texts.lock().unwrap_or_else(PoisonError::into_inner);
            texts.entry(key.into()).or_insert_with(|| value.into());
        }
    }

    /// The client's object is to be written.
    pub(crate) fn want_object(&self) {
        if let Some(all) = &self.0 {
            all.wants_object.store(true, Ordering::Relaxed);
        }
    }

    /// Tells the client's object if it is wanted; `make` completes it.
    pub(crate) fn sent(&self, make: impl FnOnce() -> Value) {
        if let Some(all) = &self.0
            && all.wants_object.swap(false, Ordering::Relaxed)
        {
            let mut object = all.object.lock().unwrap_or_else(PoisonError::into_inner);
            *object = Some(make());
        }
    }

    /// The client's object, if it was told since this was asked last.
    pub(crate) fn take_sent(&self) -> Option<Value> {
        let all = self.0.as_ref()?;
        let mut object = all.object.lock().unwrap_or_else(PoisonError::into_inner);
        object.take()
    }

    /// All so far.
    #[must_use]
    pub fn all(&self) -> BTreeMap<Cow<'static, str>, String> {
        self.0.as_ref().map_or_else(BTreeMap::new, |all| {
            let texts = all.texts.lock().unwrap_or_else(PoisonError::into_inner);
            texts.clone()
        })
    }
}

// === impl Warnings ===

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

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl Context ===

impl Context {
    /// The request as it is passed on to another server.
    #[must_use]
    pub fn proxied(&self) -> ProxiedRequest<'_> {
        ProxiedRequest {
            parts: &self.parts,
            rest: &self.info.rest,
            ending: self.ending(),
        }
    }

    /// The raw query.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.parts.uri.query()
    }

    /// One decoded value of the query.
    #[must_use]
    pub fn query_value(&self, wanted: &str) -> Option<String> {
        control_request::pairs(self.query().unwrap_or_default())
            .find(|(key, _)| key == wanted)
            .map(|(_, value)| value)
    }

    /// Tells the audit log what the client sent, as kube-apiserver writes it: with the
    /// defaults of its kind, and before anything else is done to it.
    pub fn tell_sent(&self, served: &ServedResource, object: &Value) {
        self.annotations.sent(|| {
            let mut object = object.clone();
            served.kind.default(&mut object);
            served.form().complete(&mut object);
            object
        });
    }

    /// As [`Context::tell_sent`], of what a subresource takes that is of another kind
    /// than the resource, and has its defaults.
    pub fn tell_sent_as(&self, form: ObjectSchema<'_>, object: &Value) {
        self.annotations.sent(|| {
            let mut object = object.clone();
            form.complete(&mut object);
            object
        });
    }

    /// Tells the audit log something; what was told first of a key stays.
    pub fn annotate(&self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.annotations.add(key, value);
    }

    /// Cancelled when streams of this request are to end: those of clients over the
    /// network before those of callers in the process, who have last words to write.
    #[must_use]
    pub fn ending(&self) -> &CancellationToken {
        if self.parts.extensions.get::<User>().is_some() {
            &self.api.shutdown
        } else {
            self.api.lifecycle.draining()
        }
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

    /// What a watch holds until it has begun and until it ends: for the stream to
    /// keep. Dropped with the context by whoever does not take it.
    pub(crate) fn take_opening(&self) -> Option<Opening> {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        opening.take()
    }
}
