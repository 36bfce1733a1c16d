//! Where pods leave the cluster as the node: everywhere, but for ranges where the
//! way back to pods is known.
//!
//! ```text
//! a file ──► Rules ─┐
//! Nodes ────────────┼─► exits (pure) ──► eBPF map
//! own addresses ────┘
//! ```
//!
//! The file is that of kubernetes-sigs/ip-masq-agent: `nonMasqueradeCIDRs`,
//! `cidrLimit`, `masqLinkLocal`, `masqLinkLocalIPv6`, in YAML or JSON; what it does
//! not say has that program's defaults. A file that is not understood changes
//! nothing. `resyncInterval` is read and not waited for: the file is looked at with
//! every comparison of the pod network, twice a minute.

use std::{collections::BTreeSet, fs, io, net::IpAddr, path::Path};

use ipnet::IpNet;
use node_agent_datapath::{EgressSource, Exits};
use serde::Deserialize;

use crate::{overlay::OverlayNetwork, routes::NodeNetwork};

/// Never left for as the node: many receivers, or none beyond the link.
const NOBODY: [&str; 3] = ["224.0.0.0/4", "255.255.255.255/32", "ff00::/8"];
const LINK_LOCAL: [(&str, bool); 2] = [("169.254.0.0/16", true), ("fe80::/10", false)];
/// RFC 1918, and for IPv6 RFC 4193.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];
/// Where traffic may leave to at all.
const ANYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The content of the masquerade file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MasqueradeRules {
    #[serde(rename = "nonMasqueradeCIDRs")]
    non_masquerade_cidrs: Vec<String>,
    cidr_limit: usize,
    masq_link_local: bool,
    #[serde(rename = "masqLinkLocalIPv6")]
    masq_link_local_ipv6: bool,
}

impl Default for MasqueradeRules {
    fn default() -> Self {
        Self {
            non_masquerade_cidrs: PRIVATE.map(str::to_owned).to_vec(),
            cidr_limit: 64,
            masq_link_local: false,
            masq_link_local_ipv6: false,
        }
    }
}

/// Why a masquerade file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum MasqueradeError {
    /// It cannot be read.
    #[error("it cannot be read")]
    File(#[source] io::Error),
    /// It is neither YAML nor JSON of this form.
    #[error("it is not understood")]
    Form(#[source] serde_saphyr::Error),
    /// A range that is none, or whose address has bits beyond its prefix.
    #[error("`{0}` is no range: write its first address and the length of its prefix")]
    Range(String),
    /// More ranges than it may have.
    #[error("it has {0} ranges, more than its cidrLimit")]
    Many(usize),
}

impl MasqueradeRules {
    /// Reads the file; without one, the defaults.
    ///
    /// # Errors
    /// [`MasqueradeError`].
    pub fn read(path: &Path) -> Result<Self, MasqueradeError> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(MasqueradeError::File(error)),
        }
    }

    fn parse(text: &str) -> Result<Self, MasqueradeError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let rules: Self = serde_saphyr::from_str(text).map_err(MasqueradeError::Form)?;
        let count = rules.non_masquerade_cidrs.len();
        if count > rules.cidr_limit {
            return Err(MasqueradeError::Many(count));
        }
        for text in &rules.non_masquerade_cidrs {
            let range = text.parse::<IpNet>().ok();
            if range.is_none_or(|range| range != range.trunc()) {
                return Err(MasqueradeError::Range(text.clone()));
            }
        }
        Ok(rules)
    }
}

/// As whom pods reach what: `nodes` are all, `own` this machine's addresses.
///
/// IPv6 is hidden only where pods have addresses of RFC 4193: others are routed by
/// whoever gave them out.
pub fn exits(
    rules: &MasqueradeRules,
    nodes: &[NodeNetwork],
    network: &OverlayNetwork,
    own: &[IpAddr],
) -> Exits {
    let mut exits = Exits::new();
    let ranges: BTreeSet<IpNet> = nodes.iter().flat_map(|it| it.pod_ranges.clone()).collect();
    let unique_local =
        |range: &IpNet| matches!(range, IpNet::V6(it) if it.addr().is_unique_local());
    let global = ranges
        .iter()
        .any(|it| it.addr().is_ipv6() && !unique_local(it));
    for range in ANYWHERE.into_iter().filter_map(parsed) {
        if range.addr().is_ipv4() || !global {
            exits.insert(range, EgressSource::Node);
        }
    }
    let behind = network.behind.iter().map(|it| IpNet::from(*it));
    exits.extend(behind.map(|it| (it, EgressSource::Node)));
    let mut stays = |range: IpNet| {
        exits.insert(range, EgressSource::Pod);
    };
    for (range, v4) in LINK_LOCAL {
        let masqueraded = if v4 {
            rules.masq_link_local
        } else {
            rules.masq_link_local_ipv6
        };
        if !masqueraded {
            parsed(range).into_iter().for_each(&mut stays);
        }
    }
    let listed = rules.non_masquerade_cidrs.iter();
    listed.filter_map(|it| parsed(it)).for_each(&mut stays);
    NOBODY.into_iter().filter_map(parsed).for_each(&mut stays);
    // Nodes know the way to all pods.
    let addresses = nodes.iter().flat_map(|it| it.addresses.iter());
    addresses
        .filter(|it| !network.behind.contains(it))
        .chain(own)
        .for_each(|it| stays(IpNet::from(*it)));
    ranges.into_iter().for_each(|it| stays(it.trunc()));
    exits
}

