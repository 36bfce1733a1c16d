//! Nominations: pods that wait for a node to be emptied for them, or that are expected
//! there.
//!
//! Other pods of the same or a lower priority are placed as if these were already on
//! their nodes. The scheduler's own decisions count before the API shows them.

use std::sync::Arc;

use compact_str::CompactString;
use rustc_hash::FxHashMap;

use crate::snapshot::PodKey;
use crate::view::Pod;

/// Pods with a nominated node, by node.
#[derive(Clone, Debug, Default)]
pub struct Nominations {
    pods: FxHashMap<PodKey, (Arc<Pod>, CompactString)>,
    by_node: FxHashMap<CompactString, Vec<PodKey>>,
}

impl Nominations {
    /// Nominates `node` for a pod; an empty name: none.
    pub fn set(&mut self, pod: &Arc<Pod>, node: &str) {
        let key = pod.key();
        self.remove(&key);
        if node.is_empty() {
            return;
        }
        let on = self.by_node.entry(node.into()).or_default();
        on.push(key.clone());
        self.pods.insert(key, (Arc::clone(pod), node.into()));
    }

    /// Takes in a pod that was seen to wait. A nomination that the API does not show yet
    /// stays; one that the API shows, or shows no longer, overrides ours.
    pub fn observe(&mut self, previous: Option<&Pod>, pod: &Arc<Pod>) {
        let unchanged = previous.is_none_or(|it| it.nominated_node.is_empty());
        let ours = match self.pods.get(&pod.key()) {
            Some((known, node)) if known.metadata.uid == pod.metadata.uid => Some(node.clone()),
            _ => None,
        };
        match ours {
            Some(ours) if unchanged && pod.nominated_node.is_empty() => self.set(pod, &ours),
            _ => self.set(pod, &pod.nominated_node),
        }
    }

    /// Removes the pod's nomination; returns the pod if it had one.
    pub fn remove(&mut self, key: &PodKey) -> Option<Arc<Pod>> {
        let (pod, node) = self.pods.remove(key)?;
        if let Some(on) = self.by_node.get_mut(&node) {
            on.retain(|other| other != key);
            if on.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(pod)
    }

    /// The node that is nominated for a pod.
    #[must_use]
    pub fn node_of(&self, key: &PodKey) -> Option<&str> {
        self.pods.get(key).map(|(_, node)| node.as_str())
    }

    /// Pods that a node is nominated for.
    pub fn on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let keys = self.by_node.get(node).map_or(&[][..], Vec::as_slice);
        let pods = keys.iter().filter_map(|key| self.pods.get(key));
        pods.map(|(pod, _)| pod)
    }

    /// Pods on `node` that count for `pod`: others of the same or a higher priority.
    pub fn relevant<'a>(&'a self, node: &str, pod: &'a Pod) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.on(node).filter(|other| {
            other.priority >= pod.priority && other.metadata.uid != pod.metadata.uid
        })
    }

    /// The nodes that have nominations.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.by_node.keys().map(CompactString::as_str)
    }

    /// Returns whether there are no nominations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i32, nominated: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": name, "uid": name}, "spec": {"priority": priority},
            "status": {"nominatedNodeName": nominated},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn on(nominations: &Nominations, node: &str) -> String {
        let pods = nominations
            .on(node)
            .map(|pod| pod.metadata.name.to_string());
        pods.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_nomination_of_ours_stays_until_the_api_shows_another_or_clears_it() {
        let mut nominations = Nominations::default();
        let fresh = pod("a", 1, "");
        nominations.set(&fresh, "x");
        nominations.observe(Some(&fresh), &pod("a", 1, ""));
        assert_eq!(on(&nominations, "x"), "a");
        nominations.observe(Some(&fresh), &pod("a", 1, "y"));
        assert_eq!(
            (on(&nominations, "x"), on(&nominations, "y")),
            (String::new(), "a".into())
        );
        nominations.observe(Some(&pod("a", 1, "y")), &fresh);
        assert!(nominations.is_empty());
    }

    #[test]
    fn only_others_of_the_same_or_a_higher_priority_are_relevant() {
        let mut nominations = Nominations::default();
        for (name, priority) in [("low", 1), ("same", 2), ("high", 3)] {
            nominations.set(&pod(name, priority, ""), "x");
        }
        let seen = |by: &Pod| {
            let relevant = nominations.relevant("x", by);
            relevant
                .map(|pod| pod.metadata.name.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(seen(&pod("new", 2, "")), "same high");
        assert_eq!(seen(&pod("same", 2, "")), "high");
        assert!(nominations.remove(&pod("high", 3, "").key()).is_some());
        assert_eq!(on(&nominations, "x"), "low same");
    }
}
