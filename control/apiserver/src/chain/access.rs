//! Who callers are and what they may do: what the chain asks of it.

use std::sync::Arc;

use control_access::{Attributes, Selection, User};
use control_types::status::Status;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::request::Parts;
use rustls::pki_types::CertificateDer;

use crate::api::Api;
use control_request::{Annotations, RequestInfo, Warnings};

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
    /// [`control_request::peer::PeerCertificates`]) or its token. No credentials at all
    /// are the anonymous user; wrong ones are an error.
    fn authenticate<'a>(
        &'a self,
        parts: &'a Parts,
        notes: Notes<'a>,
    ) -> BoxFuture<'a, Result<User, Status>>;

    /// Whether who shows these certificates is a part of the cluster itself: a node, a
    /// component of the control plane, or its administrator. Its connection is then
    /// served apart from the crowd.
    fn is_of_cluster(&self, certificates: &[CertificateDer<'_>]) -> bool {
        let _ = certificates;
        false
    }

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

    /// How often each authorizer decided, for metrics.
    fn decided(&self) -> Vec<crate::Decided> {
        Vec::new()
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
