//! `DefaultTolerationSeconds`: a pod outlives some minutes of a silent node.

use control_types::value;
use control_types::value::Value;

use crate::tree::{Read, Write};

/// For how many seconds a pod stays on a node that is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// On one that is not ready (`--default-not-ready-toleration-seconds`).
    pub not_ready: i64,
    /// On one that cannot be reached (`--default-unreachable-toleration-seconds`).
    pub unreachable: i64,
}

impl Default for Stay {
    fn default() -> Self {
        Self {
            not_ready: 300,
            unreachable: 300,
        }
    }
}

/// Adds the two tolerations, unless the pod says itself how it bears these taints.
pub fn default_tolerations(pod: &mut Value, stay: Stay) {
    let spec = pod.make("spec");
    for (key, seconds) in [
        ("node.kubernetes.io/not-ready", stay.not_ready),
        ("node.kubernetes.io/unreachable", stay.unreachable),
    ] {
        let stated = spec.items("tolerations").iter().any(|toleration| {
            (toleration.text("key") == key || toleration.text("key").is_empty())
                && matches!(toleration.text("effect"), "NoExecute" | "")
        });
        if stated {
            continue;
        }
        let mut all = spec.items("tolerations").to_vec();
        all.push(value!({
            "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds
        }));
        spec.put("tolerations", Value::Array(all));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_added_once() {
        let mut pod = value!({"spec": {}});
        default_tolerations(&mut pod, Stay::default());
        default_tolerations(&mut pod, Stay::default());
        assert_eq!(pod.items_at(&["spec", "tolerations"]).len(), 2);
    }

    #[test]
    fn a_toleration_of_everything_is_enough() {
        let mut pod = value!({"spec": {"tolerations": [{"operator": "Exists"}]}});
        default_tolerations(&mut pod, Stay::default());
        assert_eq!(pod.items_at(&["spec", "tolerations"]).len(), 1);
        let mut pod = value!({"spec": {"tolerations": [
            {"operator": "Exists", "effect": "NoSchedule"}
        ]}});
        default_tolerations(&mut pod, Stay::default());
        assert_eq!(pod.items_at(&["spec", "tolerations"]).len(), 3);
    }
}
