//! Random clusters with few names, addresses and ports, so that rules and pods often match.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebpf_abi::Protocol;
use node_agent_policy::objects::*;

use super::Cluster;

/// A small generator: equal seeds give equal clusters.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True in one of so many cases.
    pub fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn some<T>(&mut self, most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }
}

pub const NAMESPACES: [&str; 3] = ["kube-system", "x", "y"];
pub const PODS: [&str; 5] = ["p0", "p1", "p2", "p3", "p4"];
pub const NODES: [&str; 2] = ["n0", "n1"];
pub const POLICIES: [&str; 3] = ["a", "b", "c"];
const PORTS: [i64; 6] = [53, 80, 81, 82, 8080, 9000];
const CIDRS: [&str; 14] = [
    "0.0.0.0/0",
    "::/0",
    "10.0.0.0/8",
    "10.0.0.0/29",
    "10.0.0.4/30",
    "10.0.0.3/32",
    "10.0.1.0/24",
    "172.16.0.0/12",
    "172.16.0.1/32",
    "192.0.2.0/24",
    "192.0.2.128/25",
    "fd00::/8",
    "fd00::4/126",
    "2001:db8::/32",
];

/// Ranges of pods' addresses.
const RANGES: [&str; 5] = [
    "10.0.0.0/29",
    "10.0.0.8/29",
    "10.0.0.0/24",
    "10.0.1.0/24",
    "fd00::4/126",
];

/// Addresses worth asking about.
pub fn addresses() -> Vec<IpAddr> {
    let mut all: Vec<String> = (1..=10).map(|it| format!("10.0.0.{it}")).collect();
    all.extend((1..=5).map(|it| format!("fd00::{it}")));
    for it in [
        "10.0.1.1",
        "172.16.0.1",
        "172.16.0.2",
        "fd01::1",
        "192.0.2.1",
        "192.0.2.129",
        "198.51.100.1",
        "2001:db8::1",
        "2001:db9::1",
    ] {
        all.push(it.into());
    }
    all.iter().map(|it| it.parse().unwrap()).collect()
}

/// What to ask: protocol and port.
pub fn ports() -> Vec<(Protocol, u16)> {
    let mut all = vec![(Protocol(1), 0)];
    for protocol in [Protocol::TCP, Protocol::UDP, Protocol::SCTP] {
        all.extend([0, 53, 80, 81, 82, 8080, 8500, 9000, 65535].map(|port| (protocol, port)));
    }
    all
}

pub fn labels(random: &mut Random) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for key in ["app", "tier"] {
        if !random.one_in(4) {
            labels.insert(key.into(), random.pick(&["a", "b", "c"]).into());
        }
    }
    labels
}

fn selector(random: &mut Random) -> LabelSelector {
    let mut selector = LabelSelector::default();
    if random.one_in(4) {
        return selector;
    }
    if !random.one_in(3) {
        let key = random.pick(&["app", "tier"]);
        let value = random.pick(&["a", "b", "c"]);
        selector.match_labels.insert(key.into(), value.into());
    }
    if random.one_in(3) {
        let operator = random.pick(&["In", "NotIn", "Exists", "DoesNotExist"]);
        let values = if operator.ends_with("In") {
            let mut values = vec![random.pick(&["a", "b", "c"]).into()];
            values.extend(random.some(1, |it| it.pick(&["a", "b", "c"]).into()));
            values
        } else {
            Vec::new()
        };
        selector.match_expressions.push(Expression {
            key: random.pick(&["app", "tier"]).into(),
            operator: operator.into(),
            values,
        });
    }
    selector
}

pub fn namespace(random: &mut Random, name: &str) -> Namespace {
    let mut labels = labels(random);
    labels.insert("kubernetes.io/metadata.name".into(), name.into());
    Namespace {
        metadata: Metadata {
            name: name.into(),
            labels,
            ..Metadata::default()
        },
    }
}

pub fn node(random: &mut Random, name: &str) -> Node {
    let number = NODES.iter().position(|it| *it == name).unwrap() + 1;
    let mut addresses = vec![format!("172.16.0.{number}"), name.to_owned()];
    if number == 1 && random.one_in(2) {
        addresses.push("fd01::1".into());
    }
    // Ranges that come late, change, overlap and are not those of all pods.
    let ranges = random.some(2, |it| it.pick(&RANGES).to_owned());
    Node {
        metadata: Metadata {
            name: name.into(),
            labels: labels(random),
            ..Metadata::default()
        },
        spec: NodeSpec {
            pod_cidr: ranges.first().cloned().unwrap_or_default(),
            pod_cidrs: ranges,
        },
        status: NodeStatus {
            addresses: addresses
                .into_iter()
                .map(|address| NodeAddress { address })
                .collect(),
        },
    }
}

