//! No container is a process of a Windows node itself.

use super::{Check, Pod, Revision, Violation, setters, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "windowsHostProcess",
    revisions: &[Revision::since(0, check)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad = |holder: &crate::Value| {
        let options = holder.dig(&["securityContext", "windowsOptions"]);
        options.flag("hostProcess")
    };
    let bad: Vec<_> = pod
        .containers()
        .filter(|container| is_bad(container))
        .map(|container| container.text("name"))
        .collect();
    let setters = setters(is_bad(pod.spec), &bad)?;
    violation(
        "hostProcess",
        format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}
