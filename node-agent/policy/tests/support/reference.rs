//! A literal implementation of the specification: slow, and without any optimization.

use std::net::IpAddr;

use ebpf_abi::Protocol;
use ebpf_abi::policy::Direction;
use node_agent_policy::objects::{
    ClusterNetworkPolicy, ClusterPorts, ClusterProtocol, IntOrString, LabelSelector, Metadata,
    NamespacedPod, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, Node, Pod,
};

use super::Cluster;

/// Who has an address.
#[derive(Clone, Copy)]
pub enum Who<'a> {
    Pod(&'a Pod),
    Node(&'a Node),
    /// A pod of which nothing is known.
    Unknown,
    Nobody,
}

/// Whether something matches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    No,
    /// Some pods would, others would not.
    Maybe,
    Yes,
}

impl From<bool> for Match {
    fn from(matches: bool) -> Self {
        if matches { Self::Yes } else { Self::No }
    }
}

/// Whether one of some matches.
fn any(all: impl Iterator<Item = Match>) -> Match {
    all.max().unwrap_or(Match::No)
}

/// Who is at an address; looking for that is most of what a question costs.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub address: IpAddr,
    pub who: Who<'a>,
}

/// A rule's peers in the one form that both directions share.
enum Peer<'a> {
    Pods(Option<&'a LabelSelector>, Option<&'a NamespacedPod>),
    Nodes(&'a LabelSelector),
    Networks(&'a [String]),
    Unknown,
}

struct ClusterRule<'a> {
    action: &'a str,
    peers: Vec<Peer<'a>>,
    protocols: &'a [ClusterProtocol],
}

impl Cluster {
    pub fn who(&self, address: IpAddr) -> Who<'_> {
        for node in self.nodes.values() {
            if node
                .status
                .addresses
                .iter()
                .any(|it| it.address.parse() == Ok(address))
            {
                return Who::Node(node);
            }
        }
        let mut pods: Vec<&Pod> = self
            .pods
            .values()
            .filter(|pod| !pod.spec.host_network)
            .filter(|pod| pod.status.phase != "Succeeded" && pod.status.phase != "Failed")
            .filter(|pod| {
                pod.status
                    .pod_ips
                    .iter()
                    .any(|it| it.ip.parse() == Ok(address))
            })
            .collect();
        let of_range = |node: &Node| node.spec.ranges().any(|it| within(it, address));
        let unknown = !pods.is_empty() || self.nodes.values().any(of_range);
        pods.retain(|pod| self.namespaces.contains_key(&pod.metadata.namespace));
        pods.sort_by(|a, b| {
            let key = |it: &Metadata| {
                (
                    it.creation_timestamp.clone(),
                    it.namespace.clone(),
                    it.name.clone(),
                )
            };
            key(&a.metadata).cmp(&key(&b.metadata))
        });
        match pods.last() {
            Some(pod) => Who::Pod(pod),
            None if unknown => Who::Unknown,
            None => Who::Nobody,
        }
    }

    /// Who is there, for many questions.
    pub fn at(&self, address: IpAddr) -> At<'_> {
        let who = self.who(address);
        At { address, who }
    }

    /// Is a flow allowed? Both ends must agree.
    pub fn flow(&self, from: At<'_>, to: At<'_>, protocol: Protocol, port: u16) -> bool {
        self.between(Direction::EGRESS, from, to, protocol, port) != Some(false)
            && self.between(Direction::INGRESS, to, from, protocol, port) != Some(false)
    }

    /// What one end says; none if it has no say.
    pub fn side(
        &self,
        direction: Direction,
        own: IpAddr,
        peer: IpAddr,
        protocol: Protocol,
        port: u16,
    ) -> Option<bool> {
        self.between(direction, self.at(own), self.at(peer), protocol, port)
    }

    fn between(
        &self,
        direction: Direction,
        own: At<'_>,
        peer: At<'_>,
        protocol: Protocol,
        port: u16,
    ) -> Option<bool> {
        if own.address == peer.address {
            return Some(true);
        }
        let (us, them) = (own.who, peer.who);
        let destination = if direction == Direction::INGRESS {
            us
        } else {
            them
        };
        match (us, them) {
            (Who::Nobody | Who::Unknown, _) => return None,
            (Who::Pod(pod), Who::Node(node))
                if direction == Direction::INGRESS && pod.spec.node_name == node.metadata.name =>
            {
                return Some(true);
            }
            (Who::Node(node), Who::Pod(pod))
                if direction == Direction::EGRESS && pod.spec.node_name == node.metadata.name =>
            {
                return Some(true);
            }
            _ => {}
        }
        let asked = Asked {
            cluster: self,
            us,
            them,
            peer: peer.address,
            destination,
            protocol,
            port,
            direction,
        };
        Some(asked.decide())
    }
}

