//! Bearer tokens that are replaced while clients use them.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::InvalidHeaderValue;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::sync::Notify;

/// A bearer token for [`Client::from_kubeconfig_with_token`]; all clones share the token.
///
/// The renewing task learns immediately when a server rejects the token, which may be
/// long before it expires: the server's clock jumped, or its keys or the token's object
/// were replaced.
///
/// [`Client::from_kubeconfig_with_token`]: crate::Client::from_kubeconfig_with_token
#[derive(Clone)]
pub struct BearerToken {
    inner: Arc<TokenInner>,
}

struct TokenInner {
    header: ArcSwap<HeaderValue>,
    refused: Notify,
}

impl BearerToken {
    /// Returns the token of this text.
    ///
    /// # Errors
    /// A text that no header can hold.
    pub fn new(token: &str) -> Result<Self, InvalidHeaderValue> {
        Ok(Self {
            inner: Arc::new(TokenInner {
                header: ArcSwap::from_pointee(value(token)?),
                refused: Notify::new(),
            }),
        })
    }

    /// Replaces the token for all later requests.
    ///
    /// # Errors
    /// A text that no header can hold.
    pub fn replace(&self, token: &str) -> Result<(), InvalidHeaderValue> {
        self.inner.header.store(Arc::new(value(token)?));
        Ok(())
    }

    /// Waits until a server has refused the token since the last call.
    pub async fn refused(&self) {
        self.inner.refused.notified().await;
    }

    /// Adds the token to a request.
    pub(crate) fn authorize(&self, headers: &mut HeaderMap) {
        let value = self.inner.header.load();
        headers.insert(header::AUTHORIZATION, HeaderValue::clone(&value));
    }

    /// Takes note of an answer.
    pub fn answered(&self, status: StatusCode) {
        if status == StatusCode::UNAUTHORIZED {
            self.inner.refused.notify_one();
        }
    }
}

impl Debug for BearerToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}

fn value(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_replaced_for_all_and_its_refusal_is_noticed() {
        let token = BearerToken::new("first").unwrap();
        let sent = |token: &BearerToken| {
            let mut headers = HeaderMap::new();
            token.authorize(&mut headers);
            headers[header::AUTHORIZATION].to_str().unwrap().to_owned()
        };
        let other = token.clone();
        assert_eq!(sent(&other), "Bearer first");
        token.replace("second").unwrap();
        assert_eq!(sent(&other), "Bearer second");
        assert!(token.replace("a\nb").is_err());
        other.answered(StatusCode::OK);
        let soon = std::time::Duration::from_millis(1);
        assert!(tokio::time::timeout(soon, token.refused()).await.is_err());
        other.answered(StatusCode::UNAUTHORIZED);
        tokio::time::timeout(soon, token.refused()).await.unwrap();
        assert!(!format!("{token:?}").contains("second"));
    }
}
