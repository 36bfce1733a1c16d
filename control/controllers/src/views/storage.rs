//! Volumes, claims to them, their classes, drivers and attachments.

use control_client::Meta;
use control_types::quantity::Quantity;
use control_types::volumes::{self, AccessModes, is_bound_to};
use serde::Deserialize;

use super::common::{LabelSelector, Text, is_present, list, null_as_default};

/// The class annotation that predates `spec.storageClassName`.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Name, annotations and finalizers.
    pub metadata: Meta,
    /// The specification.
    pub spec: ClaimSpec,
    /// The status.
    pub status: ClaimStatus,
}

/// The specification of a claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// The modes that the volume must support.
    #[serde(deserialize_with = "list")]
    pub access_modes: Vec<Text>,
    /// The volume it is bound to, or wants to be.
    pub volume_name: Text,
    /// The storage class; an empty one is a class too.
    pub storage_class_name: Option<Text>,
    /// `Filesystem` (also when absent) or `Block`.
    pub volume_mode: Option<Text>,
    /// Labels that the volume must have.
    pub selector: Option<LabelSelector>,
    /// The least size.
    pub resources: ClaimResources,
    /// The class of its attributes.
    pub volume_attributes_class_name: Option<Text>,
    /// The object that its volume is a copy of.
    pub data_source_ref: Option<Box<DataSource>>,
}

/// The object that a volume is a copy of (`v1.TypedObjectReference`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataSource {
    /// Its group.
    #[serde(deserialize_with = "null_as_default")]
    pub api_group: Text,
    /// Its kind.
    pub kind: Text,
    /// Its name.
    pub name: Text,
    /// Its namespace; empty for the claim's.
    #[serde(deserialize_with = "null_as_default")]
    pub namespace: Text,
}

/// The resources that a claim requests.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    /// The requests.
    #[serde(deserialize_with = "null_as_default")]
    pub requests: Capacity,
}

/// A resource list, of which only the storage is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Capacity {
    /// The size, a quantity.
    pub storage: Option<Text>,
}

/// The status of a claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: Text,
    /// The modes of its volume.
    pub access_modes: Option<Vec<Text>>,
    /// The size of its volume.
    pub capacity: Option<Capacity>,
    /// The class that its volume has now.
    pub current_volume_attributes_class_name: Option<Text>,
    /// The class that its volume is being given.
    pub modify_volume_status: Option<ModifyTarget>,
}

/// The class that a volume is being given.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyTarget {
    /// Its name.
    pub target_volume_attributes_class_name: Option<Text>,
}

impl Claim {
    /// The storage class that it asks for, empty for none.
    #[must_use]
    pub fn class(&self) -> &str {
        let beta = self.metadata.annotations.get(BETA_CLASS);
        beta.or(self.spec.storage_class_name.as_deref())
            .unwrap_or_default()
    }

    /// Whether it says anything about a storage class, be it the empty one.
    #[must_use]
    pub fn names_class(&self) -> bool {
        self.metadata.annotations.contains_key(BETA_CLASS) || self.spec.storage_class_name.is_some()
    }

    /// Whether an annotation is set.
    #[must_use]
    pub fn has(&self, annotation: &str) -> bool {
        self.metadata.annotations.contains_key(annotation)
    }
}

/// A PersistentVolume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// Name, annotations and finalizers.
    pub metadata: Meta,
    /// The specification.
    pub spec: VolumeSpec,
    /// The phase of its life.
    pub status: VolumeStatus,
}

