//! The topology manager's decision: which NUMA nodes a container, or a pod,
//! gets its resources from. Pure. Source of the rules: KEP-693.
//!
//! Each provider of a resource says on which sets of nodes it could give it,
//! and which of them it prefers. What is common to one hint of each is a
//! candidate; the best candidate is the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use node_agent_kubelet_config::{TopologyPolicy, TopologyScope};

/// A set of NUMA nodes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumaMask(u64);

/// Nodes beyond are taken for none: the most that a [`NumaMask`] holds.
const MOST: u32 = 64;

impl NumaMask {
    /// How many nodes.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether this node is among them.
    #[must_use]
    pub fn contains(self, node: u32) -> bool {
        node < MOST && self.0 >> node & 1 == 1
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The nodes, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..MOST).filter(move |node| self.contains(*node))
    }

    /// All sets of these nodes but the empty one, smaller ones first.
    #[must_use]
    pub fn subsets(self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut next = self.0;
        while next != 0 {
            all.push(Self(next));
            next = (next - 1) & self.0;
        }
        all.sort_by_key(|mask| (mask.count(), mask.0));
        all
    }

    /// Whether it is better than the other where fewer nodes are: of as many,
    /// the lower ones.
    fn is_narrower(self, other: Self) -> bool {
        (self.count(), self.0) < (other.count(), other.0)
    }
}

impl FromIterator<u32> for NumaMask {
    fn from_iter<I: IntoIterator<Item = u32>>(nodes: I) -> Self {
        let nodes = nodes.into_iter().filter(|node| *node < MOST);
        Self(nodes.fold(0, |mask, node| mask | 1 << node))
    }
}

impl fmt::Debug for NumaMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// NUMA nodes that can provide a resource; `None` means any node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyHint {
    /// The nodes.
    pub nodes: Option<NumaMask>,
    /// Whether there is no better place.
    pub preferred: bool,
}

/// A provider's hints for one resource: `None` states no preference, an empty list that no node
/// can provide it.
pub type TopologyHints = Option<Vec<TopologyHint>>;

/// A provider's hints by resource; a missing resource states no preference.
pub type ProviderHints = BTreeMap<String, TopologyHints>;

/// Distances between NUMA nodes, by node and node.
pub type Distances = BTreeMap<u32, BTreeMap<u32, u64>>;

/// Merges what providers say into the hint to follow, and whether the pod is
/// taken with it.
///
/// `closest` has the distances by which sets of as many nodes are compared.
#[must_use]
pub fn merge(
    policy: TopologyPolicy,
    all_nodes: NumaMask,
    closest: Option<&Distances>,
    said: &[ProviderHints],
) -> (TopologyHint, bool) {
    let mut lists: Vec<Vec<TopologyHint>> = Vec::new();
    let any = |preferred| TopologyHint {
        nodes: None,
        preferred,
    };
    for provider in said {
        if provider.is_empty() {
            lists.push(vec![any(true)]);
        }
        for places in provider.values() {
            lists.push(match places {
                None => vec![any(true)],
                Some(places) if places.is_empty() => vec![any(false)],
                Some(places) => places.clone(),
            });
        }
    }
    let single = policy == TopologyPolicy::SingleNumaNode;
    if single {
        for list in &mut lists {
            list.retain(|h| h.preferred && h.nodes.is_none_or(|nodes| nodes.count() == 1));
        }
    }
    let compared = HintComparison {
        closest: closest.filter(|_| !single),
        target: target(&lists),
    };
    let best = candidates(&lists, all_nodes)
        .into_iter()
        .filter(|(nodes, _)| nodes.count() > 0)
        .reduce(|a, b| if compared.is_better(b, a) { b } else { a });
    let (nodes, preferred) = best.unwrap_or((all_nodes, false));
    let hint = TopologyHint {
        nodes: Some(nodes).filter(|nodes| !single || *nodes != all_nodes),
        preferred,
    };
    let admits = match policy {
        TopologyPolicy::None | TopologyPolicy::BestEffort => true,
        TopologyPolicy::Restricted | TopologyPolicy::SingleNumaNode => preferred,
    };
    (hint, admits)
}

