//! NetworkPolicy, `networking.k8s.io/v1`.
//!
//! The field documentation of the API decides: types are inferred from the
//! rules, an empty list of peers or ports matches all, rules add up.

use super::{HOST_NAMESPACE, distrust, is_for_nodes, is_forced, range, selector};
use crate::address::Prefix;
use crate::labels::Selector;
use crate::objects::{IntOrString, IpBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use crate::policy::{
    Kind, Namespaces, Networks, ObjectName, PodSelector, Policy, PolicyRule, PortMatch, RulePeer,
    RuleVerdict, Subject, Tier, protocol,
};

/// Lowers a policy; returns `None` if it is for nodes and may not be.
#[must_use]
pub fn network_policy(object: &NetworkPolicy) -> Option<Policy> {
    let metadata = &object.metadata;
    let spec = &object.spec;
    let for_nodes = is_for_nodes(metadata);
    if for_nodes && metadata.namespace != HOST_NAMESPACE {
        return None;
    }
    let namespace: Box<str> = metadata.namespace.as_str().into();
    let mut problems = Vec::new();
    let selected = selector(&spec.pod_selector, &mut problems, || "podSelector".into());
    let trusted = selected.is_some();
    let selected = selected.unwrap_or_default();
    let has = |kind: &str| spec.policy_types.iter().any(|it| it == kind);
    let inferred = spec.policy_types.is_empty();
    let ingress = (inferred || has("Ingress")).then(|| {
        let rules = spec.ingress.iter().enumerate();
        rules
            .map(|(index, it)| {
                let place = format!("ingress[{index}]");
                rule(
                    index,
                    &namespace,
                    &it.from,
                    &it.ports,
                    &place,
                    &mut problems,
                )
            })
            .collect()
    });
    let egress = ((inferred && !spec.egress.is_empty()) || has("Egress")).then(|| {
        let rules = spec.egress.iter().enumerate();
        rules
            .map(|(index, it)| {
                let place = format!("egress[{index}]");
                rule(index, &namespace, &it.to, &it.ports, &place, &mut problems)
            })
            .collect()
    });
    let subject = if for_nodes {
        Subject::Nodes(selected)
    } else {
        Subject::Pods(PodSelector {
            namespaces: Namespaces::Named(namespace.clone()),
            pods: selected,
        })
    };
    let mut policy = Policy {
        name: ObjectName {
            kind: Kind::NetworkPolicy,
            namespace,
            name: metadata.name.as_str().into(),
        },
        tier: Tier::Namespace,
        subject,
        forced: is_forced(metadata),
        ingress,
        egress,
        problems,
    };
    if !trusted {
        distrust(&mut policy);
    }
    Some(policy)
}

fn rule(
    index: usize,
    namespace: &str,
    peers: &[NetworkPolicyPeer],
    ports: &[NetworkPolicyPort],
    place: &str,
    problems: &mut Vec<String>,
) -> PolicyRule {
    let peers = (!peers.is_empty()).then(|| {
        let mut understood = Vec::new();
        for it in peers {
            match peer(namespace, it, place, problems) {
                Some(peer) => understood.push(peer),
                None => problems.push(format!("{place}: a peer that matches nobody")),
            }
        }
        understood
    });
    let ports = (!ports.is_empty()).then(|| {
        let mut understood = Vec::new();
        for it in ports {
            match port(it) {
                Some(port) => understood.push(port),
                None => problems.push(format!("{place}: a port that matches nothing")),
            }
        }
        understood
    });
    PolicyRule {
        index,
        name: "".into(),
        action: RuleVerdict::Accept,
        peers,
        ports,
    }
}

fn peer(
    namespace: &str,
    peer: &NetworkPolicyPeer,
    place: &str,
    problems: &mut Vec<String>,
) -> Option<RulePeer> {
    match peer {
        NetworkPolicyPeer {
            ip_block: Some(block),
            pod_selector: None,
            namespace_selector: None,
        } => networks(block).map(RulePeer::Networks),
        NetworkPolicyPeer {
            ip_block: None,
            pod_selector,
            namespace_selector,
        } => {
            if pod_selector.is_none() && namespace_selector.is_none() {
                return None;
            }
            let namespaces = match namespace_selector {
                Some(it) => Namespaces::Matching(selector(it, problems, || place.to_owned())?),
                None => Namespaces::Named(namespace.into()),
            };
            let pods = match pod_selector {
                Some(it) => selector(it, problems, || place.to_owned())?,
                None => Selector::default(),
            };
            Some(RulePeer::Pods(PodSelector { namespaces, pods }))
        }
        NetworkPolicyPeer { .. } => None,
    }
}

/// Returns the addresses of a block; one with any invalid part matches nothing.
fn networks(block: &IpBlock) -> Option<Networks> {
    let within = Prefix::parse(&block.cidr)?;
    let except: Option<Box<[Prefix]>> = block.except.iter().map(|it| Prefix::parse(it)).collect();
    Some(Networks {
        within: [within].into(),
        except: except?,
    })
}

fn port(port: &NetworkPolicyPort) -> Option<PortMatch> {
    let protocol = protocol(port.protocol.as_deref())?;
    match &port.port {
        None => port
            .end_port
            .is_none()
            .then(|| range(protocol, 1, 65535))
            .flatten()
            .map(|it| {
                PortMatch::Range(crate::policy::PortRange {
                    // Port 0 is not a port, but may occur on the wire.
                    first: 0,
                    ..it
                })
            }),
        Some(IntOrString::Int(first)) => {
            range(protocol, *first, port.end_port.unwrap_or(*first)).map(PortMatch::Range)
        }
        Some(IntOrString::String(name)) if port.end_port.is_none() => Some(PortMatch::Named {
            name: name.as_str().into(),
            protocol: Some(protocol),
        }),
        Some(IntOrString::String(_)) => None,
    }
}
