//! Only namespaced, safe sysctls may be set.

use super::{Check, Pod, Revision, Violation, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "sysctls",
    revisions: &[
        Revision::since(0, |pod| check(pod, 0)),
        Revision::since(27, |pod| check(pod, 27)),
        Revision::since(29, |pod| check(pod, 29)),
        Revision::since(32, |pod| check(pod, 32)),
    ],
};

/// The allowed sysctls, and the minor version since which each is allowed.
const ALLOWED: &[(&str, u64)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

fn check(pod: &Pod<'_>, minor: u64) -> Option<Violation> {
    let is_allowed = |name: &&str| {
        let same = |(allowed, since): &(&str, u64)| allowed == name && *since <= minor;
        ALLOWED.iter().any(same)
    };
    let context = pod.spec.at("securityContext");
    let bad: Vec<_> = context
        .items("sysctls")
        .iter()
        .map(|sysctl| sysctl.text("name"))
        .filter(|name| !is_allowed(name))
        .collect();
    if bad.is_empty() {
        return None;
    }
    violation("forbidden sysctls", bad.join(", "))
}
