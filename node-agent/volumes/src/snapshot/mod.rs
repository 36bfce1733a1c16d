//! Snapshots of this node's volumes: what external-snapshotter does beside other drivers.
//! VolumeSnapshots themselves are the business of `volume-snapshot-controller`, which
//! makes and labels their contents.

mod decide;
mod views;

use std::sync::Arc;
use std::time::Duration;

use control_client::events::ObjectReference;
use control_client::{Queue, Reflector, View};
use csi_api as api;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::shared::{Key, LoopContext, REST, queue, queue_latest};
use crate::standby::Duty;
use crate::views::Claim;
use decide::{CONTENT_PROTECTION, ContentStep, content_status, decide_content, driver_parameters};
use views::{Content, Snapshot, SnapshotClass};

/// How often it is looked whether the kinds of snapshots are defined.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Objects at a time.
const WORKERS: usize = 2;

struct Snapshots {
    shared: Arc<LoopContext>,
    /// Those in the storage of this node.
    contents: Reflector<Content>,
    classes: Reflector<SnapshotClass>,
    queue: Queue<Key>,
}

/// Runs the loop until `shutdown`, once the kinds are defined.
pub async fn run(shared: Arc<LoopContext>, shutdown: CancellationToken) {
    while !matches!(shared.client.serves(&Content::RESOURCE).await, Ok(true)) {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    shared.synced().await;
    let this = Arc::new(Snapshots {
        contents: shared.informers.subscribe(),
        classes: shared.informers.subscribe(),
        queue: queue(),
        shared: shared.clone(),
    });
    this.contents.synced().await;
    this.classes.synced().await;
    let worker = this.clone();
    let work = move |key: Key| {
        let this = worker.clone();
        async move { this.sync_content(&key).await }
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
    shared: &LoopContext,
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
        let mut contents = self.contents.changes();
        while let Some(change) = contents.recv().await {
            queue_latest(&self.queue, &change);
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
        let about = ObjectReference::to_object(&Content::RESOURCE, &content.metadata);
        self.shared.warn(&about, reason, why, message.clone());
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
