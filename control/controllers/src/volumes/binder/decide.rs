//! Decides the next steps for one claim, and for one volume.

use std::sync::Arc;

use control_types::quantity::Quantity;
use control_types::volumes::volume_modes_differ;
use serde_json::{Value, json};

use super::matching;
use crate::views::{Claim, StorageClass, Text, Volume};
use crate::volumes::plugins::{self, MIGRATED_TO, PROVISIONED_BY};

/// Set on a claim once it was bound: its volume is not chosen again.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Set on a volume or a claim whose other half was chosen by this controller.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The node that the scheduler chose for the pod that waits for the claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Tells external provisioners that the claim is theirs.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Its former name.
const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// The size before an expansion whose file system was not expanded yet.
const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// Keeps an in-tree volume until its storage is deleted.
const IN_TREE_FINALIZER: &str = "kubernetes.io/pv-controller";
/// Keeps a CSI volume until its storage is deleted.
const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// The object that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventSubject {
    /// The claim.
    Claim,
    /// The volume.
    Volume,
}

/// An event of the binder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BinderEvent {
    pub about: EventSubject,
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// One write to the claim or the volume; actions run in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BinderAction {
    /// Sets annotations of the claim, or removes them.
    AnnotateClaim(Vec<(&'static str, Option<Text>)>),
    /// Sets the storage class of the claim.
    AssignClass(Text),
    /// Makes the volume refer to the claim; `mark` says that this controller chose.
    BindVolume { mark: bool },
    /// Makes the claim refer to the volume and notes that it is bound.
    BindClaim { mark: bool },
    /// Takes the volume's reference to its claim away, or only the claim's identity.
    UnbindVolume { whole: bool },
    /// Sets the phase of the volume.
    VolumePhase(&'static str, Option<BinderEvent>),
    /// Changes the status of the claim.
    ClaimStatus(Value, Option<BinderEvent>),
    /// Changes the metadata of the volume.
    ChangeVolume {
        migrated_to: Option<Option<&'static str>>,
        finalizers: Option<Vec<Text>>,
    },
    /// Records an event.
    Record(BinderEvent),
    /// Queues the claim.
    SyncClaim,
}

/// A decision.
#[derive(Debug, Default)]
pub(super) struct BinderDecision {
    /// The volume that the claim gets.
    pub volume: Option<Arc<Volume>>,
    pub actions: Vec<BinderAction>,
}

/// The input of the decision for a claim.
pub(super) struct BindingSnapshot<'a> {
    pub claim: &'a Claim,
    pub volumes: &'a [Arc<Volume>],
    pub classes: &'a [Arc<StorageClass>],
    /// Pods that use it and are not on a node yet.
    pub unscheduled: &'a dyn Fn() -> Vec<Text>,
}

/// The input of the decision for a volume.
pub(super) struct VolumeSnapshot<'a> {
    pub volume: &'a Volume,
    /// The claim that it refers to by name and identity, if there is one.
    pub claim: Option<&'a Claim>,
    /// Pods that run and name a claim of the same name, as `namespace/name`, if no such
    /// claim exists.
    pub users: &'a dyn Fn() -> Vec<String>,
}

fn notice(about: EventSubject, reason: &'static str, message: impl Into<String>) -> BinderEvent {
    BinderEvent {
        about,
        warning: false,
        reason,
        message: message.into(),
    }
}

fn warning(about: EventSubject, reason: &'static str, message: impl Into<String>) -> BinderEvent {
    BinderEvent {
        warning: true,
        ..notice(about, reason, message)
    }
}

/// Returns the next steps for a claim.
pub(super) fn decide_claim(snapshot: &BindingSnapshot<'_>) -> BinderDecision {
    let claim = snapshot.claim;
    let annotations = &claim.metadata.annotations;
    let provisioner = annotations.get(PROVISIONER);
    let provisioner = provisioner.or_else(|| annotations.get(BETA_PROVISIONER));
    let mut decision = BinderDecision::default();
    if let Some(change) = migration(provisioner, annotations.get(MIGRATED_TO)) {
        let change = vec![(MIGRATED_TO, change.map(Text::from))];
        decision.actions.push(BinderAction::AnnotateClaim(change));
    }
    if claim.has(BIND_COMPLETED) {
        decide_bound(snapshot, &mut decision);
    } else if claim.spec.volume_name.is_empty() {
        decide_unbound(snapshot, &mut decision);
    } else {
        decide_requested(snapshot, &mut decision);
    }
    decision
}

/// How the annotation that names the CSI driver in charge has to change.
fn migration(provisioner: Option<&str>, current: Option<&str>) -> Option<Option<&'static str>> {
    let driver = plugins::migrated_driver(provisioner?);
    (driver.unwrap_or_default() != current.unwrap_or_default()).then_some(driver)
}

