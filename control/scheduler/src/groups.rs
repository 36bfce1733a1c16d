//! Pods of all nodes, grouped by the properties that constraints of other pods see.
//!
//! A selector sees a pod's namespace and labels; a pod to be placed sees the affinity
//! terms of others. Both are interned, and each node lists those of its pods with counts:
//! a selector is evaluated once per set of labels, never once per pod.

use std::hash::Hash;
use std::sync::Arc;

use compact_str::CompactString;
use control_client::StringMap;
use rustc_hash::FxHashMap;

use crate::selector::LabelSelector;
use crate::view::{Pod, PodTerm};

/// Namespace and labels of pods.
pub type LabelSet = (CompactString, StringMap);

/// Selects pods of some namespaces by their labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// Namespaces by name.
    pub namespaces: Box<[CompactString]>,
    /// Namespaces by label.
    pub namespace_selector: Option<LabelSelector>,
    /// The pods' labels.
    pub labels: LabelSelector,
}

/// The effect of a placed pod's affinity term on pods to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TermKind {
    /// Required anti-affinity: pods that it selects are kept away.
    RequiredAntiAffinity,
    /// Required affinity: pods that it selects are attracted.
    RequiredAffinity,
    /// A preference with this weight; negative for anti-affinity.
    Preferred(i32),
}

/// An affinity term of placed pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlacedTerm {
    /// Its effect.
    pub kind: TermKind,
    /// The node label whose values are the domains.
    pub topology_key: CompactString,
    /// The pods that it is about.
    pub selector: PodSelector,
}

/// Pods of one label set on a node.
#[derive(Clone, Copy, Debug)]
pub struct LabelSetCount {
    /// The label set's slot.
    pub slot: usize,
    /// The total number of pods.
    pub pods: u32,
    /// Those that are being deleted.
    pub terminating: u32,
}

/// Equal values share a slot. A slot is reused; `born` tells its values apart.
#[derive(Clone, Debug)]
pub struct Interner<T> {
    slots: Vec<Option<Slot<T>>>,
    known: FxHashMap<Arc<T>, usize>,
    free: Vec<usize>,
    changes: u64,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    value: Arc<T>,
    uses: u32,
    born: u64,
}

/// Label sets and affinity terms of the pods on all nodes.
#[derive(Clone, Debug, Default)]
pub struct PodGroups {
    /// Label sets.
    pub label_sets: Interner<LabelSet>,
    /// Affinity terms.
    pub terms: Interner<PlacedTerm>,
    label_sets_on: Vec<Vec<LabelSetCount>>,
    terms_on: Vec<Vec<(usize, u32)>>,
}

/// Labels of namespaces.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    labels: FxHashMap<CompactString, StringMap>,
    version: u64,
}

// === impl PodSelector ===

impl PodSelector {
    /// Returns what a term of a pod in `namespace` selects. Without namespaces and
    /// without a namespace selector, it selects in the pod's own.
    #[must_use]
    pub fn of_term(term: &PodTerm, namespace: &CompactString) -> Self {
        let namespaces = if term.namespaces.is_empty() && term.namespace_selector.is_none() {
            [namespace.clone()].into()
        } else {
            term.namespaces.clone()
        };
        Self {
            namespaces,
            namespace_selector: term.namespace_selector.clone(),
            labels: term.selector.clone(),
        }
    }

    /// Pods of one namespace.
    #[must_use]
    pub fn in_namespace(namespace: &CompactString, labels: LabelSelector) -> Self {
        Self {
            namespaces: [namespace.clone()].into(),
            namespace_selector: None,
            labels,
        }
    }

    /// Returns whether a pod is selected. An unknown namespace has no labels.
    #[must_use]
    pub fn matches(
        &self,
        namespace: &str,
        labels: &StringMap,
        namespace_labels: &Namespaces,
    ) -> bool {
        let by_name = || self.namespaces.iter().any(|name| name == namespace);
        let by_label = || {
            let selector = self.namespace_selector.as_ref();
            selector.is_some_and(|selector| selector.matches(namespace_labels.get(namespace)))
        };
        (by_name() || by_label()) && self.labels.matches(labels)
    }
}

// === impl Namespaces ===

static NO_LABELS: std::sync::LazyLock<StringMap> = std::sync::LazyLock::new(StringMap::default);

impl Namespaces {
    /// The labels of a namespace.
    #[must_use]
    pub fn get(&self, name: &str) -> &StringMap {
        self.labels.get(name).unwrap_or(&NO_LABELS)
    }

    /// Moves on with every change.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Sets the labels of a namespace, or removes it; whether that changes anything.
    pub fn set(&mut self, name: &CompactString, labels: Option<&StringMap>) -> bool {
        let before = match labels {
            Some(labels) => self.labels.insert(name.clone(), labels.clone()),
            None => self.labels.remove(name),
        };
        let changed = before.as_ref() != labels;
        self.version += u64::from(changed);
        changed
    }
}

