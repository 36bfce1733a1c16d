//! All capabilities are dropped; binding to low ports may be added.

use std::collections::BTreeSet;

use super::{
    Check, Pod, Revision, Violation, capabilities_baseline, containers, quoted, violation,
};
use crate::tree::Read;

pub(super) const CHECK: Check = Check {
    id: "capabilities_restricted",
    revisions: &[
        Revision::since(22, check).replacing(capabilities_baseline::ID),
        Revision::since(25, not_windows).replacing(capabilities_baseline::ID),
    ],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let (mut keeping, mut adding) = (Vec::new(), Vec::new());
    let mut added = BTreeSet::new();
    for container in pod.containers() {
        let capabilities = container.dig(&["securityContext", "capabilities"]);
        let drops = capabilities.items("drop");
        if !drops.iter().any(|capability| capability.as_text() == "ALL") {
            keeping.push(container.text("name"));
        }
        let adds = capabilities.items("add").iter().map(Read::as_text);
        let wrong: Vec<_> = adds.filter(|add| *add != "NET_BIND_SERVICE").collect();
        if !wrong.is_empty() {
            adding.push(container.text("name"));
            added.extend(wrong);
        }
    }
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            containers(&keeping)
        ));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            quoted(added)
        ));
    }
    if details.is_empty() {
        return None;
    }
    violation("unrestricted capabilities", details.join("; "))
}

/// Windows does not know capabilities; validation refuses them there.
fn not_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
