//! The resources that quotas track, and the names of their limits.

use control_types::value::Value;

use super::amount::{Amount, Usage};
use super::measure::{Classes, Measure};
use super::{claims, devices, pods, services};
use crate::tree::Read as _;

const MEASURES: &[Measure] = &[
    pods::MEASURE,
    services::MEASURE,
    claims::MEASURE,
    devices::MEASURE,
];

/// Kinds that had a limit of their own before all could be counted.
const ALIASES: &[&str] = &[
    "configmaps",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
];

/// Resources that are never counted: they are not stored, or were always free.
pub(super) const FREE: &[(&str, &str)] = &[
    ("", "bindings"),
    ("", "componentstatuses"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("", "events"),
    ("events.k8s.io", "events"),
];

pub(super) fn measure(group: &str, plural: &str) -> Option<&'static Measure> {
    MEASURES
        .iter()
        .find(|measure| (measure.group, measure.plural) == (group, plural))
}

/// The limit that counts objects of a resource: `count/deployments.apps`.
fn count(group: &str, plural: &str) -> String {
    if group.is_empty() {
        format!("count/{plural}")
    } else {
        format!("count/{plural}.{group}")
    }
}

/// Whether a limit of this name is about a resource.
#[must_use]
pub fn tracks(group: &str, plural: &str, name: &str, classes: Classes<'_>) -> bool {
    if FREE.contains(&(group, plural)) {
        return false;
    }
    let alias = group.is_empty() && plural == name && ALIASES.contains(&plural);
    alias
        || is_count(group, plural, name)
        || measure(group, plural).is_some_and(|measure| (measure.tracks)(name, classes))
}

fn is_count(group: &str, plural: &str, name: &str) -> bool {
    let Some(counted) = name.strip_prefix("count/") else {
        return false;
    };
    match counted.strip_prefix(plural) {
        Some("") => group.is_empty(),
        Some(rest) => !group.is_empty() && rest.strip_prefix('.') == Some(group),
        None => false,
    }
}

/// Returns the usage of an object at this time.
#[must_use]
pub fn usage(
    group: &str,
    plural: &str,
    object: &Value,
    classes: Classes<'_>,
    now: jiff::Timestamp,
) -> Usage {
    let mut usage = match measure(group, plural) {
        Some(measure) => (measure.usage)(object, classes, now),
        None => Usage::default(),
    };
    usage.add(&count(group, plural), Amount::number(1));
    if group.is_empty() && ALIASES.contains(&plural) {
        usage.add(plural, Amount::number(1));
    }
    usage
}

/// The resources that a quota counts and whose names are known without asking:
/// group and plural each.
#[must_use]
pub fn counted(quota: &Value, classes: Classes<'_>) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let known = MEASURES
        .iter()
        .map(|measure| (measure.group, measure.plural));
    let known: Vec<_> = known
        .chain(ALIASES.iter().map(|plural| ("", *plural)))
        .collect();
    for (name, _) in quota.at("spec").entries("hard") {
        for (group, plural) in &known {
            if tracks(group, plural, name, classes) {
                found.push(((*group).to_owned(), (*plural).to_owned()));
            }
        }
        if let Some(counted) = name.strip_prefix("count/") {
            let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
            if !FREE.contains(&(group, plural)) {
                found.push((group.to_owned(), plural.to_owned()));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
