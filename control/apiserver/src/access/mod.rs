//! Who callers are and what they may do: `control-access`, fed from requests
//! and from this server's caches.
//!
//! Authentication: a bearer token of a service account or of a machine that
//! joins (bootstrap token), else a client
//! certificate of the cluster's authority, else nobody. Wrong credentials are
//! refused, never taken for nobody. Then impersonation. Authorisation: the group
//! `system:masters`, the graph of nodes, RBAC, in this order.

pub mod escalation;
mod follow;
mod impersonate;

use std::sync::{Arc, OnceLock, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_access::{
    Attributes, BOOTSTRAP_TOKEN_NAMESPACE, BOOTSTRAP_TOKEN_PREFIX, Existing, NodeGraph, Rbac, Rule,
    Tokens, User, user_of_bootstrap_token, user_of_certificate,
};
use control_pki::ClientTrust;
use control_types::meta;
use control_types::status::Status;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::request::Parts;
use rustls::pki_types::CertificateDer;

use crate::api::Api;
use crate::chain::{Access, Authorities, Verdict};
use crate::listen::{KnownPeer, PeerCertificates};
use crate::streams::websocket;

/// Certificates, tokens, RBAC and nodes.
#[derive(Debug)]
pub struct ClusterAccess {
    clients: ClientTrust,
    tokens: Tokens,
    rbac: Arc<Rbac>,
    nodes: Arc<NodeGraph>,
    authorities: Option<Authorities>,
    /// Set when the server starts.
    api: OnceLock<Weak<Api>>,
}

/// What tokens are bound to, from the caches.
struct Cached<'a>(&'a Api);

// === impl ClusterAccess ===

impl ClusterAccess {
    /// Believes the clients of `clients` and the tokens of `tokens`.
    #[must_use]
    pub fn new(clients: ClientTrust, tokens: Tokens) -> Self {
        Self {
            clients,
            tokens,
            rbac: Arc::default(),
            nodes: Arc::default(),
            authorities: None,
            api: OnceLock::new(),
        }
    }

    /// Publishes whom this server believes, for extension servers and stock
    /// components: kube-system/extension-apiserver-authentication.
    #[must_use]
    pub fn publishing(mut self, authorities: Authorities) -> Self {
        self.authorities = Some(authorities);
        self
    }

    fn api(&self) -> Option<Arc<Api>> {
        self.api.get()?.upgrade()
    }

    fn identify(&self, parts: &Parts) -> Result<User, Status> {
        // Other schemes are not known here; stock ignores them.
        let token = parts
            .headers
            .get(AUTHORIZATION)
            .and_then(|value| {
                let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
                scheme
                    .eq_ignore_ascii_case("bearer")
                    .then(|| token.trim().to_owned())
            })
            .filter(|token| !token.is_empty())
            .or_else(|| websocket::bearer(&parts.method, &parts.headers));
        if let Some(token) = token {
            return self
                .bearer(&token, &[])
                .map(|bearer| bearer.user)
                .ok_or_else(Status::unauthorized);
        }
        let Some(PeerCertificates(chain)) = parts.extensions.get::<PeerCertificates>() else {
            return Ok(User::anonymous());
        };
        match parts.extensions.get::<KnownPeer>() {
            Some(known) => known.get_or_find(|| self.certified(chain)),
            None => self.certified(chain),
        }
    }

