//! Compares all decisions on random, changing clusters with a simple reference that follows
//! kube-scheduler's plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control_client::{Cache, Change, StringMap, View};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::cases::{Objects, Tape, objects, pod_object, read};
use self::reference::{
    DISK, FULL, IN_USE, NO_SPACE, NO_VOLUME, NO_ZONE, OUT_OF_REACH, Reasons, Reference,
};
use super::state::{Rejections, VolumeState};
use super::{AssumedVolumes, VolumeReservation};
use crate::catalog::{Catalog, CatalogEvent};
use crate::snapshot::Snapshot;
use crate::view::{Node, Pod};

mod cases;
mod reference;

fn cache<V: View>(objects: &[Value]) -> Cache<V> {
    Cache::fixed(objects.iter().map(read))
}

fn catalog(all: &Objects) -> Catalog {
    Catalog {
        persistent_volume_claims: cache(&all.claims),
        persistent_volumes: cache(&all.volumes),
        storage_classes: cache(&all.classes),
        csi_nodes: cache(&all.csi_nodes),
        csi_drivers: cache(&all.drivers),
        csi_storage_capacities: cache(&all.capacities),
        volume_attachments: cache(&all.attachments),
        ..Catalog::default()
    }
}

fn reference<'a>(
    all: &Objects,
    nodes: &'a BTreeMap<String, StringMap>,
    placed: &'a [(Arc<Pod>, String)],
) -> Reference<'a> {
    Reference {
        nodes,
        volumes: all.volumes.iter().map(read).collect(),
        claims: all.claims.iter().map(read).collect(),
        classes: all.classes.iter().map(read).collect(),
        csi_nodes: all.csi_nodes.iter().map(read).collect(),
        drivers: all.drivers.iter().map(read).collect(),
        capacities: all.capacities.iter().map(read).collect(),
        attachments: all.attachments.iter().map(read).collect(),
        placed,
    }
}

fn reasons_at(rejections: &Rejections, place: usize) -> BTreeSet<String> {
    let at = rejections
        .rejected
        .iter()
        .filter(|(nodes, ..)| nodes.contains(place));
    at.map(|(_, reason, _)| reason.to_string()).collect()
}

fn same(ours: &BTreeSet<String>, expected: &Reasons) -> bool {
    ours.iter().map(String::as_str).collect::<BTreeSet<_>>() == *expected
}

/// Follows the events of objects that are all added.
fn observe_all(assumed: &mut AssumedVolumes, all: &Objects) {
    fn added<V: View>(object: &Value) -> Change<V> {
        Change {
            previous: None,
            current: Some(Arc::new(read(object))),
        }
    }
    for object in &all.volumes {
        assumed.observe(&CatalogEvent::PersistentVolume(added(object)));
    }
    for object in &all.csi_nodes {
        assumed.observe(&CatalogEvent::CsiNode(added(object)));
    }
    for object in &all.capacities {
        assumed.observe(&CatalogEvent::CsiStorageCapacity(added(object)));
    }
    for object in &all.attachments {
        assumed.observe(&CatalogEvent::VolumeAttachment(added(object)));
    }
}

fn note(
    seen: &mut BTreeMap<&'static str, u32>,
    reservation: &VolumeReservation,
    assumed: &AssumedVolumes,
) {
    let mut count = |outcome, times: usize| {
        *seen.entry(outcome).or_default() += u32::try_from(times).unwrap_or(0);
    };
    let bindings = &reservation.static_bindings;
    count("static binding", bindings.len());
    let again = bindings
        .iter()
        .filter(|binding| assumed.claim_of(&binding.volume).is_some());
    count("assumed volume", again.count());
    count("provision", reservation.provisions.len());
    let selected = reservation
        .provisions
        .iter()
        .filter(|claim| assumed.selected_node(claim).is_some());
    count("selected node", selected.count());
}

