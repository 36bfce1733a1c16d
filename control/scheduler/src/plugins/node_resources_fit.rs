//! NodeResourcesFit: a pod's requests must be free; the scoring strategy prefers nodes
//! with more (LeastAllocated) or less (MostAllocated, RequestedToCapacityRatio) free
//! capacity.

use compact_str::CompactString;

use super::{Cycle, Influence, MAX_SCORE, Plugin, RejectedNodes};
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::event::{Event, Subject};
use crate::snapshot::{Snapshot, Wake};
use crate::view::{Node, Pod, Requests};

/// How nodes are scored by their resources.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Strategy {
    /// The more is free, the better.
    LeastAllocated,
    /// The less is free, the better.
    MostAllocated,
    /// A broken line of scores (0 to 100) over utilisation in percent.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// With the profile's arguments.
#[derive(Clone, Debug)]
pub(crate) struct NodeResourcesFit {
    pub(crate) strategy: Strategy,
    /// Resources that count for the score, with weights.
    pub(crate) resources: Vec<(CompactString, i64)>,
    /// Extended resources that are not checked.
    pub(crate) ignored: Vec<CompactString>,
    /// Groups (before the slash) of such.
    pub(crate) ignored_groups: Vec<CompactString>,
}

/// CPU and memory, equally.
pub(crate) fn default_resources() -> Vec<(CompactString, i64)> {
    vec![
        (CompactString::const_new("cpu"), 1),
        (CompactString::const_new("memory"), 1),
    ]
}

impl Default for NodeResourcesFit {
    fn default() -> Self {
        Self {
            strategy: Strategy::LeastAllocated,
            resources: default_resources(),
            ignored: Vec::new(),
            ignored_groups: Vec::new(),
        }
    }
}

