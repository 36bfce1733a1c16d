//! Quotas: limits for the sum over a namespace.
//!
//! [`usage`] measures an object, [`assess`] computes the charge of a request on the
//! quotas of its namespace, [`pay`] adds it to one quota unless that exceeds the limit,
//! and [`recount`] counts from scratch. [`count_unknown`] counts what the status of a new
//! quota lacks. All are pure; callers that store the result of [`pay`] with a
//! precondition on the revision never exceed a quota.
//!
//! Each kind that is measured by more than its number is one file
//! (<https://kubernetes.io/docs/concepts/policy/resource-quotas/>).

mod amount;
mod claims;
mod decide;
mod devices;
mod limits;
mod pods;
mod scopes;
mod services;
mod unknown;

pub use amount::{Amount, Usage};
pub use decide::{Charge, Request, Unpaid, assess, pay};
pub use limits::{Limit, Limits};
pub(crate) use pods::qos_class;
pub(crate) use pods::requests_of;
pub use unknown::{count_unknown, fill_unknown, is_usage_unknown};

use control_types::value::Value;

use crate::tree::{Read, Write};

/// Device classes by name, and the extended resource that each stands for (may be empty).
/// Needed only for device claims.
pub type Classes<'a> = &'a [(String, String)];

/// Everything particular to the kinds that are measured by more than their number.
struct Measure {
    group: &'static str,
    plural: &'static str,
    /// Returns the usage of an object.
    usage: fn(&Value, Classes<'_>, jiff::Timestamp) -> Usage,
    /// Whether a limit of this name is about the kind.
    tracks: fn(&str, Classes<'_>) -> bool,
    /// Whether a request has to be looked at.
    handles: fn(&Request<'_>) -> bool,
    /// Whether an object has the property that a scope of a quota asks for.
    in_scope: fn(&Value, &Value) -> bool,
    /// Checks that an object sets what is required if these resources are limited.
    constraints: fn(&[&str], &Value) -> Result<(), ConstraintError>,
}

/// Error for an object that does not set limited resources, each with the containers that
/// lack it; the message is kube-apiserver's.
#[derive(Debug, thiserror::Error)]
#[error("must specify {}", .0.join("; "))]
struct ConstraintError(Vec<String>);

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
const FREE: &[(&str, &str)] = &[
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

fn measure(group: &str, plural: &str) -> Option<&'static Measure> {
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

#[cfg(test)]
mod tests;
