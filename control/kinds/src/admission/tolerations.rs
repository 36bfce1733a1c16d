//! `DefaultTolerationSeconds`: a pod outlives five minutes of a silent node.

use control_types::value;
use control_types::value::Value;

use crate::tree::{Read, Write};

/// How long a pod stays on a node that is not ready or not reachable.
const SECONDS: i64 = 300;

/// Adds the two tolerations, unless the pod says itself how it bears these taints.
pub fn default_tolerations(pod: &mut Value) {
    let spec = pod.make("spec");
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
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
            "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS
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
        default_tolerations(&mut pod);
        default_tolerations(&mut pod);
        assert_eq!(pod.items_at(&["spec", "tolerations"]).len(), 2);
    }

    #[test]
    fn a_toleration_of_everything_is_enough() {
        let mut pod = value!({"spec": {"tolerations": [{"operator": "Exists"}]}});
        default_tolerations(&mut pod);
        assert_eq!(pod.items_at(&["spec", "tolerations"]).len(), 1);
        let mut pod = value!({"spec": {"tolerations": [
            {"operator": "Exists", "effect": "NoSchedule"}
        ]}});
        default_tolerations(&mut pod);
        assert_eq!(pod.items_at(&["spec", "tolerations"]).len(), 3);
    }
}
