//! Why a flow is allowed or denied, for people.

use std::fmt;
use std::net::IpAddr;

use ebpf_abi::policy::Direction;

use crate::policy::{ObjectName, RuleVerdict, Tier};

/// One end of a flow, as people name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A node (or a pod in its network).
    Node(String),
    /// A pod of which nothing is known but its address: the address is in a range of
    /// pods' addresses, or a pod's whose namespace is not known.
    UnknownPod(IpAddr),
    /// Outside of the cluster.
    Outside(IpAddr),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { namespace, name } => write!(f, "{namespace}/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::UnknownPod(address) => write!(f, "unknown pod {address}"),
            Self::Outside(address) => write!(f, "{address}"),
        }
    }
}

/// The verdicts of both ends; a flow needs both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether it is allowed.
    pub allow: bool,
    /// The client.
    pub from: End,
    /// The server.
    pub to: End,
    /// The sender's side; none if its rules are not known here.
    pub egress: Option<Side>,
    /// The receiver's side; none if its rules are not known here.
    pub ingress: Option<Side>,
}

/// The verdict of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The direction.
    pub direction: Direction,
    /// The class of the other end.
    pub peer: u32,
    /// The parts of policies that match the other end.
    pub matches: Vec<String>,
    /// The ruleset; 0: none.
    pub ruleset: u32,
    /// The policies that have a say here, in the order of evaluation.
    pub policies: Vec<ObjectName>,
    /// The class of the port.
    pub class: u16,
    /// The decision.
    pub decided: SideDecision,
    /// Whether it is denied only because the other end is an [unknown
    /// pod](End::UnknownPod): from outside the cluster it would be allowed.
    pub unknown_pod: bool,
}

/// The message about a flow that is denied for [`Side::unknown_pod`].
pub const UNKNOWN_POD: &str =
    "the other end has a pod's address, but no pod is known there yet, so it counts as any pod";

/// The decision of one end and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideDecision {
    /// Allowed?
    pub allow: bool,
    /// As in the maps.
    pub cookie: u32,
    /// The reason.
    pub reason: Reason,
}

/// The reason of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No policy has a say, or all pass it on.
    NoPolicy,
    /// Traffic between a pod and its own node.
    Node,
    /// Traffic from a pod to itself.
    Itself,
    /// The pod's rules are not there yet.
    Closed,
    /// A port that the host firewall keeps open.
    Protected,
    /// NetworkPolicies select the pod, and no rule allows it.
    Isolated {
        /// The first of them.
        object: ObjectName,
    },
    /// A rule.
    Rule {
        /// The object.
        object: ObjectName,
        /// in this tier,
        tier: Tier,
        /// at this place,
        index: usize,
        /// with this name.
        name: String,
        /// The rule's verdict.
        action: RuleVerdict,
    },
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = word(self.direction);
        let verdict = if self.decided.allow {
            "allowed"
        } else {
            "denied"
        };
        write!(f, "{word} {verdict}: ")?;
        match &self.decided.reason {
            Reason::NoPolicy if self.policies.is_empty() => f.write_str("no policy selects it"),
            reason => f.write_str(&reason.words(self.direction)),
        }?;
        if let Reason::Isolated { object } = &self.decided.reason {
            let others = self
                .policies
                .iter()
                .filter(|it| it.kind == crate::policy::Kind::NetworkPolicy && *it != object);
            match others.count() {
                0 => {}
                count => write!(f, " and {count} more")?,
            }
        }
        if self.unknown_pod {
            write!(f, "; {UNKNOWN_POD}")?;
        }
        Ok(())
    }
}

impl Reason {
    /// In words, for one direction.
    #[must_use]
    pub fn words(&self, direction: Direction) -> String {
        let word = word(direction);
        match self {
            Self::NoPolicy => "no policy decides it".to_owned(),
            Self::Node => "a pod and its own node".to_owned(),
            Self::Itself => "a pod and itself".to_owned(),
            Self::Closed => "no rules yet".to_owned(),
            Self::Protected => "a port that the host firewall keeps open".to_owned(),
            Self::Isolated { object } => {
                format!("no {word} rule allows it; selected by {object}")
            }
            Self::Rule {
                object,
                tier,
                index,
                name,
                ..
            } => {
                let name = match name.as_str() {
                    "" => String::new(),
                    name => format!(" {name:?}"),
                };
                format!("{object} {word}[{index}]{name} (tier {tier})")
            }
        }
    }

    /// The object that decides.
    #[must_use]
    pub const fn object(&self) -> Option<&ObjectName> {
        match self {
            Self::Isolated { object } | Self::Rule { object, .. } => Some(object),
            _ => None,
        }
    }

    /// Returns the rule's path in the object, as kubectl's JSONPath names it.
    #[must_use]
    pub fn path(&self, direction: Direction) -> Option<String> {
        match self {
            Self::Isolated { .. } => Some("spec.podSelector".to_owned()),
            Self::Rule { index, .. } => Some(format!("spec.{}[{index}]", word(direction))),
            _ => None,
        }
    }
}

pub(super) fn word(direction: Direction) -> &'static str {
    if direction == Direction::INGRESS {
        "ingress"
    } else {
        "egress"
    }
}
