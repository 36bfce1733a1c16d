//! What Kubernetes says of a client that addresses a Service: the API's reference
//! (`internalTrafficPolicy`, `externalTrafficPolicy`, `externalIPs`), KEP-2086,
//! KEP-1669 and the behaviour of kube-proxy 1.36, read without a look at the plan.
//!
//! Where Kubernetes leaves it open as whom a backend sees the client, both stand.

use std::collections::BTreeMap;
use std::fmt;

/// How a Service is addressed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Front {
    ClusterIp,
    /// At an address of node-1, whoever asks.
    NodePort,
    LoadBalancer,
    ExternalIp,
    /// The same as `NodePort`, at a loopback address.
    Loopback,
    /// Of a pod on node-1, at an address of node-1.
    HostPort,
}

/// The traffic policy that concerns the front.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Policy {
    Cluster,
    Local,
}

/// Where endpoints are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Endpoints {
    /// On node-1.
    Here,
    /// On node-2.
    Elsewhere,
    Both,
    Nowhere,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// A pod of node-1.
    Pod1,
    /// The very pod that is the endpoint on node-1.
    Backend1,
    /// A process of node-1.
    Host1,
    /// A pod of node-2.
    Pod2,
    /// A process of node-2.
    Host2,
    /// Another machine, which routes all but its own network through node-1.
    Client,
}

/// Who does the work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Path {
    /// The hooks of the source's socket, and packet programs where they leave it.
    Socket,
    /// Packet programs at tc alone.
    Packets,
    /// Packet programs, in the driver of the nodes' network device too.
    Xdp,
    /// As `Packets`, and remote backends get what the client sent in an outer
    /// header, and answer the client directly.
    DirectTunnel,
    /// The same without an outer header, by the network that the nodes share.
    DirectLink,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Protocol {
    Tcp,
    /// A socket that is connected.
    Udp,
    /// One that is not.
    UdpSendTo,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    V4,
    V6,
}

/// One line of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell {
    pub path: Path,
    pub front: Front,
    pub policy: Policy,
    pub endpoints: Endpoints,
    pub source: Source,
    pub family: Family,
    pub protocol: Protocol,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    One,
    Two,
}

/// As whom a backend sees its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// As it is.
    Itself,
    /// As the node where the Service's rules were applied.
    Node,
    /// Kubernetes does not say.
    Either,
}

/// What is to happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// One of the endpoints of these nodes answers.
    Answer(Vec<Node>, Seen),
    /// A TCP reset, or ICMP port unreachable.
    Refused,
    /// Silence. A socket's hook cannot be silent: there it is an error at once.
    Dropped,
}

pub const FRONTS: [Front; 6] = [
    Front::ClusterIp,
    Front::NodePort,
    Front::LoadBalancer,
    Front::ExternalIp,
    Front::Loopback,
    Front::HostPort,
];
pub const POLICIES: [Policy; 2] = [Policy::Cluster, Policy::Local];
pub const ENDPOINTS: [Endpoints; 4] = [
    Endpoints::Here,
    Endpoints::Elsewhere,
    Endpoints::Both,
    Endpoints::Nowhere,
];
pub const SOURCES: [Source; 6] = [
    Source::Pod1,
    Source::Backend1,
    Source::Host1,
    Source::Pod2,
    Source::Host2,
    Source::Client,
];
pub const PATHS: [Path; 5] = [
    Path::Socket,
    Path::Packets,
    Path::Xdp,
    Path::DirectTunnel,
    Path::DirectLink,
];

/// All cells of a path.
pub fn cells(path: Path) -> Vec<Cell> {
    let mut cells = Vec::new();
    for front in FRONTS {
        for policy in POLICIES {
            for endpoints in ENDPOINTS {
                for source in SOURCES {
                    for family in [Family::V4, Family::V6] {
                        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::UdpSendTo] {
                            cells.push(Cell {
                                path,
                                front,
                                policy,
                                endpoints,
                                source,
                                family,
                                protocol,
                            });
                        }
                    }
                }
            }
        }
    }
    cells.retain(Cell::exists);
    cells
}

/// Of the cells of a path that get an answer, the first of each front, family and
/// protocol: from outside and with endpoints on both nodes, where there are such.
pub fn one_of_each_kind(cells: Vec<Cell>) -> Vec<Cell> {
    let mut kinds = BTreeMap::new();
    let mut answered: Vec<Cell> = cells
        .into_iter()
        .filter(|cell| matches!(cell.expected(), Expected::Answer(..)))
        .collect();
    answered.sort_by_key(|cell| {
        (
            cell.endpoints != Endpoints::Both,
            cell.source != Source::Client,
        )
    });
    for cell in answered {
        let kind = (cell.front, cell.family, cell.protocol);
        kinds.entry(kind).or_insert(cell);
    }
    kinds.into_values().collect()
}