/// A claim that takes any volume.
fn decide_unbound(snapshot: &BindingSnapshot<'_>, decision: &mut BinderDecision) {
    let claim = snapshot.claim;
    let class_name = claim.class();
    let mut classes = snapshot.classes.iter();
    let class = classes.find(|class| class.metadata.name == class_name && !class_name.is_empty());
    let waits = class.is_some_and(|class| class.waits_for_consumer());
    if let Some(volume) = matching::best(claim, snapshot.volumes, waits) {
        bind(claim, volume, decision);
        return;
    }
    if !claim.names_class()
        && let Some(default) = matching::default_class(snapshot.classes)
    {
        let name = default.metadata.name.clone();
        decision.actions.push(BinderAction::AssignClass(name));
        return;
    }
    if waits && !claim.has(SELECTED_NODE) {
        let event = waits_for_consumer(&(snapshot.unscheduled)());
        decision.actions.push(BinderAction::Record(event));
    } else if !class_name.is_empty() {
        provision(claim, class.map(AsRef::as_ref), decision);
        return;
    } else {
        decision.actions.push(BinderAction::Record(notice(
            EventSubject::Claim,
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        )));
    }
    set_claim_status(claim, "Pending", None, None, decision);
}

fn waits_for_consumer(pods: &[Text]) -> BinderEvent {
    let (reason, message) = match pods {
        [] => (
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding".to_owned(),
        ),
        [pod] => (
            "WaitForPodScheduled",
            format!("waiting for pod {pod} to be scheduled"),
        ),
        pods => (
            "WaitForPodScheduled",
            format!("waiting for pods {} to be scheduled", pods.join(",")),
        ),
    };
    notice(EventSubject::Claim, reason, message)
}

/// Hands a claim to the provisioner of its class.
fn provision(claim: &Claim, class: Option<&StorageClass>, decision: &mut BinderDecision) {
    let provisioner = match class {
        Some(class) => plugins::provisioner(&class.provisioner).map_err(|error| error.to_string()),
        None => {
            let class = claim.class();
            Err(format!("storageclass.storage.k8s.io {class:?} not found"))
        }
    };
    let provisioner = match provisioner {
        Ok(provisioner) => provisioner,
        Err(message) => {
            let event = warning(EventSubject::Claim, "ProvisioningFailed", message);
            decision.actions.push(BinderAction::Record(event));
            return;
        }
    };
    if claim.metadata.annotations.get(PROVISIONER) != Some(provisioner) {
        let name = || Some(Text::from(provisioner));
        decision.actions.push(BinderAction::AnnotateClaim(vec![
            (BETA_PROVISIONER, name()),
            (PROVISIONER, name()),
        ]));
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' \
         or manually by the system administrator. If volume creation is delayed, please verify \
         that the provisioner is running and correctly registered."
    );
    let event = notice(EventSubject::Claim, "ExternalProvisioning", message);
    decision.actions.push(BinderAction::Record(event));
}

/// A claim that asks for a volume by name and is not bound yet.
fn decide_requested(snapshot: &BindingSnapshot<'_>, decision: &mut BinderDecision) {
    let claim = snapshot.claim;
    let Some(volume) = named_volume(snapshot) else {
        set_claim_status(claim, "Pending", None, None, decision);
        return;
    };
    let name = volume.metadata.name.as_str();
    if volume.spec.claim_ref.is_none() {
        match matching::check(volume, claim) {
            Ok(()) => bind(claim, Arc::clone(volume), decision),
            Err(why) => {
                let message = format!("Cannot bind to requested volume {name:?}: {why}");
                let event = warning(EventSubject::Claim, "VolumeMismatch", message);
                decision.actions.push(BinderAction::Record(event));
                set_claim_status(claim, "Pending", None, None, decision);
            }
        }
    } else if volume.is_bound_to(claim) {
        bind(claim, Arc::clone(volume), decision);
    } else {
        let message = format!("volume {name:?} already bound to a different claim.");
        let event = warning(EventSubject::Claim, "FailedBinding", message);
        decision.actions.push(BinderAction::Record(event));
        if !claim.has(BOUND_BY_CONTROLLER) {
            set_claim_status(claim, "Pending", None, None, decision);
        }
    }
}

fn named_volume<'a>(snapshot: &BindingSnapshot<'a>) -> Option<&'a Arc<Volume>> {
    let name = &snapshot.claim.spec.volume_name;
    let mut volumes = snapshot.volumes.iter();
    volumes.find(|volume| volume.metadata.name == *name)
}

