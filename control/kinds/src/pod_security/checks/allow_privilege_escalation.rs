//! No process may gain more rights than the one that started it.

use super::{Check, Pod, Revision, Violation, containers, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "allowPrivilegeEscalation",
    revisions: &[Revision::since(8, check), Revision::since(25, not_windows)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let field = ["securityContext", "allowPrivilegeEscalation"];
    let bad: Vec<_> = pod
        .containers()
        .filter(|container| container.dig(&field).as_bool() != Some(false))
        .map(|container| container.text("name"))
        .collect();
    if bad.is_empty() {
        return None;
    }
    violation(
        "allowPrivilegeEscalation != false",
        format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            containers(&bad)
        ),
    )
}

/// Windows does not know the field; validation refuses it there.
fn not_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
