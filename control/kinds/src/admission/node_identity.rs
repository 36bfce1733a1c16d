//! The addresses of a node, and those that its agent may report.
//!
//! A node's agent writes its own Node and the status of its pods. These fields redirect
//! traffic of others: Services follow `status.podIPs`, the API server dials
//! `status.addresses`, other nodes route to both. So an agent may report only addresses
//! that no other node holds, and the control plane records the one fact that an agent
//! cannot choose: the address from which it registered.

use std::net::IpAddr;

use control_types::meta;
use control_types::status::quote;
use control_types::value::Value;
use ipnet::IpNet;

use super::refusal::Refusal;
use crate::tree::Read;

/// Prefix of the annotations of Nodes that only the control plane and administrators write.
const OWN_ANNOTATIONS: &str = "orlop.dev/";
/// Annotation of a Node: the addresses from which its agent registered, as the API server
/// saw them. Written once, by the API server.
pub const JOINED_FROM: &str = "orlop.dev/joined-from";
/// Annotation of a Node with further names and addresses, separated by commas. Written by
/// administrators.
pub const SERVING_NAMES: &str = "orlop.dev/serving-names";
/// Annotation of a Node: pools of addresses for its pods, JSON: names to ranges.
pub const IP_POOLS: &str = "orlop.dev/ip-pools";

/// The addresses of one Node, by their source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAddresses {
    /// `metadata.name`.
    pub name: String,
    /// Recorded by the control plane or an administrator.
    pub vouched: Vec<IpAddr>,
    /// Reported by the node itself.
    pub reported: Vec<IpAddr>,
    /// Ranges of its pods.
    pub ranges: Vec<IpNet>,
}

/// The addresses that no node may report, unless they are vouched for.
#[derive(Clone, Debug, Default)]
pub struct ReservedAddresses {
    /// Those of the API server.
    pub server: Vec<IpAddr>,
    /// Ranges of Service addresses.
    pub services: Vec<IpNet>,
}

/// Returns the items of a list that is separated by commas.
pub fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

/// Returns the ranges that an annotation [`IP_POOLS`] names.
#[must_use]
pub fn pool_ranges(text: &str) -> Vec<IpNet> {
    let Ok(pools) = Value::from_slice(text.as_bytes()) else {
        return Vec::new();
    };
    let ranges = pools.as_object().into_iter().flat_map(|pools| {
        let all = pools.iter().filter_map(|(_, ranges)| ranges.as_array());
        all.flatten()
            .filter_map(|range| range.as_text().parse().ok())
    });
    ranges.collect()
}

fn addresses(text: &str) -> impl Iterator<Item = IpAddr> {
    listed(text).filter_map(address)
}

fn address(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>()
        .ok()
        .map(|address| address.to_canonical())
}

fn reported(node: &Value) -> Vec<IpAddr> {
    let items = node.at("status").items("addresses").iter();
    let ips = items.filter(|item| matches!(item.text("type"), "InternalIP" | "ExternalIP"));
    ips.filter_map(|item| address(item.text("address")))
        .collect()
}

// === impl NodeAddresses ===

impl NodeAddresses {
    /// Reads them from a Node.
    #[must_use]
    pub fn from_node(node: &Value) -> Self {
        let annotation = |key| meta::annotation(node, key).unwrap_or_default();
        let spec = node.at("spec");
        let ranges = spec.items("podCIDRs").iter().map(Value::as_text);
        let ranges = ranges.chain([spec.text("podCIDR")]);
        let mut ranges: Vec<IpNet> = ranges.filter_map(|range| range.parse().ok()).collect();
        ranges.extend(pool_ranges(annotation(IP_POOLS)));
        Self {
            name: meta::name(node).to_owned(),
            vouched: addresses(annotation(JOINED_FROM))
                .chain(addresses(annotation(SERVING_NAMES)))
                .collect(),
            reported: reported(node),
            ranges,
        }
    }

    fn is_in_ranges(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }
}

// === impl ReservedAddresses ===