    /// Whom a certificate chain names, if it is to be believed.
    fn certified(&self, chain: &[CertificateDer<'_>]) -> Result<User, Status> {
        let first = chain.first().ok_or_else(Status::unauthorized)?;
        if let Err(error) = self.clients.verify(chain) {
            tracing::debug!(%error, "client certificate refused");
            return Err(Status::unauthorized());
        }
        user_of_certificate(first).map_err(|error| {
            tracing::debug!(%error, "client certificate refused");
            Status::unauthorized()
        })
    }

    fn bearer(&self, token: &str, audiences: &[String]) -> Option<control_access::Bearer> {
        let api = self.api()?;
        let now = jiff::Timestamp::now().as_second();
        if let Some(parts) = control_access::parse_bootstrap_token(token) {
            return bootstrap_bearer(&api, parts, audiences, now);
        }
        match self
            .tokens
            .authenticate(token, audiences, now, &Cached(&api))
        {
            Ok(bearer) => Some(bearer),
            Err(error) => {
                tracing::debug!(%error, "token refused");
                None
            }
        }
    }
}

/// Whose bootstrap token this is, by its Secret in kube-system. Such tokens are
/// good for this server only.
fn bootstrap_bearer(
    api: &Api,
    parts: (&str, &str),
    audiences: &[String],
    now: i64,
) -> Option<control_access::Bearer> {
    if !audiences.is_empty() {
        return None;
    }
    let name = format!("{BOOTSTRAP_TOKEN_PREFIX}{}", parts.0);
    let key = format!("{BOOTSTRAP_TOKEN_NAMESPACE}/{name}");
    let secret = api.cached("", "secrets", &key)?.value().ok()?;
    let data = |key: &str| {
        let bytes = STANDARD.decode(secret.str_at(&["data", key])?).ok()?;
        String::from_utf8(bytes).ok()
    };
    match user_of_bootstrap_token(parts, &secret, data, now) {
        Ok(user) => Some(control_access::Bearer {
            user,
            audiences: Vec::new(),
        }),
        Err(error) => {
            tracing::info!(secret = name, %error, "the Secret of a bootstrap token does not vouch for it");
            None
        }
    }
}

impl Access for ClusterAccess {
    fn authenticate<'a>(&'a self, parts: &'a Parts) -> BoxFuture<'a, Result<User, Status>> {
        let user = self
            .identify(parts)
            .and_then(|user| impersonate::apply(self, user, &parts.headers));
        futures::future::ready(user).boxed()
    }

    fn authorize(&self, attributes: &Attributes) -> Verdict {
        if attributes.user.is_master() {
            return Verdict::Allow;
        }
        let mut refusal = String::new();
        if let Some(node) = attributes.user.node() {
            match self.nodes.allows(node, attributes) {
                Ok(()) => return Verdict::Allow,
                Err(reason) => refusal = reason,
            }
        }
        if self.rbac.allows(attributes).is_some() {
            Verdict::Allow
        } else {
            Verdict::Deny(refusal)
        }
    }

    fn attach(&self, api: &Arc<Api>) {
        if self.api.set(Arc::downgrade(api)).is_err() {
            tracing::warn!("one access cannot serve two servers; it goes on with the first");
            return;
        }
        follow::start(api, &self.rbac, &self.nodes);
    }

    fn authorities(&self) -> Option<&Authorities> {
        self.authorities.as_ref()
    }

    fn tokens(&self) -> Option<&Tokens> {
        Some(&self.tokens)
    }

    fn review_token(&self, token: &str, audiences: &[String]) -> Option<control_access::Bearer> {
        self.bearer(token, audiences)
    }

    fn reason(&self, attributes: &Attributes) -> String {
        if attributes.user.is_master() {
            return String::new();
        }
        let node = attributes.user.node();
        if node.is_some_and(|node| self.nodes.allows(node, attributes).is_ok()) {
            return String::new();
        }
        self.rbac.allows(attributes).unwrap_or_default()
    }

    fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        self.rbac.rules(user, namespace)
    }
}

// === impl Cached ===

impl Cached<'_> {
    fn uid(&self, plural: &str, key: &str) -> Option<String> {
        let object = self.0.cached("", plural, key)?.value().ok()?;
        Some(meta::uid(&object).to_owned())
    }
}

impl Existing for Cached<'_> {
    fn service_account(&self, namespace: &str, name: &str) -> Option<String> {
        self.uid("serviceaccounts", &format!("{namespace}/{name}"))
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<String> {
        self.uid("pods", &format!("{namespace}/{name}"))
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<String> {
        self.uid("secrets", &format!("{namespace}/{name}"))
    }

    fn node(&self, name: &str) -> Option<String> {
        self.uid("nodes", name)
    }
}
