//! The identity of a StatefulSet's pod: its ordinal, its names, its claims.

use control_client::{Meta, OwnerReference};
use serde_json::{Value, json};

use crate::history::POD_REVISION_LABEL;
use crate::views::{Pod, StatefulSet, Text};
use crate::work;

/// The label of a pod with its own name.
pub(super) const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label of a pod with its ordinal.
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The StatefulSet's name and the ordinal that the name of a pod consists of; no ordinal
/// when it is too large.
pub(super) fn parse(name: &str) -> Option<(&str, Option<i32>)> {
    let (parent, digits) = name.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| (parent, digits.parse().ok()))
}

/// The ordinal of a pod.
pub(super) fn ordinal(pod: &Pod) -> Option<i32> {
    parse(&pod.metadata.name)?.1
}

/// Whether the name of a pod is one of this StatefulSet's.
pub(super) fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    parse(&pod.metadata.name).is_some_and(|(parent, _)| parent == set.metadata.name)
}

/// The name of the pod of an ordinal.
pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> Text {
    Text::from(format!("{}-{ordinal}", set.metadata.name))
}

/// Whether a pod has the name and the label of its ordinal.
pub(super) fn identity_matches(set: &StatefulSet, pod: &Pod) -> bool {
    let name = &pod.metadata.name;
    ordinal(pod).is_some_and(|ordinal| pod_name(set, ordinal) == *name)
        && pod.metadata.labels.get(POD_NAME_LABEL) == Some(name)
}

/// Whether a pod mounts all its claims.
pub(super) fn storage_matches(set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(pod) else {
        return false;
    };
    set.spec.volume_claim_templates.iter().all(|template| {
        let name = template_name(template);
        let wanted = claim_name(template, set, ordinal);
        pod.spec.volumes.iter().rev().any(|volume| {
            volume.name == name
                && volume
                    .persistent_volume_claim
                    .as_ref()
                    .is_some_and(|claim| claim.claim_name == wanted)
        })
    })
}

