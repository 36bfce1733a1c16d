//! The cluster as placement sees it: nodes in columns.
//!
//! Each node has a place. Values that filters and scores read of all nodes are in one
//! column each (a struct of arrays), and yes-or-no properties are in bitsets: a label or
//! taint that many nodes have is matched once, not per node. Changes are applied one by
//! one; `changed_since` returns the changed nodes, so that cached results for equal pods
//! are recomputed for those only.

use std::sync::Arc;

use compact_str::CompactString;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bits::Bits;
use crate::groups::{Namespaces, PodGroups};
use crate::selector::{NodeTerm, Operator, Requirement};
use crate::view::{HostPort, Node, Pod, Requests, Taint};
use crate::volumes::VolumeUsage;

pub use crate::view::PodKey;
pub use crate::wake::Wake;

/// Nodes and the pods on them.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    places: FxHashMap<CompactString, usize>,
    /// Places that no node has.
    free: Vec<usize>,
    /// Places of nodes that exist. A place may also be held by a name that
    /// pods are bound to while the node is not known.
    live: Bits,
    names: Vec<CompactString>,
    clock: u64,
    /// The clock when a node object last changed.
    nodes_clock: u64,
    changed: Vec<u64>,

    /// The allocatable resources of nodes.
    pub(crate) allocatable: Columns,
    /// The requests of the pods on them.
    pub(crate) requested: Columns,
    /// As `requested`, with a minimum for pods that ask for nothing.
    pub(crate) cpu_nonzero: Vec<i64>,
    pub(crate) memory_nonzero: Vec<i64>,

    unschedulable: Bits,
    /// By key and value: the nodes that have the label.
    labels: FxHashMap<CompactString, FxHashMap<CompactString, Bits>>,
    /// By key: the nodes that have a label with that key.
    label_keys: FxHashMap<CompactString, Bits>,
    taints: FxHashMap<Taint, Bits>,
    /// By feature: the nodes that declare it.
    features: FxHashMap<CompactString, Bits>,
    ports: Vec<Vec<HostPort>>,
    /// By name: the size, and the nodes that have the image.
    images: FxHashMap<CompactString, (i64, Bits)>,
    nodes: Vec<Option<Arc<Node>>>,
    device_resources: FxHashSet<CompactString>,

    pods: FxHashMap<PodKey, PlacedPod>,
    on: Vec<Vec<PodKey>>,
    groups: PodGroups,
    namespaces: Namespaces,
    volume_usage: VolumeUsage,
}

/// Resources, a column each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) cpu: Vec<i64>,
    pub(crate) memory: Vec<i64>,
    pub(crate) storage: Vec<i64>,
    pub(crate) pods: Vec<i64>,
    pub(crate) extended: FxHashMap<CompactString, Vec<i64>>,
}

#[derive(Clone, Debug)]
struct PlacedPod {
    pod: Arc<Pod>,
    place: usize,
}

impl Columns {
    fn grow(&mut self, len: usize) {
        for column in [
            &mut self.cpu,
            &mut self.memory,
            &mut self.storage,
            &mut self.pods,
        ] {
            column.resize(len, 0);
        }
    }

    fn clear(&mut self, place: usize) {
        let columns = [
            &mut self.cpu,
            &mut self.memory,
            &mut self.storage,
            &mut self.pods,
        ];
        for column in columns.into_iter().chain(self.extended.values_mut()) {
            if let Some(value) = column.get_mut(place) {
                *value = 0;
            }
        }
    }

    fn add_extended(&mut self, name: &CompactString, place: usize, value: i64) {
        let column = self.extended.entry(name.clone()).or_default();
        if column.len() <= place {
            column.resize(place + 1, 0);
        }
        add(column, place, value);
    }

    pub(crate) fn get_extended(&self, name: &str, place: usize) -> i64 {
        self.extended
            .get(name)
            .and_then(|column| column.get(place))
            .copied()
            .unwrap_or(0)
    }
}

fn add(column: &mut [i64], place: usize, value: i64) {
    if let Some(cell) = column.get_mut(place) {
        *cell = cell.saturating_add(value);
    }
}

