//! The cluster as placement sees it: nodes as columns.
//!
//! Each node has a place; what filters and scores read of all nodes lies in
//! one column each (a struct of arrays), and what is a yes or no for a node
//! lies in bitsets: a label or taint that many nodes have is matched once, not
//! per node. Changes are applied one by one as they are told; `changed_since`
//! says which nodes changed, so that what was computed for equal pods is
//! computed again for those only.

use std::sync::Arc;

use compact_str::CompactString;
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::selector::{NodeTerm, Operator, Requirement};
use crate::view::{HostPort, Node, Pod, Requests, Taint};

/// Why a pod that did not fit may fit now, or what a plugin waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake(u16);

impl Wake {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// A node was added.
    pub const NODE_ADDED: Self = Self(1);
    /// A node has more to allocate.
    pub const NODE_ALLOCATABLE: Self = Self(2);
    /// Labels of a node changed.
    pub const NODE_LABELS: Self = Self(4);
    /// Taints of a node changed.
    pub const NODE_TAINTS: Self = Self(8);
    /// A node was uncordoned.
    pub const NODE_SCHEDULABLE: Self = Self(16);
    /// A pod left a node.
    pub const POD_REMOVED: Self = Self(32);
    /// A claim, or what claims are bound to, changed.
    pub const CLAIMS: Self = Self(64);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether they have something in common.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Namespace and name of a pod.
pub type PodKey = (CompactString, CompactString);

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
    changed: Vec<u64>,

    /// What nodes have.
    pub(crate) allocatable: Columns,
    /// What the pods on them ask for.
    pub(crate) requested: Columns,
    /// As `requested`, with a minimum for pods that ask for nothing.
    pub(crate) cpu_nonzero: Vec<i64>,
    pub(crate) memory_nonzero: Vec<i64>,

    unschedulable: Bits,
    /// By key, by value: the nodes that have the label.
    labels: FxHashMap<CompactString, FxHashMap<CompactString, Bits>>,
    taints: FxHashMap<Taint, Bits>,
    ports: Vec<Vec<HostPort>>,
    /// By name: the size, and the nodes that have the image.
    images: FxHashMap<CompactString, (i64, Bits)>,
    nodes: Vec<Option<Arc<Node>>>,

    pods: FxHashMap<PodKey, Placed>,
    on: Vec<Vec<PodKey>>,
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
struct Placed {
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

    /// Cordoned nodes.
    #[must_use]
    pub const fn unschedulable(&self) -> &Bits {
        &self.unschedulable
    }

    /// Every taint, with the nodes that have it.
    pub fn taints(&self) -> impl Iterator<Item = (&Taint, &Bits)> {
        self.taints.iter()
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

    /// The pods on a node.
    pub fn pods_on(&self, place: usize) -> impl Iterator<Item = &Arc<Pod>> {
        let keys = self.on.get(place).map_or(&[][..], Vec::as_slice);
        keys.iter()
            .filter_map(|key| self.pods.get(key))
            .map(|placed| &placed.pod)
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
            Operator::NotIn(_) | Operator::DoesNotExist => {
                nodes = self.live.clone();
                for (value, with) in values.into_iter().flatten() {
                    if !requirement.operator.matches(Some(value)) {
                        nodes.subtract(with);
                    }
                }
            }
            Operator::Exists | Operator::Gt(_) | Operator::Lt(_) => {
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

    /// A node is there, or changed; what that may mean to waiting pods.
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
        }
        for taint in &node.taints {
            self.taints.entry(taint.clone()).or_default().insert(place);
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
        wake
    }

    /// A node is gone. Pods bound to it keep counting until they are gone.
    pub fn remove_node(&mut self, name: &str) {
        let Some(place) = self.place_of(name) else {
            return;
        };
        if let Some(old) = self.nodes.get_mut(place).and_then(Option::take) {
            self.forget_node(place, &old);
        }
        self.live.remove(place);
        self.touch(place);
        self.release(place);
    }

    /// A pod is on a node (or is assumed to be). A pod of that name that was
    /// elsewhere is there no longer.
    pub fn put_pod(&mut self, pod: &Arc<Pod>, node: &str) {
        let key = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        if let Some(known) = self.pods.get_mut(&key)
            && self.names.get(known.place).is_some_and(|name| name == node)
            && Arc::ptr_eq(&known.pod.shape, &pod.shape)
        {
            // nothing that counts has changed
            known.pod = Arc::clone(pod);
            return;
        }
        self.remove_pod(&key);
        let place = self.place_for(node);
        self.count(place, &pod.shape.requests, 1);
        if let Some(ports) = self.ports.get_mut(place) {
            ports.extend(pod.shape.ports.iter().cloned());
        }
        if let Some(on) = self.on.get_mut(place) {
            on.push(key.clone());
        }
        self.pods.insert(
            key,
            Placed {
                pod: Arc::clone(pod),
                place,
            },
        );
        self.touch(place);
    }

    /// A pod is on no node any more; whether it was on one.
    pub fn remove_pod(&mut self, key: &PodKey) -> bool {
        let Some(Placed { pod, place }) = self.pods.remove(key) else {
            return false;
        };
        self.count(place, &pod.shape.requests, -1);
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
        }
        for taint in &node.taints {
            if let Some(nodes) = self.taints.get_mut(taint) {
                nodes.remove(place);
                if nodes.is_empty() {
                    self.taints.remove(taint);
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
