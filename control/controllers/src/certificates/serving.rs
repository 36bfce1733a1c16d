//! Decides for which names and addresses a kubelet gets a serving certificate.
//!
//! A node's agent writes `status.addresses` itself, so these prove nothing. Three sources
//! are trusted: the node's name, the address from which the agent registered (recorded by
//! the API server in [`JOINED_FROM`]) and what an administrator added ([`SERVING_NAMES`]).

use std::net::IpAddr;
use std::sync::Arc;

use control_kinds::admission::{IP_POOLS, JOINED_FROM, SERVING_NAMES, listed, pool_ranges};
use control_pki::CertificateRequest;
use ipnet::IpNet;

use crate::Config;
use crate::views::Node;

/// The names and addresses that no kubelet may have in its serving certificate.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    server_names: Vec<String>,
    server_addresses: Vec<IpAddr>,
    /// Ranges of Services and of pods.
    ranges: Vec<IpNet>,
}

/// The result of [`judge`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServingVerdict {
    /// A trusted source confirms every name and address.
    Vouched,
    /// No trusted source confirms this name or address; an administrator may add it.
    Unvouched(String),
    /// The request contains a name or address that the node may not use.
    Forbidden(String),
}

// === impl Limits ===

impl Limits {
    pub(super) fn from_config(config: &Config) -> Self {
        let (addresses, names): (Vec<_>, Vec<_>) = config
            .api_server_names
            .iter()
            .partition(|name| name.parse::<IpAddr>().is_ok());
        let ranges = config.service_cidrs.iter().chain(&config.cluster_cidrs);
        Self {
            server_names: names.into_iter().cloned().collect(),
            server_addresses: addresses.iter().filter_map(|it| it.parse().ok()).collect(),
            ranges: ranges.copied().collect(),
        }
    }

