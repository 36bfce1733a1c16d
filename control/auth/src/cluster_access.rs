//! Authenticators and authorizers of a cluster: the decisions of `control-access`, fed from
//! requests and from the server's caches.
//!
//! Authentication: a client certificate of the cluster's authority, else a bearer
//! token of a service account or of a machine that joins (bootstrap token), else
//! nobody. Wrong credentials are refused, never taken for nobody. Then
//! impersonation. Authorisation: the group `system:masters`, then the authorizers
//! in their order, by default the graph of nodes and RBAC.

use std::sync::{Arc, OnceLock, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_access::configuration::authentication::Anonymous;
use control_access::{
    Attributes, BOOTSTRAP_TOKEN_NAMESPACE, BOOTSTRAP_TOKEN_PREFIX, Bearer, FrontProxy, MASTERS,
    NODES, TokenError, TokenFile, Tokens, User, user_of_bootstrap_token, user_of_certificate,
};
use control_pki::ClientTrust;
use control_streams::websocket;
use control_types::error_chain;
use control_types::status::Status;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::request::Parts;
use rustls::pki_types::CertificateDer;

use crate::access::{Access, Authorities, Impersonation, Notes};
use crate::ask::WebhookTokens;
use crate::counts::{AccessCounts, DecisionCount};
use crate::error::{BearerError, SettingsError, TokenRefusal};
use crate::existing::CachedObjects;
use crate::settings::{Live, Settings};
use crate::{follow, impersonate, legacy};
use control_registry::authorizer::{
    AccessDecision, Authorizer, GrantedRules, Verdict, VerdictResult,
};
use control_registry::{Registry, Storage};
use control_request::peer::{KnownPeer, PeerCertificates};
use control_request::{RequestInfo, Warnings, percent_decode};

use tokio_util::sync::CancellationToken;

/// The parts of a control plane that are processes of their own.
const COMPONENTS: [&str; 2] = ["system:kube-scheduler", "system:kube-controller-manager"];

/// Certificates, tokens, RBAC and nodes, and what else is configured.
#[derive(Debug)]
pub struct ClusterAccess {
    clients: ClientTrust,
    front_proxy: Option<(ClientTrust, FrontProxy)>,
    tokens: Tokens,
    token_file: Option<TokenFile>,
    bootstrap_tokens: bool,
    webhook_tokens: Option<WebhookTokens>,
    live: Arc<Live>,
    authorities: Option<Authorities>,
    impersonations: impersonate::RecentModes,
    /// Set when the server starts.
    server: OnceLock<AttachedServer>,
}

/// What access needs of the server that it serves.
#[derive(Debug)]
struct AttachedServer {
    /// Weak, as the registry owns what authorizes its requests.
    registry: Weak<Registry>,
    counts: Arc<AccessCounts>,
}

// === impl ClusterAccess ===

impl ClusterAccess {
    /// Believes the clients of `clients` and the tokens of `tokens`; nodes and
    /// RBAC decide.
    #[must_use]
    pub fn new(clients: ClientTrust, tokens: Tokens) -> Self {
        let usual = Self::configured(clients, tokens, Settings::default());
        // Nothing in it is a file.
        usual.unwrap_or_else(|_| unreachable!("the default settings read nothing"))
    }

    /// As [`ClusterAccess::new`], but with settings. They may name files, which
    /// are read now.
    ///
    /// # Errors
    /// Files that cannot be used.
    pub fn configured(
        clients: ClientTrust,
        tokens: Tokens,
        mut settings: Settings,
    ) -> Result<Self, SettingsError> {
        let webhook_tokens = match settings.webhook_tokens.take() {
            Some(of) => Some(WebhookTokens::new(of, &settings.egress)?),
            None => None,
        };
        Ok(Self {
            clients,
            front_proxy: settings.front_proxy.take(),
            token_file: settings.token_file.take(),
            bootstrap_tokens: settings.bootstrap_tokens,
            webhook_tokens,
            live: Arc::new(Live::new(settings, tokens.issuers())?),
            tokens,
            authorities: None,
            impersonations: impersonate::RecentModes::default(),
            server: OnceLock::new(),
        })
    }

    /// Publishes whom this server believes, for extension servers and stock
    /// components: kube-system/extension-apiserver-authentication.
    #[must_use]
    pub fn publishing(mut self, authorities: Authorities) -> Self {
        self.authorities = Some(authorities);
        self
    }

    fn registry(&self) -> Option<Arc<Registry>> {
        self.server.get()?.registry.upgrade()
    }

    /// Who sends a request: the first that a proxy, its certificate or its token
    /// proves. One that proves nothing is only refused when no other proves
    /// anything.
    async fn identify(&self, parts: &Parts, notes: Notes<'_>) -> Result<User, Status> {
        let mut refused = false;
        // Also of a client with a certificate, it is told that its header is none.
        let token = bearer_token(parts, notes.warnings);
        if let Some(PeerCertificates(chain)) = parts.extensions.get::<PeerCertificates>() {
            if let Some(user) = self.proxied(chain, parts) {
                return Ok(user);
            }
            let found = match parts.extensions.get::<KnownPeer>() {
                Some(known) => known.get_or_find(|| self.certified(chain)),
                None => self.certified(chain),
            };
            match found {
                Ok(user) => return Ok(user),
                Err(_) => refused = true,
            }
        }
        if let Some(token) = token.or_else(|| websocket::bearer(&parts.method, &parts.headers)) {
            match self.bearer(&token, &[], notes).await {
                Ok(bearer) => return Ok(bearer.user),
                Err(_) => refused = true,
            }
        }
        if !refused && self.live.anonymous.load().may_ask(parts.uri.path()) {
            return Ok(User::anonymous());
        }
        Err(Status::unauthorized())
    }

    /// Whom a proxy's headers name, if the proxy is one that is believed.
    fn proxied(&self, chain: &[CertificateDer<'_>], parts: &Parts) -> Option<User> {
        let (trust, proxy) = self.front_proxy.as_ref()?;
        // Cheap first: hardly any request has such headers.
        if !proxy
            .user
            .iter()
            .any(|name| parts.headers.contains_key(name))
        {
            return None;
        }
        let headers = parts.headers.iter();
        let headers: Vec<(&str, &str)> = headers
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
            .collect();
        let user = proxy.user(&headers, percent_decode)?;
        let name = user_of_certificate(chain.first()?).ok()?.name;
        if let Err(error) = trust.verify(chain) {
            tracing::debug!(%error, "headers of a client that is no proxy are not believed");
            return None;
        }
        if !proxy.believes(&name) {
            tracing::debug!(name, "headers of a proxy of another name are not believed");
            return None;
        }
        Some(user)
    }

    /// Whom a certificate chain names, if it is to be believed.
    fn certified(&self, chain: &[CertificateDer<'_>]) -> Result<User, Status> {
        let first = chain.first().ok_or_else(Status::unauthorized)?;
        if let Err(error) = self.clients.verify(chain) {
            tracing::debug!(%error, "client certificate refused");
            return Err(Status::unauthorized());
        }
        if let (Some(server), Some(seconds)) = (self.server.get(), left(first)) {
            server.counts.certificate(seconds);
        }
        user_of_certificate(first).map_err(|error| {
            tracing::debug!(%error, "client certificate refused");
            Status::unauthorized()
        })
    }

    /// Whose token this is: the first that one of those who know tokens says.
    async fn bearer(
        &self,
        token: &str,
        audiences: &[String],
        notes: Notes<'_>,
    ) -> Result<Bearer, BearerError> {
        let mut errors = Vec::new();
        let (Some(registry), Some(server)) = (self.registry(), self.server.get()) else {
            return Err(BearerError::Unknown);
        };
        let now = jiff::Timestamp::now().as_second();
        // Who knows no audiences vouches for this server only.
        let wanted = if audiences.is_empty() {
            self.tokens.audiences()
        } else {
            audiences
        };
        let here: Vec<String> = self
            .tokens
            .audiences()
            .iter()
            .filter(|one| wanted.contains(one))
            .cloned()
            .collect();
        let agnostic = |user: User| Bearer {
            user,
            audiences: here.clone(),
            ..Bearer::default()
        };
        if let Some(user) = self.token_file.as_ref().and_then(|file| file.user(token))
            && !here.is_empty()
        {
            return Ok(agnostic(user.clone()));
        }
        let existing = CachedObjects(&registry);
        let mut found = self.tokens.authenticate(token, audiences, now, &existing);
        if found.as_ref().is_err_and(TokenError::is_about_objects)
            && registry.catch_up().await.is_ok()
        {
            // What it is bound to may have been made a moment ago.
            found = self.tokens.authenticate(token, audiences, now, &existing);
        }
        match found {
            Ok(bearer) => {
                server.counts.token(&bearer);
                legacy::note(&registry, &bearer, notes);
                return Ok(bearer);
            }
            Err(TokenError::Foreign) => {}
            Err(error) => {
                if matches!(error, TokenError::Legacy(_)) {
                    server.counts.invalidated_token();
                }
                errors.push(TokenRefusal::ServiceAccount(error));
            }
        }
        if self.bootstrap_tokens
            && !here.is_empty()
            && let Some(parts) = control_access::parse_bootstrap_token(token)
            && let Some(user) = bootstrap_user(&registry, parts, now)
        {
            return Ok(agnostic(user));
        }
        if !self.live.issuers.is_empty() {
            match self.live.issuers.user(token).await {
                Some(Ok(bearer)) if !here.is_empty() => return Ok(agnostic(bearer.user)),
                Some(Err(error)) => errors.push(error),
                _ => {}
            }
        }
        if let Some(webhook) = &self.webhook_tokens {
            match webhook.user(token, wanted, &here).await {
                Ok(Some(bearer)) => return Ok(bearer),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        for error in &errors {
            tracing::debug!(error = error_chain(error), "token refused");
        }
        Err(if errors.is_empty() {
            BearerError::Unknown
        } else {
            BearerError::Refused(errors)
        })
    }
}

/// For how many seconds more a certificate is good.
#[expect(clippy::cast_precision_loss, reason = "for metrics")]
fn left(certificate: &CertificateDer<'_>) -> Option<f64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let end = certificate.validity().not_after.timestamp();
    Some((end - jiff::Timestamp::now().as_second()) as f64)
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

/// Whose bootstrap token this is, by its Secret in kube-system.
fn bootstrap_user(storage: &Storage, parts: (&str, &str), now: i64) -> Option<User> {
    let name = format!("{BOOTSTRAP_TOKEN_PREFIX}{}", parts.0);
    let key = format!("{BOOTSTRAP_TOKEN_NAMESPACE}/{name}");
    let secret = storage.cached("", "secrets", &key)?.value().ok()?;
    let data = |key: &str| {
        let bytes = STANDARD.decode(secret.str_at(&["data", key])?).ok()?;
        String::from_utf8(bytes).ok()
    };
    match user_of_bootstrap_token(parts, &secret, data, now) {
        Ok(user) => Some(user),
        Err(error) => {
            tracing::info!(secret = name, %error, "the Secret of a bootstrap token does not vouch for it");
            None
        }
    }
}

/// Waits on this thread for a future of the server's own, on a runtime that can
/// go on meanwhile.
fn wait<T: Send>(future: impl Future<Output = T> + Send) -> T {
    match tokio::runtime::Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(|| handle.block_on(future))
        }
        // A runtime of one thread would wait for itself.
        _ => std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                // A machine that cannot make one has no threads or descriptors left.
                runtime.map_or_else(
                    |error| panic!("no runtime to wait on: {error}"),
                    |runtime| runtime.block_on(future),
                )
            });
            match waiting.join() {
                Ok(answer) => answer,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }),
    }
}

impl Access for ClusterAccess {
    fn authenticate<'a>(
        &'a self,
        parts: &'a Parts,
        notes: Notes<'a>,
    ) -> BoxFuture<'a, Result<User, Status>> {
        self.identify(parts, notes).boxed()
    }

    fn is_of_cluster(&self, certificates: &[CertificateDer<'_>]) -> bool {
        let proven = self.clients.verify(certificates).is_ok();
        let user = certificates.first().filter(|_| proven);
        let user = user.and_then(|first| user_of_certificate(first).ok());
        user.is_some_and(|user| {
            user.is_in(NODES) || user.is_in(MASTERS) || COMPONENTS.contains(&&*user.name)
        })
    }

    fn impersonate<'a>(
        &'a self,
        caller: &'a User,
        parts: &'a Parts,
        info: &'a RequestInfo,
    ) -> Option<BoxFuture<'a, Result<Impersonation, Status>>> {
        if !impersonate::is_asked(&parts.headers) {
            return None;
        }
        match impersonate::wanted(&parts.headers) {
            Ok(None) => None,
            Ok(Some(wanted)) => {
                Some(impersonate::apply(self, &self.impersonations, caller, wanted, info).boxed())
            }
            Err(status) => Some(futures::future::ready(Err(status)).boxed()),
        }
    }

    fn decided(&self) -> Vec<DecisionCount> {
        self.live.authorizers.load().decided()
    }

    fn attach(
        &self,
        registry: &Arc<Registry>,
        counts: &Arc<AccessCounts>,
        shutdown: &CancellationToken,
    ) {
        let server = AttachedServer {
            registry: Arc::downgrade(registry),
            counts: Arc::clone(counts),
        };
        if self.server.set(server).is_err() {
            tracing::warn!("one access cannot serve two servers; it goes on with the first");
            return;
        }
        let storage = &registry.storage;
        follow::start(storage, &self.live.rbac, &self.live.nodes, shutdown);
        self.live.start(shutdown);
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
        notes: Notes<'a>,
    ) -> BoxFuture<'a, Result<Bearer, BearerError>> {
        if token.trim().is_empty() && *self.live.anonymous.load_full() == Anonymous::Everywhere {
            // A header with such a token brings no credentials, and kube-apiserver
            // answers what it would make of a request with that header.
            let audiences = self.tokens.audiences().to_vec();
            let nobody = Bearer {
                user: User::anonymous(),
                audiences,
                ..Bearer::default()
            };
            return futures::future::ready(Ok(nobody)).boxed();
        }
        // As in a header, a blank ends it.
        let token = token.split(' ').next().unwrap_or_default();
        self.bearer(token, audiences, notes).boxed()
    }
}

