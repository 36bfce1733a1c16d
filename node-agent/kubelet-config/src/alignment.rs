//! `cpuManager…`, `memoryManager…`, `topologyManager…`: how containers are
//! given CPUs, memory and devices.

use std::collections::BTreeMap;
use std::time::Duration;

use node_agent_pod_resources::cpuset::CpuSet;
use serde::Deserialize;

use super::Error;
use super::gates::FeatureGates;
use super::units::{size, time};

/// Settings of the CPU, memory and topology managers.
#[derive(Clone, Debug, PartialEq)]
pub struct Alignment {
    /// Whether containers get CPUs of their own.
    pub static_cpus: bool,
    /// How those are chosen.
    pub options: CpuPolicyOptions,
    /// How often it is looked whether containers are on their CPUs.
    pub every: Duration,
    /// The CPUs that are never anybody's own; none leaves them to be chosen.
    pub reserved_cpus: Option<CpuSet>,
    /// Whether containers get memory of NUMA nodes.
    pub static_memory: bool,
    /// Memory that they do not.
    pub reserved_memory: ReservedMemory,
    /// How all of it is aligned.
    pub policy: TopologyPolicy,
    /// What is aligned together.
    pub scope: TopologyScope,
    /// Whether near nodes are better than low ones.
    pub closest: bool,
    /// The most NUMA nodes that a machine may have.
    pub most_nodes: u32,
}

/// `cpuManagerPolicyOptions`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPolicyOptions {
    /// `full-pcpus-only`
    pub full_cores_only: bool,
    /// `distribute-cpus-across-numa`
    pub across_nodes: bool,
    /// `align-by-socket`
    pub by_socket: bool,
    /// `distribute-cpus-across-cores`
    pub across_cores: bool,
    /// `strict-cpu-reservation`
    pub strict_reservation: bool,
    /// `prefer-align-cpus-by-uncorecache`
    pub by_cache: bool,
}

/// The kubelet's `topologyManagerPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopologyPolicy {
    /// Nothing is aligned.
    #[default]
    None,
    /// As well as it can be.
    BestEffort,
    /// Pods that cannot be aligned as well as the machine could are refused.
    Restricted,
    /// Pods that do not fit on one node are refused.
    SingleNumaNode,
}

/// The kubelet's `topologyManagerScope`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopologyScope {
    /// Each container for itself.
    #[default]
    Container,
    /// All of a pod together.
    Pod,
}

