//! VolumeSnapshots of the nodes' own driver: what the stock snapshot controller does, for
//! this driver alone. The nodes' part is that of external-snapshotter: a node takes,
//! describes and deletes the snapshots of contents that are labelled with its name.
//!
//! ```text
//! VolumeSnapshot ──▶ decide ──▶ VolumeSnapshotContent, labelled with the volume's node
//!        ▲                                 │
//!        └───────── status ◀───── the node's driver
//! ```
//!
//! A content that somebody made for a snapshot that exists has no label yet. It gets that
//! of the node which the snapshot's identifier names (`ID@NODE`): nodes do not claim
//! contents, since a node that did could have its own data restored in place of others'.
//!
//! The controller rests while a stock snapshot controller renews its lease.

mod decide;
mod views;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::lease::{Lease, ObservedLease};
use control_client::{
    Backoff, Change, Client, DeleteOptions, Discard, Error, Meta, Queue, Reflector, Resource,
    Selection, View, reflect, resources,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::decide::{
    BEING_DELETED, SnapshotState, SnapshotStep, content_name, decide_snapshot, node_of_content,
};
use self::views::SnapshotClass;
pub(super) use self::views::{MANAGED_BY, SnapshotContent, SnapshotView};
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Claim, Volume};
use crate::volumes::local::{DRIVER, node_of};
use crate::work::{self, Outcome};

/// Keeps VolumeSnapshots of local volumes and their contents together.
pub const CONTROLLER: Controller = Controller {
    name: NAME,
    service_account: NAME,
    start,
};

const NAME: &str = "volume-snapshot-controller";
/// The lease of a stock snapshot controller.
const STOCK: (&str, &str) = ("kube-system", "snapshot-controller-leader");
/// How often that lease is read.
const LOOK_EVERY: Duration = Duration::from_secs(20);
/// How long work rests before it is looked again whether a stock controller does it.
const REST: Duration = Duration::from_secs(5);
/// How long until discovery is read again for the kinds of snapshots, at first and at most.
const UNDEFINED: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// Objects at a time.
const WORKERS: usize = 4;

struct Snapshots {
    client: Client,
    recorder: Recorder,
    claims: Arc<KindCache<Claim>>,
    volumes: Arc<KindCache<Volume>>,
    snapshots: Reflector<SnapshotView>,
    contents: Reflector<SnapshotContent>,
    classes: Reflector<SnapshotClass>,
    /// The stock controller's lease, once it was read.
    stock: Mutex<Option<ObservedLease>>,
    /// Keys of snapshots; of contents, which have no namespace; and of namespaces, which
    /// stand for all their snapshots.
    queue: Queue<Key>,
}

fn start(ctx: &Context) -> BoxFuture<'static, ()> {
    let (claims, volumes) = (ctx.claims(), ctx.volumes());
    let queue = work::queue();
    let wake = queue.clone();
    claims.on_change(move |change| {
        // Snapshots of claims that had no volume before.
        let has_volume = |claim: &Arc<Claim>| !claim.spec.volume_name.is_empty();
        let is_new = change.current.as_ref().is_some_and(has_volume)
            && !change.previous.as_ref().is_some_and(has_volume);
        if let Some(claim) = change.current.as_ref().filter(|_| is_new) {
            wake.add(Key::new(claim.metadata.namespace.clone(), ""));
        }
    });
    let wake = queue.clone();
    volumes.on_change(move |change| {
        let is_bound = |volume: &Arc<Volume>| volume.spec.claim_ref.is_some();
        let was_bound = change.previous.as_ref().is_some_and(is_bound);
        let volume = change.current.as_ref().filter(|it| node_of(it).is_some());
        let claim = volume.and_then(|volume| volume.spec.claim_ref.as_ref());
        if let Some(claim) = claim.filter(|_| !was_bound) {
            wake.add(Key::new(claim.namespace.clone(), ""));
        }
    });
    let (client, reader) = (ctx.client.clone(), ctx.reader().clone());
    let recorder = ctx.recorder(NAME);
    let shutdown = ctx.shutdown.clone();
    Box::pin(async move {
        if !defined(&reader, &shutdown).await {
            return;
        }
        let this = Arc::new(Snapshots {
            snapshots: reflect(&reader, Selection::all()),
            contents: reflect(&reader, Selection::all()),
            classes: reflect(&reader, Selection::all()),
            stock: Mutex::default(),
            client,
            recorder,
            claims,
            volumes,
            queue,
        });
        this.run(&shutdown).await;
    })
}

/// Waits until the kinds of snapshots are defined. Returns false at `shutdown`.
async fn defined(client: &Client, shutdown: &CancellationToken) -> bool {
    let mut backoff = Backoff::new(UNDEFINED[0], UNDEFINED[1]);
    loop {
        match client.serves(&SnapshotContent::RESOURCE).await {
            Ok(true) => return true,
            Ok(false) => {}
            Err(error) => tracing::debug!(error = error.chain(), "failed to read discovery"),
        }
        tokio::select! {
            () = shutdown.cancelled() => return false,
            () = tokio::time::sleep(backoff.after_failure()) => {}
        }
    }
}

