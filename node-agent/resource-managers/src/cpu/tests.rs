use super::*;
use crate::testing::machine;
use proptest::prelude::*;

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// A pod of containers that ask for so many CPUs; `i` and `s` before the name's
/// end make init containers and sidecars.
fn pod(uid: &str, containers: &[(&str, &str)]) -> Pod {
    let one = |(name, cpu): &(&str, &str)| {
        let mut json = serde_json::json!({"name": name, "resources": {
            "limits": {"cpu": cpu, "memory": "1Gi"}}});
        if name.starts_with('s') {
            json["restartPolicy"] = "Always".into();
        }
        json
    };
    let (init, main): (Vec<_>, Vec<_>) = containers
        .iter()
        .partition(|(name, _)| name.starts_with(['i', 's']));
    let list = |all: Vec<&(&str, &str)>| all.into_iter().map(one).collect::<Vec<_>>();
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": uid, "uid": uid},
        "spec": {"initContainers": list(init), "containers": list(main)}}))
    .unwrap()
}

/// 2 sockets of a node of 4 cores of 2 threads, one CPU reserved: 0.
fn cpus(options: CpuPolicyOptions) -> CpuManager {
    CpuManager::new(machine(2, 1, 4, 2), options, Err(1)).unwrap()
}

fn give(cpus: &mut CpuManager, pod: &Pod) -> Result<Vec<String>, AdmissionFailure> {
    let mut reuse = ReusableResources::default();
    let all = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let mut given = Vec::new();
    for container in all {
        cpus.allocate(pod, container, None, &mut reuse)?;
        let own = cpus.own(pod.uid(), &container.name);
        given.push(own.map(ToString::to_string).unwrap_or_default());
    }
    Ok(given)
}

#[test]
fn whole_cpus_of_guaranteed_pods_are_their_own() {
    let mut all = cpus(CpuPolicyOptions::default());
    assert_eq!(
        give(&mut all, &pod("p", &[("a", "2"), ("b", "1500m")])),
        Ok(vec!["1,9".into(), String::new()])
    );
    assert_eq!(all.shared(), &set("0,2-8,10-15"));
    let burstable: Pod = serde_json::from_value(serde_json::json!({"spec": {"containers": [
        {"name": "a", "resources": {"requests": {"cpu": "2", "memory": "1"}}}]}}))
    .unwrap();
    assert_eq!(give(&mut all, &burstable), Ok(vec![String::new()]));
    let why = give(&mut all, &pod("q", &[("a", "14")])).unwrap_err();
    assert_eq!(
        why.message,
        "Allocate failed due to not enough cpus available to satisfy request: requested=14, available=13, which is unexpected"
    );
    assert!(all.keep(|pod| pod != "p"));
    assert_eq!(all.shared(), &set("0-15"));
    // the reserved one is nobody's own
    assert_eq!(
        give(&mut all, &pod("q", &[("a", "15")])),
        Ok(vec!["1-15".into()])
    );
    assert_eq!(all.shared(), &set("0"));
}

#[test]
fn what_init_containers_had_is_used_again_but_not_what_sidecars_have() {
    let mut all = cpus(CpuPolicyOptions::default());
    let given = give(
        &mut all,
        &pod(
            "p",
            &[
                ("i1", "4"),
                ("s1", "2"),
                ("i2", "2"),
                ("a", "2"),
                ("b", "2"),
            ],
        ),
    );
    assert_eq!(given.unwrap(), ["1-2,9-10", "1,9", "2,10", "2,10", "3,11"],);
    assert_eq!(all.shared(), &set("0,4-8,12-15"));
}

#[test]
fn whole_cores_can_be_demanded() {
    let options = CpuPolicyOptions {
        full_cores_only: true,
        ..CpuPolicyOptions::default()
    };
    let mut all = cpus(options);
    let odd = give(&mut all, &pod("p", &[("a", "3")])).unwrap_err();
    assert_eq!(odd.reason, "SMTAlignmentError");
    assert!(
        odd.message
            .contains("requested 3 cpus not multiple cpus per core = 2")
    );
    // 0 is reserved, so 8 is of no use
    let many = give(&mut all, &pod("p", &[("a", "16")])).unwrap_err();
    assert!(
        many.message.contains("available physical CPUs = 14"),
        "{}",
        many.message
    );
    assert_eq!(
        give(&mut all, &pod("p", &[("a", "14")])),
        Ok(vec!["1-7,9-15".into()])
    );
}

#[test]
fn hints_prefer_as_few_nodes_as_the_machine_allows() {
    let mut all = cpus(CpuPolicyOptions::default());
    let hints = |all: &CpuManager, count: &str| -> Vec<(Vec<u32>, bool)> {
        let pod = pod("p", &[("a", count)]);
        let places = all.places(&pod, &pod.spec.containers[0], &ReusableResources::default());
        let places = places.flatten().unwrap();
        places
            .into_iter()
            .map(|h| (h.nodes.unwrap().iter().collect(), h.preferred))
            .collect()
    };
    let (zero, one, both) = (vec![0], vec![1], vec![0, 1]);
    assert_eq!(
        hints(&all, "7"),
        [
            (zero.clone(), true),
            (one.clone(), true),
            (both.clone(), false)
        ]
    );
    assert_eq!(
        hints(&all, "8"),
        [(one.clone(), true), (both.clone(), false)]
    );
    assert_eq!(hints(&all, "9"), [(both.clone(), true)]);
    assert_eq!(hints(&all, "16"), []);
    // fits on one as it is made, on none as it is used
    let mut reuse = ReusableResources::default();
    let other = pod("q", &[("a", "2")]);
    let near = Some([1].into_iter().collect());
    all.allocate(&other, &other.spec.containers[0], near, &mut reuse)
        .unwrap();
    assert_eq!(all.own("q", "a"), Some(&set("4,12")));
    assert_eq!(hints(&all, "8"), [(both, false)]);
    // what it has is where it is
    let places = all.places(
        &other,
        &other.spec.containers[0],
        &ReusableResources::default(),
    );
    let places = places.flatten().unwrap();
    assert_eq!(places.iter().filter(|h| h.preferred).count(), 1);
    assert_eq!(places[0].nodes, near);
}

