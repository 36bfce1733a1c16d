//! The graph of owners and dependents over all kinds, and the fate of each object.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use compact_str::ToCompactString as _;
use control_client::{Identity, Metadata, Object, OwnerReference, Resource, View};
use serde::Deserialize;

use crate::views::Text;

/// The finalizer by which an object waits for its dependents to be deleted.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer by which an object waits for its dependents to be let go.
pub const ORPHAN: &str = "orphan";

/// An object as the collector reads it: its identity and its owners. Every object of the
/// cluster is kept, so it is small.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Metadata")]
pub struct OwnedObject {
    /// Its name and uid.
    pub identity: Identity,
    /// Its owners.
    pub owners: Box<[OwnerReference]>,
    /// Whether deletion was requested.
    pub deleting: bool,
    /// It waits for [`FOREGROUND`].
    pub foreground: bool,
    /// It waits for [`ORPHAN`].
    pub orphan: bool,
}

impl From<Metadata> for OwnedObject {
    fn from(Metadata { metadata: meta }: Metadata) -> Self {
        let waits_for = |finalizer: &str| meta.finalizers.iter().any(|f| f == finalizer);
        Self {
            deleting: meta.is_terminating(),
            foreground: waits_for(FOREGROUND),
            orphan: waits_for(ORPHAN),
            owners: meta.owner_references.as_slice().into(),
            identity: meta.into(),
        }
    }
}

impl Object for OwnedObject {
    const RESOURCE: Resource = <Metadata as View>::RESOURCE;

    fn namespace(&self) -> &str {
        &self.identity.namespace
    }

    fn name(&self) -> &str {
        &self.identity.name
    }

    fn resource_version(&self) -> &str {
        &self.identity.resource_version
    }

    fn has_uid_of(&self, other: &Self) -> bool {
        self.identity.uid == other.identity.uid
    }
}

impl OwnedObject {
    /// Its uid, by which owner references name it.
    #[must_use]
    pub fn uid(&self) -> Text {
        self.identity.uid.to_compact_string()
    }

    /// Returns whether ownership and fate equal those of an earlier state of the object.
    fn is_owned_as(&self, earlier: &Self) -> bool {
        let fate = |it: &Self| (it.deleting, it.foreground, it.orphan);
        self.owners == earlier.owners && fate(self) == fate(earlier)
    }
}

/// An object in the graph.
#[derive(Debug, Clone)]
pub struct GraphNode {
    /// The resource, by the number that the loop gave it.
    pub resource: usize,
    /// The object, shared with the cache of its resource.
    pub object: Arc<OwnedObject>,
}

impl Deref for GraphNode {
    type Target = OwnedObject;

    fn deref(&self) -> &OwnedObject {
        &self.object
    }
}

/// All objects by uid, and their dependents.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<Text, GraphNode>,
    /// Dependents of objects that are there, and of those that are not.
    dependents: HashMap<Text, HashSet<Text>>,
}

/// The action to take on an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectFate {
    /// Nothing.
    Stay,
    /// Take the owner from these, then its orphan finalizer from the object.
    Orphan(Vec<Text>),
    /// All dependents that it waited for are deleted: remove the finalizer.
    Unblock,
    /// It waits for these dependents, whose deletion may still have to start.
    Wait(Vec<Text>),
    /// It has owners that must be looked at.
    Judge,
}

/// The states of an object's owners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerStates {
    /// There, and staying.
    pub solid: usize,
    /// Gone.
    pub dangling: Vec<Text>,
    /// There, but waiting for their dependents to be deleted.
    pub waiting: Vec<Text>,
}

/// The action to take on an object whose owners are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectionVerdict {
    /// Nothing.
    Stay,
    /// It stays, but these owners must be taken from it.
    Drop(Vec<Text>),
    /// Delete it, its dependents first.
    DeleteForeground,
    /// Delete it, as its own finalizers want it.
    Delete,
}