/// Changes an object: a decision is written, or another writer is faster.
fn change(
    tape: &mut Tape<'_>,
    round: u32,
    all: &mut Objects,
    shown: &mut Objects,
    assumed: &mut AssumedVolumes,
) {
    fn changed<V: View>(old: &Value, new: &Value) -> Change<V> {
        let read = |object: &Value| {
            let object = Some(object).filter(|object| !object.is_null());
            object.map(|object| Arc::new(read(object)))
        };
        Change {
            previous: read(old),
            current: read(new),
        }
    }
    /// Changes one object of a kind: as was decided, or else by `other`.
    fn one(
        tape: &mut Tape<'_>,
        round: u32,
        all: &mut [Value],
        shown: &mut [Value],
        other: impl FnOnce(&mut Tape<'_>, &mut Value),
    ) -> Option<(Value, Value)> {
        let at = tape.below(all.len().max(1));
        let (all, shown) = (all.get_mut(at)?, shown.get_mut(at)?);
        let old = shown.clone();
        if all != shown && tape.one_in(2) {
            *shown = all.clone();
        } else {
            other(tape, shown);
        }
        shown["metadata"]["resourceVersion"] =
            (100 + round * 10 + u32::try_from(tape.below(9)).unwrap_or(0))
                .to_string()
                .into();
        *all = shown.clone();
        Some((old, shown.clone()))
    }
    match tape.below(5) {
        0 => {
            let relabel = |tape: &mut Tape<'_>, volume: &mut Value| {
                volume["metadata"]["labels"] = json!({"tier": tape.pick_one(&["fast", "slow"])});
                volume["spec"]["capacity"]["storage"] = format!("{}Gi", tape.below(5)).into();
                volume["status"]["phase"] = tape.pick_one(&["Available", "Released"]).into();
            };
            if let Some((old, new)) =
                one(tape, round, &mut all.volumes, &mut shown.volumes, relabel)
            {
                assumed.observe(&CatalogEvent::PersistentVolume(changed(&old, &new)));
            }
        }
        1 => {
            let touch = |_: &mut Tape<'_>, claim: &mut Value| {
                claim["metadata"]["annotations"]["touched"] = "yes".into();
            };
            if let Some((old, new)) = one(tape, round, &mut all.claims, &mut shown.claims, touch) {
                assumed.observe(&CatalogEvent::PersistentVolumeClaim(changed(&old, &new)));
            }
        }
        2 => {
            let limit = |tape: &mut Tape<'_>, node: &mut Value| {
                node["spec"]["drivers"][0]["allocatable"] = json!({"count": tape.below(4)});
            };
            if let Some((old, new)) =
                one(tape, round, &mut all.csi_nodes, &mut shown.csi_nodes, limit)
            {
                assumed.observe(&CatalogEvent::CsiNode(changed(&old, &new)));
            }
        }
        3 => {
            let resize = |tape: &mut Tape<'_>, capacity: &mut Value| {
                capacity["capacity"] = format!("{}Gi", tape.below(5)).into();
            };
            if let Some((old, new)) = one(
                tape,
                round,
                &mut all.capacities,
                &mut shown.capacities,
                resize,
            ) {
                assumed.observe(&CatalogEvent::CsiStorageCapacity(changed(&old, &new)));
            }
        }
        _ => {
            if let Some(gone) = shown.attachments.pop() {
                all.attachments.pop();
                assumed.observe(&CatalogEvent::VolumeAttachment(changed(
                    &gone,
                    &Value::Null,
                )));
            }
        }
    }
}

