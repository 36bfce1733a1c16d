//! The provisioner: makes the volumes of claims for which this node was selected, by the
//! scheduler or, where no pod decides, by the control plane.

mod decide;
pub mod parameters;
mod refusals;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use compact_str::CompactString;
use control_client::events::ObjectReference;
use control_client::{Discard, Queue, resources};
use csi_api as api;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::shared::{Key, LoopContext, REST, queue, queue_latest};
use crate::standby::Duty;
use crate::views::{Claim, StorageClass};
use decide::{ClaimSnapshot, Order, ProvisionDecision, SELECTED_NODE, decide, volume_name};
use refusals::Refusals;

pub use decide::{
    DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, FINALIZER, PROVISIONED_BY, quantity, topology,
    volume_capabilities,
};

/// Claims at a time.
const WORKERS: usize = 4;

/// A volume that the driver created and the API server does not have yet.
struct UnsavedVolume {
    claim: CompactString,
    volume: String,
    order: Order,
}

struct Provisioner {
    shared: Arc<LoopContext>,
    queue: Queue<Key>,
    unsaved: Mutex<HashMap<Key, UnsavedVolume>>,
    /// Claims that were given back, by their identity.
    refused: Mutex<HashMap<CompactString, Refusals>>,
}

/// Runs the provisioner until `shutdown`.
pub async fn run(shared: Arc<LoopContext>, shutdown: CancellationToken) {
    shared.synced().await;
    let this = Arc::new(Provisioner {
        shared,
        queue: queue(),
        unsaved: Mutex::default(),
        refused: Mutex::default(),
    });
    let worker = this.clone();
    let work = move |key| {
        let this = worker.clone();
        async move { this.sync(key).await }
    };
    tokio::select! {
        () = this.queue.run("volume-provisioner", WORKERS, &shutdown, work) => {}
        () = this.follow() => {}
    }
}

impl Provisioner {
    async fn follow(&self) {
        let mut claims = self.shared.claims.changes();
        let mut classes = self.shared.classes.changes();
        let mut attributes = self.shared.attributes.changes();
        loop {
            let all = tokio::select! {
                change = claims.recv() => {
                    let Some(change) = change else { return };
                    queue_latest(&self.queue, &change);
                    false
                }
                change = classes.recv() => match change {
                    Some(_) => true,
                    None => return,
                },
                change = attributes.recv() => match change {
                    Some(_) => true,
                    None => return,
                },
                () = self.shared.space_freed.notified() => {
                    self.refused().clear();
                    true
                }
            };
            if all {
                for claim in self.shared.claims.cache().snapshot().iter() {
                    if claim.spec.volume_name.is_empty() {
                        self.queue.add(Key::from_meta(&claim.metadata));
                    }
                }
            }
        }
    }

    async fn sync(&self, key: Key) -> Result<Option<Duration>> {
        let shared = &self.shared;
        if !shared.standby.is_ours(Duty::Provision) {
            let claim = shared.claims.cache().get(&key.namespace, &key.name);
            let waits = claim.is_some_and(|claim| claim.spec.volume_name.is_empty());
            return Ok(waits.then_some(REST / 10));
        }
        let claim = shared.claims.cache().get(&key.namespace, &key.name);
        self.give_up_unsaved(&key, claim.as_deref()).await?;
        let Some(claim) = claim else {
            return Ok(None);
        };
        let class = shared.classes.cache().get("", claim.class());
        let attributes = claim.spec.volume_attributes_class_name.as_deref();
        let attributes = attributes.and_then(|name| shared.attributes.cache().get("", name));
        let name = volume_name(&claim);
        let decision = decide(&ClaimSnapshot {
            claim: &claim,
            class: class.as_deref(),
            attributes: attributes.as_deref(),
            has_volume: shared.volumes.cache().get("", &name).is_some(),
            node: &shared.node,
        });
        let (order, class) = match (decision, class) {
            (ProvisionDecision::Nothing, _) | (ProvisionDecision::Provision(_), None) => {
                return Ok(None);
            }
            (ProvisionDecision::Refuse(message), _) => {
                let error = Error::Refused(message);
                self.fail(&claim, &error);
                return Err(error);
            }
            (ProvisionDecision::Provision(order), Some(class)) => (*order, class),
        };
        if let Some(rest) = self.rest_of(&claim) {
            return Ok(Some(rest));
        }
        self.provision(&key, &claim, &class, order).await?;
        Ok(None)
    }