/// The specification of a volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// Its size.
    #[serde(deserialize_with = "null_as_default")]
    pub capacity: Capacity,
    /// The modes it supports.
    #[serde(deserialize_with = "list")]
    pub access_modes: Vec<Text>,
    /// The claim that has it, or for which it is reserved.
    pub claim_ref: Option<ClaimRef>,
    /// `Retain`, `Delete` or `Recycle`.
    pub persistent_volume_reclaim_policy: Text,
    /// Its storage class.
    pub storage_class_name: Text,
    /// `Filesystem` (also when absent) or `Block`.
    pub volume_mode: Option<Text>,
    /// The class of its attributes.
    pub volume_attributes_class_name: Option<Text>,
    /// The CSI driver behind it.
    pub csi: Option<CsiSource>,
    /// The nodes that reach it.
    #[serde(deserialize_with = "null_as_default")]
    pub node_affinity: VolumeAffinity,
    /// A folder of the node.
    pub host_path: Option<HostPath>,
    /// An NFS export.
    #[serde(deserialize_with = "is_present")]
    pub nfs: bool,
    /// A disk of the node.
    #[serde(deserialize_with = "is_present")]
    pub local: bool,
    /// An iSCSI disk.
    pub iscsi: Option<Box<IscsiSource>>,
    /// A Fibre Channel disk.
    #[serde(deserialize_with = "is_present")]
    pub fc: bool,
    /// An in-tree source that a CSI driver took over.
    #[serde(deserialize_with = "is_present")]
    pub aws_elastic_block_store: bool,
    /// The same.
    #[serde(deserialize_with = "is_present")]
    pub azure_disk: bool,
    /// The same.
    #[serde(deserialize_with = "is_present")]
    pub azure_file: bool,
    /// The same.
    #[serde(deserialize_with = "is_present")]
    pub cinder: bool,
    /// The same.
    #[serde(deserialize_with = "is_present")]
    pub gce_persistent_disk: bool,
    /// The same.
    #[serde(deserialize_with = "is_present")]
    pub portworx_volume: bool,
    /// The same.
    #[serde(deserialize_with = "is_present")]
    pub vsphere_volume: bool,
}

/// The nodes that reach a volume (`v1.VolumeNodeAffinity`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeAffinity {
    /// The required labels.
    #[serde(deserialize_with = "null_as_default")]
    pub required: NodeTerms,
}

/// Terms of which a node must meet one (`v1.NodeSelector`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTerms {
    /// The terms.
    #[serde(deserialize_with = "list")]
    pub node_selector_terms: Vec<NodeTerm>,
}

/// Expressions that a node must meet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTerm {
    /// The expressions.
    #[serde(deserialize_with = "list")]
    pub match_expressions: Vec<NodeExpression>,
}

/// An expression about a label of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeExpression {
    /// The label.
    pub key: Text,
    /// `In` and so on.
    pub operator: Text,
    /// The values.
    #[serde(deserialize_with = "list")]
    pub values: Vec<Text>,
}

/// A volume's reference to its claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// The claim's namespace.
    pub namespace: Text,
    /// The claim's name.
    pub name: Text,
    /// The claim's identity; empty while the volume is only reserved for it.
    pub uid: Text,
}

/// A volume of a CSI driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSource {
    /// The driver's name.
    pub driver: Text,
    /// The driver's name of the volume.
    pub volume_handle: Text,
}

/// An iSCSI disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IscsiSource {
    /// Address of the target.
    pub target_portal: Text,
    /// Name of the target.
    pub iqn: Text,
    /// The disk's number there.
    pub lun: i32,
}

/// A folder of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HostPath {
    /// Its path.
    pub path: Text,
}

/// The state of a volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    pub phase: Text,
}

impl Volume {
    /// Its storage class, empty for none.
    #[must_use]
    pub fn class(&self) -> &str {
        let beta = self.metadata.annotations.get(BETA_CLASS);
        beta.unwrap_or(&self.spec.storage_class_name)
    }

    /// Whether an annotation is set.
    #[must_use]
    pub fn has(&self, annotation: &str) -> bool {
        self.metadata.annotations.contains_key(annotation)
    }

    /// Returns whether it is bound to a claim or reserved for it.
    #[must_use]
    pub fn is_bound_to(&self, claim: &Claim) -> bool {
        is_bound_to(self, claim)
    }
}

impl Capacity {
    fn quantity(&self) -> Quantity {
        let text = self.storage.as_deref();
        text.and_then(|text| Quantity::parse(text).ok())
            .unwrap_or(Quantity::ZERO)
    }
}

fn is_block(mode: Option<&Text>) -> bool {
    mode.is_some_and(|mode| mode == "Block")
}

impl volumes::VolumeClaim for Claim {
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
        self.class()
    }

    fn request(&self) -> Quantity {
        self.spec.resources.requests.quantity()
    }

    fn access_modes(&self) -> AccessModes {
        self.spec.access_modes.iter().collect()
    }

    fn is_block(&self) -> bool {
        is_block(self.spec.volume_mode.as_ref())
    }

    fn attributes_class(&self) -> &str {
        let class = self.spec.volume_attributes_class_name.as_deref();
        class.unwrap_or_default()
    }

    fn selects<'a>(&self, label: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        let selector = self.spec.selector.as_ref();
        selector.is_none_or(|selector| selector.matches(label))
    }
}

