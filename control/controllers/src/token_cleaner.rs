//! Removes expired bootstrap tokens, which no longer authenticate; this is only for
//! tidiness.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_client::{Client, DeleteOptions, Error, Meta, Selection, resources};
use jiff::Timestamp;
use serde::Deserialize;

use crate::Controller;
use crate::views::seconds_now;
use crate::work;

const PERIOD: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "kube-system";

/// Removes expired tokens.
pub const CONTROLLER: Controller = Controller {
    name: "token-cleaner-controller",
    service_account: "token-cleaner",
    start: |ctx| {
        let (client, shutdown) = (ctx.client.clone(), ctx.shutdown.clone());
        Box::pin(async move {
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(PERIOD) => {}
                }
                if let Err(error) = round(&client).await {
                    tracing::warn!(error = %error.chain(), "failed to remove expired tokens, retrying later");
                }
            }
        })
    },
};

/// A Secret of a token, of which only the time is read.
#[derive(Debug, Deserialize)]
struct Token {
    metadata: Meta,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// Whether the token's time is over. One without a time, or with one that
/// cannot be read, stays.
fn is_over(token: &Token, now: Timestamp) -> bool {
    let text = token.data.as_ref().and_then(|data| data.get("expiration"));
    let ends = text
        .and_then(|text| STANDARD.decode(text).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| text.parse::<Timestamp>().ok());
    ends.is_some_and(|ends| ends < now)
}

async fn round(client: &Client) -> Result<(), Error> {
    let selection = Selection::all()
        .namespace(NAMESPACE)
        .fields("type=bootstrap.kubernetes.io/token");
    let tokens = client
        .list::<Token>(&resources::SECRETS, &selection)
        .await?;
    let now = seconds_now();
    let over = tokens.items.iter().filter(|token| is_over(token, now));
    let (removed, failure) = work::together(over.map(|token| async move {
        let meta = &token.metadata;
        let options = DeleteOptions::of_uid(meta.uid.as_str());
        let secrets = &resources::SECRETS;
        let deleted = client
            .delete(secrets, NAMESPACE, &meta.name, &options)
            .await;
        work::unless_gone(deleted)
    }))
    .await;
    if removed > 0 {
        tracing::info!(removed, "expired tokens removed");
    }
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_surely_expired_goes() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().expect("a time");
        let over = |expiration: Option<&str>| {
            let data = expiration.map(|text| json!({"expiration": STANDARD.encode(text)}));
            let token: Token =
                serde_json::from_value(json!({"metadata": {"name": "a"}, "data": data}))
                    .expect("a token");
            is_over(&token, now)
        };
        assert!(over(Some("2026-01-01T23:59:59Z")));
        assert!(!over(Some("2026-01-02T00:00:01Z")));
        assert!(!over(Some("tomorrow")));
        assert!(!over(None));
    }
}
