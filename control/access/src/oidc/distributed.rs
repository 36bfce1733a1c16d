//! Claims that a token only points at (OpenID Connect Core 1.0, section 5.6.2), as
//! kube-apiserver takes them: the groups of a user, if the claim that has them is
//! not in the token.
//!
//! ```json
//! {"_claim_names": {"groups": "src"},
//!  "_claim_sources": {"src": {"endpoint": "https://…", "access_token": "…"}}}
//! ```
//!
//! The endpoint answers with another token, of any issuer whose keys sign it.

use serde_json::Value;

use super::{IdTokenClaims, Issuer, Keys, Mapping, OidcError};
use crate::tokens;

/// The location of a distributed claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The claim.
    pub claim: String,
    /// The URL to ask.
    pub endpoint: String,
    /// The token to show there; may be empty.
    pub access_token: String,
}

impl Issuer {
    /// Returns the source of the groups claim, if it is distributed.
    ///
    /// # Errors
    /// [`OidcError::Distributed`] if the claims name no source.
    pub fn source(&self, claims: &IdTokenClaims) -> Result<Option<Source>, OidcError> {
        let Some(Mapping::Claim(claim, _)) = &self.groups else {
            return Ok(None);
        };
        let Some(names) = claims.get("_claim_names") else {
            return Ok(None);
        };
        if claims.contains_key(claim) {
            return Ok(None);
        }
        let wrong = |why: &str| OidcError::Distributed(why.to_owned());
        let all_texts = |names: &Value| {
            let names = names.as_object()?;
            names.values().all(Value::is_string).then(|| names.clone())
        };
        let names =
            all_texts(names).ok_or_else(|| wrong("oidc: error parsing distributed claim names"))?;
        let sources = claims.get("_claim_sources");
        let sources = sources.ok_or_else(|| wrong("oidc: no claim sources"))?;
        let sources = sources.as_object();
        let sources = sources.ok_or_else(|| wrong("oidc: could not parse claim sources"))?;
        let Some(source) = names.get(claim).and_then(Value::as_str) else {
            return Ok(None);
        };
        let place = sources.get(source).ok_or_else(|| {
            OidcError::Distributed(format!(
                "id token _claim_names contained a source {source} missing in _claims_sources"
            ))
        })?;
        let text = |field: &str| {
            place
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let endpoint = text("endpoint");
        // Without one it is perhaps in the token after all (an aggregated claim).
        Ok((!endpoint.is_empty()).then(|| Source {
            claim: claim.clone(),
            endpoint,
            access_token: text("access_token"),
        }))
    }

    /// Returns the issuer of the token of a source.
    ///
    /// # Errors
    /// [`OidcError::Distributed`] if there is none.
    pub fn issuer_of(source: &Source, token: &str) -> Result<String, OidcError> {
        tokens::unverified_issuer(token).ok_or_else(|| {
            OidcError::Distributed(format!(
                "getting untrusted issuer from endpoint {} failed for claim {:?}",
                source.endpoint, source.claim
            ))
        })
    }

    /// Adds the claim of a source, from the token that it returned; `keys` are those of
    /// its issuer.
    ///
    /// # Errors
    /// [`OidcError::Signature`] if other keys may be needed, otherwise
    /// [`OidcError::Distributed`] if the token is invalid or lacks the claim.
    pub fn expand(
        &self,
        claims: &mut IdTokenClaims,
        source: &Source,
        (token, issuer): (&str, &str),
        keys: &Keys,
        now: i64,
    ) -> Result<(), OidcError> {
        let mut found = keys.verify(token, &self.algorithms)?;
        self.check_standard(issuer, &found, now)
            .map_err(OidcError::of_source)?;
        let value = found.remove(&source.claim).ok_or_else(|| {
            OidcError::Distributed(format!(
                "jwt returned by distributed claim endpoint {:?} did not contain claim: {}",
                source.endpoint, source.claim
            ))
        })?;
        claims.insert(source.claim.clone(), value);
        Ok(())
    }
}

impl OidcError {
    /// The same of a token that a source gave.
    #[must_use]
    pub fn of_source(self) -> Self {
        match self {
            Self::Distributed(_) => self,
            other => Self::Distributed(format!("verify distributed claim token: {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(claims: Value) -> Result<Option<Source>, String> {
        let issuer = Issuer {
            groups: Some(Mapping::Claim("groups".to_owned(), String::new())),
            ..Issuer::default()
        };
        let claims = claims.as_object().expect("claims");
        issuer.source(claims).map_err(|error| error.to_string())
    }

    #[test]
    fn groups_are_looked_for_where_the_claims_say() {
        let names = json!({"groups": "s"});
        let there = json!({"s": {"endpoint": "https://x", "access_token": "t"}});
        let found = source(json!({"_claim_names": names, "_claim_sources": there}));
        let expected = Source {
            claim: "groups".to_owned(),
            endpoint: "https://x".to_owned(),
            access_token: "t".to_owned(),
        };
        assert_eq!(found, Ok(Some(expected)));
        for nowhere in [
            json!({}),
            json!({"groups": ["a"], "_claim_names": names, "_claim_sources": there}),
            json!({"_claim_names": {"other": "s"}, "_claim_sources": there}),
            json!({"_claim_names": names, "_claim_sources": {"s": {"JWT": "x"}}}),
        ] {
            assert_eq!(source(nowhere.clone()), Ok(None), "{nowhere}");
        }
        for (wrong, why) in [
            (
                json!({"_claim_names": 1}),
                "error parsing distributed claim names",
            ),
            (json!({"_claim_names": names}), "no claim sources"),
            (
                json!({"_claim_names": names, "_claim_sources": []}),
                "could not parse claim sources",
            ),
            (
                json!({"_claim_names": names, "_claim_sources": {}}),
                "a source s missing in _claims_sources",
            ),
        ] {
            let error = source(wrong).expect_err(why);
            assert!(
                error.starts_with("oidc: could not expand distributed claims: ")
                    && error.ends_with(why),
                "{error}"
            );
        }
    }
}