// === impl Cell ===

impl Cell {
    /// Is there such a cell?
    fn exists(&self) -> bool {
        let front = match self.front {
            // A pod's own: no policy, and it is where it is.
            Front::HostPort => self.policy == Policy::Cluster && self.endpoints == Endpoints::Here,
            // Only a process of the node can ask. IPv6 has no such thing.
            Front::Loopback => {
                self.source == Source::Host1
                    && self.path == Path::Socket
                    && self.family == Family::V4
            }
            _ => true,
        };
        let source = match self.path {
            Path::Socket => self.source != Source::Client,
            // What a node sends to itself passes no device with programs: the
            // hooks are at the root of all control groups for that.
            Path::Packets => {
                !(self.source == Source::Host1
                    && matches!(self.front, Front::NodePort | Front::HostPort))
            }
            // Nothing of these comes from another machine otherwise.
            Path::Xdp => self.applied_to() == Node::One && self.comes_from_afar(),
            Path::DirectTunnel | Path::DirectLink => {
                self.source == Source::Client
                    && self.front != Front::HostPort
                    && matches!(self.endpoints, Endpoints::Elsewhere | Endpoints::Both)
            }
        };
        // Nobody tells a socket that is not connected of a refusal by packets.
        let protocol = self.protocol != Protocol::UdpSendTo || self.is_by_socket();
        let itself = self.source != Source::Backend1
            || matches!(self.endpoints, Endpoints::Here | Endpoints::Both);
        front && source && protocol && itself
    }

    /// Is it the hooks of the source's socket that apply the Service's rules?
    pub fn is_by_socket(&self) -> bool {
        let node = match self.source {
            Source::Pod2 | Source::Host2 => Node::Two,
            _ => Node::One,
        };
        self.path == Path::Socket && self.applied_to() == node
    }

    fn is_direct(&self) -> bool {
        matches!(self.path, Path::DirectTunnel | Path::DirectLink)
    }

    fn comes_from_afar(&self) -> bool {
        matches!(self.source, Source::Client | Source::Pod2 | Source::Host2)
    }

    /// On which node the Service's rules apply: that of the client, if it is on
    /// one and does not name another's address.
    pub fn applied_to(&self) -> Node {
        match (self.front, self.source) {
            (Front::NodePort | Front::HostPort | Front::Loopback, _) => Node::One,
            (_, Source::Pod2 | Source::Host2) => Node::Two,
            _ => Node::One,
        }
    }

    /// Is the client inside the cluster, as that node sees it? Other nodes'
    /// processes are not: they have neither a pod's address nor one of its own.
    fn is_inside(&self) -> bool {
        match self.source {
            Source::Pod1 | Source::Backend1 | Source::Host1 | Source::Pod2 => true,
            Source::Host2 => self.applied_to() == Node::Two,
            Source::Client => false,
        }
    }

    pub fn expected(&self) -> Expected {
        let all = match self.endpoints {
            Endpoints::Here => vec![Node::One],
            Endpoints::Elsewhere => vec![Node::Two],
            Endpoints::Both => vec![Node::One, Node::Two],
            Endpoints::Nowhere => return Expected::Refused,
        };
        let node = self.applied_to();
        // Who is inside reaches the outer addresses as if through any node.
        let policy = if self.front != Front::ClusterIp && self.is_inside() {
            Policy::Cluster
        } else {
            self.policy
        };
        let usable: Vec<Node> = match policy {
            Policy::Cluster => all,
            Policy::Local => all.into_iter().filter(|it| *it == node).collect(),
        };
        if usable.is_empty() {
            return Expected::Dropped;
        }
        Expected::Answer(usable, self.seen(policy))
    }

    fn seen(&self, policy: Policy) -> Seen {
        if self.source == Source::Backend1 {
            // To itself: any address but none else's.
            return Seen::Either;
        }
        match self.front {
            Front::ClusterIp if self.is_inside() => Seen::Itself,
            // Its answers would not come back this way.
            Front::ClusterIp => Seen::Node,
            Front::HostPort if self.is_inside() => Seen::Either,
            Front::HostPort => Seen::Itself,
            _ if policy == Policy::Local => Seen::Itself,
            // Another node's answers pass the client's node by only for its own
            // address: a balancer's or external one, which all nodes may have.
            Front::NodePort => Seen::Either,
            _ if self.is_direct() => Seen::Itself,
            _ => Seen::Either,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            front,
            policy,
            endpoints,
            source,
            family,
            protocol,
        } = self;
        write!(
            f,
            "{path:?} {front:?} {policy:?} endpoints {endpoints:?} from {source:?} {family:?} {protocol:?}"
        )
    }
}
