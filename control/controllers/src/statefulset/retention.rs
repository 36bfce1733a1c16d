//! The owners of a StatefulSet's claims, by its retention policy.
//!
//! | when scaled | when deleted | owner of a claim |
//! |---|---|---|
//! | Retain | Retain | nobody |
//! | Retain | Delete | the set |
//! | Delete | Retain | the pod, once its ordinal is out of range |
//! | Delete | Delete | the set; the pod, once its ordinal is out of range |
//!
//! A claim that names an earlier set or pod of the same name, or another controller, is
//! not given new owners.

use control_client::{Meta, OwnerReference, resources};

use super::identity::{self, PodOwner};
use crate::views::{ClaimRetention, StatefulSet};
use crate::{ownership, work};

/// A retention policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RetentionPolicy {
    delete_when_scaled: bool,
    delete_when_deleted: bool,
}

impl RetentionPolicy {
    fn of(retention: &ClaimRetention) -> Self {
        Self {
            delete_when_scaled: retention.when_scaled == "Delete",
            delete_when_deleted: retention.when_deleted == "Delete",
        }
    }

    const fn retains_all(self) -> bool {
        !self.delete_when_scaled && !self.delete_when_deleted
    }
}

/// New owners of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewOwners {
    /// All owner references.
    pub(super) references: Vec<OwnerReference>,
    /// Whether another controller manages the claim, which is worth an event.
    pub(super) is_conflicting: bool,
}

/// Whether the claim names an earlier pod of the same name as its owner: it is about to
/// be deleted with that pod.
pub(super) fn is_stale(set: &StatefulSet, pod: &PodOwner, claim: &Meta) -> bool {
    RetentionPolicy::of(&set.spec.persistent_volume_claim_retention_policy).delete_when_scaled
        && has_stale_reference(claim, &pod_reference(pod))
}

/// Returns the owners that a claim should have instead of its own; `None` if they are
/// right or must be left alone.
pub(super) fn new_owners(set: &StatefulSet, pod: &PodOwner, claim: &Meta) -> Option<NewOwners> {
    let set_reference = work::reference_to(&resources::STATEFUL_SETS, &set.metadata);
    let pod_reference = pod_reference(pod);
    if has_stale_reference(claim, &set_reference) || has_stale_reference(claim, &pod_reference) {
        return None;
    }
    let policy = RetentionPolicy::of(&set.spec.persistent_volume_claim_retention_policy);
    let owned_by =
        |owner: &OwnerReference| claim.owner_references.iter().any(|r| r.uid == owner.uid);
    let others = || {
        claim
            .owner_references
            .iter()
            .filter(|r| !refers_to(r, &set_reference) && !refers_to(r, &pod_reference))
            .cloned()
    };
    // Stale references were handled above; the remaining one is another controller.
    let is_conflicting = !policy.retains_all() && others().any(|r| r.is_controller());
    if is_conflicting {
        return (owned_by(&set_reference) || owned_by(&pod_reference)).then(|| NewOwners {
            references: others().collect(),
            is_conflicting,
        });
    }
    let is_condemned = !identity::in_range(set, pod.ordinal);
    let pod_owns = policy.delete_when_scaled && is_condemned;
    let set_owns = policy.delete_when_deleted && !pod_owns;
    let is_plain_owner = |owner: &OwnerReference| {
        let mut references = claim.owner_references.iter();
        references.any(|r| r.uid == owner.uid && !r.is_controller())
    };
    let is_current = owned_by(&set_reference) == set_owns
        && owned_by(&pod_reference) == pod_owns
        && !is_plain_owner(&set_reference)
        && !is_plain_owner(&pod_reference);
    (!is_current).then(|| NewOwners {
        references: others()
            .chain(set_owns.then_some(set_reference.clone()))
            .chain(pod_owns.then_some(pod_reference.clone()))
            .collect(),
        is_conflicting,
    })
}

fn pod_reference(pod: &PodOwner) -> OwnerReference {
    let meta = Meta {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        ..Meta::default()
    };
    let resource = &resources::PODS;
    ownership::controller_reference(&resource.api_version(), &resource.kind, &meta)
}

/// Whether two references are to objects of one kind and name.
fn refers_to(reference: &OwnerReference, owner: &OwnerReference) -> bool {
    reference.api_version == owner.api_version
        && reference.kind == owner.kind
        && reference.name == owner.name
}