/// What is common to one hint of each list, for every choice of them: the
/// nodes, and whether all prefer the very same ones.
///
/// Choices that cannot differ any more are followed once, so this does not
/// grow with the product of the lists.
fn candidates(lists: &[Vec<TopologyHint>], all_nodes: NumaMask) -> BTreeSet<(NumaMask, bool)> {
    // the common nodes, the nodes of the first that named some, all the same
    let mut reached: BTreeSet<(NumaMask, Option<NumaMask>, bool)> =
        [(all_nodes, None, true)].into();
    for list in lists {
        let mut next = BTreeSet::new();
        for (common, first, preferred) in &reached {
            for hint in list {
                let same = match (first, hint.nodes) {
                    (Some(first), Some(nodes)) => *first == nodes,
                    _ => true,
                };
                let preferred = *preferred && hint.preferred && same;
                let common = hint.nodes.map_or(*common, |nodes| common.and(nodes));
                let first = first.or(hint.nodes).filter(|_| preferred);
                next.insert((common, first, preferred));
            }
        }
        reached = next;
    }
    reached.into_iter().map(|(n, _, p)| (n, p)).collect()
}

/// How many nodes the resource takes at least that takes most.
fn target(lists: &[Vec<TopologyHint>]) -> u32 {
    let least = |list: &Vec<TopologyHint>| list.iter().filter_map(|h| Some(h.nodes?.count())).min();
    lists.iter().filter_map(least).max().unwrap_or(0)
}

struct HintComparison<'a> {
    closest: Option<&'a Distances>,
    /// The best count of nodes where not all can have what they prefer.
    target: u32,
}

