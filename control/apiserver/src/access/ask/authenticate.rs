//! Another server that knows tokens (`TokenReview` by webhook).

use std::time::Duration;

use control_access::{Bearer, User};
use control_types::value;
use control_types::value::Value;
use sha2::{Digest, Sha256};

use super::super::settings::WebhookSettings;
use control_proxy::egress::kubeconfig::Error;
use control_proxy::egress::{Egress, Kind};
use control_proxy::{AnswerCache, Reviewer};

/// How many answers are remembered.
const MOST: usize = 8192;
/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The server and what it said of which token; tokens are not kept.
#[derive(Debug)]
pub(in super::super) struct WebhookTokens {
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
    ) -> Result<Option<Bearer>, String> {
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
                return Err(error.to_owned());
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
        let bearer = Bearer {
            user: user(&status),
            audiences: common,
            ..Bearer::default()
        };
        self.answers.put(key, Some(bearer.clone()), self.lasts);
        Ok(Some(bearer))
    }
}

fn texts(of: &Value, path: &[&str]) -> Vec<String> {
    let items = of.items_at(path).iter();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn user(status: &Value) -> User {
    let text = |field: &str| {
        status
            .str_at(&["user", field])
            .unwrap_or_default()
            .to_owned()
    };
    let extra = status.path(&["user", "extra"]).and_then(Value::as_object);
    let extra = extra.into_iter().flat_map(control_types::Map::iter);
    let mut user = User {
        name: text("username"),
        uid: text("uid"),
        groups: texts(status, &["user", "groups"]),
        extra: extra
            .map(|(key, values)| {
                let values = values.as_array().into_iter().flatten();
                let values = values.filter_map(Value::as_str).map(str::to_owned);
                (key.to_string(), values.collect())
            })
            .collect(),
    };
    user.join(control_access::AUTHENTICATED);
    user
}
