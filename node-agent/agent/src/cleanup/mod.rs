//! Finds and removes what kube-proxy left in the kernel, in each of its modes:
//! its rules would go on translating beside the datapath, with endpoints that
//! nobody keeps up to date.
//!
//! ```text
//! iptables-save, nft, ipset, /proc/net/ip_vs ──► [KubeProxyItem] ──► the programs that remove them
//!                                            └─► addresses that the rules name
//! ```

pub mod addresses;
pub mod iptables;

use std::{
    collections::BTreeSet,
    io::{self, Write},
    net::IpAddr,
    path::Path,
    process::{Command, Stdio},
};

use node_agent_datapath::KernelNat;
use tracing::{info, warn};

/// Both variants of iptables may hold rules at the same time, in both IP
/// versions; where a distribution has one only, it is the plain name.
const IPTABLES: &[&str] = &[
    "iptables-nft",
    "ip6tables-nft",
    "iptables-legacy",
    "ip6tables-legacy",
];
const PLAIN: &[&str] = &["iptables", "ip6tables"];
/// The device with kube-proxy's addresses in mode ipvs.
const DEVICE: &str = "kube-ipvs0";
/// kube-proxy's sets in mode ipvs, after `KUBE-` for IPv4 and `KUBE-6-` for IPv6.
const SETS: [&str; 17] = [
    "CLUSTER-IP",
    "EXTERNAL-IP",
    "EXTERNAL-IP-LOCAL",
    "HEALTH-CHECK-NODE-PORT",
    "IPVS-IPS",
    "LOAD-BALANCER",
    "LOAD-BALANCER-FW",
    "LOAD-BALANCER-LOCAL",
    "LOAD-BALANCER-SOURCE-CIDR",
    "LOAD-BALANCER-SOURCE-IP",
    "LOOP-BACK",
    "NODE-PORT-LOCAL-SCTP-HASH",
    "NODE-PORT-LOCAL-TCP",
    "NODE-PORT-LOCAL-UDP",
    "NODE-PORT-SCTP-HASH",
    "NODE-PORT-TCP",
    "NODE-PORT-UDP",
];
/// Where the kernel lists virtual servers of IPVS.
const VIRTUAL_SERVERS: &str = "/proc/net/ip_vs";

/// Something that kube-proxy left on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeProxyItem {
    /// Chains and jumps of iptables.
    Chains {
        /// By which program: `iptables-nft`, `ip6tables-legacy`, ….
        program: String,
        /// Where.
        leftovers: iptables::TableLeftovers,
    },
    /// A table of nftables.
    Table {
        /// `ip` or `ip6`.
        family: String,
    },
    /// A set of addresses.
    Set {
        /// Its name.
        name: String,
    },
    /// Virtual servers of IPVS.
    VirtualServers {
        /// How many.
        count: usize,
    },
    /// The device of mode ipvs.
    Device,
}

/// Why leftovers of kube-proxy could not be inspected or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is not there.
    #[error("{what} cannot be removed without the program `{program}`: install it and try again")]
    Missing {
        /// What it would do.
        what: &'static str,
        /// Its name.
        program: &'static str,
    },
    /// A program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// Its name.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("`{program}` failed: {message}")]
    Failed {
        /// Its name and arguments.
        program: String,
        /// What it said.
        message: String,
    },
}

impl std::fmt::Display for KubeProxyItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Chains { program, leftovers } => write!(
                f,
                "{program}: table {}: {} chains and {} rules that lead to them",
                leftovers.table,
                leftovers.chains.len(),
                leftovers.jumps.len()
            ),
            Self::Table { family } => write!(f, "nftables: table {family} kube-proxy"),
            Self::Set { name } => write!(f, "ipset: {name}"),
            Self::VirtualServers { count } => write!(f, "IPVS: {count} virtual servers"),
            Self::Device => write!(f, "device {DEVICE}"),
        }
    }
}