/// The name of a claim template, which is that of the volume.
pub(super) fn template_name(template: &Value) -> &str {
    let name = template.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// The name of the claim of an ordinal.
pub(super) fn claim_name(template: &Value, set: &StatefulSet, ordinal: i32) -> Text {
    let (template, set) = (template_name(template), &set.metadata.name);
    Text::from(format!("{template}-{set}-{ordinal}"))
}

/// The names of StatefulSets that a claim could be of, by its own name.
pub(super) fn sets_of_claim(claim: &str) -> impl Iterator<Item = &str> {
    let base = parse(claim).map_or("", |(base, _)| base);
    base.match_indices('-')
        .filter_map(move |(at, _)| base.get(at + 1..))
}

/// The body of the claim of an ordinal.
pub(super) fn claim_body(set: &StatefulSet, template: &Value, ordinal: i32) -> Value {
    let mut claim = template.clone();
    claim["apiVersion"] = "v1".into();
    claim["kind"] = "PersistentVolumeClaim".into();
    claim["metadata"]["name"] = claim_name(template, set, ordinal).as_str().into();
    claim["metadata"]["namespace"] = set.metadata.namespace.as_str().into();
    for (key, value) in &set.spec.selector.match_labels {
        claim["metadata"]["labels"][key.as_str()] = value.as_str().into();
    }
    claim
}

/// The body of the pod of an ordinal, from the template of a revision.
pub(super) fn pod_body(
    set: &StatefulSet,
    owner: &OwnerReference,
    template: &Value,
    (ordinal, revision): (i32, &str),
) -> Value {
    let name = pod_name(set, ordinal);
    let mut pod = work::pod_from_template(template, &set.metadata, owner);
    pod["metadata"]["name"] = name.as_str().into();
    set_identity(&mut pod, &name, ordinal);
    pod["metadata"]["labels"][POD_REVISION_LABEL] = revision.into();
    pod["spec"]["hostname"] = name.as_str().into();
    pod["spec"]["subdomain"] = set.spec.service_name.as_str().into();
    set_storage(&mut pod, set, ordinal);
    pod
}

/// Labels a pod with its name and ordinal.
pub(super) fn set_identity(pod: &mut Value, name: &str, ordinal: i32) {
    pod["metadata"]["labels"][POD_NAME_LABEL] = name.into();
    pod["metadata"]["labels"][POD_INDEX_LABEL] = ordinal.to_string().into();
}

/// Puts the claims among a pod's volumes, before and instead of others of their names.
pub(super) fn set_storage(pod: &mut Value, set: &StatefulSet, ordinal: i32) {
    let templates = &set.spec.volume_claim_templates;
    if templates.is_empty() {
        return;
    }
    let others = pod["spec"]["volumes"].take();
    let mut volumes: Vec<Value> = templates
        .iter()
        .map(|template| {
            json!({"name": template_name(template), "persistentVolumeClaim":
                {"claimName": claim_name(template, set, ordinal)}})
        })
        .collect();
    let is_claimed = |volume: &&Value| {
        let name = volume.get("name").and_then(Value::as_str);
        templates.iter().any(|t| Some(template_name(t)) == name)
    };
    let kept = others.as_array().into_iter().flatten();
    volumes.extend(kept.filter(|volume| !is_claimed(volume)).cloned());
    pod["spec"]["volumes"] = volumes.into();
}

/// Whether an ordinal is among those that the StatefulSet has now.
pub(super) fn in_range(set: &StatefulSet, ordinal: i32) -> bool {
    let start = i64::from(set.spec.ordinals.start);
    let end = start + i64::from(replicas(set));
    (start..end).contains(&i64::from(ordinal))
}

/// Wanted pods.
pub(super) fn replicas(set: &StatefulSet) -> i32 {
    set.spec.replicas.unwrap_or(1).max(0)
}

/// A pod as an owner of claims; it has no uid if it does not exist yet.
#[derive(Debug, Clone)]
pub(super) struct PodOwner {
    pub(super) name: Text,
    pub(super) uid: Text,
    pub(super) ordinal: i32,
}

impl PodOwner {
    pub(super) fn from_meta(meta: &Meta, ordinal: i32) -> Self {
        Self {
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            ordinal,
        }
    }

    pub(super) fn absent(set: &StatefulSet, ordinal: i32) -> Self {
        Self {
            name: pod_name(set, ordinal),
            uid: Text::default(),
            ordinal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects that kube-controller-manager 1.36 made.
    fn recorded() -> Value {
        serde_json::from_str(include_str!("../history/kube_controller_manager.json")).unwrap()
    }

    fn set(recorded: &Value, name: &str) -> StatefulSet {
        let sets = recorded["sets"].as_array().unwrap();
        let found = sets
            .iter()
            .find(|set| set["kind"] == "StatefulSet" && set["object"]["metadata"]["name"] == name);
        serde_json::from_value(found.unwrap()["object"].clone()).unwrap()
    }

    #[test]
    fn pods_equal_those_of_kube_controller_manager() {
        let recorded = recorded();
        let mut compared = 0;
        for pod in recorded["pods"].as_array().unwrap() {
            if pod["owner"] != "StatefulSet" {
                continue;
            }
            let name = pod["name"].as_str().unwrap();
            let (parent, ordinal) = parse(name).unwrap();
            let set = set(&recorded, parent);
            let revision = pod["labels"][POD_REVISION_LABEL].as_str().unwrap();
            let template = set.spec.template.to_value();
            let owner = OwnerReference::default();
            let made = pod_body(&set, &owner, &template, (ordinal.unwrap(), revision));
            assert_eq!(made["metadata"]["name"], name);
            assert_eq!(made["metadata"]["generateName"], pod["generateName"]);
            assert_eq!(made["metadata"]["labels"], pod["labels"]);
            assert_eq!(made["spec"]["hostname"], pod["hostname"]);
            assert_eq!(made["spec"]["subdomain"], pod["subdomain"]);
            if pod.get("volumes").is_some() {
                let volumes = made["spec"]["volumes"].as_array().unwrap();
                assert_eq!(volumes, pod["volumes"].as_array().unwrap());
            }
            compared += 1;
        }
        assert!(compared >= 4, "{compared}");
    }

    #[test]
    fn claims_equal_those_of_kube_controller_manager() {
        let recorded = recorded();
        let set = set(&recorded, "claims");
        for claim in recorded["claims"].as_array().unwrap() {
            let name = claim["name"].as_str().unwrap();
            let ordinal = parse(name).unwrap().1.unwrap();
            let templates = &set.spec.volume_claim_templates;
            let mut made = templates.iter().map(|t| claim_body(&set, t, ordinal));
            let made = made.find(|made| made["metadata"]["name"] == name).unwrap();
            assert_eq!(made["metadata"]["labels"], claim["labels"]);
        }
    }

    #[test]
    fn ordinals_are_read_from_the_end_of_names() {
        assert_eq!(parse("web-0"), Some(("web", Some(0))));
        assert_eq!(parse("a-1-12"), Some(("a-1", Some(12))));
        assert_eq!(parse("web-99999999999"), Some(("web", None)));
        for name in ["web", "web-", "web-x", "web-+1"] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn sets_of_a_claim_are_found_by_its_name() {
        let sets: Vec<_> = sets_of_claim("data-big-web-10").collect();
        assert_eq!(sets, ["big-web", "web"]);
        assert_eq!(sets_of_claim("data").count(), 0);
    }
}
