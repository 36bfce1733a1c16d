//! Host paths must not be mounted.

use super::{Check, Pod, Revision, Violation, plural, quoted, violation};
use crate::tree::Read as _;

pub(super) const ID: &str = "hostPathVolumes";

pub(super) const CHECK: Check = Check {
    id: ID,
    revisions: &[Revision::since(0, check)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec.items("volumes").iter();
    let bad: Vec<_> = volumes
        .filter(|volume| volume.has("hostPath"))
        .map(|volume| volume.text("name"))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural(bad.len(), "volume", "volumes");
    violation("hostPath volumes", format!("{word} {}", quoted(bad)))
}
