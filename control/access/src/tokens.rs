//! Service accounts' tokens: what they say, and whether it is still true.
//!
//! A token names a service account and may be bound to a pod, a secret or a
//! node; it lives as long as what it is bound to (KEP-1205, KEP-4193). The claims
//! are those of kube-apiserver.

use std::sync::Arc;

use control_pki::ServiceAccountKey;
use serde::{Deserialize, Serialize};

use crate::User;

/// The key of a credential's name in [`User::extra`].
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// The usual issuer, and the audience of the API server.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Issues tokens and recognises them.
#[derive(Clone, Debug)]
pub struct Tokens {
    key: Arc<ServiceAccountKey>,
    issuer: String,
    audiences: Vec<String>,
}

/// What a token is to say.
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
    /// A random identifier of the token.
    pub id: String,
}

/// A name and the uid of the object that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The name.
    pub name: String,
    /// The uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Who a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// The user.
    pub user: User,
    /// Those of the asked audiences that the token is for.
    pub audiences: Vec<String>,
}

/// What tokens are bound to, as it is now.
pub trait Existing {
    /// The uid of a service account.
    fn service_account(&self, namespace: &str, name: &str) -> Option<String>;
    /// The uid of a pod that has not ended.
    fn pod(&self, namespace: &str, name: &str) -> Option<String>;
    /// The uid of a secret.
    fn secret(&self, namespace: &str, name: &str) -> Option<String>;
    /// The uid of a node.
    fn node(&self, name: &str) -> Option<String>;
}

/// Why a token is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It was not signed by this cluster, or not for service accounts.
    #[error("the token is not one of this cluster")]
    Foreign,
    /// Its time is over, or has not come.
    #[error("the token's time is over or has not come")]
    Time,
    /// It is for somebody else.
    #[error("the token is for other audiences")]
    Audience,
    /// What it is bound to is gone or was made anew.
    #[error("{what} of the token does not exist any more")]
    Gone {
        /// The kind of object.
        what: &'static str,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    aud: Audiences,
    exp: i64,
    iat: i64,
    iss: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Private,
    nbf: i64,
    sub: String,
}

/// RFC 7519 allows one audience without a list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Audiences {
    Many(Vec<String>),
    One(String),
}

#[derive(Debug, Serialize, Deserialize)]
struct Private {
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Reference>,
    serviceaccount: Reference,
}

// === impl Tokens ===

impl Tokens {
    /// Tokens signed with `key`, of [`ISSUER`], accepted for it.
    #[must_use]
    pub fn new(key: Arc<ServiceAccountKey>) -> Self {
        Self {
            key,
            issuer: ISSUER.to_owned(),
            audiences: vec![ISSUER.to_owned()],
        }
    }

    /// The audiences of the API server itself.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The issuer's name.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key that signs.
    #[must_use]
    pub fn key(&self) -> &ServiceAccountKey {
        &self.key
    }

    /// Signs a token.
    ///
    /// # Errors
    /// What the cryptographic library suffers.
    pub fn issue(&self, spec: &TokenSpec) -> Result<String, control_pki::Error> {
        let audiences = if spec.audiences.is_empty() {
            &self.audiences
        } else {
            &spec.audiences
        };
        self.key.sign(&Claims {
            aud: Audiences::Many(audiences.clone()),
            exp: spec.expires_at,
            iat: spec.issued_at,
            iss: self.issuer.clone(),
            jti: spec.id.clone(),
            kubernetes: Private {
                namespace: spec.namespace.clone(),
                node: spec.node.clone(),
                pod: spec.pod.clone(),
                secret: spec.secret.clone(),
                serviceaccount: spec.account.clone(),
            },
            nbf: spec.issued_at,
            sub: User::service_account(&spec.namespace, &spec.account.name, "").name,
        })
    }

