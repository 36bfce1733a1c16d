//! Resources that an API server serves only behind a feature gate.
//!
//! kube-controller-manager has the gates itself. Here the API server's discovery says
//! whether there is work: a controller of such a resource waits until it is served.

use std::time::Duration;

use control_client::{Change, Client, Object, Reflector, Resource, Selection, reflect_resource};
use tokio_util::sync::CancellationToken;

/// How often discovery is read while the resource is not served.
const PERIOD: Duration = Duration::from_secs(60);

/// Waits until the API server serves one of these versions of a resource, and returns it.
/// Returns nothing at `shutdown`.
pub(crate) async fn first_served<'a>(
    client: &Client,
    versions: &'a [Resource],
    shutdown: &CancellationToken,
) -> Option<&'a Resource> {
    loop {
        for resource in versions {
            match client.serves(resource).await {
                Ok(true) => return Some(resource),
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(%resource, error = error.chain(), "failed to read discovery");
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return None,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Follows a resource once it is served: calls `on_change` for each change; for those of
/// the first list, before `work` begins.
///
/// Returns when `work` ends or at `shutdown`.
pub(crate) async fn follow<V, W>(
    client: &Client,
    versions: &[Resource],
    shutdown: &CancellationToken,
    on_change: impl Fn(&Change<V>),
    work: impl FnOnce(Reflector<V>, Resource) -> W,
) where
    V: Object,
    W: Future<Output = ()>,
{
    let Some(resource) = first_served(client, versions, shutdown).await else {
        return;
    };
    tracing::info!(%resource, "serving the API");
    let objects: Reflector<V> = reflect_resource(client, resource.clone(), Selection::all());
    let mut changes = objects.changes();
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = objects.synced() => {}
    }
    while let Some(change) = changes.try_recv() {
        on_change(&change);
    }
    let feed = async {
        while let Some(change) = changes.recv().await {
            on_change(&change);
        }
    };
    let work = work(objects.clone(), resource.clone());
    // At shutdown, work in progress is finished; the feed never ends by itself.
    let mut work = std::pin::pin!(work);
    tokio::select! {
        () = &mut work => return,
        () = feed => {}
    }
    work.await;
}
