//! Decides whether a claim gets a volume here, and of which kind.

use std::collections::BTreeMap;

use csi_api as api;
use serde_json::{Value, json};

use super::parameters::{self, ParameterError, Parameters};
use crate::driver::{NAME, NODE_KEY};
use crate::error::{Error, Result};
use crate::views::{AttributesClass, Claim, DataSource, StorageClass, Volume};

/// The node that the scheduler selected for the first pod of a claim.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Names the provisioner in charge of a claim.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Its former name.
const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// Names the provisioner of a volume.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Keeps a volume until its storage is deleted.
pub const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// Name of the secret for DeleteVolume.
pub const DELETION_SECRET_NAME: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";
/// Its namespace.
pub const DELETION_SECRET_NAMESPACE: &str =
    "volume.kubernetes.io/provisioner-deletion-secret-namespace";
/// Attribute of a volume that names who made it.
const IDENTITY: &str = "storage.kubernetes.io/csiProvisionerIdentity";

/// The objects that a decision depends on.
pub struct ClaimSnapshot<'a> {
    pub claim: &'a Claim,
    /// The storage class, if it exists.
    pub class: Option<&'a StorageClass>,
    /// The class of attributes that the claim names, if it exists.
    pub attributes: Option<&'a AttributesClass>,
    /// Whether the claim's volume was made already.
    pub has_volume: bool,
    /// The node of the driver.
    pub node: &'a str,
}

/// The next step for a claim.
#[derive(Debug, PartialEq)]
pub enum ProvisionDecision {
    /// It is not for this node, or there is nothing to do.
    Nothing,
    /// A volume is to be made.
    Provision(Box<Order>),
    /// No volume can be made, for this reason.
    Refuse(String),
}

/// A volume to be made.
#[derive(Debug, PartialEq)]
pub struct Order {
    /// Name of the volume.
    pub name: String,
    /// What the driver is asked for, but for secrets and source.
    pub request: api::CreateVolumeRequest,
    /// Parameters of the class.
    pub parameters: Parameters,
    /// What the volume is a copy of.
    pub source: Option<DataSource>,
}

/// Returns the next step for a claim.
pub fn decide(snapshot: &ClaimSnapshot<'_>) -> ProvisionDecision {
    let claim = snapshot.claim;
    let annotations = &claim.metadata.annotations;
    let provisioner = annotations.get(PROVISIONER);
    let provisioner = provisioner.or_else(|| annotations.get(BETA_PROVISIONER));
    let is_done = !claim.spec.volume_name.is_empty() || snapshot.has_volume;
    if provisioner != Some(NAME) || is_done || claim.metadata.is_terminating() {
        return ProvisionDecision::Nothing;
    }
    let Some(class) = snapshot.class.filter(|class| class.provisioner == NAME) else {
        return ProvisionDecision::Nothing;
    };
    if annotations.get(SELECTED_NODE) != Some(snapshot.node) {
        return ProvisionDecision::Nothing;
    }
    if source(claim).is_some_and(|source| !is_source(source)) {
        // A volume populator makes the volume.
        return ProvisionDecision::Nothing;
    }
    match order(snapshot, class) {
        Ok(order) => ProvisionDecision::Provision(Box::new(order)),
        Err(error) => ProvisionDecision::Refuse(error.to_string()),
    }
}

/// Returns what the volume of a claim is to be a copy of.
fn source(claim: &Claim) -> Option<&DataSource> {
    let spec = &claim.spec;
    spec.data_source_ref.as_ref().or(spec.data_source.as_ref())
}