    /// Whether a name belongs to the API server or to a Service.
    fn is_of_cluster(&self, name: &str) -> bool {
        let mut labels = name.trim_end_matches('.').split('.');
        let mut own = self.server_names.iter();
        labels.clone().next() == Some("kubernetes")
            || labels.any(|label| label == "svc")
            || name == "localhost"
            || own.any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// The addresses and names that a Node's annotations record.
struct RecordedNames {
    joined_from: Vec<IpAddr>,
    added: Vec<String>,
}

impl RecordedNames {
    fn of(node: &Node) -> Self {
        let annotation = |key| node.metadata.annotations.get(key).unwrap_or_default();
        Self {
            joined_from: listed(annotation(JOINED_FROM))
                .filter_map(address)
                .collect(),
            added: listed(annotation(SERVING_NAMES))
                .map(str::to_lowercase)
                .collect(),
        }
    }

    fn adds(&self, wanted: IpAddr) -> bool {
        self.added.iter().any(|name| address(name) == Some(wanted))
    }
}

fn address(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>()
        .ok()
        .map(|address| address.to_canonical())
}

/// Judges the names and addresses in a request from `node`; `nodes` are all Nodes. One
/// forbidden entry makes the verdict [`ServingVerdict::Forbidden`], whatever the others are.
pub(super) fn judge(
    asked: &CertificateRequest,
    node: &Node,
    nodes: &[Arc<Node>],
    limits: &Limits,
) -> ServingVerdict {
    let record = RecordedNames::of(node);
    let others = || {
        nodes
            .iter()
            .filter(|it| it.metadata.name != node.metadata.name)
    };
    let mut unvouched = None;
    for name in &asked.dns_names {
        let name = name.to_lowercase();
        if limits.is_of_cluster(&name) {
            return ServingVerdict::Forbidden(format!(
                "`{name}` is a name of the API server or a Service"
            ));
        }
        let is_own = *name == *node.metadata.name || record.added.contains(&name);
        if !is_own && others().any(|other| *name == *other.metadata.name) {
            return ServingVerdict::Forbidden(format!("`{name}` is another node"));
        }
        if !is_own {
            unvouched.get_or_insert(name);
        }
    }
    for wanted in asked.addresses.iter().map(IpAddr::to_canonical) {
        let is_joined = record.joined_from.contains(&wanted);
        let is_added = record.adds(wanted);
        if wanted.is_unspecified() || wanted.is_multicast() {
            return ServingVerdict::Forbidden(format!("`{wanted}` is no host's address"));
        }
        if let Some(range) = limits.ranges.iter().find(|range| range.contains(&wanted)) {
            return ServingVerdict::Forbidden(format!(
                "`{wanted}` is in {range}, a range of Services or pods"
            ));
        }
        if let Some(other) = others().find(|other| holds(other, wanted, node)) {
            let other = &other.metadata.name;
            return ServingVerdict::Forbidden(format!("`{wanted}` belongs to node `{other}`"));
        }
        let is_servers = wanted.is_loopback() || limits.server_addresses.contains(&wanted);
        if is_servers && !is_added && !is_joined {
            return ServingVerdict::Forbidden(format!("`{wanted}` is the API server's address"));
        }
        if !(is_added || is_joined && !is_servers) {
            unvouched.get_or_insert(wanted.to_string());
        }
    }
    match unvouched {
        None => ServingVerdict::Vouched,
        Some(name) => ServingVerdict::Unvouched(format!(
            "nobody vouches for `{name}`: the node registered from {}; if it is the node's, add \
             it to the annotation {SERVING_NAMES} of the Node",
            match record.joined_from.as_slice() {
                [] => "an unknown address".to_owned(),
                all => {
                    let all: Vec<_> = all.iter().map(IpAddr::to_string).collect();
                    all.join(",")
                }
            }
        )),
    }
}

/// Whether another node holds an address: it is in a range of the node's pods, an
/// administrator added it to the node, or the node registered from it before `node` existed.
fn holds(other: &Node, wanted: IpAddr, node: &Node) -> bool {
    let record = RecordedNames::of(other);
    let age = |node: &Node| (node.metadata.creation_timestamp, node.metadata.name.clone());
    let ranges = other.spec.pod_cidrs.iter().chain([&other.spec.pod_cidr]);
    let pools = other.metadata.annotations.get(IP_POOLS).unwrap_or_default();
    let mut ranges = ranges
        .filter_map(|range| range.parse::<IpNet>().ok())
        .chain(pool_ranges(pools));
    ranges.any(|range| range.contains(&wanted))
        || record.adds(wanted)
        || record.joined_from.contains(&wanted) && age(other) < age(node)
}

#[cfg(test)]
mod tests {
    use control_pki::Request;
    use serde_json::json;

    use super::*;

    fn node(name: &str, made: &str, joined_from: &str, added: &str, range: &str) -> Arc<Node> {
        let node = json!({
            "metadata": {"name": name, "creationTimestamp": made, "annotations":
                {JOINED_FROM: joined_from, SERVING_NAMES: added}},
            "spec": {"podCIDRs": [range]},
            // What the node says of itself counts for nothing.
            "status": {"addresses": [
                {"type": "InternalIP", "address": "192.0.2.66"},
                {"type": "Hostname", "address": "gateway.example.com"}]},
        });
        Arc::new(serde_json::from_value(node).expect("a node"))
    }

    fn limits() -> Limits {
        Limits::from_config(&Config {
            api_server_names: ["kubernetes", "api.example.com", "192.0.2.1", "127.0.0.1"]
                .map(str::to_owned)
                .into(),
            service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
            cluster_cidrs: vec!["10.244.0.0/16".parse().expect("a range")],
            ..Config::default()
        })
    }

    fn ask(name: &str, sans: &[&str]) -> ServingVerdict {
        const EARLY: &str = "2026-01-01T00:00:00Z";
        const LATE: &str = "2026-01-02T00:00:00Z";
        let nodes = [
            node(
                "n1",
                LATE,
                "192.0.2.11",
                "n1.example.com,fd00::11",
                "10.244.1.0/24",
            ),
            node("n2", EARLY, "192.0.2.12", "192.0.2.22", "10.9.2.0/24"),
            node("first", EARLY, "192.0.2.1", "", ""),
            node("first-known", EARLY, "192.0.2.1", "192.0.2.1", ""),
            node("behind-n2", LATE, "192.0.2.12", "", ""),
            node("unknown", LATE, "", "", ""),
        ];
        let sans: Vec<_> = sans.iter().map(ToString::to_string).collect();
        let asked = Request::new(&format!("system:node:{name}"), &["system:nodes"], &sans);
        let asked = asked.expect("a request").request_pem;
        let asked = CertificateRequest::parse(asked.as_bytes()).expect("read");
        let nodes: Vec<_> = nodes
            .into_iter()
            // Two accounts of one machine.
            .filter(|it| !it.metadata.name.starts_with("first") || *it.metadata.name == *name)
            .collect();
        let own = nodes.iter().find(|node| *node.metadata.name == *name);
        judge(&asked, own.expect("its node"), &nodes, &limits())
    }

    #[test]
    fn what_others_recorded_of_a_node_is_vouched_for() {
        assert_eq!(ask("n1", &["n1", "192.0.2.11"]), ServingVerdict::Vouched);
        assert_eq!(
            ask("n1", &["N1.example.com", "fd00::11"]),
            ServingVerdict::Vouched
        );
        assert_eq!(ask("first-known", &["192.0.2.1"]), ServingVerdict::Vouched);
    }

    #[test]
    fn what_a_node_says_of_itself_waits_for_an_administrator() {
        for (node, san) in [
            ("n1", "192.0.2.66"),
            ("n1", "gateway.example.com"),
            ("unknown", "192.0.2.66"),
            // Who is on the server's machine may be its node, or not.
            ("first", "192.0.2.1"),
        ] {
            match ask(node, &[node, san]) {
                ServingVerdict::Unvouched(why) => {
                    assert!(why.contains(san) && why.contains(SERVING_NAMES), "{why}");
                }
                other => panic!("{node} {san}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_belongs_to_others_is_forbidden() {
        for san in [
            "kubernetes",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "web.shop.svc",
            "API.example.com",
            "localhost",
            "n2",
            "192.0.2.1",
            "127.0.0.1",
            "::ffff:192.0.2.1",
            "::1",
            "10.96.0.1",
            "10.244.1.7",
            "10.9.2.7",
            "192.0.2.12",
            "192.0.2.22",
            "0.0.0.0",
        ] {
            let verdict = ask("n1", &["n1", "192.0.2.66", san]);
            assert!(
                matches!(verdict, ServingVerdict::Forbidden(_)),
                "{san}: {verdict:?}"
            );
        }
        let verdict = ask("behind-n2", &["192.0.2.12"]);
        assert!(
            matches!(verdict, ServingVerdict::Forbidden(_)),
            "{verdict:?}"
        );
        assert_eq!(
            ask("n2", &["192.0.2.12"]),
            ServingVerdict::Vouched,
            "it was there first"
        );
    }
}
