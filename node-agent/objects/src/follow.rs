//! Tells pods when an object that is in one of their volumes changes.
//!
//! One watch of metadata an object, by name, since a node may watch no more
//! than the objects of its own pods (KEP-279); it lives as long as a pod wants
//! it. What is watched is only a reason to look: data comes by a read, so a
//! lost event costs time and nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use control_client::{Client, Resource, Selection, reflect_resource, resources};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::source::DataKind;

/// `certificates.k8s.io/v1beta1` ClusterTrustBundle.
pub const TRUST_BUNDLES: Resource = Resource::cluster(
    "certificates.k8s.io",
    "v1beta1",
    "clustertrustbundles",
    "ClusterTrustBundle",
);

/// The kinds of objects that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FollowedKind {
    /// One object.
    Data(DataKind),
    /// All cluster trust bundles: which of them are wanted may change with each.
    TrustBundles,
}

/// The kind, namespace and name of an object.
pub type ObjectRef = (FollowedKind, String, String);

/// Called with the key of a changed object before its pods are notified.
pub type ChangeCallback = Arc<dyn Fn(&ObjectRef) + Send + Sync>;

struct WatchedObject {
    pods: PodSenders,
    task: AbortHandle,
}

type PodSenders = Arc<Mutex<FxHashMap<String, Arc<Notify>>>>;

/// Watches of the objects that pods of this node refer to.
pub struct ObjectWatches {
    client: Client,
    changed: ChangeCallback,
    all: Mutex<FxHashMap<ObjectRef, WatchedObject>>,
}

impl ObjectWatches {
    /// None yet.
    #[must_use]
    pub fn new(client: Client, changed: ChangeCallback) -> Self {
        Self {
            client,
            changed,
            all: Mutex::default(),
        }
    }

    /// Has the pod follow exactly `keys`: `wake` is notified after each change
    /// of one of them. No keys is the end of it.
    pub fn set(&self, uid: &str, keys: &BTreeSet<ObjectRef>, wake: &Arc<Notify>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|key, followed| {
            if keys.contains(key) {
                return true;
            }
            let mut pods = followed.pods.lock().unwrap_or_else(PoisonError::into_inner);
            pods.remove(uid);
            if pods.is_empty() {
                followed.task.abort();
            }
            !pods.is_empty()
        });
        for key in keys {
            let followed = all.entry(key.clone()).or_insert_with(|| {
                let pods = PodSenders::default();
                let (client, of) = (self.client.clone(), key.clone());
                let (told, changed) = (pods.clone(), self.changed.clone());
                let task =
                    control_supervise::task("pod-object-follower").spawn_restarting(move || {
                        watch(client.clone(), of.clone(), told.clone(), changed.clone())
                    });
                WatchedObject {
                    task: task.abort_handle(),
                    pods,
                }
            });
            followed
                .pods
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(uid.to_owned(), wake.clone());
        }
    }

    /// How many objects are followed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.lock().map_or(0, |all| all.len())
    }

    /// Whether no object is followed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for ObjectWatches {
    fn drop(&mut self) {
        let all = self.all.get_mut().unwrap_or_else(PoisonError::into_inner);
        for followed in all.values() {
            followed.task.abort();
        }
    }
}

async fn watch(client: Client, key: ObjectRef, pods: PodSenders, changed: ChangeCallback) {
    let one = Selection {
        namespace: Some(key.1.clone()),
        fields: Some(format!("metadata.name={}", key.2)),
        ..Selection::default()
    };
    let (resource, selection) = match key.0 {
        FollowedKind::Data(DataKind::ConfigMap) => (resources::CONFIG_MAPS, one),
        FollowedKind::Data(DataKind::Secret) => (resources::SECRETS, one),
        FollowedKind::TrustBundles => (TRUST_BUNDLES, Selection::all()),
    };
    let selection = Selection {
        metadata_only: true,
        ..selection
    };
    let reflector = reflect_resource::<control_client::Metadata>(&client, resource, selection);
    let mut changes = reflector.changes();
    while changes.recv().await.is_some() {
        while changes.try_recv().is_some() {}
        changed(&key);
        let pods = pods.lock().unwrap_or_else(PoisonError::into_inner);
        for wake in pods.values() {
            wake.notify_one();
        }
    }
}
