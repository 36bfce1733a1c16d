//! What a node has outside of its pods, to see what a change of its dataplane left: rules,
//! links, addresses, routes, settings, files, pins and programs at devices.

use tests::{Cluster, Failure, ensure};

use super::stock::shell;

/// Prints all of it, a line each. Counters, handles, what the kernel only measures and the order
/// of a set's elements, which the kernel chooses, are left out. So are the chains of the connectivity
/// test's Services: kube-proxy deletes them some time after the Services.
const LIST: &str = r#"
each() { sed "s|^|$1: |"; }
nft --stateless list ruleset | sed '/^\t\(chain\|set\|map\) .*orlop-connectivity/,/^\t}/d' | sed 's/elements = { */\n/; s/map { */map\n/; s/, */\n/g' | sed 's/^[ \t]*//; s/[ }]*$//' | each nft
for program in iptables-nft ip6tables-nft iptables-legacy ip6tables-legacy; do
    $program-save 2>/dev/null | grep -v '^#' | sed 's/ \[[0-9:]*\]//' | each $program
done
ip -o link show | sed 's/^[0-9]*: //; s/@if[0-9]*//; s/link-netns.*//' | grep -v '^veth' | each link
ip -o address show | sed 's/^[0-9]*: //; s/valid_lft.*//' | grep -v '^veth' | each address
for family in -4 -6; do
    ip $family route show table all | grep -v ' dev veth' | each route
    ip $family rule show | each rule
done
for device in $(ls /sys/class/net | grep -v '^veth'); do
    tc qdisc show dev $device | sed 's/ [0-9a-f]*: / /' | each qdisc
    tc filter show dev $device ingress 2>/dev/null | each "ingress of $device"
    tc filter show dev $device egress 2>/dev/null | each "egress of $device"
done
sysctl -a 2>/dev/null | grep '^net\.' | grep -v -e 'conntrack_count ' -e '\.veth' -e 'stable_secret' | each sysctl
find /etc /opt /var/lib/orlop /sys/fs/bpf -printf '%p %M %s\n' 2>/dev/null | each file
find /run -path /run/containerd -prune -o -path /run/netns -prune -o -printf '%p %M\n' 2>/dev/null | each file
orlop node-agent uninstall --datapath-only --dry-run | each datapath
"#;

/// What a node has.
pub struct Snapshot(Vec<String>);

impl Snapshot {
    pub fn of(cluster: &Cluster, node: &str) -> Result<Self, Failure> {
        let text = shell(cluster, node, LIST)?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for kind in ["nft", "link", "route", "sysctl", "file", "datapath"] {
            let has = lines.iter().any(|line| line.starts_with(kind));
            ensure(has, format!("{node}: nothing of kind {kind} is listed"))?;
        }
        lines.sort();
        Ok(Self(lines))
    }

    /// Fails unless all is as before.
    pub fn same_as(&self, before: &Self, when: &str) -> Result<(), Failure> {
        let of = |all: &[String], others: &[String], sign: &str| -> Vec<String> {
            let only = all
                .iter()
                .filter(|line| others.binary_search(line).is_err());
            only.map(|line| format!("{sign} {line}")).collect()
        };
        let mut changed = of(&before.0, &self.0, "-");
        changed.extend(of(&self.0, &before.0, "+"));
        ensure(
            changed.is_empty(),
            format!("{when}:\n{}", changed.join("\n")),
        )
    }
}