/// Whether the first reference to an object of this kind and name has another uid.
fn has_stale_reference(claim: &Meta, owner: &OwnerReference) -> bool {
    let mut references = claim.owner_references.iter();
    references
        .find(|reference| refers_to(reference, owner))
        .is_some_and(|reference| reference.uid != owner.uid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(scaled: &str, deleted: &str) -> StatefulSet {
        serde_json::from_value(
            json!({"metadata": {"name": "web", "namespace": "a", "uid": "s"},
            "spec": {"replicas": 2, "persistentVolumeClaimRetentionPolicy":
                {"whenScaled": scaled, "whenDeleted": deleted}}}),
        )
        .unwrap()
    }

    fn owner(text: &str) -> OwnerReference {
        let (kind, uid) = text.split_once(' ').unwrap();
        let (api_version, kind, name, controller) = match kind {
            "set" => ("apps/v1", "StatefulSet", "web", true),
            "plain-set" => ("apps/v1", "StatefulSet", "web", false),
            "pod" => ("v1", "Pod", "web-0", true),
            "pod-5" => ("v1", "Pod", "web-5", true),
            "other" => ("v1", "Other", "o", true),
            _ => ("v1", "Other", "o", false),
        };
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: uid.into(),
            controller: Some(controller),
            block_owner_deletion: Some(true),
        }
    }

    fn decide(policy: (&str, &str), ordinal: i32, owners: &[&str]) -> String {
        let set = set(policy.0, policy.1);
        let pod = PodOwner {
            name: identity::pod_name(&set, ordinal),
            uid: "p".into(),
            ordinal,
        };
        let claim = Meta {
            owner_references: owners.iter().map(|text| owner(text)).collect(),
            ..Meta::default()
        };
        match new_owners(&set, &pod, &claim) {
            None => "leave".to_owned(),
            Some(new) => {
                let uids: Vec<_> = new.references.iter().map(|r| r.uid.as_str()).collect();
                format!(
                    "[{}]{}",
                    uids.join(" "),
                    ["", "!"][usize::from(new.is_conflicting)]
                )
            }
        }
    }

    #[test]
    fn owners_follow_the_policy() {
        const RETAIN: (&str, &str) = ("Retain", "Retain");
        const DELETED: (&str, &str) = ("Retain", "Delete");
        const SCALED: (&str, &str) = ("Delete", "Retain");
        const BOTH: (&str, &str) = ("Delete", "Delete");
        for (policy, ordinal, owners, want) in [
            (RETAIN, 0, &[][..], "leave"),
            (RETAIN, 0, &["set s"], "[]"),
            (RETAIN, 5, &["pod-5 p", "x o"], "[o]"),
            (RETAIN, 0, &["other o"], "leave"),
            (DELETED, 0, &[], "[s]"),
            (DELETED, 0, &["set s"], "leave"),
            (DELETED, 0, &["plain-set s"], "[s]"),
            (DELETED, 5, &["set s"], "leave"),
            (SCALED, 0, &[], "leave"),
            (SCALED, 0, &["set s"], "[]"),
            (SCALED, 5, &[], "[p]"),
            (SCALED, 0, &["pod p"], "[]"),
            (BOTH, 0, &[], "[s]"),
            (BOTH, 5, &["set s"], "[p]"),
            (BOTH, 5, &["pod-5 p"], "leave"),
            // another controller
            (BOTH, 0, &["other o"], "leave"),
            (BOTH, 0, &["other o", "set s"], "[o]!"),
            // of an earlier set, or an earlier pod
            (BOTH, 0, &["set old"], "leave"),
            (BOTH, 0, &["pod old"], "leave"),
            (RETAIN, 0, &["set old"], "leave"),
        ] {
            assert_eq!(
                decide(policy, ordinal, owners),
                want,
                "{policy:?} {ordinal} {owners:?}"
            );
        }
    }

    #[test]
    fn claim_of_an_earlier_pod_is_stale_only_when_scaling_deletes() {
        let claim = Meta {
            owner_references: vec![owner("pod old")],
            ..Meta::default()
        };
        let stale = |scaled: &str| {
            let set = set(scaled, "Retain");
            is_stale(&set, &PodOwner::absent(&set, 0), &claim)
        };
        assert!(stale("Delete"));
        assert!(!stale("Retain"));
    }
}
