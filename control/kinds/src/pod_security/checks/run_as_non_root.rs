//! Containers must not run as root; since 1.35 pods with user namespaces may (KEP-127).

use super::{Check, Pod, Revision, Violation, containers, setters, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "runAsNonRoot",
    revisions: &[
        Revision::since(0, check),
        Revision::since(35, of_host_users),
    ],
};

const REASON: &str = "runAsNonRoot != true";

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let set = |holder: &crate::Value| holder.at("securityContext").truth("runAsNonRoot");
    let of_pod = set(pod.spec);
    let (mut explicit, mut implicit) = (Vec::new(), Vec::new());
    for container in pod.containers() {
        match set(container) {
            Some(false) => explicit.push(container.text("name")),
            None if of_pod != Some(true) => implicit.push(container.text("name")),
            _ => {}
        }
    }
    if let Some(setters) = setters(of_pod == Some(false), &explicit) {
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return violation(REASON, detail);
    }
    if implicit.is_empty() {
        return None;
    }
    violation(
        REASON,
        format!(
            "pod or {} must set securityContext.runAsNonRoot=true",
            containers(&implicit)
        ),
    )
}

fn of_host_users(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        None
    } else {
        check(pod)
    }
}
