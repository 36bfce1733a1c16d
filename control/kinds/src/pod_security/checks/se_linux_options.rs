//! SELinux types must be those of containers; users and roles must not be set.

use std::collections::BTreeSet;

use super::{Check, Pod, Revision, Violation, plural, quoted, setters, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "seLinuxOptions",
    revisions: &[
        Revision::since(0, |pod| check(pod, false)),
        Revision::since(31, |pod| check(pod, true)),
    ],
};

/// `engines`: whether containers may hold container engines.
fn check(pod: &Pod<'_>, engines: bool) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let (mut user, mut role) = (false, false);
    let mut is_bad = |holder: &crate::Value| {
        let options = holder.dig(&["securityContext", "seLinuxOptions"]);
        let kind = options.text("type");
        let wrong_type = match kind {
            "" | "container_t" | "container_init_t" | "container_kvm_t" => false,
            "container_engine_t" => !engines,
            _ => true,
        };
        if wrong_type {
            types.insert(kind.to_owned());
        }
        let (has_user, has_role) = (
            !options.text("user").is_empty(),
            !options.text("role").is_empty(),
        );
        user |= has_user;
        role |= has_role;
        wrong_type || has_user || has_role
    };
    let of_pod = is_bad(pod.spec);
    let bad: Vec<_> = pod
        .containers()
        .filter(|container| is_bad(container))
        .map(|container| container.text("name"))
        .collect();
    let setters = setters(of_pod, &bad)?;
    let mut data = Vec::new();
    if !types.is_empty() {
        let word = plural(types.len(), "type", "types");
        data.push(format!("{word} {}", quoted(&types)));
    }
    if user {
        data.push("user may not be set".to_owned());
    }
    if role {
        data.push("role may not be set".to_owned());
    }
    violation(
        "seLinuxOptions",
        format!(
            "{setters} set forbidden securityContext.seLinuxOptions: {}",
            data.join("; ")
        ),
    )
}
