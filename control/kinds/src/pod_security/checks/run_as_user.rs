//! Containers must not set user 0; since 1.35 pods with user namespaces may (KEP-127).

use super::{Check, Pod, Revision, Violation, setters, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "runAsUser",
    revisions: &[
        Revision::since(23, check),
        Revision::since(35, of_host_users),
    ],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let is_root = |holder: &crate::Value| holder.at("securityContext").int("runAsUser") == Some(0);
    let bad: Vec<_> = pod
        .containers()
        .filter(|container| is_root(container))
        .map(|container| container.text("name"))
        .collect();
    let setters = setters(is_root(pod.spec), &bad)?;
    violation("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}

fn of_host_users(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        None
    } else {
        check(pod)
    }
}
