//! Callers known by their certificate alone; only administrators may do
//! anything. What a server needs that runs without roles: tests, and the
//! API server as an oracle's subject.

use control_access::{Attributes, User};
use control_pki::ClientTrust;
use control_types::status::Status;
use futures::future::BoxFuture;
use http::request::Parts;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::chain::{Access, Notes};
use control_registry::authorizer::{Authorizer, Verdict};
use control_request::peer::PeerCertificates;

/// Believes certificates of one authority; allows the group `system:masters`
/// everything, and everybody the health checks and the version.
#[derive(Debug)]
pub struct Certificates {
    trust: ClientTrust,
}

impl Certificates {
    /// Believes certificates that `trust` verifies.
    #[must_use]
    pub fn new(trust: ClientTrust) -> Self {
        Self { trust }
    }
}

impl Access for Certificates {
    fn authenticate<'a>(
        &'a self,
        parts: &'a Parts,
        _notes: Notes<'a>,
    ) -> BoxFuture<'a, Result<User, Status>> {
        Box::pin(async move {
            let Some(PeerCertificates(chain)) = parts.extensions.get() else {
                return Ok(User::anonymous());
            };
            if self.trust.verify(chain).is_err() {
                return Err(Status::unauthorized());
            }
            chain
                .first()
                .and_then(|leaf| user_of(leaf))
                .ok_or_else(Status::unauthorized)
        })
    }
}

impl Authorizer for Certificates {
    fn authorize(&self, attributes: &Attributes) -> Verdict {
        let open = ["/healthz", "/livez", "/readyz", "/version"];
        if attributes.user.is_master()
            || (!attributes.is_resource_request
                && open.iter().any(|path| attributes.path.starts_with(path)))
        {
            Verdict::Allow
        } else {
            Verdict::Deny(String::new())
        }
    }
}

/// The user that a certificate names: common name and organizations.
fn user_of(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups = subject
        .iter_organization()
        .filter_map(|group| group.as_str().ok());
    Some(User::named(name, groups))
}
