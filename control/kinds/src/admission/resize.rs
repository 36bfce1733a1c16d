//! `PodResizeValidator` and `NodeDeclaredFeatureValidator`: a pod is resized in place
//! only if its node supports that.

use control_types::quantity::Quantity;
use control_types::status::quote;
use control_types::value::Value;

use super::refusal::Refusal;
use crate::quota;
use crate::tree::{Read, same};

/// The reason of a rejected resize.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ResizeRefusal {
    /// The machine-readable cause.
    pub cause: &'static str,
    /// The message.
    pub why: Refusal,
}

/// Checks that a resized pod still fits its node.
///
/// # Errors
/// When the node cannot resize pods, or lacks the requested resources.
pub fn check_resize(pod: &Value, node: &Value) -> Result<(), ResizeRefusal> {
    let meta = node.at("metadata");
    let system = meta.at("labels").text("kubernetes.io/os");
    if !matches!(system, "" | "linux") {
        let (name, system) = (quote(meta.text("name")), quote(system));
        let why = format!("pod resize is only supported on linux nodes, node {name} is {system}");
        return Err(ResizeRefusal {
            cause: "UnsupportedPlatform",
            why: why.into(),
        });
    }
    let asked = quota::requests_of(pod);
    let mut missing = Vec::new();
    for (resource, milli) in [("cpu", true), ("memory", false)] {
        let read = |list: &Value| {
            Quantity::parse(list.text(resource)).unwrap_or_else(|_| Quantity::from_milli(0))
        };
        let wanted = read(&asked);
        let there = read(node.at("status").at("allocatable"));
        if wanted > there {
            let shown = |amount: &Quantity| {
                if milli {
                    amount.milli_value()
                } else {
                    amount.value()
                }
            };
            missing.push(format!(
                "{resource}, requested: {}, allocatable: {}",
                shown(&wanted),
                shown(&there)
            ));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join("; ");
    let why = format!("node didn't have enough allocatable resources: {missing}");
    Err(ResizeRefusal {
        cause: "NodeCapacity",
        why: why.into(),
    })
}

/// Returns the features that a node must declare for an update of one of its pods.
#[must_use]
pub fn features_for_update(new: &Value, old: &Value) -> Vec<&'static str> {
    let mut features = Vec::new();
    let (spec, before) = (new.at("spec"), old.at("spec"));
    if !same(spec.at("resources"), before.at("resources")) {
        features.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let containers = spec
        .items("initContainers")
        .iter()
        .zip(before.items("initContainers"));
    for (now, then) in containers {
        if then.text("restartPolicy") != "Always"
            && !same(now.at("resources"), then.at("resources"))
        {
            features.push("InPlacePodVerticalScalingInitContainers");
            break;
        }
    }
    features
}

/// Checks that a node declares the features that an update needs.
///
/// # Errors
/// Names the missing features.
pub fn check_features(features: &[&str], node: &Value) -> Result<(), Refusal> {
    let declared = node.at("status").items("declaredFeatures");
    let missing: Vec<&str> = features
        .iter()
        .filter(|feature| !declared.iter().any(|own| own.as_text() == **feature))
        .copied()
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "pod update requires features {} which are not available on node {}",
        missing.join(", "),
        quote(node.at("metadata").text("name"))
    )
    .into())
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn pod(cpu: &str) -> Value {
        value!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}})
    }

    #[test]
    fn a_pod_grows_as_far_as_its_node_reaches() {
        let node = |os: &str| {
            value!({
                "metadata": {"name": "n", "labels": {"kubernetes.io/os": os}},
                "status": {"allocatable": {"cpu": "2", "memory": "2Gi"}}
            })
        };
        assert_eq!(check_resize(&pod("2"), &node("linux")), Ok(()));
        assert_eq!(
            check_resize(&pod("2500m"), &node("linux")),
            Err(ResizeRefusal {
                cause: "NodeCapacity",
                why: "node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000".into(),
            })
        );
        let refusal = check_resize(&pod("1"), &node("windows")).expect_err("windows");
        assert_eq!(
            (refusal.cause, refusal.why.as_ref()),
            (
                "UnsupportedPlatform",
                r#"pod resize is only supported on linux nodes, node "n" is "windows""#
            )
        );
    }

    #[test]
    fn what_a_node_must_declare_it_must_declare() {
        let old = value!({"spec": {"initContainers": [{"name": "i", "resources": {}}]}});
        let new = value!({"spec": {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}]}});
        let features = features_for_update(&new, &old);
        assert_eq!(features, ["InPlacePodVerticalScalingInitContainers"]);
        assert!(features_for_update(&old, &old).is_empty());
        let node = value!({"metadata": {"name": "n"}, "status": {"declaredFeatures": []}});
        assert_eq!(
            check_features(&features, &node),
            Err(r#"pod update requires features InPlacePodVerticalScalingInitContainers which are not available on node "n""#.into())
        );
        let node =
            value!({"status": {"declaredFeatures": ["InPlacePodVerticalScalingInitContainers"]}});
        assert_eq!(check_features(&features, &node), Ok(()));
    }
}
