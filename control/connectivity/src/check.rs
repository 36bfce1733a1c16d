//! A check: a client, an operation, and the expected result.

use crate::operation::{Expectation, Operation};

/// The groups, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Pod to pod.
    Pods,
    /// Services of every kind.
    Services,
    /// Node ports and host ports.
    NodePorts,
    /// Names.
    Dns,
    /// Network policy.
    Policy,
    /// Pods and host network.
    Hosts,
    /// Large payloads.
    Mtu,
    /// From pods to addresses outside of the pod network.
    Egress,
}

/// The pod from which a check is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// A pod of the first node, which the policy lets in.
    PodA,
    /// A pod of the second node, which the policy does not let in.
    PodB,
    /// The first node's host network.
    NodeA,
    /// The second node's host network.
    NodeB,
    /// A pod that is the only endpoint of its own Service.
    Hairpin,
    /// A pod that may reach only `server-a`.
    Confined,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its group.
    pub group: Group,
    /// The name of the check, such as `ClusterIP, TCP`.
    pub name: String,
    /// The client that runs the operation.
    pub client: Client,
    /// The target, as the table prints it.
    pub to: String,
    /// The operation, or the reason for which the check is skipped.
    pub step: Step,
}

/// The action of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is made.
    Run(Operation, Expectation),
    /// It cannot be made on this cluster, for this reason.
    Skip(String),
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 8] = [
        Self::Pods,
        Self::Services,
        Self::NodePorts,
        Self::Dns,
        Self::Policy,
        Self::Hosts,
        Self::Mtu,
        Self::Egress,
    ];

    /// The name in the table and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Services => "services",
            Self::NodePorts => "node-ports",
            Self::Dns => "dns",
            Self::Policy => "policy",
            Self::Hosts => "hosts",
            Self::Mtu => "mtu",
            Self::Egress => "egress",
        }
    }

    /// The group of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}

impl Client {
    /// All clients.
    pub const ALL: [Self; 6] = [
        Self::PodA,
        Self::PodB,
        Self::NodeA,
        Self::NodeB,
        Self::Hairpin,
        Self::Confined,
    ];

    /// The pod's name.
    #[must_use]
    pub const fn pod(self) -> &'static str {
        match self {
            Self::PodA => "pod-a",
            Self::PodB => "pod-b",
            Self::NodeA => "node-a",
            Self::NodeB => "node-b",
            Self::Hairpin => "hairpin",
            Self::Confined => "confined",
        }
    }

    /// Whether it runs on the second node.
    #[must_use]
    pub const fn is_on_second_node(self) -> bool {
        matches!(self, Self::PodB | Self::NodeB)
    }
}
