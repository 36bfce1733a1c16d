//! `LimitPodHardAntiAffinityTopology`: who must not be beside others may keep them
//! from nodes, but not from zones.

use control_types::value::Value;

use super::refusal::Refusal;
use crate::tree::Read;

const HOST: &str = "kubernetes.io/hostname";

/// Refuses required anti-affinity over more than nodes.
///
/// # Errors
/// The first key that is another.
pub fn check_anti_affinity(pod: &Value) -> Result<(), Refusal> {
    let terms = pod.dig(&["spec", "affinity", "podAntiAffinity"]);
    let terms = terms.items("requiredDuringSchedulingIgnoredDuringExecution");
    match terms
        .iter()
        .map(|term| term.text("topologyKey"))
        .find(|key| *key != HOST)
    {
        None => Ok(()),
        Some(key) => Err(format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOST} is allowed"
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn zones_are_not_to_be_kept_free() {
        let pod = |key: &str| {
            value!({"spec": {"affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": (key)}],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"topologyKey": "zone"}}]
            }}}})
        };
        check_anti_affinity(&pod(HOST)).expect("a node");
        assert_eq!(
            check_anti_affinity(&pod("zone"))
                .expect_err("a zone")
                .as_ref(),
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"
        );
    }
}
