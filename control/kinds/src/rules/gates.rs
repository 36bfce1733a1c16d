//! Fields behind feature gates that are off by default in 1.36: a new object loses them,
//! and an update keeps only existing ones.

use control_types::value::Value;

use crate::tree::{Read, Write};

/// Drops gated fields from a pod spec, unless `old` uses them.
pub(crate) fn pod_spec(spec: &mut Value, old: Option<&Value>) {
    let sources = |spec: &Value, kind: &str| {
        spec.items("volumes")
            .iter()
            .flat_map(|volume| volume.at("projected").items("sources"))
            .any(|source| source.has(kind))
    };
    // ClusterTrustBundleProjection and PodCertificateRequest
    for kind in ["clusterTrustBundle", "podCertificate"] {
        if sources(spec, kind) && !old.is_some_and(|old| sources(old, kind)) {
            for volume in spec.items_mut("volumes") {
                let Some(projected) = volume.there("projected") else {
                    continue;
                };
                for source in projected.items_mut("sources") {
                    source.drop_field(kind);
                }
            }
        }
    }
    // ContainerStopSignals
    let signals = |spec: &Value| {
        ["initContainers", "containers"]
            .iter()
            .flat_map(|list| spec.items(list))
            .any(|c| c.at("lifecycle").has("stopSignal"))
    };
    if signals(spec) && !old.is_some_and(signals) {
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            for c in spec.items_mut(list) {
                let Some(lifecycle) = c.there("lifecycle") else {
                    continue;
                };
                lifecycle.drop_field("stopSignal");
                if lifecycle
                    .as_object()
                    .is_some_and(control_types::Map::is_empty)
                {
                    c.drop_field("lifecycle");
                }
            }
        }
    }
    // GenericWorkload
    if !old.is_some_and(|old| old.has("schedulingGroup")) {
        spec.drop_field("schedulingGroup");
    }
}

/// The same for the pod spec of a template below `path`.
pub(crate) fn template(object: &mut Value, old: Option<&Value>, path: &[&str]) {
    let then = old.map(|old| old.dig(path).at("spec"));
    let mut at = object;
    for key in path {
        let Some(next) = at.there(key) else { return };
        at = next;
    }
    if let Some(spec) = at.there("spec") {
        pod_spec(spec, then);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Value {
        Value::from_slice(text.as_bytes()).expect("test spec")
    }

    #[test]
    fn what_was_in_use_stays() {
        let given = r#"{"containers":[{"name":"c","lifecycle":{"stopSignal":"SIGUSR1"}}]}"#;
        let mut fresh = spec(given);
        pod_spec(&mut fresh, None);
        assert!(!fresh.items("containers")[0].has("lifecycle"));
        let mut kept = spec(given);
        pod_spec(&mut kept, Some(&spec(given)));
        assert!(kept.items("containers")[0].has("lifecycle"));
    }
}
