//! How access is configured, and how configuration files are read anew while
//! the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use control_access::configuration::authentication::Anonymous;
use control_access::configuration::{authentication, authorization};
use control_access::oidc::{ALGORITHMS, Issuer};
use control_access::{Abac, FrontProxy, NodeGraph, Rbac, TokenFile};
use control_pki::ClientTrust;
use control_types::error_chain;
use tokio_util::sync::CancellationToken;

use crate::ask::{WebhookAuthorizer, WebhookSettings, WebhookTokens};
use crate::authorize::{Authorizer, Authorizers};
use crate::error::SettingsError;
use crate::issuers::Issuers;
use control_proxy::egress::Egress;

/// How often files are looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// What a server believes besides certificates and service accounts' tokens, and
/// who decides.
#[derive(Debug)]
pub struct Settings {
    /// The authority of proxies that name users in headers, and how.
    pub front_proxy: Option<(ClientTrust, FrontProxy)>,
    /// Tokens from a file.
    pub token_file: Option<TokenFile>,
    /// Whether Secrets in kube-system may hold bootstrap tokens.
    pub bootstrap_tokens: bool,
    /// Issuers of ID tokens.
    pub issuers: Vec<Issuer>,
    /// An `AuthenticationConfiguration`, read anew when it changes; its issuers
    /// are believed besides those of `issuers`.
    pub authentication_file: Option<PathBuf>,
    /// A server that knows tokens.
    pub webhook_tokens: Option<WebhookSettings>,
    /// Which requests may come without credentials.
    pub anonymous: Anonymous,
    /// Who decides, in this order.
    pub authorizers: Vec<authorization::Authorizer>,
    /// An `AuthorizationConfiguration`, instead of `authorizers`; read anew when
    /// it changes.
    pub authorization_file: Option<PathBuf>,
    /// The policies of the mode `ABAC`.
    pub abac: Option<Abac>,
    /// By which ways other servers are reached.
    pub egress: Egress,
}

impl Settings {
    /// Reads the files that the settings name, and checks all of them together. Nothing is
    /// written or started. `own` are the issuers of service accounts' tokens.
    ///
    /// # Errors
    /// As [`ClusterAccess::configured`](crate::ClusterAccess::configured).
    pub fn check(mut self, own: &[String]) -> Result<(), SettingsError> {
        if let Some(of) = self.webhook_tokens.take() {
            WebhookTokens::new(of, &self.egress)?;
        }
        Live::new(self, own).map(drop)
    }
}

impl Default for Settings {
    /// What kube-apiserver does without flags, but for the authorizers, which are
    /// those that kubeadm configures.
    fn default() -> Self {
        Self {
            front_proxy: None,
            token_file: None,
            bootstrap_tokens: true,
            issuers: Vec::new(),
            authentication_file: None,
            webhook_tokens: None,
            anonymous: Anonymous::Everywhere,
            authorizers: vec![
                authorization::Authorizer::Node,
                authorization::Authorizer::Rbac,
            ],
            authorization_file: None,
            abac: None,
            egress: Egress::default(),
        }
    }
}

/// Reads an `AuthenticationConfiguration`. Its issuers may sign by all algorithms:
/// `--oidc-signing-algs` is about the issuer of the other flags.
fn authentication(
    path: &Path,
    own: &[String],
) -> Result<(Vec<u8>, authentication::Authentication), SettingsError> {
    let text = read(path)?;
    let mut read =
        authentication::parse(&text, own).map_err(|source| SettingsError::Configuration {
            path: path.to_owned(),
            source,
        })?;
    for issuer in &mut read.issuers {
        issuer.algorithms = ALGORITHMS.map(str::to_owned).into();
    }
    Ok((text, read))
}

/// Reads an `AuthorizationConfiguration`.
fn authorization(path: &Path) -> Result<(Vec<u8>, Vec<authorization::Authorizer>), SettingsError> {
    let text = read(path)?;
    let read = authorization::parse(&text).map_err(|source| SettingsError::Configuration {
        path: path.to_owned(),
        source,
    })?;
    Ok((text, read))
}

fn read(path: &Path) -> Result<Vec<u8>, SettingsError> {
    std::fs::read(path).map_err(|source| SettingsError::File {
        path: path.to_owned(),
        source,
    })
}

/// What may be another while the server runs.
#[derive(Debug)]
pub(super) struct Live {
    pub issuers: Issuers,
    pub anonymous: ArcSwap<Anonymous>,
    pub authorizers: ArcSwap<Authorizers>,
    pub rbac: Arc<Rbac>,
    pub nodes: Arc<NodeGraph>,
    abac: Option<Abac>,
    egress: Egress,
    /// The issuers of service accounts' tokens: no other may claim to be one.
    own: Vec<String>,
    /// What holds when the file says nothing of it.
    usual_anonymous: Anonymous,
    /// The files and what was read of them.
    authentication_file: Option<(PathBuf, Vec<u8>)>,
    authorization_file: Option<(PathBuf, Vec<u8>)>,
}

