//! Types of `resource.k8s.io/v1`, as far as allocation reads and writes them.
//!
//! Callers keep the metadata of the objects.

mod claim;

use std::collections::BTreeMap;

use compact_str::CompactString;
pub use control_types::label_selector::LabelRequirement as NodeSelectorRequirement;
use control_types::quantity::Quantity;
use control_types::taints::{TaintRef, TolerationRef};
use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

pub use claim::{
    AllocatedDevice, AllocationResult, CapacityRequirements, DeviceAllocationConfiguration,
    DeviceAllocationResult, DeviceClaim, DeviceClaimConfiguration, DeviceConstraint, DeviceRequest,
    DeviceToleration, ExactDeviceRequest, ResourceClaimSpec,
};

/// Values by their qualified names: `domain/name`, or `name` in the driver's domain.
pub type NamedObject<T> = BTreeMap<CompactString, T>;

/// Devices of all requests of one claim that an allocation can list.
pub const ALLOCATION_RESULTS_MAX_SIZE: usize = 32;

/// Consumers that one claim can be reserved for.
pub const RESERVED_FOR_MAX_SIZE: usize = 256;

/// Alternatives of one prioritized list.
pub const FIRST_AVAILABLE_MAX_SIZE: usize = 8;

/// The finalizer of claims that have an allocation.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The annotation of claims that the scheduler makes for a pod's extended resources.
pub const EXTENDED_RESOURCE_CLAIM_ANNOTATION: &str =
    "resource.kubernetes.io/extended-resource-claim";

/// The prefix of extended resources that name a device class.
pub const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

// === ResourceSlice ===

/// Spec of a ResourceSlice: devices of one pool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSliceSpec {
    /// The driver that offers the devices.
    pub driver: CompactString,
    /// The pool that they belong to.
    pub pool: ResourcePool,
    /// The only node that has them.
    pub node_name: Option<CompactString>,
    /// The nodes that have them.
    pub node_selector: Option<NodeSelector>,
    /// Whether all nodes have them.
    pub all_nodes: Option<bool>,
    /// Whether each device says which nodes have it.
    pub per_device_node_selection: Option<bool>,
    /// The devices.
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<Device>,
    /// Counters that devices of the pool consume.
    #[serde(deserialize_with = "or_default")]
    pub shared_counters: Vec<CounterSet>,
}

/// The pool that a slice is part of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcePool {
    /// Its name, unique for the driver.
    pub name: CompactString,
    /// Slices of older generations are obsolete.
    pub generation: i64,
    /// Slices that the pool has in this generation.
    pub resource_slice_count: i64,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    /// Its name, unique in the pool.
    pub name: CompactString,
    /// The attributes for selectors and constraints.
    #[serde(deserialize_with = "or_default")]
    pub attributes: NamedObject<Attribute>,
    /// Amounts that selectors see and that requests can consume.
    #[serde(deserialize_with = "or_default")]
    pub capacity: NamedObject<DeviceCapacity>,
    /// Counters that it consumes while it is allocated.
    #[serde(deserialize_with = "or_default")]
    pub consumes_counters: Vec<CounterConsumption>,
    /// The only node that has it, with `perDeviceNodeSelection`.
    pub node_name: Option<CompactString>,
    /// The nodes that have it, with `perDeviceNodeSelection`.
    pub node_selector: Option<NodeSelector>,
    /// Whether all nodes have it, with `perDeviceNodeSelection`.
    pub all_nodes: Option<bool>,
    /// Its taints.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<DeviceTaint>,
    /// Whether an allocation restricts the claim to the chosen node.
    pub binds_to_node: Option<bool>,
    /// Conditions that must be true before the pod is bound.
    #[serde(deserialize_with = "or_default")]
    pub binding_conditions: Vec<CompactString>,
    /// Conditions any of which means that binding failed.
    #[serde(deserialize_with = "or_default")]
    pub binding_failure_conditions: Vec<CompactString>,
    /// Whether several claims can share it.
    pub allow_multiple_allocations: Option<bool>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "RawAttribute")]
pub enum Attribute {
    /// A number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(CompactString),
    /// A version as <https://semver.org> writes it.
    Version(CompactString),
    /// Numbers (feature gate `DRAListTypeAttributes`).
    Ints(Vec<i64>),
    /// Truth values.
    Bools(Vec<bool>),
    /// Texts.
    Texts(Vec<CompactString>),
    /// Versions.
    Versions(Vec<CompactString>),
    /// A value of a kind that this version does not know.
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAttribute {
    int: Option<i64>,
    bool: Option<bool>,
    string: Option<CompactString>,
    version: Option<CompactString>,
    ints: Option<Vec<i64>>,
    bools: Option<Vec<bool>>,
    strings: Option<Vec<CompactString>>,
    versions: Option<Vec<CompactString>>,
}

impl From<RawAttribute> for Attribute {
    fn from(raw: RawAttribute) -> Self {
        raw.int
            .map(Self::Int)
            .or_else(|| raw.bool.map(Self::Bool))
            .or_else(|| raw.string.map(Self::Text))
            .or_else(|| raw.version.map(Self::Version))
            .or_else(|| raw.ints.map(Self::Ints))
            .or_else(|| raw.bools.map(Self::Bools))
            .or_else(|| raw.strings.map(Self::Texts))
            .or_else(|| raw.versions.map(Self::Versions))
            .unwrap_or(Self::Unknown)
    }
}

/// An amount that a device has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCapacity {
    /// The total amount.
    #[serde(deserialize_with = "quantity")]
    pub value: Quantity,
    /// The rules for requested amounts (KEP 5075).
    #[serde(default)]
    pub request_policy: Option<CapacityRequestPolicy>,
}

