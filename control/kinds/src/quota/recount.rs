//! Counts the usage of a namespace from its objects.

use control_types::value::Value;

use super::amount::{Amount, Usage};
use super::measure::Classes;
use super::tracked::{tracks, usage};
use super::{pods, scopes};
use crate::tree::{Read as _, Write as _};

/// Objects of one resource in the namespace of a quota.
#[derive(Debug)]
pub struct CountedObjects {
    /// Its group.
    pub group: String,
    /// Its plural.
    pub plural: String,
    /// All objects.
    pub objects: Vec<Value>,
}

/// Returns when usage changes next although nothing is written: the earliest end of a
/// grace period that is still to come among pods that are being deleted.
#[must_use]
pub fn next_change(all: &[CountedObjects], now: jiff::Timestamp) -> Option<jiff::Timestamp> {
    let of_pods = |counted: &&CountedObjects| counted.group.is_empty() && counted.plural == "pods";
    let pods = all.iter().filter(of_pods).flat_map(|pods| &pods.objects);
    let ends = pods.filter_map(pods::end_of_grace);
    ends.filter(|end| *end >= now).min()
}

/// Computes the status of a quota from existing objects. Limited resources that are not
/// in `all` keep their known usage.
#[must_use]
pub fn recount(
    quota: &Value,
    all: &[CountedObjects],
    classes: Classes<'_>,
    now: jiff::Timestamp,
) -> Value {
    let hard = quota.at("spec").at("hard");
    let mut used = Usage::from_list(quota.at("status").at("used"));
    let names: Vec<&str> = quota
        .at("spec")
        .entries("hard")
        .map(|(name, _)| name)
        .collect();
    let mut sums = Usage::default();
    for CountedObjects {
        group,
        plural,
        objects,
    } in all
    {
        let tracked = |name: &str| tracks(group, plural, name, classes);
        for name in names.iter().filter(|name| tracked(name)) {
            sums.add(name, Amount::number(0));
        }
        for object in objects {
            if scopes::matches(quota, group, plural, object) {
                let mut usage = usage(group, plural, object, classes, now);
                usage.retain(tracked);
                sums.add_all(&usage);
            }
        }
    }
    used.replace_all(&sums);
    used.retain(|name| names.contains(&name));
    let mut status = Value::object();
    if hard.is_null() {
        return status;
    }
    status.put("hard", hard.clone());
    status.put("used", used.to_value());
    status
}
