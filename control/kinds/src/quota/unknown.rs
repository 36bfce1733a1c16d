//! Quotas whose usage was not counted yet: new ones, and those that limit more than at
//! the last count.

use control_types::value::Value;

use super::amount::{Amount, Usage};
use super::measure::Classes;
use super::recount::CountedObjects;
use super::scopes;
use super::tracked::{tracks, usage};
use crate::tree::{Read as _, Write as _};

/// The names that a quota limits for a resource and whose usage its status lacks.
fn unknown_names<'a>(
    quota: &'a Value,
    group: &'a str,
    plural: &'a str,
    classes: Classes<'a>,
) -> impl Iterator<Item = &'a str> {
    let status = quota.at("status");
    quota
        .at("spec")
        .entries("hard")
        .map(|(name, _)| name)
        .filter(|name| !status.at("hard").has(name) || !status.at("used").has(name))
        .filter(move |name| tracks(group, plural, name, classes))
}

/// Whether a quota limits a resource whose usage its status lacks.
#[must_use]
pub fn is_usage_unknown(quota: &Value, group: &str, plural: &str, classes: Classes<'_>) -> bool {
    unknown_names(quota, group, plural, classes)
        .next()
        .is_some()
}

/// The usage that the status of a quota lacks, counted over all objects of a resource in
/// its namespace.
#[must_use]
pub fn count_unknown(
    quota: &Value,
    all: &CountedObjects,
    classes: Classes<'_>,
    now: jiff::Timestamp,
) -> Usage {
    let (group, plural) = (all.group.as_str(), all.plural.as_str());
    let names: Vec<&str> = unknown_names(quota, group, plural, classes).collect();
    let mut counted = Usage::default();
    for name in &names {
        counted.add(name, Amount::number(0));
    }
    for object in &all.objects {
        if scopes::matches(quota, group, plural, object) {
            let mut taken = usage(group, plural, object, classes, now);
            taken.retain(|name| names.contains(&name));
            counted.add_all(&taken);
        }
    }
    counted
}

/// Adds a counted usage to the status of a quota where the status still lacks it.
pub fn fill_unknown(quota: &mut Value, counted: &Usage) {
    for (name, amount) in counted.to_value().as_object().into_iter().flatten() {
        let Some(hard) = quota.at("spec").at("hard").get(name).cloned() else {
            continue;
        };
        let status = quota.make("status");
        if !status.at("hard").has(name) || !status.at("used").has(name) {
            status.make("used").put(name, amount.clone());
        }
        if !status.at("hard").has(name) {
            status.make("hard").put(name, hard);
        }
    }
}
