//! No container is privileged.

use super::{Check, Pod, Revision, Violation, containers, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "privileged",
    revisions: &[Revision::since(0, check)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let bad: Vec<_> = pod
        .containers()
        .filter(|container| container.at("securityContext").flag("privileged"))
        .map(|container| container.text("name"))
        .collect();
    if bad.is_empty() {
        return None;
    }
    violation(
        "privileged",
        format!(
            "{} must not set securityContext.privileged=true",
            containers(&bad)
        ),
    )
}
