//! Ranges of pod addresses for nodes.

mod decide;

use std::sync::{Arc, Mutex, PoisonError};

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Queue, View};
use ipnet::IpNet;
use serde_json::json;

use self::decide::CidrPool;
use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::Node;
use crate::work::{self, Outcome};

/// Assigns pod ranges to nodes permanently.
pub const CONTROLLER: Controller = Controller {
    name: "node-ipam-controller",
    service_account: "node-controller",
    start: |ctx| {
        let config = &ctx.config;
        if config.cluster_cidrs.is_empty() {
            let shutdown = ctx.shutdown.clone();
            return Box::pin(async move { shutdown.cancelled().await });
        }
        let pools = config.cluster_cidrs.iter().map(|range| {
            let size = match range {
                IpNet::V4(_) => config.node_mask_ipv4,
                IpNet::V6(_) => config.node_mask_ipv6,
            };
            CidrPool::new(*range, size)
        });
        let this = Arc::new(NodeRanges {
            client: ctx.client.clone(),
            recorder: ctx.recorder("cidrAllocator"),
            pools: Mutex::new(pools.collect()),
            nodes: ctx.nodes(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.nodes.on_change(move |change| {
            let held = |node: &Option<Arc<Node>>| node.as_deref().map(ranges).unwrap_or_default();
            let (before, after) = (held(&change.previous), held(&change.current));
            if before != after {
                let mut pools = listener
                    .pools
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                for pool in pools.iter_mut() {
                    before.iter().for_each(|range| pool.mark(*range, false));
                    after.iter().for_each(|range| pool.mark(*range, true));
                }
            }
            if let Some(node) = &change.current
                && after.is_empty()
            {
                listener.queue.add(Key::from_meta(&node.metadata));
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            // all ranges that are held must be known before one is given
            this.nodes.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("node-ipam", 1, &shutdown, work).await;
        })
    },
};

struct NodeRanges {
    client: Client,
    recorder: Recorder,
    pools: Mutex<Vec<CidrPool>>,
    nodes: Arc<KindCache<Node>>,
    queue: Queue<Key>,
}

/// The ranges that a node has.
fn ranges(node: &Node) -> Vec<IpNet> {
    let listed = node.spec.pod_cidrs.iter();
    let single = node
        .spec
        .pod_cidrs
        .is_empty()
        .then_some(&node.spec.pod_cidr);
    listed
        .chain(single)
        .filter_map(|range| range.parse().ok())
        .collect()
}

impl NodeRanges {
    async fn sync(&self, key: Key) -> Outcome {
        let Some(node) = self.nodes.by_key(&key) else {
            return Ok(None);
        };
        if !ranges(&node).is_empty() || node.metadata.is_terminating() {
            return Ok(None);
        }
        let taken = self.take();
        let Some(taken) = taken else {
            let about = ObjectReference::to_object(&Node::RESOURCE, &node.metadata);
            let message = format!("Node {} status is now: CIDRNotAvailable", key.name);
            self.recorder.normal(&about, "CIDRNotAvailable", message);
            // a node may go
            return Ok(Some(std::time::Duration::from_secs(30)));
        };
        let first = taken.first().map(ToString::to_string);
        let patch = json!({
            "metadata": {
                "uid": node.metadata.uid,
                "resourceVersion": node.metadata.resource_version,
            },
            "spec": {"podCIDR": first, "podCIDRs": taken},
        });
        let written = work::merge(&self.client, &Node::RESOURCE, &node.metadata, "", &patch).await;
        if written.is_err() {
            self.mark(&taken, false);
        }
        written.map(|()| None)
    }

    /// One range from each pool, or none at all.
    fn take(&self) -> Option<Vec<IpNet>> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        for pool in pools.iter_mut() {
            let Some(range) = pool.take() else {
                for pool in pools.iter_mut() {
                    taken.iter().for_each(|range| pool.mark(*range, false));
                }
                return None;
            };
            taken.push(range);
        }
        Some(taken)
    }

    fn mark(&self, ranges: &[IpNet], taken: bool) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        for pool in pools.iter_mut() {
            ranges.iter().for_each(|range| pool.mark(*range, taken));
        }
    }
}