/// Finds what kube-proxy left in this network namespace. Changes nothing.
///
/// # Errors
/// [`Error`]; a program that is not there finds nothing, except where the
/// kernel shows that there is something.
pub fn find() -> Result<Vec<KubeProxyItem>, Error> {
    let mut items = Vec::new();
    for program in iptables_programs() {
        let saved = output(&format!("{program}-save"), &[])?;
        items.extend(
            iptables::find(&saved)
                .into_iter()
                .map(|leftovers| KubeProxyItem::Chains {
                    program: program.to_owned(),
                    leftovers,
                }),
        );
    }
    if exists("nft") {
        let tables = output("nft", &["list", "tables"])?;
        items.extend(tables_of(&tables).map(|family| KubeProxyItem::Table {
            family: family.to_owned(),
        }));
    }
    let device = Path::new("/sys/class/net").join(DEVICE).exists() || exists_device();
    if device {
        let servers = std::fs::read_to_string(VIRTUAL_SERVERS).unwrap_or_default();
        let count = virtual_servers(&servers);
        if count > 0 {
            if !exists("ipvsadm") {
                return Err(Error::Missing {
                    what: "virtual servers of IPVS",
                    program: "ipvsadm",
                });
            }
            items.push(KubeProxyItem::VirtualServers { count });
        }
        items.push(KubeProxyItem::Device);
    }
    if exists("ipset") {
        // A kernel without sets has none.
        let names = output("ipset", &["list", "-n"]).unwrap_or_default();
        items.extend(sets(&names).map(|name| KubeProxyItem::Set {
            name: name.to_owned(),
        }));
    }
    Ok(items)
}

/// Lists the addresses for which kube-proxy has written rules in this network namespace: those of
/// Services, and in mode iptables of their endpoints. kube-proxy makes chains before it writes rules.
///
/// # Errors
/// [`Error`].
pub fn addresses() -> Result<BTreeSet<IpAddr>, Error> {
    let mut all = BTreeSet::new();
    for program in iptables_programs() {
        let saved = output(&format!("{program}-save"), &[])?;
        let rules = saved.lines().filter(|line| line.starts_with("-A KUBE-"));
        all.extend(rules.flat_map(addresses::of_rules));
    }
    if exists("nft") {
        let tables = output("nft", &["list", "tables"])?;
        for family in tables_of(&tables) {
            let table = output("nft", &["list", "table", family, "kube-proxy"])?;
            all.extend(addresses::of_table(&table));
        }
    }
    let servers = std::fs::read_to_string(VIRTUAL_SERVERS).unwrap_or_default();
    all.extend(addresses::of_virtual_servers(&servers));
    Ok(all)
}

/// Programs of iptables that may hold rules.
fn iptables_programs() -> impl Iterator<Item = &'static str> {
    let has_save = |it: &&str| exists(&format!("{it}-save"));
    let variants = IPTABLES.iter().copied().any(|it| has_save(&it));
    let names = if variants { IPTABLES } else { PLAIN };
    names.iter().copied().filter(has_save)
}

/// Removes what [`find`] found: rules first, then the sets they name. Connections that they
/// set up go on ([`KernelNat::keep`]).
///
/// # Errors
/// The first program that fails; what it was to remove, and what comes after,
/// is still there, and another call goes on.
pub fn remove(items: &[KubeProxyItem]) -> Result<(), Error> {
    if !items.is_empty() {
        match KernelNat::keep() {
            Ok(connections) => info!(
                connections,
                "the kernel keeps translating existing connections"
            ),
            // Rules of other tables may keep them, too.
            Err(error) => warn!(
                error = &error as &dyn std::error::Error,
                "connections that kube-proxy set up may be lost"
            ),
        }
    }
    for item in items {
        match item {
            KubeProxyItem::Chains { program, leftovers } => {
                let text = iptables::removal(std::slice::from_ref(leftovers));
                feed(
                    &format!("{program}-restore"),
                    &["--noflush", "--wait"],
                    &text,
                )
                // The nft variant has no lock to wait for, and older ones no option.
                .or_else(|_| feed(&format!("{program}-restore"), &["--noflush"], &text))?;
            }
            KubeProxyItem::Table { family } => {
                output("nft", &["delete", "table", family, "kube-proxy"])?;
            }
            KubeProxyItem::VirtualServers { .. } => {
                output("ipvsadm", &["-C"])?;
            }
            KubeProxyItem::Device => {
                output("ip", &["link", "del", DEVICE])?;
            }
            KubeProxyItem::Set { name } => {
                output("ipset", &["destroy", name])?;
            }
        }
        info!(%item, "removed");
    }
    Ok(())
}