/// Whether a source is one that drivers copy.
fn is_source(source: &DataSource) -> bool {
    let group = source.api_group.as_deref().unwrap_or_default();
    matches!(
        (group, source.kind.as_str()),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

/// Whether the allowed topologies of a class contain a node.
fn allows(class: &StorageClass, node: &str) -> bool {
    let meets = |label: &crate::views::AllowedLabel| {
        label.key == NODE_KEY && label.values.iter().any(|value| value == node)
    };
    let mut all = class.allowed_topologies.iter();
    class.allowed_topologies.is_empty()
        || all.any(|it| it.match_label_expressions.iter().all(meets))
}

/// Why the driver is not asked for a volume.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    /// The class does not allow the node.
    #[error("allowedTopologies of storage class {class} do not contain node {node}")]
    Topology { class: String, node: String },
    /// The class has parameters that cannot be.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The claim's VolumeAttributesClass does not exist.
    #[error("volumeattributesclass.storage.k8s.io \"{0}\" not found")]
    NoAttributesClass(String),
    /// The claim's VolumeAttributesClass is of another driver.
    #[error("VAC {name} is of driver {driver}, but the volume is of {NAME}")]
    OtherDriver { name: String, driver: String },
}

fn order(snapshot: &ClaimSnapshot<'_>, class: &StorageClass) -> Result<Order, OrderError> {
    let claim = snapshot.claim;
    if !allows(class, snapshot.node) {
        return Err(OrderError::Topology {
            class: class.metadata.name.to_string(),
            node: snapshot.node.to_owned(),
        });
    }
    let name = volume_name(claim);
    let parameters = parameters::parse(&class.parameters, &name, &claim.metadata)?;
    let spec = &claim.spec;
    let mutable = match spec.volume_attributes_class_name.as_deref() {
        None | Some("") => BTreeMap::new(),
        Some(name) => match snapshot.attributes {
            None => return Err(OrderError::NoAttributesClass(name.to_owned())),
            Some(class) if class.driver_name != NAME => {
                return Err(OrderError::OtherDriver {
                    name: name.to_owned(),
                    driver: class.driver_name.clone(),
                });
            }
            Some(class) => class.parameters.clone(),
        },
    };
    let request = api::CreateVolumeRequest {
        name: name.clone(),
        capacity_range: Some(api::CapacityRange {
            required_bytes: spec.resources.requests.bytes().unwrap_or(0),
            limit_bytes: spec.resources.limits.bytes().unwrap_or(0),
        }),
        volume_capabilities: Vec::new(),
        parameters: parameters.driver.clone(),
        secrets: BTreeMap::new(),
        volume_content_source: None,
        accessibility_requirements: Some(api::TopologyRequirement {
            requisite: vec![topology(snapshot.node)],
            preferred: vec![topology(snapshot.node)],
        }),
        mutable_parameters: mutable,
    };
    Ok(Order {
        name,
        request,
        parameters,
        source: source(claim).cloned(),
    })
}

/// Returns the name of a claim's volume, as external-provisioner makes it.
pub fn volume_name(claim: &Claim) -> String {
    format!("pvc-{}", claim.metadata.uid)
}

/// Returns the topology of a node.
pub fn topology(node: &str) -> api::Topology {
    api::Topology {
        segments: BTreeMap::from([(NODE_KEY.to_owned(), node.to_owned())]),
    }
}

/// Returns what a volume is to be capable of, in the modes that the driver tells apart.
pub fn volume_capabilities(
    access_modes: &[String],
    volume_mode: Option<&str>,
    fs_type: &str,
    mount_options: &[String],
    tells_writers_apart: bool,
) -> Vec<api::VolumeCapability> {
    let capability = |mode: &String| {
        let mode = match (mode.as_str(), tells_writers_apart) {
            ("ReadWriteOnce", false) => api::Mode::SingleNodeWriter,
            ("ReadWriteOnce", true) => api::Mode::SingleNodeMultiWriter,
            ("ReadWriteOncePod", false) => api::Mode::SingleNodeWriter,
            ("ReadWriteOncePod", true) => api::Mode::SingleNodeSingleWriter,
            ("ReadOnlyMany", _) => api::Mode::MultiNodeReaderOnly,
            ("ReadWriteMany", _) => api::Mode::MultiNodeMultiWriter,
            _ => api::Mode::Unknown,
        };
        let block = volume_mode == Some("Block");
        api::VolumeCapability {
            block: block.then_some(api::BlockVolume {}),
            mount: (!block).then(|| api::MountVolume {
                fs_type: fs_type.to_owned(),
                mount_flags: mount_options.to_vec(),
                volume_mount_group: String::new(),
            }),
            access_mode: Some(api::AccessMode { mode: mode.into() }),
        }
    };
    access_modes.iter().map(capability).collect()
}

/// Returns the object of a volume that the driver made.
pub fn volume_object(
    order: &Order,
    claim: &Claim,
    class: &StorageClass,
    volume: &api::Volume,
    node: &str,
) -> Value {
    let is_block = claim.spec.volume_mode.as_deref() == Some("Block");
    let parameters = &order.parameters;
    let mut attributes = volume.volume_context.clone();
    attributes.insert(IDENTITY.to_owned(), format!("{node}-{NAME}"));
    let mut csi = json!({
        "driver": NAME,
        "volumeHandle": volume.volume_id,
        "volumeAttributes": attributes,
    });
    if !is_block && !parameters.fs_type.is_empty() {
        csi["fsType"] = json!(parameters.fs_type);
    }
    for (field, secret) in [
        ("controllerPublishSecretRef", &parameters.controller_publish),
        ("nodeStageSecretRef", &parameters.node_stage),
        ("nodePublishSecretRef", &parameters.node_publish),
        ("controllerExpandSecretRef", &parameters.controller_expand),
        ("nodeExpandSecretRef", &parameters.node_expand),
    ] {
        if let Some(secret) = secret {
            csi[field] = json!(secret);
        }
    }
    let term = |topology: &api::Topology| {
        let expression = |(key, value): (&String, &String)| json!({"key": key, "operator": "In", "values": [value]});
        let expressions: Vec<Value> = topology.segments.iter().map(expression).collect();
        json!({"matchExpressions": expressions})
    };
    let reclaim = class.reclaim_policy.as_deref().unwrap_or("Delete");
    let bytes = match volume.capacity_bytes {
        0 => claim.spec.resources.requests.bytes().unwrap_or(0),
        bytes => bytes,
    };
    let mut annotations = BTreeMap::from([(PROVISIONED_BY, NAME.to_owned())]);
    let secret = parameters.provisioner.clone().unwrap_or_default();
    // Empty where there is none, as external-provisioner writes them.
    annotations.insert(DELETION_SECRET_NAME, secret.name);
    annotations.insert(DELETION_SECRET_NAMESPACE, secret.namespace);
    let meta = &claim.metadata;
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": order.name, "annotations": annotations},
        "spec": {
            "accessModes": claim.spec.access_modes,
            "capacity": {"storage": quantity(bytes)},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace,
                "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version,
            },
            "csi": csi,
            "nodeAffinity": {"required": {"nodeSelectorTerms":
                volume.accessible_topology.iter().map(term).collect::<Vec<_>>()}},
            "persistentVolumeReclaimPolicy": reclaim,
            "storageClassName": class.metadata.name,
            "volumeMode": claim.spec.volume_mode.as_deref().unwrap_or("Filesystem"),
        },
    });
    if reclaim == "Delete" {
        object["metadata"]["finalizers"] = json!([FINALIZER]);
    }
    if !class.mount_options.is_empty() {
        object["spec"]["mountOptions"] = json!(class.mount_options);
    }
    let attributes = claim.spec.volume_attributes_class_name.as_deref();
    if let Some(class) = attributes.filter(|class| !class.is_empty()) {
        object["spec"]["volumeAttributesClassName"] = json!(class);
    }
    object
}

