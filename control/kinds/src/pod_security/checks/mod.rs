//! The checks, each with the versions in which it began or changed.

mod allow_privilege_escalation;
mod app_armor_profile;
mod capabilities_baseline;
mod capabilities_restricted;
mod host_namespaces;
mod host_path_volumes;
mod host_ports;
mod host_probes;
mod host_process;
mod privileged;
mod proc_mount;
mod restricted_volumes;
mod run_as_non_root;
mod run_as_user;
mod se_linux_options;
mod seccomp_baseline;
mod seccomp_restricted;
mod sysctls;

use super::{Pod, Violation};

/// A rule about pods.
pub(super) struct Check {
    /// The stock identifier; checks are reported in the order of these.
    pub id: &'static str,
    /// The revisions, oldest first.
    pub revisions: &'static [Revision],
}

/// A rule as it is from a version on.
pub(super) struct Revision {
    /// The first minor version in which it holds.
    pub since: u64,
    /// Returns the violation of a pod, if any.
    pub run: fn(&Pod<'_>) -> Option<Violation>,
    /// The check of the lower level that it replaces.
    pub replaces: Option<&'static str>,
}

/// The checks of `baseline`.
pub(super) const BASELINE: &[Check] = &[
    app_armor_profile::CHECK,
    capabilities_baseline::CHECK,
    host_namespaces::CHECK,
    host_path_volumes::CHECK,
    host_ports::CHECK,
    host_probes::CHECK,
    privileged::CHECK,
    proc_mount::BASELINE,
    se_linux_options::CHECK,
    seccomp_baseline::CHECK,
    sysctls::CHECK,
    host_process::CHECK,
];

/// The additional checks of `restricted`.
pub(super) const RESTRICTED: &[Check] = &[
    allow_privilege_escalation::CHECK,
    capabilities_restricted::CHECK,
    proc_mount::RESTRICTED,
    restricted_volumes::CHECK,
    run_as_non_root::CHECK,
    run_as_user::CHECK,
    seccomp_restricted::CHECK,
];

impl Check {
    /// The rule as it is in a minor version, if there was one.
    pub(super) fn revision_at(&self, minor: u64) -> Option<&'static Revision> {
        self.revisions
            .iter()
            .rev()
            .find(|revision| revision.since <= minor)
    }
}

impl Revision {
    const fn since(since: u64, run: fn(&Pod<'_>) -> Option<Violation>) -> Self {
        Self {
            since,
            run,
            replaces: None,
        }
    }

    const fn replacing(self, check: &'static str) -> Self {
        Self {
            replaces: Some(check),
            ..self
        }
    }
}

fn violation(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

/// Names in quotes: `"a", "b"`.
fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let quoted = |name: T| format!("\"{}\"", name.as_ref());
    names.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// `container "a"`, `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    let word = plural(names.len(), "container", "containers");
    format!("{word} {}", quoted(names))
}

/// Describes who sets a forbidden value: `pod and container "a"`; `None` if nothing does.
fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(containers(names)),
        (true, names) => Some(format!("pod and {}", containers(names))),
    }
}

fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_stand_in_the_order_of_their_names_and_versions() {
        for checks in [BASELINE, RESTRICTED] {
            assert!(checks.is_sorted_by_key(|check| check.id));
            for check in checks {
                let since = |revision: &Revision| revision.since;
                assert!(check.revisions.is_sorted_by_key(since), "{}", check.id);
                assert!(!check.revisions.is_empty(), "{}", check.id);
            }
        }
    }
}
