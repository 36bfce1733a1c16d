//! What the loops share: the client, caches, the driver, and who is told of what.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use compact_str::CompactString;
use control_client::events::{Format, ObjectReference, Recorder, RepeatFilter};
use control_client::{
    Change, Client, Discard, Meta, Patch, Queue, Reflector, Resource, View, resources,
};
use node_agent_informers::Informers;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::driver::{Driver, NAME};
use crate::error::{Error, Result};
use crate::fill::ClassFill;
use crate::standby::Standby;
use crate::views::{AttributesClass, Claim, SecretReference, StorageClass, Volume};

/// Longest wait between attempts at one object.
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// How long a loop rests before it looks again whether a stock sidecar works.
pub const REST: Duration = Duration::from_secs(30);

/// Name of an object, by which work is queued.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Namespace; empty for objects of the cluster.
    pub namespace: CompactString,
    /// Name.
    pub name: CompactString,
}

impl Key {
    /// Returns the key of an object.
    pub fn from_meta(meta: &Meta) -> Self {
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
        }
    }
}

/// Returns how full each class is, as its driver measured it last.
pub type Fills = Arc<dyn Fn() -> Vec<ClassFill> + Send + Sync>;

/// Is called with namespace and name of each claim whose file system is to take what its
/// volume has become.
pub type Grown = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// What all loops share.
pub struct LoopContext {
    /// Client with the identity of the node.
    pub client: Client,
    /// Tells people, as the provisioner does.
    pub recorder: Recorder,
    /// What was said of what failed and is tried again.
    pub repeats: RepeatFilter,
    /// Name of the node.
    pub node: String,
    /// The driver.
    pub driver: Driver,
    /// How full its classes are.
    pub fills: Fills,
    /// Who is told of volumes that have grown.
    pub grown: Grown,
    /// The agent's caches.
    pub informers: Informers,
    /// Claims for which this node was selected.
    pub claims: Reflector<Claim>,
    /// Volumes that are on this node.
    pub volumes: Reflector<Volume>,
    /// Storage classes.
    pub classes: Reflector<StorageClass>,
    /// Classes of attributes.
    pub attributes: Reflector<AttributesClass>,
    /// Whether stock sidecars are at work.
    pub standby: Standby,
    /// Called when space was taken or given back.
    pub space_changed: Notify,
    /// Called when space was given back, for claims that wait for it.
    pub space_freed: Notify,
}

#[derive(Deserialize)]
struct Secret {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl LoopContext {
    /// Subscribes to the caches. Must be called within a tokio runtime.
    pub fn new(
        client: &Client,
        informers: &Informers,
        node: &str,
        driver: Driver,
        fills: Fills,
        grown: Grown,
    ) -> Self {
        Self {
            client: client.clone(),
            recorder: Recorder::new(client, &format!("{NAME}_{node}"), node, Format::Core),
            repeats: RepeatFilter::default(),
            node: node.to_owned(),
            driver,
            fills,
            grown,
            claims: informers.subscribe(),
            volumes: informers.subscribe(),
            classes: informers.subscribe(),
            attributes: informers.subscribe(),
            informers: informers.clone(),
            standby: Standby::default(),
            space_changed: Notify::new(),
            space_freed: Notify::new(),
        }
    }

    /// Waits until the caches are filled.
    pub async fn synced(&self) {
        self.claims.synced().await;
        self.volumes.synced().await;
        self.classes.synced().await;
        self.attributes.synced().await;
    }

    /// Returns the data of a secret, or nothing without a reference.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn secret(
        &self,
        reference: Option<&SecretReference>,
    ) -> Result<BTreeMap<String, String>> {
        let Some(reference) = reference else {
            return Ok(BTreeMap::new());
        };
        let secret: Secret = self
            .client
            .get(&resources::SECRETS, &reference.namespace, &reference.name)
            .await
            .map_err(Error::api("read the secret of the storage class"))?;
        let plain = |(key, text): (String, String)| {
            let bytes = STANDARD.decode(text).unwrap_or_default();
            (key, String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(secret.data.into_iter().map(plain).collect())
    }

    /// Tells people that something failed, when it begins to and when its cause changes.
    pub fn warn(&self, about: &ObjectReference, reason: &str, cause: &str, message: String) {
        if self.repeats.passes(about, reason, cause) {
            self.recorder.warning(about, reason, message);
        }
    }

    /// Merges `patch` into an object at the revision that was read.
    ///
    /// # Errors
    /// When the object changed meanwhile, or another failure of the write.
    pub async fn patch<V: View>(
        &self,
        what: &'static str,
        object: &V,
        part: &str,
        patch: Value,
    ) -> Result<V> {
        let meta = object.meta();
        self.patch_meta(what, (&V::RESOURCE, meta), part, patch)
            .await
    }

    /// The same, for an object of which only the metadata is known.
    ///
    /// # Errors
    /// As [`LoopContext::patch`].
    pub async fn patch_meta<R: serde::de::DeserializeOwned>(
        &self,
        what: &'static str,
        (resource, meta): (&Resource, &Meta),
        part: &str,
        mut patch: Value,
    ) -> Result<R> {
        patch["metadata"]["uid"] = json!(meta.uid);
        patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
        let patch = Patch::Merge(&patch);
        self.client
            .patch(resource, &meta.namespace, &meta.name, part, patch)
            .await
            .map_err(Error::api(what))
    }

    /// Patches and forgets the answer.
    ///
    /// # Errors
    /// As [`LoopContext::patch`].
    pub async fn patch_blindly(
        &self,
        what: &'static str,
        at: (&Resource, &Meta),
        part: &str,
        patch: Value,
    ) -> Result<()> {
        self.patch_meta::<Discard>(what, at, part, patch)
            .await
            .map(drop)
    }
}

/// A queue of keys whose failures wait ever longer.
pub fn queue() -> Queue<Key> {
    Queue::with_delays(Duration::from_secs(1), LONGEST_DELAY)
}

/// Queues each object that a change is about.
pub fn queue_latest<V: View>(queue: &Queue<Key>, change: &Change<V>) {
    if let Some(object) = change.latest() {
        queue.add(Key::from_meta(object.meta()));
    }
}
