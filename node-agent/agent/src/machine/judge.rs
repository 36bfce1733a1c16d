//! What facts about a machine come to. Pure: the same facts give the same findings.

use node_agent_datapath::Feature;

use super::{Finding, FindingLevel, MachineFacts, MachineRole, OccupiedPort};

/// The overhead of VXLAN over IPv4 with its inner Ethernet header, in bytes.
const VXLAN_OVERHEAD: u32 = 50;
/// The least MTU of IPv6 (RFC 8200, section 5).
const LEAST_MTU: u32 = 1280;
/// The oldest containerd.
const CONTAINERD: (u32, u32) = (1, 6);
/// Below this much free room kubelets evict pods by default, in percent.
const DISK_FREE: u64 = 10;
const INODES_FREE: u64 = 5;
/// Instances of inotify that a node with many pods needs.
const INOTIFY_INSTANCES: u64 = 512;
/// Memory below which a node has no room for pods, in bytes.
const MEMORY: u64 = 512 << 20;

/// Judges what was found, for what the machine is to do: the worst first, in a stable order.
#[must_use]
pub fn judge(facts: &MachineFacts, role: MachineRole) -> Vec<Finding> {
    let mut all = Findings(Vec::new());
    let runs_datapath = role != MachineRole::Server;
    let runs_pods = matches!(role, MachineRole::Node | MachineRole::Whole);
    if runs_datapath {
        kernel(&mut all, facts);
        features(&mut all, facts, role);
        others(&mut all, facts);
        own_datapath(&mut all, facts);
        settings(&mut all, facts, role);
        devices(&mut all, facts, role);
    }
    cgroups(&mut all, facts, runs_datapath);
    if runs_pods {
        runtime(&mut all, facts);
    }
    ports(&mut all, facts, role);
    clock(&mut all, facts);
    disks(&mut all, facts);
    memory(&mut all, facts);
    let mut all = all.0;
    all.sort_by_key(|it| std::cmp::Reverse(it.verdict));
    all
}

struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, check: &str, found: impl Into<String>) {
        self.0.push(Finding {
            check: check.to_owned(),
            verdict: FindingLevel::Ok,
            found: found.into(),
            way_out: None,
        });
    }

    fn add(
        &mut self,
        check: &str,
        verdict: FindingLevel,
        found: impl Into<String>,
        way_out: impl Into<String>,
    ) {
        self.0.push(Finding {
            check: check.to_owned(),
            verdict,
            found: found.into(),
            way_out: Some(way_out.into()),
        });
    }
}

fn kernel(all: &mut Findings, facts: &MachineFacts) {
    if facts.root {
        all.ok("user", "root");
    } else {
        all.add(
            "user",
            FindingLevel::Missing,
            "not root: kernel features cannot be tried",
            "run as root",
        );
    }
    if facts.btf {
        all.ok("kernel types (BTF)", format!("Linux {}", facts.kernel));
    } else {
        all.add(
            "kernel types (BTF)",
            FindingLevel::Missing,
            format!("Linux {} without /sys/kernel/btf/vmlinux", facts.kernel),
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y; Debian's have it",
        );
    }
}

/// A kernel feature that is probed, what needs it, and what to do without it.
struct KernelRequirement {
    check: &'static str,
    /// Without it the datapath does not start.
    required: bool,
    way_out: &'static str,
}

