//! ClusterNetworkPolicy, `policy.networking.k8s.io/v1alpha2` (network-policy-api
//! v0.2).
//!
//! The first rule that matches decides; of policies with the same priority the
//! one whose name comes first does. Domain names are not supported: such a
//! peer is unknown, and an unknown peer fails closed.

use ebpf_abi::Protocol;

use super::{distrust, fail_closed, is_for_nodes, is_forced, range, selector};
use crate::address::Prefix;
use crate::labels::Selector;
use crate::objects::{
    ClusterEgressPeer, ClusterNetworkPolicy, ClusterPorts, ClusterProtocol, NamespacedPod, PodPeer,
};
use crate::policy::{
    Kind, Namespaces, Networks, ObjectName, PodSelector, Policy, PolicyRule, PortMatch, PortRange,
    RulePeer, RuleVerdict, Subject, Tier,
};

/// Lowers.
#[must_use]
pub fn cluster_network_policy(object: &ClusterNetworkPolicy) -> Policy {
    let spec = &object.spec;
    let mut problems = Vec::new();
    let mut trusted = true;
    let tier = match spec.tier.as_str() {
        "Admin" => Tier::Admin(spec.priority),
        "Baseline" => Tier::Baseline(spec.priority),
        _ => {
            problems.push("tier: an unknown one counts as Admin, and allows nothing".into());
            trusted = false;
            Tier::Admin(spec.priority)
        }
    };
    let subject = if is_for_nodes(&object.metadata) {
        match &spec.subject {
            PodPeer {
                namespaces: Some(nodes),
                pods: None,
            } => selector(nodes, &mut problems, || "subject".into()),
            PodPeer { .. } => None,
        }
        .map(Subject::Nodes)
    } else {
        pods(&spec.subject, "subject", &mut problems).map(Subject::Pods)
    };
    let subject = subject.unwrap_or_else(|| {
        problems.push("subject: an unknown one counts as all, and allows nothing".into());
        trusted = false;
        if is_for_nodes(&object.metadata) {
            Subject::Nodes(Selector::default())
        } else {
            Subject::Pods(everything())
        }
    });
    let ingress: Vec<PolicyRule> = spec
        .ingress
        .iter()
        .enumerate()
        .map(|(index, it)| {
            let place = format!("ingress[{index}]");
            let peers = it.from.iter();
            let peers = peers.map(|it| pods(it, &place, &mut problems).map(RulePeer::Pods));
            let peers: Vec<_> = peers.collect();
            rule(
                index,
                &it.name,
                &it.action,
                peers,
                &it.protocols,
                &place,
                &mut problems,
            )
        })
        .collect();
    let egress: Vec<PolicyRule> = spec
        .egress
        .iter()
        .enumerate()
        .map(|(index, it)| {
            let place = format!("egress[{index}]");
            let peers = it.to.iter();
            let peers = peers.map(|it| egress_peer(it, &place, &mut problems));
            let peers: Vec<_> = peers.collect();
            rule(
                index,
                &it.name,
                &it.action,
                peers,
                &it.protocols,
                &place,
                &mut problems,
            )
        })
        .collect();
    let mut policy = Policy {
        name: ObjectName {
            kind: Kind::ClusterNetworkPolicy,
            namespace: "".into(),
            name: object.metadata.name.as_str().into(),
        },
        tier,
        subject,
        forced: is_forced(&object.metadata),
        ingress: (!ingress.is_empty()).then_some(ingress),
        egress: (!egress.is_empty()).then_some(egress),
        problems,
    };
    if !trusted {
        distrust(&mut policy);
    }
    policy
}

fn rule(
    index: usize,
    name: &str,
    action: &str,
    peers: Vec<Option<RulePeer>>,
    protocols: &[ClusterProtocol],
    place: &str,
    problems: &mut Vec<String>,
) -> PolicyRule {
    let mut closed = peers.is_empty();
    let mut ports = Vec::new();
    for it in protocols {
        match port(it) {
            Some(port) => ports.push(port),
            None => closed = true,
        }
    }
    let action = match action {
        "Accept" => RuleVerdict::Accept,
        "Deny" => RuleVerdict::Deny,
        "Pass" => RuleVerdict::Pass,
        _ => {
            closed = true;
            RuleVerdict::Deny
        }
    };
    closed |= peers.iter().any(Option::is_none);
    let mut rule = PolicyRule {
        index,
        name: name.into(),
        action,
        peers: Some(peers.into_iter().flatten().collect()),
        ports: (!protocols.is_empty()).then_some(ports),
    };
    if closed {
        problems.push(format!(
            "{place}: a part that is unknown; the rule fails closed"
        ));
        fail_closed(&mut rule);
    }
    rule
}

fn everything() -> PodSelector {
    PodSelector {
        namespaces: Namespaces::Matching(Selector::default()),
        pods: Selector::default(),
    }
}

fn pods(peer: &PodPeer, place: &str, problems: &mut Vec<String>) -> Option<PodSelector> {
    match (&peer.namespaces, &peer.pods) {
        (Some(namespaces), None) => Some(PodSelector {
            namespaces: Namespaces::Matching(selector(namespaces, problems, || place.to_owned())?),
            pods: Selector::default(),
        }),
        (
            None,
            Some(NamespacedPod {
                namespace_selector,
                pod_selector,
            }),
        ) => Some(PodSelector {
            namespaces: Namespaces::Matching(selector(namespace_selector, problems, || {
                place.to_owned()
            })?),
            pods: selector(pod_selector, problems, || place.to_owned())?,
        }),
        (None, None) | (Some(_), Some(_)) => None,
    }
}

fn egress_peer(
    peer: &ClusterEgressPeer,
    place: &str,
    problems: &mut Vec<String>,
) -> Option<RulePeer> {
    match (&peer.nodes, peer.networks.is_empty()) {
        (None, true) => {
            let it = PodPeer {
                namespaces: peer.namespaces.clone(),
                pods: peer.pods.clone(),
            };
            pods(&it, place, problems).map(RulePeer::Pods)
        }
        (Some(nodes), true) if peer.namespaces.is_none() && peer.pods.is_none() => {
            selector(nodes, problems, || place.to_owned()).map(RulePeer::Nodes)
        }
        (None, false) if peer.namespaces.is_none() && peer.pods.is_none() => {
            let within: Option<Box<[Prefix]>> =
                peer.networks.iter().map(|it| Prefix::parse(it)).collect();
            Some(RulePeer::Networks(Networks {
                within: within?,
                except: Box::default(),
            }))
        }
        _ => None,
    }
}

fn port(it: &ClusterProtocol) -> Option<PortMatch> {
    match (
        &it.tcp,
        &it.udp,
        &it.sctp,
        it.destination_named_port.as_str(),
    ) {
        (Some(ports), None, None, "") => numbers(Protocol::TCP, ports),
        (None, Some(ports), None, "") => numbers(Protocol::UDP, ports),
        (None, None, Some(ports), "") => numbers(Protocol::SCTP, ports),
        (None, None, None, name) if !name.is_empty() => Some(PortMatch::Named {
            name: name.into(),
            protocol: None,
        }),
        _ => None,
    }
}

fn numbers(protocol: Protocol, ports: &ClusterPorts) -> Option<PortMatch> {
    let Some(port) = &ports.destination_port else {
        return Some(PortMatch::Range(PortRange {
            protocol,
            first: 0,
            last: u16::MAX,
        }));
    };
    match (port.number, &port.range) {
        (0, Some(it)) => range(protocol, it.start, it.end),
        (number, None) => range(protocol, number, number),
        (_, Some(_)) => None,
    }
    .map(PortMatch::Range)
}
