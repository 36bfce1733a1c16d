//! No port of the node is taken.

use std::collections::BTreeSet;

use super::{Check, Pod, Revision, Violation, containers, plural, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "hostPorts",
    revisions: &[Revision::since(0, check)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    // Sorted as texts, which is how stock shows them.
    let mut ports = BTreeSet::new();
    let mut bad = Vec::new();
    for container in pod.containers() {
        let taken = container.items("ports").iter();
        let taken: Vec<_> = taken
            .map(|port| port.num("hostPort"))
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
            .collect();
        if !taken.is_empty() {
            bad.push(container.text("name"));
            ports.extend(taken);
        }
    }
    if bad.is_empty() {
        return None;
    }
    let uses = plural(bad.len(), "uses", "use");
    let word = plural(ports.len(), "hostPort", "hostPorts");
    let ports: Vec<_> = ports.into_iter().collect();
    violation(
        "hostPort",
        format!("{} {uses} {word} {}", containers(&bad), ports.join(", ")),
    )
}
