//! A request whose sender is known, with what is told about it besides its answer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use control_access::User;
use control_types::value::Value;
use http::request::Parts;

use crate::{RequestInfo, pairs};

/// A request whose sender is known.
#[derive(Debug)]
pub struct RequestContext {
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
}

/// What steps add to the audit log's entry of a request: keys and values, and the
/// client's object as it was understood. Nothing is kept where nobody audits.
#[derive(Debug, Clone, Default)]
pub struct Annotations(Option<Arc<AuditNotes>>);

#[derive(Debug, Default)]
struct AuditNotes {
    texts: Mutex<BTreeMap<Cow<'static, str>, String>>,
    /// Whether the client's object is to be written.
    wants_object: AtomicBool,
    object: Mutex<Option<Value>>,
}

/// Texts for `Warning` headers, gathered while a request is handled.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

// === impl RequestContext ===

impl RequestContext {
    /// Returns the raw query.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.parts.uri.query()
    }

    /// Returns one decoded value of the query.
    #[must_use]
    pub fn query_value(&self, wanted: &str) -> Option<String> {
        pairs(self.query().unwrap_or_default())
            .find(|(key, _)| key == wanted)
            .map(|(_, value)| value)
    }

    /// Adds an annotation to the audit log's entry; the first one of a key stays.
    pub fn annotate(&self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.annotations.add(key, value);
    }
}

// === impl Annotations ===

impl Annotations {
    /// Returns annotations that somebody will read.
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

    /// Adds an annotation; the first one of a key stays.
    pub fn add(&self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        if let Some(all) = &self.0 {
            let mut texts = all.texts.lock().unwrap_or_else(PoisonError::into_inner);
            texts.entry(key.into()).or_insert_with(|| value.into());
        }
    }

    /// Requests that the client's object be written.
    pub fn want_object(&self) {
        if let Some(all) = &self.0 {
            all.wants_object.store(true, Ordering::Relaxed);
        }
    }

    /// Keeps the client's object if it is wanted; `make` completes it.
    pub fn keep_object(&self, make: impl FnOnce() -> Value) {
        if let Some(all) = &self.0
            && all.wants_object.swap(false, Ordering::Relaxed)
        {
            let mut object = all.object.lock().unwrap_or_else(PoisonError::into_inner);
            *object = Some(make());
        }
    }

    /// Takes the client's object, if it was kept since this was called last.
    #[must_use]
    pub fn take_object(&self) -> Option<Value> {
        let all = self.0.as_ref()?;
        let mut object = all.object.lock().unwrap_or_else(PoisonError::into_inner);
        object.take()
    }

    /// Returns all annotations so far.
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

    /// Takes all texts.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