fn parsed(text: &str) -> Option<IpNet> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("address")
    }

    fn node(name: &str, address: &str, ranges: &[&str]) -> NodeNetwork {
        NodeNetwork {
            name: name.to_owned(),
            addresses: vec![ip(address)],
            pod_ranges: ranges.iter().map(|it| it.parse().expect("range")).collect(),
        }
    }

    /// As whom pods reach an address: what the programs make of the map.
    fn shown(exits: &Exits, to: &str) -> EgressSource {
        let to = ip(to);
        let holds = exits.iter().filter(|(range, _)| range.contains(&to));
        let narrowest = holds.max_by_key(|(range, _)| range.prefix_len());
        narrowest.map_or(EgressSource::Pod, |(_, shown)| *shown)
    }

    fn of(rules: &MasqueradeRules) -> Exits {
        let nodes = [
            node("a", "203.0.113.1", &["10.0.1.0/24", "fd00:1::/64"]),
            node("b", "203.0.113.2", &["100.64.2.0/24"]),
            node("c", "10.99.0.3", &[]),
        ];
        let network = OverlayNetwork {
            behind: BTreeSet::from([ip("10.99.0.3")]),
            ..OverlayNetwork::default()
        };
        exits(rules, &nodes, &network, &[ip("198.51.100.9")])
    }

    #[test]
    fn what_the_file_does_not_say_is_as_ip_masq_agent_has_it() {
        let exits = of(&MasqueradeRules::default());
        for (to, who) in [
            ("8.8.8.8", EgressSource::Node),
            ("2001:db8::1", EgressSource::Node),
            ("172.20.0.1", EgressSource::Pod),
            ("169.254.169.254", EgressSource::Pod),
            ("fe80::1", EgressSource::Pod),
            ("224.0.0.5", EgressSource::Pod),
            // Of the cluster, private or not.
            ("100.64.2.7", EgressSource::Pod),
            ("203.0.113.2", EgressSource::Pod),
            ("198.51.100.9", EgressSource::Pod),
            ("203.0.113.3", EgressSource::Node),
            // A node behind a router that does not know pods.
            ("10.99.0.3", EgressSource::Node),
            ("10.99.0.4", EgressSource::Pod),
        ] {
            assert_eq!(shown(&exits, to), who, "{to}");
        }
    }

    #[test]
    fn the_file_says_where_pods_are_themselves() {
        let yaml = "nonMasqueradeCIDRs: [192.168.0.0/16, 10.99.0.3/32]\nmasqLinkLocal: true\n\
                    resyncInterval: 5s\n";
        let exits = of(&MasqueradeRules::parse(yaml).expect("rules"));
        for (to, who) in [
            ("192.168.3.4", EgressSource::Pod),
            ("172.20.0.1", EgressSource::Node),
            ("169.254.169.254", EgressSource::Node),
            ("fe80::1", EgressSource::Pod),
            ("10.0.1.5", EgressSource::Pod),
            ("10.99.0.3", EgressSource::Pod),
        ] {
            assert_eq!(shown(&exits, to), who, "{to}");
        }
        let json = r#"{"nonMasqueradeCIDRs": [], "masqLinkLocalIPv6": true}"#;
        let exits = of(&MasqueradeRules::parse(json).expect("rules"));
        assert_eq!(shown(&exits, "fe80::1"), EgressSource::Node);
        assert_eq!(shown(&exits, "192.168.3.4"), EgressSource::Node);
    }

    #[test]
    fn a_file_that_is_not_right_is_not_followed() {
        for text in [
            "nonMasqueradeCIDRs: [10.0.0.1/8]",
            "nonMasqueradeCIDRs: [x]",
            "nonMasqueradeCIDRs: 5",
            "{nonMasqueradeCIDRs: [10.0.0.0/8], cidrLimit: 0}",
        ] {
            assert!(MasqueradeRules::parse(text).is_err(), "{text}");
        }
        assert_eq!(
            MasqueradeRules::parse("").expect("nothing"),
            MasqueradeRules::default()
        );
        let missing = MasqueradeRules::read(Path::new("/nowhere/at/all"));
        assert_eq!(missing.expect("no file"), MasqueradeRules::default());
    }

    #[test]
    fn global_ipv6_addresses_of_pods_are_not_hidden() {
        let nodes = [node(
            "a",
            "203.0.113.1",
            &["2001:db8:1::/64", "10.0.1.0/24"],
        )];
        let exits = exits(
            &MasqueradeRules::default(),
            &nodes,
            &OverlayNetwork::default(),
            &[],
        );
        assert_eq!(shown(&exits, "2001:db8:9::1"), EgressSource::Pod);
        assert_eq!(shown(&exits, "8.8.8.8"), EgressSource::Node);
    }
}
