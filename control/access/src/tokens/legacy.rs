//! Tokens of the older kind: they lie in a Secret and are good as long as it does.

use serde::{Deserialize, Serialize};

use super::{Bearer, Reference, ServiceAccountTokenGetter, TokenError};
use crate::user::User;
use crate::user::split_service_account;

/// The issuer of such tokens.
pub(super) const ISSUER: &str = "kubernetes/serviceaccount";
/// The label of a Secret that holds the day of its token's last use.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// A token of the older kind was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyUse {
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret.
    pub secret: Reference,
    /// Whether the token was made unasked, as Kubernetes once did.
    pub unasked: bool,
    /// The day of its last noted use; empty: never.
    pub last_used: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Legacy {
    iss: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace", default)]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name", default)]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name", default)]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid", default)]
    uid: String,
    #[serde(default)]
    sub: String,
}

// === impl Legacy ===

impl Legacy {
    pub fn new(namespace: &str, account: &Reference, secret: &str) -> Self {
        Self {
            iss: ISSUER.to_owned(),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            account: account.name.clone(),
            uid: account.uid.clone(),
            sub: User::service_account(namespace, &account.name, "").name,
        }
    }

    /// Returns the subject of a token if its Secret still contains it.
    pub fn check(
        &self,
        token: &str,
        existing: &dyn ServiceAccountTokenGetter,
        audiences: Vec<String>,
    ) -> Result<Bearer, TokenError> {
        for (claim, missing) in [
            (&self.iss, "iss claim is missing"),
            (&self.sub, "sub claim is missing"),
            (&self.namespace, "namespace claim is missing"),
            (&self.secret, "secretName claim is missing"),
            (&self.account, "serviceAccountName claim is missing"),
            (&self.uid, "serviceAccountUID claim is missing"),
        ] {
            if claim.is_empty() {
                return Err(TokenError::Claim(missing));
            }
        }
        if self.iss != ISSUER {
            return Err(TokenError::Foreign);
        }
        let (namespace, account) = (&*self.namespace, &*self.account);
        if split_service_account(&self.sub) != Some((namespace, account)) {
            return Err(TokenError::Claim("sub claim is invalid"));
        }
        let secret = existing
            .secret(namespace, &self.secret)
            .filter(|secret| secret.found.deleting.is_none())
            .ok_or(TokenError::NotInSecret)?;
        // The signature proved that the token was issued once; nothing is learnt
        // from how long the comparison takes.
        if secret.token != token.as_bytes() {
            return Err(TokenError::Claim("Token does not match server's copy"));
        }
        let found = existing
            .service_account(namespace, account)
            .ok_or_else(|| TokenError::NoAccount(self.account.clone()))?;
        if found.deleting.is_some() {
            let why = format!("ServiceAccount {namespace}/{account} has been deleted");
            return Err(TokenError::Legacy(why));
        }
        if found.uid != self.uid {
            return Err(TokenError::Legacy(format!(
                "ServiceAccount UID ({}) does not match claim ({})",
                found.uid, self.uid
            )));
        }
        if !secret.invalid_since.is_empty() {
            return Err(TokenError::Legacy(format!(
                "the token in secret {namespace}/{} for service account {namespace}/{account} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token",
                self.secret
            )));
        }
        Ok(Bearer {
            user: User::service_account(namespace, account, &self.uid),
            audiences,
            stale: None,
            legacy: Some(LegacyUse {
                namespace: namespace.to_owned(),
                unasked: existing.lists_secret(namespace, account, &self.secret),
                secret: Reference {
                    name: self.secret.clone(),
                    uid: secret.found.uid,
                },
                last_used: secret.last_used,
            }),
        })
    }
}
