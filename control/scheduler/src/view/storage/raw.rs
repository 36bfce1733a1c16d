//! Volumes as the API server sends them.

use compact_str::CompactString;
use control_client::{Meta, StringMap};
use control_types::quantity::Quantity;
use serde::Deserialize;

use super::{
    ClaimRef, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, VolumeAttachment,
    VolumeSource,
};
use crate::selector::{LabelSelector, NodeTerm};
use crate::view::{disks, null};
use crate::volumes::migration::MigratedVolume;

/// The class annotation that predates `spec.storageClassName`.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    metadata: Meta,
    #[serde(deserialize_with = "null::or_default")]
    spec: ClaimSpec,
    #[serde(deserialize_with = "null::or_default")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    volume_name: CompactString,
    storage_class_name: Option<CompactString>,
    #[serde(deserialize_with = "null::or_default")]
    access_modes: Vec<CompactString>,
    volume_mode: Option<CompactString>,
    volume_attributes_class_name: Option<CompactString>,
    selector: Option<LabelSelector>,
    #[serde(deserialize_with = "null::or_default")]
    resources: ClaimResources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimResources {
    #[serde(deserialize_with = "null::or_default")]
    requests: Capacity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Capacity {
    storage: Option<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "null::or_default")]
    phase: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Volume {
    metadata: Meta,
    #[serde(deserialize_with = "null::or_default")]
    spec: VolumeSpec,
    #[serde(deserialize_with = "null::or_default")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    storage_class_name: CompactString,
    #[serde(deserialize_with = "null::or_default")]
    capacity: Capacity,
    #[serde(deserialize_with = "null::or_default")]
    access_modes: Vec<CompactString>,
    volume_mode: Option<CompactString>,
    volume_attributes_class_name: Option<CompactString>,
    claim_ref: Option<ClaimRef>,
    #[serde(deserialize_with = "null::or_default")]
    node_affinity: VolumeNodeAffinity,
    csi: Option<Csi>,
    aws_elastic_block_store: Option<disks::VolumeId>,
    gce_persistent_disk: Option<disks::GcePersistentDisk>,
    azure_disk: Option<disks::AzureDisk>,
    cinder: Option<disks::VolumeId>,
    portworx_volume: Option<disks::VolumeId>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VolumeNodeAffinity {
    required: Option<NodeSelector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    #[serde(deserialize_with = "null::or_default")]
    node_selector_terms: Vec<NodeTerm>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Csi {
    driver: CompactString,
    volume_handle: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawCsiNode {
    metadata: Meta,
    #[serde(deserialize_with = "null::or_default")]
    spec: CsiNodeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CsiNodeSpec {
    #[serde(deserialize_with = "null::or_default")]
    drivers: Vec<CsiNodeDriver>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CsiNodeDriver {
    name: CompactString,
    #[serde(deserialize_with = "null::or_default")]
    allocatable: RawAllocatable,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAllocatable {
    count: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StorageCapacity {
    metadata: Meta,
    #[serde(deserialize_with = "null::or_default")]
    storage_class_name: CompactString,
    capacity: Option<CompactString>,
    maximum_volume_size: Option<CompactString>,
    node_topology: Option<LabelSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Attachment {
    metadata: Meta,
    #[serde(deserialize_with = "null::or_default")]
    spec: AttachmentSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentSpec {
    attacher: CompactString,
    node_name: CompactString,
    #[serde(deserialize_with = "null::or_default")]
    source: AttachmentSource,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentSource {
    persistent_volume_name: Option<CompactString>,
}

/// A size that is no quantity counts as absent: the API server admits none.
fn quantity(text: Option<&CompactString>) -> Option<Quantity> {
    text.and_then(|text| Quantity::parse(text).ok())
}

fn is_block(mode: Option<&CompactString>) -> bool {
    mode.is_some_and(|mode| mode == "Block")
}

/// Takes the annotations and finalizers away, and returns the annotations.
fn strip(meta: &mut Meta) -> StringMap {
    meta.finalizers = Vec::new();
    std::mem::take(&mut meta.annotations)
}

impl From<Claim> for PersistentVolumeClaim {
    fn from(raw: Claim) -> Self {
        let (mut metadata, spec) = (raw.metadata, raw.spec);
        let annotations = strip(&mut metadata);
        metadata.labels = StringMap::default();
        let class = annotations.get(BETA_CLASS).map(CompactString::from);
        Self {
            metadata,
            volume_name: spec.volume_name,
            class: class.or(spec.storage_class_name).unwrap_or_default(),
            request: quantity(spec.resources.requests.storage.as_ref()),
            access_modes: spec.access_modes.iter().collect(),
            is_block: is_block(spec.volume_mode.as_ref()),
            attributes_class: spec.volume_attributes_class_name.unwrap_or_default(),
            selector: spec.selector.map(Box::new),
            selected_node: annotations.get(SELECTED_NODE).map(CompactString::from),
            bind_completed: annotations.contains_key(BIND_COMPLETED),
            lost: raw.status.phase == "Lost",
        }
    }
}

impl From<Volume> for PersistentVolume {
    fn from(raw: Volume) -> Self {
        let (mut metadata, spec) = (raw.metadata, raw.spec);
        let annotations = strip(&mut metadata);
        let class = annotations.get(BETA_CLASS).map(CompactString::from);
        let terms = spec.node_affinity.required;
        let terms = terms.map(|required| required.node_selector_terms);
        let in_tree = disks::in_tree(
            spec.aws_elastic_block_store,
            spec.gce_persistent_disk,
            spec.azure_disk,
            spec.cinder,
            spec.portworx_volume,
        );
        let source = match (spec.csi, in_tree) {
            (Some(csi), _) => VolumeSource::Csi {
                driver: csi.driver,
                handle: csi.volume_handle,
            },
            (None, Some(volume)) => {
                let migrated =
                    MigratedVolume::translate(volume, &metadata.labels, terms.as_deref());
                VolumeSource::InTree(Box::new(migrated))
            }
            (None, None) => VolumeSource::Other,
        };
        Self {
            class: class.unwrap_or(spec.storage_class_name),
            capacity: quantity(spec.capacity.storage.as_ref()).unwrap_or(Quantity::ZERO),
            access_modes: spec.access_modes.iter().collect(),
            is_block: is_block(spec.volume_mode.as_ref()),
            attributes_class: spec.volume_attributes_class_name.unwrap_or_default(),
            claim_ref: spec.claim_ref.map(Box::new),
            node_affinity: terms.map(Into::into),
            source,
            available: raw.status.phase == "Available",
            bound_by_controller: annotations.contains_key(BOUND_BY_CONTROLLER),
            metadata,
        }
    }
}

impl From<RawCsiNode> for super::CsiNode {
    fn from(raw: RawCsiNode) -> Self {
        let mut metadata = raw.metadata;
        let annotations = strip(&mut metadata);
        let plugins = annotations.get(MIGRATED_PLUGINS).unwrap_or_default();
        let drivers = raw.spec.drivers.into_iter();
        Self {
            metadata,
            drivers: drivers
                .map(|driver| (driver.name, driver.allocatable.count.map(i64::from)))
                .collect(),
            migrated_plugins: plugins
                .split(',')
                .filter(|plugin| !plugin.is_empty())
                .map(CompactString::from)
                .collect(),
        }
    }
}

impl From<StorageCapacity> for CsiStorageCapacity {
    fn from(raw: StorageCapacity) -> Self {
        let mut metadata = raw.metadata;
        strip(&mut metadata);
        metadata.labels = StringMap::default();
        let bytes =
            |text: &Option<CompactString>| quantity(text.as_ref()).map(|quantity| quantity.value());
        let capacity = bytes(&raw.capacity);
        Self {
            metadata,
            class: raw.storage_class_name,
            // The more precise of the two, where a driver reports it.
            volume_limit: bytes(&raw.maximum_volume_size).or(capacity),
            capacity,
            node_topology: raw.node_topology,
        }
    }
}

impl From<Attachment> for VolumeAttachment {
    fn from(raw: Attachment) -> Self {
        let mut metadata = raw.metadata;
        strip(&mut metadata);
        Self {
            metadata,
            attacher: raw.spec.attacher,
            node: raw.spec.node_name,
            volume: raw.spec.source.persistent_volume_name,
        }
    }
}
