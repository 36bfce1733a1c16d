//! Only the capabilities that container runtimes give by default may be added.

use std::collections::BTreeSet;

use super::{Check, Pod, Revision, Violation, containers, quoted, violation};
use crate::tree::Read as _;

pub(super) const ID: &str = "capabilities_baseline";

pub(super) const CHECK: Check = Check {
    id: ID,
    revisions: &[Revision::since(0, check)],
};

const ALLOWED: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let mut added = BTreeSet::new();
    let mut bad = Vec::new();
    for container in pod.containers() {
        let before = bad.len();
        let capabilities = container.dig(&["securityContext", "capabilities"]);
        for capability in capabilities.items("add") {
            let capability = capability.as_text();
            if !ALLOWED.contains(&capability) {
                added.insert(capability);
                if bad.len() == before {
                    bad.push(container.text("name"));
                }
            }
        }
    }
    if bad.is_empty() {
        return None;
    }
    violation(
        "non-default capabilities",
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&bad),
            quoted(added)
        ),
    )
}
