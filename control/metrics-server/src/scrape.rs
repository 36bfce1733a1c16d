//! Asks nodes' agents what is used.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use tokio_util::sync::CancellationToken;

use crate::node_metrics::{NodeMetrics, Pair};
use crate::sample::Sample;
use control_proxy::egress::client::explain;
use control_proxy::egress::target;
use control_proxy::kubelet::{Endpoint, Kubelets};
use control_request::body::{self, BoxError};

/// How often nodes are asked.
const EVERY: Duration = Duration::from_secs(15);
/// How soon for the second time: before it there is no difference to tell.
const SECOND: Duration = Duration::from_secs(3);
/// So many nodes at once.
const AT_ONCE: usize = 32;
/// How long a node may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of an answer.
const LIMIT: usize = 8 << 20;

/// Asks all nodes every so often until shutdown, while `is_served` says that nobody else
/// serves the group.
pub async fn keep(
    metrics: Arc<NodeMetrics>,
    kubelets: Kubelets,
    is_served: impl Fn() -> bool,
    shutdown: CancellationToken,
) {
    let mut rounds = 0_u32;
    loop {
        let pause = if rounds < 2 { SECOND } else { EVERY };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if is_served() {
            let asked = round(&metrics, &kubelets).await;
            rounds = if asked { rounds.saturating_add(1) } else { 0 };
        }
    }
}

/// Asks every node once; tells whether there was one.
async fn round(metrics: &NodeMetrics, kubelets: &Kubelets) -> bool {
    let nodes = metrics.storage.resource("", "nodes");
    let state = match nodes.and_then(|nodes| nodes.cache()) {
        Ok(cache) => cache.state(),
        Err(_) => return false,
    };
    let targets: Vec<(String, Endpoint)> = state
        .objects
        .iter()
        .filter_map(|node| {
            let endpoint = Endpoint::from_node(&node.value().ok()?).ok()?;
            Some((node.name().to_owned(), endpoint))
        })
        .collect();
    let any = !targets.is_empty();
    let answers: Vec<(String, Option<Sample>)> = futures::stream::iter(targets)
        .map(|(name, endpoint)| async move {
            let sample = match tokio::time::timeout(TIMEOUT, ask(kubelets, &endpoint)).await {
                Ok(Ok(sample)) => Some(sample),
                Ok(Err(error)) => {
                    let error = explain(&error);
                    tracing::debug!(node = name, error, "a node does not tell what it uses");
                    None
                }
                Err(_) => None,
            };
            (name, sample)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let known = metrics.nodes.load();
    let mut next: FxHashMap<String, Arc<Pair>> = FxHashMap::default();
    for (name, sample) in answers {
        // A node that does not answer for a while is forgotten: what it used
        // then is not what it uses now.
        let Some(sample) = sample.map(Arc::new) else {
            continue;
        };
        let before = known
            .get(&name)
            .map_or_else(|| Arc::clone(&sample), |pair| Arc::clone(&pair.last));
        let last = sample;
        next.insert(name, Arc::new(Pair { before, last }));
    }
    drop(known);
    metrics.nodes.store(Arc::new(next));
    any
}

/// Error for a node that does not tell what it uses.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the request cannot be made")]
    Request(#[source] http::Error),
    #[error(transparent)]
    Send(#[from] target::Error),
    #[error("answered {0}")]
    Refused(StatusCode),
    #[error("the answer cannot be read")]
    Body(#[source] BoxError),
}

async fn ask(kubelets: &Kubelets, endpoint: &Endpoint) -> Result<Sample, Error> {
    let target = kubelets.target(endpoint, true);
    let request = Request::get("/metrics/resource")
        .header(http::header::HOST, target.address())
        .body(body::empty())
        .map_err(Error::Request)?;
    let response = target.send(request).await?;
    if !response.status().is_success() {
        return Err(Error::Refused(response.status()));
    }
    let at = Timestamp::now();
    let bytes = Limited::new(response.into_body(), LIMIT)
        .collect()
        .await
        .map_err(Error::Body)?
        .to_bytes();
    Ok(Sample::parse(&String::from_utf8_lossy(&bytes), at))
}