const fn need(feature: Feature) -> KernelRequirement {
    const NEWER: &str = "boot Linux 5.18 or later with CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF";
    let (check, required, way_out) = match feature {
        Feature::SocketPrograms => ("eBPF at sockets", true, NEWER),
        Feature::ReturnValues => ("eBPF return values", true, NEWER),
        Feature::CgroupLinks => (
            "eBPF at control groups",
            true,
            "mount a writable cgroup2 hierarchy (mount -t cgroup2 none /sys/fs/cgroup/unified) and \
             boot a kernel with CONFIG_CGROUP_BPF",
        ),
        Feature::Classifiers => (
            "eBPF classifiers",
            true,
            "boot a kernel with CONFIG_NET_CLS_BPF",
        ),
        Feature::Tcx => (
            "tcx links",
            false,
            "nothing: a clsact qdisc does the same; Linux 6.6 has tcx",
        ),
        Feature::Clsact => (
            "clsact qdisc",
            false,
            "nothing while tcx works; else load sch_ingress",
        ),
        Feature::XdpPrograms => ("XDP", false, "nothing: tc programs do the same work"),
        Feature::XdpVeth => (
            "XDP at veth",
            false,
            "nothing: tc programs do the same work",
        ),
        Feature::Maps => ("eBPF maps", true, NEWER),
        Feature::Vxlan => (
            "VXLAN",
            false,
            "load the module vxlan, or use --overlay none and route pod ranges yourself",
        ),
        Feature::Sctp => ("SCTP", false, "load the module sctp, if Services use SCTP"),
        Feature::Ipv6 => (
            "IPv6",
            false,
            "boot without ipv6.disable=1, if the cluster has IPv6",
        ),
    };
    KernelRequirement {
        check,
        required,
        way_out,
    }
}

fn features(all: &mut Findings, facts: &MachineFacts, role: MachineRole) {
    let works = |feature| {
        let found = facts.probes.iter().find(|it| it.feature == feature);
        found.is_some_and(|it| it.refusal.is_none())
    };
    for probe in &facts.probes {
        let need = need(probe.feature);
        // Either of the two is enough, and pods' network alone needs a tunnel.
        let skipped = match probe.feature {
            Feature::Clsact => works(Feature::Tcx),
            Feature::Vxlan => role == MachineRole::Datapath,
            _ => false,
        };
        if skipped {
            continue;
        }
        let required = need.required || (probe.feature == Feature::Clsact);
        match &probe.refusal {
            None => all.ok(need.check, "works"),
            Some(refusal) => {
                let verdict = if required {
                    FindingLevel::Missing
                } else {
                    FindingLevel::Absent
                };
                all.add(need.check, verdict, refusal.clone(), need.way_out);
            }
        }
    }
}

fn others(all: &mut Findings, facts: &MachineFacts) {
    const CHECK: &str = "other eBPF programs";
    if facts.foreign_programs.is_empty() {
        all.ok(CHECK, "none at cgroups, tc or XDP");
        return;
    }
    let mut names: Vec<String> = facts
        .foreign_programs
        .iter()
        .map(|it| format!("{} ({})", it.name, it.place))
        .collect();
    names.dedup();
    let cilium = facts
        .foreign_programs
        .iter()
        .any(|it| it.name.starts_with("cil_"));
    let way_out = if cilium {
        "remove Cilium's datapath (cilium-dbg post-uninstall-cleanup) if Orlop is to serve Services"
    } else {
        "find their owner with `bpftool link`: programs that rewrite Services' packets must go, \
         others run beside Orlop's"
    };
    all.add(CHECK, FindingLevel::Warning, names.join(", "), way_out);
}

fn own_datapath(all: &mut Findings, facts: &MachineFacts) {
    const CHECK: &str = "Orlop's datapath";
    match &facts.datapath {
        None => all.ok(CHECK, "not installed"),
        Some(it) if it.in_use => all.ok(
            CHECK,
            format!(
                "in force: {} socket hooks, {} device hooks",
                it.socket_hooks, it.device_hooks
            ),
        ),
        Some(it) => all.add(
            CHECK,
            FindingLevel::Warning,
            format!(
                "in force without an agent: {} maps do not change any more",
                it.maps
            ),
            "start the agent, or remove it: orlop node-agent uninstall --datapath-only",
        ),
    }
}