impl ReservedAddresses {
    /// Returns why `own` may not use an address that is not vouched for.
    fn refusal(
        &self,
        own: &NodeAddresses,
        others: &[NodeAddresses],
        address: IpAddr,
    ) -> Option<String> {
        if own.vouched.contains(&address) {
            return None;
        }
        // A node on the API server's machine shares its addresses.
        let is_on_server =
            |address: &IpAddr| address.is_loopback() || self.server.contains(address);
        if self.server.contains(&address) && !own.vouched.iter().any(is_on_server) {
            return Some("it is the API server's".to_owned());
        }
        if let Some(range) = self.services.iter().find(|range| range.contains(&address)) {
            return Some(format!("it is in the range of Services, {range}"));
        }
        let mut others = others.iter().filter(|other| other.name != own.name);
        others
            .find(|other| other.vouched.contains(&address) || other.is_in_ranges(address))
            .map(|other| format!("it belongs to node {}", quote(&other.name)))
    }
}

/// Returns the value of [`JOINED_FROM`] for a node whose agent connects from `peer`. An
/// agent in the API server's own process has no peer and is trusted.
#[must_use]
pub fn joined_from(node: &Value, peer: Option<IpAddr>) -> String {
    match peer {
        Some(peer) => peer.to_canonical().to_string(),
        None => {
            let reported: Vec<_> = reported(node).iter().map(IpAddr::to_string).collect();
            reported.join(",")
        }
    }
}

/// Checks an agent's write of its Node: annotations of the control plane must not change,
/// except that the API server adds `joined_from`; the pod ranges must not change.
///
/// # Errors
/// Why the agent may not write it.
pub fn node_keeps_its_bounds(
    node: &str,
    new: &Value,
    old: Option<&Value>,
    joined_from: &str,
) -> Result<(), Refusal> {
    let none = Value::Null;
    let old = old.unwrap_or(&none);
    let before = |key: &str| meta::annotation(old, key);
    let is_changed = |(key, value): &(&str, &str)| {
        let is_recorded = *key == JOINED_FROM && before(key).is_none() && *value == joined_from;
        key.starts_with(OWN_ANNOTATIONS) && !is_recorded && before(key) != Some(*value)
    };
    let written = meta::annotations(new)
        .filter(is_changed)
        .map(|(key, _)| key);
    let removed = meta::annotations(old)
        .map(|(key, _)| key)
        .filter(|key| key.starts_with(OWN_ANNOTATIONS) && meta::annotation(new, key).is_none());
    let mut changed: Vec<&str> = written.chain(removed).collect();
    changed.sort_unstable();
    let shown = quote(node);
    if !changed.is_empty() {
        let list = changed.join(", ");
        return Err(format!("node {shown} is not allowed to modify annotations: {list}").into());
    }
    let ranges = |node: &Value| {
        let spec = node.at("spec");
        let all = spec.items("podCIDRs").iter().map(Value::as_text);
        let all: Vec<String> = all.map(str::to_owned).collect();
        (spec.text("podCIDR").to_owned(), all)
    };
    if ranges(new) != ranges(old) {
        return Err(format!("node {shown} is not allowed to modify podCIDRs").into());
    }
    Ok(())
}

/// Whether a Node's status has names or addresses that `old` does not have.
#[must_use]
pub fn reports_new_addresses(new: &Value, old: Option<&Value>) -> bool {
    let none = Value::Null;
    let known = old.unwrap_or(&none).at("status").items("addresses");
    let mut now = new.at("status").items("addresses").iter();
    now.any(|item| !known.iter().any(|known| crate::tree::same(known, item)))
}

