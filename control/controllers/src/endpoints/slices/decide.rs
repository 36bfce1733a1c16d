//! Decides which slices a Service needs, with as few writes as possible.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::super::{canonical, pods};
use crate::views::{
    ConditionsOfEndpoint, Endpoint, EndpointPort, EndpointSlice, HintName, Hints, Pod, Service,
    TargetRef, Text,
};

/// Endpoints that one slice may hold (upstream's default).
pub const MAX_ENDPOINTS: usize = 100;

/// The label that names a slice's Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that names the controller that a slice belongs to.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label of slices and endpoints of headless Services.
pub const HEADLESS: &str = "service.kubernetes.io/headless";

/// The input of one decision.
#[derive(Clone, Copy)]
pub struct ServiceSnapshot<'a> {
    /// The Service, which has a selector.
    pub service: &'a Service,
    /// The pods that it selects.
    pub pods: &'a [Arc<Pod>],
    /// The slices that this controller manages for the Service.
    pub slices: &'a [Arc<EndpointSlice>],
    /// Returns the zone of a node, empty if it has none; `None` for unknown nodes.
    pub zone_of: &'a dyn Fn(&str) -> Option<Text>,
    /// The name for [`MANAGED_BY`].
    pub manager: &'a str,
}

/// One write. Creations come first and deletions last, so that no endpoint is
/// missing in between.
#[derive(Debug, Clone, PartialEq)]
pub enum SliceAction {
    /// Create a slice.
    Create(SliceContent),
    /// Give an existing slice this content.
    Update {
        /// Its name.
        name: Text,
        /// Its uid.
        uid: Text,
        /// The revision that the decision rests on.
        resource_version: Text,
        /// Everything that is ours in it.
        content: SliceContent,
        /// Labels to take away.
        stale_labels: Vec<Text>,
    },
    /// Delete a slice.
    Delete {
        /// Its name.
        name: Text,
        /// Its uid.
        uid: Text,
    },
}

/// The content of a slice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SliceContent {
    /// `IPv4` or `IPv6`.
    pub address_type: Text,
    /// Its labels.
    pub labels: BTreeMap<Text, Text>,
    /// Its endpoints.
    pub endpoints: Vec<Endpoint>,
    /// Their ports.
    pub ports: Vec<EndpointPort>,
}

/// Decides which writes are needed. The second value is true when pods were
/// left out because their node is not known yet: look again soon.
#[must_use]
pub fn decide(snapshot: &ServiceSnapshot<'_>) -> (Vec<SliceAction>, bool) {
    let service = snapshot.service;
    let families = families(service);
    let mut creates = Vec::new();
    let mut updates = Vec::new();
    let mut deletes = Vec::new();
    let mut unknown_node = false;
    for slice in snapshot.slices {
        if !families.contains(slice.address_type.as_str()) {
            deletes.push(Arc::clone(slice));
        }
    }
    for family in &families {
        let mut work = Family::new(snapshot, family);
        unknown_node |= work.desire();
        work.reconcile();
        creates.append(&mut work.creates);
        updates.append(&mut work.updates);
        deletes.append(&mut work.deletes);
    }
    // a slice to delete and one to create make one to update
    let mut recycled = Vec::new();
    deletes.retain(|slice| {
        if !owned(slice, service) {
            return true;
        }
        let Some(at) = creates
            .iter()
            .position(|c: &SliceContent| c.address_type == slice.address_type)
        else {
            return true;
        };
        recycled.push((Arc::clone(slice), creates.swap_remove(at)));
        false
    });
    updates.append(&mut recycled);
    if service.metadata.is_terminating() {
        creates.clear();
    }
    let actions = creates
        .into_iter()
        .map(SliceAction::Create)
        .chain(updates.into_iter().map(|(slice, content)| {
            SliceAction::Update {
                name: slice.metadata.name.clone(),
                uid: slice.metadata.uid.clone(),
                resource_version: slice.metadata.resource_version.clone(),
                stale_labels: slice
                    .metadata
                    .labels
                    .iter()
                    .filter(|(key, _)| !content.labels.contains_key(*key))
                    .map(|(key, _)| key.into())
                    .collect(),
                content,
            }
        }))
        .chain(deletes.into_iter().map(|slice| SliceAction::Delete {
            name: slice.metadata.name.clone(),
            uid: slice.metadata.uid.clone(),
        }))
        .collect();
    (actions, unknown_node)
}

/// The address types that a Service needs. Without `ipFamilies` (an old
/// object) they follow from its address; a headless one gets both.
fn families(service: &Service) -> BTreeSet<&'static str> {
    let listed: BTreeSet<&str> = service
        .spec
        .ip_families
        .iter()
        .filter_map(|family| match family.as_str() {
            "IPv4" => Some("IPv4"),
            "IPv6" => Some("IPv6"),
            _ => None,
        })
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    if service.is_headless() {
        return BTreeSet::from(["IPv4", "IPv6"]);
    }
    BTreeSet::from([if service.spec.cluster_ip.contains(':') {
        "IPv6"
    } else {
        "IPv4"
    }])
}