fn settings(all: &mut Findings, facts: &MachineFacts, role: MachineRole) {
    let number = |name: &str| {
        facts
            .sysctls
            .get(name)
            .and_then(|it| it.parse::<u64>().ok())
    };
    let ipv6 = facts
        .probes
        .iter()
        .any(|it| it.feature == Feature::Ipv6 && it.refusal.is_none());
    for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        if name.contains("ipv6") && !ipv6 {
            continue;
        }
        match number(name) {
            Some(0) if role == MachineRole::Datapath => all.add(
                name,
                FindingLevel::Warning,
                "0",
                format!(
                    "sysctl -w {name}=1: clients of other machines do not reach pods without it"
                ),
            ),
            Some(0) => all.ok(name, "0; the agent sets it"),
            Some(value) => all.ok(name, value.to_string()),
            None => {}
        }
    }
    let filter = "net.ipv4.conf.all.rp_filter";
    match number(filter) {
        Some(1) => all.add(
            filter,
            FindingLevel::Warning,
            "1",
            format!("sysctl -w {filter}=2: strict filtering drops answers to SCTP Services"),
        ),
        Some(value) => all.ok(filter, value.to_string()),
        None => {}
    }
    let inotify = "fs.inotify.max_user_instances";
    if role != MachineRole::Datapath {
        match number(inotify) {
            Some(value) if value < INOTIFY_INSTANCES => all.add(
                inotify,
                FindingLevel::Warning,
                value.to_string(),
                format!("sysctl -w {inotify}=8192: pods that watch files run out of instances"),
            ),
            Some(value) => all.ok(inotify, value.to_string()),
            None => {}
        }
    }
}

fn devices(all: &mut Findings, facts: &MachineFacts, role: MachineRole) {
    match facts.address {
        Some(address) => all.ok("default route", format!("leaves by {address}")),
        None => all.add(
            "default route",
            FindingLevel::Warning,
            "none",
            "add one, or name the node's address with --node-ip",
        ),
    }
    for device in &facts.devices {
        let check = format!("device {}", device.name);
        let xdp = match device.xdp {
            Some(true) => "XDP in the driver",
            Some(false) => "no XDP in the driver",
            None => "XDP unknown",
        };
        let found = format!("{}, MTU {}, {xdp}", device.driver, device.mtu);
        let tunnel = role != MachineRole::Datapath;
        if tunnel && device.mtu < LEAST_MTU + VXLAN_OVERHEAD {
            let least = LEAST_MTU + VXLAN_OVERHEAD;
            all.add(
                &check,
                FindingLevel::Warning,
                found,
                format!("raise the MTU to {least} or more if pods are reached by VXLAN"),
            );
        } else {
            all.ok(&check, found);
        }
    }
}

fn cgroups(all: &mut Findings, facts: &MachineFacts, needed: bool) {
    const CHECK: &str = "control groups";
    let Some(v2) = &facts.cgroups.v2 else {
        let found = match facts.cgroups.v1.len() {
            0 => "none are mounted".to_owned(),
            count => format!("version 1 only ({count} controllers)"),
        };
        let verdict = if needed {
            FindingLevel::Missing
        } else {
            FindingLevel::Absent
        };
        let way_out = "mount -t cgroup2 none /sys/fs/cgroup/unified, or boot with \
                       systemd.unified_cgroup_hierarchy=1";
        all.add(CHECK, verdict, found, way_out);
        return;
    };
    let at = v2.display();
    if facts.cgroups.v1.is_empty() {
        all.ok(CHECK, format!("version 2 at {at}"));
    } else {
        all.ok(
            CHECK,
            format!(
                "hybrid: version 2 at {at}, limits by version 1 ({})",
                facts.cgroups.v1.join(", ")
            ),
        );
    }
}

fn runtime(all: &mut Findings, facts: &MachineFacts) {
    const CHECK: &str = "container runtime";
    let endpoint = &facts.runtime.endpoint;
    let Some((name, version)) = &facts.runtime.version else {
        let error = facts.runtime.error.as_deref().unwrap_or("no answer");
        all.add(
            CHECK,
            FindingLevel::Missing,
            format!("{endpoint}: {error}"),
            "install and start containerd 1.6 or later, or name its socket with \
             --container-runtime-endpoint",
        );
        return;
    };
    let found = format!("{name} {version}");
    let is_old = name == "containerd" && release(version).is_some_and(|it| it < CONTAINERD);
    if is_old {
        all.add(
            CHECK,
            FindingLevel::Missing,
            found,
            "upgrade containerd to 1.6 or later",
        );
    } else if name == "containerd" {
        all.ok(CHECK, found);
    } else {
        all.add(
            CHECK,
            FindingLevel::Warning,
            found,
            "nothing, if it speaks CRI v1: tests run with containerd only",
        );
    }
}