impl Snapshots {
    async fn run(self: &Arc<Self>, shutdown: &CancellationToken) {
        let synced = async {
            self.claims.ready().await;
            self.volumes.ready().await;
            self.snapshots.synced().await;
            self.contents.synced().await;
            self.classes.synced().await;
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = synced => {}
        }
        let work = work::call(self, |this, key| async move { this.sync(key).await });
        let work = self.queue.run("volume_snapshots", WORKERS, shutdown, work);
        let mut work = std::pin::pin!(work);
        tokio::select! {
            () = &mut work => return,
            () = self.follow() => {}
            () = self.watch_stock() => {}
        }
        work.await;
    }

    async fn follow(&self) {
        let mut snapshots = self.snapshots.changes();
        let mut contents = self.contents.changes();
        let mut classes = self.classes.changes();
        loop {
            tokio::select! {
                change = snapshots.recv() => {
                    let Some(change) = change else { return };
                    self.queue_latest(&change);
                }
                change = contents.recv() => {
                    let Some(change) = change else { return };
                    self.queue_latest(&change);
                    if let Some(content) = change.latest() {
                        let reference = &content.spec.volume_snapshot_ref;
                        self.queue.add(Key::new(
                            reference.namespace.clone(),
                            reference.name.clone(),
                        ));
                    }
                }
                change = classes.recv() => {
                    if change.is_none() {
                        return;
                    }
                    for snapshot in self.snapshots.cache().snapshot().iter() {
                        self.queue.add(Key::from_meta(&snapshot.metadata));
                    }
                }
            }
        }
    }

    fn queue_latest<V: View>(&self, change: &Change<V>) {
        if let Some(object) = change.latest() {
            self.queue.add(Key::from_meta(object.meta()));
        }
    }

