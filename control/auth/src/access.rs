//! Who callers are and what they may do, as the request chain asks for it.

use std::sync::Arc;

use control_access::User;
use control_registry::authorizer::Authorizer;
use control_types::status::Status;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::request::Parts;
use rustls::pki_types::CertificateDer;

use crate::counts::{AccessCounts, DecisionCount};
use crate::error::BearerError;
use control_registry::Registry;
use control_request::{Annotations, RequestInfo, Warnings};
use tokio_util::sync::CancellationToken;

/// The authorities that a server believes, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorities {
    /// Of clients' certificates.
    pub clients: String,
    /// Of proxies that vouch for users by header, if any are believed.
    pub front_proxy: Option<String>,
}

/// As whom a request is made, for somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonation {
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
pub trait Access: Authorizer {
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
    ) -> Option<BoxFuture<'a, Result<Impersonation, Status>>> {
        let _ = (caller, parts, info);
        None
    }

    /// Called once, when the caches are filled and before the first request: the place to
    /// follow roles and bindings until `shutdown`. `counts` are those of the server.
    fn attach(
        &self,
        registry: &Arc<Registry>,
        counts: &Arc<AccessCounts>,
        shutdown: &CancellationToken,
    ) {
        let _ = (registry, counts, shutdown);
    }

    /// Returns the authorities that this server trusts, if clients may know them.
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
    ) -> BoxFuture<'a, Result<control_access::Bearer, BearerError>> {
        let _ = (token, audiences, notes);
        std::future::ready(Err(BearerError::Unknown)).boxed()
    }

    /// How often each authorizer decided, for metrics.
    fn decided(&self) -> Vec<DecisionCount> {
        Vec::new()
    }
}
