//! How long kubelets may cache the Secrets and ConfigMaps of their pods: longer the more
//! nodes there are. Each node carries the number of seconds as an annotation.

use std::sync::{Arc, Mutex, PoisonError};

use control_client::{Client, Queue, resources};
use serde_json::json;

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::Node;
use crate::work::{self, Outcome};

/// The annotation, in seconds.
const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Minimum and maximum numbers of nodes, and the TTL in seconds between them. They
/// overlap, so that adding or removing one node does not change all.
const STEPS: [(usize, usize, u32); 5] = [
    (0, 100, 0),
    (90, 500, 15),
    (450, 1000, 30),
    (900, 2000, 60),
    (1800, usize::MAX, 300),
];

/// Annotates nodes with the time for which objects may be cached.
pub const CONTROLLER: Controller = Controller {
    name: "ttl-controller",
    service_account: "ttl-controller",
    start: |ctx| {
        let this = Arc::new(Ttl {
            client: ctx.client.clone(),
            nodes: ctx.nodes(),
            size: Mutex::default(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.nodes.on_change(move |change| {
            let (before, after) = (change.previous.is_some(), change.current.is_some());
            if before != after && listener.resize(after) {
                for node in listener.nodes.all() {
                    listener.queue.add(Key::from_meta(&node.metadata));
                }
            }
            if let Some(node) = &change.current {
                listener.queue.add(Key::from_meta(&node.metadata));
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.nodes.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("ttlcontroller", 5, &shutdown, work).await;
        })
    },
};

/// How many nodes there are, and the step that they are in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ClusterSize {
    nodes: usize,
    step: usize,
}

impl ClusterSize {
    /// One node more or less.
    fn after(self, is_added: bool) -> Self {
        let nodes = if is_added {
            self.nodes.saturating_add(1)
        } else {
            self.nodes.saturating_sub(1)
        };
        let (least, most, _) = STEPS.get(self.step).copied().unwrap_or(STEPS[0]);
        let step = if nodes > most {
            self.step + 1
        } else if nodes < least {
            self.step - 1
        } else {
            self.step
        };
        Self { nodes, step }
    }

    fn seconds(self) -> u32 {
        STEPS.get(self.step).map_or(0, |(.., seconds)| *seconds)
    }
}

struct Ttl {
    client: Client,
    nodes: Arc<KindCache<Node>>,
    size: Mutex<ClusterSize>,
    queue: Queue<Key>,
}

impl Ttl {
    /// Counts a node in or out. Whether the time of all nodes is another now.
    fn resize(&self, is_added: bool) -> bool {
        let mut size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        let before = size.step;
        *size = size.after(is_added);
        size.step != before
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(node) = self.nodes.by_key(&key) else {
            return Ok(None);
        };
        let size = *self.size.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = size.seconds().to_string();
        if node.metadata.annotations.get(ANNOTATION) == Some(wanted.as_str()) {
            return Ok(None);
        }
        let patch = json!({"metadata": {"annotations": {ANNOTATION: wanted}}});
        work::merge(&self.client, &resources::NODES, &node.metadata, "", &patch).await?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_grows_with_the_cluster_and_shrinks_late() {
        let mut size = ClusterSize::default();
        let mut changes = Vec::new();
        for is_added in std::iter::repeat_n(true, 2100).chain(std::iter::repeat_n(false, 2100)) {
            let before = size.seconds();
            size = size.after(is_added);
            if size.seconds() != before {
                changes.push((size.nodes, size.seconds()));
            }
        }
        assert_eq!(
            changes,
            [
                (101, 15),
                (501, 30),
                (1001, 60),
                (2001, 300),
                (1799, 60),
                (899, 30),
                (449, 15),
                (89, 0)
            ]
        );
        assert_eq!(size, ClusterSize::default());
    }
}