/// The first two numbers of a version such as `v1.7.24` or `1.6.20~ds1`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim_start_matches('v').split('.').map(|word| {
        let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    Some((numbers.next()??, numbers.next()??))
}

/// Ports that a role listens on, with what to do where another process has one.
const fn listens(role: MachineRole) -> &'static [(u16, &'static str, &'static str)] {
    const API: (u16, &str, &str) = (6443, "API server", "end it, or choose --secure-port");
    const KUBELET: (u16, &str, &str) = (
        10250,
        "kubelet's API",
        "end the kubelet, or keep it with `orlop node-agent --without-pods`",
    );
    const METRICS: (u16, &str, &str) = (
        10249,
        "metrics",
        "end kube-proxy, or choose --metrics-bind-address",
    );
    const HEALTH: (u16, &str, &str) = (
        10256,
        "health",
        "end kube-proxy, or choose --healthz-bind-address",
    );
    match role {
        MachineRole::Datapath => &[METRICS, HEALTH],
        MachineRole::Node => &[METRICS, KUBELET, HEALTH],
        MachineRole::Server => &[API],
        MachineRole::Whole => &[API, METRICS, KUBELET, HEALTH],
    }
}

/// Names of processes that may have kube-proxy's ports until `orlop migrate kube-proxy`. k3s runs
/// kube-proxy inside its own process.
const KUBE_PROXIES: [&str; 4] = ["kube-proxy", "k3s", "k3s-server", "k3s-agent"];

fn is_kube_proxy(process: &str) -> bool {
    let name = process.split(' ').next().unwrap_or_default();
    KUBE_PROXIES.contains(&name)
}

fn ports(all: &mut Findings, facts: &MachineFacts, role: MachineRole) {
    for (number, what, way_out) in listens(role) {
        let check = format!("port {number} ({what})");
        match facts.ports.iter().find(|it| it.number == *number) {
            None => all.ok(&check, "free"),
            Some(OccupiedPort {
                process: Some(process),
                ..
            }) if process.starts_with("orlop") => {
                all.ok(&check, format!("used by {process}"));
            }
            Some(OccupiedPort {
                process: Some(process),
                ..
            }) if role == MachineRole::Datapath && is_kube_proxy(process) => {
                all.ok(&check, format!("used by {process} until it is replaced"));
            }
            Some(port) => {
                let process = port.process.as_deref().unwrap_or("another process");
                let found = format!("used by {process}");
                all.add(&check, FindingLevel::Missing, found, *way_out);
            }
        }
    }
}

fn clock(all: &mut Findings, facts: &MachineFacts) {
    match facts.clock_synchronized {
        Some(true) => all.ok("clock", "synchronized"),
        Some(false) => all.add(
            "clock",
            FindingLevel::Warning,
            "not synchronized",
            "run chrony or systemd-timesyncd: certificates and leases compare clocks",
        ),
        None => {}
    }
}

fn disks(all: &mut Findings, facts: &MachineFacts) {
    for disk in &facts.disks {
        let check = format!("disk of {}", disk.path.display());
        let percent = (disk.free * 100).checked_div(disk.size).unwrap_or(100);
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let found = format!(
            "{:.1} of {:.1} GiB free ({percent} %), {} % of inodes",
            gib(disk.free),
            gib(disk.size),
            disk.inodes_free
        );
        if percent < DISK_FREE || disk.inodes_free < INODES_FREE {
            all.add(
                &check,
                FindingLevel::Warning,
                found,
                "free some: a node below 10 % evicts pods and pulls no images",
            );
        } else {
            all.ok(&check, found);
        }
    }
}

fn memory(all: &mut Findings, facts: &MachineFacts) {
    let found = format!("{} MiB", facts.memory >> 20);
    if facts.memory < MEMORY {
        all.add(
            "memory",
            FindingLevel::Warning,
            found,
            "use a machine with 512 MiB or more: little is left for pods",
        );
    } else {
        all.ok("memory", found);
    }
}

#[cfg(test)]
mod tests;