pub fn pod(random: &mut Random, namespace: &str, name: &str) -> Pod {
    let mut ips = vec![format!("10.0.0.{}", 1 + random.below(9))];
    if random.one_in(3) {
        ips.push(format!("fd00::{}", 1 + random.below(5)));
    }
    let ports = random.some(2, |it| ContainerPort {
        name: it.pick(&["http", "dns", ""]).into(),
        container_port: it.pick(&PORTS),
        protocol: it.pick(&[None, Some("TCP".into()), Some("UDP".into())]),
    });
    Pod {
        metadata: Metadata {
            name: name.into(),
            namespace: namespace.into(),
            labels: labels(random),
            creation_timestamp: Some(format!("2026-01-01T00:00:0{}Z", random.below(4))),
            ..Metadata::default()
        },
        spec: PodSpec {
            node_name: random.pick(&NODES).into(),
            host_network: random.one_in(10),
            containers: vec![Container {
                ports,
                restart_policy: None,
            }],
            init_containers: Vec::new(),
        },
        status: PodStatus {
            phase: if random.one_in(10) {
                "Failed"
            } else {
                "Running"
            }
            .into(),
            pod_ip: ips[0].clone(),
            pod_ips: ips.into_iter().map(|ip| PodIp { ip }).collect(),
        },
    }
}

fn np_port(random: &mut Random) -> NetworkPolicyPort {
    let protocol = random.pick(&[
        None,
        Some("TCP".into()),
        Some("UDP".into()),
        Some("SCTP".into()),
    ]);
    let (port, end_port) = match random.below(6) {
        0 => (None, None),
        1 | 2 => (
            Some(IntOrString::String(random.pick(&["http", "dns"]).into())),
            None,
        ),
        3 => {
            let first = random.pick(&PORTS);
            let last = [first, first + 1, 9000.max(first)];
            (Some(IntOrString::Int(first)), Some(random.pick(&last)))
        }
        _ => (Some(IntOrString::Int(random.pick(&PORTS))), None),
    };
    NetworkPolicyPort {
        protocol,
        port,
        end_port,
    }
}

fn np_peer(random: &mut Random) -> NetworkPolicyPeer {
    let mut peer = NetworkPolicyPeer::default();
    match random.below(4) {
        0 => peer.pod_selector = Some(selector(random)),
        1 => peer.namespace_selector = Some(selector(random)),
        2 => {
            peer.pod_selector = Some(selector(random));
            peer.namespace_selector = Some(selector(random));
        }
        _ => {
            // Whole families have a way of their own through the compiler.
            let cidr = if random.one_in(2) {
                random.pick(&CIDRS[..2])
            } else {
                random.pick(&CIDRS)
            };
            let inner: Vec<&str> = CIDRS
                .iter()
                .copied()
                .filter(|it| it.contains(':') == cidr.contains(':') && *it != cidr)
                .collect();
            peer.ip_block = Some(IpBlock {
                cidr: cidr.into(),
                except: random.some(2, |it| it.pick(&inner).to_owned()),
            });
        }
    }
    peer
}

pub fn network_policy(random: &mut Random, namespace: &str, name: &str) -> NetworkPolicy {
    let mut metadata = Metadata {
        name: name.into(),
        namespace: namespace.into(),
        ..Metadata::default()
    };
    if random.one_in(4) {
        let key = node_agent_policy::lower::APPLIES_TO;
        metadata.annotations.insert(key.into(), "nodes".into());
    }
    NetworkPolicy {
        metadata,
        spec: NetworkPolicySpec {
            pod_selector: selector(random),
            ingress: random.some(2, |it| NetworkPolicyIngress {
                from: it.some(2, np_peer),
                ports: it.some(2, np_port),
            }),
            egress: random.some(2, |it| NetworkPolicyEgress {
                to: it.some(2, np_peer),
                ports: it.some(2, np_port),
            }),
            policy_types: match random.below(5) {
                0 => vec!["Ingress".into()],
                1 => vec!["Egress".into()],
                2 => vec!["Ingress".into(), "Egress".into()],
                _ => Vec::new(),
            },
        },
    }
}

