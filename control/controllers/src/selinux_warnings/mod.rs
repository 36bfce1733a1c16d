//! Warns about pods that use the same volume with different SELinux labels: on one node
//! only one of them could access it, once volumes are mounted with their label
//! (KEP-1710).
//!
//! Off by default: only clusters with SELinux need it.

mod decide;

use std::sync::{Arc, Mutex, PoisonError};

use control_client::Queue;
use control_client::events::{ObjectReference, Recorder};
use control_client::resources;

pub use self::decide::LabelledPod;
use self::decide::{Conflict, LabelledVolume, SharedVolume, VolumeUsers, usages};
use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Claim, CsiDriver, IscsiSource, Volume};
use crate::volumes::driver_of_migrated;
use crate::work::{self, Outcome};

/// Warns of conflicting labels.
pub const CONTROLLER: Controller = Controller {
    name: "selinux-warning-controller",
    service_account: "selinux-warning-controller",
    start: |ctx| {
        let this = Arc::new(Warner {
            recorder: ctx.recorder("selinux_warning"),
            pods: ctx.labelled_pods(),
            claims: ctx.claims(),
            volumes: ctx.volumes(),
            drivers: ctx.csi_drivers(),
            users: Mutex::default(),
            queue: work::queue(),
        });
        this.pods.queue_changes(&this.queue);
        let listener = Arc::clone(&this);
        this.claims.on_change(move |change| {
            if let Some(claim) = change.latest() {
                listener.queue_users(&claim.metadata.namespace, &claim.metadata.name);
            }
        });
        let listener = Arc::clone(&this);
        this.volumes.on_change(move |change| {
            let claim = change.latest().and_then(|it| it.spec.claim_ref.as_ref());
            if let Some(claim) = claim {
                listener.queue_users(&claim.namespace, &claim.name);
            }
        });
        let listener = Arc::clone(&this);
        this.drivers.on_change(move |change| {
            let mounts = |driver: &Option<Arc<CsiDriver>>| {
                driver.as_ref().is_some_and(|it| it.spec.se_linux_mount)
            };
            if mounts(&change.previous) != mounts(&change.current) {
                for pod in listener.pods.all() {
                    listener.queue.add(Key::from_meta(&pod.metadata));
                }
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.pods.ready().await;
            this.claims.ready().await;
            this.volumes.ready().await;
            this.drivers.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key) });
            this.queue.run("selinux_warning", 1, &shutdown, work).await;
        })
    },
};

struct Warner {
    recorder: Recorder,
    pods: Arc<KindCache<LabelledPod>>,
    claims: Arc<KindCache<Claim>>,
    volumes: Arc<KindCache<Volume>>,
    drivers: Arc<KindCache<CsiDriver>>,
    users: Mutex<VolumeUsers>,
    queue: Queue<Key>,
}

impl Warner {
    fn queue_users(&self, namespace: &str, claim: &str) {
        for pod in self.pods.namespace(namespace) {
            let mut volumes = pod.spec.volumes.iter();
            if volumes.any(|volume| pod.claim_of(volume).is_some_and(|name| name == claim)) {
                self.queue.add(Key::from_meta(&pod.metadata));
            }
        }
    }

    fn sync(&self, key: Key) -> Outcome {
        let pod = self.pods.by_key(&key).filter(|pod| !pod.has_ended());
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pod) = pod else {
            users.remove(&key);
            return Ok(None);
        };
        let (usages, ambiguous) = usages(&pod, |volume| self.find(&pod, volume));
        let conflicts = users.set(&key, usages);
        drop(users);
        for volume in ambiguous {
            let message = format!(
                "Volume \"{volume}\" is mounted twice with different SELinux labels inside this pod"
            );
            let about = ObjectReference::to_object(&resources::PODS, &pod.metadata);
            self.recorder
                .warning(&about, "MultipleSELinuxLabels", message);
        }
        for Conflict {
            pod,
            reason,
            message,
        } in conflicts
        {
            if let Some(pod) = self.pods.by_key(&pod) {
                let about = ObjectReference::to_object(&resources::PODS, &pod.metadata);
                self.recorder.normal(&about, reason, message);
            }
        }
        Ok(None)
    }

    /// The volume behind a volume of a pod, if others may use it too.
    fn find(&self, pod: &LabelledPod, volume: &LabelledVolume) -> Option<SharedVolume> {
        if let Some(disk) = &volume.iscsi {
            return Some(iscsi(disk));
        }
        let claim = pod.claim_of(volume)?;
        let claim = self.claims.get(&pod.metadata.namespace, &claim)?;
        let volume = self.volumes.get("", &claim.spec.volume_name)?;
        let spec = &volume.spec;
        if let Some(disk) = &spec.iscsi {
            return Some(iscsi(disk));
        }
        let name = &volume.metadata.name;
        let (driver, handle) = match &spec.csi {
            Some(csi) => (csi.driver.as_str(), &csi.volume_handle),
            None => match driver_of_migrated(&volume) {
                Some(driver) => (driver, name),
                None => {
                    return Some(SharedVolume {
                        id: format!("volume/{name}"),
                        supports_label: spec.fc,
                    });
                }
            },
        };
        let known = self.drivers.get("", driver);
        Some(SharedVolume {
            id: format!("kubernetes.io/csi/{driver}^{handle}"),
            supports_label: known.is_some_and(|it| it.spec.se_linux_mount),
        })
    }
}

fn iscsi(disk: &IscsiSource) -> SharedVolume {
    let IscsiSource {
        target_portal,
        iqn,
        lun,
    } = disk;
    SharedVolume {
        id: format!("kubernetes.io/iscsi/{target_portal}:{iqn}:{lun}"),
        supports_label: true,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::fake_api::FakeApi;

    #[tokio::test(start_paused = true)]
    async fn pods_with_different_labels_on_a_volume_are_told_of_each_other() {
        let api = FakeApi::new();
        api.put(
            "/apis/storage.k8s.io/v1/csidrivers/d",
            json!({"spec": {"seLinuxMount": true}}),
        );
        api.put(
            "/api/v1/persistentvolumes/v",
            json!({"spec": {"csi": {"driver": "d", "volumeHandle": "h"},
                "claimRef": {"namespace": "n", "name": "c", "uid": "1"}}}),
        );
        for (name, level) in [("a", "s0:c1"), ("b", "s0:c2")] {
            api.put(
                &format!("/api/v1/namespaces/n/pods/{name}"),
                json!({"spec": {
                    "securityContext": {"seLinuxOptions": {"level": level}},
                    "containers": [{"volumeMounts": [{"name": "data"}]}],
                    "volumes": [{"name": "data",
                        "persistentVolumeClaim": {"claimName": "c"}}]}}),
            );
        }
        let _running = api.run(&CONTROLLER, crate::Config::default());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let events = |api: &FakeApi| {
            let requests = api.requests();
            let of_it = requests.iter().filter(|it| it.path.ends_with("/events"));
            let reasons = of_it.map(|it| it.body["reason"].as_str().unwrap_or_default().to_owned());
            reasons.filter(|it| it == "SELinuxLabelConflict").count()
        };
        assert_eq!(events(&api), 0, "the claim is not bound");
        api.put(
            "/api/v1/namespaces/n/persistentvolumeclaims/c",
            json!({"spec": {"volumeName": "v"}}),
        );
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(events(&api), 2);
    }
}