impl Snapshot {
    /// A cluster without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The nodes that exist.
    #[must_use]
    pub const fn live(&self) -> &Bits {
        &self.live
    }

    /// The name of the node at `place`.
    #[must_use]
    pub fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", CompactString::as_str)
    }

    /// The place of the node of that name, if it exists.
    #[must_use]
    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.places
            .get(name)
            .copied()
            .filter(|place| self.live.contains(*place))
    }

    /// How many places there are; the length of every column.
    #[must_use]
    pub const fn places(&self) -> usize {
        self.names.len()
    }

    /// Moves on with every change.
    #[must_use]
    pub const fn clock(&self) -> u64 {
        self.clock
    }

    /// Places that changed after `clock`.
    #[must_use]
    pub fn changed_since(&self, clock: u64) -> Bits {
        let changed = self.changed.iter().enumerate();
        changed
            .filter(|(_, at)| **at > clock)
            .map(|(place, _)| place)
            .collect()
    }

    /// The clock when a node object last changed.
    #[must_use]
    pub const fn nodes_clock(&self) -> u64 {
        self.nodes_clock
    }

    /// Pods on all nodes, by labels and by affinity terms.
    #[must_use]
    pub const fn groups(&self) -> &PodGroups {
        &self.groups
    }

    /// Claims and disks that the pods on all nodes use.
    #[must_use]
    pub const fn volume_usage(&self) -> &VolumeUsage {
        &self.volume_usage
    }

    /// Labels of namespaces.
    #[must_use]
    pub const fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Sets the labels of a namespace, or removes it; returns which waiting pods that may
    /// help.
    pub fn set_namespace(
        &mut self,
        name: &CompactString,
        labels: Option<&control_client::StringMap>,
    ) -> Wake {
        if self.namespaces.set(name, labels) {
            Wake::NAMESPACE_LABELS
        } else {
            Wake::NONE
        }
    }

    /// The value of a label of the node at `place`.
    #[must_use]
    pub fn label(&self, place: usize, key: &str) -> Option<&str> {
        let node = self.nodes.get(place)?.as_ref()?;
        node.metadata.labels.get(key)
    }

    /// Nodes that have a label with this key.
    #[must_use]
    pub fn with_label_key(&self, key: &str) -> Option<&Bits> {
        self.label_keys.get(key)
    }

    /// Cordoned nodes.
    #[must_use]
    pub const fn unschedulable(&self) -> &Bits {
        &self.unschedulable
    }

    /// Every taint, with the nodes that have it.
    pub fn taints(&self) -> impl Iterator<Item = (&Taint, &Bits)> {
        self.taints.iter()
    }

    /// Returns the allocatable amount of a resource on all nodes, and the requests of
    /// their pods; with `nonzero`, with a minimum for pods without CPU or memory
    /// requests.
    #[must_use]
    pub(crate) fn resource(&self, name: &str, nonzero: bool) -> Option<(&[i64], &[i64])> {
        let (has, used) = (&self.allocatable, &self.requested);
        Some(match name {
            "cpu" if nonzero => (&has.cpu, &self.cpu_nonzero),
            "memory" if nonzero => (&has.memory, &self.memory_nonzero),
            "cpu" => (&has.cpu, &used.cpu),
            "memory" => (&has.memory, &used.memory),
            "ephemeral-storage" => (&has.storage, &used.storage),
            _ => {
                let used = used.extended.get(name).map_or(&[][..], Vec::as_slice);
                (has.extended.get(name)?, used)
            }
        })
    }

    /// Returns whether a device class stands for this extended resource.
    #[must_use]
    pub fn is_device_resource(&self, name: &str) -> bool {
        self.device_resources.contains(name)
    }

    /// Sets the extended resources that device classes stand for. A change invalidates
    /// all nodes.
    pub fn set_device_resources(&mut self, names: FxHashSet<CompactString>) {
        if self.device_resources != names {
            self.device_resources = names;
            for place in 0..self.names.len() {
                self.touch(place);
            }
        }
    }

    /// Nodes that declare a feature.
    #[must_use]
    pub fn declaring(&self, feature: &str) -> Option<&Bits> {
        self.features.get(feature)
    }

    /// Host ports in use on a node.
    #[must_use]
    pub fn ports(&self, place: usize) -> &[HostPort] {
        self.ports.get(place).map_or(&[], Vec::as_slice)
    }

    /// An image's size in bytes, and the nodes that have it.
    #[must_use]
    pub fn image(&self, name: &str) -> Option<(i64, &Bits)> {
        self.images.get(name).map(|(size, nodes)| (*size, nodes))
    }

    /// The node at `place`.
    #[must_use]
    pub fn node(&self, place: usize) -> Option<&Arc<Node>> {
        self.nodes.get(place)?.as_ref()
    }

    /// The pods on a node.
    pub fn pods_on(&self, place: usize) -> impl Iterator<Item = &Arc<Pod>> {
        let keys = self.on.get(place).map_or(&[][..], Vec::as_slice);
        keys.iter()
            .filter_map(|key| self.pods.get(key))
            .map(|placed| &placed.pod)
    }

    /// The keys of the pods on a node, in the order that stock keeps them in: a pod that
    /// changes comes last, and the last takes the place of one that goes.
    #[must_use]
    pub fn order_on(&self, place: usize) -> &[PodKey] {
        self.on.get(place).map_or(&[], Vec::as_slice)
    }

    /// Sets the order of the pods on a node again.
    pub(crate) fn restore_order(&mut self, place: usize, order: Vec<PodKey>) {
        if let Some(on) = self.on.get_mut(place) {
            *on = order;
        }
    }

    /// Nodes whose label `key` is as `operator` says.
    #[must_use]
    pub fn matching(&self, requirement: &Requirement) -> Bits {
        let mut nodes = Bits::new();
        let values = self.labels.get(&requirement.key);
        match &requirement.operator {
            Operator::In(wanted) => {
                for value in wanted {
                    if let Some(with) = values.and_then(|values| values.get(value)) {
                        nodes.union(with);
                    }
                }
            }
            Operator::Exists => {
                if let Some(with) = self.with_label_key(&requirement.key) {
                    nodes.union(with);
                }
            }
            Operator::DoesNotExist => {
                nodes = self.live.clone();
                if let Some(with) = self.with_label_key(&requirement.key) {
                    nodes.subtract(with);
                }
            }
            Operator::NotIn(_) => {
                nodes = self.live.clone();
                for (value, with) in values.into_iter().flatten() {
                    if !requirement.operator.matches(Some(value)) {
                        nodes.subtract(with);
                    }
                }
            }
            Operator::Gt(_) | Operator::Lt(_) => {
                for (value, with) in values.into_iter().flatten() {
                    if requirement.operator.matches(Some(value)) {
                        nodes.union(with);
                    }
                }
            }
        }
        nodes
    }

    /// Nodes with this label.
    #[must_use]
    pub fn labelled(&self, key: &str, value: &str) -> Option<&Bits> {
        self.labels.get(key)?.get(value)
    }

    /// Nodes that a node selector term matches.
    #[must_use]
    pub fn matching_term(&self, term: &NodeTerm) -> Bits {
        if !term.valid {
            return Bits::new();
        }
        let mut nodes = self.live.clone();
        for requirement in &term.labels {
            nodes.intersect(&self.matching(requirement));
        }
        for (only, name) in &term.names {
            let named: Bits = self.place_of(name).into_iter().collect();
            if *only {
                nodes.intersect(&named);
            } else {
                nodes.subtract(&named);
            }
        }
        nodes
    }

    /// Adds or updates a node; returns which waiting pods that may help.
    pub fn set_node(&mut self, node: &Arc<Node>) -> Wake {
        let place = self.place_for(&node.metadata.name);
        let old = self.nodes.get(place).cloned().flatten();
        let mut wake = Wake::NONE;
        let known = old.is_some();
        if let Some(old) = old {
            let (was, is) = (&old.allocatable, &node.allocatable);
            if was != is {
                wake = wake.and(Wake::NODE_ALLOCATABLE);
            }
            if old.metadata.labels != node.metadata.labels {
                wake = wake.and(Wake::NODE_LABELS);
            }
            if old.taints != node.taints {
                wake = wake.and(Wake::NODE_TAINTS);
            }
            if old.features != node.features {
                wake = wake.and(Wake::NODE_FEATURES);
            }
            if old.unschedulable && !node.unschedulable {
                wake = wake.and(Wake::NODE_SCHEDULABLE);
            }
            let same = wake.is_none()
                && old.unschedulable == node.unschedulable
                && old.images == node.images;
            if same {
                // a heartbeat
                self.put_node(place, node);
                return wake;
            }
            self.forget_node(place, &old);
        }
        if !known {
            wake = Wake::NODE_ADDED;
        }
        self.live.insert(place);
        if node.unschedulable {
            self.unschedulable.insert(place);
        }
        for (key, value) in node.metadata.labels.iter() {
            let values = self.labels.entry(key.into()).or_default();
            values.entry(value.into()).or_default().insert(place);
            let with_key = self.label_keys.entry(key.into()).or_default();
            with_key.insert(place);
        }
        for taint in &node.taints {
            self.taints.entry(taint.clone()).or_default().insert(place);
        }
        for feature in &node.features {
            let with = self.features.entry(feature.clone()).or_default();
            with.insert(place);
        }
        for (name, size) in &node.images {
            let image = self.images.entry(name.clone()).or_default();
            image.0 = *size;
            image.1.insert(place);
        }
        let allocatable = &node.allocatable;
        add(&mut self.allocatable.cpu, place, allocatable.cpu);
        add(&mut self.allocatable.memory, place, allocatable.memory);
        add(&mut self.allocatable.storage, place, allocatable.storage);
        add(&mut self.allocatable.pods, place, allocatable.pods);
        for (name, value) in &allocatable.extended {
            self.allocatable.add_extended(name, place, *value);
        }
        self.put_node(place, node);
        self.touch(place);
        self.nodes_clock = self.clock;
        wake
    }

    /// Removes a node. Pods bound to it keep counting until they are deleted.
    pub fn remove_node(&mut self, name: &str) {
        let Some(place) = self.place_of(name) else {
            return;
        };
        if let Some(old) = self.nodes.get_mut(place).and_then(Option::take) {
            self.forget_node(place, &old);
        }
        self.live.remove(place);
        self.touch(place);
        self.nodes_clock = self.clock;
        self.release(place);
    }

    /// A pod is on a node (or is assumed to be). A pod of that name that was
    /// elsewhere is there no longer.
    pub fn put_pod(&mut self, pod: &Arc<Pod>, node: &str) {
        let key = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        if let Some(known) = self.pods.get_mut(&key)
            && self.names.get(known.place).is_some_and(|name| name == node)
            && Arc::ptr_eq(&known.pod.shape, &pod.shape)
            && known.pod.metadata.labels == pod.metadata.labels
            && known.pod.metadata.is_terminating() == pod.metadata.is_terminating()
        {
            // Nothing relevant has changed except the order.
            known.pod = Arc::clone(pod);
            let place = known.place;
            if let Some(on) = self.on.get_mut(place)
                && on.last() != Some(&key)
                && let Some(at) = on.iter().position(|other| *other == key)
            {
                on.swap_remove(at);
                on.push(key);
            }
            return;
        }
        self.remove_pod(&key);
        let place = self.place_for(node);
        self.count(place, &pod.shape.requests, 1);
        self.groups.add(place, pod);
        self.volume_usage.add(place, pod);
        if let Some(ports) = self.ports.get_mut(place) {
            ports.extend(pod.shape.ports.iter().cloned());
        }
        if let Some(on) = self.on.get_mut(place) {
            on.push(key.clone());
        }
        self.pods.insert(
            key,
            PlacedPod {
                pod: Arc::clone(pod),
                place,
            },
        );
        self.touch(place);
    }

    /// A pod is on no node any more; whether it was on one.
    pub fn remove_pod(&mut self, key: &PodKey) -> bool {
        let Some(PlacedPod { pod, place }) = self.pods.remove(key) else {
            return false;
        };
        self.count(place, &pod.shape.requests, -1);
        self.groups.remove(place, &pod);
        self.volume_usage.remove(place, &pod);
        if let Some(ports) = self.ports.get_mut(place) {
            for port in &pod.shape.ports {
                if let Some(at) = ports.iter().position(|used| used == port) {
                    ports.swap_remove(at);
                }
            }
        }
        if let Some(on) = self.on.get_mut(place)
            && let Some(at) = on.iter().position(|other| other == key)
        {
            on.swap_remove(at);
        }
        self.touch(place);
        self.release(place);
        true
    }

    /// The node that a pod is on, or is assumed to be on.
    #[must_use]
    pub fn node_of(&self, key: &PodKey) -> Option<&str> {
        self.pods.get(key).map(|placed| self.name(placed.place))
    }

    /// The pod, if it is on a node.
    #[must_use]
    pub fn pod(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        self.pods.get(key).map(|placed| &placed.pod)
    }

    /// How many pods are on nodes.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    fn count(&mut self, place: usize, requests: &Requests, sign: i64) {
        let requested = &mut self.requested;
        add(&mut requested.cpu, place, sign * requests.cpu);
        add(&mut requested.memory, place, sign * requests.memory);
        add(&mut requested.storage, place, sign * requests.storage);
        add(&mut requested.pods, place, sign);
        for (name, value) in &requests.extended {
            requested.add_extended(name, place, sign * value);
        }
        add(&mut self.cpu_nonzero, place, sign * requests.cpu_nonzero);
        add(
            &mut self.memory_nonzero,
            place,
            sign * requests.memory_nonzero,
        );
    }

    /// The place of that name, a new one if need be.
    fn place_for(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.free.pop().unwrap_or(self.names.len());
        if place == self.names.len() {
            self.names.push(CompactString::default());
            self.changed.push(0);
            self.ports.push(Vec::new());
            self.nodes.push(None);
            self.on.push(Vec::new());
            self.cpu_nonzero.push(0);
            self.memory_nonzero.push(0);
            self.allocatable.grow(place + 1);
            self.requested.grow(place + 1);
            self.groups.grow(place + 1);
        }
        if let Some(slot) = self.names.get_mut(place) {
            *slot = name.into();
        }
        self.places.insert(name.into(), place);
        place
    }

    /// Gives a place back that neither a node nor a pod needs.
    fn release(&mut self, place: usize) {
        if self.live.contains(place) || self.on.get(place).is_some_and(|on| !on.is_empty()) {
            return;
        }
        if let Some(name) = self.names.get_mut(place) {
            let name = std::mem::take(name);
            if self.places.remove(&name).is_some() {
                self.free.push(place);
            }
        }
    }

    fn forget_node(&mut self, place: usize, node: &Node) {
        self.unschedulable.remove(place);
        self.allocatable.clear(place);
        for (key, value) in node.metadata.labels.iter() {
            if let Some(values) = self.labels.get_mut(key) {
                if let Some(nodes) = values.get_mut(value) {
                    nodes.remove(place);
                    if nodes.is_empty() {
                        values.remove(value);
                    }
                }
                if values.is_empty() {
                    self.labels.remove(key);
                }
            }
            if let Some(with_key) = self.label_keys.get_mut(key) {
                with_key.remove(place);
                if with_key.is_empty() {
                    self.label_keys.remove(key);
                }
            }
        }
        for taint in &node.taints {
            if let Some(nodes) = self.taints.get_mut(taint) {
                nodes.remove(place);
                if nodes.is_empty() {
                    self.taints.remove(taint);
                }
            }
        }
        for feature in &node.features {
            if let Some(nodes) = self.features.get_mut(feature) {
                nodes.remove(place);
                if nodes.is_empty() {
                    self.features.remove(feature);
                }
            }
        }
        for (name, _) in &node.images {
            if let Some((_, nodes)) = self.images.get_mut(name) {
                nodes.remove(place);
                if nodes.is_empty() {
                    self.images.remove(name);
                }
            }
        }
    }

    fn put_node(&mut self, place: usize, node: &Arc<Node>) {
        if let Some(slot) = self.nodes.get_mut(place) {
            *slot = Some(Arc::clone(node));
        }
    }

    fn touch(&mut self, place: usize) {
        self.clock += 1;
        if let Some(changed) = self.changed.get_mut(place) {
            *changed = self.clock;
        }
    }
}