#[test]
fn checkpoints_are_byte_for_byte_the_kubelets() {
    // written by the kubelet's own code (1.36.3)
    let text = r#"{"policyName":"static","defaultCpuSet":"0-1,4-5","entries":{"p":{"a":"2","b":"6"},"q":{"c":"3,7"}},"checksum":3515018313}"#;
    let mut all =
        CpuManager::new(machine(1, 1, 4, 2), CpuPolicyOptions::default(), Err(1)).unwrap();
    all.restore(text).unwrap();
    assert_eq!(all.own("q", "c"), Some(&set("3,7")));
    assert_eq!(all.save(), text);
    assert_eq!(
        save_none(),
        r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#
    );
    assert!(check_none(&save_none()).is_ok());
    assert!(
        check_none(text)
            .unwrap_err()
            .to_string()
            .contains("differs")
    );
}

#[test]
fn a_checkpoint_that_does_not_fit_is_refused() {
    let state = |shared: &str, own: &str| {
        seal(CpuState {
            policy_name: "static".to_owned(),
            default_cpu_set: shared.to_owned(),
            entries: [("p".to_owned(), [("a".to_owned(), own.to_owned())].into())].into(),
            checksum: 0,
        })
    };
    let cases = [
        (state("0,2-15", "1"), None),
        (state("0-15", "1"), Some("overlaps")),
        (state("2-15", "1"), Some("not all reserved")),
        (state("0,2-14", "1"), Some("doesn't match")),
        (state("0,2-16", "1"), Some("doesn't match")),
        (state("", "1"), Some("cannot be empty")),
        (
            state("0,2-15", "1").replace("\"1\"", "\"1,15\""),
            Some("corrupted"),
        ),
        (save_none(), Some("differs")),
        ("{".to_owned(), Some("EOF")),
    ];
    for (text, wanted) in cases {
        let found = cpus(CpuPolicyOptions::default()).restore(&text);
        match wanted {
            None => assert!(found.is_ok(), "{text}: {found:?}"),
            Some(why) => assert!(
                found.as_ref().unwrap_err().to_string().contains(why),
                "{text}: {found:?}"
            ),
        }
    }
    // reserved ones are nobody's, not even shared
    let strict = CpuPolicyOptions {
        strict_reservation: true,
        ..CpuPolicyOptions::default()
    };
    let mut all = cpus(strict);
    assert_eq!(all.shared(), &set("1-15"));
    assert!(
        all.restore(&state("0,2-15", "1"))
            .unwrap_err()
            .to_string()
            .contains("strictly")
    );
    all.restore(&state("2-15", "1")).unwrap();
}

#[test]
fn the_policy_needs_a_reservation_that_is_there() {
    let machine = || machine(1, 1, 2, 1);
    assert!(CpuManager::new(machine(), CpuPolicyOptions::default(), Err(0)).is_err());
    assert!(CpuManager::new(machine(), CpuPolicyOptions::default(), Err(3)).is_err());
    assert!(CpuManager::new(machine(), CpuPolicyOptions::default(), Ok(set("1,7"))).is_err());
    assert!(CpuManager::new(machine(), CpuPolicyOptions::default(), Ok(set("1"))).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_cpu_is_two_pods_own_and_none_is_lost(
        steps in prop::collection::vec((0..6_usize, prop::option::of((1..5_u32, 1..5_u32))), 1..30),
        (full, numa, strict) in any::<(bool, bool, bool)>(),
    ) {
        let options = CpuPolicyOptions {
            full_cores_only: full,
            across_nodes: numa,
            strict_reservation: strict,
            ..CpuPolicyOptions::default()
        };
        let mut all = cpus(options);
        let fresh = all.clone();
        for (at, step) in steps {
            let uid = format!("p{at}");
            match step {
                None => {
                    all.keep(|pod| pod != uid);
                }
                Some((init, main)) => {
                    let pod = pod(&uid, &[("i", &init.to_string()), ("a", &main.to_string())]);
                    if all.is_exclusive(&uid) {
                        continue;
                    }
                    if give(&mut all, &pod).is_err() {
                        all.keep(|pod| pod != uid);
                    }
                }
            }
            let pods = all.assigned.values();
            let of_pods: Vec<CpuSet> = pods
                .map(|own| own.values().fold(CpuSet::default(), |a, b| a.union(b)))
                .collect();
            let mut seen = all.shared().clone();
            for own in &of_pods {
                prop_assert!(seen.is_disjoint(own));
                prop_assert!(own.is_disjoint(&all.reserved));
                seen = seen.union(own);
            }
            prop_assert_eq!(seen, all.pool());
            // and another agent goes on with the same
            let mut again = fresh.clone();
            again.restore(&all.save()).unwrap();
            prop_assert_eq!(&again, &all);
        }
    }
}
