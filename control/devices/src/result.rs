//! Devices that were found, and their allocations.

use std::sync::Arc;

use compact_str::{CompactString, format_compact};
use rustc_hash::FxHashMap;

use crate::api::{
    AllocatedDevice, AllocationResult, Device, DeviceAllocationConfiguration,
    DeviceAllocationResult, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
};
use crate::capacity::ConsumedCapacity;
use crate::claim::Claim;
use crate::error::AllocationError;
use crate::features::Features;
use crate::inventory::Slice;
use crate::plan::{ClaimPlan, request_of};
use crate::score::alternative_score;

/// Devices found for all claims on one node.
#[derive(Clone, Debug)]
pub struct FoundAllocation {
    pub(crate) claims: Vec<FoundClaim>,
}

/// Devices of one claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundClaim {
    pub devices: Vec<FoundDevice>,
    /// The position of the chosen alternative of each request; `None` if it has no
    /// alternatives.
    pub chosen: Vec<Option<usize>>,
}

/// A device for a request.
#[derive(Clone, Debug)]
pub(crate) struct FoundDevice {
    pub slice: Arc<Slice>,
    pub index: usize,
    pub request: usize,
    pub alternative: usize,
    /// The consumed capacity of a device that claims share.
    pub share: Option<ConsumedCapacity>,
}

// === impl FoundAllocation ===

impl FoundAllocation {
    /// The score of prioritized lists: the more, the better are the alternatives.
    #[must_use]
    pub fn score(&self) -> i64 {
        self.claims.iter().map(FoundClaim::score).sum()
    }
}

// === impl FoundClaim ===

impl FoundClaim {
    pub(crate) fn score(&self) -> i64 {
        let chosen = self.chosen.iter().flatten();
        chosen.map(|position| alternative_score(*position)).sum()
    }

    pub(crate) fn result(
        &self,
        claim: &Claim,
        plan: &ClaimPlan,
        features: &Features,
        node: &str,
        share_id: &mut dyn FnMut() -> CompactString,
    ) -> Result<AllocationResult, AllocationError> {
        let mut results = Vec::with_capacity(self.devices.len());
        for found in &self.devices {
            let (Some(device), Some(request)) = (
                found.device(),
                request_of(&claim.spec, found.request, found.alternative),
            ) else {
                continue;
            };
            let alternative = plan
                .requests
                .get(found.request)
                .and_then(|request| request.alternatives.get(found.alternative));
            let conditions = |conditions: &Vec<CompactString>| {
                if features.binding_conditions {
                    conditions.clone()
                } else {
                    Vec::new()
                }
            };
            results.push(AllocatedDevice {
                request: alternative.map_or_else(CompactString::default, |one| one.name.clone()),
                driver: found.slice.pool.driver.clone(),
                pool: found.slice.pool.pool.clone(),
                device: device.name.clone(),
                admin_access: request.is_admin().then_some(true),
                tolerations: request.tolerations.clone(),
                binding_conditions: conditions(&device.binding_conditions),
                binding_failure_conditions: conditions(&device.binding_failure_conditions),
                share_id: found.share.is_some().then(&mut *share_id),
                consumed_capacity: found.share.clone().unwrap_or_default(),
            });
        }
        Ok(AllocationResult {
            devices: DeviceAllocationResult {
                results,
                config: self.configuration(claim, plan),
            },
            node_selector: self.node_selector(claim, node)?,
            allocation_timestamp: None,
        })
    }

