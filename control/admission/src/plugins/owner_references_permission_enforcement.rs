//! `OwnerReferencesPermissionEnforcement`: who gives a thing an owner could as well
//! delete it; who lets it block the owner's deletion may change the owner's
//! finalizers.

use control_access::Attributes as AccessAttributes;
use control_types::status::Status;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct OwnerReferencesPermissionEnforcement;

impl Admission for OwnerReferencesPermissionEnforcement {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        done(check(attributes, change))
    }
}

/// Looks at the owners of what is written.
fn check(attributes: &Attributes<'_>, change: Change<'_>) -> Result<(), Status> {
    let (context, cluster) = (attributes.context, attributes.cluster);
    let resource = attributes.served.resource;
    if attributes.is_for("", "pods") && attributes.subresource == "status" {
        return Ok(());
    }
    let new = owners(change.new);
    let old = change.old.map(owners).unwrap_or_default();
    if new == old {
        return Ok(());
    }
    let refused = |why: &str| Err(attributes.refuse(change.new, why));
    let base = AccessAttributes {
        user: context.user.clone(),
        is_resource_request: true,
        ..AccessAttributes::default()
    };
    if change.old.is_some() {
        let delete = AccessAttributes {
            verb: "delete".into(),
            group: resource.group.into(),
            version: resource.version.into(),
            resource: resource.plural.into(),
            subresource: attributes.subresource.into(),
            namespace: context.info.namespace.clone(),
            name: context.info.name.clone(),
            ..base.clone()
        };
        if let Some(reason) = cluster.denial(&delete) {
            return refused(&format!(
                "cannot set an ownerRef on a resource you can't delete: {reason}, <nil>"
            ));
        }
    }
    let blocking: Vec<&Value> = new_blocking(new, old).collect();
    if blocking.is_empty() {
        return Ok(());
    }
    let finalize = AccessAttributes {
        verb: "update".into(),
        subresource: "finalizers".into(),
        ..base
    };
    let anything = AccessAttributes {
        group: "*".into(),
        version: "*".into(),
        resource: "*".into(),
        name: "*".into(),
        ..finalize.clone()
    };
    if cluster.denial(&anything).is_none() {
        return Ok(());
    }
    for owner in blocking {
        let text = |field: &str| owner.str_at(&[field]).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let Some(of) = cluster.resource_of_kind(group, version, kind) else {
            return refused(&format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind {kind}: no matches for kind {kind:?} in version {api_version:?}"
            ));
        };
        let namespace = if of.resource.namespaced {
            context.info.namespace.clone()
        } else {
            Default::default()
        };
        let finalize = AccessAttributes {
            group: of.resource.group.into(),
            version: of.resource.version.into(),
            resource: of.resource.plural.into(),
            name: text("name").into(),
            namespace,
            ..finalize.clone()
        };
        if let Some(reason) = cluster.denial(&finalize) {
            return refused(&format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {reason}, <nil>"
            ));
        }
    }
    Ok(())
}

fn owners(object: &Value) -> &[Value] {
    object.items_at(&["metadata", "ownerReferences"])
}

/// The owners that a thing blocks and did not block before.
fn new_blocking<'a>(new: &'a [Value], old: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    let blocks = |owner: &Value| owner.bool_at(&["blockOwnerDeletion"]) == Some(true);
    new.iter().filter(move |owner| {
        let before = old
            .iter()
            .rfind(|other| other.get("uid") == owner.get("uid"));
        blocks(owner) && !before.is_some_and(blocks)
    })
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn only_what_begins_to_block_is_asked_about() {
        let owner = |uid: &str, blocks: Option<bool>| match blocks {
            Some(blocks) => value!({"uid": (uid), "blockOwnerDeletion": (blocks)}),
            None => value!({"uid": (uid)}),
        };
        let old = [
            owner("a", Some(true)),
            owner("b", None),
            owner("c", Some(false)),
        ];
        let new = [
            owner("a", Some(true)),
            owner("b", Some(true)),
            owner("c", Some(true)),
            owner("d", None),
        ];
        let found: Vec<_> = new_blocking(&new, &old)
            .filter_map(|one| one.str_at(&["uid"]))
            .collect();
        assert_eq!(found, ["b", "c"]);
        assert_eq!(new_blocking(&new, &[]).count(), 3);
    }
}