impl HintComparison<'_> {
    fn is_better(&self, a: (NumaMask, bool), b: (NumaMask, bool)) -> bool {
        if a.1 != b.1 {
            return a.1;
        }
        if !a.1 {
            // as many as are needed; else more of too few; else fewer of too many
            let rank = |nodes: NumaMask| match nodes.count() {
                n if n == self.target => (0, 0),
                n if n < self.target => (1, self.target - n),
                n => (2, n),
            };
            if rank(a.0) != rank(b.0) {
                return rank(a.0) < rank(b.0);
            }
        }
        self.is_nearer(a.0, b.0)
    }

    fn is_nearer(&self, a: NumaMask, b: NumaMask) -> bool {
        if let Some(distances) = self.closest
            && a.count() == b.count()
        {
            // the sums of as many pairs compare as their averages do
            let far = |nodes: NumaMask| -> u64 {
                let to = |from: u32| {
                    nodes
                        .iter()
                        .filter_map(move |to| distances.get(&from)?.get(&to))
                };
                nodes.iter().flat_map(to).sum()
            };
            let (a_far, b_far) = (far(a), far(b));
            if a_far != b_far {
                return a_far < b_far;
            }
        }
        a.is_narrower(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mask(nodes: &[u32]) -> NumaMask {
        nodes.iter().copied().collect()
    }

    fn hint(nodes: &[u32], preferred: bool) -> TopologyHint {
        TopologyHint {
            nodes: Some(mask(nodes)),
            preferred,
        }
    }

    fn said(lists: &[Vec<TopologyHint>]) -> Vec<ProviderHints> {
        let one = |(at, list): (usize, &Vec<TopologyHint>)| -> ProviderHints {
            [(format!("r{at}"), Some(list.clone()))].into()
        };
        lists.iter().enumerate().map(one).collect()
    }

    #[test]
    fn providers_that_do_not_care_decide_nothing() {
        let nobody = [ProviderHints::new(), [("gpu".to_owned(), None)].into()];
        for policy in [TopologyPolicy::BestEffort, TopologyPolicy::Restricted] {
            let (found, admits) = merge(policy, mask(&[0, 1]), None, &nobody);
            assert_eq!((found, admits), (hint(&[0, 1], true), true));
        }
        let (found, admits) = merge(TopologyPolicy::SingleNumaNode, mask(&[0, 1]), None, &nobody);
        assert_eq!((found.nodes, admits), (None, true));
    }

    #[test]
    fn policies_differ_in_what_they_refuse() {
        // CPUs on node 0 alone, a device on node 1 alone
        let apart = said(&[
            vec![hint(&[0], true), hint(&[0, 1], false)],
            vec![hint(&[1], true), hint(&[0, 1], false)],
        ]);
        // too large for one node, as the machine is made
        let large = said(&[
            vec![hint(&[0, 1], true)],
            vec![hint(&[0], true), hint(&[1], true), hint(&[0, 1], false)],
        ]);
        // too large for one node as the machine is used
        let used = said(&[vec![hint(&[0, 1], false)]]);
        let nowhere: Vec<ProviderHints> = vec![[("cpu".to_owned(), Some(vec![]))].into()];
        let cases = [
            (TopologyPolicy::BestEffort, &apart, true),
            (TopologyPolicy::Restricted, &apart, false),
            (TopologyPolicy::SingleNumaNode, &apart, false),
            (TopologyPolicy::BestEffort, &large, true),
            (TopologyPolicy::Restricted, &large, false),
            (TopologyPolicy::SingleNumaNode, &large, false),
            (TopologyPolicy::BestEffort, &used, true),
            (TopologyPolicy::Restricted, &used, false),
            (TopologyPolicy::SingleNumaNode, &used, false),
            (TopologyPolicy::BestEffort, &nowhere, true),
            (TopologyPolicy::Restricted, &nowhere, false),
            (TopologyPolicy::SingleNumaNode, &nowhere, false),
        ];
        for (policy, said, wanted) in cases {
            let (found, admits) = merge(policy, mask(&[0, 1]), None, said);
            assert_eq!(admits, wanted, "{policy:?} {said:?}: {found:?}");
        }
        let both = said(&[vec![hint(&[0, 1], true)], vec![hint(&[0, 1], true)]]);
        assert!(merge(TopologyPolicy::Restricted, mask(&[0, 1]), None, &both).1);
        assert!(!merge(TopologyPolicy::SingleNumaNode, mask(&[0, 1]), None, &both).1);
    }

    #[test]
    fn near_nodes_are_taken_when_asked_for() {
        let pairs = said(&[vec![
            hint(&[0, 1], true),
            hint(&[0, 3], true),
            hint(&[2, 3], true),
        ]]);
        let far = |node: u32| {
            (0..4).map(move |to| match (node, to) {
                (a, b) if a == b => (to, 10),
                (2, 3) | (3, 2) => (to, 11),
                _ => (to, 20),
            })
        };
        let distances: Distances = (0..4).map(|n| (n, far(n).collect())).collect();
        let all = mask(&[0, 1, 2, 3]);
        let narrow = merge(TopologyPolicy::BestEffort, all, None, &pairs).0;
        assert_eq!(narrow.nodes, Some(mask(&[0, 1])));
        let near = merge(TopologyPolicy::BestEffort, all, Some(&distances), &pairs).0;
        assert_eq!(near.nodes, Some(mask(&[2, 3])));
    }

    /// Every choice of one hint of each list, compared one after the other as
    /// KEP-693 and the kubelet's rules for what nobody prefers say it.
    fn by_brute_force(lists: &[Vec<TopologyHint>], all: NumaMask) -> Option<(NumaMask, bool)> {
        let target = target(lists);
        let mut best: Option<(NumaMask, bool)> = None;
        let mut choices: Vec<Vec<TopologyHint>> = vec![vec![]];
        for list in lists {
            choices = choices
                .iter()
                .flat_map(|c| list.iter().map(move |h| [c.clone(), vec![*h]].concat()))
                .collect();
        }
        for choice in choices {
            let named: Vec<NumaMask> = choice.iter().filter_map(|h| h.nodes).collect();
            let common = named.iter().fold(all, |a, b| a.and(*b));
            let preferred =
                choice.iter().all(|h| h.preferred) && named.iter().all(|n| *n == named[0]);
            if common.count() == 0 {
                continue;
            }
            let Some((now, was)) = best else {
                best = Some((common, preferred));
                continue;
            };
            let take = match (was, preferred) {
                (false, true) => true,
                (true, false) => false,
                (true, true) => common.is_narrower(now),
                (false, false) => {
                    let (c, n) = (common.count(), now.count());
                    if n > target {
                        common.is_narrower(now)
                    } else if n == target {
                        c == target && common.is_narrower(now)
                    } else if c > target {
                        false
                    } else if c == target || c > n {
                        true
                    } else {
                        c == n && common.is_narrower(now)
                    }
                }
            };
            if take {
                best = Some((common, preferred));
            }
        }
        best
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn merging_is_choosing_the_best_of_all_choices(
            lists in prop::collection::vec(
                prop::collection::vec((prop::option::of(1..16_u64), any::<bool>()), 1..6), 0..4),
        ) {
            let all = NumaMask(15);
            let lists: Vec<Vec<TopologyHint>> = lists
                .into_iter()
                .map(|list| list.into_iter()
                    .map(|(nodes, preferred)| TopologyHint { nodes: nodes.map(NumaMask), preferred })
                    .collect())
                .collect();
            let (found, _) = merge(TopologyPolicy::BestEffort, all, None, &said(&lists));
            let wanted = by_brute_force(&lists, all).unwrap_or((all, false));
            prop_assert_eq!((found.nodes.unwrap(), found.preferred), wanted);
            // what single nodes are taken for is on one
            let (single, admits) = merge(TopologyPolicy::SingleNumaNode, all, None, &said(&lists));
            if admits && let Some(nodes) = single.nodes {
                prop_assert!(nodes.count() == 1 || lists.iter().flatten().all(|h| h.nodes.is_none()));
            }
        }
    }
}
