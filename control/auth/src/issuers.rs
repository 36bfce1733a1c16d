//! Other issuers' keys: found by OpenID Connect Discovery 1.0, fetched when the
//! server starts and whenever a token is signed with a key that is not known; and
//! the claims that their tokens only point at.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use control_access::Bearer;
use control_access::oidc::{IdTokenClaims, Issuer, Keys, KeysError, OidcError, Source};
use http::header::{ACCEPT, AUTHORIZATION, InvalidHeaderValue};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::error::{SettingsError, TokenRefusal};
use control_proxy::egress::client::{self, HttpClient, RequestError, UrlError, explain};
use control_proxy::egress::trust::{Trust, tls};
use control_proxy::egress::{Dialer, Egress};
use control_request::body::{self, BoxError};

/// How long an issuer may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often an issuer is asked at first, until it answers.
const RETRY: Duration = Duration::from_secs(10);
/// How often at most the keys are fetched anew: whoever shows tokens with keys
/// that do not exist must not make this server flood the issuer.
const SELDOM: Duration = Duration::from_secs(2);
/// How large a document may be.
const MOST: usize = 1024 * 1024;
/// How many issuers of distributed claims are known for one issuer at most.
const OTHERS: usize = 16;
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The issuers that are believed now.
#[derive(Debug, Default)]
pub(super) struct Issuers(ArcSwap<Vec<Arc<KnownIssuer>>>);

#[derive(Debug)]
struct KnownIssuer {
    issuer: Issuer,
    provider: Provider,
    /// Those whose tokens hold claims that tokens of this issuer point at.
    others: Mutex<Vec<Arc<Provider>>>,
    /// Ends the attempts at first.
    gone: CancellationToken,
}

/// Where an issuer's keys come from, and those that it had last.
#[derive(Debug)]
struct Provider {
    url: String,
    discovery_url: Option<String>,
    authority: Option<String>,
    dialer: Dialer,
    keys: ArcSwapOption<Keys>,
    /// When keys were last fetched; held while they are.
    fetched: Mutex<Option<Instant>>,
}

/// Error for a document of an issuer that cannot be fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Authorities(#[from] control_pki::Error),
    #[error(transparent)]
    ServerName(#[from] std::io::Error),
    #[error("the token fits in no header")]
    Token(#[source] InvalidHeaderValue),
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error("{url}: {}", explain(error))]
    NoAnswer { url: String, error: RequestError },
    #[error("{url}: the server answered {status}")]
    Refused { url: String, status: StatusCode },
    #[error("{url}")]
    Body { url: String, source: BoxError },
    #[error("it does not answer")]
    Timeout,
}

/// Error for an issuer whose keys cannot be found.
#[derive(Debug, thiserror::Error)]
enum DiscoveryError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{url}: it is no discovery document")]
    Document {
        url: String,
        source: serde_json::Error,
    },
    #[error(
        "oidc: issuer did not match the issuer returned by provider, expected {wanted:?} got {found:?}"
    )]
    OtherIssuer { wanted: String, found: String },
    #[error("{url}: it names no jwks_uri")]
    NoKeys { url: String },
    #[error(transparent)]
    Keys(#[from] KeysError),
}

