//! Lists and maps that say something by being empty. A client's `[]` is otherwise the
//! same as nothing, since Go leaves both out; of these it is told that they are empty,
//! not that they are missing, and nothing is put in their place.
//!
//! None of them may be empty, so that no object that is stored has one.

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