/// Checks the addresses in a Node's status that its agent adds.
///
/// # Errors
/// Why the agent may not report them.
pub fn node_reports_addresses(
    new: &Value,
    old: Option<&Value>,
    others: &[NodeAddresses],
    reserved: &ReservedAddresses,
) -> Result<(), Refusal> {
    let own = NodeAddresses::from_node(new);
    let shown = quote(&own.name);
    let none = Value::Null;
    let known = old.unwrap_or(&none).at("status").items("addresses");
    for item in new.at("status").items("addresses") {
        if known.iter().any(|known| crate::tree::same(known, item)) {
            continue;
        }
        let text = item.text("address");
        let why = match address(text) {
            Some(address) => reserved.refusal(&own, others, address),
            None => others
                .iter()
                .find(|other| other.name != own.name && other.name.eq_ignore_ascii_case(text))
                .map(|_| "it is another node's name".to_owned()),
        };
        if let Some(why) = why {
            let text = quote(text);
            return Err(
                format!("node {shown} is not allowed to report the address {text}: {why}").into(),
            );
        }
    }
    Ok(())
}

/// Addresses in a pod's status.
struct PodAddresses {
    /// The addresses of the pod.
    pod: Vec<IpAddr>,
    /// The addresses of its host.
    host: Vec<IpAddr>,
}

impl PodAddresses {
    fn of(pod: &Value) -> Self {
        let status = pod.at("status");
        let all = |single, list| {
            let listed = status.items(list).iter().map(|item| item.text("ip"));
            let listed = listed.chain([status.text(single)]);
            listed.filter_map(address).collect()
        };
        Self {
            pod: all("podIP", "podIPs"),
            host: all("hostIP", "hostIPs"),
        }
    }
}

/// Whether an agent's write of a pod's status adds addresses: only then the other objects
/// that [`node_reports_pod_addresses`] needs have to be looked up.
#[must_use]
pub fn adds_pod_addresses(new: &Value, old: &Value) -> bool {
    let (now, before) = (PodAddresses::of(new), PodAddresses::of(old));
    now.pod.iter().any(|ip| !before.pod.contains(ip))
        || now.host.iter().any(|ip| !before.host.contains(ip))
}

/// Checks the addresses that the agent of `own` adds to a pod's status. They must be in
/// the node's ranges or belong to the node itself; if the node has no range, any address
/// that no other node holds is allowed. `others` returns the other nodes; it is called
/// only if needed.
///
/// # Errors
/// Why the agent may not report them.
pub fn node_reports_pod_addresses(
    own: &NodeAddresses,
    new: &Value,
    old: &Value,
    others: impl FnOnce() -> Vec<NodeAddresses>,
    reserved: &ReservedAddresses,
) -> Result<(), Refusal> {
    let (now, before) = (PodAddresses::of(new), PodAddresses::of(old));
    let is_host = |ip: &IpAddr| own.vouched.contains(ip) || own.reported.contains(ip);
    let pod = now.pod.iter().filter(|ip| !before.pod.contains(ip));
    let host = now.host.iter().filter(|ip| !before.host.contains(ip));
    let pod: Vec<IpAddr> = pod
        .filter(|ip| !is_host(ip) && !own.is_in_ranges(**ip))
        .copied()
        .collect();
    let host: Vec<IpAddr> = host.filter(|ip| !is_host(ip)).copied().collect();
    let refused = |ip: &IpAddr, why: &str| {
        let (shown, ip) = (quote(&own.name), ip.to_string());
        let ip = quote(&ip);
        Err(
            format!("node {shown} is not allowed to report the address {ip} of a pod: {why}")
                .into(),
        )
    };
    if pod.is_empty() && host.is_empty() {
        return Ok(());
    }
    let has_range = |ip: &IpAddr| {
        let mut ranges = own.ranges.iter();
        ranges.any(|range| range.addr().is_ipv4() == ip.is_ipv4())
    };
    if let Some(ip) = pod.iter().find(|ip| has_range(ip)) {
        return refused(ip, "it is not in the node's pod ranges");
    }
    let others = others();
    for ip in pod.iter().chain(&host) {
        if let Some(why) = reserved.refusal(own, &others, *ip) {
            return refused(ip, &why);
        }
    }
    Ok(())
}

