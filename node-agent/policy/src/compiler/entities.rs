//! Pods, namespaces and nodes: their relevant parts, and what their changes affect.

use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{AddressOwner, Compiler, NamespaceState, NodeState, PodState, is_of};
use crate::address::{Prefix, number};
use crate::labels::Labels;
use crate::objects::{Namespace, Node, Pod};
use crate::policy::{PortRange, protocol};
use crate::ruleset::Binding;

impl Compiler {
    pub(super) fn put_pod(
        &mut self,
        namespace: &str,
        name: &str,
        pod: Option<&Pod>,
        addresses: Option<&[IpAddr]>,
    ) {
        let namespace: Arc<str> = match self.namespaces.get_key_value(namespace) {
            Some((name, _)) => Arc::clone(name),
            None => namespace.into(),
        };
        let key = (Arc::clone(&namespace), name.into());
        let old = self.pod_ids.get(&key).copied();
        let new = pod.and_then(|pod| self.read_pod(&namespace, name, pod, addresses));
        let id = match (old, &new) {
            (None, None) => return,
            (Some(id), _) => id,
            (None, Some(_)) => {
                self.next_pod += 1;
                self.pod_ids.insert(key.clone(), self.next_pod);
                self.next_pod
            }
        };
        let mut rulesets = [0; 2];
        if let Some(before) = self.pods.get(&id) {
            rulesets = before.rulesets;
            if new.as_ref().is_some_and(|it| it.is_like(before)) {
                return;
            }
            for address in &before.addresses {
                if let Some(host) = self.hosts.get_mut(address) {
                    host.pods.retain(|it| *it != id);
                }
                self.dirty.hosts.insert(*address);
                self.dirty.endpoints.insert(*address);
            }
        }
        let Some(mut new) = new else {
            self.pods.remove(&id);
            self.pod_ids.remove(&key);
            self.dirty.pods.remove(&id);
            self.leave_rulesets(rulesets, [0; 2]);
            if let Some(state) = self.namespaces.get_mut(&namespace) {
                state.pods.remove(&id);
            }
            self.forget_namespace_if_empty(&namespace);
            return;
        };
        new.rulesets = rulesets;
        for address in &new.addresses {
            self.hosts.entry(*address).or_default().pods.push(id);
            self.dirty.hosts.insert(*address);
            self.dirty.endpoints.insert(*address);
        }
        let state = self.namespaces.entry(namespace).or_default();
        state.pods.insert(id);
        if new.local || rulesets != [0; 2] {
            self.dirty.pods.insert(id);
        }
        self.pods.insert(id, new);
    }

    /// Returns the relevant part of a pod; `None` if it has no address of its own.
    fn read_pod(
        &self,
        namespace: &Arc<str>,
        name: &str,
        pod: &Pod,
        addresses: Option<&[IpAddr]>,
    ) -> Option<PodState> {
        let status = &pod.status;
        if pod.spec.host_network || matches!(status.phase.as_str(), "Succeeded" | "Failed") {
            return None;
        }
        let mut read: SmallVec<[u128; 2]> = match addresses {
            Some(addresses) => addresses.iter().map(|it| number(*it)).collect(),
            None => std::iter::once(&status.pod_ip)
                .chain(status.pod_ips.iter().map(|it| &it.ip))
                .filter_map(|it| it.parse().ok())
                .map(number)
                .collect(),
        };
        read.sort_unstable();
        read.dedup();
        if read.is_empty() {
            return None;
        }
        let sidecars = pod.spec.init_containers.iter();
        let sidecars = sidecars.filter(|it| it.restart_policy.as_deref() == Some("Always"));
        let mut ports: Vec<Binding> = pod
            .spec
            .containers
            .iter()
            .chain(sidecars)
            .flat_map(|container| &container.ports)
            .filter(|port| !port.name.is_empty())
            .filter_map(|port| {
                let number = u16::try_from(port.container_port).ok()?;
                Some(Binding {
                    name: port.name.as_str().into(),
                    port: PortRange {
                        protocol: protocol(port.protocol.as_deref())?,
                        first: number,
                        last: number,
                    },
                })
            })
            .collect();
        ports.sort_by(|a, b| (&a.name, a.port).cmp(&(&b.name, b.port)));
        ports.dedup();
        let node = pod.spec.node_name.as_str();
        Some(PodState {
            namespace: Arc::clone(namespace),
            name: name.into(),
            node: node.into(),
            labels: Labels::new(&pod.metadata.labels),
            addresses: read,
            ports: ports.into(),
            created: moment(pod.metadata.creation_timestamp.as_deref()),
            local: self.is_local(node),
            rulesets: [0; 2],
        })
    }

    fn is_local(&self, node: &str) -> bool {
        self.config.node.as_ref().is_none_or(|it| it == node)
    }

