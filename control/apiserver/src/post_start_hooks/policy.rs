//! The roles and bindings that every cluster has, made and mended at start.

use std::time::Duration;

use control_access::bootstrap;
use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, value};
use futures::FutureExt;
use futures::future::join_all;

use super::PostStartHook;
use control_registry::{Registry, own};

/// Mended at start; in between it is the administrators'.
pub(super) static HOOK: PostStartHook =
    PostStartHook::new("policy", Duration::MAX, |context| run(context).boxed());

const RBAC: &str = "rbac.authorization.k8s.io";
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Roles and bindings that earlier versions made and that grant too much, by plural and
/// key.
const OBSOLETE: &[(&str, &str)] = &[
    // Let every node read the passwords of all BGP peers.
    ("rolebindings", "kube-system/orlop:bgp-passwords"),
    ("roles", "kube-system/orlop:bgp-passwords"),
];

/// Makes what is missing, removes what is obsolete, and gives roles and bindings back
/// what was taken from them (unless an administrator turned that off for the object by
/// setting the annotation `rbac.authorization.kubernetes.io/autoupdate` to `false`).
async fn run(registry: &Registry) -> Result<(), Status> {
    remove_obsolete(registry).await?;
    // All at once: they share the store's commits.
    let written = bootstrap::objects()
        .into_iter()
        .map(|mut object| async move {
            let plural = match meta::kind(&object) {
                "ClusterRole" => "clusterroles",
                "Role" => "roles",
                "ClusterRoleBinding" => "clusterrolebindings",
                _ => "rolebindings",
            };
            if object.get("aggregationRule").is_some() {
                // A controller gathers these from the roles that are labelled so.
                object.remove("rules");
            }
            own::ensure(registry, (RBAC, plural), own::OWN, object, mend).await
        });
    join_all(written).await.into_iter().collect()
}

async fn remove_obsolete(registry: &Registry) -> Result<(), Status> {
    for (plural, key) in OBSOLETE {
        let served = registry.resource(RBAC, plural)?;
        let Some(present) = served.cache()?.get(key) else {
            continue;
        };
        let present = present.value().map_err(Status::internal)?;
        if meta::annotation(&present, AUTO_UPDATE) != Some("false") {
            own::delete(registry, served, key).await?;
        }
    }
    Ok(())
}

/// Adds the rules, subjects, labels that are missing; never takes any away.
fn mend(stored: &mut Value, wanted: &Value) -> bool {
    if meta::annotation(stored, AUTO_UPDATE) == Some("false") {
        return false;
    }
    let mut changed = false;
    // What aggregated roles grant follows from other roles, which an
    // administrator may have added to.
    for member in ["rules", "subjects"] {
        let missing: Vec<Value> = wanted
            .items_at(&[member])
            .iter()
            .filter(|item| !stored.items_at(&[member]).contains(item))
            .cloned()
            .collect();
        if !missing.is_empty() {
            stored
                .make_object()
                .get_or_insert_with(member, || value!([]))
                .make_array()
                .extend(missing);
            changed = true;
        }
    }
    for (label, text) in meta::labels(wanted) {
        if meta::label(stored, label).is_none() {
            meta::set_label(stored, label, text);
            changed = true;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_from_a_role_comes_back_and_what_was_added_stays() {
        let wanted = value!({ "metadata": { "name": "r" }, "rules": [{ "verbs": ["get"] }, { "verbs": ["list"] }] });
        let mut stored = value!({ "metadata": { "name": "r" }, "rules": [{ "verbs": ["list"] }, { "verbs": ["own"] }] });
        assert!(mend(&mut stored, &wanted));
        assert_eq!(stored.items_at(&["rules"]).len(), 3);
        assert!(!mend(&mut stored, &wanted), "nothing is missing now");
    }

    #[test]
    fn an_administrator_can_turn_mending_off() {
        let wanted = value!({ "rules": [{ "verbs": ["get"] }] });
        let mut stored =
            value!({ "metadata": { "annotations": { AUTO_UPDATE: "false" } }, "rules": [] });
        assert!(!mend(&mut stored, &wanted));
    }
}
