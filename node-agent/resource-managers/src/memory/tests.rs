use super::*;
use crate::testing::machine;
use proptest::prelude::*;

const GI: u64 = 1 << 30;

/// A pod of containers that ask for so much memory; `i` and `s` before the
/// name's end make init containers and sidecars.
fn pod(uid: &str, containers: &[(&str, u64)]) -> Pod {
    let one = |(name, gibi): &(&str, u64)| {
        let mut json = serde_json::json!({"name": name, "resources": {
            "limits": {"cpu": "1", "memory": format!("{gibi}Gi")}}});
        if name.starts_with('s') {
            json["restartPolicy"] = "Always".into();
        }
        json
    };
    let (init, main): (Vec<_>, Vec<_>) = containers
        .iter()
        .partition(|(name, _)| name.starts_with(['i', 's']));
    let list = |all: Vec<&(&str, u64)>| all.into_iter().map(one).collect::<Vec<_>>();
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": uid, "uid": uid},
        "spec": {"initContainers": list(init), "containers": list(main)}}))
    .unwrap()
}

/// 2 nodes of 16 GiB, one of them reserved of the first.
fn memories() -> MemoryManager {
    let reserved: ReservedMemory = [(0, [(MEMORY.to_owned(), GI)].into())].into();
    let kept = [(MEMORY.to_owned(), GI)].into();
    MemoryManager::new(&machine(2, 1, 2, 1), &reserved, &kept).unwrap()
}

fn any() -> TopologyHint {
    TopologyHint {
        nodes: None,
        preferred: false,
    }
}

fn give(
    memories: &mut MemoryManager,
    pod: &Pod,
    near: TopologyHint,
) -> Result<(), AdmissionFailure> {
    let mut reuse = ReusableResources::default();
    for container in pod.spec.init_containers.iter().chain(&pod.spec.containers) {
        memories.allocate(pod, container, near, &mut reuse)?;
    }
    Ok(())
}

fn free(memories: &MemoryManager) -> Vec<u64> {
    let nodes = memories.nodes.values();
    nodes.map(|n| n.memory_map[MEMORY].free / GI).collect()
}

#[test]
fn memory_comes_from_one_node_where_it_can_and_from_a_group_where_it_cannot() {
    let mut all = memories();
    assert_eq!(free(&all), [15, 16]);
    give(&mut all, &pod("p", &[("a", 10)]), any()).unwrap();
    assert_eq!(all.nodes_of("p", "a"), [0]);
    give(&mut all, &pod("q", &[("a", 10)]), any()).unwrap();
    assert_eq!(all.nodes_of("q", "a"), [1]);
    // both would have 11, but each serves somebody alone
    let why = give(&mut all, &pod("r", &[("a", 11)]), any()).unwrap_err();
    assert!(
        why.message.contains("no NUMA nodes with enough memory"),
        "{}",
        why.message
    );
    assert!(all.keep(|pod| pod != "p" && pod != "q"));
    give(&mut all, &pod("r", &[("a", 20)]), any()).unwrap();
    assert_eq!(all.nodes_of("r", "a"), [0, 1]);
    assert_eq!(free(&all), [0, 11]);
    // a group serves no container alone
    assert!(
        give(&mut all, &pod("p", &[("a", 1)]), any())
            .is_ok_and(|()| all.nodes_of("p", "a") == [0, 1])
    );
    all.keep(|_| false);
    assert_eq!(all.nodes, all.empty);
}

#[test]
fn a_hint_is_followed_and_widened_where_it_has_too_little() {
    let mut all = memories();
    let near = |nodes: &[u32], preferred| TopologyHint {
        nodes: Some(nodes.iter().copied().collect()),
        preferred,
    };
    give(&mut all, &pod("p", &[("a", 1)]), near(&[1], true)).unwrap();
    assert_eq!(all.nodes_of("p", "a"), [1]);
    all.keep(|_| false);
    give(&mut all, &pod("p", &[("a", 20)]), near(&[1], false)).unwrap();
    assert_eq!(all.nodes_of("p", "a"), [0, 1]);
}

#[test]
fn what_init_containers_had_is_used_again() {
    let mut all = memories();
    let pod = pod("p", &[("i1", 4), ("s1", 1), ("a", 3), ("b", 2)]);
    give(&mut all, &pod, any()).unwrap();
    // 4 for the init container, which the sidecar and a take over; 2 for b
    assert_eq!(free(&all), [9, 16]);
    let size = |name: &str| all.blocks("p", name)[0].size / GI;
    assert_eq!((size("i1"), size("a"), size("b"), size("s1")), (0, 3, 2, 1));
    let fresh = memories();
    let mut again = fresh.clone();
    again.restore(&all.save()).unwrap();
    assert!(all.release("p", "i1"));
    assert_eq!(free(&all), [9, 16]);
    all.keep(|_| false);
    assert_eq!(all, fresh);
}

