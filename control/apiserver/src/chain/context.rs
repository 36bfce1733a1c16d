//! A request on its way, with what steps tell the client and the audit log.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use control_access::{Attributes, User};
use control_admission::{Attributes as AdmissionAttributes, Operation, RequestOptions};
use control_proxy::ProxiedRequest;
use control_request::RequestContext;
use control_strategy::decode::Expected;
use control_strategy::{ObjectSchema, ServedVersion};
use control_types::status::Status;
use control_types::value::Value;
use tokio_util::sync::CancellationToken;

use super::access::{Verdict, attributes, decide, denied};
use crate::api::Api;
use crate::fairness::Opening;

/// One request, understood and allowed.
#[derive(Debug)]
pub struct Context {
    /// What all handlers share.
    pub api: Arc<Api>,
    /// What is asked, and by whom.
    pub request: RequestContext,
    pub(super) opening: Mutex<Option<Opening>>,
}

// === impl Context ===

impl Deref for Context {
    type Target = RequestContext;

    #[inline]
    fn deref(&self) -> &RequestContext {
        &self.request
    }
}

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

    /// Returns what admission sees of the request: without options, and about the object that
    /// its path names.
    pub(crate) fn admission<'a>(
        &'a self,
        served: &'a Arc<ServedVersion>,
        operation: Operation,
        kind: Expected<'a>,
        subresource: &'a str,
    ) -> AdmissionAttributes<'a> {
        AdmissionAttributes {
            cluster: &*self.api,
            metrics: &self.api.metrics.admission,
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
