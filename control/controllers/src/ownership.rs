//! Adoption and release of objects by controller reference.
//!
//! A controller claims an object that names it as its controller and matches its
//! selector; it adopts a matching object without controller, and releases an owned one
//! that no longer matches.

use control_client::{Meta, OwnerReference};
use serde_json::{Value, json};

/// Whether a controller keeps, adopts or releases an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptionDecision {
    /// It is its own.
    Keep,
    /// It matches and has no controller: adopt it.
    Adopt,
    /// It is owned but no longer matches: let it go.
    Release,
    /// Not its business.
    Ignore,
}

/// Decides what `owner` does with `object`. `matches` says whether its selector
/// matches the object's labels.
#[must_use]
pub fn claim(owner: &Meta, object: &Meta, matches: bool) -> AdoptionDecision {
    match object.controller() {
        Some(reference) if reference.uid != owner.uid => AdoptionDecision::Ignore,
        Some(_) if matches => AdoptionDecision::Keep,
        Some(_) if owner.is_terminating() => AdoptionDecision::Ignore,
        Some(_) => AdoptionDecision::Release,
        None if owner.is_terminating() || !matches || object.is_terminating() => {
            AdoptionDecision::Ignore
        }
        None if object.namespace != owner.namespace => AdoptionDecision::Ignore,
        None => AdoptionDecision::Adopt,
    }
}

/// The reference that makes `owner` the controller of an object.
#[must_use]
pub fn controller_reference(api_version: &str, kind: &str, owner: &Meta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A merge patch that adds `reference`. It holds only at the revision that was
/// read, since a merge patch replaces the whole list.
#[must_use]
pub fn adopt_patch(object: &Meta, reference: &OwnerReference) -> Value {
    let mut owners: Vec<&OwnerReference> = object
        .owner_references
        .iter()
        .filter(|owner| owner.uid != reference.uid)
        .collect();
    owners.push(reference);
    json!({"metadata": {
        "uid": object.uid,
        "resourceVersion": object.resource_version,
        "ownerReferences": owners,
    }})
}

/// A merge patch that removes the reference to `owner_uid`, and a finalizer
/// with it when one is named.
#[must_use]
pub fn release_patch(object: &Meta, owner_uid: &str, finalizer: Option<&str>) -> Value {
    let owners: Vec<&OwnerReference> = object
        .owner_references
        .iter()
        .filter(|owner| owner.uid != owner_uid)
        .collect();
    let mut patch = json!({"metadata": {
        "uid": object.uid,
        "resourceVersion": object.resource_version,
        "ownerReferences": owners,
    }});
    if let Some(finalizer) = finalizer.filter(|f| object.finalizers.iter().any(|g| g == f)) {
        let left: Vec<_> = object
            .finalizers
            .iter()
            .filter(|f| *f != finalizer)
            .collect();
        patch["metadata"]["finalizers"] = json!(left);
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(value: Value) -> Meta {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn claims_follow_the_table() {
        let owner = meta(json!({"name":"o","namespace":"n","uid":"1"}));
        let dying = meta(
            json!({"name":"o","namespace":"n","uid":"1","deletionTimestamp":"2026-01-01T00:00:00Z"}),
        );
        let controlled_by = |uid: &str| {
            meta(json!({"name":"p","namespace":"n","ownerReferences":[
                {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"o","uid":uid,"controller":true}]}))
        };
        let orphan = meta(json!({"name":"p","namespace":"n"}));
        let dying_orphan =
            meta(json!({"name":"p","namespace":"n","deletionTimestamp":"2026-01-01T00:00:00Z"}));
        let elsewhere = meta(json!({"name":"p","namespace":"m"}));
        for (owner, object, matches, want) in [
            (&owner, &controlled_by("1"), true, AdoptionDecision::Keep),
            (
                &owner,
                &controlled_by("1"),
                false,
                AdoptionDecision::Release,
            ),
            (&dying, &controlled_by("1"), false, AdoptionDecision::Ignore),
            (&dying, &controlled_by("1"), true, AdoptionDecision::Keep),
            (&owner, &controlled_by("2"), true, AdoptionDecision::Ignore),
            (&owner, &orphan, true, AdoptionDecision::Adopt),
            (&owner, &orphan, false, AdoptionDecision::Ignore),
            (&dying, &orphan, true, AdoptionDecision::Ignore),
            (&owner, &dying_orphan, true, AdoptionDecision::Ignore),
            (&owner, &elsewhere, true, AdoptionDecision::Ignore),
        ] {
            assert_eq!(claim(owner, object, matches), want, "{object:?}");
        }
    }

    #[test]
    fn patches_keep_other_owners() {
        let object = meta(
            json!({"name":"p","uid":"u","resourceVersion":"7","ownerReferences":[
            {"apiVersion":"v1","kind":"X","name":"x","uid":"9"},
            {"apiVersion":"v1","kind":"Y","name":"y","uid":"8",
                "controller":false,"blockOwnerDeletion":false},
            {"apiVersion":"v1","kind":"Z","name":"z","uid":"7","controller":null}]}),
        );
        let owner = meta(json!({"name":"o","uid":"1"}));
        let adopt = adopt_patch(
            &object,
            &controller_reference("apps/v1", "ReplicaSet", &owner),
        );
        let others = [
            json!({"apiVersion":"v1","kind":"Y","name":"y","uid":"8",
                "controller":false,"blockOwnerDeletion":false}),
            json!({"apiVersion":"v1","kind":"Z","name":"z","uid":"7"}),
        ];
        assert_eq!(
            adopt["metadata"]["ownerReferences"],
            json!([
                {"apiVersion":"v1","kind":"X","name":"x","uid":"9"},
                others[0],
                others[1],
                {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"o","uid":"1",
                    "controller":true,"blockOwnerDeletion":true},
            ])
        );
        assert_eq!(adopt["metadata"]["resourceVersion"], "7");
        let release = release_patch(&object, "9", None);
        assert_eq!(release["metadata"]["ownerReferences"], json!(others));
    }
}