/// Returns a number of bytes as a quantity.
pub fn quantity(bytes: i64) -> String {
    use control_types::quantity::{Format, Quantity};
    Quantity::new(bytes, Format::BinarySI)
        .canonical()
        .to_string()
}

/// Returns the driver's source for a clone of another claim's volume.
///
/// # Errors
/// [`Error::SourceElsewhere`], or why that claim cannot be cloned.
pub fn clone_source(
    claim: &Claim,
    source: Option<&Claim>,
    volume: Option<&Volume>,
    node: &str,
) -> Result<api::VolumeContentSource> {
    let refuse = |message: String| Err(Error::Refused(message));
    let name = self::source(claim).map_or("", |source| source.name.as_str());
    let elsewhere = || {
        Err(Error::SourceElsewhere(format!(
            "no volume of PVC {name} is on node {node}: a local volume is cloned on its own node"
        )))
    };
    let Some(source) = source else {
        return elsewhere();
    };
    if source.metadata.is_terminating() {
        return refuse(format!(
            "the PVC DataSource {name} is currently being deleted"
        ));
    }
    let Some(volume) = volume.filter(|volume| volume.is_of(&source.metadata)) else {
        return refuse(format!(
            "the PVC DataSource {name} must be bound to a volume before it is cloned"
        ));
    };
    let is_block = |mode: &Option<String>| mode.as_deref() == Some("Block");
    if is_block(&claim.spec.volume_mode) != is_block(&source.spec.volume_mode) {
        return refuse(format!(
            "the source PVC {name} and the destination PVC {} have different volume modes",
            claim.metadata.name
        ));
    }
    let (asked, has) = (
        claim.spec.resources.requests.bytes(),
        volume.spec.capacity.bytes(),
    );
    if asked < has {
        return refuse(format!(
            "error, new PVC request must be greater than or equal in size to the specified PVC data source, requested {} but source is {}",
            asked.unwrap_or(0),
            has.unwrap_or(0)
        ));
    }
    let Some(handle) = volume.handle_on(node) else {
        return elsewhere();
    };
    Ok(api::VolumeContentSource {
        snapshot: None,
        volume: Some(api::VolumeSource {
            volume_id: handle.to_owned(),
        }),
    })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