    async fn provision(
        &self,
        key: &Key,
        claim: &Claim,
        class: &StorageClass,
        order: Order,
    ) -> Result<()> {
        let shared = &self.shared;
        let about = reference(claim);
        let message = format!(
            "External provisioner is provisioning volume for claim \"{}/{}\"",
            claim.metadata.namespace, claim.metadata.name
        );
        if shared.repeats.passes(&about, "Provisioning", "") {
            shared.recorder.normal(&about, "Provisioning", message);
        }
        let request = match self.request(claim, class, &order).await {
            Ok(request) => request,
            Err(error) => {
                self.fail(claim, &error);
                return self.give_back(claim, true, error).await;
            }
        };
        let has_source = request.volume_content_source.is_some();
        let volume = match shared.driver.create_volume(request).await {
            Ok(volume) => volume,
            Err(error) => {
                let error = Error::Call(error);
                self.fail(claim, &error);
                return self.give_back(claim, has_source, error).await;
            }
        };
        shared.space_changed.notify_one();
        let object = decide::volume_object(&order, claim, class, &volume, &shared.node);
        let name = order.name.clone();
        self.unsaved().insert(
            key.clone(),
            UnsavedVolume {
                claim: claim.metadata.uid.clone(),
                volume: volume.volume_id,
                order,
            },
        );
        let saved = shared
            .client
            .create::<Discard>(&resources::PERSISTENT_VOLUMES, "", &object)
            .await;
        match saved {
            Err(error) if !error.is_already_exists() => {
                let error = Error::api("save the PersistentVolume")(error);
                self.fail(claim, &error);
                return Err(error);
            }
            _ => {}
        }
        self.unsaved().remove(key);
        self.refused().remove(&claim.metadata.uid);
        shared.repeats.forget(&about);
        let message = format!("Successfully provisioned volume {name}");
        shared
            .recorder
            .normal(&about, "ProvisioningSucceeded", message);
        tracing::info!(volume = name, claim = %claim.metadata.name, "volume provisioned");
        Ok(())
    }

    /// Completes the request with what has to be read first.
    async fn request(
        &self,
        claim: &Claim,
        class: &StorageClass,
        order: &Order,
    ) -> Result<api::CreateVolumeRequest> {
        let shared = &self.shared;
        let can = shared.driver.capabilities().await?;
        let secrets = shared.secret(order.parameters.provisioner.as_ref()).await?;
        let source = match &order.source {
            None => None,
            Some(source) => Some(self.source(claim, &source.kind, &source.name).await?),
        };
        Ok(api::CreateVolumeRequest {
            secrets,
            volume_content_source: source,
            volume_capabilities: volume_capabilities(
                &claim.spec.access_modes,
                claim.spec.volume_mode.as_deref(),
                &order.parameters.fs_type,
                &class.mount_options,
                can.contains(&api::ControllerCapability::SingleNodeMultiWriter),
            ),
            ..order.request.clone()
        })
    }

    async fn source(
        &self,
        claim: &Claim,
        kind: &str,
        name: &str,
    ) -> Result<api::VolumeContentSource> {
        let shared = &self.shared;
        match kind {
            "PersistentVolumeClaim" => {
                let source = shared.claims.cache().get(&claim.metadata.namespace, name);
                let volume = source.as_ref().and_then(|source| {
                    let volumes = shared.volumes.cache();
                    volumes.get("", &source.spec.volume_name)
                });
                decide::clone_source(claim, source.as_deref(), volume.as_deref(), &shared.node)
            }
            _ => crate::snapshot::restore_source(shared, claim, name).await,
        }
    }

    /// Gives a claim back when this node has no space for it, unless its source is here,
    /// or when its source is elsewhere: another node is selected then.
    async fn give_back(&self, claim: &Claim, has_source: bool, error: Error) -> Result<()> {
        let is_for_others = match &error {
            Error::SourceElsewhere(_) => true,
            Error::Call(error) => error.code == tonic::Code::ResourceExhausted && !has_source,
            _ => false,
        };
        if !is_for_others {
            return Err(error);
        }
        self.shared.space_changed.notify_one();
        self.refused()
            .entry(claim.metadata.uid.clone())
            .or_insert_with(Refusals::new)
            .again(Instant::now());
        let patch = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
        self.shared
            .patch("give the claim back to the scheduler", claim, "", patch)
            .await
            .map(drop)
    }

    /// Deletes a volume whose claim went before the API server knew the volume.
    async fn give_up_unsaved(&self, key: &Key, claim: Option<&Claim>) -> Result<()> {
        let request = {
            let unsaved = self.unsaved();
            let Some(entry) = unsaved.get(key) else {
                return Ok(());
            };
            if claim.is_some_and(|claim| claim.metadata.uid == entry.claim) {
                return Ok(());
            }
            let secret = entry.order.parameters.provisioner.clone();
            (entry.volume.clone(), secret)
        };
        let secrets = self.shared.secret(request.1.as_ref()).await?;
        let request = api::DeleteVolumeRequest {
            volume_id: request.0,
            secrets,
        };
        self.shared.driver.delete_volume(request).await?;
        self.unsaved().remove(key);
        Ok(())
    }

    fn fail(&self, claim: &Claim, error: &Error) {
        let message = format!(
            "failed to provision volume with StorageClass \"{}\": {}",
            claim.class(),
            error.chain()
        );
        let (about, reason) = (reference(claim), "ProvisioningFailed");
        self.shared.warn(&about, reason, &error.cause(), message);
    }

    /// Returns how long a claim waits that was given back and came again.
    fn rest_of(&self, claim: &Claim) -> Option<Duration> {
        let refused = self.refused();
        refused.get(&claim.metadata.uid)?.rest(Instant::now())
    }

    fn refused(&self) -> MutexGuard<'_, HashMap<CompactString, Refusals>> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        refused.retain(|_, refusals| !refusals.is_old(now));
        refused
    }

    fn unsaved(&self) -> MutexGuard<'_, HashMap<Key, UnsavedVolume>> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reference(claim: &Claim) -> ObjectReference {
    ObjectReference::to_object(&resources::PERSISTENT_VOLUME_CLAIMS, &claim.metadata)
}

#[cfg(test)]
#[path = "loop_tests.rs"]
mod tests;
