//! The kinds whose objects are in the graph.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use control_client::{OwnerReference, Resource};
use tokio::time::Instant;

use crate::views::Text;

/// The followed kinds, and the objects that wait for a kind that is not followed yet.
///
/// Both are one state: [`FollowedKinds::resource_of`] looks a kind up and, when it is
/// missing, notes the object in the same step. A kind that is added later therefore finds
/// every object that was looked up in vain.
#[derive(Debug, Default)]
pub struct FollowedKinds {
    /// The kinds by the number that nodes of the graph carry. Numbers are never reused: a
    /// task that still follows a removed kind cannot report for another one.
    kinds: BTreeMap<usize, CollectedKind>,
    next_number: usize,
    /// Objects with an owner of a kind that is not followed.
    waiting: HashSet<Text>,
}

#[derive(Debug)]
struct CollectedKind {
    resource: Resource,
    since: Instant,
    /// Whether the graph holds everything of the first list.
    listed: bool,
}

impl FollowedKinds {
    /// Adds a kind. Returns its number and the objects that waited for one more kind.
    pub fn add(&mut self, resource: Resource, now: Instant) -> (usize, HashSet<Text>) {
        let number = self.next_number;
        self.next_number += 1;
        let kind = CollectedKind {
            resource,
            since: now,
            listed: false,
        };
        self.kinds.insert(number, kind);
        (number, std::mem::take(&mut self.waiting))
    }

    /// Removes a kind that is no longer served.
    pub fn remove(&mut self, number: usize) {
        self.kinds.remove(&number);
    }

    /// Records that the graph holds everything of a kind's first list.
    pub fn mark_listed(&mut self, number: usize) {
        if let Some(kind) = self.kinds.get_mut(&number) {
            kind.listed = true;
        }
    }

    /// How many first lists the graph does not hold.
    #[must_use]
    pub fn unlisted(&self) -> usize {
        self.kinds.values().filter(|kind| !kind.listed).count()
    }

    /// Whether a first list that the graph does not hold may still arrive: those that are
    /// late by more than `patience` do not count.
    #[must_use]
    pub fn is_list_outstanding(&self, patience: Duration, now: Instant) -> bool {
        let is_recent = |kind: &CollectedKind| now.saturating_duration_since(kind.since) < patience;
        let mut kinds = self.kinds.values();
        kinds.any(|kind| !kind.listed && is_recent(kind))
    }

    /// The resource with this number.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&Resource> {
        self.kinds.get(&number).map(|kind| &kind.resource)
    }

    /// All followed resources.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.kinds.values().map(|kind| &kind.resource)
    }

    /// The resource of an owner of the object `uid`. When no such kind is followed, the
    /// object waits for the next call of [`FollowedKinds::add`].
    pub fn resource_of(&mut self, uid: &Text, owner: &OwnerReference) -> Option<Resource> {
        let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
        let found = self
            .resources()
            .find(|one| one.group == group && one.kind == owner.kind.as_str())
            .cloned();
        if found.is_none() {
            self.waiting.insert(uid.clone());
        }
        found
    }

    /// Forgets an object that is deleted.
    pub fn stop_waiting(&mut self, uid: &Text) {
        self.waiting.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widgets() -> Resource {
        Resource::namespaced("example.com", "v1", "widgets", "Widget")
    }

    fn gadgets() -> Resource {
        Resource::namespaced("example.com", "v1", "gadgets", "Gadget")
    }

    fn owner(kind: &str) -> OwnerReference {
        OwnerReference {
            api_version: "example.com/v1".into(),
            kind: kind.into(),
            ..OwnerReference::default()
        }
    }

    proptest::proptest! {
        /// In whichever order lookups and a new kind come, an object either learns the
        /// resource of its owner or is among those that the new kind wakes.
        #[test]
        fn lookup_before_or_after_a_new_kind_is_never_lost(before: Vec<u8>, after: Vec<u8>) {
            let mut kinds = FollowedKinds::default();
            let uid = |number: &u8| Text::from(number.to_string());
            for number in &before {
                assert_eq!(kinds.resource_of(&uid(number), &owner("Widget")), None);
            }
            let (_, woken) = kinds.add(widgets(), Instant::now());
            assert_eq!(woken, before.iter().map(uid).collect());
            for number in &after {
                assert_eq!(kinds.resource_of(&uid(number), &owner("Widget")), Some(widgets()));
            }
            assert!(kinds.add(gadgets(), Instant::now()).1.is_empty());
        }
    }

    #[test]
    fn object_that_is_deleted_waits_no_longer() {
        let mut kinds = FollowedKinds::default();
        kinds.resource_of(&"x".into(), &owner("Widget"));
        kinds.stop_waiting(&"x".into());
        assert!(kinds.add(widgets(), Instant::now()).1.is_empty());
    }

    #[test]
    fn list_of_a_removed_kind_does_not_count_for_the_same_kind_that_came_back() {
        let mut kinds = FollowedKinds::default();
        let (before, _) = kinds.add(widgets(), Instant::now());
        kinds.remove(before);
        assert_eq!(kinds.unlisted(), 0);
        let (after, _) = kinds.add(widgets(), Instant::now());
        kinds.mark_listed(before);
        assert_eq!(kinds.unlisted(), 1);
        kinds.mark_listed(after);
        assert_eq!(kinds.unlisted(), 0);
    }

    #[test]
    fn list_that_is_too_late_is_not_outstanding() {
        let mut kinds = FollowedKinds::default();
        let start = Instant::now();
        let patience = Duration::from_secs(30);
        kinds.add(widgets(), start);
        assert!(kinds.is_list_outstanding(patience, start + Duration::from_secs(29)));
        assert!(!kinds.is_list_outstanding(patience, start + patience));
    }
}
