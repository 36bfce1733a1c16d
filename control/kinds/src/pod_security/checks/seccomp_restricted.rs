//! Seccomp must be enabled explicitly.

use std::collections::BTreeSet;

use super::{
    Check, Pod, Revision, Violation, containers, quoted, seccomp_baseline, setters, violation,
};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "seccompProfile_restricted",
    revisions: &[
        Revision::since(19, check).replacing(seccomp_baseline::ID),
        Revision::since(25, not_windows).replacing(seccomp_baseline::ID),
    ],
};

const REASON: &str = "seccompProfile";

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let kind = |holder: &crate::Value| {
        let context = holder.at("securityContext");
        let profile = context.at("seccompProfile");
        let given = context.has("seccompProfile");
        given.then(|| profile.text("type").to_owned())
    };
    let mut kinds = BTreeSet::new();
    let of_pod = kind(pod.spec);
    let pod_is_right = of_pod.as_deref().is_some_and(seccomp_baseline::is_allowed);
    let pod_is_wrong = of_pod.is_some() && !pod_is_right;
    if pod_is_wrong {
        kinds.extend(of_pod);
    }
    let (mut explicit, mut implicit) = (Vec::new(), Vec::new());
    for container in pod.containers() {
        match kind(container) {
            Some(kind) if !seccomp_baseline::is_allowed(&kind) => {
                explicit.push(container.text("name"));
                kinds.insert(kind);
            }
            None if !pod_is_right => implicit.push(container.text("name")),
            _ => {}
        }
    }
    if let Some(setters) = setters(pod_is_wrong, &explicit) {
        return violation(
            REASON,
            format!(
                "{setters} must not set securityContext.seccompProfile.type to {}",
                quoted(&kinds)
            ),
        );
    }
    if implicit.is_empty() {
        return None;
    }
    violation(
        REASON,
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&implicit)
        ),
    )
}

/// Windows does not know seccomp; validation refuses it there.
fn not_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
