//! Pod security standards: restrictions on the pods of a namespace.
//!
//! A namespace's labels name a level (`privileged`, `baseline`, `restricted`) and its
//! version, for each of three modes: enforce, audit and warn. A [`Policy`] is parsed from
//! labels, [`evaluate`] returns the violations of a pod. Each rule is one file under
//! `checks/` with the versions in which it changed
//! (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>).

mod checks;
mod existing;
mod policy;
mod significant;

pub use existing::NamespacePods;
pub use policy::{LabelError, Level, LevelVersion, Modes as Policy, Version};
pub use significant::is_significant;

use control_types::value::Value;

use crate::tree::Read as _;

/// A pod, or the template of pods, as the checks look at it.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    /// Its metadata.
    pub metadata: &'a Value,
    /// Its spec.
    pub spec: &'a Value,
}

/// A violation of one check by a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The violation in short: `host namespaces`.
    pub reason: &'static str,
    /// The details for one pod; may be empty.
    pub detail: String,
}

/// All that is forbidden in a pod, in the order in which stock tells it.
pub type Violations = Vec<Violation>;

impl<'a> Pod<'a> {
    /// Returns the pod in an object: itself, or its template. `template` is the path of
    /// the value with metadata and spec (empty for the object). Returns `None` if it has
    /// no template.
    #[must_use]
    pub fn within(object: &'a Value, template: &[&str]) -> Option<Self> {
        let holder = object.dig(template);
        holder.get("spec").map(|spec| Self {
            metadata: holder.at("metadata"),
            spec,
        })
    }

    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|list| spec.items(list))
    }

    fn is_windows(&self) -> bool {
        self.spec.at("os").text("name") == "windows"
    }

    /// Returns whether the pod uses a user namespace (KEP-127).
    fn has_own_users(&self) -> bool {
        self.spec.truth("hostUsers") == Some(false)
    }
}

/// Returns a pod's violations of a level in a version.
#[must_use]
pub fn evaluate(by: LevelVersion, pod: Pod<'_>) -> Violations {
    let minor = match by.version {
        Version::Minor(minor) => minor,
        Version::Latest => u64::MAX,
    };
    let mut found = Violations::new();
    if by.level == Level::Privileged {
        return found;
    }
    let restricted = by.level == Level::Restricted;
    for check in checks::BASELINE {
        // A stricter rule of the same matter speaks instead.
        let is_replaced = |other: &checks::Check| {
            other
                .revision_at(minor)
                .is_some_and(|revision| revision.replaces == Some(check.id))
        };
        if restricted && checks::RESTRICTED.iter().any(is_replaced) {
            continue;
        }
        found.extend(
            check
                .revision_at(minor)
                .and_then(|revision| (revision.run)(&pod)),
        );
    }
    if restricted {
        for check in checks::RESTRICTED {
            found.extend(
                check
                    .revision_at(minor)
                    .and_then(|revision| (revision.run)(&pod)),
            );
        }
    }
    found
}

/// Describes violations with details, for the author of this pod.
#[must_use]
pub fn details(found: &[Violation]) -> String {
    let one = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.to_owned(),
        detail => format!("{} ({detail})", violation.reason),
    };
    found.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Describes violations without details, equal for many pods.
#[must_use]
pub fn reasons(found: &[Violation]) -> String {
    let reasons: Vec<_> = found.iter().map(|violation| violation.reason).collect();
    reasons.join(", ")
}

#[cfg(test)]
mod tests;