struct Asked<'a> {
    cluster: &'a Cluster,
    us: Who<'a>,
    them: Who<'a>,
    peer: IpAddr,
    destination: Who<'a>,
    protocol: Protocol,
    port: u16,
    direction: Direction,
}

impl<'a> Asked<'a> {
    /// An unknown pod is allowed what every pod would be that it may be.
    fn decide(&self) -> bool {
        self.cluster_tier("Admin").into_iter().all(|it| match it {
            Some(Some(verdict)) => verdict,
            _ => self.after_admin(),
        })
    }

    fn after_admin(&self) -> bool {
        let selecting: Vec<&NetworkPolicy> = self
            .cluster
            .policies
            .values()
            .filter(|it| self.is_selected(it) && self.has_type(it))
            .collect();
        if !selecting.is_empty() {
            let allowed = selecting.iter().map(|it| self.network_policy_allows(it));
            return any(allowed) == Match::Yes;
        }
        let baseline = self.cluster_tier("Baseline").into_iter();
        baseline.map(Option::flatten).all(|it| it != Some(false))
    }

    /// What may come of it. Some(Some): decided; Some(None): passed on; None: nothing
    /// matched.
    fn cluster_tier(&self, tier: &str) -> Vec<Option<Option<bool>>> {
        let mut possible = Vec::new();
        let mut policies: Vec<&ClusterNetworkPolicy> = self
            .cluster
            .cluster_policies
            .values()
            .filter(|it| it.spec.tier == tier && self.is_subject(it))
            .collect();
        policies.sort_by_key(|it| (it.spec.priority, &it.metadata.name));
        for policy in policies {
            for rule in rules(policy, self.direction) {
                let (matches, decided) = self.cluster_rule(&rule);
                if matches != Match::No {
                    possible.push(Some(decided));
                }
                if matches == Match::Yes {
                    return possible;
                }
            }
        }
        possible.push(None);
        possible
    }

    fn cluster_rule(&self, rule: &ClusterRule<'_>) -> (Match, Option<bool>) {
        let unknown = rule.peers.iter().any(|it| matches!(it, Peer::Unknown))
            || rule
                .protocols
                .iter()
                .any(|it| *it == ClusterProtocol::default());
        if unknown {
            // Fail closed: accept nothing, deny all.
            return ((rule.action != "Accept").into(), Some(false));
        }
        let peers = any(rule.peers.iter().map(|it| self.is_peer(it)));
        let protocols = any(rule.protocols.iter().map(|it| self.is_protocol(it)));
        let protocols = protocols.max(rule.protocols.is_empty().into());
        let decided = match rule.action {
            "Accept" => Some(true),
            "Deny" => Some(false),
            _ => None,
        };
        (peers.min(protocols), decided)
    }

    fn is_peer(&self, peer: &Peer<'_>) -> Match {
        match (peer, self.them) {
            (Peer::Pods(namespaces, pods), Who::Pod(pod)) => {
                self.is_pod(*namespaces, *pods, pod).into()
            }
            (Peer::Pods(namespaces, pods), Who::Unknown) => {
                let pods = pods.map(|it| [&it.namespace_selector, &it.pod_selector]);
                let mut all = namespaces.iter().copied().chain(pods.into_iter().flatten());
                if all.all(selects_all) {
                    Match::Yes
                } else {
                    Match::Maybe
                }
            }
            (Peer::Nodes(selector), Who::Node(node)) => matches(selector, &node.metadata).into(),
            (Peer::Networks(list), _) => list.iter().any(|it| within(it, self.peer)).into(),
            _ => Match::No,
        }
    }

