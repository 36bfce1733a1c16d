//! The policy and the few other objects that every cluster has, made and mended
//! at start.

use control_access::bootstrap;
use control_types::meta;
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use futures::future::join_all;

use crate::api::Api;
use crate::server::Error;
use crate::write::Decision;

const RBAC: &str = "rbac.authorization.k8s.io";
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Makes what is missing, and gives roles and bindings back what was taken from
/// them (unless an administrator turned that off for the object by setting the
/// annotation `rbac.authorization.kubernetes.io/autoupdate` to `false`).
///
/// # Errors
/// When an object cannot be written.
pub async fn objects(api: &Api) -> Result<(), Error> {
    // All at once: they share the store's commits.
    let policy = bootstrap::objects().into_iter().map(|object| async move {
        let plural = match meta::kind(&object) {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            "ClusterRoleBinding" => "clusterrolebindings",
            _ => "rolebindings",
        };
        ensure(api, RBAC, plural, object, mend_policy).await
    });
    let classes = priority_classes().map(|object| async move {
        ensure(
            api,
            "scheduling.k8s.io",
            "priorityclasses",
            object,
            |_, _| false,
        )
        .await
    });
    for result in join_all(policy)
        .await
        .into_iter()
        .chain(join_all(classes).await)
    {
        result?;
    }
    Ok(())
}

/// The two classes of pods that the cluster cannot do without.
fn priority_classes() -> impl Iterator<Item = Value> {
    let classes = [
        (
            "system-node-critical",
            2_000_001_000_i64,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ];
    classes.into_iter().map(|(name, level, description)| {
        value!({
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name, "generation": 1},
            "value": level,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority"
        })
    })
}

/// Adds the rules, subjects, labels that are missing; never takes any away.
fn mend_policy(stored: &mut Value, wanted: &Value) -> bool {
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

async fn ensure(
    api: &Api,
    group: &str,
    plural: &str,
    mut object: Value,
    mend: impl Fn(&mut Value, &Value) -> bool,
) -> Result<(), Error> {
    let failed = |object: &Value| {
        let object = meta::name(object).to_owned();
        |source: Status| Error::Bootstrap { object, source }
    };
    let served = api.resource(group, plural).map_err(failed(&object))?;
    crate::managed::made(api, served, &mut object);
    meta::set_uid(&mut object, &uuid::Uuid::new_v4().to_string());
    meta::set_creation_timestamp(&mut object, jiff::Timestamp::now());
    let key = served.key(meta::namespace(&object), meta::name(&object));
    let done = api.modify(served, &key, false, None, |current| {
        Ok(match current {
            None => Decision::Put(object.clone()),
            Some(mut current) => {
                if mend(&mut current.object, &object) {
                    Decision::Put(current.object)
                } else {
                    Decision::Keep(current.object)
                }
            }
        })
    });
    done.await.map_err(failed(&object)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_from_a_role_comes_back_and_what_was_added_stays() {
        let wanted = value!({ "metadata": { "name": "r" }, "rules": [{ "verbs": ["get"] }, { "verbs": ["list"] }] });
        let mut stored = value!({ "metadata": { "name": "r" }, "rules": [{ "verbs": ["list"] }, { "verbs": ["own"] }] });
        assert!(mend_policy(&mut stored, &wanted));
        assert_eq!(stored.items_at(&["rules"]).len(), 3);
        assert!(!mend_policy(&mut stored, &wanted), "nothing is missing now");
    }

    #[test]
    fn an_administrator_can_turn_mending_off() {
        let wanted = value!({ "rules": [{ "verbs": ["get"] }] });
        let mut stored =
            value!({ "metadata": { "annotations": { AUTO_UPDATE: "false" } }, "rules": [] });
        assert!(!mend_policy(&mut stored, &wanted));
    }
}
