//! Decides the next steps for a pod with claims to devices, and for such a claim.

use crate::views::{Consumer, Pod, PodResourceClaim, ResourceClaim, Text};

/// Names the entry of the pod's spec that a claim was made for.
pub(super) const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";
/// Keeps a claim while it is allocated.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// How many may use one claim.
const MOST_CONSUMERS: usize = 256;

/// The claim of an entry of a pod's spec.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TemplateClaimName {
    /// The claim has this name; `made_for_pod` says that the pod must be its owner.
    Known { name: Text, made_for_pod: bool },
    /// No claim is needed.
    Unneeded,
    /// The claim was not created from this template yet.
    Missing { template: Text },
}

/// The claim of an entry, as the pod's spec and status have it.
pub(super) fn claim_name(pod: &Pod, entry: &PodResourceClaim) -> Option<TemplateClaimName> {
    if let Some(name) = &entry.resource_claim_name {
        return Some(TemplateClaimName::Known {
            name: name.clone(),
            made_for_pod: false,
        });
    }
    let template = entry.resource_claim_template_name.clone()?;
    let mut statuses = pod.status.resource_claim_statuses.iter();
    Some(match statuses.find(|status| status.name == entry.name) {
        Some(status) => match &status.resource_claim_name {
            Some(name) => TemplateClaimName::Known {
                name: name.clone(),
                made_for_pod: true,
            },
            None => TemplateClaimName::Unneeded,
        },
        None => TemplateClaimName::Missing { template },
    })
}

/// Whether nothing of the pod runs or will run.
pub(super) fn is_done(pod: &Pod) -> bool {
    pod.is_terminal() || (pod.metadata.is_terminating() && pod.spec.node_name.is_empty())
}

/// A claim that the pod owns.
pub(super) struct OwnedClaim {
    pub name: Text,
    /// The entry of the pod's spec that it was created for, if annotated.
    pub entry: Option<Text>,
}

/// One step for a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PodAction {
    /// Makes the claim of an entry from a template.
    Create { entry: Text, template: Text },
    /// Notes the claim of an entry in the pod's status.
    Record { entry: Text, claim: Text },
    /// Reserves a claim for the pod.
    Reserve(Text),
}

/// Returns the next steps for a pod. `claim` finds claims of its namespace by name.
pub(super) fn decide_pod<'a>(
    pod: &Pod,
    owned: &[OwnedClaim],
    claim: impl Fn(&str) -> Option<&'a ResourceClaim>,
) -> Vec<PodAction> {
    let mut actions = Vec::new();
    // A pod that is done has its claims deleted; it must not get others.
    if pod.metadata.is_terminating() || pod.is_terminal() {
        return actions;
    }
    for entry in &pod.spec.resource_claims {
        let Some(template) = &entry.resource_claim_template_name else {
            continue;
        };
        match claim_name(pod, entry) {
            None | Some(TemplateClaimName::Unneeded) => continue,
            Some(TemplateClaimName::Known { name, .. })
                if owned.iter().any(|own| own.name == name) =>
            {
                continue;
            }
            // it was deleted, or belongs to another pod
            _ => {}
        }
        // Kubernetes up to 1.27 gave this name, and no annotation.
        let former = format!("{}-{}", pod.metadata.name, entry.name);
        let orphan = owned.iter().find(|own| match &own.entry {
            Some(of) => *of == entry.name,
            None => own.name == former,
        });
        actions.push(match orphan {
            Some(orphan) => PodAction::Record {
                entry: entry.name.clone(),
                claim: orphan.name.clone(),
            },
            None => PodAction::Create {
                entry: entry.name.clone(),
                template: template.clone(),
            },
        });
    }
    if pod.spec.node_name.is_empty() {
        // the scheduler reserves
        return actions;
    }
    for entry in &pod.spec.resource_claims {
        let Some(TemplateClaimName::Known { name, made_for_pod }) = claim_name(pod, entry) else {
            continue;
        };
        let Some(found) = claim(&name) else { break };
        if made_for_pod && !owned.iter().any(|own| own.name == name) {
            break;
        }
        let reserved = &found.status.reserved_for;
        let has_it = reserved.iter().any(|one| one.uid == pod.metadata.uid);
        if found.status.allocation.is_some() && !has_it && reserved.len() < MOST_CONSUMERS {
            actions.push(PodAction::Reserve(name));
        }
    }
    actions
}

/// The beginning of the name of a claim that is made for a pod. Both parts are cut in
/// proportion where a name of 63 characters would not have room.
pub(super) fn generated_name(pod: &str, entry: &str) -> String {
    const MOST: usize = 57;
    let name = format!("{pod}-{entry}-");
    if name.len() <= MOST {
        return name;
    }
    let cut = |part: &str| {
        part.get(..part.len() * MOST / name.len())
            .unwrap_or(part)
            .to_owned()
    };
    format!("{}-{}", cut(pod), cut(entry))
}

