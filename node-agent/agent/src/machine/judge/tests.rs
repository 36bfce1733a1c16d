use node_agent_datapath::{ForeignProgram, Probe};

use super::*;
use crate::machine::{Cgroups, ContainerRuntime, DiskSpace, Nic, PinnedDatapath};

fn works(feature: Feature) -> Probe {
    Probe {
        feature,
        refusal: None,
    }
}

/// A machine that lacks nothing.
fn good() -> MachineFacts {
    let features = [
        Feature::SocketPrograms,
        Feature::ReturnValues,
        Feature::CgroupLinks,
        Feature::Classifiers,
        Feature::Tcx,
        Feature::Clsact,
        Feature::XdpPrograms,
        Feature::XdpVeth,
        Feature::Maps,
        Feature::Vxlan,
        Feature::Sctp,
        Feature::Ipv6,
    ];
    MachineFacts {
        kernel: "6.12.1".to_owned(),
        root: true,
        btf: true,
        probes: features.map(works).to_vec(),
        cgroups: Cgroups {
            v2: Some("/sys/fs/cgroup".into()),
            v1: Vec::new(),
        },
        sysctls: [
            ("net.ipv4.ip_forward", "1"),
            ("net.ipv6.conf.all.forwarding", "1"),
            ("net.ipv4.conf.all.rp_filter", "0"),
            ("fs.inotify.max_user_instances", "8192"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        memory: 8 << 30,
        devices: vec![Nic {
            name: "eth0".to_owned(),
            mtu: 1500,
            driver: "ixgbe".to_owned(),
            xdp: Some(true),
        }],
        address: Some([192, 0, 2, 1].into()),
        runtime: ContainerRuntime {
            endpoint: "/run/containerd/containerd.sock".to_owned(),
            version: Some(("containerd".to_owned(), "v1.7.24".to_owned())),
            error: None,
        },
        clock_synchronized: Some(true),
        disks: vec![DiskSpace {
            path: "/var/lib".into(),
            size: 100 << 30,
            free: 50 << 30,
            inodes_free: 90,
        }],
        ..MachineFacts::default()
    }
}

fn worst(facts: &MachineFacts, role: MachineRole) -> Finding {
    judge(facts, role).into_iter().next().expect("findings")
}

#[test]
fn a_good_machine_lacks_nothing_in_any_role() {
    for role in [
        MachineRole::Datapath,
        MachineRole::Node,
        MachineRole::Server,
        MachineRole::Whole,
    ] {
        let all = judge(&good(), role);
        assert!(
            all.iter().all(|it| it.verdict == FindingLevel::Ok),
            "{all:?}"
        );
    }
}

#[test]
fn everything_that_is_not_ok_has_a_way_out() {
    let mut facts = MachineFacts {
        foreign_programs: vec![ForeignProgram {
            name: "cil_from_netdev".to_owned(),
            place: "tc".to_owned(),
        }],
        datapath: Some(PinnedDatapath {
            socket_hooks: 10,
            device_hooks: 2,
            maps: 30,
            in_use: false,
        }),
        clock_synchronized: Some(false),
        ..MachineFacts::default()
    };
    facts.probes = good().probes;
    for probe in &mut facts.probes {
        probe.refusal = Some("Invalid argument".to_owned());
    }
    let all = judge(&facts, MachineRole::Whole);
    assert!(all.len() > 15, "{all:?}");
    for finding in &all {
        let is_ok = finding.verdict == FindingLevel::Ok;
        assert_eq!(finding.way_out.is_none(), is_ok, "{finding:?}");
    }
    assert!(all.is_sorted_by_key(|it| std::cmp::Reverse(it.verdict)));
}

#[test]
fn what_is_required_is_missing_and_what_is_optional_is_absent() {
    let refuse = |feature: Feature| {
        let mut facts = good();
        for probe in &mut facts.probes {
            if probe.feature == feature {
                probe.refusal = Some("Operation not supported".to_owned());
            }
        }
        worst(&facts, MachineRole::Node)
    };
    for feature in [Feature::SocketPrograms, Feature::CgroupLinks, Feature::Maps] {
        assert_eq!(
            refuse(feature).verdict,
            FindingLevel::Missing,
            "{feature:?}"
        );
    }
    for feature in [
        Feature::Tcx,
        Feature::XdpVeth,
        Feature::Vxlan,
        Feature::Sctp,
    ] {
        assert_eq!(refuse(feature).verdict, FindingLevel::Absent, "{feature:?}");
    }
    assert_eq!(
        refuse(Feature::Clsact).verdict,
        FindingLevel::Ok,
        "tcx is enough"
    );
}

#[test]
fn one_of_tcx_and_clsact_is_required() {
    let mut facts = good();
    for probe in &mut facts.probes {
        if matches!(probe.feature, Feature::Tcx | Feature::Clsact) {
            probe.refusal = Some("No such file or directory".to_owned());
        }
    }
    let finding = worst(&facts, MachineRole::Datapath);
    assert_eq!(
        (finding.check.as_str(), finding.verdict),
        ("clsact qdisc", FindingLevel::Missing)
    );
}

#[test]
fn forwarding_is_the_operator_s_beside_another_kubelet_only() {
    let mut facts = good();
    facts
        .sysctls
        .insert("net.ipv4.ip_forward".to_owned(), "0".to_owned());
    assert_eq!(
        worst(&facts, MachineRole::Datapath).verdict,
        FindingLevel::Warning
    );
    assert_eq!(worst(&facts, MachineRole::Node).verdict, FindingLevel::Ok);
}

#[test]
fn a_port_is_missing_where_another_process_has_it() {
    let mut facts = good();
    let taken = |process: &str| {
        vec![OccupiedPort {
            number: 10250,
            process: Some(process.to_owned()),
        }]
    };
    facts.ports = taken("kubelet (812)");
    let finding = worst(&facts, MachineRole::Node);
    assert_eq!(finding.verdict, FindingLevel::Missing);
    assert!(finding.found.contains("kubelet (812)"));
    assert!(
        finding
            .way_out
            .is_some_and(|it| it.contains("--without-pods"))
    );
    assert_eq!(
        worst(&facts, MachineRole::Datapath).verdict,
        FindingLevel::Ok
    );
    facts.ports = taken("orlop (9)");
    assert_eq!(worst(&facts, MachineRole::Node).verdict, FindingLevel::Ok);
}

#[test]
fn layouts_of_control_groups_are_told_apart() {
    let found = |v2: Option<&str>, v1: &[&str]| {
        let mut facts = good();
        facts.cgroups = Cgroups {
            v2: v2.map(Into::into),
            v1: v1.iter().map(|it| (*it).to_owned()).collect(),
        };
        let all = judge(&facts, MachineRole::Datapath);
        let it = all.into_iter().find(|it| it.check == "control groups");
        it.expect("a finding")
    };
    assert!(
        found(Some("/sys/fs/cgroup"), &[])
            .found
            .starts_with("version 2")
    );
    let hybrid = found(Some("/sys/fs/cgroup/unified"), &["cpu", "memory"]);
    assert!(hybrid.found.starts_with("hybrid") && hybrid.verdict == FindingLevel::Ok);
    assert_eq!(found(None, &["cpu"]).verdict, FindingLevel::Missing);
}

#[test]
fn old_runtimes_small_mtus_and_full_disks_are_named() {
    let mut facts = good();
    facts.runtime.version = Some(("containerd".to_owned(), "1.5.9~ds1".to_owned()));
    assert_eq!(worst(&facts, MachineRole::Node).check, "container runtime");
    let mut facts = good();
    facts.devices[0].mtu = 1300;
    assert_eq!(worst(&facts, MachineRole::Node).check, "device eth0");
    assert_eq!(
        worst(&facts, MachineRole::Datapath).verdict,
        FindingLevel::Ok
    );
    let mut facts = good();
    facts.disks[0].free = 1 << 30;
    assert!(worst(&facts, MachineRole::Server).check.starts_with("disk"));
    assert_eq!(release("v2.4.0-rc.1"), Some((2, 4)));
    assert_eq!(release("next"), None);
}

/// An agent beside kube-proxy waits for its ports.
#[test]
fn kube_proxy_may_have_its_ports_where_it_is_to_be_replaced() {
    let by = |process: &str| MachineFacts {
        ports: vec![OccupiedPort {
            number: 10249,
            process: Some(process.to_owned()),
        }],
        ..good()
    };
    for process in ["kube-proxy (7)", "k3s-server (7)", "k3s-agent (7)"] {
        let found = worst(&by(process), MachineRole::Datapath).verdict;
        assert_eq!(found, FindingLevel::Ok, "{process}");
    }
    assert_eq!(
        worst(&by("kube-proxy (7)"), MachineRole::Node).verdict,
        FindingLevel::Missing
    );
    assert_eq!(
        worst(&by("else (7)"), MachineRole::Datapath).verdict,
        FindingLevel::Missing
    );
}
