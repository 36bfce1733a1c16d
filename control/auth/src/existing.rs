//! What service accounts' tokens are bound to, from the caches.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_access::{BoundObjectState, FoundSecret, LAST_USED, ServiceAccountTokenGetter};
use control_types::meta;
use control_types::value::Value;
use serde::Deserialize;

use control_registry::Storage;

const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The caches of a server.
pub(super) struct CachedObjects<'a>(pub &'a Storage);

/// The little that is read of an object with every request that brings a token:
/// its tree is not built for it.
#[derive(Deserialize)]
struct Lean {
    metadata: LeanMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanMeta {
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
}

impl CachedObjects<'_> {
    fn object(&self, plural: &str, key: &str) -> Option<Value> {
        self.0.cached("", plural, key)?.value().ok()
    }

    fn found(&self, plural: &str, key: &str) -> Option<BoundObjectState> {
        let object = self.0.cached("", plural, key)?;
        let lean: Lean = serde_json::from_slice(object.json()).ok()?;
        let at = lean.metadata.deletion_timestamp;
        let deleting = at.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        Some(BoundObjectState {
            uid: lean.metadata.uid,
            deleting: deleting.map(jiff::Timestamp::as_second),
        })
    }
}

impl ServiceAccountTokenGetter for CachedObjects<'_> {
    fn service_account(&self, namespace: &str, name: &str) -> Option<BoundObjectState> {
        self.found("serviceaccounts", &format!("{namespace}/{name}"))
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<BoundObjectState> {
        self.found("pods", &format!("{namespace}/{name}"))
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<FoundSecret> {
        let key = format!("{namespace}/{name}");
        let found = self.found("secrets", &key)?;
        let secret = self.object("secrets", &key)?;
        let token = secret.str_at(&["data", "token"]).unwrap_or_default();
        let label = |key| meta::label(&secret, key).unwrap_or_default().to_owned();
        Some(FoundSecret {
            found,
            token: STANDARD.decode(token).unwrap_or_default(),
            invalid_since: label(INVALID_SINCE),
            last_used: label(LAST_USED),
        })
    }

    fn node(&self, name: &str) -> Option<BoundObjectState> {
        self.found("nodes", name)
    }

    fn lists_secret(&self, namespace: &str, account: &str, secret: &str) -> bool {
        let account = self.object("serviceaccounts", &format!("{namespace}/{account}"));
        account.is_some_and(|account| {
            let mut listed = account.items_at(&["secrets"]).iter();
            listed.any(|one| one.str_at(&["name"]) == Some(secret))
        })
    }
}
