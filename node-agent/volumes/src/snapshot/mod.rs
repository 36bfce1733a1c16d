//! Snapshots of this node's volumes: what the snapshot controller and the driver's sidecar
//! do elsewhere, a loop for each.

mod decide;
mod views;

use std::sync::Arc;
use std::time::Duration;

use control_client::events::ObjectReference;
use control_client::{DeleteOptions, Discard, Queue, Reflector, Selection, View, reflect};
use csi_api as api;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::shared::{Key, REST, Shared, queue, queue_latest};
use crate::standby::Duty;
use crate::views::Claim;
use decide::{
    BEING_DELETED, CONTENT_PROTECTION, ContentStep, SnapshotState, SnapshotStep, content_name,
    content_status, decide_content, decide_snapshot, driver_parameters,
};
use views::{Content, MANAGED_BY, Snapshot, SnapshotClass};

/// How often it is looked whether the kinds of snapshots are defined.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Objects at a time.
const WORKERS: usize = 2;

struct Snapshots {
    shared: Arc<Shared>,
    snapshots: Reflector<Snapshot>,
    /// Those in the storage of this node.
    contents: Reflector<Content>,
    classes: Reflector<SnapshotClass>,
    /// Snapshots have a namespace, contents have none.
    queue: Queue<Key>,
}

/// Runs both loops until `shutdown`, once the kinds are defined.
pub async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    while !matches!(shared.client.serves(&Content::RESOURCE).await, Ok(true)) {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    shared.synced().await;
    let client = &shared.client;
    let this = Arc::new(Snapshots {
        snapshots: reflect(client, Selection::all()),
        contents: reflect(
            client,
            Selection::all().labels(format!("{MANAGED_BY}={}", shared.node)),
        ),
        classes: reflect(client, Selection::all()),
        queue: queue(),
        shared: shared.clone(),
    });
    this.snapshots.synced().await;
    this.contents.synced().await;
    this.classes.synced().await;
    let worker = this.clone();
    let work = move |key: Key| {
        let this = worker.clone();
        async move {
            if key.namespace.is_empty() {
                this.sync_content(&key).await
            } else {
                this.sync_snapshot(&key).await
            }
        }
    };
    tokio::select! {
        () = this.queue.run("volume-snapshots", WORKERS, &shutdown, work) => {}
        () = this.follow() => {}
    }
}

/// Returns the driver's source for a claim that is restored from a snapshot.
///
/// # Errors
/// Why it cannot be restored here.
pub async fn restore_source(
    shared: &Shared,
    claim: &Claim,
    name: &str,
) -> Result<api::VolumeContentSource> {
    let client = &shared.client;
    let namespace = &claim.metadata.namespace;
    let snapshot: Snapshot = client
        .get(&Snapshot::RESOURCE, namespace, name)
        .await
        .map_err(Error::api("read the VolumeSnapshot of the claim"))?;
    let content = match &snapshot.status.bound_volume_snapshot_content_name {
        None => None,
        Some(name) => match client.get::<Content>(&Content::RESOURCE, "", name).await {
            Ok(content) => Some(content),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(Error::api("read the VolumeSnapshotContent")(error)),
        },
    };
    decide::restore_source(claim, &snapshot, content.as_ref(), &shared.node)
}

impl Snapshots {
    async fn follow(&self) {
        let mut snapshots = self.snapshots.changes();
        let mut contents = self.contents.changes();
        let mut classes = self.classes.changes();
        let mut claims = self.shared.claims.changes();
        loop {
            tokio::select! {
                change = snapshots.recv() => {
                    let Some(change) = change else { return };
                    queue_latest(&self.queue, &change);
                }
                change = contents.recv() => {
                    let Some(change) = change else { return };
                    queue_latest(&self.queue, &change);
                    if let Some(content) = change.latest() {
                        let reference = &content.spec.volume_snapshot_ref;
                        self.queue.add(Key {
                            namespace: reference.namespace.as_str().into(),
                            name: reference.name.as_str().into(),
                        });
                    }
                }
                change = classes.recv() => {
                    if change.is_none() {
                        return;
                    }
                    for snapshot in self.snapshots.cache().snapshot().iter() {
                        self.queue.add(Key::of(&snapshot.metadata));
                    }
                }
                change = claims.recv() => {
                    let Some(change) = change else { return };
                    // Snapshots of claims that had no volume before.
                    let has_volume = |claim: &Arc<Claim>| !claim.spec.volume_name.is_empty();
                    let is_new = change.current.as_ref().is_some_and(has_volume)
                        && !change.previous.as_ref().is_some_and(has_volume);
                    let claim = change.current.filter(|_| is_new);
                    let Some(claim) = claim else { continue };
                    let snapshots = self.snapshots.cache().snapshot();
                    for snapshot in snapshots.namespace(&claim.metadata.namespace) {
                        self.queue.add(Key::of(&snapshot.metadata));
                    }
                }
            }
        }
    }

