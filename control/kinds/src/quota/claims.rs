//! Claims to volumes: their number and size, in all and by storage class.

use control_types::value::Value;

use super::amount::{Amount, Usage};
use super::measure::{Measure, Request};
use super::scope_selector;
use crate::tree::Read as _;

pub(super) const MEASURE: Measure = Measure {
    group: "",
    plural: "persistentvolumeclaims",
    usage: |claim, _, _| usage(claim),
    tracks: |name, _| {
        RESOURCES.iter().any(|resource| {
            name.strip_suffix(resource)
                .is_some_and(|class| class.is_empty() || class.ends_with(OF_CLASS))
        })
    },
    handles: |request: &Request<'_>| matches!(request.subresource, "" | "status"),
    in_scope,
    constraints: |_, _| Ok(()),
};

const RESOURCES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

fn usage(claim: &Value) -> Usage {
    let spec = claim.at("spec");
    let annotations = claim.at("metadata").at("annotations");
    let by_annotation = annotations.get("volume.beta.kubernetes.io/storage-class");
    let class =
        by_annotation.map_or_else(|| spec.text("storageClassName"), |class| class.as_text());
    let mut usage = Usage::default();
    let mut take = |resource: &str, amount| {
        usage.set(resource, amount);
        if !class.is_empty() {
            usage.set(&format!("{class}{OF_CLASS}{resource}"), amount);
        }
    };
    take("persistentvolumeclaims", Amount::number(1));
    if let Some(asked) = spec.dig(&["resources", "requests"]).get("storage") {
        let mut size = Amount::from_value(asked).whole();
        // A failed expansion may have taken more than the current request.
        if let Some(allocated) = claim.dig(&["status", "allocatedResources"]).get("storage") {
            size = size.max(Amount::from_value(allocated)).whole();
        }
        take("requests.storage", size);
    }
    usage
}

fn in_scope(scope: &Value, claim: &Value) -> bool {
    if scope.text("scopeName") != "VolumeAttributesClass" {
        return false;
    }
    let status = claim.at("status");
    let mut classes = vec![
        claim.at("spec").text("volumeAttributesClassName"),
        status.text("currentVolumeAttributesClassName"),
        status
            .at("modifyVolumeStatus")
            .text("targetVolumeAttributesClassName"),
    ];
    classes.retain(|class| !class.is_empty());
    scope_selector::selects(scope, &classes)
}