    /// Follows the lease of a stock snapshot controller.
    async fn watch_stock(&self) {
        loop {
            let (namespace, name) = STOCK;
            let resource = &resources::LEASES;
            let read = self.client.get::<Lease>(resource, namespace, name).await;
            match unless_absent(read) {
                Ok(lease) => {
                    let now = Instant::now();
                    let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
                    match &mut *stock {
                        Some(stock) => stock.observe(lease, now),
                        none => *none = Some(ObservedLease::new(lease, now)),
                    }
                }
                Err(error) => {
                    tracing::debug!(name, error = error.chain(), "failed to read a lease");
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Whether no stock snapshot controller works: no until its lease was read once.
    fn is_ours(&self) -> bool {
        let stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        stock
            .as_ref()
            .is_some_and(|stock| !stock.is_held(Instant::now(), LOOK_EVERY))
    }

    async fn sync(&self, key: Key) -> Outcome {
        match (key.namespace.as_str(), key.name.as_str()) {
            ("", _) => self.sync_content(&key).await,
            (namespace, "") => {
                for snapshot in self.snapshots.cache().snapshot().namespace(namespace) {
                    self.queue.add(Key::from_meta(&snapshot.metadata));
                }
                Ok(None)
            }
            _ => self.sync_snapshot(&key).await,
        }
    }

    /// Labels a content with the node that has its storage. A stock snapshot controller
    /// only labels contents that it created, so this runs beside it, too.
    async fn sync_content(&self, key: &Key) -> Outcome {
        let Some(content) = self.contents.cache().get("", &key.name) else {
            return Ok(None);
        };
        let meta = &content.metadata;
        if content.spec.driver != DRIVER
            || meta.labels.contains_key(MANAGED_BY)
            || meta.is_terminating()
        {
            return Ok(None);
        }
        let volumes = self.volumes.all();
        let Some(node) = node_of_content(&content, &volumes) else {
            let about = ObjectReference::to_object(&SnapshotContent::RESOURCE, meta);
            let message = format!(
                "its source does not tell which node has it: label it with {MANAGED_BY}=NODE"
            );
            self.recorder
                .warning(&about, "SnapshotNodeUnknown", message);
            return Ok(None);
        };
        let patch = json!({"metadata": {"labels": {MANAGED_BY: node}}});
        self.patch(&*content, "", patch).await?;
        tracing::info!(content = %meta.name, node, "node of snapshot content labelled");
        Ok(None)
    }

    async fn sync_snapshot(&self, key: &Key) -> Outcome {
        let Some(snapshot) = self.snapshots.cache().get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let source = &snapshot.spec.source;
        let name = match &source.volume_snapshot_content_name {
            Some(name) => name.clone(),
            None => content_name(&snapshot).into(),
        };
        let content = self.contents.cache().get("", &name);
        let claim = source.persistent_volume_claim_name.as_ref();
        let claim = claim.and_then(|name| self.claims.get(&key.namespace, name));
        let volume = claim.as_ref().and_then(|claim| {
            let volume = self.volumes.get("", &claim.spec.volume_name);
            volume.filter(|volume| volume.is_bound_to(claim))
        });
        let classes: Vec<_> = self.classes.cache().snapshot().iter().cloned().collect();
        let step = decide_snapshot(&SnapshotState {
            snapshot: &snapshot,
            content: content.as_deref(),
            claim: claim.as_deref(),
            volume: volume.as_deref(),
            classes: &classes,
        });
        if step == SnapshotStep::Nothing {
            return Ok(None);
        }
        if !self.is_ours() {
            return Ok(Some(REST));
        }
        if content.is_none() && self.has_content(&name).await? {
            // The cache is behind; its event comes.
            return Ok(None);
        }
        self.take(&snapshot, content.as_deref(), step).await?;
        Ok(None)
    }

    async fn has_content(&self, name: &str) -> Result<bool, Error> {
        let resource = &SnapshotContent::RESOURCE;
        let found = self.client.get::<Discard>(resource, "", name).await;
        Ok(unless_absent(found)?.is_some())
    }

    async fn take(
        &self,
        snapshot: &SnapshotView,
        content: Option<&SnapshotContent>,
        step: SnapshotStep,
    ) -> Result<(), Error> {
        let (namespace, name) = (&snapshot.metadata.namespace, &snapshot.metadata.name);
        let about = ObjectReference::to_object(&SnapshotView::RESOURCE, &snapshot.metadata);
        match (step, content) {
            (SnapshotStep::SetFinalizers(finalizers), _) => {
                let patch = json!({"metadata": {"finalizers": finalizers}});
                self.patch(snapshot, "", patch).await
            }
            (SnapshotStep::SetClass(class), _) => {
                let patch = json!({"spec": {"volumeSnapshotClassName": class}});
                self.patch(snapshot, "", patch).await
            }
            (SnapshotStep::CreateContent(object), _) => {
                let message = format!(
                    "Waiting for a snapshot {namespace}/{name} to be created by the CSI driver."
                );
                self.recorder.normal(&about, "CreatingSnapshot", message);
                let resource = &SnapshotContent::RESOURCE;
                let created = self.client.create::<Discard>(resource, "", &object).await;
                work::unless_overtaken(created).map(drop)
            }
            (SnapshotStep::BindContent, Some(content)) => {
                let reference = json!({
                    "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                    "namespace": namespace, "name": name, "uid": snapshot.metadata.uid,
                });
                let patch = json!({"spec": {"volumeSnapshotRef": reference}});
                self.patch(content, "", patch).await
            }
            (SnapshotStep::DeleteContent { mark, delete }, Some(content)) => {
                self.delete_content(content, mark, delete).await
            }
            (SnapshotStep::SetStatus(status), _) => {
                let was_ready = snapshot.status.ready_to_use == Some(true);
                let is_ready = status["readyToUse"] == true;
                let patch = json!({"status": status});
                self.patch(snapshot, "status", patch).await?;
                if is_ready && !was_ready {
                    let created = "was successfully created by the CSI driver.";
                    for (reason, what) in [
                        ("SnapshotCreated", created),
                        ("SnapshotReady", "is ready to use."),
                    ] {
                        let message = format!("Snapshot {namespace}/{name} {what}");
                        self.recorder.normal(&about, reason, message);
                    }
                }
                Ok(())
            }
            (SnapshotStep::Nothing, _)
            | (SnapshotStep::BindContent | SnapshotStep::DeleteContent { .. }, None) => Ok(()),
        }
    }

    async fn delete_content(
        &self,
        content: &SnapshotContent,
        mark: bool,
        delete: bool,
    ) -> Result<(), Error> {
        if mark {
            let patch = json!({"metadata": {"annotations": {BEING_DELETED: "yes"}}});
            self.patch(content, "", patch).await?;
        }
        if !delete || content.metadata.is_terminating() {
            return Ok(());
        }
        let options = DeleteOptions::of_uid(content.metadata.uid.as_str());
        let name = &content.metadata.name;
        let resource = &SnapshotContent::RESOURCE;
        let deleted = self.client.delete(resource, "", name, &options).await;
        work::unless_gone(deleted)
    }

    /// Merges a patch into an object at the revision that was read.
    async fn patch<V: View>(&self, object: &V, part: &str, mut patch: Value) -> Result<(), Error> {
        let meta: &Meta = object.meta();
        patch["metadata"]["uid"] = json!(meta.uid);
        patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
        let resource: &Resource = &V::RESOURCE;
        work::merge(&self.client, resource, meta, part, &patch).await
    }
}

/// Takes an object that does not exist for none.
pub(super) fn unless_absent<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