fn owned(slice: &EndpointSlice, service: &Service) -> bool {
    slice
        .metadata
        .owner_references
        .iter()
        .any(|owner| owner.uid == service.metadata.uid && owner.kind == "Service")
}

/// The labels of every slice of a Service: its own and ours.
pub(crate) fn labels(service: &Service, manager: &str) -> BTreeMap<Text, Text> {
    let mut labels: BTreeMap<Text, Text> = service
        .metadata
        .labels
        .iter()
        .map(|(k, v)| (k.into(), v.into()))
        .collect();
    labels.remove(HEADLESS);
    if service.is_headless() {
        labels.insert(HEADLESS.into(), Text::default());
    }
    labels.insert(SERVICE_NAME.into(), service.metadata.name.clone());
    labels.insert(MANAGED_BY.into(), manager.into());
    labels
}

/// The identity of an endpoint, by which it is found again in its slice.
type Identity = (Vec<Text>, Text, Text, Text);

fn identity(endpoint: &Endpoint) -> Identity {
    let reference = endpoint.target_ref.clone().unwrap_or_default();
    let mut addresses = endpoint.addresses.clone();
    addresses.sort();
    (
        addresses,
        endpoint.hostname.clone().unwrap_or_default(),
        reference.namespace,
        reference.name,
    )
}

/// The endpoints of one set of ports, in a stable order.
struct PortSetEndpoints {
    ports: Vec<EndpointPort>,
    wanted: BTreeMap<Identity, Endpoint>,
}

struct Family<'a> {
    snapshot: &'a ServiceSnapshot<'a>,
    address_type: &'static str,
    labels: BTreeMap<Text, Text>,
    groups: BTreeMap<Vec<EndpointPort>, PortSetEndpoints>,
    creates: Vec<SliceContent>,
    updates: Vec<(Arc<EndpointSlice>, SliceContent)>,
    deletes: Vec<Arc<EndpointSlice>>,
}

impl<'a> Family<'a> {
    fn new(snapshot: &'a ServiceSnapshot<'a>, address_type: &'static str) -> Self {
        Self {
            snapshot,
            address_type,
            labels: labels(snapshot.service, snapshot.manager),
            groups: BTreeMap::new(),
            creates: Vec::new(),
            updates: Vec::new(),
            deletes: Vec::new(),
        }
    }

    fn desire(&mut self) -> bool {
        let service = self.snapshot.service;
        let mut unknown_node = false;
        for pod in self.snapshot.pods {
            if !pods::may_serve(pod, true) {
                continue;
            }
            let addresses = pods::addresses(pod, self.address_type == "IPv6");
            if addresses.is_empty() {
                continue;
            }
            let zone = (self.snapshot.zone_of)(&pod.spec.node_name);
            if zone.is_none() && !service.spec.publish_not_ready_addresses {
                unknown_node = true;
                continue;
            }
            let ports = pods::ports(service, pod);
            let mut key = ports.clone();
            key.sort();
            let endpoint = endpoint(service, pod, addresses, zone.unwrap_or_default());
            let group = self.groups.entry(key).or_insert_with(|| {
                let mut ports = ports;
                canonical::order_slice_ports(&mut ports);
                PortSetEndpoints {
                    ports,
                    wanted: BTreeMap::new(),
                }
            });
            group.wanted.insert(identity(&endpoint), endpoint);
        }
        unknown_node
    }

    fn reconcile(&mut self) {
        let service = self.snapshot.service;
        let mut existing: HashMap<Vec<EndpointPort>, Vec<Arc<EndpointSlice>>> = HashMap::new();
        let mut present = 0;
        for slice in self.snapshot.slices {
            if slice.address_type != self.address_type {
                continue;
            }
            present += 1;
            if owned(slice, service) {
                let mut key = slice.ports.clone();
                key.sort();
                existing.entry(key).or_default().push(Arc::clone(slice));
            } else {
                self.deletes.push(Arc::clone(slice));
            }
        }
        for (key, group) in std::mem::take(&mut self.groups) {
            self.reconcile_group(group, existing.remove(&key).unwrap_or_default());
        }
        self.deletes.extend(existing.into_values().flatten());
        if present == self.deletes.len() && self.creates.is_empty() {
            self.keep_placeholder();
        }
    }