impl volumes::Volume for Volume {
    fn claim_ref(&self) -> Option<volumes::ClaimRef<'_>> {
        let reference = self.spec.claim_ref.as_ref()?;
        Some(volumes::ClaimRef {
            namespace: &reference.namespace,
            name: &reference.name,
            uid: &reference.uid,
        })
    }

    fn class(&self) -> &str {
        self.class()
    }

    fn capacity(&self) -> Quantity {
        self.spec.capacity.quantity()
    }

    fn access_modes(&self) -> AccessModes {
        self.spec.access_modes.iter().collect()
    }

    fn is_block(&self) -> bool {
        is_block(self.spec.volume_mode.as_ref())
    }

    fn attributes_class(&self) -> &str {
        let class = self.spec.volume_attributes_class_name.as_deref();
        class.unwrap_or_default()
    }

    fn is_available(&self) -> bool {
        self.status.phase == "Available"
    }

    fn is_terminating(&self) -> bool {
        self.metadata.is_terminating()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key)
    }
}

/// A VolumeAttributesClass.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AttributesClass {
    /// Name and finalizers.
    pub metadata: Meta,
}

/// A StorageClass.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Name and annotations.
    pub metadata: Meta,
    /// The provisioner of its volumes.
    pub provisioner: Text,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<Text>,
    /// The topologies in which its volumes may be.
    #[serde(deserialize_with = "list")]
    pub allowed_topologies: Vec<AllowedTopology>,
}

/// Labels that a node must have (`v1.TopologySelectorTerm`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedTopology {
    /// The labels.
    #[serde(deserialize_with = "list")]
    pub match_label_expressions: Vec<AllowedLabel>,
}

/// A label and the values that it may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AllowedLabel {
    /// The label.
    pub key: Text,
    /// The values.
    #[serde(deserialize_with = "list")]
    pub values: Vec<Text>,
}

impl StorageClass {
    /// Whether its volumes may be on a node that has this one label.
    #[must_use]
    pub fn allows(&self, key: &str, value: &str) -> bool {
        let meets = |label: &AllowedLabel| {
            label.key == key && label.values.iter().any(|allowed| allowed == value)
        };
        let mut all = self.allowed_topologies.iter();
        self.allowed_topologies.is_empty()
            || all.any(|term| term.match_label_expressions.iter().all(meets))
    }

    /// Whether claims without a class get this one.
    #[must_use]
    pub fn is_default(&self) -> bool {
        [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ]
        .iter()
        .any(|name| self.metadata.annotations.get(name) == Some("true"))
    }

    /// Whether its claims are bound when a pod that uses them is scheduled.
    #[must_use]
    pub fn waits_for_consumer(&self) -> bool {
        self.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
    }
}

/// A CSIDriver.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    /// Its name.
    pub metadata: Meta,
    /// The capabilities.
    pub spec: CsiDriverSpec,
}

/// The capabilities of a CSI driver.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// Whether its volumes must be attached before they are mounted; so it is
    /// when absent.
    pub attach_required: Option<bool>,
    /// Whether its volumes can be mounted with an SELinux label.
    #[serde(deserialize_with = "null_as_default")]
    pub se_linux_mount: bool,
}

/// A VolumeAttachment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    /// Its name.
    pub metadata: Meta,
    /// The volume, the node and the attacher.
    pub spec: AttachmentSpec,
    /// Whether the volume is attached.
    pub status: AttachmentStatus,
}

/// The volume, the node and the attacher of an attachment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSpec {
    /// The CSI driver.
    pub attacher: Text,
    /// The node.
    pub node_name: Text,
    /// The volume.
    pub source: AttachmentSource,
}

/// The volume of an attachment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSource {
    /// The PersistentVolume.
    pub persistent_volume_name: Option<Text>,
}

/// Whether a volume is attached.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentStatus {
    /// Whether the volume is attached.
    pub attached: bool,
    /// The error of attaching.
    pub attach_error: Option<AttachmentError>,
    /// The error of detaching.
    pub detach_error: Option<AttachmentError>,
}

/// The error of attaching or detaching a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AttachmentError {
    /// A sentence for people.
    pub message: String,
}