// === impl Interner ===

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            known: FxHashMap::default(),
            free: Vec::new(),
            changes: 0,
        }
    }
}

impl<T: Eq + Hash> Interner<T> {
    fn add(&mut self, value: T) -> usize {
        if let Some(slot) = self.known.get(&value) {
            if let Some(Some(known)) = self.slots.get_mut(*slot) {
                known.uses += 1;
            }
            return *slot;
        }
        self.changes += 1;
        let value = Arc::new(value);
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        if let Some(free) = self.slots.get_mut(slot) {
            *free = Some(Slot {
                value: Arc::clone(&value),
                uses: 1,
                born: self.changes,
            });
        }
        self.known.insert(value, slot);
        slot
    }

    fn remove(&mut self, value: &T) -> Option<usize> {
        let slot = *self.known.get(value)?;
        let known = self.slots.get_mut(slot)?;
        let uses = &mut known.as_mut()?.uses;
        *uses -= 1;
        if *uses == 0 {
            *known = None;
            self.known.remove(value);
            self.free.push(slot);
            self.changes += 1;
        }
        Some(slot)
    }

    /// Returns the value in a slot, and when it was added.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<(&T, u64)> {
        let slot = self.slots.get(slot)?.as_ref()?;
        Some((&slot.value, slot.born))
    }

    /// Returns all values, with their slots and when they were added.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T, u64)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, slot)| slot.as_ref().map(|slot| (at, &*slot.value, slot.born)))
    }

    /// Moves on when values come and go.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// How many slots there are.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots.len()
    }
}

// === impl PodGroups ===

impl PodGroups {
    /// The label sets of the pods on a node.
    #[must_use]
    pub fn label_sets_on(&self, place: usize) -> &[LabelSetCount] {
        self.label_sets_on.get(place).map_or(&[], Vec::as_slice)
    }

    /// The affinity terms of the pods on a node: slots, and how many pods have each.
    #[must_use]
    pub fn terms_on(&self, place: usize) -> &[(usize, u32)] {
        self.terms_on.get(place).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn grow(&mut self, places: usize) {
        self.label_sets_on.resize_with(places, Vec::new);
        self.terms_on.resize_with(places, Vec::new);
    }

    pub(crate) fn add(&mut self, place: usize, pod: &Pod) {
        let meta = &pod.metadata;
        let labels = (meta.namespace.clone(), meta.labels.clone());
        let slot = self.label_sets.add(labels);
        let terminating = u32::from(meta.is_terminating());
        if let Some(on) = self.label_sets_on.get_mut(place) {
            match on.iter_mut().find(|count| count.slot == slot) {
                Some(count) => {
                    count.pods += 1;
                    count.terminating += terminating;
                }
                None => on.push(LabelSetCount {
                    slot,
                    pods: 1,
                    terminating,
                }),
            }
        }
        for term in placed_terms(pod) {
            let slot = self.terms.add(term);
            if let Some(on) = self.terms_on.get_mut(place) {
                match on.iter_mut().find(|(known, _)| *known == slot) {
                    Some((_, count)) => *count += 1,
                    None => on.push((slot, 1)),
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, place: usize, pod: &Pod) {
        let meta = &pod.metadata;
        let labels = (meta.namespace.clone(), meta.labels.clone());
        if let Some(slot) = self.label_sets.remove(&labels)
            && let Some(on) = self.label_sets_on.get_mut(place)
            && let Some(at) = on.iter().position(|count| count.slot == slot)
            && let Some(count) = on.get_mut(at)
        {
            count.pods -= 1;
            count.terminating -= u32::from(meta.is_terminating());
            if count.pods == 0 {
                on.swap_remove(at);
            }
        }
        for term in placed_terms(pod) {
            if let Some(slot) = self.terms.remove(&term)
                && let Some(on) = self.terms_on.get_mut(place)
                && let Some(at) = on.iter().position(|(known, _)| *known == slot)
                && let Some((_, count)) = on.get_mut(at)
            {
                *count -= 1;
                if *count == 0 {
                    on.swap_remove(at);
                }
            }
        }
    }
}

/// The affinity terms of a pod, as others see them.
pub(crate) fn placed_terms(pod: &Pod) -> impl Iterator<Item = PlacedTerm> + '_ {
    let shape = &pod.shape;
    let of = |kind, term: &PodTerm| PlacedTerm {
        kind,
        topology_key: term.topology_key.clone(),
        selector: PodSelector::of_term(term, &pod.metadata.namespace),
    };
    let away = shape.anti_affinity.iter();
    let away = away.map(move |term| of(TermKind::RequiredAntiAffinity, term));
    let near = shape.affinity.iter();
    let near = near.map(move |term| of(TermKind::RequiredAffinity, term));
    let preferred = shape.preferred_pods.iter();
    let preferred = preferred.map(move |(weight, term)| of(TermKind::Preferred(*weight), term));
    away.chain(near).chain(preferred)
}