/// The rules for requested amounts of a capacity.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityRequestPolicy {
    /// The amount for a request that does not name the capacity.
    #[serde(deserialize_with = "optional_quantity")]
    pub default: Option<Quantity>,
    /// Amounts that can be consumed, in ascending order.
    #[serde(deserialize_with = "quantities")]
    pub valid_values: Option<Vec<Quantity>>,
    /// The range of amounts that can be consumed.
    pub valid_range: Option<CapacityRequestPolicyRange>,
}

/// A range of amounts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityRequestPolicyRange {
    /// The least.
    #[serde(deserialize_with = "optional_quantity")]
    pub min: Option<Quantity>,
    /// The most.
    #[serde(deserialize_with = "optional_quantity")]
    pub max: Option<Quantity>,
    /// Amounts are the least and multiples of this more.
    #[serde(deserialize_with = "optional_quantity")]
    pub step: Option<Quantity>,
}

/// Counters that devices of a pool share.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CounterSet {
    /// Its name, unique in the pool.
    pub name: CompactString,
    /// The counters.
    #[serde(deserialize_with = "or_default")]
    pub counters: NamedObject<Counter>,
}

/// Counters of one set that a device consumes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterConsumption {
    /// The set.
    pub counter_set: CompactString,
    /// How much of each.
    #[serde(deserialize_with = "or_default")]
    pub counters: NamedObject<Counter>,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Counter {
    /// How much there is, or is consumed.
    #[serde(deserialize_with = "quantity")]
    pub value: Quantity,
}

/// A taint of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceTaint {
    /// Its key.
    pub key: CompactString,
    /// Its value.
    pub value: CompactString,
    /// `NoSchedule`, `NoExecute` or `None`.
    pub effect: CompactString,
}

/// Spec of a DeviceTaintRule (`resource.k8s.io/v1beta2`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaintRuleSpec {
    /// The devices that get the taint; absent: all.
    pub device_selector: Option<DeviceTaintSelector>,
    /// The taint.
    pub taint: DeviceTaint,
}

/// Selects devices by driver, pool and name; absent fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceTaintSelector {
    /// The driver.
    pub driver: Option<CompactString>,
    /// The pool.
    pub pool: Option<CompactString>,
    /// The device.
    pub device: Option<CompactString>,
}

// === Nodes ===

/// `core/v1` NodeSelector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// Terms, one of which must match.
    #[serde(deserialize_with = "or_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// `core/v1` NodeSelectorTerm: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Requirements on fields.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

// === DeviceClass ===

/// Spec of a DeviceClass.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClassSpec {
    /// Expressions that devices must satisfy.
    #[serde(deserialize_with = "or_default")]
    pub selectors: Vec<DeviceSelector>,
    /// Configuration for drivers.
    #[serde(deserialize_with = "or_default")]
    pub config: Vec<DeviceConfiguration>,
    /// The extended resource that devices of the class satisfy (KEP 5004).
    pub extended_resource_name: Option<CompactString>,
}

/// An expression that devices must satisfy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceSelector {
    /// In the Common Expression Language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cel: Option<CelDeviceSelector>,
}

/// An expression in the Common Expression Language.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CelDeviceSelector {
    /// The expression.
    pub expression: String,
}

/// Configuration of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceConfiguration {
    /// A driver and its parameters, opaque to the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<serde_json::Value>,
}

// === impl DeviceToleration ===

impl DeviceToleration {
    /// Whether the taint is tolerated, whatever its effect means.
    #[must_use]
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        let toleration = TolerationRef {
            key: &self.key,
            operator: &self.operator,
            value: &self.value,
            effect: &self.effect,
        };
        toleration.tolerates(TaintRef {
            key: &taint.key,
            value: &taint.value,
            effect: &taint.effect,
        })
    }
}

// === impl DeviceTaint ===

impl DeviceTaint {
    /// Whether it keeps devices from being allocated to requests that do not tolerate it.
    #[must_use]
    pub fn prevents_allocation(&self) -> bool {
        matches!(self.effect.as_str(), "NoExecute" | "NoSchedule")
    }
}

// === impl ExactDeviceRequest ===

impl ExactDeviceRequest {
    /// Returns whether devices in use may be allocated, too.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.admin_access == Some(true)
    }
}

// === Reading ===

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A quantity as it is written: text, or a number.
struct Amount(Quantity);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parsed = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Quantity::parse(&text),
            other => Quantity::parse(&other.to_string()),
        };
        parsed.map(Self).map_err(serde::de::Error::custom)
    }
}

fn quantity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
    Ok(Amount::deserialize(deserializer)?.0)
}

fn optional_quantity<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Quantity>, D::Error> {
    Ok(Option::<Amount>::deserialize(deserializer)?.map(|amount| amount.0))
}

fn quantities<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Quantity>>, D::Error> {
    let amounts = Option::<Vec<Amount>>::deserialize(deserializer)?;
    Ok(amounts.map(|amounts| amounts.into_iter().map(|amount| amount.0).collect()))
}

fn named_quantities<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<NamedObject<Quantity>, D::Error> {
    let amounts = Option::<NamedObject<Amount>>::deserialize(deserializer)?.unwrap_or_default();
    let amounts = amounts.into_iter();
    Ok(amounts.map(|(name, amount)| (name, amount.0)).collect())
}

fn write_quantities<S: Serializer>(
    quantities: &NamedObject<Quantity>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        quantities
            .iter()
            .map(|(name, quantity)| (name, quantity.canonical())),
    )
}

// serde passes references.
fn is_zero(number: &i64) -> bool {
    *number == 0
}
