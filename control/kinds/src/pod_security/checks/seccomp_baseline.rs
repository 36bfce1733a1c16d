//! Seccomp must not be disabled: by annotation until 1.18, by field since.

use std::collections::BTreeSet;

use control_types::status::quote;

use super::{Check, Pod, Revision, Violation, plural, quoted, setters, violation};
use crate::tree::Read as _;

pub(super) const ID: &str = "seccompProfile_baseline";

pub(super) const CHECK: Check = Check {
    id: ID,
    revisions: &[
        Revision::since(0, by_annotation),
        Revision::since(19, by_field),
    ],
};

const OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Whether a profile is one that forbids something.
pub(super) fn is_allowed(kind: &str) -> bool {
    matches!(kind, "RuntimeDefault" | "Localhost")
}

fn by_annotation(pod: &Pod<'_>) -> Option<Violation> {
    let annotations = pod.metadata.at("annotations");
    let mut bad = BTreeSet::new();
    let mut look = |key: &str| {
        if let Some(value) = annotations.get(key) {
            let value = value.as_text();
            let allowed = matches!(value, "runtime/default" | "docker/default")
                || value.starts_with("localhost/");
            if !allowed {
                bad.insert(format!("{key}={}", quote(value)));
            }
        }
    };
    look(OF_POD);
    for container in pod.containers() {
        look(&format!("{OF_CONTAINER}{}", container.text("name")));
    }
    if bad.is_empty() {
        return None;
    }
    let word = plural(bad.len(), "annotation", "annotations");
    let bad: Vec<_> = bad.into_iter().collect();
    violation(
        "seccompProfile",
        format!("forbidden {word} {}", bad.join(", ")),
    )
}

fn by_field(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let mut is_bad = |holder: &crate::Value| {
        let context = holder.at("securityContext");
        let kind = context.at("seccompProfile").text("type");
        let bad = context.has("seccompProfile") && !is_allowed(kind);
        if bad {
            kinds.insert(kind.to_owned());
        }
        bad
    };
    let of_pod = is_bad(pod.spec);
    let bad: Vec<_> = pod
        .containers()
        .filter(|container| is_bad(container))
        .map(|container| container.text("name"))
        .collect();
    let setters = setters(of_pod, &bad)?;
    violation(
        "seccompProfile",
        format!(
            "{setters} must not set securityContext.seccompProfile.type to {}",
            quoted(&kinds)
        ),
    )
}