/// Decides the pods of a case with both implementations, and records the outcomes.
fn check(numbers: &[u16], seen: &mut BTreeMap<&'static str, u32>) -> Result<(), TestCaseError> {
    let mut tape = Tape(numbers.iter());
    let mut all = objects(&mut tape);
    // The contents of the caches; `all` also has assumptions.
    let mut shown = all.clone();
    let mut snapshot = Snapshot::new();
    let mut nodes = BTreeMap::new();
    for node in &all.nodes {
        let node: Node = read(node);
        nodes.insert(node.metadata.name.to_string(), node.metadata.labels.clone());
        snapshot.set_node(&Arc::new(node));
    }
    let mut placed: Vec<(Arc<Pod>, String)> = Vec::new();
    for (pod, node) in &all.placed {
        let pod = Arc::new(read::<Pod>(pod));
        if nodes.contains_key(node) {
            snapshot.put_pod(&pod, node);
            placed.push((pod, node.clone()));
        }
    }
    let mut assumed = AssumedVolumes::default();
    let follows = !tape.one_in(4);
    if follows {
        observe_all(&mut assumed, &all);
    }
    // The next pod sees each placed pod with the decision about it.
    for number in 0..4 {
        if follows {
            for _ in 0..tape.below(3) {
                change(&mut tape, number, &mut all, &mut shown, &mut assumed);
            }
        }
        let catalog = catalog(&shown);
        let pod: Arc<Pod> = Arc::new(read(&pod_object(
            &mut tape,
            &format!("new{number}"),
            all.claims.len(),
        )));
        let state = match VolumeState::prepare(&snapshot, &pod, &catalog, &assumed) {
            Ok(state) => state,
            Err(unmet) => {
                // A volume name without the annotation, or of a class that is not there.
                prop_assert!(
                    unmet.reason.contains("unbound immediate"),
                    "{}",
                    unmet.reason
                );
                continue;
            }
        };
        let reference = reference(&all, &nodes, &placed);
        let mut fitting = Vec::new();
        for name in nodes.keys() {
            let place = snapshot.place_of(name).expect("a place");
            let restrictions = reference.restrictions(&pod, name);
            let limits = reference.limits(&pod, name);
            let (binding, chosen) = reference.binding(&pod, name);
            let zone = reference.zone(&pod, name);
            for (what, ours, expected) in [
                ("restrictions", &state.restrictions, &restrictions),
                ("limits", &state.limits, &limits),
                ("binding", &state.binding, &binding),
                ("zone", &state.zone, &zone),
            ] {
                for reason in expected {
                    *seen.entry(*reason).or_default() += 1;
                }
                let ours = reasons_at(ours, place);
                prop_assert!(
                    same(&ours, expected),
                    "{what} of {} on {name}: {ours:?}, not {expected:?}",
                    pod.metadata.name
                );
            }
            if !binding.is_empty() {
                continue;
            }
            let reservation = state.reserve(&snapshot, place);
            note(seen, &reservation, &assumed);
            let mut ours: BTreeMap<String, Option<String>> = BTreeMap::new();
            for binding in &reservation.static_bindings {
                ours.insert(
                    binding.claim.metadata.name.to_string(),
                    Some(binding.volume.metadata.name.to_string()),
                );
            }
            for claim in &reservation.provisions {
                ours.insert(claim.metadata.name.to_string(), None);
            }
            prop_assert_eq!(
                &ours,
                &chosen,
                "volumes of {} on {}",
                &pod.metadata.name,
                name
            );
            if restrictions.is_empty() && limits.is_empty() && zone.is_empty() {
                fitting.push((name.clone(), reservation));
            }
        }
        if fitting.is_empty() {
            continue;
        }
        let (node, reservation) = tape.pick_one(&fitting);
        assumed.reserve(&pod, &reservation);
        snapshot.put_pod(&pod, &node);
        placed.push((Arc::clone(&pod), node.clone()));
        if tape.one_in(5) {
            // It failed after all.
            assumed.unreserve(&pod, &reservation);
            snapshot.remove_pod(&pod.key());
            placed.pop();
            continue;
        }
        for binding in &reservation.static_bindings {
            let name = binding.volume.metadata.name.as_str();
            let volume = all
                .volumes
                .iter_mut()
                .find(|one| one["metadata"]["name"] == *name)
                .expect("a volume");
            let claim = &binding.claim.metadata;
            volume["spec"]["claimRef"] =
                json!({"namespace": claim.namespace, "name": claim.name, "uid": claim.uid});
        }
        for claim in &reservation.provisions {
            let name = claim.metadata.name.as_str();
            let claim = all
                .claims
                .iter_mut()
                .find(|one| one["metadata"]["name"] == *name)
                .expect("a claim");
            claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] =
                node.clone().into();
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_decision_is_the_references(numbers in prop::collection::vec(any::<u16>(), 0..260)) {
        check(&numbers, &mut BTreeMap::new())?;
    }
}

#[test]
fn the_cases_reach_every_outcome() {
    let mut seen = BTreeMap::new();
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u16::try_from(state >> 48).unwrap_or(0)
    };
    for _ in 0..250 {
        let numbers: Vec<u16> = std::iter::repeat_with(&mut next).take(260).collect();
        check(&numbers, &mut seen).expect("equal decisions");
    }
    for outcome in [
        DISK,
        IN_USE,
        FULL,
        OUT_OF_REACH,
        NO_VOLUME,
        NO_SPACE,
        NO_ZONE,
        "static binding",
        "provision",
        "assumed volume",
        "selected node",
    ] {
        assert!(
            seen.get(outcome).is_some_and(|count| *count >= 5),
            "{outcome}: {seen:?}"
        );
    }
}