/// A claim that was bound before.
fn decide_bound(snapshot: &BindingSnapshot<'_>, decision: &mut BinderDecision) {
    let claim = snapshot.claim;
    let mut lose = |reason, message: &str| {
        if claim.status.phase != "Lost" {
            let event = warning(EventSubject::Claim, reason, message);
            set_claim_status(claim, "Lost", None, Some(event), decision);
        }
    };
    if claim.spec.volume_name.is_empty() {
        lose(
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
        return;
    }
    let Some(volume) = named_volume(snapshot) else {
        lose(
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        );
        return;
    };
    match &volume.spec.claim_ref {
        Some(reference) if reference.uid != claim.metadata.uid => lose(
            "ClaimMisbound",
            "Two claims are bound to the same volume, this one is bound incorrectly",
        ),
        _ => bind(claim, Arc::clone(volume), decision),
    }
}

/// Brings the volume, its status, the claim and its status to the bound state, in this
/// order, where they differ.
fn bind(claim: &Claim, volume: Arc<Volume>, decision: &mut BinderDecision) {
    let (meta, actions) = (&claim.metadata, &mut decision.actions);
    let refers = volume.spec.claim_ref.as_ref().is_some_and(|reference| {
        reference.name == meta.name
            && reference.namespace == meta.namespace
            && reference.uid == meta.uid
    });
    if !refers {
        let chosen_here = !volume.is_bound_to(claim);
        actions.push(BinderAction::BindVolume {
            mark: chosen_here && !volume.has(BOUND_BY_CONTROLLER),
        });
    }
    if volume.status.phase != "Bound" {
        actions.push(BinderAction::VolumePhase("Bound", None));
    }
    let chosen_here = claim.spec.volume_name != volume.metadata.name;
    if chosen_here || !claim.has(BIND_COMPLETED) {
        actions.push(BinderAction::BindClaim {
            mark: chosen_here && !claim.has(BOUND_BY_CONTROLLER),
        });
    }
    set_claim_status(claim, "Bound", Some(&volume), None, decision);
    decision.volume = Some(volume);
}

/// Sets the phase of a claim, and what its volume gives it.
fn set_claim_status(
    claim: &Claim,
    phase: &'static str,
    volume: Option<&Volume>,
    event: Option<BinderEvent>,
    decision: &mut BinderDecision,
) {
    let status = &claim.status;
    let mut change = json!({});
    if status.phase != phase {
        change["phase"] = phase.into();
    }
    match volume {
        None => {
            for (field, is_set) in [
                ("accessModes", status.access_modes.is_some()),
                ("capacity", status.capacity.is_some()),
                (
                    "currentVolumeAttributesClassName",
                    status.current_volume_attributes_class_name.is_some(),
                ),
            ] {
                if is_set {
                    change[field] = Value::Null;
                }
            }
        }
        Some(volume) => {
            if status.access_modes.as_ref() != Some(&volume.spec.access_modes) {
                change["accessModes"] = json!(volume.spec.access_modes);
            }
            // A bound claim may say less than its volume: the file system is expanded last.
            if status.phase != phase {
                set_capacity(claim, volume, &mut change);
            }
            let class = &volume.spec.volume_attributes_class_name;
            if status.phase == "Pending" && *class != status.current_volume_attributes_class_name {
                change["currentVolumeAttributesClassName"] = json!(class);
            }
        }
    }
    if change.as_object().is_some_and(|fields| !fields.is_empty()) {
        decision
            .actions
            .push(BinderAction::ClaimStatus(change, event));
    }
}

fn set_capacity(claim: &Claim, volume: &Volume, change: &mut Value) {
    let annotated = volume.metadata.annotations.get(PRE_RESIZE_CAPACITY);
    let given = volume.spec.capacity.storage.as_deref();
    if let Some(before) = annotated {
        let before = Some(before).filter(|text| Quantity::parse(text).is_ok());
        change["capacity"] = json!({"storage": before.or(given)});
        return;
    }
    let parse = |text: &str| Quantity::parse(text).ok();
    let current = claim.status.capacity.as_ref();
    let current = current.and_then(|capacity| capacity.storage.as_deref());
    if current.is_none() || current.and_then(parse) != given.and_then(parse) {
        change["capacity"] = json!({"storage": given});
    }
}

/// Returns the next steps for a volume.
pub(super) fn decide_volume(snapshot: &VolumeSnapshot<'_>) -> Vec<BinderAction> {
    let volume = snapshot.volume;
    let mut actions = Vec::new();
    actions.extend(change_metadata(volume));
    let set_phase = |phase: &'static str, actions: &mut Vec<BinderAction>| {
        if volume.status.phase != phase {
            actions.push(BinderAction::VolumePhase(phase, None));
        }
    };
    let Some(reference) = &volume.spec.claim_ref else {
        set_phase("Available", &mut actions);
        return actions;
    };
    if reference.uid.is_empty() {
        set_phase("Available", &mut actions);
        return actions;
    }
    let Some(claim) = snapshot.claim else {
        release(snapshot, &mut actions);
        return actions;
    };
    if claim.spec.volume_name.is_empty() {
        if volume_modes_differ(volume, claim) {
            let (volume, claim) = (&volume.metadata.name, &claim.metadata.name);
            let about_volume = format!(
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
                claim.as_str()
            );
            let about_claim = format!(
                "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
                volume.as_str()
            );
            let reason = "VolumeMismatch";
            actions.push(BinderAction::Record(warning(
                EventSubject::Volume,
                reason,
                about_volume,
            )));
            actions.push(BinderAction::Record(warning(
                EventSubject::Claim,
                reason,
                about_claim,
            )));
        } else {
            actions.push(BinderAction::SyncClaim);
        }
    } else if claim.spec.volume_name == volume.metadata.name {
        set_phase("Bound", &mut actions);
    } else if volume.has(PROVISIONED_BY) && volume.spec.persistent_volume_reclaim_policy == "Delete"
    {
        release(snapshot, &mut actions);
    } else {
        actions.push(BinderAction::UnbindVolume {
            whole: volume.has(BOUND_BY_CONTROLLER),
        });
        set_phase("Available", &mut actions);
    }
    actions
}

