//! Accounts of an object: whether each address and endpoint is in force here, and why
//! not. The agent reports them beside the maps' contents.

use std::net::IpAddr;

use ebpf_abi::{Scope, ServiceFlags, ServiceKey};
use serde::{Deserialize, Serialize};

use crate::compile::Rank;
use crate::explain::{EndpointUse, ExplainedEndpoint};
use crate::service::ServiceState;
use crate::slice::PortState;

/// The plan's account of one object.
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
    /// The addresses at which it wants to be reached.
    pub fronts: Vec<FrontAccount>,
    /// The possible endpoints, as seen from this node.
    pub endpoints: Vec<EndpointAccount>,
    /// Further requests that are not in force.
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
    /// The kind of address: `cluster IP`, `node port`, …
    pub title: String,
    /// Why it is not in force; `None` if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The node itself answers there, as it does for cluster DNS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered_by_node: bool,
}

/// The clients of an entry.
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
    /// The endpoint.
    pub endpoint: String,
    /// In the set of all.
    pub cluster: EndpointStanding,
    /// Its standing in the set of this node's endpoints.
    pub local: EndpointStanding,
}

/// Whether an endpoint is in a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndpointStanding {
    /// There is no such set, because no client may use it.
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

    /// Adds the account of a Service from [`explain`](crate::explain), and why it has no
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