    fn is_pod(
        &self,
        namespaces: Option<&LabelSelector>,
        pods: Option<&NamespacedPod>,
        pod: &Pod,
    ) -> bool {
        let namespace = &self.cluster.namespaces[&pod.metadata.namespace];
        match (namespaces, pods) {
            (Some(selector), None) => matches(selector, &namespace.metadata),
            (
                None,
                Some(NamespacedPod {
                    namespace_selector,
                    pod_selector,
                }),
            ) => {
                matches(namespace_selector, &namespace.metadata)
                    && matches(pod_selector, &pod.metadata)
            }
            _ => false,
        }
    }

    fn is_protocol(&self, it: &ClusterProtocol) -> Match {
        let number = |protocol, ports: &Option<ClusterPorts>| {
            let Some(ports) = ports else {
                return false;
            };
            self.protocol == protocol
                && match &ports.destination_port {
                    None => true,
                    Some(port) => match &port.range {
                        None => i64::from(self.port) == port.number,
                        Some(range) => (range.start..=range.end).contains(&i64::from(self.port)),
                    },
                }
        };
        if !it.destination_named_port.is_empty() {
            return self.is_named(&it.destination_named_port, None);
        }
        let numbers = number(Protocol::TCP, &it.tcp)
            || number(Protocol::UDP, &it.udp)
            || number(Protocol::SCTP, &it.sctp);
        numbers.into()
    }

    fn is_named(&self, name: &str, protocol: Option<Protocol>) -> Match {
        let pod = match self.destination {
            Who::Pod(pod) => pod,
            // Any port may have the name.
            Who::Unknown => return Match::Maybe,
            Who::Node(_) | Who::Nobody => return Match::No,
        };
        let is_named = pod
            .spec
            .containers
            .iter()
            .flat_map(|it| &it.ports)
            .any(|it| {
                it.name == name
                    && protocol.is_none_or(|protocol| protocol == of(it.protocol.as_deref()))
                    && of(it.protocol.as_deref()) == self.protocol
                    && it.container_port == i64::from(self.port)
            });
        is_named.into()
    }

    fn is_subject(&self, policy: &ClusterNetworkPolicy) -> bool {
        let subject = &policy.spec.subject;
        match (for_nodes(&policy.metadata), self.us) {
            (false, Who::Pod(pod)) => {
                self.is_pod(subject.namespaces.as_ref(), subject.pods.as_ref(), pod)
            }
            (true, Who::Node(node)) => subject
                .namespaces
                .as_ref()
                .is_some_and(|it| matches(it, &node.metadata)),
            _ => false,
        }
    }

    fn is_selected(&self, policy: &NetworkPolicy) -> bool {
        let selector = &policy.spec.pod_selector;
        match (for_nodes(&policy.metadata), self.us) {
            (false, Who::Pod(pod)) => {
                pod.metadata.namespace == policy.metadata.namespace
                    && matches(selector, &pod.metadata)
            }
            (true, Who::Node(node)) => {
                policy.metadata.namespace == "kube-system" && matches(selector, &node.metadata)
            }
            _ => false,
        }
    }

    fn has_type(&self, policy: &NetworkPolicy) -> bool {
        let types = &policy.spec.policy_types;
        let ingress = self.direction == Direction::INGRESS;
        if types.is_empty() {
            ingress || !policy.spec.egress.is_empty()
        } else {
            types
                .iter()
                .any(|it| it == if ingress { "Ingress" } else { "Egress" })
        }
    }

    fn network_policy_allows(&self, policy: &NetworkPolicy) -> Match {
        let namespace = &policy.metadata.namespace;
        let rule = |peers: &[NetworkPolicyPeer], ports: &[NetworkPolicyPort]| {
            let of_peers = any(peers.iter().map(|it| self.is_np_peer(namespace, it)));
            let of_ports = any(ports.iter().map(|it| self.is_np_port(it)));
            let of_peers = of_peers.max(peers.is_empty().into());
            of_peers.min(of_ports.max(ports.is_empty().into()))
        };
        if self.direction == Direction::INGRESS {
            any(policy
                .spec
                .ingress
                .iter()
                .map(|it| rule(&it.from, &it.ports)))
        } else {
            any(policy.spec.egress.iter().map(|it| rule(&it.to, &it.ports)))
        }
    }