impl Graph {
    /// Takes in an object as it is now. Returns whose fate may have changed.
    pub fn put(&mut self, resource: usize, object: Arc<OwnedObject>) -> Vec<Text> {
        let uid = &object.uid();
        let node = GraphNode { resource, object };
        let old = self.nodes.get_mut(uid);
        let is_known = |old: &&mut GraphNode| old.resource == resource && node.is_owned_as(old);
        let old = match old {
            Some(old) if is_known(&old) => {
                // The state that the cache holds, so that none is held twice.
                *old = node;
                return Vec::new();
            }
            old => old.map(|old| Arc::clone(&old.object)),
        };
        let mut concerned = Vec::new();
        if let Some(old) = old {
            let lost = old.owners.iter().filter(|o| {
                !node.owners.iter().any(|n| {
                    n.uid == o.uid && n.blocks_owner_deletion() == o.blocks_owner_deletion()
                })
            });
            // an owner may wait for this dependent no more
            concerned.extend(lost.map(|owner| owner.uid.clone()));
            for owner in &old.owners {
                if let Some(set) = self.dependents.get_mut(&owner.uid) {
                    set.remove(uid);
                    if set.is_empty() {
                        self.dependents.remove(&owner.uid);
                    }
                }
            }
        }
        for owner in &node.owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(uid.clone());
        }
        if !node.owners.is_empty() || node.deleting {
            concerned.push(uid.clone());
        }
        if node.deleting && node.foreground {
            concerned.extend(self.dependents_of(uid));
        }
        self.nodes.insert(uid.clone(), node);
        concerned
    }

    /// Forgets all objects of a resource. Returns whose fate may have changed.
    pub fn remove_all(&mut self, resource: usize) -> Vec<Text> {
        let of_it = self.nodes.iter().filter(|(_, n)| n.resource == resource);
        let gone: Vec<Text> = of_it.map(|(uid, _)| uid.clone()).collect();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    /// Removes a deleted object. Returns the objects whose fate may have changed.
    pub fn remove(&mut self, uid: &Text) -> Vec<Text> {
        let Some(node) = self.nodes.remove(uid) else {
            return Vec::new();
        };
        let mut concerned = self.dependents_of(uid);
        for owner in &node.owners {
            if let Some(set) = self.dependents.get_mut(&owner.uid) {
                set.remove(uid);
                if set.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
            if self.nodes.get(&owner.uid).is_some_and(|o| o.deleting) {
                concerned.push(owner.uid.clone());
            }
        }
        concerned
    }

    /// An object.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<&GraphNode> {
        self.nodes.get(uid)
    }

    /// The objects that name this one as an owner.
    #[must_use]
    pub fn dependents_of(&self, uid: &str) -> Vec<Text> {
        let mut list: Vec<Text> = self
            .dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        list.sort();
        list
    }

    /// Returns the fate of an object.
    #[must_use]
    pub fn fate(&self, uid: &str) -> ObjectFate {
        let Some(node) = self.nodes.get(uid) else {
            return ObjectFate::Stay;
        };
        if node.deleting && node.orphan {
            return ObjectFate::Orphan(self.dependents_of(uid));
        }
        if node.deleting && node.foreground {
            let blocking: Vec<Text> = self
                .dependents_of(uid)
                .into_iter()
                .filter(|dependent| self.blocks(dependent, uid))
                .filter(|dependent| !self.waits_for(dependent, uid))
                .collect();
            return if blocking.is_empty() {
                ObjectFate::Unblock
            } else {
                ObjectFate::Wait(blocking)
            };
        }
        if node.deleting || node.owners.is_empty() {
            return ObjectFate::Stay;
        }
        ObjectFate::Judge
    }

    /// Returns whether an object that waits for its dependents waits, through these, for
    /// `other`: no member of a cycle needs to wait for the others.
    fn waits_for(&self, uid: &str, other: &str) -> bool {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut next = vec![uid];
        while let Some(uid) = next.pop() {
            let waits = |node: &GraphNode| node.deleting && node.foreground;
            if !self.nodes.get(uid).is_some_and(waits) {
                continue;
            }
            for dependent in self.dependents.get(uid).into_iter().flatten() {
                if !self.blocks(dependent, uid) {
                    continue;
                }
                if dependent == other {
                    return true;
                }
                if seen.insert(dependent) {
                    next.push(dependent);
                }
            }
        }
        false
    }

    fn blocks(&self, dependent: &str, owner: &str) -> bool {
        self.nodes.get(dependent).is_some_and(|node| {
            node.owners
                .iter()
                .any(|reference| reference.uid == owner && reference.blocks_owner_deletion())
        })
    }

    /// Classifies an object's owners; `is_gone` says whether an owner that the graph does
    /// not know is really deleted.
    #[must_use]
    pub fn classify(
        &self,
        owners: &[OwnerReference],
        is_gone: impl Fn(&str) -> bool,
    ) -> OwnerStates {
        let mut sorted = OwnerStates::default();
        for owner in owners {
            match self.nodes.get(&owner.uid) {
                Some(node) if node.deleting && node.foreground => {
                    sorted.waiting.push(owner.uid.clone());
                }
                Some(_) => sorted.solid += 1,
                None if is_gone(&owner.uid) => sorted.dangling.push(owner.uid.clone()),
                None => sorted.solid += 1,
            }
        }
        sorted
    }

    /// Decides over an object by its owners.
    #[must_use]
    pub fn verdict(&self, uid: &str, owners: OwnerStates) -> CollectionVerdict {
        let OwnerStates {
            solid,
            mut dangling,
            mut waiting,
        } = owners;
        if solid > 0 {
            dangling.append(&mut waiting);
            return if dangling.is_empty() {
                CollectionVerdict::Stay
            } else {
                CollectionVerdict::Drop(dangling)
            };
        }
        if dangling.is_empty() && waiting.is_empty() {
            return CollectionVerdict::Stay;
        }
        if !waiting.is_empty() && self.dependents.contains_key(uid) {
            return CollectionVerdict::DeleteForeground;
        }
        CollectionVerdict::Delete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(
        uid: &str,
        owners: &[(&str, bool)],
        finalizers: &[&str],
        deleting: bool,
    ) -> Arc<OwnedObject> {
        let owners: Vec<_> = owners
            .iter()
            .map(|(uid, block)| json!({"apiVersion":"v1","kind":"K","name":uid,"uid":uid,"blockOwnerDeletion":block}))
            .collect();
        let mut value =
            json!({"name":uid,"uid":uid,"ownerReferences":owners,"finalizers":finalizers});
        if deleting {
            value["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        serde_json::from_value(json!({"metadata": value})).unwrap()
    }

    fn judge(graph: &Graph, uid: &str) -> CollectionVerdict {
        assert_eq!(graph.fate(uid), ObjectFate::Judge);
        let owners = &graph.get(uid).unwrap().owners;
        graph.verdict(uid, graph.classify(owners, |_| true))
    }

    #[test]
    fn dependent_goes_when_its_last_owner_is_gone() {
        let mut g = Graph::default();
        g.put(0, object("a", &[], &[], false));
        g.put(0, object("b", &[], &[], false));
        g.put(0, object("x", &[("a", false), ("b", false)], &[], false));
        assert_eq!(judge(&g, "x"), CollectionVerdict::Stay);
        assert_eq!(g.remove(&"a".into()), ["x"]);
        assert_eq!(judge(&g, "x"), CollectionVerdict::Drop(vec!["a".into()]));
        g.put(0, object("x", &[("b", false)], &[], false));
        assert_eq!(g.remove(&"b".into()), ["x"]);
        assert_eq!(judge(&g, "x"), CollectionVerdict::Delete);
    }

    #[test]
    fn objects_of_a_resource_that_is_left_are_forgotten_and_their_dependents_judged() {
        let mut g = Graph::default();
        g.put(0, object("x", &[("a", false)], &[], false));
        g.put(1, object("a", &[], &[], false));
        g.put(1, object("b", &[], &[], false));
        assert_eq!(g.remove_all(1), ["x"]);
        assert!(g.get("a").is_none() && g.get("b").is_none() && g.get("x").is_some());
    }

    #[test]
    fn owner_that_is_only_unknown_keeps_its_dependents() {
        let mut g = Graph::default();
        g.put(0, object("x", &[("a", false)], &[], false));
        let owners = g.get("x").unwrap().owners.clone();
        let sorted = g.classify(&owners, |_| false);
        assert_eq!(g.verdict("x", sorted), CollectionVerdict::Stay);
    }

    #[test]
    fn owner_of_the_same_name_with_another_uid_is_another() {
        let mut g = Graph::default();
        g.put(0, object("new", &[], &[], false));
        g.put(0, object("x", &[("old", false)], &[], false));
        assert_eq!(judge(&g, "x"), CollectionVerdict::Delete);
    }

    #[test]
    fn foreground_deletion_waits_for_blocking_dependents_only() {
        let mut g = Graph::default();
        g.put(0, object("a", &[], &[], false));
        g.put(0, object("block", &[("a", true)], &[], false));
        g.put(0, object("free", &[("a", false)], &[], false));
        let concerned = g.put(0, object("a", &[], &[FOREGROUND], true));
        assert_eq!(concerned, ["a", "block", "free"]);
        assert_eq!(g.fate("a"), ObjectFate::Wait(vec!["block".into()]));
        assert_eq!(judge(&g, "free"), CollectionVerdict::Delete);
        assert_eq!(judge(&g, "block"), CollectionVerdict::Delete);
        assert_eq!(g.remove(&"block".into()), ["a"]);
        assert_eq!(g.fate("a"), ObjectFate::Unblock);
    }

    #[test]
    fn foreground_deletion_goes_down_level_by_level() {
        let mut g = Graph::default();
        g.put(0, object("a", &[], &[FOREGROUND], true));
        g.put(0, object("b", &[("a", true)], &[], false));
        g.put(0, object("c", &[("b", true)], &[], false));
        assert_eq!(judge(&g, "b"), CollectionVerdict::DeleteForeground);
        assert_eq!(judge(&g, "c"), CollectionVerdict::Stay);
    }

    #[test]
    fn a_circle_of_owners_does_not_wait_for_itself() {
        let mut g = Graph::default();
        let fg: &[&str] = &[FOREGROUND];
        g.put(0, object("a", &[("c", true)], fg, true));
        g.put(0, object("b", &[("a", true)], fg, true));
        g.put(0, object("c", &[("b", true)], &[], false));
        assert_eq!(g.fate("a"), ObjectFate::Wait(vec!["b".into()]));
        assert_eq!(judge(&g, "c"), CollectionVerdict::DeleteForeground);
        // The last one joins, and whoever waits for it hears of it.
        let concerned = g.put(0, object("c", &[("b", true)], fg, true));
        assert_eq!(concerned, ["c", "a"]);
        assert_eq!(g.fate("a"), ObjectFate::Unblock);
        // What stands beside the circle is waited for.
        g.put(0, object("x", &[("a", true)], &[], false));
        assert_eq!(g.fate("a"), ObjectFate::Wait(vec!["x".into()]));
    }

    #[test]
    fn orphaning_names_the_dependents() {
        let mut g = Graph::default();
        g.put(0, object("x", &[("a", true)], &[], false));
        g.put(0, object("a", &[], &[ORPHAN], true));
        assert_eq!(g.fate("a"), ObjectFate::Orphan(vec!["x".into()]));
        g.put(0, object("x", &[], &[], false));
        assert_eq!(g.fate("a"), ObjectFate::Orphan(vec![]));
    }

    #[test]
    fn dependent_that_stops_blocking_concerns_its_owner() {
        let mut g = Graph::default();
        g.put(0, object("a", &[], &[FOREGROUND], true));
        g.put(0, object("x", &[("a", true)], &[], false));
        assert!(
            g.put(0, object("x", &[("a", false)], &[], false))
                .contains(&"a".into())
        );
        assert_eq!(g.fate("a"), ObjectFate::Unblock);
    }

    #[test]
    fn unchanged_object_concerns_nobody() {
        let mut g = Graph::default();
        let x = || object("x", &[("a", false)], &[], false);
        assert_eq!(g.put(0, x()), ["x"]);
        let again = x();
        assert!(g.put(0, Arc::clone(&again)).is_empty());
        // The cache's state is shared, not an earlier one kept beside it.
        assert!(Arc::ptr_eq(&g.get("x").unwrap().object, &again));
    }
}
