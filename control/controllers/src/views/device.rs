//! Claims to devices and the slices that offer them.

use control_client::Meta;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::common::{Text, list, null_as_default};

/// A ResourceClaim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    /// Name, owner, annotations and finalizers.
    pub metadata: Meta,
    /// The allocated devices and their consumers.
    pub status: ResourceClaimStatus,
}

/// The allocated devices of a claim and their consumers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// The devices, once there are any.
    pub allocation: Option<Allocation>,
    /// The consumers that may use them.
    #[serde(deserialize_with = "list")]
    pub reserved_for: Vec<Consumer>,
}

/// An allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocation {
    /// When it was made.
    pub allocation_timestamp: Option<Timestamp>,
    /// Its devices.
    #[serde(deserialize_with = "null_as_default")]
    pub devices: AllocatedDevices,
}

/// The devices of an allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AllocatedDevices {
    /// One for each.
    #[serde(deserialize_with = "list")]
    pub results: Vec<AllocatedDevice>,
}

/// One allocated device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AllocatedDevice {
    /// Its driver.
    pub driver: Text,
    /// Its pool.
    pub pool: Text,
    /// Its name in the pool.
    pub device: Text,
    /// The taints that the claim tolerates.
    #[serde(deserialize_with = "list")]
    pub tolerations: Vec<super::Toleration>,
}

/// A consumer of the devices of a claim (`v1.ResourceClaimConsumerReference`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Consumer {
    /// Its group, empty for the core group.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub api_group: Text,
    /// Its resource, such as `pods`.
    pub resource: Text,
    /// Its name.
    pub name: Text,
    /// Its identity.
    pub uid: Text,
}

impl Consumer {
    /// Whether it is a pod.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.api_group.is_empty() && self.resource == "pods"
    }
}

/// A ResourceSlice, of which only devices with taints are kept.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ResourceSlice {
    /// Its name.
    pub metadata: Meta,
    /// Its pool and devices.
    pub spec: ResourceSliceSpec,
}

/// The specification of a slice of devices.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ResourceSliceSpec {
    /// The driver of all its devices.
    pub driver: Text,
    /// The pool that it is a part of.
    pub pool: SlicePool,
    /// Its devices with taints.
    #[serde(deserialize_with = "tainted")]
    pub devices: Vec<Device>,
}

/// The pool of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SlicePool {
    /// Its name.
    pub name: Text,
    /// Only the slices of the highest count.
    pub generation: i64,
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Its name in the pool.
    pub name: Text,
    /// Its taints.
    #[serde(deserialize_with = "list")]
    pub taints: Vec<super::Taint>,
}

fn tainted<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Device>, D::Error> {
    let mut devices: Vec<Device> = null_as_default(deserializer)?;
    devices.retain(|device| !device.taints.is_empty());
    devices.shrink_to_fit();
    Ok(devices)
}