    fn is_np_peer(&self, namespace: &str, peer: &NetworkPolicyPeer) -> Match {
        if let Some(block) = &peer.ip_block {
            let inside = within(&block.cidr, self.peer);
            return (inside && !block.except.iter().any(|it| within(it, self.peer))).into();
        }
        let pod = match self.them {
            Who::Pod(pod) => pod,
            Who::Unknown => {
                let everywhere = peer.namespace_selector.as_ref().is_some_and(selects_all);
                let everyone = peer.pod_selector.as_ref().is_none_or(selects_all);
                return if everywhere && everyone {
                    Match::Yes
                } else {
                    Match::Maybe
                };
            }
            Who::Node(_) | Who::Nobody => return Match::No,
        };
        let in_namespace = match &peer.namespace_selector {
            None => pod.metadata.namespace == namespace,
            Some(selector) => matches(
                selector,
                &self.cluster.namespaces[&pod.metadata.namespace].metadata,
            ),
        };
        let selected = peer.pod_selector.as_ref();
        (in_namespace && selected.is_none_or(|it| matches(it, &pod.metadata))).into()
    }

    fn is_np_port(&self, port: &NetworkPolicyPort) -> Match {
        let protocol = of(port.protocol.as_deref());
        match (&port.port, port.end_port) {
            (None, _) => (self.protocol == protocol).into(),
            (Some(IntOrString::Int(first)), last) => {
                let range = *first..=last.unwrap_or(*first);
                (self.protocol == protocol && range.contains(&i64::from(self.port))).into()
            }
            (Some(IntOrString::String(name)), _) => self.is_named(name, Some(protocol)),
        }
    }
}

fn rules(policy: &ClusterNetworkPolicy, direction: Direction) -> Vec<ClusterRule<'_>> {
    if direction == Direction::INGRESS {
        let rules = policy.spec.ingress.iter();
        rules
            .map(|it| ClusterRule {
                action: &it.action,
                peers: it
                    .from
                    .iter()
                    .map(|it| pods(it.namespaces.as_ref(), it.pods.as_ref()))
                    .collect(),
                protocols: &it.protocols,
            })
            .collect()
    } else {
        let rules = policy.spec.egress.iter();
        rules
            .map(|it| ClusterRule {
                action: &it.action,
                peers: it
                    .to
                    .iter()
                    .map(|it| {
                        if let Some(nodes) = &it.nodes {
                            Peer::Nodes(nodes)
                        } else if !it.networks.is_empty() {
                            Peer::Networks(&it.networks)
                        } else {
                            pods(it.namespaces.as_ref(), it.pods.as_ref())
                        }
                    })
                    .collect(),
                protocols: &it.protocols,
            })
            .collect()
    }
}

fn pods<'a>(namespaces: Option<&'a LabelSelector>, pods: Option<&'a NamespacedPod>) -> Peer<'a> {
    if namespaces.is_none() && pods.is_none() {
        return Peer::Unknown;
    }
    Peer::Pods(namespaces, pods)
}

fn of(protocol: Option<&str>) -> Protocol {
    match protocol {
        Some("UDP") => Protocol::UDP,
        Some("SCTP") => Protocol::SCTP,
        _ => Protocol::TCP,
    }
}

fn for_nodes(metadata: &Metadata) -> bool {
    metadata
        .annotations
        .get("policy.orlop.dev/applies-to")
        .is_some_and(|it| it == "nodes")
}

fn selects_all(selector: &LabelSelector) -> bool {
    selector.match_labels.is_empty() && selector.match_expressions.is_empty()
}

fn matches(selector: &LabelSelector, metadata: &Metadata) -> bool {
    let labels = &metadata.labels;
    let equal = selector.match_labels.iter().all(|(key, value)| {
        labels
            .get(key.as_str())
            .is_some_and(|it| it == value.as_str())
    });
    equal
        && selector.match_expressions.iter().all(|it| {
            let value = labels.get(it.key.as_str());
            let listed = |value: &String| it.values.iter().any(|one| one == value.as_str());
            match it.operator.as_str() {
                "In" => value.is_some_and(listed),
                "NotIn" => !value.is_some_and(listed),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => panic!("operator {}", it.operator),
            }
        })
}

fn within(cidr: &str, address: IpAddr) -> bool {
    let (network, bits) = cidr.split_once('/').expect("a cidr");
    let bits: u32 = bits.parse().expect("bits");
    match (network.parse().expect("an address"), address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            bits == 0 || (network.to_bits() ^ address.to_bits()) >> (32 - bits) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            bits == 0 || (network.to_bits() ^ address.to_bits()) >> (128 - bits) == 0
        }
        _ => false,
    }
}