fn pod_peer(random: &mut Random) -> PodPeer {
    if random.one_in(2) {
        PodPeer {
            namespaces: Some(selector(random)),
            pods: None,
        }
    } else {
        PodPeer {
            namespaces: None,
            pods: Some(NamespacedPod {
                namespace_selector: selector(random),
                pod_selector: selector(random),
            }),
        }
    }
}

fn egress_peer(random: &mut Random) -> ClusterEgressPeer {
    match random.below(6) {
        0 => ClusterEgressPeer {
            nodes: Some(selector(random)),
            ..ClusterEgressPeer::default()
        },
        1 | 2 => ClusterEgressPeer {
            networks: (0..=random.below(3))
                .map(|_| random.pick(&CIDRS).to_owned())
                .collect(),
            ..ClusterEgressPeer::default()
        },
        _ => {
            let peer = pod_peer(random);
            ClusterEgressPeer {
                namespaces: peer.namespaces,
                pods: peer.pods,
                ..ClusterEgressPeer::default()
            }
        }
    }
}

fn cluster_protocol(random: &mut Random) -> ClusterProtocol {
    if random.one_in(4) {
        return ClusterProtocol {
            destination_named_port: random.pick(&["http", "dns"]).into(),
            ..ClusterProtocol::default()
        };
    }
    let ports = ClusterPorts {
        destination_port: match random.below(3) {
            0 => None,
            1 => Some(ClusterPort {
                number: random.pick(&PORTS),
                range: None,
            }),
            _ => Some(ClusterPort {
                number: 0,
                range: Some(ClusterPolicyPortRange {
                    start: random.pick(&PORTS[..4]),
                    end: random.pick(&[8080, 9000]),
                }),
            }),
        },
    };
    let mut protocol = ClusterProtocol::default();
    match random.below(3) {
        0 => protocol.tcp = Some(ports),
        1 => protocol.udp = Some(ports),
        _ => protocol.sctp = Some(ports),
    }
    protocol
}

pub fn cluster_policy(random: &mut Random, name: &str) -> ClusterNetworkPolicy {
    let mut metadata = Metadata {
        name: name.into(),
        ..Metadata::default()
    };
    let mut subject = pod_peer(random);
    if random.one_in(4) {
        let key = node_agent_policy::lower::APPLIES_TO;
        metadata.annotations.insert(key.into(), "nodes".into());
        subject = PodPeer {
            namespaces: Some(selector(random)),
            pods: None,
        };
    }
    let action = |it: &mut Random| it.pick(&["Accept", "Deny", "Pass"]).to_owned();
    let unknown = random.one_in(12);
    ClusterNetworkPolicy {
        metadata,
        spec: ClusterNetworkPolicySpec {
            tier: random.pick(&["Admin", "Baseline"]).into(),
            priority: random.below(3) as i64,
            subject,
            ingress: random.some(3, |it| ClusterIngress {
                name: String::new(),
                action: action(it),
                from: (0..=it.below(2)).map(|_| pod_peer(it)).collect(),
                protocols: it.some(2, cluster_protocol),
            }),
            egress: random.some(3, |it| ClusterEgress {
                name: String::new(),
                action: action(it),
                to: (0..=it.below(2))
                    .map(|_| {
                        if unknown && it.one_in(3) {
                            ClusterEgressPeer::default()
                        } else {
                            egress_peer(it)
                        }
                    })
                    .collect(),
                protocols: it.some(2, cluster_protocol),
            }),
        },
    }
}

pub fn cluster(random: &mut Random) -> Cluster {
    let mut cluster = Cluster::default();
    for name in NAMESPACES {
        cluster
            .namespaces
            .insert(name.into(), namespace(random, name));
        for pod_name in PODS {
            if !random.one_in(3) {
                let key = (name.to_owned(), pod_name.to_owned());
                cluster.pods.insert(key, pod(random, name, pod_name));
            }
        }
        for policy in POLICIES {
            if random.one_in(2) {
                let key = (name.to_owned(), policy.to_owned());
                cluster
                    .policies
                    .insert(key, network_policy(random, name, policy));
            }
        }
    }
    for name in NODES {
        cluster.nodes.insert(name.into(), node(random, name));
    }
    for name in POLICIES {
        if random.one_in(2) {
            cluster
                .cluster_policies
                .insert(name.into(), cluster_policy(random, name));
        }
    }
    cluster
}
