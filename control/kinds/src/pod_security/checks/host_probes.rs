//! Probes and lifecycle handlers reach no other host than the pod: the node, which
//! asks on their behalf, may reach more than the pod may (KEP-4940).

use std::collections::BTreeSet;

use super::{Check, Pod, Revision, Violation, plural, quoted, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "hostProbesAndHostLifecycle",
    revisions: &[Revision::since(34, check)],
};

const HANDLERS: &[&[&str]] = &[
    &["livenessProbe"],
    &["readinessProbe"],
    &["startupProbe"],
    &["lifecycle", "postStart"],
    &["lifecycle", "preStop"],
];

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let (mut bad, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for container in pod.containers() {
        for handler in HANDLERS {
            for action in ["httpGet", "tcpSocket"] {
                let host = container.dig(handler).at(action).text("host");
                if !host.is_empty() {
                    bad.insert(container.text("name"));
                    hosts.insert(host);
                }
            }
        }
    }
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural(bad.len(), "container", "containers"),
        quoted(&bad),
        plural(bad.len(), "uses", "use"),
        plural(
            hosts.len(),
            "probe or lifecycle host",
            "probe or lifecycle hosts"
        ),
        quoted(&hosts)
    );
    violation("probe or lifecycle host", detail)
}