    /// Configuration of each class once, then of the claim.
    fn configuration(&self, claim: &Claim, plan: &ClaimPlan) -> Vec<DeviceAllocationConfiguration> {
        let mut all: Vec<DeviceAllocationConfiguration> = Vec::new();
        let mut of_class = FxHashMap::default();
        for (request, plan) in plan.requests.iter().enumerate() {
            let chosen = self.chosen.get(request).copied().flatten().unwrap_or(0);
            let Some(alternative) = plan.alternatives.get(chosen) else {
                continue;
            };
            let Some(class) = &alternative.class else {
                continue;
            };
            let start = all.len();
            let known = of_class.entry(&alternative.class_name).or_insert_with(|| {
                all.extend(
                    class
                        .config
                        .iter()
                        .map(|config| DeviceAllocationConfiguration {
                            source: CompactString::const_new("FromClass"),
                            requests: Vec::new(),
                            opaque: config.opaque.clone(),
                        }),
                );
                start..all.len()
            });
            for config in all.get_mut(known.clone()).unwrap_or_default() {
                config.requests.push(alternative.name.clone());
            }
        }
        for config in &claim.spec.devices.config {
            let add = DeviceAllocationConfiguration {
                source: CompactString::const_new("FromClaim"),
                requests: config.requests.clone(),
                opaque: config.opaque.clone(),
            };
            if config.requests.is_empty() {
                all.push(add);
                continue;
            }
            let requests = claim.spec.devices.requests.iter().enumerate();
            for (position, request) in requests {
                let chosen = self.chosen.get(position).copied().flatten();
                let alternative = chosen
                    .and_then(|chosen| request.first_available.get(chosen))
                    .map(|alternative| format_compact!("{}/{}", request.name, alternative.name));
                let concerned = config.requests.contains(&request.name)
                    || alternative.is_some_and(|name| config.requests.contains(&name));
                if concerned {
                    all.push(add.clone());
                }
            }
        }
        all
    }

    /// The nodes that have all devices; `None`: all nodes.
    fn node_selector(
        &self,
        claim: &Claim,
        node: &str,
    ) -> Result<Option<NodeSelector>, AllocationError> {
        let mut term = NodeSelectorTerm::default();
        for found in &self.devices {
            let Some(device) = found.device() else {
                continue;
            };
            let spec = &found.slice.spec;
            let (name, selector) = if found.slice.selects_nodes_per_device() {
                (&device.node_name, &device.node_selector)
            } else {
                (&spec.node_name, &spec.node_selector)
            };
            if name.is_some() || device.binds_to_node == Some(true) {
                return Ok(Some(only_node(node)));
            }
            match selector
                .as_ref()
                .map(|selector| &*selector.node_selector_terms)
            {
                None | Some([]) => {}
                Some([one]) => {
                    add_requirements(&mut term.match_fields, &one.match_fields);
                    add_requirements(&mut term.match_expressions, &one.match_expressions);
                }
                Some(terms) => {
                    return Err(AllocationError::NodeSelectorTerms {
                        claim: claim.name.clone(),
                        terms: terms.len(),
                    });
                }
            }
        }
        let is_anywhere = term.match_fields.is_empty() && term.match_expressions.is_empty();
        Ok((!is_anywhere).then(|| NodeSelector {
            node_selector_terms: vec![term],
        }))
    }
}

// === impl FoundDevice ===

impl FoundDevice {
    pub(crate) fn device(&self) -> Option<&Device> {
        self.slice.spec.devices.get(self.index)
    }
}

fn only_node(node: &str) -> NodeSelector {
    NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: Vec::new(),
            match_fields: vec![NodeSelectorRequirement {
                key: CompactString::const_new("metadata.name"),
                operator: CompactString::const_new("In"),
                values: vec![node.into()],
            }],
        }],
    }
}

/// Adds requirements that are not there yet.
fn add_requirements(to: &mut Vec<NodeSelectorRequirement>, from: &[NodeSelectorRequirement]) {
    let has = |values: &[CompactString], all: &[CompactString]| {
        all.iter().all(|value| values.contains(value))
    };
    for requirement in from {
        let known = to.iter().any(|known| {
            known.key == requirement.key
                && known.operator == requirement.operator
                && has(&known.values, &requirement.values)
                && has(&requirement.values, &known.values)
        });
        if !known {
            to.push(requirement.clone());
        }
    }
}
