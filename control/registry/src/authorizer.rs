//! What handlers ask of authorization.

use control_access::{Attributes, Selection, User};
use control_request::RequestInfo;
use control_types::status::Status;
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Whether a request may be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not, for this reason (may be empty).
    Deny(String),
}

/// Why something is allowed or not, for people who ask (`SubjectAccessReview`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessDecision {
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
pub struct GrantedRules {
    /// The rules.
    pub rules: Vec<control_access::Rule>,
    /// Whether there may be others.
    pub incomplete: bool,
    /// What could not be found out.
    pub error: Option<String>,
}

/// What users may do.
pub trait Authorizer: Send + Sync + 'static {
    /// Whether the user may do this. Where that is for other servers to say, the
    /// thread waits: requests are decided by [`decide`].
    fn authorize(&self, attributes: &Attributes) -> Verdict;

    /// As [`Authorizer::authorize`], for other servers to say; `None` when no other
    /// server is asked.
    fn ask<'a>(&'a self, attributes: &'a Attributes) -> Option<BoxFuture<'a, VerdictResult>> {
        let _ = attributes;
        None
    }

    /// As [`Authorizer::authorize`], with reasons.
    fn explain<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, AccessDecision> {
        let decision = match self.authorize(attributes) {
            Verdict::Allow => AccessDecision {
                allowed: true,
                ..AccessDecision::default()
            },
            Verdict::Deny(reason) => AccessDecision {
                reason,
                ..AccessDecision::default()
            },
        };
        std::future::ready(decision).boxed()
    }

    /// The rules that hold for a user in a namespace, whoever says so.
    fn rules(&self, user: &User, namespace: &str) -> GrantedRules {
        let _ = (user, namespace);
        GrantedRules::default()
    }

    /// The rules that roles give to a user in a namespace: what the user may
    /// pass on.
    fn granted(&self, user: &User, namespace: &str) -> GrantedRules {
        let _ = (user, namespace);
        GrantedRules::default()
    }
}

/// A verdict, or 500 when nobody could give one.
pub type VerdictResult = Result<Verdict, Status>;

/// Whether the user may do this, asking whoever must be asked.
///
/// # Errors
/// 500 when nobody allows it and somebody could not be asked.
pub async fn decide(access: &dyn Authorizer, attributes: &Attributes) -> VerdictResult {
    match access.ask(attributes) {
        None => Ok(access.authorize(attributes)),
        Some(asked) => asked.await,
    }
}

/// What authorizers look at of a request.
pub fn attributes(info: &RequestInfo, user: &User) -> Attributes {
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
