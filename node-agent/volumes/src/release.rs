//! Deletes the storage of released volumes whose reclaim policy is `Delete`.

use std::sync::Arc;
use std::time::Duration;

use control_client::events::ObjectReference;
use control_client::{DeleteOptions, Queue, Selection, resources};
use csi_api as api;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::driver::NAME;
use crate::error::{Error, Result};
use crate::provision::{
    DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, FINALIZER, PROVISIONED_BY,
};
use crate::shared::{Key, LoopContext, REST, queue, queue_latest};
use crate::standby::Duty;
use crate::views::{LOCAL_VOLUMES, SecretReference, Volume};

/// Volumes at a time.
const WORKERS: usize = 2;

/// A volume whose storage is to be deleted.
#[derive(Debug, PartialEq, Eq)]
struct Deletion {
    /// The driver's identifier.
    handle: String,
    /// Secret for the call.
    secret: Option<SecretReference>,
}

/// Decides whether the storage of a volume is to be deleted by the driver on `node`.
fn decide(volume: &Volume, node: &str) -> Option<Deletion> {
    let annotations = &volume.metadata.annotations;
    let has_finalizer = volume.metadata.finalizers.iter().any(|it| it == FINALIZER);
    let is_due = volume.status.phase == "Released"
        && volume.spec.persistent_volume_reclaim_policy == "Delete"
        && annotations.get(PROVISIONED_BY) == Some(NAME)
        // One that is going without the finalizer is somebody else's work.
        && (!volume.metadata.is_terminating() || has_finalizer);
    let handle = volume.handle_on(node).filter(|_| is_due)?;
    let part = |key| annotations.get(key).filter(|text| !text.is_empty());
    let secret = part(DELETION_SECRET_NAME).zip(part(DELETION_SECRET_NAMESPACE));
    Some(Deletion {
        handle: handle.to_owned(),
        secret: secret.map(|(name, namespace)| SecretReference {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        }),
    })
}

struct Releaser {
    shared: Arc<LoopContext>,
    queue: Queue<Key>,
}

/// Runs until `shutdown`.
pub async fn run(shared: Arc<LoopContext>, shutdown: CancellationToken) {
    shared.synced().await;
    let this = Arc::new(Releaser {
        shared,
        queue: queue(),
    });
    let worker = this.clone();
    let work = move |key| {
        let this = worker.clone();
        async move { this.sync(key).await }
    };
    let follow = async {
        let mut volumes = this.shared.volumes.changes();
        while let Some(change) = volumes.recv().await {
            queue_latest(&this.queue, &change);
        }
    };
    tokio::select! {
        () = this.queue.run("volume-releaser", WORKERS, &shutdown, work) => {}
        () = follow => {}
    }
}

impl Releaser {
    async fn sync(&self, key: Key) -> Result<Option<Duration>> {
        let shared = &self.shared;
        let Some(volume) = shared.volumes.cache().get("", &key.name) else {
            return Ok(None);
        };
        let Some(deletion) = decide(&volume, &shared.node) else {
            return Ok(None);
        };
        if !shared.standby.is_ours(Duty::Provision) {
            return Ok(Some(REST / 10));
        }
        if let Err(error) = self.delete(&deletion).await {
            let about =
                ObjectReference::to_object(&resources::PERSISTENT_VOLUMES, &volume.metadata);
            shared
                .recorder
                .warning(&about, "VolumeFailedDelete", error.chain());
            return Err(error);
        }
        shared.space_changed.notify_one();
        shared.space_freed.notify_one();
        self.remove(&volume).await?;
        tracing::info!(volume = %key.name, "volume deleted");
        Ok(None)
    }

    async fn delete(&self, deletion: &Deletion) -> Result<()> {
        let secrets = self.shared.secret(deletion.secret.as_ref()).await?;
        let request = api::DeleteVolumeRequest {
            volume_id: deletion.handle.clone(),
            secrets,
        };
        Ok(self.shared.driver.delete_volume(request).await?)
    }

    /// Removes the object, whose storage is gone.
    async fn remove(&self, volume: &Volume) -> Result<()> {
        let (resource, meta) = (&resources::PERSISTENT_VOLUMES, &volume.metadata);
        let client = &self.shared.client;
        let options = DeleteOptions::of_uid(meta.uid.as_str());
        match client.delete(resource, "", &meta.name, &options).await {
            Err(error) if !error.is_not_found() => {
                return Err(Error::api("delete the PersistentVolume")(error));
            }
            _ => {}
        }
        // Not by get, which the node authorizer allows for volumes of the node's pods only.
        let fields = format!(
            "metadata.name={},spec.nodeName={}",
            meta.name, self.shared.node
        );
        let selection = Selection::all().fields(fields);
        let found = client.list::<Volume>(&LOCAL_VOLUMES, &selection).await;
        let found = found.map_err(Error::api("read the PersistentVolume"))?;
        let mut found = found.items.into_iter();
        let Some(now) = found.find(|it| it.metadata.uid == meta.uid) else {
            return Ok(());
        };
        let mut finalizers = now.metadata.finalizers.clone();
        finalizers.retain(|it| it != FINALIZER);
        if finalizers.len() == now.metadata.finalizers.len() {
            return Ok(());
        }
        let patch = json!({"metadata": {"finalizers": finalizers}});
        let what = "remove the finalizer of the PersistentVolume";
        let at = (resource, &now.metadata);
        self.shared.patch_blindly(what, at, "", patch).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::volume;

    #[test]
    fn storage_is_deleted_of_released_volumes_of_this_node_whose_policy_says_so() {
        let with = |pointer: &str, value: Value| {
            let mut object = volume("n1");
            object["status"]["phase"] = json!("Released");
            *object.pointer_mut(pointer).expect("a field") = value;
            let volume: Volume = serde_json::from_value(object).expect("a volume");
            decide(&volume, "n1")
        };
        let due = with("/status/phase", json!("Released"));
        assert_eq!(due.expect("it is due").handle, "pvc-u1");
        for (pointer, value) in [
            ("/status/phase", json!("Bound")),
            ("/spec/persistentVolumeReclaimPolicy", json!("Retain")),
            ("/spec/csi/driver", json!("other.example.com")),
            ("/metadata/annotations", json!({})),
            (
                "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values",
                json!(["n2"]),
            ),
        ] {
            assert_eq!(with(pointer, value.clone()), None, "{pointer} {value}");
        }
        let mut going = volume("n1");
        going["status"]["phase"] = json!("Released");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let decided = |object: &Value| {
            let volume: Volume = serde_json::from_value(object.clone()).expect("a volume");
            decide(&volume, "n1")
        };
        assert!(decided(&going).is_some());
        going["metadata"]["finalizers"] = json!([]);
        assert!(decided(&going).is_none());
    }

    #[test]
    fn the_secret_of_the_class_is_kept_for_the_deletion() {
        let mut object = volume("n1");
        object["status"]["phase"] = json!("Released");
        object["metadata"]["annotations"][DELETION_SECRET_NAME] = json!("s");
        object["metadata"]["annotations"][DELETION_SECRET_NAMESPACE] = json!("ns");
        let volume: Volume = serde_json::from_value(object).expect("a volume");
        let secret = decide(&volume, "n1").and_then(|deletion| deletion.secret);
        let secret = secret.expect("a secret");
        assert_eq!(
            (secret.namespace.as_str(), secret.name.as_str()),
            ("ns", "s")
        );
    }
}
