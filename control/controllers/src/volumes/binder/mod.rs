//! The persistent-volume binder: binds every claim to a fitting volume, hands claims
//! without one to the provisioner of their class, and reclaims volumes of deleted claims.
//!
//! A volume refers to its claim and a claim to its volume; the volume is written first,
//! and only at the revision that was read, so it never has two claims. One worker takes
//! all decisions, from what it read and from its own writes.

mod decide;
#[cfg(test)]
mod decide_tests;
mod matching;

use std::sync::Arc;
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Error, Meta, Patch, Queue, View, resources};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use self::decide::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, BinderAction, BinderEvent, BindingSnapshot, EventSubject,
    VolumeSnapshot, decide_claim, decide_volume,
};
use super::pods::{is_terminated, uses_claim};
use super::written_views::WrittenViews;
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Claim, Pod, StorageClass, Text, Volume};
use crate::work::{self, Outcome};

/// Binds claims to volumes.
pub const CONTROLLER: Controller = Controller {
    name: "persistentvolume-binder-controller",
    service_account: "persistent-volume-binder",
    start,
};

/// The interval at which waiting claims are reconsidered, so that their events stay
/// current.
const RESYNC: Duration = Duration::from_secs(15);

struct Binder {
    client: Client,
    recorder: Recorder,
    claims: Arc<KindCache<Claim>>,
    volumes: Arc<KindCache<Volume>>,
    classes: Arc<KindCache<StorageClass>>,
    pods: Arc<KindCache<Pod>>,
    written_claims: WrittenViews<Claim>,
    written_volumes: WrittenViews<Volume>,
    /// Claims; and volumes, whose keys have no namespace.
    queue: Queue<Key>,
}

fn start(ctx: &Context) -> BoxFuture<'static, ()> {
    let (claims, volumes) = (ctx.claims(), ctx.volumes());
    let this = Arc::new(Binder {
        client: ctx.client.clone(),
        recorder: ctx.recorder("persistentvolume-controller"),
        written_claims: WrittenViews::over(Arc::clone(&claims)),
        written_volumes: WrittenViews::over(Arc::clone(&volumes)),
        claims,
        volumes,
        classes: ctx.storage_classes(),
        pods: ctx.pods(),
        queue: work::queue(),
    });
    let listener = Arc::clone(&this);
    this.claims.on_change(move |change| {
        listener.claim_changed(change.previous.as_deref(), change.current.as_deref());
    });
    let listener = Arc::clone(&this);
    this.volumes.on_change(move |change| {
        listener.volume_changed(change.previous.as_deref(), change.current.as_deref());
    });
    let listener = Arc::clone(&this);
    this.classes.on_change(move |_| listener.queue_unbound());
    let shutdown = ctx.shutdown.clone();
    Box::pin(async move {
        this.claims.ready().await;
        this.volumes.ready().await;
        this.classes.ready().await;
        this.pods.ready().await;
        let work = work::call(&this, |this, key| async move { this.sync(key).await });
        let run = this.queue.run("persistentvolume", 1, &shutdown, work);
        tokio::select! {
            () = run => {}
            () = this.resync() => {}
        }
    })
}

fn volume_key(name: &Text) -> Key {
    Key::new("", name.clone())
}

impl Binder {
    fn claim_changed(&self, previous: Option<&Claim>, current: Option<&Claim>) {
        if let Some(claim) = current {
            self.queue.add(Key::from_meta(&claim.metadata));
        }
        let named = |claim: &&Claim| !claim.spec.volume_name.is_empty();
        for claim in previous.into_iter().chain(current).filter(named) {
            self.queue.add(volume_key(&claim.spec.volume_name));
        }
        // one that goes before it knew its volume
        if current.is_none()
            && let Some(gone) = previous.filter(|claim| claim.spec.volume_name.is_empty())
        {
            for volume in self.volumes.all() {
                if volume.is_bound_to(gone) {
                    self.queue.add(volume_key(&volume.metadata.name));
                }
            }
        }
    }

    fn volume_changed(&self, previous: Option<&Volume>, current: Option<&Volume>) {
        let references = previous.into_iter().chain(current);
        for reference in references.filter_map(|volume| volume.spec.claim_ref.as_ref()) {
            self.queue.add(Key::new(
                reference.namespace.clone(),
                reference.name.clone(),
            ));
        }
        if let Some(volume) = current {
            self.queue.add(volume_key(&volume.metadata.name));
        }
        // claims that wait for this one: by its name, be they lost, or for any that fits
        let Some(latest) = current.or(previous) else {
            return;
        };
        if current.is_some_and(|volume| volume.spec.claim_ref.is_some()) {
            return;
        }
        for claim in self.claims.all() {
            let takes_any = current.is_some()
                && claim.spec.volume_name.is_empty()
                && !claim.has(BIND_COMPLETED)
                && claim.class() == latest.class();
            if takes_any || claim.spec.volume_name == latest.metadata.name {
                self.queue.add(Key::from_meta(&claim.metadata));
            }
        }
    }