impl Authorizer for ClusterAccess {
    fn authorize(&self, attributes: &Attributes) -> Verdict {
        let authorizers = self.live.authorizers.load();
        let decision = if authorizers.waits() {
            wait(authorizers.decide_waiting(attributes))
        } else {
            authorizers.decide(attributes, false)
        };
        if decision.allowed {
            Verdict::Allow
        } else {
            Verdict::Deny(decision.reason)
        }
    }

    fn ask<'a>(&'a self, attributes: &'a Attributes) -> Option<BoxFuture<'a, VerdictResult>> {
        if !self.live.authorizers.load().waits() {
            return None;
        }
        let authorizers = self.live.authorizers.load_full();
        let asked = async move {
            let decision = authorizers.decide_waiting(attributes).await;
            match (decision.allowed, decision.error) {
                (true, _) => Ok(Verdict::Allow),
                (false, Some(error)) => Err(Status::internal(error)),
                (false, None) => Ok(Verdict::Deny(decision.reason)),
            }
        };
        Some(asked.boxed())
    }

    fn explain<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, AccessDecision> {
        let authorizers = self.live.authorizers.load_full();
        if !authorizers.waits() {
            return futures::future::ready(authorizers.decide(attributes, true)).boxed();
        }
        async move { authorizers.decide_waiting(attributes).await }.boxed()
    }

    fn rules(&self, user: &User, namespace: &str) -> GrantedRules {
        self.live.authorizers.load().rules(user, namespace)
    }

    fn granted(&self, user: &User, namespace: &str) -> GrantedRules {
        let (rules, error) = self.live.rbac.rules(user, namespace);
        GrantedRules {
            rules,
            incomplete: false,
            error,
        }
    }
}
