//! Volumes, claims to them, and what says where volumes can be made and attached.

use std::sync::Arc;

use compact_str::CompactString;
use control_client::{Meta, Resource, View, resources};
use control_types::quantity::Quantity;
use control_types::volumes::{self, AccessModes};
use serde::Deserialize;

use super::keys::ClaimKey;
use super::null;
use crate::selector::{LabelSelector, NodeTerm};
use crate::volumes::migration::MigratedVolume;

mod raw;

/// The view of a claim to a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "raw::Claim")]
pub struct PersistentVolumeClaim {
    /// The object's metadata, without labels, annotations and finalizers.
    pub metadata: Meta,
    /// The volume that it is bound to, or to be bound to; empty for none.
    pub volume_name: CompactString,
    /// Its storage class; empty for none.
    pub class: CompactString,
    /// The size that it requests.
    pub request: Option<Quantity>,
    /// The access modes that the volume must support.
    pub access_modes: AccessModes,
    /// Whether it asks for a block device.
    pub is_block: bool,
    /// Its VolumeAttributesClass; empty for none.
    pub attributes_class: CompactString,
    /// Labels that the volume must have.
    pub selector: Option<Box<LabelSelector>>,
    /// The node for which its volume is to be provisioned
    /// (`volume.kubernetes.io/selected-node`).
    pub selected_node: Option<CompactString>,
    /// Whether the binder finished (`pv.kubernetes.io/bind-completed`).
    pub bind_completed: bool,
    /// Whether its volume was lost (phase `Lost`).
    pub lost: bool,
}

/// The view of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "raw::Volume")]
pub struct PersistentVolume {
    /// The object's metadata, without annotations and finalizers.
    pub metadata: Meta,
    /// Its storage class; empty for none.
    pub class: CompactString,
    /// Its size.
    pub capacity: Quantity,
    /// The access modes that it supports.
    pub access_modes: AccessModes,
    /// Whether it is a block device.
    pub is_block: bool,
    /// Its VolumeAttributesClass; empty for none.
    pub attributes_class: CompactString,
    /// The claim that has it, or that it is reserved for.
    pub claim_ref: Option<Box<ClaimRef>>,
    /// The nodes that can reach it, by terms of which one must match; `None`: all.
    pub node_affinity: Option<Arc<[NodeTerm]>>,
    /// The storage behind it.
    pub source: VolumeSource,
    /// Whether its phase is `Available`.
    pub available: bool,
    /// Whether a controller chose its claim (`pv.kubernetes.io/bound-by-controller`).
    pub bound_by_controller: bool,
}

/// A volume's reference to its claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// The claim's namespace.
    pub namespace: CompactString,
    /// The claim's name.
    pub name: CompactString,
    /// The claim's uid; empty while the volume is only reserved for the name.
    pub uid: CompactString,
}

/// The storage behind a volume, as far as attachment limits and migration need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeSource {
    /// A CSI driver.
    Csi {
        /// The driver.
        driver: CompactString,
        /// The driver's name of the volume.
        handle: CompactString,
    },
    /// An in-tree plugin whose work a CSI driver took over.
    InTree(Box<MigratedVolume>),
    /// Anything else.
    #[default]
    Other,
}

/// The view of a class of volumes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// The object's metadata.
    pub metadata: Meta,
    /// The provisioner of its volumes.
    #[serde(deserialize_with = "null::or_default")]
    pub provisioner: CompactString,
    /// `Immediate` or `WaitForFirstConsumer`.
    #[serde(deserialize_with = "null::or_default")]
    pub volume_binding_mode: CompactString,
    /// The topologies in which its volumes can be provisioned: one of the terms must
    /// match; empty means everywhere.
    #[serde(deserialize_with = "null::or_default")]
    pub allowed_topologies: Vec<TopologyTerm>,
}

/// `core/v1` TopologySelectorTerm: labels of which each must have one of its values. An
/// empty term matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyTerm {
    /// The labels.
    #[serde(deserialize_with = "null::or_default")]
    pub match_label_expressions: Vec<TopologyLabel>,
}

/// A label of a [`TopologyTerm`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TopologyLabel {
    /// Its key.
    pub key: CompactString,
    /// The values, of which it must have one.
    #[serde(deserialize_with = "null::or_default")]
    pub values: Vec<CompactString>,
}

