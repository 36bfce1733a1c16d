//! A request to the registry.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use control_access::Attributes;
use control_admission::{Attributes as AdmissionAttributes, Operation, RequestOptions};
use control_proxy::ProxiedRequest;
use control_request::RequestContext;
use control_strategy::decode::ExpectedKind;
use control_strategy::{ObjectSchema, ServedVersion};
use control_types::status::Status;
use control_types::value::Value;
use tokio_util::sync::CancellationToken;

use crate::authorizer::{Verdict, attributes, decide, denied};
use crate::registry::Registry;

/// One request, understood and allowed.
#[derive(Debug)]
pub struct Context {
    /// What all handlers share.
    pub registry: Arc<Registry>,
    /// What is asked, and by whom.
    pub request: RequestContext,
    /// Cancelled when streams of this request are to end.
    pub ending: CancellationToken,
    /// The place of a watch among requests, for its stream to keep.
    pub place: Mutex<Option<Box<dyn WatchPlace>>>,
}

/// The place of a watch among requests until it has begun, and among watches until it ends: until
/// this is dropped.
pub trait WatchPlace: std::fmt::Debug + Send {
    /// Called when the watch has begun.
    fn begun(&mut self);
}

impl Deref for Context {
    type Target = RequestContext;

    #[inline]
    fn deref(&self) -> &RequestContext {
        &self.request
    }
}

impl Context {
    /// Returns what admission sees of the request: without options, and about the object that
    /// its path names.
    pub fn admission<'a>(
        &'a self,
        served: &'a Arc<ServedVersion>,
        operation: Operation,
        kind: ExpectedKind<'a>,
        subresource: &'a str,
    ) -> AdmissionAttributes<'a> {
        AdmissionAttributes {
            cluster: &*self.registry,
            metrics: &self.registry.admission_metrics,
            context: &self.request,
            served,
            operation,
            kind,
            subresource,
            namespace: &self.info.namespace,
            name: &self.info.name,
            options: RequestOptions::None,
            dry_run: false,
        }
    }

    /// Tells the audit log what the client sent, as kube-apiserver writes it: with the
    /// defaults of its kind, and before anything else is done to it.
    pub fn tell_sent(&self, served: &ServedVersion, object: &Value) {
        self.annotations.keep_object(|| {
            let mut object = object.clone();
            served.kind.default(&mut object);
            served.form().complete(&mut object);
            object
        });
    }

    /// As [`Context::tell_sent`], of what a subresource takes that is of another kind
    /// than the resource, and has its defaults.
    pub fn tell_sent_as(&self, form: ObjectSchema<'_>, object: &Value) {
        self.annotations.keep_object(|| {
            let mut object = object.clone();
            form.complete(&mut object);
            object
        });
    }

    /// Cancelled when streams of this request are to end: those of clients over the
    /// network before those of callers in the process, who have last words to write.
    #[must_use]
    pub fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// The request as it is passed on to another server.
    #[must_use]
    pub fn proxied(&self) -> ProxiedRequest<'_> {
        ProxiedRequest {
            parts: &self.parts,
            rest: &self.info.rest,
            ending: self.ending(),
        }
    }

    /// Whether the user may do something else than what was asked for.
    #[must_use]
    pub fn may(&self, attributes: &Attributes) -> bool {
        self.registry.authorizer.authorize(attributes) == Verdict::Allow
    }

    /// Whether the user may also do `verb` to what the request is about: a write
    /// that makes what is not there is a creation.
    ///
    /// # Errors
    /// 403.
    pub async fn must_be_allowed(&self, verb: &str) -> Result<(), Status> {
        let mut attributes = attributes(&self.info, &self.user);
        verb.clone_into(&mut attributes.verb);
        match decide(&*self.registry.authorizer, &attributes).await? {
            Verdict::Allow => Ok(()),
            Verdict::Deny(reason) => Err(denied(&attributes, &reason)),
        }
    }

    /// Takes what a watch holds until it has begun and until it ends: for the stream to
    /// keep. Dropped with the context by whoever does not take it.
    pub fn take_place(&self) -> Option<Box<dyn WatchPlace>> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.take()
    }
}
