//! Network, processes and IPC are the pod's own.

use super::{Check, Pod, Revision, Violation, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "hostNamespaces",
    revisions: &[Revision::since(0, check)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let shared: Vec<_> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| pod.spec.flag(field))
        .map(|field| format!("{field}=true"))
        .collect();
    if shared.is_empty() {
        return None;
    }
    violation("host namespaces", shared.join(", "))
}