/// One step for a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimAction {
    /// Replaces who may use it; `deallocate` gives its devices back.
    Status {
        reserved_for: Vec<Consumer>,
        deallocate: bool,
    },
    /// Takes the finalizer off.
    RemoveFinalizer,
    /// Deletes it.
    Delete,
}

/// Decides what to do with a claim. `is_gone` says whether a consumer pod is deleted or
/// done; `owner` is the cached pod with the name of the claim's owner, if any.
pub(super) fn decide_claim(
    claim: &ResourceClaim,
    is_gone: impl Fn(&Consumer) -> bool,
    owner: Option<&Pod>,
) -> Vec<ClaimAction> {
    let (meta, status) = (&claim.metadata, &claim.status);
    let mut actions = Vec::new();
    if !status.reserved_for.iter().all(Consumer::is_pod) {
        // A consumer that is no pod comes from a newer version: leave the claim alone.
        return actions;
    }
    let mut valid = status.reserved_for.clone();
    valid.retain(|consumer| !is_gone(consumer));
    let is_unused = valid.is_empty();
    let is_kept = meta.finalizers.iter().any(|name| name == FINALIZER);
    let is_allocated = status.allocation.is_some();
    if valid.len() < status.reserved_for.len() {
        actions.push(ClaimAction::Status {
            reserved_for: valid,
            deallocate: is_unused && is_allocated,
        });
        if is_kept && is_unused {
            actions.push(ClaimAction::RemoveFinalizer);
        }
    } else if is_kept && meta.is_terminating() && is_unused {
        if is_allocated {
            actions.push(ClaimAction::Status {
                reserved_for: valid,
                deallocate: true,
            });
        }
        actions.push(ClaimAction::RemoveFinalizer);
    }
    let owned_by = owning_pod(claim);
    if is_unused
        && !meta.is_terminating()
        && let (Some((_, uid)), Some(pod)) = (owned_by, owner)
        && (pod.metadata.uid != *uid || is_done(pod))
    {
        actions.push(ClaimAction::Delete);
    }
    actions
}

