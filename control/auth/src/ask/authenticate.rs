//! Another server that knows tokens (`TokenReview` by webhook).

use std::path::PathBuf;
use std::time::Duration;

use control_access::{Bearer, User};
use control_types::value;
use control_types::value::Value;
use sha2::{Digest, Sha256};

use crate::error::TokenRefusal;
use crate::review_user::{self, texts};
use control_proxy::egress::kubeconfig::Error;
use control_proxy::egress::{Egress, Kind};
use control_proxy::{AnswerCache, Reviewer};

/// How many answers are remembered.
const MOST: usize = 8192;
/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server that knows tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// The kubeconfig that names it.
    pub kubeconfig: PathBuf,
    /// `v1` or `v1beta1` of `TokenReview`.
    pub version: String,
    /// How long its answers hold.
    pub lasts: Duration,
}

/// The server and what it said of which token; tokens are not kept.
#[derive(Debug)]
pub(crate) struct WebhookTokens {
    server: Reviewer,
    version: String,
    lasts: Duration,
    answers: AnswerCache<[u8; 32], Option<Bearer>>,
}

impl WebhookTokens {
    /// Reads the kubeconfig that names the server.
    ///
    /// # Errors
    /// When it names no server.
    pub fn new(settings: WebhookSettings, egress: &Egress) -> Result<Self, Error> {
        let WebhookSettings {
            kubeconfig,
            version,
            lasts,
        } = settings;
        Ok(Self {
            server: Reviewer::open(&kubeconfig, TIMEOUT, egress.to(Kind::ControlPlane))?,
            version,
            lasts,
            answers: AnswerCache::new(MOST),
        })
    }

    /// Whose token this is, for one of `audiences`; nobody's that the server knows:
    /// `None`. A server that knows no audiences vouches for those in `here` only.
    pub async fn user(
        &self,
        token: &str,
        audiences: &[String],
        here: &[String],
    ) -> Result<Option<Bearer>, TokenRefusal> {
        let mut digest = Sha256::new();
        for part in std::iter::once(token).chain(audiences.iter().map(String::as_str)) {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        let key: [u8; 32] = digest.finalize().into();
        if let Some(known) = self.answers.get(&key) {
            return Ok(known);
        }
        let asked: Vec<Value> = audiences.iter().map(|one| one.as_str().into()).collect();
        let review = value!({
            "kind": "TokenReview",
            "apiVersion": (format!("authentication.k8s.io/{}", self.version)),
            "metadata": {},
            "spec": {"token": token, "audiences": (Value::Array(asked))},
            "status": {"user": {}}
        });
        let answer = self.server.review(&review).await?;
        let status = answer.get("status").cloned().unwrap_or_default();
        if status.bool_at(&["authenticated"]) != Some(true) {
            let error = status.str_at(&["error"]).unwrap_or_default();
            if !error.is_empty() {
                return Err(TokenRefusal::Review(error.to_owned()));
            }
            self.answers.put(key, None, self.lasts);
            return Ok(None);
        }
        let offered = texts(&status, &["audiences"]);
        let common: Vec<String> = if offered.is_empty() {
            here.to_vec()
        } else {
            offered
                .into_iter()
                .filter(|one| audiences.contains(one))
                .collect()
        };
        if common.is_empty() {
            self.answers.put(key, None, self.lasts);
            return Ok(None);
        }
        let user = status.get("user");
        let mut user = user.map_or_else(User::default, |user| review_user::read(user, "username"));
        user.join(control_access::AUTHENTICATED);
        let bearer = Bearer {
            user,
            audiences: common,
            ..Bearer::default()
        };
        self.answers.put(key, Some(bearer.clone()), self.lasts);
        Ok(Some(bearer))
    }
}