    async fn sync_snapshot(&self, key: &Key) -> Result<Option<Duration>> {
        let shared = &self.shared;
        let Some(snapshot) = self.snapshots.cache().get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let source = &snapshot.spec.source;
        let made = content_name(&snapshot);
        let content = source
            .volume_snapshot_content_name
            .as_ref()
            .unwrap_or(&made);
        let content = self.contents.cache().get("", content);
        let claim = source.persistent_volume_claim_name.as_ref();
        let claim = claim.and_then(|name| shared.claims.cache().get(&key.namespace, name));
        let volume = claim.as_ref().and_then(|claim| {
            let volume = shared.volumes.cache().get("", &claim.spec.volume_name);
            volume.filter(|volume| volume.is_of(&claim.metadata))
        });
        let classes: Vec<_> = self.classes.cache().snapshot().iter().cloned().collect();
        let step = decide_snapshot(&SnapshotState {
            snapshot: &snapshot,
            content: content.as_deref(),
            claim: claim.as_deref(),
            volume: volume.as_deref(),
            classes: &classes,
            node: &shared.node,
        });
        if step == SnapshotStep::Nothing {
            return Ok(None);
        }
        if !shared.standby.is_ours(Duty::Snapshot) {
            return Ok(Some(REST / 10));
        }
        if content.is_none() && self.is_elsewhere(&snapshot).await? {
            return Ok(None);
        }
        self.take(&snapshot, content.as_deref(), step).await?;
        Ok(None)
    }

