//! Removes PodCertificateRequests whose time is over (KEP-4317).

use std::sync::Arc;
use std::time::Duration;

use control_client::{Client, DeleteOptions, Metadata, Reflector, Resource};

use crate::Controller;
use crate::optional;
use crate::views::seconds_now;
use crate::work;

/// PodCertificateRequest, in the version that 1.36 serves behind its gate.
const REQUESTS: Resource = Resource::namespaced(
    "certificates.k8s.io",
    "v1beta1",
    "podcertificaterequests",
    "PodCertificateRequest",
);

const PERIOD: Duration = Duration::from_secs(300);
/// Lifetime of a request in seconds. A kubelet gets its certificate, or gives up, sooner.
const LIFE: i64 = 15 * 60;

/// Removes old requests.
pub const CONTROLLER: Controller = Controller {
    name: "podcertificaterequest-cleaner-controller",
    service_account: "podcertificaterequestcleaner",
    start: |ctx| {
        let (client, reader) = (ctx.client.clone(), ctx.reader().clone());
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            let stop = shutdown.clone();
            let work = move |requests: Reflector<Metadata>, resource| async move {
                loop {
                    clean(&client, &resource, &requests).await;
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(PERIOD) => {}
                    }
                }
            };
            optional::follow(&reader, &[REQUESTS], &shutdown, |_| {}, work).await;
        })
    },
};

fn is_over(request: &Metadata, now: i64) -> bool {
    let made = request.metadata.creation_timestamp;
    made.is_some_and(|made| now - made.as_second() >= LIFE)
}

async fn clean(client: &Client, resource: &Resource, requests: &Reflector<Metadata>) {
    let now = seconds_now().as_second();
    let all = requests.cache().snapshot();
    let over: Vec<Arc<Metadata>> = all.iter().filter(|it| is_over(it, now)).cloned().collect();
    let (_, failure) = work::together(over.iter().map(|request| async {
        let meta = &request.metadata;
        let options = DeleteOptions::of_uid(meta.uid.as_str());
        let deleted = client
            .delete(resource, &meta.namespace, &meta.name, &options)
            .await;
        work::unless_gone(deleted)
    }))
    .await;
    if let Some(error) = failure {
        tracing::warn!(
            error = error.chain(),
            "failed to remove a pod certificate request, retrying later"
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake_api::FakeApi;

    #[tokio::test(start_paused = true)]
    async fn old_requests_are_removed_and_new_ones_stay() {
        let path = |name: &str| {
            format!("/apis/certificates.k8s.io/v1beta1/namespaces/n/podcertificaterequests/{name}")
        };
        let api = FakeApi::new();
        api.answer_with(|request| {
            (request.path == "/apis/certificates.k8s.io/v1beta1").then(|| {
                (
                    200,
                    json!({"resources": [{"name": "podcertificaterequests"}]}),
                )
            })
        });
        let old = "2026-01-01T00:00:00Z".to_owned();
        let new = control_client::time::seconds(jiff::Timestamp::now());
        for (name, made) in [("old", old), ("new", new)] {
            api.put(
                &path(name),
                json!({"metadata": {"creationTimestamp": made}}),
            );
        }
        let _running = api.run(&CONTROLLER, crate::Config::default());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(api.object(&path("old")).is_none());
        assert!(api.object(&path("new")).is_some());
    }
}