impl Issuers {
    /// Those that a configuration names.
    ///
    /// # Errors
    /// When one is to be reached by a way that is not configured.
    pub fn new(issuers: Vec<Issuer>, egress: &Egress) -> Result<Self, SettingsError> {
        known(issuers, egress).map(|all| Self(ArcSwap::from_pointee(all)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// Begins to fetch the keys. Needs a runtime.
    pub fn start(&self) {
        for known in self.0.load().iter() {
            let known = Arc::clone(known);
            control_supervise::task("issuer-keys")
                .detail(&*known.provider.url)
                .spawn_restarting(move || {
                    let known = Arc::clone(&known);
                    async move {
                        let gone = known.gone.clone();
                        tokio::select! {
                            () = gone.cancelled() => {}
                            () = known.provider.begin() => {}
                        }
                    }
                });
        }
    }

    /// Believes others from now on.
    ///
    /// # Errors
    /// As [`Issuers::new`]; all stay as they were then.
    pub fn replace(&self, issuers: Vec<Issuer>, egress: &Egress) -> Result<(), SettingsError> {
        let all = known(issuers, egress)?;
        let old = self.0.swap(Arc::new(all));
        for known in old.iter() {
            known.gone.cancel();
        }
        self.start();
        Ok(())
    }

    /// Whose token this is; `None` when it is of no issuer here.
    pub async fn user(&self, token: &str) -> Option<Result<Bearer, TokenRefusal>> {
        let all = self.0.load_full();
        let known = all.iter().find(|known| known.issuer.claims(token))?;
        Some(known.user(token).await)
    }
}

fn known(issuers: Vec<Issuer>, egress: &Egress) -> Result<Vec<Arc<KnownIssuer>>, SettingsError> {
    let all = issuers.into_iter().map(|issuer| {
        let dialer = match issuer.egress {
            None => Dialer::default(),
            // Whoever says so wants no other way, also not the direct one.
            Some(kind) => egress.selected(kind).ok_or_else(|| SettingsError::NoWay {
                issuer: issuer.url.clone(),
                kind,
            })?,
        };
        Ok(KnownIssuer::new(issuer, dialer))
    });
    all.collect()
}

// === impl KnownIssuer ===

impl KnownIssuer {
    fn new(issuer: Issuer, dialer: Dialer) -> Arc<Self> {
        Arc::new(Self {
            provider: Provider {
                url: issuer.url.clone(),
                discovery_url: issuer.discovery_url.clone(),
                authority: issuer.authority.clone(),
                dialer,
                keys: ArcSwapOption::empty(),
                fetched: Mutex::default(),
            },
            issuer,
            others: Mutex::default(),
            gone: CancellationToken::new(),
        })
    }

    async fn user(&self, token: &str) -> Result<Bearer, TokenRefusal> {
        let now = jiff::Timestamp::now().as_second();
        let verified = self
            .provider
            .with_keys(|keys| self.issuer.verified(token, keys, now));
        let verified = verified.await.ok_or(TokenRefusal::NoKeys)?;
        let mut claims = verified.map_err(TokenRefusal::Oidc)?;
        let source = self.issuer.source(&claims).map_err(TokenRefusal::Oidc)?;
        if let Some(source) = source {
            let expanded = self.expand(&mut claims, &source, now).await;
            expanded.map_err(TokenRefusal::Oidc)?;
        }
        let user = self.issuer.user_of(&claims).map_err(TokenRefusal::Oidc)?;
        Ok(Bearer {
            user,
            ..Bearer::default()
        })
    }

    /// Fetches the claim that is elsewhere.
    async fn expand(
        &self,
        claims: &mut IdTokenClaims,
        source: &Source,
        now: i64,
    ) -> Result<(), OidcError> {
        let asked = self
            .provider
            .fetch_from(&source.endpoint, &source.access_token);
        let answer = match tokio::time::timeout(TIMEOUT, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(FetchError::Timeout),
        };
        let answer = answer.map_err(|error| {
            let (claim, why) = (&source.claim, explain(&error));
            OidcError::Distributed(format!("while getting distributed claim {claim:?}: {why}"))
        })?;
        let token = String::from_utf8_lossy(&answer);
        let token = token.trim();
        let issuer = Issuer::issuer_of(source, token)?;
        let provider = self.other(&issuer).await;
        let expanded = provider.with_keys(|keys| {
            let mut more = claims.clone();
            self.issuer
                .expand(&mut more, source, (token, &issuer), keys, now)?;
            Ok(more)
        });
        let expanded = expanded.await.unwrap_or_else(|| {
            Err(OidcError::Distributed(format!(
                "verifying untrusted issuer {issuer} failed: verifier not initialized for issuer: {issuer:?}"
            )))
        });
        *claims = expanded.map_err(OidcError::of_source)?;
        Ok(())
    }

    /// The keys of another issuer; of many, the one that was made known first goes.
    async fn other(&self, url: &str) -> Arc<Provider> {
        let mut others = self.others.lock().await;
        if let Some(known) = others.iter().find(|known| known.url == url) {
            return Arc::clone(known);
        }
        if others.len() >= OTHERS {
            others.remove(0);
        }
        let made = Arc::new(Provider {
            url: url.to_owned(),
            discovery_url: None,
            authority: self.issuer.authority.clone(),
            dialer: self.provider.dialer.clone(),
            keys: ArcSwapOption::empty(),
            fetched: Mutex::default(),
        });
        others.push(Arc::clone(&made));
        drop(others);
        made.fetch(None).await;
        made
    }
}

// === impl Provider ===

impl Provider {
    async fn begin(&self) {
        while self.keys.load().is_none() {
            self.fetch(None).await;
            if self.keys.load().is_none() {
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// What is verified with the keys, new ones if those at hand do not fit; none
    /// when there are no keys.
    async fn with_keys<T>(
        &self,
        mut verify: impl FnMut(&Keys) -> Result<T, OidcError>,
    ) -> Option<Result<T, OidcError>> {
        let keys = self.keys.load_full()?;
        let found = verify(&keys);
        if let Err(OidcError::Signature(_)) = found {
            // Perhaps the issuer has a new key.
            self.fetch(Some(&keys)).await;
            if let Some(new) = self.keys.load_full().filter(|new| !Arc::ptr_eq(new, &keys)) {
                return Some(verify(&new));
            }
        }
        Some(found)
    }

    /// Fetches the keys, unless somebody just did or they are not `old` any more.
    async fn fetch(&self, old: Option<&Arc<Keys>>) {
        let mut fetched = self.fetched.lock().await;
        let newer = self.keys.load_full();
        let changed = match (old, &newer) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new),
            _ => false,
        };
        if changed || fetched.is_some_and(|at| at.elapsed() < SELDOM) {
            return;
        }
        match tokio::time::timeout(TIMEOUT, self.get_keys()).await {
            Ok(Ok(keys)) => self.keys.store(Some(Arc::new(keys))),
            Ok(Err(error)) => {
                let error = explain(&error);
                tracing::warn!(issuer = %self.url, error, "an issuer's keys cannot be fetched");
            }
            Err(_) => tracing::warn!(issuer = %self.url, "an issuer does not answer"),
        }
        *fetched = Some(Instant::now());
    }

    async fn get_keys(&self) -> Result<Keys, DiscoveryError> {
        let url = match &self.discovery_url {
            Some(url) => url.clone(),
            None => format!("{}{WELL_KNOWN}", self.url.trim_end_matches('/')),
        };
        let document = self.fetch_from(&url, "").await?;
        let document: serde_json::Value = match serde_json::from_slice(&document) {
            Ok(document) => document,
            Err(source) => return Err(DiscoveryError::Document { url, source }),
        };
        let text = |field: &str| document.get(field).and_then(serde_json::Value::as_str);
        if text("issuer") != Some(&self.url) {
            return Err(DiscoveryError::OtherIssuer {
                wanted: self.url.clone(),
                found: text("issuer").unwrap_or_default().to_owned(),
            });
        }
        let keys = text("jwks_uri").ok_or(DiscoveryError::NoKeys { url })?;
        Ok(Keys::parse(&self.fetch_from(keys, "").await?)?)
    }

    /// Fetches a document from an issuer's server; `token` is shown unless empty.
    async fn fetch_from(&self, url: &str, token: &str) -> Result<bytes::Bytes, FetchError> {
        let named = || url.to_owned();
        let (uri, host) = client::parse(url, &["https"])?;
        let trust = Trust::from_config(self.authority.as_deref(), false);
        let tls = tls(trust, None)?;
        let client = HttpClient::over_tls(self.dialer.clone(), tls, &host)?;
        let mut request = Request::builder()
            .uri(uri)
            .header(ACCEPT, "application/json");
        if !token.is_empty() {
            let token = HeaderValue::from_str(&format!("Bearer {token}"));
            request = request.header(AUTHORIZATION, token.map_err(FetchError::Token)?);
        }
        let request = request.body(body::empty())?;
        let answer = client.request(request).await;
        let answer = answer.map_err(|error| FetchError::NoAnswer {
            url: named(),
            error,
        })?;
        if !answer.status().is_success() {
            return Err(FetchError::Refused {
                url: named(),
                status: answer.status(),
            });
        }
        let body = Limited::new(answer.into_body(), MOST).collect().await;
        body.map(http_body_util::Collected::to_bytes)
            .map_err(|source| FetchError::Body {
                url: named(),
                source,
            })
    }
}
