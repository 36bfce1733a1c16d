//! Claims to devices: their number, and the devices of each class at worst.

use std::collections::BTreeMap;

use control_types::value::Value;

use super::amount::{Amount, Usage};
use super::measure::{Classes, Measure, Request};
use super::scope_selector;
use crate::rules::resources;
use crate::tree::Read as _;

pub(super) const MEASURE: Measure = Measure {
    group: "resource.k8s.io",
    plural: "resourceclaims",
    usage: |claim, classes, _| usage(claim, classes),
    tracks,
    handles: |request: &Request<'_>| request.subresource.is_empty(),
    in_scope: scope_selector::none,
    constraints: |_, _| Ok(()),
};

const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/";
/// The most devices that a request for all can be given.
const ALL: i64 = 32;
/// The annotation of a claim that the scheduler created for a pod's extended resources,
/// which the pod is charged for.
const FOR_POD: &str = "resource.kubernetes.io/extended-resource-claim";

fn tracks(name: &str, classes: Classes<'_>) -> bool {
    if name.ends_with(OF_CLASS) {
        return true;
    }
    if let Some(class) = name.strip_prefix(IMPLICIT) {
        return classes
            .iter()
            .any(|(known, extended)| known == class && !extended.is_empty());
    }
    let extended = name.strip_prefix("requests.").unwrap_or_default();
    !resources::is_native(name) && classes.iter().any(|(_, known)| known == extended)
}

fn usage(claim: &Value, classes: Classes<'_>) -> Usage {
    let mut usage = Usage::default();
    let mut devices: BTreeMap<&str, i64> = BTreeMap::new();
    for request in claim.dig(&["spec", "devices"]).items("requests") {
        let alternatives = request.items("firstAvailable");
        if alternatives.is_empty() {
            let exactly = request.at("exactly");
            if !exactly.is_null() {
                *devices.entry(exactly.text("deviceClassName")).or_default() += number(exactly);
            }
            continue;
        }
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for one in alternatives {
            let there = most.entry(one.text("deviceClassName")).or_default();
            *there = number(one).max(*there);
        }
        for (class, number) in most {
            *devices.entry(class).or_default() += number;
        }
    }
    let pod_pays = claim.at("metadata").at("annotations").text(FOR_POD) == "true";
    for (class, number) in devices {
        let amount = Amount::number(number);
        usage.add(&format!("{class}{OF_CLASS}"), amount);
        if pod_pays || class.is_empty() || number <= 0 {
            continue;
        }
        usage.add(&format!("{IMPLICIT}{class}"), amount);
        let extended = classes.iter().find(|(known, _)| known == class);
        if let Some((_, extended)) = extended.filter(|(_, extended)| !extended.is_empty()) {
            usage.set(&format!("requests.{extended}"), amount);
        }
    }
    usage
}

fn number(request: &Value) -> i64 {
    match request.text("allocationMode") {
        "ExactCount" => request.num("count"),
        "All" => ALL,
        _ => 0,
    }
}
