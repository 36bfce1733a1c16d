//! Claims of devices (`resource.k8s.io/v1` ResourceClaim), as far as a node
//! reads them.

#![expect(
    missing_docs,
    reason = "the fields are documented by the published Kubernetes API, whose names these are"
)]

use control_client::{Meta, Resource};
use serde::Deserialize;

/// Claims of devices.
pub const RESOURCE_CLAIMS: Resource =
    Resource::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim");

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    pub metadata: Meta,
    pub status: ResourceClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    pub allocation: Option<ClaimAllocation>,
    pub reserved_for: Vec<ClaimConsumer>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimAllocation {
    pub devices: AllocatedDevices,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AllocatedDevices {
    pub results: Vec<AllocatedDevice>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AllocatedDevice {
    pub driver: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimConsumer {
    pub uid: String,
}

// --- of pods

/// A claim of a pod: one that is there, or one that is made for it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    pub name: String,
    pub resource_claim_name: Option<String>,
    pub resource_claim_template_name: Option<String>,
}

/// What a container uses of a pod's claim: all of it, or what one request got.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerClaim {
    pub name: String,
    pub request: String,
}

/// The claim that was made for a pod's; none when none is needed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaimStatus {
    pub name: String,
    pub resource_claim_name: Option<String>,
}

/// The claim that was made for the extended resources of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceClaimStatus {
    pub request_mappings: Vec<RequestMapping>,
    pub resource_claim_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestMapping {
    pub container_name: String,
    pub resource_name: String,
    pub request_name: String,
}
