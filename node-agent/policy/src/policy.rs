//! Policies of all kinds in one form: lowered.

use std::fmt;

use ebpf_abi::Protocol;

use crate::address::Prefix;
use crate::labels::Selector;

/// The kind of a policy's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `networking.k8s.io/v1`.
    NetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha2`.
    ClusterNetworkPolicy,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, empty if it has none.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::NetworkPolicy => write!(f, "NetworkPolicy {}/{}", self.namespace, self.name),
            Kind::ClusterNetworkPolicy => write!(f, "ClusterNetworkPolicy {}", self.name),
        }
    }
}

/// The tier of a policy. The order is that of evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Before all others; by priority, then by name.
    Admin(i64),
    /// NetworkPolicies: they add up, and what none allows is denied.
    Namespace,
    /// Only for whom no NetworkPolicy selects; by priority, then by name.
    Baseline(i64),
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin(priority) => write!(f, "Admin {priority}"),
            Self::Namespace => f.write_str("NetworkPolicy"),
            Self::Baseline(priority) => write!(f, "Baseline {priority}"),
        }
    }
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The object.
    pub name: ObjectName,
    /// The tier.
    pub tier: Tier,
    /// The pods or nodes to which it applies.
    pub subject: Subject,
    /// Whether it may close ports that the host firewall keeps open.
    pub forced: bool,
    /// Rules for incoming traffic; `None` if it does not restrict that.
    pub ingress: Option<Vec<PolicyRule>>,
    /// Rules for outgoing traffic; `None` if it does not restrict that.
    pub egress: Option<Vec<PolicyRule>>,
    /// The parts that were not understood, and their treatment.
    pub problems: Vec<String>,
}

/// The pods to which a policy applies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Pods, never those in their node's network.
    Pods(PodSelector),
    /// Nodes: the host firewall.
    Nodes(Selector),
}

/// Pods by their namespaces and labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// The namespaces.
    pub namespaces: Namespaces,
    /// The pods of these.
    pub pods: Selector,
}

impl PodSelector {
    /// Returns whether it selects every pod.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.pods.is_everything()
            && matches!(&self.namespaces, Namespaces::Matching(it) if it.is_everything())
    }
}

impl fmt::Display for PodSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespaces {
            Namespaces::Named(name) => write!(f, "pods {} of namespace {name}", self.pods),
            Namespaces::Matching(namespaces) => {
                write!(f, "pods {} of namespaces {namespaces}", self.pods)
            }
        }
    }
}

/// Namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Namespaces {
    /// One.
    Named(Box<str>),
    /// By labels.
    Matching(Selector),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// Its place in the object, from 0.
    pub index: usize,
    /// Its name, if it has one.
    pub name: Box<str>,
    /// The verdict on matching traffic.
    pub action: RuleVerdict,
    /// The peers that it matches; `None`: all.
    pub peers: Option<Vec<RulePeer>>,
    /// The ports that it matches; `None`: all.
    pub ports: Option<Vec<PortMatch>>,
}

/// The verdict of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleVerdict {
    /// Allowed, finally.
    Accept,
    /// Denied, finally.
    Deny,
    /// The next tier decides.
    Pass,
}

/// The peers that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulePeer {
    /// Pods.
    Pods(PodSelector),
    /// Addresses of nodes.
    Nodes(Selector),
    /// Addresses.
    Networks(Networks),
}

/// Address ranges with exceptions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Networks {
    /// In one of these
    pub within: Box<[Prefix]>,
    /// and in none of these.
    pub except: Box<[Prefix]>,
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |it: &[Prefix]| {
            let mut text: Vec<String> = it.iter().take(4).map(ToString::to_string).collect();
            if it.len() > 4 {
                text.push(format!("… {} more", it.len() - 4));
            }
            text.join(", ")
        };
        write!(f, "addresses {}", list(&self.within))?;
        if !self.except.is_empty() {
            write!(f, " except {}", list(&self.except))?;
        }
        Ok(())
    }
}

/// The ports that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortMatch {
    /// These ports.
    Range(PortRange),
    /// The ports of that name which the destination pod has.
    Named {
        /// The name.
        name: Box<str>,
        /// Only of this protocol.
        protocol: Option<Protocol>,
    },
}

/// Ports of a protocol, the ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    /// The protocol.
    pub protocol: Protocol,
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// Reads a protocol's name; absent means TCP.
#[must_use]
pub fn protocol(name: Option<&str>) -> Option<Protocol> {
    match name {
        None | Some("TCP" | "") => Some(Protocol::TCP),
        Some("UDP") => Some(Protocol::UDP),
        Some("SCTP") => Some(Protocol::SCTP),
        Some(_) => None,
    }
}
