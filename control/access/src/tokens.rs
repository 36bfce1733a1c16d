//! Service account tokens: claims, and their validity.
//!
//! A token names a service account and may be bound to a pod, a secret or a node; it is
//! valid while that object exists (KEP-1205, KEP-4193). Legacy tokens are stored in
//! Secrets and are valid while these exist (KEP-2799). The claims and error messages are
//! those of kube-apiserver.

mod claims;
mod legacy;
mod verified;

use std::sync::Arc;

use arc_swap::ArcSwap;
use control_pki::{ServiceAccountKey, ServiceAccountKeys};
use control_types::status::quote;
use serde::{Deserialize, Serialize};

use self::claims::{Audiences, BoundObject, Claims, Private, audiences_in_go};
use self::verified::VerifiedTokens;
use crate::user::User;

pub(crate) use self::claims::issuer as unverified_issuer;
pub use self::legacy::{LAST_USED, LegacyUse};

/// The key of a credential's name in [`User::extra`].
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// The usual issuer, and the audience of the API server.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Tolerated clock skew in seconds; also the time after the start of its deletion for
/// which an object still validates a token.
const LEEWAY: i64 = 60;

/// Issues tokens and recognises them.
#[derive(Clone, Debug)]
pub struct Tokens {
    keys: Arc<ArcSwap<ServiceAccountKeys>>,
    /// The first signs; all are believed.
    issuers: Vec<String>,
    audiences: Vec<String>,
    longest: Option<i64>,
    extends: bool,
    verified: Arc<VerifiedTokens>,
}

/// The contents of a new token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSpec {
    /// The service account's namespace.
    pub namespace: String,
    /// The service account.
    pub account: Reference,
    /// The pod that it lives with.
    pub pod: Option<Reference>,
    /// The secret that it lives with.
    pub secret: Option<Reference>,
    /// The node that it lives with, or that the pod runs on.
    pub node: Option<Reference>,
    /// For whom; empty: for the API server.
    pub audiences: Vec<String>,
    /// Unix seconds.
    pub issued_at: i64,
    /// Unix seconds.
    pub expires_at: i64,
    /// The time from which its use is recorded (Unix seconds): the token is valid for
    /// longer than its client assumes, so that clients that never reload it keep working.
    pub warn_after: Option<i64>,
    /// A random identifier of the token.
    pub id: String,
}

/// A name and the uid of the object that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The subject of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bearer {
    /// The user.
    pub user: User,
    /// Those of the asked audiences that the token is for.
    pub audiences: Vec<String>,
    /// How long past its proper time the token is, in seconds, if it is.
    pub stale: Option<i64>,
    /// The Secret that the token lies in, if it is one of the older kind.
    pub legacy: Option<LegacyUse>,
}

/// An object that a token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundObjectState {
    /// Its uid.
    pub uid: String,
    /// When its deletion began or will end, Unix seconds.
    pub deleting: Option<i64>,
}

/// The contents of a legacy token's Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundSecret {
    /// Uid and deletion.
    pub found: BoundObjectState,
    /// The token that lies in it.
    pub token: Vec<u8>,
    /// Since when it counts as invalid, if it does.
    pub invalid_since: String,
    /// The day of its last noted use.
    pub last_used: String,
}

/// Looks up the current objects that tokens are bound to.
pub trait ServiceAccountTokenGetter {
    /// A service account.
    fn service_account(&self, namespace: &str, name: &str) -> Option<BoundObjectState>;
    /// A pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<BoundObjectState>;
    /// A secret.
    fn secret(&self, namespace: &str, name: &str) -> Option<FoundSecret>;
    /// A node.
    fn node(&self, name: &str) -> Option<BoundObjectState>;
    /// Whether a service account lists the secret among its own: who does is one
    /// of those for which tokens were once made unasked.
    fn lists_secret(&self, namespace: &str, account: &str, secret: &str) -> bool;
}

/// Reason why a token is rejected, in kube-apiserver's words.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It was not signed by this cluster, or not for service accounts.
    #[error("invalid bearer token")]
    Foreign,
    /// The signature is wrong.
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Forged,
    /// Its time is over.
    #[error("service account token has expired")]
    Expired,
    /// Its time has not come.
    #[error("service account token is not valid yet")]
    TooEarly,
    /// It says that it will be issued.
    #[error("service account token is issued in the future")]
    Future,
    /// It has other audiences.
    #[error("token audiences {offered} is invalid for the target audiences {wanted}")]
    Audience {
        /// Those of the token.
        offered: String,
        /// Those that would do.
        wanted: String,
    },
    /// A claim is missing or contradicts another.
    #[error("{0}")]
    Claim(&'static str),
    /// The service account does not exist.
    #[error("serviceaccounts {} not found", quote(.0))]
    NoAccount(String),
    /// An object of that name was recreated.
    #[error("{0}")]
    Anew(String),
    /// The service account is being deleted.
    #[error("service account {0} has been deleted")]
    AccountDeleted(String),
    /// The object that it is bound to was deleted.
    #[error("service account token has been invalidated")]
    Gone,
    /// The Secret of a legacy token was deleted.
    #[error("Token has been invalidated")]
    NotInSecret,
    /// A token of the older kind that an administrator or a controller took away.
    #[error("{0}")]
    Legacy(String),
}

// === impl TokenError ===

impl TokenError {
    /// Returns whether the signature is valid and an object rejects the token: its account, or
    /// one that it is bound to, does not exist any more or is another one of that name.
    #[must_use]
    pub fn is_about_objects(&self) -> bool {
        matches!(
            self,
            Self::NoAccount(_) | Self::Anew(_) | Self::Gone | Self::NotInSecret | Self::Legacy(_)
        )
    }
}

