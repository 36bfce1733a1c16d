//! AppArmor must not be disabled.

use std::collections::BTreeSet;

use control_types::status::quote;

use super::{Check, Pod, Revision, Violation, containers, plural, quoted, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "appArmorProfile",
    revisions: &[Revision::since(0, check)],
};

/// Annotations of this beginning named profiles before there was a field.
const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let mut is_bad = |context: &'_ crate::Value| {
        let profile = context.at("appArmorProfile");
        let kind = profile.text("type");
        let bad = context.has("appArmorProfile") && !matches!(kind, "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(kind.to_owned());
        }
        bad
    };
    let mut setters = Vec::new();
    if is_bad(pod.spec.at("securityContext")) {
        setters.push("pod".to_owned());
    }
    let bad: Vec<_> = pod
        .containers()
        .filter(|container| is_bad(container.at("securityContext")))
        .map(|container| container.text("name"))
        .collect();
    if !bad.is_empty() {
        setters.push(containers(&bad));
    }
    let mut annotations: Vec<_> = pod
        .metadata
        .entries("annotations")
        .map(|(key, value)| (key, value.as_text()))
        .filter(|(key, value)| key.starts_with(ANNOTATION) && !is_allowed(value))
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    annotations.sort_unstable();
    let mut values: Vec<String> = values.into_iter().collect();
    if !annotations.is_empty() {
        setters.push(plural(annotations.len(), "annotation", "annotations").to_owned());
        values.append(&mut annotations);
    }
    if setters.is_empty() {
        return None;
    }
    violation(
        plural(
            values.len(),
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
        ),
        format!(
            "{} must not set AppArmor profile type to {}",
            setters.join(" and "),
            quoted(&values)
        ),
    )
}

fn is_allowed(profile: &str) -> bool {
    matches!(profile, "" | "runtime/default") || profile.starts_with("localhost/")
}
