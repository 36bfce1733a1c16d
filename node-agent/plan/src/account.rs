//! Why each address and endpoint of an object is in force here, or is not: what
//! the agent tells people who ask, beside what the maps hold.

use std::net::IpAddr;

use ebpf_abi::{Scope, ServiceFlags, ServiceKey};
use serde::{Deserialize, Serialize};

use crate::compile::Rank;
use crate::explain::{EndpointUse, ExplainedEndpoint};
use crate::service::ServiceState;
use crate::slice::PortState;

/// What the plan makes of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Account {
    /// `Service`, `Pod`, or `Node` for what the node answers itself.
    pub kind: String,
    /// Namespace; empty for the node.
    pub namespace: String,
    /// Name; empty for the node.
    pub name: String,
    /// Why it has no datapath here at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// Under what it wants to be reached.
    pub fronts: Vec<FrontAccount>,
    /// Who might answer, seen from this node.
    pub endpoints: Vec<EndpointAccount>,
    /// What else it asks for and does not get.
    pub problems: Vec<String>,
}

/// An address and port that an object wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontAccount {
    /// The set to which it leads.
    pub set: String,
    /// The address; unspecified for those of the node that serve node ports.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// For which clients.
    pub clients: Clients,
    /// What it is: `cluster IP`, `node port`, …
    pub title: String,
    /// Why it is not in force; none: it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The node itself answers there, as it does for cluster DNS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered_by_node: bool,
}

/// Which clients an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Clients {
    /// Everybody.
    All,
    /// Pods and processes of nodes.
    Inside,
    /// Others.
    Outside,
}

/// An endpoint of a Service's port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointAccount {
    /// The set of all endpoints of the port in its family; that of local ones has
    /// `local` behind.
    pub set: String,
    /// Where it is.
    pub endpoint: String,
    /// In the set of all.
    pub cluster: EndpointStanding,
    /// In the set of those of this node.
    pub local: EndpointStanding,
}

/// Is an endpoint in a set?
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndpointStanding {
    /// There is no such set: nobody may ask it.
    NoSet,
    /// Yes.
    InForce,
    /// No, and why not.
    Not(String),
}

// === impl Account ===

impl Account {
    /// An account without contents.
    #[must_use]
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Adds what [`explain`](crate::explain) says of a Service, and why it has no
    /// datapath, if it has none.
    #[must_use]
    pub fn with(mut self, service: &ServiceState, explained: &[ExplainedEndpoint]) -> Self {
        self.nothing = service.nothing().map(str::to_owned);
        let prefix = format!("{}/{}", self.namespace, self.name);
        self.endpoints = explained
            .iter()
            .map(|it| {
                let port = PortState {
                    name: it.port.clone(),
                    protocol: it.protocol,
                    port: 0,
                };
                EndpointAccount {
                    set: port.set_name(&prefix, it.family).into(),
                    endpoint: it.endpoint.to_string(),
                    cluster: EndpointStanding::of(it.cluster),
                    local: EndpointStanding::of(it.local),
                }
            })
            .collect();
        self
    }
}

// === impl Standing ===

impl EndpointStanding {
    fn of(used: Option<EndpointUse>) -> Self {
        match used {
            None => Self::NoSet,
            Some(EndpointUse::InForce) => Self::InForce,
            Some(why) => Self::Not(why.to_string()),
        }
    }
}

// === impl FrontAccount ===

impl FrontAccount {
    pub(crate) fn new(set: &str, key: &ServiceKey, flags: ServiceFlags, rank: Rank) -> Self {
        Self {
            set: set.to_owned(),
            address: key.address.into(),
            port: key.port.get(),
            protocol: key.protocol.to_string(),
            clients: Clients::from_key(key, flags),
            title: rank.title().to_owned(),
            why: None,
            answered_by_node: false,
        }
    }
}

// === impl Clients ===

impl Clients {
    /// Those of an entry of the maps.
    #[must_use]
    pub fn from_key(key: &ServiceKey, flags: ServiceFlags) -> Self {
        if key.scope == Scope::EXTERNAL {
            Self::Outside
        } else if flags.contains(ServiceFlags::SCOPED) {
            Self::Inside
        } else {
            Self::All
        }
    }
}

// === impl Rank ===

impl Rank {
    /// In words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Override => "the node's own",
            Self::ClusterIp => "cluster IP",
            Self::LoadBalancer => "load balancer's address",
            Self::NodePort => "node port",
            Self::ExternalIp => "external IP",
            Self::HostPort => "host port",
        }
    }
}