/// Annotations and finalizers of volumes that an in-tree plug-in or its successor made.
fn change_metadata(volume: &Volume) -> Option<BinderAction> {
    let annotations = &volume.metadata.annotations;
    let provisioner = annotations.get(PROVISIONED_BY)?;
    let migrated_to = migration(Some(provisioner), annotations.get(MIGRATED_TO));
    let finalizers = finalizers(volume, provisioner);
    (migrated_to.is_some() || finalizers.is_some()).then_some(BinderAction::ChangeVolume {
        migrated_to,
        finalizers,
    })
}

fn finalizers(volume: &Volume, provisioner: &str) -> Option<Vec<Text>> {
    let current = &volume.metadata.finalizers;
    let mut wanted = current.clone();
    let has_in_tree = current.iter().any(|name| name == IN_TREE_FINALIZER);
    if plugins::migrated_driver(provisioner).is_some() {
        wanted.retain(|name| name != IN_TREE_FINALIZER);
    } else if provisioner.starts_with("kubernetes.io/") {
        match volume.spec.persistent_volume_reclaim_policy.as_str() {
            "Delete" if !has_in_tree => wanted.push(IN_TREE_FINALIZER.into()),
            "Retain" | "Recycle" => wanted.retain(|name| name != IN_TREE_FINALIZER),
            _ => {}
        }
        wanted.retain(|name| name != EXTERNAL_FINALIZER);
    }
    (wanted != *current).then_some(wanted)
}

/// Handles a volume whose claim was deleted, or has another volume: it is released, and
/// its reclaim policy applies. A failure stays visible.
fn release(snapshot: &VolumeSnapshot<'_>, actions: &mut Vec<BinderAction>) {
    let volume = snapshot.volume;
    let phase = volume.status.phase.as_str();
    let mut fail = |reason: &'static str, message: String| {
        if phase != "Failed" {
            let event = warning(EventSubject::Volume, reason, message);
            actions.push(BinderAction::VolumePhase("Failed", Some(event)));
        }
    };
    let migrated = volume.metadata.annotations.get(MIGRATED_TO);
    let migrated = migrated.is_some_and(|driver| !driver.is_empty());
    match volume.spec.persistent_volume_reclaim_policy.as_str() {
        _ if migrated => {}
        "Retain" => {}
        "Delete" => {
            if let Err(error) = plugins::external_deleter(volume) {
                fail("VolumeFailedDelete", error.to_string());
                return;
            }
        }
        "Recycle" => {
            let users = (snapshot.users)();
            if users.is_empty() {
                let message = "No recycler plugin found for the volume!".to_owned();
                fail("VolumeFailedRecycle", message);
                return;
            }
            let message = format!("Volume is used by pods: {}", users.join(","));
            let event = notice(EventSubject::Volume, "VolumeFailedRecycle", message);
            actions.push(BinderAction::Record(event));
        }
        _ => {
            fail(
                "VolumeUnknownReclaimPolicy",
                "Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned(),
            );
            return;
        }
    }
    if phase != "Released" && phase != "Failed" {
        actions.push(BinderAction::VolumePhase("Released", None));
    }
}