    fn queue_unbound(&self) {
        for claim in self.claims.all() {
            if !claim.has(BIND_COMPLETED) {
                self.queue.add(Key::from_meta(&claim.metadata));
            }
        }
    }

    async fn resync(&self) {
        loop {
            tokio::time::sleep(RESYNC).await;
            self.queue_unbound();
            for volume in self.volumes.all() {
                let spec = &volume.spec;
                if spec.claim_ref.is_some() && spec.persistent_volume_reclaim_policy == "Recycle" {
                    self.queue.add(volume_key(&volume.metadata.name));
                }
            }
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        if key.namespace.is_empty() {
            self.sync_volume(&key).await?;
        } else {
            self.sync_claim(&key).await?;
        }
        Ok(None)
    }

    async fn sync_claim(&self, key: &Key) -> Result<(), Error> {
        let Some(claim) = self.written_claims.get(key) else {
            return Ok(());
        };
        // a bound claim needs no more than its own volume
        let volumes = if claim.spec.volume_name.is_empty() {
            self.written_volumes.all()
        } else {
            let named = self
                .written_volumes
                .get(&volume_key(&claim.spec.volume_name));
            named.into_iter().collect()
        };
        let decision = decide_claim(&BindingSnapshot {
            claim: &claim,
            volumes: &volumes,
            classes: &self.classes.all(),
            unscheduled: &|| {
                let pods = self.users(key).into_iter();
                let waiting = pods.filter(|pod| pod.spec.node_name.is_empty());
                waiting.map(|pod| pod.metadata.name.clone()).collect()
            },
        });
        let mut pair = Pair {
            claim: Some(claim),
            volume: decision.volume,
        };
        self.carry_out(&mut pair, decision.actions).await
    }

    async fn sync_volume(&self, key: &Key) -> Result<(), Error> {
        let Some(volume) = self.written_volumes.get(key) else {
            return Ok(());
        };
        let claim = self.claim_of(&volume).await?;
        let actions = decide_volume(&VolumeSnapshot {
            volume: &volume,
            claim: claim.as_deref(),
            users: &|| self.users_of_volume(&volume),
        });
        let mut pair = Pair {
            claim,
            volume: Some(volume),
        };
        self.carry_out(&mut pair, actions).await
    }

    /// Returns the claim that a volume refers to. The server is asked before a claim
    /// counts as deleted: a provisioner's volume may be seen before the claim.
    async fn claim_of(&self, volume: &Volume) -> Result<Option<Arc<Claim>>, Error> {
        let Some(reference) = volume.spec.claim_ref.as_ref() else {
            return Ok(None);
        };
        if reference.uid.is_empty() {
            return Ok(None);
        }
        let key = Key::new(reference.namespace.clone(), reference.name.clone());
        let cached = self.written_claims.get(&key);
        if let Some(claim) = cached.filter(|claim| claim.metadata.uid == reference.uid) {
            return Ok(Some(claim));
        }
        if matches!(volume.status.phase.as_str(), "Released" | "Failed") {
            return Ok(None);
        }
        let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
        let found = self
            .client
            .get::<Claim>(resource, &key.namespace, &key.name)
            .await;
        match found {
            Ok(claim) => Ok(Some(Arc::new(claim))
                .filter(|claim: &Arc<Claim>| claim.metadata.uid == reference.uid)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Pods that run or will run and use a claim.
    fn users(&self, claim: &Key) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.namespace(&claim.namespace);
        pods.retain(|pod| !is_terminated(pod) && uses_claim(pod, &claim.name));
        pods
    }

    fn users_of_volume(&self, volume: &Volume) -> Vec<String> {
        let Some(reference) = volume.spec.claim_ref.as_ref() else {
            return Vec::new();
        };
        let key = Key::new(reference.namespace.clone(), reference.name.clone());
        if self.written_claims.get(&key).is_some() {
            // a claim of the same name, which has another volume
            return Vec::new();
        }
        let name = |pod: Arc<Pod>| format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        let mut names: Vec<String> = self.users(&key).into_iter().map(name).collect();
        names.sort_unstable();
        names
    }

    async fn carry_out(&self, pair: &mut Pair, actions: Vec<BinderAction>) -> Result<(), Error> {
        for action in actions {
            match action {
                BinderAction::AnnotateClaim(change) => {
                    let change: serde_json::Map<String, Value> = change
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), json!(value)))
                        .collect();
                    let patch = json!({"metadata": {"annotations": change}});
                    self.patch_claim(pair, "", patch).await?;
                }
                BinderAction::AssignClass(class) => {
                    let patch = json!({"spec": {"storageClassName": class}});
                    self.patch_claim(pair, "", patch).await?;
                }
                BinderAction::BindVolume { mark } => {
                    let Some(claim) = &pair.claim else { continue };
                    let mut patch = json!({"spec": {"claimRef": reference_to(&claim.metadata)}});
                    if mark {
                        patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
                    }
                    self.patch_volume(pair, "", patch).await?;
                }
                BinderAction::BindClaim { mark } => {
                    let Some(volume) = &pair.volume else { continue };
                    let mut patch = json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}},
                        "spec": {"volumeName": volume.metadata.name}});
                    if mark {
                        patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
                    }
                    self.patch_claim(pair, "", patch).await?;
                }
                BinderAction::UnbindVolume { whole } => {
                    let patch = if whole {
                        json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: null}},
                            "spec": {"claimRef": null}})
                    } else {
                        json!({"spec": {"claimRef": {"uid": null}}})
                    };
                    self.patch_volume(pair, "", patch).await?;
                }
                BinderAction::VolumePhase(phase, event) => {
                    let message = event.as_ref().map_or("", |event| event.message.as_str());
                    let message = Some(message).filter(|message| !message.is_empty());
                    let patch = json!({"status": {"phase": phase, "message": message}});
                    self.patch_volume(pair, "status", patch).await?;
                    event.into_iter().for_each(|event| self.record(pair, event));
                }
                BinderAction::ClaimStatus(change, event) => {
                    let patch = json!({"status": change});
                    self.patch_claim(pair, "status", patch).await?;
                    event.into_iter().for_each(|event| self.record(pair, event));
                }
                BinderAction::ChangeVolume {
                    migrated_to,
                    finalizers,
                } => {
                    let mut patch = json!({"metadata": {}});
                    if let Some(driver) = migrated_to {
                        patch["metadata"]["annotations"][super::plugins::MIGRATED_TO] =
                            json!(driver);
                    }
                    if let Some(finalizers) = finalizers {
                        patch["metadata"]["finalizers"] = json!(finalizers);
                    }
                    self.patch_volume(pair, "", patch).await?;
                }
                BinderAction::Record(event) => self.record(pair, event),
                BinderAction::SyncClaim => {
                    if let Some(claim) = &pair.claim {
                        self.queue.add(Key::from_meta(&claim.metadata));
                    }
                }
            }
        }
        Ok(())
    }

    async fn patch_claim(&self, pair: &mut Pair, part: &str, patch: Value) -> Result<(), Error> {
        let Some(claim) = &pair.claim else {
            return Ok(());
        };
        let written = self.patch(claim.as_ref(), part, patch).await?;
        self.written_claims.note(&written);
        pair.claim = Some(written);
        Ok(())
    }

    async fn patch_volume(&self, pair: &mut Pair, part: &str, patch: Value) -> Result<(), Error> {
        let Some(volume) = &pair.volume else {
            return Ok(());
        };
        let written = self.patch(volume.as_ref(), part, patch).await?;
        self.written_volumes.note(&written);
        pair.volume = Some(written);
        Ok(())
    }

    /// Patches an object at the revision that was read.
    async fn patch<V: View>(&self, object: &V, part: &str, patch: Value) -> Result<Arc<V>, Error> {
        let (meta, mut patch) = (object.meta(), patch);
        for field in ["uid", "resourceVersion"] {
            patch["metadata"][field] = work::precondition(meta)[field].take();
        }
        let (namespace, name) = (&meta.namespace, &meta.name);
        let patch = Patch::Merge(&patch);
        self.client
            .patch::<V>(&V::RESOURCE, namespace, name, part, patch)
            .await
            .map(Arc::new)
    }

    fn record(&self, pair: &Pair, event: BinderEvent) {
        let about = match event.about {
            EventSubject::Claim => {
                let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
                let claim = pair.claim.as_ref();
                claim.map(|claim| ObjectReference::to_object(resource, &claim.metadata))
            }
            EventSubject::Volume => {
                let resource = &resources::PERSISTENT_VOLUMES;
                let volume = pair.volume.as_ref();
                volume.map(|volume| ObjectReference::to_object(resource, &volume.metadata))
            }
        };
        let Some(about) = about else { return };
        if event.warning {
            self.recorder.warning(&about, event.reason, event.message);
        } else {
            self.recorder.normal(&about, event.reason, event.message);
        }
    }
}

/// The objects of a decision, in the versions that the last writes made.
struct Pair {
    claim: Option<Arc<Claim>>,
    volume: Option<Arc<Volume>>,
}

/// Returns the `claimRef` by which a volume names its claim.
fn reference_to(claim: &Meta) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace,
        "name": claim.name, "uid": claim.uid, "resourceVersion": claim.resource_version,
        "fieldPath": null})
}