/// Whether a resource is one of those that every node has, not counted in pieces.
pub(crate) fn is_usual(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

impl NodeResourcesFit {
    fn is_ignored(&self, name: &str) -> bool {
        let group = name.split_once('/').map(|(group, _)| group);
        self.ignored.iter().any(|it| it == name)
            || group.is_some_and(|group| self.ignored_groups.iter().any(|it| it == group))
    }

    fn score_of(&self, requested: i64, capacity: i64) -> i64 {
        match &self.strategy {
            Strategy::LeastAllocated if requested > capacity => 0,
            Strategy::LeastAllocated => share(capacity - requested, capacity),
            Strategy::MostAllocated => share(requested.min(capacity), capacity),
            Strategy::RequestedToCapacityRatio(shape) if requested > capacity => {
                broken_line(shape, MAX_SCORE)
            }
            Strategy::RequestedToCapacityRatio(shape) => {
                broken_line(shape, share(requested, capacity))
            }
        }
    }
}

/// A share in percent.
fn share(part: i64, whole: i64) -> i64 {
    // 92 PB of memory times 100 would overflow
    let share = i128::from(part) * i128::from(MAX_SCORE) / i128::from(whole.max(1));
    i64::try_from(share).unwrap_or(0)
}

/// The value at `at` of the line through these points.
fn broken_line(points: &[(i64, i64)], at: i64) -> i64 {
    let mut before: Option<(i64, i64)> = None;
    for (x, y) in points {
        if at <= *x {
            return match before {
                None => *y,
                Some((x0, y0)) => y0 + (y - y0) * (at - x0) / (x - x0),
            };
        }
        before = Some((*x, *y));
    }
    before.map_or(0, |(_, y)| y)
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn filter(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        nodes: &mut Bits,
        rejected: &mut RejectedNodes,
    ) {
        let candidates = nodes.clone();
        // evicting pods helps where the node is large enough when empty
        let mut check =
            |reason: &dyn Fn() -> String, needed: i64, has: &dyn Fn(usize) -> (i64, i64)| {
                let (mut occupied, mut too_small) = (Bits::new(), Bits::new());
                for at in candidates.iter() {
                    let (allocatable, requested) = has(at);
                    if needed > allocatable - requested {
                        let bits = if needed > allocatable {
                            &mut too_small
                        } else {
                            &mut occupied
                        };
                        bits.insert(at);
                    }
                }
                for (failing, resolvable) in [(occupied, true), (too_small, false)] {
                    if !failing.is_empty() {
                        nodes.subtract(&failing);
                        rejected.add(&failing, reason(), resolvable);
                    }
                }
            };
        let (has, used) = (&snapshot.allocatable, &snapshot.requested);
        let at = |column: &[i64], place: usize| column.get(place).copied().unwrap_or(0);
        // As upstream: a node for no pods at all counts as one that eviction may help.
        check(&|| "Too many pods".to_owned(), 1, &|place| {
            let pods = at(&has.pods, place).max(1);
            (pods, at(&used.pods, place) + pods - at(&has.pods, place))
        });
        let requests = &pod.shape.requests;
        for (name, needed, has, used) in [
            ("cpu", requests.cpu, &has.cpu, &used.cpu),
            ("memory", requests.memory, &has.memory, &used.memory),
            (
                "ephemeral-storage",
                requests.storage,
                &has.storage,
                &used.storage,
            ),
        ] {
            if needed > 0 {
                check(&|| format!("Insufficient {name}"), needed, &|place| {
                    (at(has, place), at(used, place))
                });
            }
        }
        for (name, needed) in &requests.extended {
            if *needed == 0 || self.is_ignored(name) {
                continue;
            }
            let is_of_devices = snapshot.is_device_resource(name);
            check(&|| format!("Insufficient {name}"), *needed, &|place| {
                let allocatable = has.get_extended(name, place);
                if allocatable == 0 && is_of_devices {
                    // DynamicResources allocates it.
                    return (i64::MAX, 0);
                }
                (allocatable, used.get_extended(name, place))
            });
        }
    }

    fn scores(&self, _: &Pod) -> bool {
        true
    }

    fn score(&self, snapshot: &Snapshot, pod: &Pod, nodes: &Bits, scores: &mut [i64]) {
        let requests = &pod.shape.requests;
        let columns: Vec<_> = self
            .resources
            .iter()
            .filter_map(|(name, weight)| {
                let needed = nonzero_request(requests, name);
                if needed == 0 && !is_usual(name) {
                    return None;
                }
                let (has, used) = snapshot.resource(name, true)?;
                Some((needed, *weight, has, used))
            })
            .collect();
        let is_ratio = matches!(self.strategy, Strategy::RequestedToCapacityRatio(_));
        for place in nodes.iter() {
            let (mut sum, mut weights) = (0, 0);
            for (needed, weight, has, used) in &columns {
                let has = has.get(place).copied().unwrap_or(0);
                let used = used.get(place).copied().unwrap_or(0);
                if has > 0 {
                    let score = self.score_of(used.saturating_add(*needed), has);
                    if score > 0 || !is_ratio {
                        sum += score * weight;
                        weights += weight;
                    }
                }
            }
            if let Some(score) = scores.get_mut(place) {
                *score = match weights {
                    0 => 0,
                    // rounded, all are positive
                    _ if is_ratio => (2 * sum + weights) / (2 * weights),
                    _ => sum / weights,
                };
            }
        }
    }

    fn influence(&self, cycle: &Cycle<'_>) -> Influence {
        let requests = cycle.pod.shape.requests.iter();
        let checked = |name: &str| is_usual(name) || !self.is_ignored(name);
        let needs = requests.filter(|(name, needed)| match *name {
            name if is_usual(name) => *needed > 0,
            name => *needed != 0 && checked(name),
        });
        let needs = needs.map(|(name, needed)| (name.to_owned(), needed));
        let pods = ("pods".to_owned(), 1);
        Influence::Resources(std::iter::once(pods).chain(needs).collect())
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED
            .and(Wake::NODE_ALLOCATABLE)
            .and(Wake::POD_REMOVED)
            .and(Wake::POD_SCALED_DOWN)
            .and(Wake::POD_ITSELF)
            .and(Wake::DEVICE_CLASS)
    }

    fn hint(&self, cluster: &Cluster, pod: &Pod, event: &Event<'_>) -> bool {
        let requests = &pod.shape.requests;
        match event.subject {
            Subject::Pod {
                old: Some(old),
                new: Some(new),
            } => {
                let (was, is) = (&old.shape.requests, &new.shape.requests);
                let mut wanted = requests.iter().filter(|(_, value)| *value != 0);
                wanted.any(|(name, _)| is.get(name) < was.get(name))
            }
            Subject::Itself { old, new } => new.requests_less_than(old),
            Subject::Node {
                old,
                new: Some(new),
            } => fits_alone(cluster, pod, new) && old.is_none_or(|old| has_more(pod, old, new)),
            _ => true,
        }
    }
}

/// Whether a pod fits on a node without pods.
fn fits_alone(cluster: &Cluster, pod: &Pod, node: &Node) -> bool {
    let has = &node.allocatable;
    has.pods >= 1
        && pod.shape.requests.iter().all(|(name, value)| {
            value <= has.get(name)
                || has.get(name) == 0 && cluster.snapshot.is_device_resource(name)
        })
}

/// Whether a node has more than before of something that a pod asks for.
fn has_more(pod: &Pod, old: &Node, new: &Node) -> bool {
    let (was, is) = (&old.allocatable, &new.allocatable);
    let mut wanted = pod.shape.requests.iter().filter(|(_, value)| *value > 0);
    is.pods > was.pods || wanted.any(|(name, _)| is.get(name) > was.get(name))
}

/// Returns a pod's request; for CPU and memory that of its containers alone, with a
/// minimum for containers without requests.
fn nonzero_request(requests: &Requests, name: &str) -> i64 {
    match name {
        "cpu" => requests.cpu_scored,
        "memory" => requests.memory_scored,
        _ => requests.get(name),
    }
}
