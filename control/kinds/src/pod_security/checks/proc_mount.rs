//! `/proc` stays masked; since 1.35 `baseline` lets pods with users of their own do
//! as they like (KEP-4265).

use std::collections::BTreeSet;

use super::{Check, Pod, Revision, Violation, containers, quoted, violation};
use crate::tree::Read as _;

const ID: &str = "procMount";

pub(super) const BASELINE: Check = Check {
    id: ID,
    revisions: &[
        Revision::since(0, check),
        Revision::since(35, of_host_users),
    ],
};

pub(super) const RESTRICTED: Check = Check {
    id: "procMount_restricted",
    revisions: &[Revision::since(35, check).replacing(ID)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let (mut bad, mut kinds) = (Vec::new(), BTreeSet::new());
    for container in pod.containers() {
        let context = container.at("securityContext");
        let kind = context.text("procMount");
        if context.has("procMount") && kind != "Default" {
            bad.push(container.text("name"));
            kinds.insert(kind);
        }
    }
    if bad.is_empty() {
        return None;
    }
    violation(
        "procMount",
        format!(
            "{} must not set securityContext.procMount to {}",
            containers(&bad),
            quoted(kinds)
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
