//! Lists and maps for which empty differs from absent. Usually a client's `[]` equals an
//! absent list, since Go omits both; for these, validation reports that they are empty
//! rather than missing, and no default applies.
//!
//! None of them may be empty, so no stored object has one.

/// The paths of such fields in objects of a kind.
#[must_use]
pub fn kept_when_empty(group: &str, kind: &str) -> &'static [&'static [&'static str]] {
    match (group, kind) {
        ("autoscaling", "HorizontalPodAutoscaler") => &[
            &["spec", "behavior", "scaleUp", "policies"],
            &["spec", "behavior", "scaleDown", "policies"],
        ],
        ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") => {
            &[&["spec", "template", "metadata", "labels"]]
        }
        ("", "PersistentVolume") => &[&["spec", "capacity"]],
        ("", "PersistentVolumeClaim") => &[&["spec", "accessModes"]],
        _ => &[],
    }
}
