//! Extended resources of pods that devices satisfy (KEP 5004).

use std::collections::BTreeMap;

use compact_str::{CompactString, format_compact};
use jiff::Timestamp;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::api::{DEVICE_CLASS_PREFIX, DeviceClassSpec, DeviceRequest, ExactDeviceRequest};

/// Device classes by the extended resources that they satisfy.
#[derive(Clone, Debug, Default)]
pub struct ExtendedResourceClasses {
    /// Of several classes with one resource, the newest counts; of those, the first by
    /// name.
    classes: FxHashMap<CompactString, BTreeMap<CompactString, Option<Timestamp>>>,
    resources: FxHashMap<CompactString, Option<CompactString>>,
}

/// The requests of a pod's container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerRequests {
    /// The container.
    pub name: CompactString,
    /// Whether it ends before others start: an init container that is not restarted.
    pub is_short_lived: bool,
    /// All resources that it requests, sorted by name; whole numbers, where they are.
    pub resources: Box<[(CompactString, Option<i64>)]>,
}

/// `v1.ContainerExtendedResourceRequest`: which request of the claim serves a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerResourceRequest {
    /// The container.
    pub container_name: CompactString,
    /// The extended resource.
    pub resource_name: CompactString,
    /// The request.
    pub request_name: CompactString,
}

/// Whether devices may satisfy a resource of that name.
#[must_use]
pub fn is_extended_resource(name: &str) -> bool {
    if name.starts_with(DEVICE_CLASS_PREFIX) {
        return true;
    }
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

// === impl ExtendedResourceClasses ===

impl ExtendedResourceClasses {
    /// A class was made or changed.
    pub fn set(&mut self, name: &str, spec: &DeviceClassSpec, created: Option<Timestamp>) {
        self.remove(name);
        let resource = spec.extended_resource_name.clone();
        if let Some(resource) = &resource {
            let classes = self.classes.entry(resource.clone()).or_default();
            classes.insert(name.into(), created);
        }
        self.resources.insert(name.into(), resource);
    }

    /// Removes a deleted class.
    pub fn remove(&mut self, name: &str) {
        if let Some(Some(resource)) = self.resources.remove(name)
            && let Some(classes) = self.classes.get_mut(&resource)
        {
            classes.remove(name);
            if classes.is_empty() {
                self.classes.remove(&resource);
            }
        }
    }

    /// The class whose devices satisfy an extended resource.
    #[must_use]
    pub fn class_of(&self, resource: &str) -> Option<&str> {
        if let Some(classes) = self.classes.get(resource) {
            let newest = classes.values().max()?;
            let mut classes = classes.iter();
            return classes
                .find(|(_, created)| *created == newest)
                .map(|(name, _)| name.as_str());
        }
        let class = resource.strip_prefix(DEVICE_CLASS_PREFIX)?;
        self.resources
            .get_key_value(class)
            .map(|(name, _)| name.as_str())
    }

    /// All extended resources that classes satisfy.
    #[must_use]
    pub fn resources(&self) -> FxHashSet<CompactString> {
        let by_name = self.resources.keys();
        let by_name = by_name.map(|class| format_compact!("{DEVICE_CLASS_PREFIX}{class}"));
        self.classes.keys().cloned().chain(by_name).collect()
    }
}

/// Creates the requests of a claim for extended resources, and maps them to containers.
/// `resources` are the names of those that devices are to satisfy.
#[must_use]
pub fn extended_requests(
    containers: &[ContainerRequests],
    resources: &[CompactString],
    classes: &ExtendedResourceClasses,
) -> (Vec<DeviceRequest>, Vec<ContainerResourceRequest>) {
    let mut requests = Vec::new();
    let mut mappings = Vec::new();
    let mut sorted: Vec<&CompactString> = resources.iter().collect();
    sorted.sort();
    for resource in sorted {
        if let Some(class) = classes.class_of(resource) {
            requests_for(containers, resource, class, &mut requests, &mut mappings);
        }
    }
    requests.sort_by(|a, b| a.name.cmp(&b.name));
    (requests, mappings)
}

fn requests_for(
    containers: &[ContainerRequests],
    resource: &CompactString,
    class: &str,
    requests: &mut Vec<DeviceRequest>,
    mappings: &mut Vec<ContainerResourceRequest>,
) {
    // A container that ends can use devices of those that start after it.
    let mut long_lived: Vec<Option<DeviceRequest>> = vec![None; containers.len()];
    for (at, container) in containers.iter().enumerate() {
        if !container.is_short_lived {
            let own = request(at, container, resource, class, &[], mappings);
            if let Some(slot) = long_lived.get_mut(at) {
                *slot = own;
            }
        }
    }
    // Containers that end use the same devices one after the other.
    let mut largest: Option<DeviceRequest> = None;
    let mut names = Vec::new();
    let mut of_short_lived = Vec::new();
    for (at, container) in containers.iter().enumerate() {
        if !container.is_short_lived {
            continue;
        }
        let reusable = long_lived.get(at..).unwrap_or_default();
        let own = request(
            at,
            container,
            resource,
            class,
            reusable,
            &mut of_short_lived,
        );
        let Some(own) = own else { continue };
        names.push(own.name.clone());
        let count = |request: &DeviceRequest| request.exactly.as_ref().map_or(0, |one| one.count);
        if largest
            .as_ref()
            .is_none_or(|largest| count(largest) < count(&own))
        {
            largest = Some(own);
        }
    }
    if let Some(largest) = &largest {
        for mapping in &mut of_short_lived {
            if names.contains(&mapping.request_name) {
                mapping.request_name = largest.name.clone();
            }
        }
    }
    requests.extend(largest);
    requests.extend(long_lived.into_iter().flatten());
    mappings.extend(of_short_lived);
}

/// Returns the request for what a container needs beyond the devices of `reusable`.
fn request(
    at: usize,
    container: &ContainerRequests,
    resource: &CompactString,
    class: &str,
    reusable: &[Option<DeviceRequest>],
    mappings: &mut Vec<ContainerResourceRequest>,
) -> Option<DeviceRequest> {
    let mut resources = container.resources.iter();
    let position = resources.position(|(name, _)| name == resource)?;
    let (_, wanted) = container.resources.get(position)?;
    let wanted = wanted.filter(|wanted| *wanted != 0)?;
    let mut map = |request: &CompactString| {
        mappings.push(ContainerResourceRequest {
            container_name: container.name.clone(),
            resource_name: resource.clone(),
            request_name: request.clone(),
        });
    };
    let mut reused: i64 = 0;
    for request in reusable.iter().flatten() {
        let count = request.exactly.as_ref().map_or(0, |one| one.count);
        reused = reused.saturating_add(count);
        map(&request.name);
        if reused >= wanted {
            return None;
        }
    }
    let name = format_compact!("container-{at}-request-{position}");
    map(&name);
    Some(DeviceRequest {
        name,
        exactly: Some(ExactDeviceRequest {
            device_class_name: class.into(),
            allocation_mode: CompactString::const_new("ExactCount"),
            count: wanted - reused,
            ..ExactDeviceRequest::default()
        }),
        first_available: Vec::new(),
    })
}

#[cfg(test)]
#[path = "extended_tests.rs"]
mod tests;