    pub(super) fn put_namespace(&mut self, name: &str, namespace: Option<&Namespace>) {
        let labels = namespace.map(|it| Labels::new(&it.metadata.labels));
        if labels.is_none() && !self.namespaces.contains_key(name) {
            return;
        }
        let state = self.namespaces.entry(name.into()).or_default();
        if state.labels == labels {
            return;
        }
        state.labels = labels;
        state.atoms.clear();
        state.subjects.clear();
        if let Some(labels) = &state.labels {
            for (number, selector) in self.pod_atoms.iter() {
                if is_of(&selector.namespaces, name, labels) {
                    state.atoms.insert(number, &selector.pods);
                }
            }
            for (number, selector) in self.subjects.iter() {
                if is_of(&selector.namespaces, name, labels) {
                    state.subjects.insert(number, &selector.pods);
                }
            }
        }
        for id in &state.pods {
            if let Some(pod) = self.pods.get(id) {
                self.dirty.hosts.extend(&pod.addresses);
                self.dirty.endpoints.extend(&pod.addresses);
                if pod.local {
                    self.dirty.pods.insert(*id);
                }
            }
        }
        self.forget_namespace_if_empty(name);
    }

    fn forget_namespace_if_empty(&mut self, name: &str) {
        let empty = |it: &NamespaceState| it.labels.is_none() && it.pods.is_empty();
        if self.namespaces.get(name).is_some_and(empty) {
            self.namespaces.remove(name);
        }
    }

    pub(super) fn put_node(&mut self, name: &str, node: Option<&Node>) {
        let old = self.node_ids.get(name).copied();
        let new = node.map(|node| {
            let mut addresses: SmallVec<[u128; 2]> = node
                .status
                .addresses
                .iter()
                .filter_map(|it| it.address.parse().ok())
                .map(number)
                .collect();
            addresses.sort_unstable();
            addresses.dedup();
            let mut ranges: SmallVec<[Prefix; 2]> =
                node.spec.ranges().filter_map(Prefix::parse).collect();
            ranges.sort_unstable();
            ranges.dedup();
            NodeState {
                name: name.into(),
                labels: Labels::new(&node.metadata.labels),
                addresses,
                ranges,
                local: self.is_local(name),
                rulesets: [0; 2],
            }
        });
        let id = match (old, &new) {
            (None, None) => return,
            (Some(id), _) => id,
            (None, Some(_)) => {
                self.next_node += 1;
                self.node_ids.insert(name.into(), self.next_node);
                self.next_node
            }
        };
        let ranges = |node: Option<&NodeState>| node.map(|it| it.ranges.clone());
        let old = ranges(self.nodes.get(&id)).unwrap_or_default();
        self.change_ranges(&old, &ranges(new.as_ref()).unwrap_or_default());
        let mut rulesets = [0; 2];
        if let Some(before) = self.nodes.get_mut(&id) {
            rulesets = before.rulesets;
            let same =
                |it: &NodeState| it.labels == before.labels && it.addresses == before.addresses;
            if let Some(new) = new.as_ref().filter(|it| same(it)) {
                before.ranges.clone_from(&new.ranges);
                return;
            }
            for address in &before.addresses {
                if let Some(host) = self.hosts.get_mut(address) {
                    host.nodes.retain(|it| *it != id);
                }
                self.dirty.hosts.insert(*address);
                self.dirty.endpoints.insert(*address);
            }
        }
        let Some(mut new) = new else {
            self.nodes.remove(&id);
            self.node_ids.remove(name);
            self.dirty.nodes.remove(&id);
            self.leave_rulesets(rulesets, [0; 2]);
            return;
        };
        new.rulesets = rulesets;
        for address in &new.addresses {
            self.hosts.entry(*address).or_default().nodes.push(id);
            self.dirty.hosts.insert(*address);
            self.dirty.endpoints.insert(*address);
        }
        if new.local {
            self.dirty.nodes.insert(id);
        }
        self.nodes.insert(id, new);
    }

    /// Replaces ranges of pods' addresses. A range that spans a whole address family is ignored:
    /// with it, no address would be outside the cluster.
    pub(super) fn change_ranges(&mut self, old: &[Prefix], new: &[Prefix]) {
        if old == new {
            return;
        }
        let is_range = |it: &&Prefix| **it != Prefix::V4 && **it != Prefix::V6;
        // Kept ones are never removed in between.
        for range in new.iter().filter(is_range) {
            let count = self.pod_ranges.entry(*range).or_default();
            *count += 1;
            if *count == 1 {
                self.put_range(*range, true);
            }
        }
        for range in old.iter().filter(is_range) {
            let Some(count) = self.pod_ranges.get_mut(range) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.pod_ranges.remove(range);
                self.put_range(*range, false);
            }
        }
    }

    /// Returns the owner of an address: a node before pods, which cannot have its
    /// address; the newer of two pods, since the older one is terminating.
    pub(super) fn owner(&self, address: u128) -> Option<AddressOwner> {
        let host = self.hosts.get(&address)?;
        if let Some(node) = host.nodes.iter().min() {
            return Some(AddressOwner::Node(*node));
        }
        let known = host.pods.iter().filter_map(|id| {
            let pod = self.pods.get(id)?;
            let state = self.namespaces.get(&pod.namespace)?;
            state.labels.as_ref()?;
            Some((pod.created, &pod.namespace, &pod.name, *id))
        });
        known.max().map(|(_, _, _, id)| AddressOwner::Pod(id))
    }
}

impl PodState {
    fn is_like(&self, other: &Self) -> bool {
        self.labels == other.labels
            && self.addresses == other.addresses
            && self.ports == other.ports
            && self.node == other.node
            && self.created == other.created
    }
}

/// Converts a time to a number with the same order; 0 if there is none.
fn moment(text: Option<&str>) -> u64 {
    let digits = text.unwrap_or_default().bytes();
    digits
        .filter(u8::is_ascii_digit)
        .take(14)
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}
