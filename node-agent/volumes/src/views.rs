//! Claims, volumes and classes, as the loops read them.

use std::collections::BTreeMap;

use control_client::{Meta, Resource, Selection, View, resources};
use control_types::quantity::Quantity;
use node_agent_informers::SharedView;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::driver::{NAME, NODE_KEY};

/// A list of resources, of which only the storage is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StorageAmount {
    pub storage: Option<String>,
}

impl StorageAmount {
    /// Returns the bytes, if there is an amount.
    #[must_use]
    pub fn bytes(&self) -> Option<i64> {
        let text = self.storage.as_deref()?;
        Some(Quantity::parse(text).ok()?.value())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Claim {
    pub metadata: Meta,
    pub spec: ClaimSpec,
    pub status: ClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    pub access_modes: Vec<String>,
    pub data_source: Option<DataSource>,
    pub data_source_ref: Option<DataSource>,
    pub resources: ClaimResources,
    pub storage_class_name: Option<String>,
    pub volume_attributes_class_name: Option<String>,
    pub volume_mode: Option<String>,
    pub volume_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataSource {
    pub api_group: Option<String>,
    pub kind: String,
    pub name: String,
    pub namespace: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    pub limits: StorageAmount,
    pub requests: StorageAmount,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    pub allocated_resource_statuses: BTreeMap<String, String>,
    pub allocated_resources: StorageAmount,
    pub capacity: StorageAmount,
    pub conditions: Vec<Value>,
    pub current_volume_attributes_class_name: Option<String>,
    pub modify_volume_status: Option<Value>,
    pub phase: String,
}

impl Claim {
    /// Returns the name of the class; the former annotation wins, as upstream.
    #[must_use]
    pub fn class(&self) -> &str {
        let annotation = "volume.beta.kubernetes.io/storage-class";
        let former = self.metadata.annotations.get(annotation);
        former.unwrap_or_else(|| self.spec.storage_class_name.as_deref().unwrap_or_default())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Volume {
    pub metadata: Meta,
    pub spec: VolumeSpec,
    pub status: VolumeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    pub access_modes: Vec<String>,
    pub capacity: StorageAmount,
    pub claim_ref: Option<ClaimReference>,
    pub csi: Option<CsiSource>,
    pub mount_options: Vec<String>,
    pub node_affinity: Value,
    pub persistent_volume_reclaim_policy: String,
    pub storage_class_name: String,
    pub volume_attributes_class_name: Option<String>,
    pub volume_mode: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimReference {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSource {
    pub driver: String,
    pub fs_type: String,
    pub volume_handle: String,
    pub controller_expand_secret_ref: Option<SecretReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SecretReference {
    pub name: String,
    pub namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    pub phase: String,
}

impl Volume {
    /// Returns the driver's identifier of the volume, if the driver has it on `node`.
    #[must_use]
    pub fn handle_on(&self, node: &str) -> Option<&str> {
        let csi = self.spec.csi.as_ref().filter(|csi| csi.driver == NAME)?;
        let terms = self.spec.node_affinity["required"]["nodeSelectorTerms"].as_array()?;
        let names_node = |term: &Value| {
            let expressions = term["matchExpressions"].as_array();
            expressions.into_iter().flatten().any(|it| {
                let values = it["values"].as_array();
                it["key"] == NODE_KEY
                    && it["operator"] == "In"
                    && values.is_some_and(|values| values.iter().any(|value| value == node))
            })
        };
        terms
            .iter()
            .any(names_node)
            .then_some(csi.volume_handle.as_str())
    }

    /// Whether the volume belongs to a claim.
    #[must_use]
    pub fn is_of(&self, claim: &Meta) -> bool {
        self.spec.claim_ref.as_ref().is_some_and(|reference| {
            reference.namespace == claim.namespace.as_str() && reference.uid == claim.uid.as_str()
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    pub metadata: Meta,
    pub allowed_topologies: Vec<AllowedTopology>,
    pub mount_options: Vec<String>,
    pub parameters: BTreeMap<String, String>,
    pub provisioner: String,
    pub reclaim_policy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedTopology {
    pub match_label_expressions: Vec<AllowedLabel>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AllowedLabel {
    pub key: String,
    pub values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttributesClass {
    pub metadata: Meta,
    pub driver_name: String,
    pub parameters: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageCapacity {
    pub metadata: Meta,
    pub capacity: Option<String>,
    pub maximum_volume_size: Option<String>,
    pub node_topology: Value,
    pub storage_class_name: String,
}

/// `storage.k8s.io/v1` CSIStorageCapacity.
pub const STORAGE_CAPACITIES: Resource = Resource::namespaced(
    "storage.k8s.io",
    "v1",
    "csistoragecapacities",
    "CSIStorageCapacity",
);

const LOCAL_STORAGE: &str = "storage.orlop.dev";
/// Claims, as nodes read those for which they were selected.
const LOCAL_CLAIMS: Resource =
    Resource::namespaced(LOCAL_STORAGE, "v1alpha1", "localclaims", "LocalClaim");
/// Volumes, as nodes read those that are on them.
pub const LOCAL_VOLUMES: Resource =
    Resource::cluster(LOCAL_STORAGE, "v1alpha1", "localvolumes", "LocalVolume");

macro_rules! views {
    ($($view:ident: $resource:expr;)*) => {
        $(impl View for $view {
            const RESOURCE: Resource = $resource;

            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}

views! {
    Claim: resources::PERSISTENT_VOLUME_CLAIMS;
    Volume: resources::PERSISTENT_VOLUMES;
    StorageClass: resources::STORAGE_CLASSES;
    AttributesClass: resources::VOLUME_ATTRIBUTES_CLASSES;
    StorageCapacity: STORAGE_CAPACITIES;
}

/// Selects the claims and volumes of a node, in the views that nodes read.
fn of_node(node: &str) -> Selection {
    Selection::all().fields(format!("spec.nodeName={node}"))
}

impl SharedView for Claim {
    const WATCHED: Resource = LOCAL_CLAIMS;

    fn selection(node: &str) -> Selection {
        of_node(node)
    }
}

impl SharedView for Volume {
    const WATCHED: Resource = LOCAL_VOLUMES;

    fn selection(node: &str) -> Selection {
        of_node(node)
    }
}

impl SharedView for StorageClass {}

impl SharedView for AttributesClass {}