/// Checks a new ResourceSlice of an agent: a pool of devices belongs to the node that
/// published it first, since a slice of a higher generation replaces all others of its pool.
///
/// # Errors
/// Why the agent may not publish it.
pub fn node_publishes_slice<'a>(
    node: &str,
    slice: &Value,
    present: impl IntoIterator<Item = &'a Value>,
) -> Result<(), Refusal> {
    let pool = |slice: &Value| {
        let spec = slice.at("spec");
        let (driver, pool) = (spec.text("driver"), spec.at("pool").text("name"));
        (driver.to_owned(), pool.to_owned())
    };
    let own = pool(slice);
    let mut present = present.into_iter();
    let taken = present.find(|other| {
        let of = other.at("spec").text("nodeName");
        of != node && pool(other) == own
    });
    match taken {
        None => Ok(()),
        Some(_) => Err(format!(
            "the pool {} of driver {} belongs to another node",
            quote(&own.1),
            quote(&own.0)
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn node(name: &str, joined_from: &str, range: &str) -> Value {
        value!({
            "metadata": {"name": name, "annotations": {JOINED_FROM: joined_from}},
            "spec": {"podCIDR": range, "podCIDRs": [range]},
        })
    }

    fn reserved() -> ReservedAddresses {
        ReservedAddresses {
            server: vec!["192.0.2.1".parse().expect("an address")],
            services: vec!["10.96.0.0/16".parse().expect("a range")],
        }
    }

    fn others() -> Vec<NodeAddresses> {
        vec![NodeAddresses::from_node(&node(
            "n2",
            "192.0.2.12",
            "10.0.2.0/24",
        ))]
    }

    #[test]
    fn a_node_reports_no_address_that_somebody_else_holds() {
        let report = |joined_from: &str, kind: &str, address: &str| {
            let mut new = node("n1", joined_from, "10.0.1.0/24");
            let status = value!({"addresses": [{"type": kind, "address": address}]});
            new.set_path(&["status"], status);
            node_reports_addresses(&new, None, &others(), &reserved())
        };
        let own = "192.0.2.11";
        for address in [
            "192.0.2.11",
            "192.0.2.99",
            "fd00::1",
            "10.0.1.7",
            "127.0.0.1",
        ] {
            assert_eq!(report(own, "InternalIP", address), Ok(()), "{address}");
        }
        for address in [
            "192.0.2.12",
            "::ffff:192.0.2.12",
            "10.0.2.7",
            "10.96.0.1",
            "192.0.2.1",
        ] {
            for kind in ["InternalIP", "ExternalIP"] {
                assert!(report(own, kind, address).is_err(), "{kind} {address}");
            }
        }
        assert!(report(own, "Hostname", "N2").is_err());
        assert_eq!(report(own, "Hostname", "n1"), Ok(()));
        for on_server in ["192.0.2.1", "127.0.0.1"] {
            assert_eq!(report(on_server, "InternalIP", "192.0.2.1"), Ok(()));
        }
    }

    #[test]
    fn what_a_node_reported_before_does_not_stop_its_reports() {
        let mut old = node("n1", "192.0.2.11", "10.0.1.0/24");
        let addresses = value!([{"type": "InternalIP", "address": "192.0.2.12"}]);
        old.set_path(&["status", "addresses"], addresses);
        assert!(!reports_new_addresses(&old, Some(&old)));
        let same = node_reports_addresses(&old, Some(&old), &others(), &reserved());
        assert_eq!(same, Ok(()));
    }

    #[test]
    fn annotations_and_ranges_of_the_control_plane_are_not_a_nodes_to_write() {
        let plain = value!({"metadata": {"name": "n1"}});
        let write =
            |new: &Value, old: Option<&Value>| node_keeps_its_bounds("n1", new, old, "192.0.2.11");
        let with = |key: &str, text: &str| value!({"metadata": {"name": "n1", "annotations": {key: text}}});
        for old in [None, Some(&plain)] {
            assert_eq!(write(&with("example.com/a", "x"), old), Ok(()));
            assert_eq!(write(&with(JOINED_FROM, "192.0.2.11"), old), Ok(()));
            assert!(write(&with(JOINED_FROM, "192.0.2.12"), old).is_err());
            assert!(write(&with(IP_POOLS, r#"{"default":["0.0.0.0/1"]}"#), old).is_err());
            assert!(write(&with(SERVING_NAMES, "kubernetes"), old).is_err());
            assert!(write(&node("n1", "192.0.2.11", "0.0.0.0/1"), old).is_err());
        }
        let recorded = with(JOINED_FROM, "192.0.2.12");
        assert_eq!(write(&recorded, Some(&recorded)), Ok(()));
        assert!(write(&plain, Some(&recorded)).is_err(), "removed");
        let changed = with(JOINED_FROM, "192.0.2.11");
        assert!(write(&changed, Some(&recorded)).is_err(), "recorded once");
        let ranged = node("n1", "192.0.2.11", "10.0.1.0/24");
        assert_eq!(write(&ranged, Some(&ranged)), Ok(()));
    }

    #[test]
    fn a_pod_has_an_address_of_its_node_alone() {
        let report = |ranged: bool, field: &str, ip: &str| {
            let mut own = node("n1", "192.0.2.11", if ranged { "10.0.1.0/24" } else { "" });
            let pools = r#"{"db": ["10.8.0.0/24"]}"#;
            if ranged {
                own.set_path(&["metadata", "annotations", IP_POOLS], pools);
            }
            let new = match field {
                "podIP" | "hostIP" => value!({"status": {field: ip}}),
                _ => value!({"status": {field: [{"ip": ip}]}}),
            };
            let old = value!({});
            assert!(adds_pod_addresses(&new, &old) && !adds_pod_addresses(&new, &new));
            let own = NodeAddresses::from_node(&own);
            node_reports_pod_addresses(&own, &new, &old, others, &reserved())
        };
        for field in ["podIP", "podIPs"] {
            for ip in ["10.0.1.7", "10.8.0.7", "192.0.2.11"] {
                assert_eq!(report(true, field, ip), Ok(()), "{field} {ip}");
            }
            for ip in [
                "10.0.2.7",
                "10.96.0.1",
                "192.0.2.12",
                "192.0.2.1",
                "8.8.8.8",
            ] {
                assert!(report(true, field, ip).is_err(), "{field} {ip}");
            }
            assert_eq!(
                report(false, field, "10.0.3.7"),
                Ok(()),
                "no ranges are known"
            );
            for ip in ["10.0.2.7", "10.96.0.1", "192.0.2.12", "192.0.2.1"] {
                assert!(report(false, field, ip).is_err(), "{field} {ip}");
            }
        }
        assert_eq!(report(true, "hostIP", "192.0.2.11"), Ok(()));
        assert_eq!(report(true, "hostIPs", "192.0.2.99"), Ok(()));
        for ip in ["192.0.2.12", "192.0.2.1", "10.96.0.1"] {
            assert!(report(true, "hostIP", ip).is_err(), "{ip}");
        }
    }

    #[test]
    fn a_pool_of_devices_belongs_to_who_published_it() {
        let slice = |node: &str, pool: &str| value!({"spec": {"nodeName": node, "driver": "gpu.example.com", "pool": {"name": pool, "generation": 1}}});
        let present = [slice("n1", "n1"), slice("n2", "n2")];
        let publish = |pool: &str| node_publishes_slice("n1", &slice("n1", pool), &present);
        assert_eq!(publish("n1"), Ok(()));
        assert_eq!(publish("new"), Ok(()));
        assert!(publish("n2").is_err());
    }

    #[test]
    fn the_agent_in_the_servers_process_is_believed() {
        let mut own = node("n1", "", "");
        let addresses = value!([
            {"type": "InternalIP", "address": "192.0.2.1"},
            {"type": "Hostname", "address": "n1"},
            {"type": "InternalIP", "address": "fd00::1"},
        ]);
        own.set_path(&["status", "addresses"], addresses);
        assert_eq!(joined_from(&own, None), "192.0.2.1,fd00::1");
        let peer = "::ffff:192.0.2.9".parse().ok();
        assert_eq!(joined_from(&own, peer), "192.0.2.9");
    }
}