/// The view of a CSINode: the CSI drivers of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "raw::RawCsiNode")]
pub struct CsiNode {
    /// The object's metadata, without annotations. Its name is the node's.
    pub metadata: Meta,
    /// The drivers, and how many volumes of each may be attached; `None`: any number.
    pub drivers: Box<[(CompactString, Option<i64>)]>,
    /// In-tree plugins whose volumes CSI drivers mount on this node
    /// (`storage.alpha.kubernetes.io/migrated-plugins`).
    pub migrated_plugins: Box<[CompactString]>,
}

/// The view of a CSIDriver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its spec.
    pub spec: CsiDriverSpec,
}

/// Spec of a [`CsiDriver`], without the fields of `VolumeLimitScaling` (alpha).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// Whether the driver says, by CSIStorageCapacity objects, where it has room.
    #[serde(deserialize_with = "null::or_default")]
    pub storage_capacity: bool,
}

/// The view of a CSIStorageCapacity: room for volumes of a class in a part of the cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "raw::StorageCapacity")]
pub struct CsiStorageCapacity {
    /// The object's metadata.
    pub metadata: Meta,
    /// The storage class.
    pub class: CompactString,
    /// The largest volume that can be made, in bytes; `None`: none can.
    pub volume_limit: Option<i64>,
    /// All that is free, in bytes.
    pub capacity: Option<i64>,
    /// The nodes that can reach it; `None`: none can.
    pub node_topology: Option<LabelSelector>,
}

/// The view of a VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "raw::Attachment")]
pub struct VolumeAttachment {
    /// The object's metadata.
    pub metadata: Meta,
    /// The CSI driver.
    pub attacher: CompactString,
    /// The node.
    pub node: CompactString,
    /// The volume; `None` for an inline volume of a pod.
    pub volume: Option<CompactString>,
}

// === impl PersistentVolumeClaim ===

impl PersistentVolumeClaim {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> ClaimKey {
        (self.metadata.namespace.clone(), self.metadata.name.clone())
    }

    /// Whether it has its volume, and the binder finished.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        !self.volume_name.is_empty() && self.bind_completed
    }
}

impl volumes::VolumeClaim for PersistentVolumeClaim {
    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn uid(&self) -> &str {
        &self.metadata.uid
    }

    fn class(&self) -> &str {
        &self.class
    }

    fn request(&self) -> Quantity {
        self.request.clone().unwrap_or(Quantity::ZERO)
    }

    fn access_modes(&self) -> AccessModes {
        self.access_modes
    }

    fn is_block(&self) -> bool {
        self.is_block
    }

    fn attributes_class(&self) -> &str {
        &self.attributes_class
    }

    fn selects<'a>(&self, label: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        let selector = self.selector.as_ref();
        selector.is_none_or(|selector| selector.matches_with(label))
    }
}

// === impl PersistentVolume ===

impl volumes::Volume for PersistentVolume {
    fn claim_ref(&self) -> Option<volumes::ClaimRef<'_>> {
        let reference = self.claim_ref.as_ref()?;
        Some(volumes::ClaimRef {
            namespace: &reference.namespace,
            name: &reference.name,
            uid: &reference.uid,
        })
    }

    fn class(&self) -> &str {
        &self.class
    }

    fn capacity(&self) -> Quantity {
        self.capacity.clone()
    }

    fn access_modes(&self) -> AccessModes {
        self.access_modes
    }

    fn is_block(&self) -> bool {
        self.is_block
    }

    fn attributes_class(&self) -> &str {
        &self.attributes_class
    }

    fn is_available(&self) -> bool {
        self.available
    }

    fn is_terminating(&self) -> bool {
        self.metadata.is_terminating()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key)
    }
}

// === impl StorageClass ===

impl StorageClass {
    /// Whether its claims wait for a pod that uses them.
    #[must_use]
    pub fn waits_for_consumer(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }
}

// === impl CsiNode ===

impl CsiNode {
    /// Whether volumes of an in-tree plugin are mounted by its CSI driver on this node.
    #[must_use]
    pub fn migrates(&self, plugin: &str) -> bool {
        self.migrated_plugins.iter().any(|name| name == plugin)
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
    CsiNode = Resource::cluster("storage.k8s.io", "v1", "csinodes", "CSINode"),
    CsiDriver = Resource::cluster("storage.k8s.io", "v1", "csidrivers", "CSIDriver"),
    CsiStorageCapacity =
        Resource::namespaced("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
    VolumeAttachment =
        Resource::cluster("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment"),
}
