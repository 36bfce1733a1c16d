//! The layout in which kube-controller-manager writes Endpoints, and the order in which it
//! writes ports. It orders by a hash of the Go values, so that each port has the same place
//! in all objects with the same ports.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::hash;
use crate::views::{EndpointAddress, EndpointPort, EndpointSubset, Text};

/// Orders the ports of an EndpointSlice.
pub fn order_slice_ports(ports: &mut [EndpointPort]) {
    order("io.k8s.api.discovery.v1.EndpointPort", ports);
}

/// Addresses by address and uid, with whether they are ready.
type Addresses = BTreeMap<(Text, Text), (EndpointAddress, bool)>;

/// Repacks subsets: each port is in one subset, with all addresses that have it, and
/// ports with the same addresses share a subset. An address that is ready in one subset
/// and not in another, for the same port, is not ready.
#[must_use]
pub fn repack(subsets: Vec<EndpointSubset>) -> Vec<EndpointSubset> {
    let mut by_port: BTreeMap<Option<EndpointPort>, Addresses> = BTreeMap::new();
    for subset in subsets {
        let ports: Vec<Option<EndpointPort>> = match subset.ports.as_slice() {
            [] => vec![None],
            ports => ports.iter().cloned().map(Some).collect(),
        };
        let ready = subset.addresses.iter().map(|it| (it, true));
        let unready = subset.not_ready_addresses.iter().map(|it| (it, false));
        for (address, is_ready) in ready.chain(unready) {
            let uid = address.target_ref.as_ref().map(|it| it.uid.clone());
            let key = (address.ip.clone(), uid.unwrap_or_default());
            for port in &ports {
                by_port
                    .entry(port.clone())
                    .or_default()
                    .entry(key.clone())
                    .and_modify(|(_, was_ready)| *was_ready &= is_ready)
                    .or_insert_with(|| (address.clone(), is_ready));
            }
        }
    }
    let mut groups: Vec<(Addresses, Vec<EndpointPort>)> = Vec::new();
    for (port, addresses) in by_port {
        match groups.iter_mut().find(|(known, _)| *known == addresses) {
            Some((_, ports)) => ports.extend(port),
            None => groups.push((addresses, port.into_iter().collect())),
        }
    }
    let mut packed: Vec<EndpointSubset> = groups
        .into_iter()
        .map(|(addresses, mut ports)| {
            order("io.k8s.api.core.v1.EndpointPort", &mut ports);
            let mut subset = EndpointSubset {
                ports,
                ..EndpointSubset::default()
            };
            for (address, is_ready) in addresses.into_values() {
                if is_ready {
                    subset.addresses.push(address);
                } else {
                    subset.not_ready_addresses.push(address);
                }
            }
            subset
        })
        .collect();
    order("io.k8s.api.core.v1.EndpointSubset", &mut packed);
    packed
}

/// Sorts values of an API type by the hash of their dumps. Values without a dump would
/// sort last; these types have none.
fn order<T: Serialize>(name: &str, values: &mut [T]) {
    if values.len() > 1 {
        values.sort_by_cached_key(|value| {
            let value = serde_json::to_value(value).unwrap_or_default();
            hash::order_hash(name, &value).unwrap_or(u128::MAX)
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ports() -> Vec<EndpointPort> {
        let ports = json!([
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "http", "port": 8080, "protocol": "TCP"},
            {"name": "https", "port": 8443, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"},
            {"name": "metrics", "port": 9090, "protocol": "TCP"},
        ]);
        serde_json::from_value(ports).unwrap()
    }

    fn names(ports: &[EndpointPort]) -> Vec<&str> {
        let names = ports.iter().filter_map(|port| port.name.as_deref());
        names.collect()
    }

    fn subsets(value: Value) -> Vec<EndpointSubset> {
        serde_json::from_value(value).unwrap()
    }

    /// The hashes were computed apart from this code, of the texts that Go dumps.
    #[test]
    fn hashes_are_those_of_the_dumps_of_go() {
        let value = serde_json::to_value(&ports()[2]).unwrap();
        assert_eq!(
            hash::order_hash("io.k8s.api.core.v1.EndpointPort", &value).unwrap(),
            0xf39f_0538_5df1_c514_6bde_870d_0bd7_c0e6
        );
        assert_eq!(
            hash::order_hash("io.k8s.api.discovery.v1.EndpointPort", &value).unwrap(),
            0x736e_8928_9225_c3e8_7bbf_eec7_7091_b808
        );
        let value = json!({
            "addresses": [{"ip": "10.0.0.1"}],
            "notReadyAddresses": [{"ip": "10.0.0.2"}],
            "ports": [ports()[1]],
        });
        assert_eq!(
            hash::order_hash("io.k8s.api.core.v1.EndpointSubset", &value).unwrap(),
            0x9583_6f64_8908_dac2_f0fd_ba35_1d5b_b5a1
        );
    }

    #[test]
    fn ports_are_ordered_by_their_hashes() {
        let mut of_slice = ports();
        order_slice_ports(&mut of_slice);
        assert_eq!(names(&of_slice), ["http", "dns", "https", "metrics"]);
        let packed = repack(vec![EndpointSubset {
            addresses: subsets(json!([{"addresses": [{"ip": "10.0.0.1"}]}]))[0]
                .addresses
                .clone(),
            ports: ports(),
            ..EndpointSubset::default()
        }]);
        assert_eq!(names(&packed[0].ports), ["http", "metrics", "dns", "https"]);
    }

    #[test]
    fn subsets_are_made_of_ports_with_the_same_addresses() {
        let (http, metrics) = (json!(ports()[1]), json!(ports()[3]));
        let packed = repack(subsets(json!([
            {"addresses": [{"ip": "10.0.0.2"}], "ports": [http]},
            {"addresses": [{"ip": "10.0.0.1"}], "ports": [metrics, http]},
        ])));
        assert_eq!(
            json!(packed),
            json!([
                {"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [http]},
                {"addresses": [{"ip": "10.0.0.1"}], "ports": [metrics]},
            ])
        );
        let packed = repack(subsets(json!([
            {"addresses": [{"ip": "10.0.0.1"}], "ports": [http]},
            {"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [http]},
            {"addresses": [{"ip": "10.0.0.9"}]},
        ])));
        let without_ports = json!({"addresses": [{"ip": "10.0.0.9"}]});
        let unready = json!({"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [http]});
        assert_eq!(packed.len(), 2);
        for subset in [without_ports, unready] {
            assert!(json!(packed).as_array().unwrap().contains(&subset));
        }
    }
}
