//! `memorySwap`, `memoryThrottlingFactor`, `memoryReservationPolicy`,
//! `singleProcessOOMKill`: how containers' memory is limited.

use serde::Deserialize;

use super::Error;
use super::gates::FeatureGates;

/// How containers' memory is limited beyond their limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLimits {
    /// Whether Burstable pods may swap, by their share of the memory.
    pub swap: bool,
    /// Memory QoS, if it is on.
    pub qos: Option<MemoryQos>,
    /// Whether the kernel ends one process of a container alone; none leaves
    /// it to the version of control groups: all of it with version 2.
    pub single_process_oom_kill: Option<bool>,
}

/// Memory QoS (KEP-2570), with control groups of version 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryQos {
    /// From which share between request and limit on a container is slowed.
    pub throttling: f64,
    /// Whether what is asked for is protected from being reclaimed.
    pub protects: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MemoryFile {
    memory_swap: SwapSettings,
    memory_throttling_factor: Option<f64>,
    memory_reservation_policy: String,
    #[serde(rename = "singleProcessOOMKill")]
    single_process_oom_kill: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SwapSettings {
    swap_behavior: String,
}

impl MemoryLimits {
    pub(super) fn from_file(file: MemoryFile, gates: &FeatureGates) -> Result<Self, Error> {
        let wrong = |field, value: String, why| Err(Error::Value { field, value, why });
        let swap = match file.memory_swap.swap_behavior.as_str() {
            "" | "NoSwap" => false,
            "LimitedSwap" => true,
            other => {
                let why = "is neither NoSwap nor LimitedSwap";
                return wrong("memorySwap.swapBehavior", other.to_owned(), why);
            }
        };
        let throttling = file.memory_throttling_factor.unwrap_or(0.9);
        if !(throttling > 0.0 && throttling <= 1.0) {
            let why = "is not greater than 0 and at most 1";
            return wrong("memoryThrottlingFactor", throttling.to_string(), why);
        }
        let protects = match file.memory_reservation_policy.as_str() {
            "" | "None" => false,
            "TieredReservation" => true,
            other => {
                let why = "is neither None nor TieredReservation";
                return wrong("memoryReservationPolicy", other.to_owned(), why);
            }
        };
        let is_on = gates.is_on("MemoryQoS", false);
        if protects && !is_on {
            let why = "needs the feature gate MemoryQoS";
            return wrong(
                "memoryReservationPolicy",
                "TieredReservation".to_owned(),
                why,
            );
        }
        Ok(Self {
            swap,
            qos: is_on.then_some(MemoryQos {
                throttling,
                protects,
            }),
            single_process_oom_kill: file.single_process_oom_kill,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_qos_needs_its_gate_and_a_share() {
        let parse = |text: &str, gates: &str| {
            let file: MemoryFile = serde_saphyr::from_str(text).unwrap();
            let gates: FeatureGates = serde_json::from_str(gates).unwrap();
            MemoryLimits::from_file(file, &gates).map_err(|e| e.to_string())
        };
        let tiered = "memoryReservationPolicy: TieredReservation\nmemoryThrottlingFactor: 0.8";
        let on = parse(tiered, r#"{"MemoryQoS": true}"#).unwrap();
        let wanted = MemoryQos {
            throttling: 0.8,
            protects: true,
        };
        assert_eq!(on.qos, Some(wanted));
        assert!(parse(tiered, "{}").unwrap_err().contains("feature gate"));
        assert!(parse("memoryThrottlingFactor: 0", "{}").is_err());
        assert!(
            parse("memorySwap: {swapBehavior: LimitedSwap}", "{}")
                .unwrap()
                .swap
        );
        assert!(parse("memorySwap: {swapBehavior: Always}", "{}").is_err());
        let off = parse("{}", "{}").unwrap();
        assert!(off.qos.is_none() && !off.swap);
    }
}