    /// A Service without endpoints keeps one empty slice: "none" is known then.
    fn keep_placeholder(&mut self) {
        let labels = &self.labels;
        let fits = |slice: &EndpointSlice| {
            slice.endpoints.is_empty()
                && slice.ports.is_empty()
                && owned(slice, self.snapshot.service)
                && same_labels(slice, labels)
        };
        if let [only] = self.deletes.as_slice()
            && fits(only)
        {
            self.deletes.clear();
        } else {
            self.creates.push(self.content(Vec::new(), Vec::new()));
        }
    }

    fn content(&self, endpoints: Vec<Endpoint>, ports: Vec<EndpointPort>) -> SliceContent {
        SliceContent {
            address_type: self.address_type.into(),
            labels: self.labels.clone(),
            endpoints,
            ports,
        }
    }

    fn reconcile_group(&mut self, group: PortSetEndpoints, mut slices: Vec<Arc<EndpointSlice>>) {
        let PortSetEndpoints { ports, mut wanted } = group;
        slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let mut changed: Vec<(Arc<EndpointSlice>, Vec<Endpoint>)> = Vec::new();
        let mut unchanged: Vec<Arc<EndpointSlice>> = Vec::new();
        for slice in slices {
            let mut kept = Vec::with_capacity(slice.endpoints.len());
            let mut differs = false;
            for old in &slice.endpoints {
                match wanted.remove(&identity(old)) {
                    Some(new) => {
                        differs |= new != *old;
                        kept.push(new);
                    }
                    None => differs = true,
                }
            }
            if differs && kept.is_empty() {
                self.deletes.push(slice);
            } else if differs || !same_labels(&slice, &self.labels) {
                changed.push((slice, kept));
            } else {
                unchanged.push(slice);
            }
        }
        let mut rest: Vec<Endpoint> = wanted.into_values().rev().collect();
        // those that are written anyway take what fits, the fullest first
        changed.sort_by_key(|(_, endpoints)| std::cmp::Reverse(endpoints.len()));
        for (_, endpoints) in &mut changed {
            while endpoints.len() < MAX_ENDPOINTS
                && let Some(endpoint) = rest.pop()
            {
                endpoints.push(endpoint);
            }
        }
        while !rest.is_empty() {
            // one untouched slice may take the rest whole, the tightest fit
            let fit = (rest.len() < MAX_ENDPOINTS)
                .then(|| {
                    unchanged
                        .iter()
                        .enumerate()
                        .filter(|(_, slice)| slice.endpoints.len() + rest.len() <= MAX_ENDPOINTS)
                        .max_by_key(|(_, slice)| slice.endpoints.len())
                        .map(|(at, _)| at)
                })
                .flatten();
            let take = rest.len().min(MAX_ENDPOINTS);
            let mut batch = rest.split_off(rest.len() - take);
            batch.reverse();
            if let Some(at) = fit {
                let slice = unchanged.swap_remove(at);
                let mut endpoints = slice.endpoints.clone();
                endpoints.append(&mut batch);
                changed.push((slice, endpoints));
            } else {
                self.creates.push(self.content(batch, ports.clone()));
            }
        }
        for (slice, endpoints) in changed {
            let content = self.content(endpoints, ports.clone());
            self.updates.push((slice, content));
        }
    }
}

fn same_labels(slice: &EndpointSlice, labels: &BTreeMap<Text, Text>) -> bool {
    slice.metadata.labels.len() == labels.len()
        && labels
            .iter()
            .all(|(key, value)| slice.metadata.labels.get(key) == Some(value))
}

fn endpoint(service: &Service, pod: &Pod, addresses: Vec<Text>, zone: Text) -> Endpoint {
    let serving = pod.is_ready();
    let terminating = pod.metadata.is_terminating();
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let node = Some(pod.spec.node_name.clone()).filter(|name| !name.is_empty());
    let zone = Some(zone).filter(|zone| !zone.is_empty());
    let hints = hints(service, ready, zone.as_ref(), node.as_ref());
    Endpoint {
        addresses,
        conditions: ConditionsOfEndpoint {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: pods::hostname(pod, service),
        target_ref: Some(TargetRef {
            kind: "Pod".into(),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
        }),
        node_name: node,
        zone,
        hints,
    }
}

/// Computes hints for `trafficDistribution` (KEP-4444, KEP-3015).
fn hints(
    service: &Service,
    ready: bool,
    zone: Option<&Text>,
    node: Option<&Text>,
) -> Option<Hints> {
    let with_node = match service.spec.traffic_distribution.as_deref() {
        Some("PreferClose" | "PreferSameZone") => false,
        Some("PreferSameNode") => true,
        _ => return None,
    };
    let named = |name: &Text| HintName { name: name.clone() };
    let hints = Hints {
        for_zones: zone.into_iter().map(named).collect(),
        for_nodes: node.filter(|_| with_node).into_iter().map(named).collect(),
    };
    (ready && hints != Hints::default()).then_some(hints)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
