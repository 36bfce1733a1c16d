//! Policies of other projects in one form: tiers of ordered policies, as in Calico.
//!
//! Cilium's policies fit in, too: one tier whose denials come first. [`arrange`] decides
//! for each rule whether it becomes part of a NetworkPolicy or of a ClusterNetworkPolicy.

use std::collections::BTreeMap;

use crate::labels::Disjunction;
use crate::net::Block;
use crate::{ObjectId, Remark};

mod arrange;
mod emit;
mod native;

pub use arrange::arrange;
pub use native::{NamespaceLabels, NativePolicy};

/// Whether a rule is about traffic to the subject or from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Traffic to the subject.
    Ingress,
    /// Traffic from the subject.
    Egress,
}

/// The action of a matching rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Allowed, finally.
    Allow,
    /// Denied, finally.
    Deny,
    /// The next tier decides.
    Pass,
}

/// A transport protocol with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Every protocol that a NetworkPolicy can name.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// The name in NetworkPolicies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Reads a name, whatever its case, or an IP protocol number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_uppercase().as_str() {
            "TCP" | "6" => Some(Self::Tcp),
            "UDP" | "17" => Some(Self::Udp),
            "SCTP" | "132" => Some(Self::Sctp),
            _ => None,
        }
    }
}

/// Destination ports of a protocol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// A range of ports, inclusive.
    Range(Protocol, u16, u16),
    /// Those of this name that the destination pod has.
    Named(Protocol, String),
}

/// The protocols and ports that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ports {
    /// Everything, also protocols without ports.
    All,
    /// These; nothing if empty.
    Listed(Vec<Port>),
}

/// The peers that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peers {
    /// Anybody.
    Anybody,
    /// Some.
    Listed(ListedPeers),
}

/// The peers that a rule matches: any of these; none if all are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedPeers {
    /// Pods.
    pub pods: Disjunction,
    /// Addresses, including those of pods.
    pub blocks: Vec<Block>,
    /// All nodes.
    pub nodes: bool,
}

impl ListedPeers {
    /// Returns whether they match no peer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.blocks.is_empty() && !self.nodes
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its field, such as `ingress[0]`.
    pub place: String,
    /// The action.
    pub action: Action,
    /// The pods of the policy to which it applies; all of them unless given.
    pub subject: Option<Disjunction>,
    /// The other end.
    pub peers: Peers,
    /// The destination ports.
    pub ports: Ports,
    /// Why it cannot be converted. Peers and ports are then wider than the rule's.
    pub losses: Vec<String>,
}

impl Rule {
    /// A rule that cannot be converted.
    #[must_use]
    pub fn lost(place: String, action: Action, losses: Vec<String>) -> Self {
        Self {
            place,
            action,
            subject: None,
            peers: Peers::Anybody,
            ports: Ports::All,
            losses,
        }
    }
}

/// A policy's rules for one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Side {
    /// Its rules, in order.
    pub rules: Vec<Rule>,
    /// Whether the end of its tier decides about unmatched traffic. Otherwise such
    /// traffic is decided as if the policy did not exist.
    pub selects: bool,
}

/// One policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The object.
    pub id: ObjectId,
    /// The names of generated objects begin with it.
    pub name: String,
    /// The pods that it applies to.
    pub subject: Disjunction,
    /// Why the whole policy cannot be converted. The subject is then wider than the
    /// policy's.
    pub losses: Vec<(String, String)>,
    /// Rules for traffic to these pods.
    pub ingress: Option<Side>,
    /// Rules for traffic from these pods.
    pub egress: Option<Side>,
    /// Whether NetworkPolicies of Kubernetes are evaluated before it.
    pub after_native: bool,
}

impl Policy {
    /// Returns its rules for a direction.
    #[must_use]
    pub const fn side(&self, direction: Direction) -> Option<&Side> {
        match direction {
            Direction::Ingress => self.ingress.as_ref(),
            Direction::Egress => self.egress.as_ref(),
        }
    }
}

/// The position of a tier relative to the one with Kubernetes' NetworkPolicies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Before it.
    Before,
    /// It is that one.
    Default,
    /// After it.
    After,
}

/// Policies that are evaluated together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Its position.
    pub stage: Stage,
    /// Whether what no rule of policies that select a pod matches is denied; otherwise the next
    /// tier decides.
    pub denies_at_end: bool,
    /// Its policies, in order.
    pub policies: Vec<Policy>,
}

/// How to convert.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Emit the remainder of policies of which a part cannot be converted.
    pub lossy: bool,
    /// Write cluster-wide policies into each of the given namespaces where no
    /// ClusterNetworkPolicy can say the same.
    pub expand_namespaces: bool,
    /// Ranges from which pods have their addresses.
    pub pod_ranges: Vec<ipnet::IpNet>,
    /// Ranges from which nodes have their addresses.
    pub node_ranges: Vec<ipnet::IpNet>,
}

/// Objects and address ranges of the cluster that a conversion depends on.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Namespaces and their labels.
    pub namespaces: BTreeMap<String, NamespaceLabels>,
    /// NetworkPolicies of Kubernetes, which stay.
    pub natives: Vec<NativePolicy>,
    /// Ranges of pods, by Nodes and settings.
    pub pod_ranges: Vec<ipnet::IpNet>,
    /// Ranges and addresses of nodes, by Nodes and settings.
    pub node_ranges: Vec<ipnet::IpNet>,
    /// Remarks about objects that could not be used.
    pub notes: Vec<Remark>,
}
