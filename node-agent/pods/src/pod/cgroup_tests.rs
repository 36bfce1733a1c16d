use super::*;

#[test]
fn groups_are_named_as_the_kubelet_names_them() {
    let layout = Layout::below("/node-1/");
    assert_eq!(
        layout.pod(QosClass::Guaranteed, "u"),
        "/node-1/kubepods/podu"
    );
    assert_eq!(
        layout.pod(QosClass::Burstable, "u"),
        "/node-1/kubepods/burstable/podu"
    );
    assert_eq!(
        Layout::below("/").pod(QosClass::BestEffort, "u"),
        "/kubepods/besteffort/podu"
    );
}

#[test]
fn what_groups_use_is_told_alike_by_both_versions() {
    let one = [
        ("cpuacct/g/cpuacct.usage", "5000\n"),
        ("memory/g/memory.usage_in_bytes", "9000\n"),
        (
            "memory/g/memory.stat",
            "inactive_file 1\nrss 2\ntotal_rss 700\ntotal_inactive_file 4000\n",
        ),
        ("pids/g/pids.current", "7\n"),
    ];
    let two = [
        ("cgroup.controllers", "cpu memory pids"),
        ("g/cpu.stat", "usage_usec 5\nuser_usec 4\n"),
        ("g/memory.current", "9000\n"),
        (
            "g/memory.stat",
            "anon 700\nanon_thp 3\ninactive_file 4000\n",
        ),
        ("g/pids.current", "7\n"),
    ];
    for files in [&one[..], &two] {
        let mount = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = mount.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for tree in ["cpuacct", "memory", "pids"] {
            let _ = fs::write(mount.path().join(tree).join("cgroup.procs"), "");
        }
        let groups = Cgroups::find(mount.path(), Layout::below("/")).unwrap();
        let found = groups.usage("/g");
        assert_eq!(found.cpu_nanoseconds, Some(5000));
        assert_eq!(found.memory, Some(9000));
        assert_eq!(found.working_set, Some(5000));
        assert_eq!(found.rss, Some(700));
        assert_eq!(groups.tasks("/g"), Some(7));
        let none = groups.usage("/none");
        assert_eq!((none.cpu_nanoseconds, none.working_set), (None, None));
    }
}

#[test]
fn version_one_trees_get_limits_and_lose_them() {
    let mount = tempfile::tempdir().unwrap();
    for tree in ["cpu,cpuacct", "memory", "pids", "freezer"] {
        fs::create_dir(mount.path().join(tree)).unwrap();
        fs::write(mount.path().join(tree).join("cgroup.procs"), "").unwrap();
    }
    let groups = Cgroups::find(mount.path(), Layout::below("/")).unwrap();
    groups.prepare().unwrap();
    let limits = PodLimits {
        cpu_shares: 512,
        cpu_quota: Some(50_000),
        memory: Some(1 << 20),
    };
    groups
        .make_pod(
            QosClass::Burstable,
            "u-1",
            limits,
            Some(100),
            &Beyond::default(),
        )
        .unwrap();
    let read = |path: &str| fs::read_to_string(mount.path().join(path)).unwrap();
    let pod = "kubepods/burstable/podu-1";
    assert_eq!(read(&format!("cpu,cpuacct/{pod}/cpu.shares")), "512");
    assert_eq!(
        read(&format!("cpu,cpuacct/{pod}/cpu.cfs_quota_us")),
        "50000"
    );
    assert_eq!(
        read(&format!("memory/{pod}/memory.limit_in_bytes")),
        "1048576"
    );
    assert_eq!(read("cpu,cpuacct/kubepods/besteffort/cpu.shares"), "2");
    let mut node = NodeLimits {
        memory: 1 << 20,
        ..NodeLimits::default()
    };
    groups.limit_node(&node).unwrap();
    assert_eq!(read("memory/kubepods/memory.limit_in_bytes"), "1048576");
    node.memory = 0;
    groups.limit_node(&node).unwrap();
    assert_eq!(read("memory/kubepods/memory.limit_in_bytes"), "-1");
    assert_eq!(groups.pods(), ["u-1"]);
    assert!(!mount.path().join("freezer/kubepods").exists());
}