#[test]
fn only_guaranteed_pods_have_memory_of_their_own() {
    let mut all = memories();
    let burstable: Pod = serde_json::from_value(serde_json::json!({"metadata": {"uid": "p"},
        "spec": {"containers": [{"name": "a", "resources": {"requests": {"memory": "1Gi"}}}]}}))
    .unwrap();
    give(&mut all, &burstable, any()).unwrap();
    assert_eq!(all, memories());
    assert!(all.pod_places(&burstable).is_empty());
}

#[test]
fn what_is_reserved_is_what_is_kept_from_pods() {
    let machine = machine(2, 1, 2, 1);
    let reserved = |node: u32, gibi: u64| -> ReservedMemory {
        [(node, [(MEMORY.to_owned(), gibi * GI)].into())].into()
    };
    let kept: BTreeMap<String, u64> = [(MEMORY.to_owned(), GI)].into();
    assert!(MemoryManager::new(&machine, &reserved(1, 1), &kept).is_ok());
    let cases = [
        (reserved(2, 1), "does not exist"),
        (reserved(0, 2), "not equal"),
        (ReservedMemory::new(), "needs reservedMemory"),
    ];
    for (reserved, why) in cases {
        let error = MemoryManager::new(&machine, &reserved, &kept)
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn checkpoints_are_byte_for_byte_the_kubelets() {
    // written by the kubelet's own code (1.36.3)
    let text = r#"{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"hugepages-2Mi":{"total":0,"systemReserved":0,"allocatable":0,"reserved":0,"free":0},"memory":{"total":17179869184,"systemReserved":1073741824,"allocatable":16106127360,"reserved":1073741824,"free":15032385536}},"cells":[0]},"1":{"numberOfAssignments":0,"memoryMap":{"hugepages-2Mi":{"total":0,"systemReserved":0,"allocatable":0,"reserved":0,"free":0},"memory":{"total":17179869184,"systemReserved":0,"allocatable":17179869184,"reserved":0,"free":17179869184}},"cells":[1]}},"entries":{"p":{"a":[{"numaAffinity":[0],"type":"memory","size":1073741824}]}},"checksum":3048686189}"#;
    let mut all = memories();
    all.restore(text).unwrap();
    assert_eq!(all.nodes_of("p", "a"), [0]);
    assert_eq!(all.save(), text);
    let mut own = memories();
    give(&mut own, &pod("p", &[("a", 1)]), any()).unwrap();
    assert_eq!(own.save(), text, "the agent says the same of the same pod");
    assert_eq!(
        save_none(),
        r#"{"policyName":"None","machineState":{},"checksum":4236770233}"#
    );
    assert!(check_none(text).is_err());
    assert!(memories().restore(&save_none()).is_err());
    let other = text.replace("15032385536", "16106127360");
    assert!(
        memories()
            .restore(&other)
            .unwrap_err()
            .to_string()
            .contains("corrupted")
    );
    let mut changed: MemoryState = open(text, "Static").unwrap();
    changed.entries.clear();
    let why = memories().restore(&seal(changed)).unwrap_err().to_string();
    assert!(why.contains("different from the real one"), "{why}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_byte_is_promised_twice_and_none_is_lost(
        steps in prop::collection::vec((0..6_usize, prop::option::of((0..6_u64, 1..20_u64))), 1..30),
    ) {
        let fresh = memories();
        let mut all = fresh.clone();
        for (at, step) in steps {
            let uid = format!("p{at}");
            if let Some((init, main)) = step {
                let pod = pod(&uid, &[("i", init), ("a", main)]);
                if !all.assigned.contains_key(&uid) && give(&mut all, &pod, any()).is_err() {
                    all.keep(|pod| pod != uid);
                }
            } else {
                all.keep(|pod| pod != uid);
            }
            let sizes = all.assigned.values().flat_map(BTreeMap::values).flatten();
            let promised: u64 = sizes.map(|b| b.size).sum();
            let tables = all.nodes.values().map(|n| n.memory_map[MEMORY]);
            let reserved: u64 = tables.clone().map(|t| t.reserved).sum();
            prop_assert_eq!(promised, reserved);
            for table in tables {
                prop_assert_eq!(table.free + table.reserved, table.allocatable);
            }
            let mut again = fresh.clone();
            again.restore(&all.save()).unwrap();
        }
        all.keep(|_| false);
        prop_assert_eq!(&all, &fresh);
    }
}
