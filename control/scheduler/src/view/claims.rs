//! Claims to volumes and devices, and what they are bound to.

use compact_str::CompactString;
use control_client::{Meta, Resource, View, resources};
use serde::Deserialize;

use super::wire;
use crate::selector::NodeTerm;

/// Set by whoever bound a claim to its volume, when both know of it.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The view of a claim to a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its spec.
    pub spec: PersistentVolumeClaimSpec,
    /// Its status.
    pub status: PersistentVolumeClaimStatus,
}

/// Spec of a [`PersistentVolumeClaim`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
    /// The volume that it is bound to, or to be bound to.
    pub volume_name: CompactString,
    /// Its class; empty for none.
    #[serde(deserialize_with = "wire::or_default")]
    pub storage_class_name: CompactString,
}

/// Status of a [`PersistentVolumeClaim`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: CompactString,
}

/// The view of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its spec.
    pub spec: PersistentVolumeSpec,
}

/// Spec of a [`PersistentVolume`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// From where it can be reached.
    #[serde(deserialize_with = "wire::or_default")]
    pub node_affinity: VolumeNodeAffinity,
}

/// The nodes from which a volume can be reached.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    /// Nothing: all.
    pub required: Option<NodeSelector>,
}

/// Nodes by terms of which one must match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms.
    #[serde(deserialize_with = "wire::or_default")]
    pub node_selector_terms: Vec<NodeTerm>,
}

/// The view of a class of volumes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// The object's metadata.
    pub metadata: Meta,
    /// `Immediate` or `WaitForFirstConsumer`.
    #[serde(deserialize_with = "wire::or_default")]
    pub volume_binding_mode: CompactString,
}

/// The view of a claim to devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its status.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: ResourceClaimStatus,
}

/// Status of a [`ResourceClaim`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// What it was given.
    pub allocation: Option<Allocation>,
    /// Who may use that.
    #[serde(deserialize_with = "wire::or_default")]
    pub reserved_for: Vec<Consumer>,
}

/// What a [`ResourceClaim`] was given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocation {
    /// The nodes that have it; nothing: all.
    pub node_selector: Option<NodeSelector>,
}

/// Who may use what a [`ResourceClaim`] was given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Consumer {
    /// Its uid.
    pub uid: CompactString,
}

// === impl PersistentVolumeClaim ===

impl PersistentVolumeClaim {
    /// Whether it has its volume.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        !self.spec.volume_name.is_empty() && self.metadata.annotations.get(BIND_COMPLETED).is_some()
    }
}

// === impl PersistentVolume ===

impl PersistentVolume {
    /// The nodes from which it can be reached; nothing: all.
    #[must_use]
    pub fn node_terms(&self) -> Option<Box<[NodeTerm]>> {
        let required = self.spec.node_affinity.required.as_ref()?;
        Some(required.node_selector_terms.clone().into())
    }
}

// === impl Allocation ===

impl Allocation {
    /// The nodes that have it; nothing: all.
    #[must_use]
    pub fn node_terms(&self) -> Option<Box<[NodeTerm]>> {
        let selector = self.node_selector.as_ref()?;
        Some(selector.node_selector_terms.clone().into())
    }
}

// === impl View ===

macro_rules! view {
    ($($view:ident = $resource:expr),* $(,)?) => {
        $(impl View for $view {
            const RESOURCE: Resource = $resource;

            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}

view! {
    PersistentVolumeClaim = resources::PERSISTENT_VOLUME_CLAIMS,
    PersistentVolume = resources::PERSISTENT_VOLUMES,
    StorageClass = resources::STORAGE_CLASSES,
    ResourceClaim =
        Resource::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"),
}
