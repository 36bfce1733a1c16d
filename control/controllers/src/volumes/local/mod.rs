//! Selects the node for claims of the nodes' own driver where no pod decides it:
//!
//! - a clone, and a volume restored from a snapshot, is made on the node of its source;
//! - a claim whose class does not wait for a consumer gets a node with enough space;
//! - a claim that is bound to a volume which was there before is shown to the volume's node.
//!
//! Nodes do not decide this themselves, since a node that did could have any claim's pods
//! come to it. The annotation is the one by which the scheduler selects nodes, so that
//! every scheduler places the pods of such a claim on its node.

mod decide;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder, RepeatFilter};
use control_client::{Client, Error, Queue, View, resources};
use futures::future::BoxFuture;
use serde_json::json;

pub use self::decide::NodeCapacity;
use self::decide::{
    ClaimSnapshot, CopySource, NodeChoice, SELECTED_NODE, choose, decide, no_space, takes_pods,
};
pub(super) use self::decide::{DRIVER, node_of};
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Claim, DataSource, Node, StorageClass, Text, Volume};
use crate::volumes::snapshots::{MANAGED_BY, SnapshotContent, SnapshotView, unless_absent};
use crate::work::{self, Outcome};

/// Selects nodes for local volumes.
pub const CONTROLLER: Controller = Controller {
    name: "local-volume-controller",
    service_account: "local-volume-controller",
    start,
};

/// How long a claim waits for its source.
const SOURCE_AGAIN: Duration = Duration::from_secs(3);
/// Retry interval for a claim that waits for space.
const SPACE_AGAIN: Duration = Duration::from_secs(60);
const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";

struct LocalVolumes {
    client: Client,
    claims: Arc<KindCache<Claim>>,
    volumes: Arc<KindCache<Volume>>,
    classes: Arc<KindCache<StorageClass>>,
    nodes: Arc<KindCache<Node>>,
    capacities: Arc<KindCache<NodeCapacity>>,
    recorder: Recorder,
    /// Suppresses repeated events about claims that wait for space.
    repeats: RepeatFilter,
    queue: Queue<Key>,
    /// Claims for which no node had enough space.
    waiting: Mutex<HashSet<Key>>,
}

fn start(ctx: &Context) -> BoxFuture<'static, ()> {
    let this = Arc::new(LocalVolumes {
        client: ctx.client.clone(),
        claims: ctx.claims(),
        volumes: ctx.volumes(),
        classes: ctx.storage_classes(),
        nodes: ctx.nodes(),
        capacities: ctx.node_capacities(),
        recorder: ctx.recorder("local-volume-controller"),
        repeats: RepeatFilter::default(),
        queue: work::queue(),
        waiting: Mutex::default(),
    });
    this.claims.queue_present(&this.queue);
    let queue = this.queue.clone();
    this.volumes.on_change(move |change| {
        let volume = change.current.as_ref().filter(|it| node_of(it).is_some());
        if let Some(reference) = volume.and_then(|it| it.spec.claim_ref.as_ref()) {
            queue.add(Key::new(
                reference.namespace.clone(),
                reference.name.clone(),
            ));
        }
    });
    let waiter = this.clone();
    this.capacities.on_change(move |change| {
        let largest = |it: &Option<Arc<NodeCapacity>>| it.as_ref().and_then(|it| it.largest());
        if largest(&change.current) > largest(&change.previous) {
            waiter.wake();
        }
    });
    let waiter = this.clone();
    this.nodes.on_change(move |change| {
        let is_open = |node: &Option<Arc<Node>>| node.as_deref().is_some_and(takes_pods);
        if is_open(&change.current) && !is_open(&change.previous) {
            waiter.wake();
        }
    });
    let shutdown = ctx.shutdown.clone();
    Box::pin(async move {
        this.claims.ready().await;
        this.volumes.ready().await;
        this.classes.ready().await;
        this.nodes.ready().await;
        this.capacities.ready().await;
        let work = work::call(&this, |this, key| async move { this.sync(key).await });
        this.queue.run("local_volumes", 1, &shutdown, work).await;
    })
}