// === impl Tokens ===

impl Tokens {
    /// Returns tokens signed with `key`, with [`ISSUER`] as their issuer and audience.
    #[must_use]
    pub fn new(key: Arc<ServiceAccountKey>) -> Self {
        Self::with(key.into())
    }

    /// Returns tokens signed with one of `keys`, with [`ISSUER`] as their issuer and
    /// audience.
    #[must_use]
    pub fn with(keys: ServiceAccountKeys) -> Self {
        Self {
            keys: Arc::new(ArcSwap::from_pointee(keys)),
            issuers: vec![ISSUER.to_owned()],
            audiences: vec![ISSUER.to_owned()],
            longest: None,
            extends: true,
            verified: Arc::default(),
        }
    }

    /// Limits the lifetime to `longest` seconds; with `extends`, tokens of pods that may
    /// not reload them live a year.
    #[must_use]
    pub fn living(mut self, longest: Option<i64>, extends: bool) -> Self {
        (self.longest, self.extends) = (longest, extends);
        self
    }

    /// How many seconds a token may live at most, if that is limited.
    #[must_use]
    pub fn longest(&self) -> Option<i64> {
        self.longest
    }

    /// Returns whether tokens of pods that may not reload them live a year.
    #[must_use]
    pub fn extends(&self) -> bool {
        self.extends
    }

    /// Signs as the first of `issuers` and accepts all of them; the audiences of the API
    /// server are `audiences`, or the first issuer if there are none.
    #[must_use]
    pub fn with_issuers(mut self, issuers: Vec<String>, audiences: Vec<String>) -> Self {
        if !issuers.is_empty() {
            self.issuers = issuers;
        }
        self.audiences = if audiences.is_empty() {
            self.issuers[..1].to_vec()
        } else {
            audiences
        };
        self
    }

    /// The audiences of the API server itself.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The issuer's name.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuers[0]
    }

    /// All issuers that are believed.
    #[must_use]
    pub fn issuers(&self) -> &[String] {
        &self.issuers
    }

    /// The keys: one signs, all are believed.
    #[must_use]
    pub fn keys(&self) -> Arc<ServiceAccountKeys> {
        self.keys.load_full()
    }

    /// Replaces the keys, also of all clones.
    pub fn replace_keys(&self, keys: ServiceAccountKeys) {
        self.keys.store(Arc::new(keys));
        // Tokens of a removed key are no longer valid.
        self.verified.clear();
    }

    /// Signs a token.
    ///
    /// # Errors
    /// Errors of the cryptographic library.
    pub fn issue(&self, spec: &TokenSpec) -> Result<String, control_pki::Error> {
        let audiences = if spec.audiences.is_empty() {
            &self.audiences
        } else {
            &spec.audiences
        };
        self.keys.load().signing().sign(&BoundObject {
            aud: Audiences::Many(audiences.clone()),
            exp: spec.expires_at,
            iat: spec.issued_at,
            iss: self.issuers[0].clone(),
            jti: spec.id.clone(),
            kubernetes: Private {
                namespace: spec.namespace.clone(),
                node: spec.node.clone(),
                pod: spec.pod.clone(),
                secret: spec.secret.clone(),
                serviceaccount: spec.account.clone(),
                warnafter: spec.warn_after,
            },
            nbf: spec.issued_at,
            sub: User::service_account(&spec.namespace, &spec.account.name, "").name,
        })
    }

    /// Signs a legacy token for a Secret: it does not expire.
    ///
    /// # Errors
    /// Errors of the cryptographic library.
    pub fn issue_legacy(
        &self,
        namespace: &str,
        account: &Reference,
        secret: &str,
    ) -> Result<String, control_pki::Error> {
        let keys = self.keys.load();
        keys.signing()
            .sign(&legacy::Legacy::new(namespace, account, secret))
    }

    /// Authenticates a token at `now` (Unix seconds), for one of `audiences` (empty: for
    /// the API server).
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
        now: i64,
        existing: &dyn ServiceAccountTokenGetter,
    ) -> Result<Bearer, TokenError> {
        let issuer = claims::issuer(token).ok_or(TokenError::Foreign)?;
        if issuer != legacy::ISSUER && !self.issuers.contains(&issuer) {
            return Err(TokenError::Foreign);
        }
        let claims = self.verified.get_or_verify(token, &self.keys)?;
        let wanted = if audiences.is_empty() {
            &self.audiences[..]
        } else {
            audiences
        };
        match &*claims {
            Claims::Bound(bound) if self.issuers.contains(&bound.iss) => {
                let offered = bound.aud.list();
                let audiences = common(offered, wanted)?;
                bound.check(now, existing, audiences)
            }
            // The older kind is for the API server.
            Claims::Legacy(legacy) => {
                let audiences = common(&self.audiences, wanted)?;
                legacy.check(token, existing, audiences)
            }
            Claims::Bound(_) => Err(TokenError::Foreign),
        }
    }
}

/// Those of `offered` that are `wanted`, at least one.
fn common(offered: &[String], wanted: &[String]) -> Result<Vec<String>, TokenError> {
    let common: Vec<_> = offered
        .iter()
        .filter(|audience| wanted.contains(audience))
        .cloned()
        .collect();
    if common.is_empty() {
        return Err(TokenError::Audience {
            offered: audiences_in_go(offered),
            wanted: audiences_in_go(wanted),
        });
    }
    Ok(common)
}

#[cfg(test)]
mod tests;
