//! The claims of bound tokens, and their validity.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use control_types::status::quote;
use serde::{Deserialize, Serialize};

use super::legacy::Legacy;
use super::{
    Bearer, BoundObjectState, CREDENTIAL_ID, LEEWAY, NODE_NAME, NODE_UID, POD_NAME, POD_UID,
    Reference, ServiceAccountTokenGetter, TokenError,
};
use crate::user::User;

/// The claims of either kind.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Claims {
    Bound(Box<BoundObject>),
    Legacy(Box<Legacy>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BoundObject {
    pub aud: Audiences,
    pub exp: i64,
    pub iat: i64,
    pub iss: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Private,
    pub nbf: i64,
    pub sub: String,
}

/// RFC 7519 allows one audience without a list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Audiences {
    Many(Vec<String>),
    One(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Private {
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// Returns the unverified issuer of a token.
pub(crate) fn issuer(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Issuer<'a> {
        #[serde(borrow)]
        iss: Cow<'a, str>,
    }
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Issuer<'_> = serde_json::from_slice(&payload).ok()?;
    Some(claims.iss.into_owned())
}

/// As Go prints a list with `%q`.
pub(super) fn audiences_in_go(list: &[String]) -> String {
    let texts: Vec<_> = list.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

// === impl Audiences ===

impl Audiences {
    pub fn list(&self) -> &[String] {
        match self {
            Self::Many(many) => many,
            Self::One(one) => std::slice::from_ref(one),
        }
    }
}

// === impl Bound ===

impl BoundObject {
    /// Returns the subject of a token if it is valid at this time and the object that it
    /// is bound to exists.
    pub fn check(
        &self,
        now: i64,
        existing: &dyn ServiceAccountTokenGetter,
        audiences: Vec<String>,
    ) -> Result<Bearer, TokenError> {
        let of = &self.kubernetes;
        if now.saturating_add(LEEWAY) < self.nbf {
            return Err(TokenError::TooEarly);
        }
        if now.saturating_sub(LEEWAY) > self.exp {
            return Err(TokenError::Expired);
        }
        if now.saturating_add(LEEWAY) < self.iat {
            return Err(TokenError::Future);
        }
        let account = &of.serviceaccount;
        let mut user = User::service_account(&of.namespace, &account.name, &account.uid);
        // kube-apiserver does not compare them; a token that it signed agrees.
        if user.name != self.sub {
            return Err(TokenError::Claim("sub claim is invalid"));
        }
        of.check_account(now, existing)?;
        if !self.jti.is_empty() {
            let id = format!("JTI={}", self.jti);
            user.extra.push((CREDENTIAL_ID.to_owned(), vec![id]));
        }
        if let Some(secret) = &of.secret {
            let found = existing.secret(&of.namespace, &secret.name);
            same("secret", found.map(|secret| secret.found), secret, now)?;
        }
        let mut add = |key: &str, value: &str| {
            if !value.is_empty() {
                user.extra.push((key.to_owned(), vec![value.to_owned()]));
            }
        };
        if let Some(pod) = &of.pod {
            same("pod", existing.pod(&of.namespace, &pod.name), pod, now)?;
            add(POD_NAME, &pod.name);
            add(POD_UID, &pod.uid);
        }
        if let Some(node) = &of.node {
            // With a pod, the node only tells where the pod ran.
            if of.pod.is_none() {
                same("node", existing.node(&node.name), node, now)?;
            }
            add(NODE_NAME, &node.name);
            add(NODE_UID, &node.uid);
        }
        let stale = of.warnafter.filter(|after| *after != 0 && now > *after);
        Ok(Bearer {
            user,
            audiences,
            stale: stale.map(|after| now - after),
            legacy: None,
        })
    }
}

impl Private {
    fn check_account(
        &self,
        now: i64,
        existing: &dyn ServiceAccountTokenGetter,
    ) -> Result<(), TokenError> {
        let (namespace, account) = (&self.namespace, &self.serviceaccount);
        let found = existing
            .service_account(namespace, &account.name)
            .ok_or_else(|| TokenError::NoAccount(account.name.clone()))?;
        if found.uid != account.uid {
            return Err(TokenError::Anew(format!(
                "service account UID ({}) does not match claim ({})",
                found.uid, account.uid
            )));
        }
        if is_over(&found, now) {
            let name = format!("{namespace}/{}", account.name);
            return Err(TokenError::AccountDeleted(name));
        }
        Ok(())
    }
}

/// Whether an object (`pod`, `secret`, `node`) is that of a claim, and is not
/// being deleted for long.
fn same(
    what: &str,
    found: Option<BoundObjectState>,
    reference: &Reference,
    now: i64,
) -> Result<(), TokenError> {
    let found = found.ok_or(TokenError::Gone)?;
    if found.uid != reference.uid {
        return Err(TokenError::Anew(format!(
            "{what} UID ({}) does not match service account {what} ref claim ({})",
            found.uid, reference.uid
        )));
    }
    if is_over(&found, now) {
        return Err(TokenError::Gone);
    }
    Ok(())
}

fn is_over(found: &BoundObjectState, now: i64) -> bool {
    found.deleting.is_some_and(|at| at < now - LEEWAY)
}