/// Name and identity of the pod that a claim was made for.
pub(super) fn owning_pod(claim: &ResourceClaim) -> Option<(&Text, &Text)> {
    let owner = claim.metadata.controller()?;
    (owner.api_version == "v1" && owner.kind == "Pod").then_some((&owner.name, &owner.uid))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(node: &str, status: Value, deleted: bool) -> Pod {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "1"},
            "spec": {"nodeName": node, "resourceClaims": [
                {"name": "gpu", "resourceClaimTemplateName": "t"},
                {"name": "net", "resourceClaimName": "shared"}]},
            "status": status});
        if deleted {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        serde_json::from_value(pod).unwrap()
    }

    fn claim(reserved: &[&str], allocated: bool, meta: Value) -> ResourceClaim {
        let reserved: Vec<Value> = reserved
            .iter()
            .map(|uid| json!({"resource": "pods", "name": uid, "uid": uid}))
            .collect();
        let allocation = if allocated { json!({}) } else { Value::Null };
        serde_json::from_value(json!({"metadata": meta,
            "status": {"reservedFor": reserved, "allocation": allocation}}))
        .unwrap()
    }

    fn owned(name: &str, entry: Option<&str>) -> OwnedClaim {
        OwnedClaim {
            name: name.into(),
            entry: entry.map(Into::into),
        }
    }

    fn recorded(name: Option<&str>) -> Value {
        json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]})
    }

    #[test]
    fn claim_is_made_from_the_template_once() {
        let create = || PodAction::Create {
            entry: "gpu".into(),
            template: "t".into(),
        };
        let record = |claim: &str| PodAction::Record {
            entry: "gpu".into(),
            claim: claim.into(),
        };
        let decided = |pod: &Pod, owned: &[OwnedClaim]| decide_pod(pod, owned, |_| None);
        let new = pod("", json!({}), false);
        assert_eq!(decided(&new, &[]), [create()]);
        // made, but the pod does not say so yet
        assert_eq!(
            decided(&new, &[owned("p-gpu-x", Some("gpu"))]),
            [record("p-gpu-x")]
        );
        assert_eq!(decided(&new, &[owned("p-gpu", None)]), [record("p-gpu")]);
        assert_eq!(decided(&new, &[owned("p-x", Some("other"))]), [create()]);
        let known = pod("", recorded(Some("p-gpu-x")), false);
        assert_eq!(decided(&known, &[owned("p-gpu-x", Some("gpu"))]), []);
        // deleted, or another pod's
        assert_eq!(decided(&known, &[]), [create()]);
        assert_eq!(decided(&pod("", recorded(None), false), &[]), []);
        assert_eq!(decided(&pod("", json!({}), true), &[]), []);
        let done = pod("a", json!({"phase": "Succeeded"}), false);
        assert_eq!(decided(&done, &[]), []);
    }

    #[test]
    fn allocated_claims_are_reserved_for_a_pod_that_is_on_a_node() {
        let status = recorded(Some("made"));
        let made = [owned("made", Some("gpu"))];
        let (free, mine) = (claim(&[], true, json!({})), claim(&["1"], true, json!({})));
        let idle = claim(&[], false, json!({}));
        let decided = |node: &str, of_gpu: Option<&ResourceClaim>, shared: &ResourceClaim| {
            let pod = pod(node, status.clone(), false);
            let actions = decide_pod(&pod, &made, |name| {
                // lives as long as the closure is called
                let found = if name == "made" { of_gpu } else { Some(shared) };
                found.map(|claim| &*Box::leak(Box::new(claim.clone())))
            });
            actions
                .into_iter()
                .map(|action| match action {
                    PodAction::Reserve(name) => name.to_string(),
                    other => format!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(decided("a", Some(&free), &free), ["made", "shared"]);
        assert_eq!(decided("a", Some(&mine), &free), ["shared"]);
        assert_eq!(decided("a", Some(&idle), &mine), [""; 0]);
        assert_eq!(decided("a", None, &free), [""; 0]);
        assert_eq!(decided("", Some(&free), &free), [""; 0]);
        let full: Vec<String> = (0..256).map(|n| format!("u{n}")).collect();
        let full: Vec<&str> = full.iter().map(String::as_str).collect();
        let full = claim(&full, true, json!({}));
        assert_eq!(decided("a", Some(&mine), &full), [""; 0]);
    }

    #[test]
    fn claim_is_given_back_when_its_last_user_is_gone() {
        let kept = json!({"finalizers": [FINALIZER]});
        let gone = |gone: &'static [&'static str]| {
            move |consumer: &Consumer| gone.contains(&consumer.uid.as_str())
        };
        let status = |left: &[&str], deallocate| ClaimAction::Status {
            reserved_for: claim(left, false, json!({})).status.reserved_for,
            deallocate,
        };
        let both = claim(&["1", "2"], true, kept.clone());
        assert_eq!(decide_claim(&both, gone(&[]), None), []);
        assert_eq!(
            decide_claim(&both, gone(&["1"]), None),
            [status(&["2"], false)]
        );
        assert_eq!(
            decide_claim(&both, gone(&["1", "2"]), None),
            [status(&[], true), ClaimAction::RemoveFinalizer]
        );
        // one that nobody used yet stays allocated, unless it is deleted
        let unused = claim(&[], true, kept);
        assert_eq!(decide_claim(&unused, gone(&[]), None), []);
        let deleted = json!({"finalizers": [FINALIZER],
            "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(
            decide_claim(&claim(&[], true, deleted.clone()), gone(&[]), None),
            [status(&[], true), ClaimAction::RemoveFinalizer]
        );
        assert_eq!(
            decide_claim(&claim(&["1"], true, deleted), gone(&[]), None),
            []
        );
        let mut foreign = both;
        foreign.status.reserved_for[0].resource = "podgroups".into();
        assert_eq!(decide_claim(&foreign, gone(&["1", "2"]), None), []);
    }

    #[test]
    fn claim_of_a_pod_that_is_done_or_replaced_is_deleted() {
        let made = |uid: &str| {
            let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid,
                "controller": true}]);
            claim(&[], false, json!({"ownerReferences": owner}))
        };
        let decided = |claim: &ResourceClaim, pod: Option<&Pod>| decide_claim(claim, |_| true, pod);
        let done = pod("a", json!({"phase": "Succeeded"}), false);
        let runs = pod("a", json!({"phase": "Running"}), true);
        let never_runs = pod("", json!({}), true);
        assert_eq!(decided(&made("1"), Some(&done)), [ClaimAction::Delete]);
        assert_eq!(
            decided(&made("1"), Some(&never_runs)),
            [ClaimAction::Delete]
        );
        assert_eq!(decided(&made("0"), Some(&runs)), [ClaimAction::Delete]);
        assert_eq!(decided(&made("1"), Some(&runs)), []);
        assert_eq!(decided(&made("1"), None), []);
        assert_eq!(decided(&claim(&[], false, json!({})), Some(&done)), []);
    }

    #[test]
    fn generated_names_have_room_for_their_random_part() {
        assert_eq!(generated_name("p", "gpu"), "p-gpu-");
        let (long, short) = ("p".repeat(60), "c".repeat(20));
        // 60 * 57 / 82 and 20 * 57 / 82
        assert_eq!(
            generated_name(&long, &short),
            format!("{}-{}", "p".repeat(41), "c".repeat(13))
        );
    }
}