    /// Whose token this is, `now` (Unix seconds), for one of `audiences` (empty:
    /// for the API server).
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
        now: i64,
        existing: &dyn Existing,
    ) -> Result<Bearer, TokenError> {
        let claims: Claims = self.key.verify(token).map_err(|_| TokenError::Foreign)?;
        let of = claims.kubernetes;
        let user = User::service_account(
            &of.namespace,
            &of.serviceaccount.name,
            &of.serviceaccount.uid,
        );
        if claims.iss != self.issuer || claims.sub != user.name {
            return Err(TokenError::Foreign);
        }
        if now < claims.nbf || now >= claims.exp {
            return Err(TokenError::Time);
        }
        let wanted = if audiences.is_empty() {
            &self.audiences[..]
        } else {
            audiences
        };
        let offered = match claims.aud {
            Audiences::Many(many) => many,
            Audiences::One(one) => vec![one],
        };
        let audiences: Vec<_> = wanted
            .iter()
            .filter(|audience| offered.contains(audience))
            .cloned()
            .collect();
        if audiences.is_empty() {
            return Err(TokenError::Audience);
        }
        let same = |what, found: Option<String>, reference: &Reference| {
            (found.as_deref() == Some(&*reference.uid))
                .then_some(())
                .ok_or(TokenError::Gone { what })
        };
        let account = &of.serviceaccount;
        same(
            "the service account",
            existing.service_account(&of.namespace, &account.name),
            account,
        )?;
        let mut user = user;
        if !claims.jti.is_empty() {
            user.extra.push((
                CREDENTIAL_ID.to_owned(),
                vec![format!("JTI={}", claims.jti)],
            ));
        }
        if let Some(secret) = &of.secret {
            same(
                "the secret",
                existing.secret(&of.namespace, &secret.name),
                secret,
            )?;
        }
        if let Some(pod) = &of.pod {
            same("the pod", existing.pod(&of.namespace, &pod.name), pod)?;
            user.extra
                .push((POD_NAME.to_owned(), vec![pod.name.clone()]));
            user.extra.push((POD_UID.to_owned(), vec![pod.uid.clone()]));
        }
        if let Some(node) = &of.node {
            // With a pod, the node only tells where the pod ran.
            if of.pod.is_none() {
                same("the node", existing.node(&node.name), node)?;
            }
            user.extra
                .push((NODE_NAME.to_owned(), vec![node.name.clone()]));
            if !node.uid.is_empty() {
                user.extra
                    .push((NODE_UID.to_owned(), vec![node.uid.clone()]));
            }
        }
        Ok(Bearer { user, audiences })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What exists: the uid of each object of that kind and name.
    struct World(Vec<(&'static str, &'static str, &'static str)>);

    impl World {
        fn uid(&self, kind: &str, name: &str) -> Option<String> {
            self.0
                .iter()
                .find(|entry| entry.0 == kind && entry.1 == name)
                .map(|entry| entry.2.to_owned())
        }
    }

    impl Existing for World {
        fn service_account(&self, namespace: &str, name: &str) -> Option<String> {
            self.uid("sa", &format!("{namespace}/{name}"))
        }
        fn pod(&self, namespace: &str, name: &str) -> Option<String> {
            self.uid("pod", &format!("{namespace}/{name}"))
        }
        fn secret(&self, namespace: &str, name: &str) -> Option<String> {
            self.uid("secret", &format!("{namespace}/{name}"))
        }
        fn node(&self, name: &str) -> Option<String> {
            self.uid("node", name)
        }
    }

    fn tokens() -> (tempfile::TempDir, Tokens) {
        let dir = tempfile::tempdir().expect("a directory");
        let key = ServiceAccountKey::load_or_create(dir.path()).expect("a key");
        (dir, Tokens::new(Arc::new(key)))
    }

    fn reference(name: &str, uid: &str) -> Reference {
        Reference {
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    fn spec() -> TokenSpec {
        TokenSpec {
            namespace: "a".to_owned(),
            account: reference("robot", "u1"),
            pod: Some(reference("web", "p1")),
            node: Some(reference("n1", "m1")),
            issued_at: 100,
            expires_at: 200,
            id: "j".to_owned(),
            ..TokenSpec::default()
        }
    }

    const ALL: [(&str, &str, &str); 2] = [("sa", "a/robot", "u1"), ("pod", "a/web", "p1")];

    #[test]
    fn a_token_names_its_account_and_its_pod() {
        let (_dir, tokens) = tokens();
        let token = tokens.issue(&spec()).expect("issued");
        let bearer = tokens
            .authenticate(&token, &[], 150, &World(ALL.to_vec()))
            .expect("ours");
        assert_eq!(bearer.user.name, "system:serviceaccount:a:robot");
        assert_eq!(bearer.user.uid, "u1");
        assert_eq!(bearer.audiences, [ISSUER]);
        assert!(
            bearer
                .user
                .extra
                .contains(&(POD_NAME.to_owned(), vec!["web".to_owned()]))
        );
        assert!(
            bearer
                .user
                .extra
                .contains(&(CREDENTIAL_ID.to_owned(), vec!["JTI=j".to_owned()]))
        );
    }

    #[test]
    fn a_token_dies_with_its_time_its_account_and_its_pod() {
        let (_dir, tokens) = tokens();
        let token = tokens.issue(&spec()).expect("issued");
        let all = World(ALL.to_vec());
        for now in [99, 200, 10_000] {
            assert!(
                matches!(
                    tokens.authenticate(&token, &[], now, &all),
                    Err(TokenError::Time)
                ),
                "{now}"
            );
        }
        for gone in 0..ALL.len() {
            let mut world = ALL.to_vec();
            world.remove(gone);
            let answer = tokens.authenticate(&token, &[], 150, &World(world));
            assert!(matches!(answer, Err(TokenError::Gone { .. })));
            let mut world = ALL.to_vec();
            world[gone].2 = "made anew";
            let answer = tokens.authenticate(&token, &[], 150, &World(world));
            assert!(matches!(answer, Err(TokenError::Gone { .. })));
        }
    }

    #[test]
    fn a_token_for_another_audience_opens_nothing_here() {
        let (_dir, tokens) = tokens();
        let vault = vec!["vault".to_owned()];
        let token = tokens
            .issue(&TokenSpec {
                audiences: vault.clone(),
                ..spec()
            })
            .expect("issued");
        let all = World(ALL.to_vec());
        assert!(matches!(
            tokens.authenticate(&token, &[], 150, &all),
            Err(TokenError::Audience)
        ));
        let bearer = tokens
            .authenticate(&token, &vault, 150, &all)
            .expect("for vault");
        assert_eq!(bearer.audiences, vault);
    }

    #[test]
    fn a_token_of_another_cluster_is_foreign() {
        let (_dir, tokens) = tokens();
        let (_other, others) = self::tokens();
        let token = others.issue(&spec()).expect("issued");
        let all = World(ALL.to_vec());
        assert!(matches!(
            tokens.authenticate(&token, &[], 150, &all),
            Err(TokenError::Foreign)
        ));
        assert!(matches!(
            tokens.authenticate("", &[], 150, &all),
            Err(TokenError::Foreign)
        ));
    }
}
