//! Kinds that no controller of this program acts on yet. Who makes such an object in a
//! cluster that this program runs alone is warned that nothing will come of it.

/// Group, plural and kind of resources whose controllers only stock Kubernetes has.
const UNMANAGED: &[(&str, &str, &str)] = &[
    ("", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("apps", "daemonsets", "DaemonSet"),
    ("apps", "statefulsets", "StatefulSet"),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
    ),
    (
        "resource.k8s.io",
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
    ),
    ("storage.k8s.io", "volumeattachments", "VolumeAttachment"),
];

/// The warning for a new object of a resource, if no controller of this program acts on
/// it.
#[must_use]
pub(crate) fn warning(group: &str, plural: &str) -> Option<String> {
    let known = UNMANAGED
        .iter()
        .find(|(of, name, _)| (*of, *name) == (group, plural))?;
    Some(format!(
        "{} is stored, but no controller of this cluster acts on it yet",
        known.2
    ))
}

#[cfg(test)]
mod tests {
    use control_types::registry;

    use super::*;

    #[test]
    fn each_kind_is_served_under_its_name() {
        for (group, plural, kind) in UNMANAGED {
            let mut rows = registry::resources().iter();
            let row = rows.find(|row| row.group == *group && row.plural == *plural);
            assert_eq!(row.map(|row| row.kind), Some(*kind), "{plural}");
        }
    }

    #[test]
    fn only_what_nothing_acts_on_is_warned_of() {
        assert_eq!(
            warning("apps", "statefulsets").as_deref(),
            Some("StatefulSet is stored, but no controller of this cluster acts on it yet")
        );
        for (group, plural) in [("apps", "deployments"), ("", "pods"), ("a.b", "daemonsets")] {
            assert_eq!(warning(group, plural), None);
        }
    }
}