/// Bytes reserved for the system, by NUMA node and kind of memory.
pub type ReservedMemory = BTreeMap<u32, BTreeMap<String, u64>>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AlignmentFile {
    cpu_manager_policy: String,
    cpu_manager_policy_options: BTreeMap<String, String>,
    cpu_manager_reconcile_period: Option<String>,
    #[serde(rename = "reservedSystemCPUs")]
    reserved_system_cpus: String,
    memory_manager_policy: String,
    reserved_memory: Vec<Reservation>,
    topology_manager_policy: String,
    topology_manager_policy_options: BTreeMap<String, String>,
    topology_manager_scope: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reservation {
    numa_node: u32,
    limits: BTreeMap<String, String>,
}

fn wrong<T>(field: &'static str, value: &str, why: &'static str) -> Result<T, Error> {
    Err(Error::Value {
        field,
        value: value.to_owned(),
        why,
    })
}

/// The default of `max-allowable-numa-nodes`, and the least it may be.
const NODES: u32 = 8;

impl Alignment {
    pub(super) fn from_file(file: AlignmentFile, gates: &FeatureGates) -> Result<Self, Error> {
        let static_cpus = match file.cpu_manager_policy.as_str() {
            "" | "none" => false,
            "static" => true,
            other => return wrong("cpuManagerPolicy", other, "is neither none nor static"),
        };
        let static_memory = match file.memory_manager_policy.as_str() {
            "" | "None" => false,
            "Static" => true,
            other => return wrong("memoryManagerPolicy", other, "is neither None nor Static"),
        };
        let policy = match file.topology_manager_policy.as_str() {
            "" | "none" => TopologyPolicy::None,
            "best-effort" => TopologyPolicy::BestEffort,
            "restricted" => TopologyPolicy::Restricted,
            "single-numa-node" => TopologyPolicy::SingleNumaNode,
            other => {
                let why = "is none of none, best-effort, restricted and single-numa-node";
                return wrong("topologyManagerPolicy", other, why);
            }
        };
        let scope = match file.topology_manager_scope.as_str() {
            "" | "container" => TopologyScope::Container,
            "pod" => TopologyScope::Pod,
            other => {
                return wrong(
                    "topologyManagerScope",
                    other,
                    "is neither container nor pod",
                );
            }
        };
        let reserved_cpus = match file.reserved_system_cpus.as_str() {
            "" => None,
            text => match text.parse() {
                Ok(set) => Some(set),
                Err(_) => return wrong("reservedSystemCPUs", text, "is no list, such as `0-1`"),
            },
        };
        let (closest, most_nodes) = topology_options(&file.topology_manager_policy_options)?;
        Ok(Self {
            static_cpus,
            options: cpu_options(&file.cpu_manager_policy_options, gates)?,
            every: time(
                "cpuManagerReconcilePeriod",
                file.cpu_manager_reconcile_period.filter(|t| t != "0s"),
                10,
            )?,
            reserved_cpus,
            static_memory,
            reserved_memory: reserved_memory(file.reserved_memory)?,
            policy,
            scope,
            closest,
            most_nodes,
        })
    }
}

fn reserved_memory(all: Vec<Reservation>) -> Result<ReservedMemory, Error> {
    let mut reserved = ReservedMemory::new();
    for Reservation { numa_node, limits } in all {
        let of_node = reserved.entry(numa_node).or_default();
        for (kind, text) in limits {
            if kind != "memory" && !kind.starts_with(node_agent_pod_resources::hugepages::PREFIX) {
                let why = "is neither memory nor huge pages";
                return wrong("reservedMemory", &kind, why);
            }
            let bytes = size("reservedMemory", &text)?;
            if bytes == 0 {
                return wrong("reservedMemory", &text, "may not be zero");
            }
            if of_node.insert(kind, bytes).is_some() {
                return wrong(
                    "reservedMemory",
                    &text,
                    "is the second of its node and type",
                );
            }
        }
    }
    Ok(reserved)
}

fn topology_options(options: &BTreeMap<String, String>) -> Result<(bool, u32), Error> {
    const FIELD: &str = "topologyManagerPolicyOptions";
    let (mut closest, mut most) = (false, NODES);
    for (name, value) in options {
        match name.as_str() {
            "prefer-closest-numa-nodes" => closest = truth(FIELD, value)?,
            "max-allowable-numa-nodes" => {
                most = match value.parse() {
                    Ok(number) if number >= NODES => number,
                    _ => return wrong(FIELD, value, "is no number from 8 on"),
                }
            }
            other => return wrong(FIELD, other, "is no such option"),
        }
    }
    Ok((closest, most))
}

fn cpu_options(
    options: &BTreeMap<String, String>,
    gates: &FeatureGates,
) -> Result<CpuPolicyOptions, Error> {
    const FIELD: &str = "cpuManagerPolicyOptions";
    let mut found = CpuPolicyOptions::default();
    for (name, value) in options {
        let needs = match name.as_str() {
            "align-by-socket" | "distribute-cpus-across-cores" => {
                gates.is_on("CPUManagerPolicyAlphaOptions", false)
            }
            "distribute-cpus-across-numa" => gates.is_on("CPUManagerPolicyBetaOptions", true),
            _ => true,
        };
        if !needs {
            let why = "needs the feature gate CPUManagerPolicyAlphaOptions, or CPUManagerPolicyBetaOptions";
            return wrong(FIELD, name, why);
        }
        let option = match name.as_str() {
            "full-pcpus-only" => &mut found.full_cores_only,
            "distribute-cpus-across-numa" => &mut found.across_nodes,
            "align-by-socket" => &mut found.by_socket,
            "distribute-cpus-across-cores" => &mut found.across_cores,
            "strict-cpu-reservation" => &mut found.strict_reservation,
            "prefer-align-cpus-by-uncorecache" => &mut found.by_cache,
            _ => return wrong(FIELD, name, "is no such option"),
        };
        *option = truth(FIELD, value)?;
    }
    let apart = found.full_cores_only || found.across_nodes || found.by_cache;
    if found.across_cores && apart {
        let why = "cannot be beside full-pcpus-only, distribute-cpus-across-numa or prefer-align-cpus-by-uncorecache";
        return wrong(FIELD, "distribute-cpus-across-cores", why);
    }
    if found.by_cache && found.across_nodes {
        let why = "cannot be beside distribute-cpus-across-numa";
        return wrong(FIELD, "prefer-align-cpus-by-uncorecache", why);
    }
    Ok(found)
}

/// As Go reads a truth value.
fn truth(field: &'static str, text: &str) -> Result<bool, Error> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => wrong(field, text, "is neither true nor false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Alignment, String> {
        let file: AlignmentFile = serde_saphyr::from_str(text).unwrap();
        Alignment::from_file(file, &FeatureGates::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn policies_and_options_are_read() {
        let text = "cpuManagerPolicy: static\nreservedSystemCPUs: 0,8\nmemoryManagerPolicy: Static\n\
             cpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n\
             reservedMemory: [{numaNode: 1, limits: {memory: 1Gi, hugepages-2Mi: 4Mi}}]\n\
             topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\n\
             topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true', max-allowable-numa-nodes: '16'}\n";
        let found = parse(text).unwrap();
        assert!(found.static_cpus && found.static_memory && found.options.full_cores_only);
        assert_eq!(found.reserved_cpus.unwrap().to_string(), "0,8");
        assert_eq!(found.reserved_memory[&1]["memory"], 1 << 30);
        assert_eq!(
            (found.policy, found.scope),
            (TopologyPolicy::SingleNumaNode, TopologyScope::Pod)
        );
        assert_eq!((found.closest, found.most_nodes), (true, 16));
        let none = parse("{}").unwrap();
        assert!(!none.static_cpus && !none.static_memory && none.policy == TopologyPolicy::None);
    }

    #[test]
    fn what_cannot_be_together_is_refused() {
        let cases = [
            ("cpuManagerPolicy: dynamic", "neither none nor static"),
            ("topologyManagerScope: node", "neither container nor pod"),
            (
                "cpuManagerPolicyOptions: {align-by-socket: 'true'}",
                "feature gate",
            ),
            ("cpuManagerPolicyOptions: {full: 'true'}", "no such option"),
            (
                "cpuManagerPolicyOptions: {full-pcpus-only: maybe}",
                "neither true",
            ),
            (
                "cpuManagerPolicyOptions: {prefer-align-cpus-by-uncorecache: 'true', distribute-cpus-across-numa: 'true'}",
                "beside",
            ),
            (
                "topologyManagerPolicyOptions: {max-allowable-numa-nodes: '4'}",
                "from 8 on",
            ),
            (
                "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]",
                "neither memory",
            ),
            ("reservedSystemCPUs: x", "no list"),
        ];
        for (text, why) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
