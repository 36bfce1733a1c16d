//! Other issuers' keys: found by OpenID Connect Discovery 1.0, fetched when the
//! server starts and whenever a token is signed with a key that is not known.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use control_access::Bearer;
use control_access::oidc::{Issuer, Keys, OidcError};
use http::Request;
use http::header::ACCEPT;
use http_body_util::{BodyExt, Limited};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::remote::https;
use crate::body;
use crate::service_client::{Trust, explain, service_client, tls};

/// How long an issuer may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often an issuer is asked at first, until it answers.
const RETRY: Duration = Duration::from_secs(10);
/// How often at most the keys are fetched anew: whoever shows tokens with keys
/// that do not exist must not make this server flood the issuer.
const SELDOM: Duration = Duration::from_secs(2);
/// How large a document may be.
const MOST: usize = 1024 * 1024;
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The issuers that are believed now.
#[derive(Debug, Default)]
pub(super) struct Issuers(ArcSwap<Vec<Arc<Known>>>);

#[derive(Debug)]
struct Known {
    issuer: Issuer,
    keys: ArcSwapOption<Keys>,
    /// When keys were last fetched; held while they are.
    fetched: Mutex<Option<Instant>>,
    /// Ends the attempts at first.
    gone: CancellationToken,
}

impl Issuers {
    pub fn new(issuers: Vec<Issuer>) -> Self {
        let all = issuers.into_iter().map(Known::new).collect();
        Self(ArcSwap::from_pointee(all))
    }

    pub fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// Begins to fetch the keys. Needs a runtime.
    pub fn start(&self) {
        for known in self.0.load().iter() {
            let known = Arc::clone(known);
            tokio::spawn(async move {
                let gone = known.gone.clone();
                tokio::select! {
                    () = gone.cancelled() => {}
                    () = known.begin() => {}
                }
            });
        }
    }

    /// Believes others from now on.
    pub fn replace(&self, issuers: Vec<Issuer>) {
        let all = issuers.into_iter().map(Known::new).collect();
        let old = self.0.swap(Arc::new(all));
        for known in old.iter() {
            known.gone.cancel();
        }
        self.start();
    }

    /// Whose token this is; `None` when it is of no issuer here.
    pub async fn user(&self, token: &str) -> Option<Result<Bearer, String>> {
        let all = self.0.load_full();
        let known = all.iter().find(|known| known.issuer.claims(token))?;
        Some(known.user(token).await)
    }
}

// === impl Known ===

impl Known {
    fn new(issuer: Issuer) -> Arc<Self> {
        Arc::new(Self {
            issuer,
            keys: ArcSwapOption::empty(),
            fetched: Mutex::default(),
            gone: CancellationToken::new(),
        })
    }

    async fn begin(&self) {
        while self.keys.load().is_none() {
            self.fetch(None).await;
            if self.keys.load().is_none() {
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    async fn user(&self, token: &str) -> Result<Bearer, String> {
        let Some(keys) = self.keys.load_full() else {
            return Err("oidc: authenticator not initialized".to_owned());
        };
        let now = jiff::Timestamp::now().as_second();
        let mut found = self.issuer.user(token, &keys, now);
        if let Err(OidcError::Signature(_)) = found {
            // Perhaps the issuer has a new key.
            self.fetch(Some(&keys)).await;
            if let Some(new) = self.keys.load_full().filter(|new| !Arc::ptr_eq(new, &keys)) {
                found = self.issuer.user(token, &new, now);
            }
        }
        match found {
            Ok(user) => Ok(Bearer {
                user,
                ..Bearer::default()
            }),
            Err(error) => Err(error.to_string()),
        }
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
                tracing::warn!(issuer = %self.issuer.url, %error, "an issuer's keys cannot be fetched");
            }
            Err(_) => tracing::warn!(issuer = %self.issuer.url, "an issuer does not answer"),
        }
        *fetched = Some(Instant::now());
    }

    async fn get_keys(&self) -> Result<Keys, String> {
        let url = match &self.issuer.discovery_url {
            Some(url) => url.clone(),
            None => format!("{}{WELL_KNOWN}", self.issuer.url.trim_end_matches('/')),
        };
        let document = self.get(&url).await?;
        let document: serde_json::Value = serde_json::from_slice(&document)
            .map_err(|error| format!("{url}: it is no discovery document: {error}"))?;
        let text = |field: &str| document.get(field).and_then(serde_json::Value::as_str);
        if text("issuer") != Some(&self.issuer.url) {
            let found = text("issuer").unwrap_or_default();
            let wanted = &self.issuer.url;
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {wanted:?} got {found:?}"
            ));
        }
        let keys = text("jwks_uri").ok_or_else(|| format!("{url}: it names no jwks_uri"))?;
        Keys::parse(&self.get(keys).await?).map_err(|error| error.to_string())
    }

    async fn get(&self, url: &str) -> Result<bytes::Bytes, String> {
        let (uri, host) = https(url)?;
        let trust = match &self.issuer.authority {
            Some(pem) => Trust::Bundle(pem),
            None => Trust::System,
        };
        let tls = tls(trust, None).map_err(|error| error.to_string())?;
        let client = service_client(tls, &host).map_err(|error| error.to_string())?;
        let request = Request::builder()
            .uri(uri)
            .header(ACCEPT, "application/json")
            .body(body::empty())
            .map_err(|error| error.to_string())?;
        let answer = client.request(request).await;
        let answer = answer.map_err(|error| format!("{url}: {}", explain(&error)))?;
        if !answer.status().is_success() {
            return Err(format!("{url}: the server answered {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), MOST).collect().await;
        body.map(http_body_util::Collected::to_bytes)
            .map_err(|error| format!("{url}: {error}"))
    }
}