impl Live {
    /// Reads the files that the settings name.
    pub fn new(settings: Settings, own: &[String]) -> Result<Self, SettingsError> {
        let mut live = Self {
            issuers: Issuers::default(),
            anonymous: ArcSwap::from_pointee(settings.anonymous.clone()),
            authorizers: ArcSwap::from_pointee(Authorizers::default()),
            rbac: Arc::default(),
            nodes: Arc::default(),
            abac: settings.abac,
            egress: settings.egress,
            own: own.to_vec(),
            usual_anonymous: settings.anonymous,
            authentication_file: None,
            authorization_file: None,
        };
        let mut issuers = settings.issuers;
        if let Some(path) = settings.authentication_file {
            let (text, read) = authentication(&path, own)?;
            issuers.extend(read.issuers);
            if let Some(anonymous) = read.anonymous {
                live.anonymous.store(Arc::new(anonymous));
            }
            live.authentication_file = Some((path, text));
        }
        live.issuers = Issuers::new(issuers, &live.egress)?;
        let mut authorizers = settings.authorizers;
        if let Some(path) = settings.authorization_file {
            let (text, read) = authorization(&path)?;
            authorizers = read;
            live.authorization_file = Some((path, text));
        }
        live.authorize_by(authorizers)?;
        Ok(live)
    }

    /// Begins to fetch keys and to look after the files.
    pub fn start(self: &Arc<Self>, shutdown: &CancellationToken) {
        self.issuers.start();
        if let Some((path, text)) = self.authentication_file.clone() {
            let take: Take = |live, path| {
                let (_, read) = authentication(path, &live.own)?;
                live.issuers.replace(read.issuers, &live.egress)?;
                let anonymous = read
                    .anonymous
                    .unwrap_or_else(|| live.usual_anonymous.clone());
                live.anonymous.store(Arc::new(anonymous));
                Ok(())
            };
            self.follow(path, text, take, shutdown);
        }
        if let Some((path, text)) = self.authorization_file.clone() {
            let take: Take = |live, path| live.authorize_by(authorization(path)?.1);
            self.follow(path, text, take, shutdown);
        }
    }

    fn follow(
        self: &Arc<Self>,
        path: PathBuf,
        text: Vec<u8>,
        take: Take,
        shutdown: &CancellationToken,
    ) {
        let (live, shutdown) = (Arc::clone(self), shutdown.clone());
        control_supervise::task("access-file")
            .detail(path.display().to_string())
            .until(&shutdown.clone())
            .spawn_restarting(move || {
                let (path, text) = (path.clone(), text.clone());
                follow(Arc::clone(&live), path, text, take, shutdown.clone())
            });
    }

    fn authorize_by(&self, chosen: Vec<authorization::Authorizer>) -> Result<(), SettingsError> {
        let made = chosen.into_iter().map(|one| {
            Ok(match one {
                authorization::Authorizer::Node => Authorizer::Node(Arc::clone(&self.nodes)),
                authorization::Authorizer::Rbac => Authorizer::Rbac(Arc::clone(&self.rbac)),
                authorization::Authorizer::Abac => {
                    let policies = self.abac.clone().ok_or(SettingsError::NoPolicies)?;
                    Authorizer::Abac(policies)
                }
                authorization::Authorizer::AlwaysAllow => {
                    tracing::warn!("authorization mode AlwaysAllow: everybody may everything");
                    Authorizer::AlwaysAllow
                }
                authorization::Authorizer::AlwaysDeny => Authorizer::AlwaysDeny,
                authorization::Authorizer::Webhook(webhook) => {
                    Authorizer::Webhook(Arc::new(WebhookAuthorizer::new(*webhook, &self.egress)?))
                }
            })
        });
        let made = made.collect::<Result<Vec<_>, SettingsError>>()?;
        self.authorizers.store(Arc::new(Authorizers::new(made)));
        Ok(())
    }
}

/// Has a file read anew.
type Take = fn(&Live, &Path) -> Result<(), SettingsError>;

/// Looks whether a file has changed, until shutdown. A file that cannot be used
/// leaves all as it was.
async fn follow(
    live: Arc<Live>,
    path: PathBuf,
    mut known: Vec<u8>,
    take: Take,
    shutdown: CancellationToken,
) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        // When it is not there it is about to be replaced.
        let Ok(now) = tokio::fs::read(&path).await else {
            continue;
        };
        if now == known {
            continue;
        }
        known = now;
        match take(&live, &path) {
            Ok(()) => tracing::info!(path = %path.display(), "configuration read anew"),
            Err(error) => {
                let error = error_chain(&error);
                tracing::error!(error, "a changed configuration is not used");
            }
        }
    }
}
