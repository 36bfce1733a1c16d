//! Removes requests whose time is over, so that they do not pile up.

use std::sync::Arc;
use std::time::Duration;

use control_client::{Client, DeleteOptions, resources};

use crate::Controller;
use crate::kind_cache::KindCache;
use crate::views::{CertificateSigningRequest, seconds_now};
use crate::work;

const PERIOD: Duration = Duration::from_secs(600);

/// Lifetimes of decided and undecided requests in seconds, as upstream.
const DECIDED: i64 = 3600;
const PENDING: i64 = 24 * 3600;

/// Removes old requests.
pub const CONTROLLER: Controller = Controller {
    name: "certificatesigningrequest-cleaner-controller",
    service_account: "certificate-controller",
    start: |ctx| {
        let cleaner = Cleaner {
            client: ctx.client.clone(),
            requests: ctx.certificate_requests(),
        };
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            cleaner.requests.ready().await;
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(PERIOD) => cleaner.round().await,
                }
            }
        })
    },
};

struct Cleaner {
    client: Client,
    requests: Arc<KindCache<CertificateSigningRequest>>,
}

/// Whether a request goes now; `now` in seconds since 1970.
fn is_over(request: &CertificateSigningRequest, now: i64) -> bool {
    let Some(made) = request.metadata.creation_timestamp else {
        return false;
    };
    let decided = request.is_decided() || request.has("Failed");
    let stays = if decided { DECIDED } else { PENDING };
    now - made.as_second() > stays
}

impl Cleaner {
    async fn round(&self) {
        let now = seconds_now().as_second();
        let all = self.requests.all();
        let over = all.iter().filter(|request| is_over(request, now));
        let (removed, failure) = work::together(over.map(|request| async move {
            let meta = &request.metadata;
            let options = DeleteOptions::of_uid(meta.uid.as_str());
            let resource = &resources::CERTIFICATE_SIGNING_REQUESTS;
            work::unless_gone(self.client.delete(resource, "", &meta.name, &options).await)
        }))
        .await;
        if removed > 0 {
            tracing::info!(removed, "old certificate requests removed");
        }
        if let Some(error) = failure {
            tracing::warn!(error = %error.chain(), "failed to remove a certificate request, retrying later");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decided_requests_go_sooner_than_pending_ones() {
        let request = |status| -> CertificateSigningRequest {
            serde_json::from_value(json!({"metadata":
                {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status}))
            .expect("a request")
        };
        let made = request(json!({}))
            .metadata
            .creation_timestamp
            .expect("a time")
            .as_second();
        let approved = request(json!({"conditions": [{"type": "Approved", "status": "True"}]}));
        assert!(!is_over(&approved, made + DECIDED));
        assert!(is_over(&approved, made + DECIDED + 1));
        assert!(!is_over(&request(json!({})), made + PENDING));
        assert!(is_over(&request(json!({})), made + PENDING + 1));
    }
}