/// Families of kube-proxy's tables among `nft list tables`.
fn tables_of(listed: &str) -> impl Iterator<Item = &str> {
    listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (table, family, name) = (words.next()?, words.next()?, words.next()?);
        (table == "table" && name == "kube-proxy" && matches!(family, "ip" | "ip6"))
            .then_some(family)
    })
}

/// kube-proxy's sets among `ipset list -n`. Other programs' have names like these: kube-router's, and
/// with it k3s's, network policy has `KUBE-SRC-…` and `KUBE-DST-…`.
fn sets(listed: &str) -> impl Iterator<Item = &str> {
    let is_kube_proxy_s = |name: &&str| {
        let kind = name.strip_prefix("KUBE-").unwrap_or_default();
        SETS.contains(&kind.strip_prefix("6-").unwrap_or(kind))
    };
    listed.lines().map(str::trim).filter(is_kube_proxy_s)
}

/// Virtual servers in `/proc/net/ip_vs`, whose lines begin with a protocol.
fn virtual_servers(listed: &str) -> usize {
    listed
        .lines()
        .filter(|line| {
            ["TCP ", "UDP ", "SCTP "]
                .iter()
                .any(|it| line.starts_with(it))
        })
        .count()
}

/// `/sys` may show another namespace's devices.
fn exists_device() -> bool {
    nix::net::if_::if_nametoindex(DEVICE).is_ok()
}

fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).is_file())
}

fn output(program: &str, arguments: &[&str]) -> Result<String, Error> {
    run(program, arguments, "")
}

fn feed(program: &str, arguments: &[&str], input: &str) -> Result<(), Error> {
    run(program, arguments, input).map(drop)
}

fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
    let start = |source| Error::Start {
        program: program.to_owned(),
        source,
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ended early says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(start)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Failed {
        program: format!("{program} {}", arguments.join(" "))
            .trim()
            .to_owned(),
        message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn only_kube_proxy_s_tables_sets_and_servers_count() {
        let listed =
            "table ip filter\ntable ip kube-proxy\ntable inet kube-proxy\ntable ip6 kube-proxy\n";
        assert_eq!(tables_of(listed).collect::<Vec<_>>(), ["ip", "ip6"]);
        let of_kube_router = "KUBE-DST-3YNVZWWGX3UQQ4VQ\nKUBE-SRC-3YNVZWWGX3UQQ4VQ\n";
        let listed = format!("KUBE-CLUSTER-IP\nKUBE-6-LOOP-BACK\nmine\n{of_kube_router}");
        assert_eq!(
            sets(&listed).collect::<Vec<_>>(),
            ["KUBE-CLUSTER-IP", "KUBE-6-LOOP-BACK"]
        );
        let listed = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\nTCP  0A600001:01BB rr\n  -> C0000201:192B      Masq    1      0          0\nUDP  0A60000A:0035 rr\n";
        assert_eq!(virtual_servers(listed), 2);
    }

    /// In a namespace of its own, with the rules that kube-proxy's modes make.
    #[test]
    fn what_is_found_is_removed_and_the_rest_stays() {
        if !nix::unistd::geteuid().is_root() || !exists("nft") || !exists("iptables-nft-save") {
            println!("skipped: needs root, nft and iptables");
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
                let rules = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-A - [0:0]\n:KUBE-SEP-A - [0:0]\n:KUBE-KUBELET-CANARY - [0:0]\n:MINE - [0:0]\n\
                     -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
                     -A OUTPUT -j MINE\n\
                     -A KUBE-SERVICES -m comment --comment \"a b\" -j KUBE-SVC-A\n-A KUBE-SVC-A -j KUBE-SEP-A\nCOMMIT\n";
                for program in IPTABLES.iter().filter(|it| exists(&format!("{it}-save"))) {
                    // Kernels without the legacy tables have none of its rules.
                    if let Err(error) = feed(&format!("{program}-restore"), &["--noflush"], rules) {
                        assert!(program.contains("legacy"), "{error}");
                        println!("{program}: {error}");
                    }
                }
                feed("nft", &["-f", "-"], "table ip kube-proxy {\n chain services {\n }\n}\ntable ip6 kube-proxy {\n}\ntable ip mine {\n}\n").expect("tables");
                let found = find().expect("found");
                for item in &found {
                    println!("{item}");
                }
                let chains = found.iter().filter(|it| matches!(it, KubeProxyItem::Chains { .. })).count();
                let tables = found.iter().filter(|it| matches!(it, KubeProxyItem::Table { .. })).count();
                assert!(chains >= 2, "both IP versions");
                assert_eq!(tables, 2);
                remove(&found).expect("removed");
                assert_eq!(find().expect("looked"), []);
                let left = output("iptables-nft-save", &[]).expect("saved");
                assert!(left.contains("-A OUTPUT -j MINE") && left.contains("KUBE-KUBELET-CANARY"), "{left}");
                assert!(!left.contains("KUBE-SERVICES"), "{left}");
                assert!(output("nft", &["list", "tables"]).expect("listed").contains("table ip mine"));
            });
        });
    }

    /// As [`rules_of_a_real_kube_proxy_go_and_nobody_elses`] finds them in the kernel.
    #[test]
    fn rules_name_the_addresses_of_services() {
        for rules in [
            include_str!("recorded/iptables.rules"),
            include_str!("recorded/nftables.rules"),
        ] {
            let all: BTreeSet<IpAddr> = addresses::of_rules(rules).collect();
            for service in ["10.96.0.1", "10.96.0.10", "10.96.62.189"] {
                let address = service.parse().expect("an address");
                assert!(all.contains(&address), "{service}: {all:?}");
            }
        }
    }

    /// Rules that are not kube-proxy's, in their order; without what counts.
    fn others(saved: &str) -> Vec<String> {
        let of_kubelet = ["KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT"];
        let is_others =
            |line: &str| !line.contains("KUBE-") || of_kubelet.iter().any(|it| line.contains(it));
        saved
            .lines()
            .filter(|line| !line.starts_with('#') && is_others(line))
            .map(|line| line.split(" [").next().unwrap_or_default().to_owned())
            .collect()
    }

    /// What real ones had written: a kube-proxy in each of its modes, beside a
    /// kubelet, a plugin for pods and a stranger.
    #[test]
    fn rules_of_a_real_kube_proxy_go_and_nobody_elses() {
        if !nix::unistd::geteuid().is_root() || !exists("nft") || !exists("iptables-nft-save") {
            println!("skipped: needs root, nft and iptables");
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
                let rules = include_str!("recorded/iptables.rules");
                if let Err(error) = feed("iptables-nft-restore", &[], rules) {
                    println!("skipped: this kernel lacks a match of these rules: {error}");
                    return;
                }
                feed("nft", &["-f", "-"], include_str!("recorded/nftables.rules")).expect("tables");
                let save = || output("iptables-nft-save", &[]).expect("saved");
                let before = save();
                assert!(others(&before).len() > 20, "{before}");
                assert!(before.matches("KUBE-SVC-").count() > 8, "{before}");

                remove(&find().expect("found")).expect("removed");
                assert_eq!(find().expect("looked"), []);
                let after = save();
                assert_eq!(others(&after), others(&before));
                let left = after.lines().filter(|line| !line.starts_with('#'));
                assert_eq!(left.count(), others(&after).len(), "{after}");
                let tables = output("nft", &["list", "tables"]).expect("listed");
                assert!(tables.contains("table inet mine"), "{tables}");
                assert!(!tables.contains("kube-proxy"), "{tables}");
            });
        });
    }
}