#[test]
fn version_two_has_one_tree_with_weights() {
    let mount = tempfile::tempdir().unwrap();
    fs::write(mount.path().join("cgroup.controllers"), "cpu memory pids").unwrap();
    let groups = Cgroups::find(mount.path(), Layout::below("/orlop")).unwrap();
    groups.prepare().unwrap();
    let beyond = Beyond {
        huge: vec![HugepageLimit {
            page_size: "2MB".to_owned(),
            limit: 8192,
        }],
        protected: Some(("memory.min", 2048)),
    };
    let limits = PodLimits {
        cpu_shares: 1024,
        cpu_quota: None,
        memory: Some(4096),
    };
    groups
        .make_pod(QosClass::Guaranteed, "u", limits, None, &beyond)
        .unwrap();
    let pod = mount.path().join("orlop/kubepods/podu");
    assert_eq!(fs::read_to_string(pod.join("cpu.weight")).unwrap(), "39");
    assert_eq!(fs::read_to_string(pod.join("memory.max")).unwrap(), "4096");
    assert!(!pod.join("cpu.max").exists());
    let huge = fs::read_to_string(pod.join("hugetlb.2MB.max")).unwrap();
    assert_eq!(huge, "8192");
    assert_eq!(fs::read_to_string(pod.join("memory.min")).unwrap(), "2048");

    let asked = ClassSums {
        burstable_cpu: 2000,
        protected: Some((300, 100)),
    };
    groups.set_classes(asked).unwrap();
    let all = mount.path().join("orlop/kubepods");
    let read = |path: &str| fs::read_to_string(all.join(path)).unwrap();
    assert_eq!(read("burstable/cpu.weight"), "79");
    assert_eq!(
        (&*read("memory.min"), &*read("burstable/memory.low")),
        ("300", "100")
    );
    let limits = NodeLimits {
        cpu_shares: 2048,
        memory: 1 << 30,
        tasks: Some(1000),
        huge: beyond.huge.clone(),
    };
    groups.limit_node(&limits).unwrap();
    let node = ["cpu.weight", "memory.max", "pids.max", "hugetlb.2MB.max"].map(read);
    assert_eq!(node, ["79", "1073741824", "1000", "8192"]);
    let none = NodeLimits {
        memory: 0,
        tasks: None,
        ..limits
    };
    groups.limit_node(&none).unwrap();
    assert_eq!(["memory.max", "pids.max"].map(read), ["max", "max"]);
    assert!(!groups.limits_swap());
    fs::write(all.join("memory.swap.max"), "max").unwrap();
    assert!(groups.limits_swap());
}

#[test]
fn classes_are_as_heavy_as_what_their_pods_ask_for() {
    let spec = |cpu: &str, limits: bool| -> PodSpec {
        let list = serde_json::json!({"cpu": cpu, "memory": "100"});
        let which = if limits { "limits" } else { "requests" };
        serde_json::from_value(
            serde_json::json!({"containers": [{"name": "a", "resources": {which: list}}]}),
        )
        .unwrap()
    };
    let pods = [
        spec("1", true),
        spec("2", false),
        spec("500m", false),
        PodSpec::default(),
    ];
    let qos = |protects| {
        Some(MemoryQos {
            throttling: 0.9,
            protects,
        })
    };
    let found = ClassSums::of(pods.iter(), qos(true));
    assert_eq!(
        (found.burstable_cpu, found.protected),
        (2500, Some((300, 200)))
    );
    assert_eq!(
        ClassSums::of(pods.iter(), qos(false)).protected,
        Some((0, 0))
    );
    assert_eq!(ClassSums::of(pods.iter(), None).protected, None);
}