impl LocalVolumes {
    async fn sync(&self, key: Key) -> Outcome {
        let Some(claim) = self.claims.by_key(&key) else {
            return Ok(None);
        };
        let class = self.classes.get("", claim.class());
        let is_local = class
            .as_ref()
            .is_some_and(|class| class.provisioner == DRIVER);
        let volume = match claim.spec.volume_name.as_str() {
            "" if !is_local => return Ok(None),
            "" => None,
            name => self.volumes.get("", name),
        };
        let has_node = claim.metadata.annotations.contains_key(SELECTED_NODE);
        let source = match &claim.spec.data_source_ref {
            Some(source) if volume.is_none() && !has_node => self.source(&key, source).await?,
            _ => CopySource::None,
        };
        let decision = decide(&ClaimSnapshot {
            claim: &claim,
            class: class.as_deref(),
            volume: volume.as_deref(),
            source,
        });
        let node = match (decision, class) {
            (NodeChoice::Nothing, _) | (NodeChoice::Choose, None) => return Ok(None),
            (NodeChoice::Wait, _) => return Ok(Some(SOURCE_AGAIN)),
            (NodeChoice::Select(node), _) => node,
            (NodeChoice::Choose, Some(class)) => match self.choose(&key, &claim, &class) {
                Some(node) => node,
                None => return Ok(Some(SPACE_AGAIN)),
            },
        };
        self.select(&claim, &node).await
    }

    /// Returns the node for a claim. One without a node waits for space.
    fn choose(&self, key: &Key, claim: &Claim, class: &StorageClass) -> Option<Text> {
        // Before the look, so that space which comes now wakes the claim.
        self.waiting().insert(key.clone());
        let (nodes, capacities) = (self.nodes.all(), self.capacities.all());
        let (volumes, claims) = (self.volumes.all(), self.claims.all());
        let chosen = choose(claim, class, &nodes, &capacities, &volumes, &claims);
        let about =
            ObjectReference::to_object(&resources::PERSISTENT_VOLUME_CLAIMS, &claim.metadata);
        if chosen.is_some() {
            self.waiting().remove(key);
            self.repeats.forget(&about);
            return chosen;
        }
        let why = no_space(claim, class, &nodes, &capacities);
        let reason = "ProvisioningFailed";
        if self.repeats.passes(&about, reason, why.cause()) {
            self.recorder.warning(&about, reason, why.to_string());
        }
        None
    }

    fn waiting(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks again at all claims that wait for space.
    fn wake(&self) {
        for key in std::mem::take(&mut *self.waiting()) {
            self.queue.add(key);
        }
    }

    async fn select(&self, claim: &Claim, node: &str) -> Outcome {
        let meta = &claim.metadata;
        // At the revision that was read: the scheduler may select a node, too.
        let patch = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version,
            "annotations": {SELECTED_NODE: node},
        }});
        let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
        work::merge(&self.client, resource, meta, "", &patch).await?;
        tracing::info!(namespace = %meta.namespace, claim = %meta.name, node, "node selected for claim");
        Ok(None)
    }

    /// Finds the source of a volume that is a copy.
    async fn source(&self, claim: &Key, source: &DataSource) -> Result<CopySource, Error> {
        if !source.namespace.is_empty() && source.namespace != claim.namespace {
            return Ok(CopySource::Foreign);
        }
        match (source.api_group.as_str(), source.kind.as_str()) {
            ("", "PersistentVolumeClaim") => Ok(self.source_claim(&claim.namespace, &source.name)),
            (SNAPSHOT_GROUP, "VolumeSnapshot") => {
                self.source_snapshot(&claim.namespace, &source.name).await
            }
            _ => Ok(CopySource::Foreign),
        }
    }

    fn source_claim(&self, namespace: &str, name: &str) -> CopySource {
        let claim = self.claims.get(namespace, name);
        let volume = claim.and_then(|claim| {
            let volume = self.volumes.get("", &claim.spec.volume_name)?;
            volume.is_bound_to(&claim).then_some(volume)
        });
        match volume.as_deref().map(node_of) {
            None => CopySource::Pending,
            Some(Some(node)) => CopySource::On(node.into()),
            Some(None) => CopySource::Foreign,
        }
    }

    async fn source_snapshot(&self, namespace: &str, name: &str) -> Result<CopySource, Error> {
        let resource = &SnapshotView::RESOURCE;
        let found = self
            .client
            .get::<SnapshotView>(resource, namespace, name)
            .await;
        let Some(snapshot) = unless_absent(found)? else {
            return Ok(CopySource::Pending);
        };
        let ready = snapshot.status.ready_to_use == Some(true);
        let content = snapshot.status.bound_volume_snapshot_content_name;
        let Some(content) = content.filter(|_| ready) else {
            return Ok(CopySource::Pending);
        };
        let resource = &SnapshotContent::RESOURCE;
        let found = self
            .client
            .get::<SnapshotContent>(resource, "", &content)
            .await;
        let Some(content) = unless_absent(found)? else {
            return Ok(CopySource::Pending);
        };
        if content.spec.volume_snapshot_ref.uid != snapshot.metadata.uid {
            return Ok(CopySource::Pending);
        }
        let node = content.metadata.labels.get(MANAGED_BY);
        Ok(match node.filter(|_| content.spec.driver == DRIVER) {
            Some(node) => CopySource::On(node.into()),
            None => CopySource::Foreign,
        })
    }
}
