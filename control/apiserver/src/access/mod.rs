//! Who callers are and what they may do: `control-access`, fed from requests
//! and from this server's caches.
//!
//! Authentication: a client certificate of the cluster's authority, else a bearer
//! token of a service account or of a machine that joins (bootstrap token), else
//! nobody. Wrong credentials are refused, never taken for nobody. Then
//! impersonation. Authorisation: the group `system:masters`, then the authorizers
//! in their order, by default the graph of nodes and RBAC.

mod authorize;
pub mod escalation;
mod follow;
mod impersonate;

use std::sync::{Arc, OnceLock, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_access::{
    Attributes, BOOTSTRAP_TOKEN_NAMESPACE, BOOTSTRAP_TOKEN_PREFIX, Bearer, Existing, NodeGraph,
    Rbac, Tokens, User, user_of_bootstrap_token, user_of_certificate,
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
use crate::chain::{Access, Authorities, Decision, Held, Impersonated, Notes, Verdict, Warnings};
use crate::listen::{KnownPeer, PeerCertificates};
use crate::request::RequestInfo;
use crate::streams::websocket;

pub use self::authorize::Authorizer;
use self::authorize::Authorizers;

/// Certificates, tokens, RBAC and nodes.
#[derive(Debug)]
pub struct ClusterAccess {
    clients: ClientTrust,
    tokens: Tokens,
    rbac: Arc<Rbac>,
    nodes: Arc<NodeGraph>,
    authorizers: Authorizers,
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
        let (rbac, nodes) = (Arc::<Rbac>::default(), Arc::<NodeGraph>::default());
        let authorizers = vec![
            Authorizer::Node(Arc::clone(&nodes)),
            Authorizer::Rbac(Arc::clone(&rbac)),
        ];
        Self {
            clients,
            tokens,
            rbac,
            nodes,
            authorizers: Authorizers(authorizers),
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

    /// Who sends a request: the first that its certificate or its token proves.
    /// One that proves nothing is only refused when no other proves anything.
    fn identify(&self, parts: &Parts, notes: Notes<'_>) -> Result<User, Status> {
        let mut refused = false;
        if let Some(PeerCertificates(chain)) = parts.extensions.get::<PeerCertificates>() {
            let found = match parts.extensions.get::<KnownPeer>() {
                Some(known) => known.get_or_find(|| self.certified(chain)),
                None => self.certified(chain),
            };
            match found {
                Ok(user) => return Ok(user),
                Err(_) => refused = true,
            }
        }
        let token = bearer_token(parts, notes.warnings);
        if let Some(token) = token.or_else(|| websocket::bearer(&parts.method, &parts.headers)) {
            match self.bearer(&token, &[]) {
                Ok(bearer) => return Ok(bearer.user),
                Err(_) => refused = true,
            }
        }
        if refused {
            return Err(Status::unauthorized());
        }
        Ok(User::anonymous())
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

    fn bearer(&self, token: &str, audiences: &[String]) -> Result<Bearer, String> {
        const NOBODY: &str = "invalid bearer token";
        let Some(api) = self.api() else {
            return Err(NOBODY.to_owned());
        };
        let now = jiff::Timestamp::now().as_second();
        if let Some(parts) = control_access::parse_bootstrap_token(token) {
            let found = bootstrap_bearer(&api, parts, audiences, now);
            return found.ok_or_else(|| NOBODY.to_owned());
        }
        match self
            .tokens
            .authenticate(token, audiences, now, &Cached(&api))
        {
            Ok(bearer) => Ok(bearer),
            Err(error) => {
                tracing::debug!(%error, "token refused");
                Err(error.to_string())
            }
        }
    }
}

/// The token of an `Authorization: Bearer …` header. Other schemes are not known
/// here and, as in kube-apiserver, ignored.
fn bearer_token(parts: &Parts, warnings: &Warnings) -> Option<String> {
    let header = parts.headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut words = header.splitn(3, ' ');
    let (scheme, token) = (words.next()?, words.next()?);
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    if token.is_empty() && words.next().is_some() {
        warnings.push(
            "the provided Authorization header contains extra space before the bearer token, and is ignored",
        );
    }
    (!token.is_empty()).then(|| token.to_owned())
}

/// Whose bootstrap token this is, by its Secret in kube-system. Such tokens are
/// good for this server only.
fn bootstrap_bearer(
    api: &Api,
    parts: (&str, &str),
    audiences: &[String],
    now: i64,
) -> Option<Bearer> {
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
        Ok(user) => Some(Bearer {
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
    fn authenticate<'a>(
        &'a self,
        parts: &'a Parts,
        notes: Notes<'a>,
    ) -> BoxFuture<'a, Result<User, Status>> {
        futures::future::ready(self.identify(parts, notes)).boxed()
    }

    fn impersonate<'a>(
        &'a self,
        caller: &'a User,
        parts: &'a Parts,
        info: &'a RequestInfo,
    ) -> Option<BoxFuture<'a, Result<Impersonated, Status>>> {
        if !impersonate::is_asked(&parts.headers) {
            return None;
        }
        match impersonate::wanted(&parts.headers) {
            Ok(None) => None,
            Ok(Some(wanted)) => Some(impersonate::apply(self, caller, wanted, info).boxed()),
            Err(status) => Some(futures::future::ready(Err(status)).boxed()),
        }
    }

    fn authorize(&self, attributes: &Attributes) -> Verdict {
        let decision = self.authorizers.decide(attributes, false);
        if decision.allowed {
            Verdict::Allow
        } else {
            Verdict::Deny(decision.reason)
        }
    }

    fn explain<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Decision> {
        futures::future::ready(self.authorizers.decide(attributes, true)).boxed()
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

    fn review_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
        _notes: Notes<'a>,
    ) -> BoxFuture<'a, Result<Bearer, String>> {
        futures::future::ready(self.bearer(token, audiences)).boxed()
    }

    fn rules(&self, user: &User, namespace: &str) -> Held {
        self.authorizers.rules(user, namespace)
    }

    fn granted(&self, user: &User, namespace: &str) -> Held {
        let (rules, error) = self.rbac.rules(user, namespace);
        Held {
            rules,
            incomplete: false,
            error,
        }
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
