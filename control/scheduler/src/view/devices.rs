//! Lean views of device claims, devices, and device classes.

use std::sync::Arc;

use compact_str::CompactString;
use control_client::{Meta, Resource, View};
use control_devices::DeviceStatus;
use control_devices::api::{
    AllocationResult, DeviceClassSpec, ResourceClaimSpec, ResourceSliceSpec,
};
use serde::{Deserialize, Serialize};

use super::null;

/// The view of a claim to devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    /// The object's metadata.
    pub metadata: Meta,
    /// The requested devices.
    #[serde(deserialize_with = "null::or_default")]
    pub spec: Arc<ResourceClaimSpec>,
    /// Its status.
    #[serde(deserialize_with = "null::or_default")]
    pub status: ResourceClaimStatus,
}

/// Status of a [`ResourceClaim`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// The allocated devices.
    pub allocation: Option<Arc<AllocationResult>>,
    /// The pods that may use them.
    #[serde(deserialize_with = "null::or_default")]
    pub reserved_for: Vec<Consumer>,
    /// The drivers' reports about its devices.
    #[serde(deserialize_with = "null::or_default")]
    pub devices: Vec<DeviceStatus>,
}

/// A pod that may use the allocation of a [`ResourceClaim`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Consumer {
    /// Its API group; empty for pods.
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub api_group: CompactString,
    /// Its resource, such as `pods`.
    pub resource: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Its uid.
    pub uid: CompactString,
}

/// The view of a slice of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceSlice {
    /// The object's metadata.
    pub metadata: Meta,
    /// The devices.
    #[serde(deserialize_with = "null::or_default")]
    pub spec: Arc<ResourceSliceSpec>,
}

/// The view of a class of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceClass {
    /// The object's metadata.
    pub metadata: Meta,
    /// The requirements on its devices.
    #[serde(deserialize_with = "null::or_default")]
    pub spec: Arc<DeviceClassSpec>,
}

// === impl ResourceClaim ===

impl ResourceClaim {
    /// Whether the pod with this uid may use its devices.
    #[must_use]
    pub fn is_reserved_for(&self, uid: &str) -> bool {
        let mut consumers = self.status.reserved_for.iter();
        consumers.any(|consumer| consumer.uid == uid)
    }
}

// === impl View ===

const GROUP: &str = "resource.k8s.io";

impl View for ResourceClaim {
    const RESOURCE: Resource = Resource::namespaced(GROUP, "v1", "resourceclaims", "ResourceClaim");

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl View for ResourceSlice {
    const RESOURCE: Resource = Resource::cluster(GROUP, "v1", "resourceslices", "ResourceSlice");

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl View for DeviceClass {
    const RESOURCE: Resource = Resource::cluster(GROUP, "v1", "deviceclasses", "DeviceClass");

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}
