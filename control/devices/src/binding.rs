//! Whether devices are ready for pods to be bound (KEP 5007).

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::api::AllocationResult;

/// A driver's report about an allocated device (`v1.AllocatedDeviceStatus`), as far as it
/// matters for binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceStatus {
    /// The driver.
    pub driver: CompactString,
    /// The pool.
    pub pool: CompactString,
    /// The device.
    pub device: CompactString,
    /// Its conditions.
    pub conditions: Vec<DeviceCondition>,
}

/// A condition of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceCondition {
    /// The type of condition.
    #[serde(rename = "type")]
    pub kind: CompactString,
    /// `True`, `False` or `Unknown`.
    pub status: CompactString,
    /// One word.
    pub reason: CompactString,
    /// A sentence.
    pub message: String,
}

/// Whether the devices of a claim are ready for a pod to be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingState {
    /// All binding conditions are true; there may be none.
    Ready,
    /// Some are not true yet.
    Pending,
    /// A condition is true that means failure.
    Failed {
        /// The condition's reason.
        reason: CompactString,
        /// The condition's message.
        message: String,
    },
}

/// Whether the devices of an allocation are ready, as their conditions say.
#[must_use]
pub fn binding_state(allocation: &AllocationResult, devices: &[DeviceStatus]) -> BindingState {
    for result in &allocation.devices.results {
        if result.binding_conditions.is_empty() {
            continue;
        }
        let status = devices.iter().find(|status| {
            status.device == result.device
                && status.driver == result.driver
                && status.pool == result.pool
        });
        let Some(status) = status else {
            return BindingState::Pending;
        };
        let is_true = |kind: &CompactString| {
            let mut conditions = status.conditions.iter();
            let condition = conditions.find(|condition| condition.kind == *kind)?;
            (condition.status == "True").then_some(condition)
        };
        if let Some(failed) = result.binding_failure_conditions.iter().find_map(is_true) {
            return BindingState::Failed {
                reason: failed.reason.clone(),
                message: failed.message.clone(),
            };
        }
        let mut conditions = result.binding_conditions.iter();
        if !conditions.all(|kind| is_true(kind).is_some()) {
            return BindingState::Pending;
        }
    }
    BindingState::Ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{AllocatedDevice, DeviceAllocationResult};

    fn allocation(conditions: &[&str], failures: &[&str]) -> AllocationResult {
        let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        AllocationResult {
            devices: DeviceAllocationResult {
                results: vec![AllocatedDevice {
                    driver: "d".into(),
                    pool: "p".into(),
                    device: "x".into(),
                    binding_conditions: names(conditions),
                    binding_failure_conditions: names(failures),
                    ..AllocatedDevice::default()
                }],
                ..DeviceAllocationResult::default()
            },
            ..AllocationResult::default()
        }
    }

    fn status(conditions: &[(&str, &str)]) -> DeviceStatus {
        let conditions = conditions.iter().map(|(kind, status)| DeviceCondition {
            kind: (*kind).into(),
            status: (*status).into(),
            reason: "Why".into(),
            message: "so".into(),
        });
        DeviceStatus {
            driver: "d".into(),
            pool: "p".into(),
            device: "x".into(),
            conditions: conditions.collect(),
        }
    }

    #[test]
    fn devices_without_binding_conditions_are_ready() {
        assert_eq!(
            binding_state(&allocation(&[], &[]), &[]),
            BindingState::Ready
        );
    }

    #[test]
    fn all_binding_conditions_must_be_true() {
        let allocation = allocation(&["a", "b"], &["f"]);
        let state = |conditions: &[(&str, &str)]| binding_state(&allocation, &[status(conditions)]);
        assert_eq!(binding_state(&allocation, &[]), BindingState::Pending);
        assert_eq!(state(&[("a", "True")]), BindingState::Pending);
        assert_eq!(
            state(&[("a", "True"), ("b", "False")]),
            BindingState::Pending
        );
        assert_eq!(state(&[("a", "True"), ("b", "True")]), BindingState::Ready);
    }

    #[test]
    fn a_failure_condition_wins_over_all_others() {
        let allocation = allocation(&["a"], &["f"]);
        let failed = status(&[("a", "True"), ("f", "True")]);
        assert_eq!(
            binding_state(&allocation, &[failed]),
            BindingState::Failed {
                reason: "Why".into(),
                message: "so".to_owned()
            }
        );
    }
}