    async fn take(
        &self,
        snapshot: &Snapshot,
        content: Option<&Content>,
        step: SnapshotStep,
    ) -> Result<()> {
        let shared = &self.shared;
        let about = ObjectReference::of(&Snapshot::RESOURCE, &snapshot.metadata);
        match step {
            SnapshotStep::Nothing => {}
            SnapshotStep::SetFinalizers(finalizers) => {
                let patch = json!({"metadata": {"finalizers": finalizers}});
                let what = "write the finalizers of the VolumeSnapshot";
                shared.patch(what, snapshot, "", patch).await?;
            }
            SnapshotStep::SetClass(class) => {
                let patch = json!({"spec": {"volumeSnapshotClassName": class}});
                let what = "write the class of the VolumeSnapshot";
                shared.patch(what, snapshot, "", patch).await?;
            }
            SnapshotStep::CreateContent(object) => {
                let message = format!(
                    "Waiting for a snapshot {}/{} to be created by the CSI driver.",
                    snapshot.metadata.namespace, snapshot.metadata.name
                );
                shared.recorder.normal(&about, "CreatingSnapshot", message);
                let resource = &Content::RESOURCE;
                let created = shared.client.create::<Discard>(resource, "", &object).await;
                match created {
                    Err(error) if !error.is_already_exists() => {
                        return Err(Error::api("create the VolumeSnapshotContent")(error));
                    }
                    _ => {}
                }
            }
            SnapshotStep::BindContent => {
                if let Some(content) = content {
                    let uid = &snapshot.metadata.uid;
                    let mut reference = json!({"namespace": snapshot.metadata.namespace,
                        "name": snapshot.metadata.name, "uid": uid});
                    reference["apiVersion"] = json!("snapshot.storage.k8s.io/v1");
                    reference["kind"] = json!("VolumeSnapshot");
                    let patch = json!({"spec": {"volumeSnapshotRef": reference}});
                    let what = "bind the VolumeSnapshotContent";
                    shared.patch(what, content, "", patch).await?;
                }
            }
            SnapshotStep::DeleteContent { mark, delete } => {
                if let Some(content) = content {
                    self.delete_content(content, mark, delete).await?;
                }
            }
            SnapshotStep::SetStatus(status) => {
                let was_ready = snapshot.status.ready_to_use == Some(true);
                let is_ready = status["readyToUse"] == true;
                let patch = json!({"status": status});
                let what = "write the status of the VolumeSnapshot";
                shared.patch(what, snapshot, "status", patch).await?;
                if is_ready && !was_ready {
                    let (namespace, name) = (&snapshot.metadata.namespace, &snapshot.metadata.name);
                    for (reason, what) in [
                        (
                            "SnapshotCreated",
                            "was successfully created by the CSI driver.",
                        ),
                        ("SnapshotReady", "is ready to use."),
                    ] {
                        let message = format!("Snapshot {namespace}/{name} {what}");
                        shared.recorder.normal(&about, reason, message);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a snapshot has a content that the cache does not show: that of another node,
    /// which does what is to be done, or one that is new.
    async fn is_elsewhere(&self, snapshot: &Snapshot) -> Result<bool> {
        let made = content_name(snapshot);
        let source = &snapshot.spec.source.volume_snapshot_content_name;
        let name = source.as_ref().unwrap_or(&made);
        let client = &self.shared.client;
        match client.get::<Discard>(&Content::RESOURCE, "", name).await {
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(Error::api("read the VolumeSnapshotContent")(error)),
            Ok(_) => Ok(true),
        }
    }

    async fn delete_content(&self, content: &Content, mark: bool, delete: bool) -> Result<()> {
        let shared = &self.shared;
        if mark {
            let patch = json!({"metadata": {"annotations": {BEING_DELETED: "yes"}}});
            let what = "mark the VolumeSnapshotContent";
            shared.patch(what, content, "", patch).await?;
        }
        if !delete || content.metadata.is_terminating() {
            return Ok(());
        }
        let options = DeleteOptions::of_uid(content.metadata.uid.as_str());
        let name = &content.metadata.name;
        let deleted = shared
            .client
            .delete(&Content::RESOURCE, "", name, &options)
            .await;
        match deleted {
            Err(error) if !error.is_not_found() => {
                Err(Error::api("delete the VolumeSnapshotContent")(error))
            }
            _ => Ok(()),
        }
    }

    async fn sync_content(&self, key: &Key) -> Result<Option<Duration>> {
        let shared = &self.shared;
        let Some(content) = self.contents.cache().get("", &key.name) else {
            return Ok(None);
        };
        let step = decide_content(&content, &shared.node);
        if step == ContentStep::Nothing {
            return Ok(None);
        }
        if !shared.standby.is_ours(Duty::SnapshotContent) {
            return Ok(Some(REST / 10));
        }
        match step {
            ContentStep::Nothing => {}
            ContentStep::AddFinalizer => self.keep(&content, true).await?,
            ContentStep::RemoveFinalizer => self.keep(&content, false).await?,
            ContentStep::Delete { snapshot } => {
                let request = api::DeleteSnapshotRequest {
                    snapshot_id: snapshot,
                    secrets: Default::default(),
                };
                if let Err(error) = shared.driver.delete_snapshot(request).await {
                    let message = "Failed to delete snapshot";
                    self.fail(&content, "SnapshotDeleteError", message, &error.to_string())
                        .await?;
                    return Err(error.into());
                }
                shared.space_changed.notify_one();
                shared.space_freed.notify_one();
                self.keep(&content, false).await?;
            }
            ContentStep::Create { name, volume } => {
                let class = self.classes.cache();
                let class = class.get("", content.class());
                let request = api::CreateSnapshotRequest {
                    source_volume_id: volume,
                    name,
                    secrets: Default::default(),
                    parameters: driver_parameters(class.as_deref()),
                    accessibility_requirements: None,
                };
                match shared.driver.create_snapshot(request).await {
                    Ok(snapshot) => self.report(&content, content_status(&snapshot)).await?,
                    Err(error) => {
                        let message = "Failed to create snapshot";
                        let reason = "SnapshotCreationFailed";
                        self.fail(&content, reason, message, &error.to_string())
                            .await?;
                        return Err(error.into());
                    }
                }
                shared.space_changed.notify_one();
            }
            ContentStep::Describe { snapshot } => match shared.driver.snapshot(&snapshot).await {
                Ok(snapshot) => self.report(&content, content_status(&snapshot)).await?,
                Err(error) => {
                    let message = "Failed to check and update snapshot content";
                    let reason = "SnapshotContentCheckandUpdateFailed";
                    self.fail(&content, reason, message, &error.to_string())
                        .await?;
                    return Err(error.into());
                }
            },
        }
        Ok(None)
    }

    /// Writes the finalizer of a content, or removes it.
    async fn keep(&self, content: &Content, keep: bool) -> Result<()> {
        let all = content.metadata.finalizers.iter();
        let all = all.filter(|it| *it != CONTENT_PROTECTION);
        let mut all: Vec<String> = all.map(ToString::to_string).collect();
        if keep {
            all.push(CONTENT_PROTECTION.to_owned());
        }
        let patch = json!({"metadata": {"finalizers": all}});
        let what = "write the finalizers of the VolumeSnapshotContent";
        self.shared.patch(what, content, "", patch).await.map(drop)
    }

    async fn report(&self, content: &Content, status: Value) -> Result<()> {
        let patch = json!({"status": status});
        let what = "write the status of the VolumeSnapshotContent";
        self.shared
            .patch(what, content, "status", patch)
            .await
            .map(drop)
    }

    async fn fail(&self, content: &Content, reason: &str, what: &str, why: &str) -> Result<()> {
        let message = format!("{what}: {why}");
        let about = ObjectReference::of(&Content::RESOURCE, &content.metadata);
        self.shared
            .recorder
            .warning(&about, reason, message.clone());
        let before = content.status.error.as_ref();
        if before.is_some_and(|before| before["message"] == message.as_str()) {
            return Ok(());
        }
        let time = control_client::time::seconds(Timestamp::now());
        let error = json!({"time": time, "message": message});
        let status = json!({"readyToUse": false, "error": error});
        self.report(content, status).await
    }
}
