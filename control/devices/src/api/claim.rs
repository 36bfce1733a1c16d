//! Claims and their allocations.

use std::collections::BTreeMap;

use compact_str::CompactString;
use control_types::quantity::Quantity;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    DeviceSelector, NamedObject, NodeSelector, is_zero, named_quantities, or_default,
    write_quantities,
};

// === ResourceClaim ===

/// Spec of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaimSpec {
    /// The devices that it asks for.
    pub devices: DeviceClaim,
}

/// Devices that a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceClaim {
    /// Requests, all of which must be satisfied.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<DeviceRequest>,
    /// Constraints on sets of devices.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<DeviceConstraint>,
    /// Configuration for drivers.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<DeviceClaimConfiguration>,
}

/// A request: one of both fields is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    /// Its name, unique in the claim.
    pub name: CompactString,
    /// The devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exactly: Option<ExactDeviceRequest>,
    /// Alternatives, best first.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub first_available: Vec<ExactDeviceRequest>,
}

/// Devices of one class: `v1.ExactDeviceRequest` or `v1.DeviceSubRequest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExactDeviceRequest {
    /// The name of an alternative; empty in `exactly`.
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub name: CompactString,
    /// The class.
    pub device_class_name: CompactString,
    /// Further expressions that devices must satisfy.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<DeviceSelector>,
    /// `ExactCount` or `All`.
    pub allocation_mode: CompactString,
    /// How many, with `ExactCount`.
    #[serde(skip_serializing_if = "is_zero")]
    pub count: i64,
    /// Whether devices in use may be allocated, too, for administration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
    /// Taints that are tolerated.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<DeviceToleration>,
    /// Amounts that are consumed of each device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityRequirements>,
}

/// Amounts that a request consumes of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CapacityRequirements {
    /// Amounts by the names of capacities.
    #[serde(
        deserialize_with = "named_quantities",
        serialize_with = "write_quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub requests: NamedObject<Quantity>,
}

/// A toleration of device taints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceToleration {
    /// Empty: any key.
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub key: CompactString,
    /// `Equal` (also when empty) or `Exists`.
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub operator: CompactString,
    /// The value for `Equal`.
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub value: CompactString,
    /// Empty: any effect.
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub effect: CompactString,
    /// For how long `NoExecute` is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// A constraint on the devices of some requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceConstraint {
    /// Names of requests or alternatives; empty: all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<CompactString>,
    /// The attribute that is the same for all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_attribute: Option<CompactString>,
    /// The attribute that differs between all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distinct_attribute: Option<CompactString>,
}

/// Configuration in a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceClaimConfiguration {
    /// Names of requests or alternatives; empty: all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<CompactString>,
    /// A driver and its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<serde_json::Value>,
}

// === AllocationResult ===

/// The allocation of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocationResult {
    /// The devices and their configuration.
    pub devices: DeviceAllocationResult,
    /// The nodes that have them; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_timestamp: Option<Timestamp>,
}

/// Devices and their configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceAllocationResult {
    /// The devices.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<AllocatedDevice>,
    /// Their configuration: of classes, then of the claim.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<DeviceAllocationConfiguration>,
}

/// `v1.DeviceRequestAllocationResult`: a device given to a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedDevice {
    /// The request, or `request/alternative`.
    pub request: CompactString,
    /// The device's driver.
    pub driver: CompactString,
    /// Its pool.
    pub pool: CompactString,
    /// Its name.
    pub device: CompactString,
    /// Whether it stays available to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
    /// Tolerations of the request.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<DeviceToleration>,
    /// Conditions that must be true before the pod is bound.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub binding_conditions: Vec<CompactString>,
    /// Conditions any of which means that binding failed.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub binding_failure_conditions: Vec<CompactString>,
    /// The identity of the share, for a device that several claims share.
    #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
    pub share_id: Option<CompactString>,
    /// The consumed amounts of the share.
    #[serde(
        deserialize_with = "named_quantities",
        serialize_with = "write_quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub consumed_capacity: NamedObject<Quantity>,
}

/// Configuration of allocated devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceAllocationConfiguration {
    /// `FromClass` or `FromClaim`.
    pub source: CompactString,
    /// The requests; empty: all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<CompactString>,
    /// A driver and its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<serde_json::Value>,
}
