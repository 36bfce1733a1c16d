//! Compiles one Service for this node.
//!
//! The rules are those of kube-proxy 1.36 (`pkg/proxy/topology.go`, KEP-1669, KEP-2086,
//! KEP-2433, KEP-4444, KEP-3015): traffic to the cluster IP follows the internal policy;
//! traffic from outside to any other address follows the external one; traffic from
//! inside to those is treated as if it had left the cluster and come back through another
//! node, so that it uses all endpoints.

use std::net::IpAddr;

use ebpf_abi::{Address, Backend, BackendFlags, Port, Protocol, Scope, ServiceFlags, ServiceKey};
use ipnet::IpNet;

use crate::maglev;
use crate::name;
use crate::objects::{EndpointSlice, Service};
use crate::problem::Reason;
use crate::service::ServiceState;
use crate::slice::{NameHash, PortState, SliceState, State};

/// A set of backends and the keys under which clients reach it: one service
/// port in one address family, under one traffic policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredSet {
    /// Identifies the set: `namespace/service:port protocol family`, with
    /// `local` behind if it holds the backends of this node only.
    pub name: Box<str>,
    /// The destinations of clients.
    pub keys: Vec<Key>,
    /// Properties, under every key.
    pub flags: ServiceFlags,
    /// How long an affinity lasts, in seconds.
    pub affinity_seconds: u32,
    /// Places of the table for consistent hashing; zero without.
    pub table: u32,
    /// The allowed clients of keys with [`SOURCES`](ServiceFlags::SOURCES).
    pub sources: Vec<IpNet>,
    /// The backends: sorted, each once.
    pub backends: Vec<Backend>,
    /// Entries that it should have and for which the maps have no room.
    pub missing: usize,
}

/// A key under which a set is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The destination of clients.
    pub key: ServiceKey,
    /// Flags, besides those of the set.
    pub flags: ServiceFlags,
    /// The precedence among sets that want the same key.
    pub rank: Rank,
}

/// The precedence for a key that several sets want: the first variant wins; of equals the
/// one whose object is older; of these the one whose name sorts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// An override, which the node answers itself.
    Override,
    /// A cluster IP, which the API server hands out once only.
    ClusterIp,
    /// A load balancer's address, which a controller wrote.
    LoadBalancer,
    /// A node port, which the API server hands out once only.
    NodePort,
    /// An external IP, which anybody may write who may write Services.
    ExternalIp,
    /// A host port, which anybody may write who may write Pods.
    HostPort,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Most backends of one service port in one family.
pub(crate) const MOST_BACKENDS: usize = 16_384;
const _: () = assert!(MOST_BACKENDS <= maglev::MOST_BACKENDS);

/// The node from which a Service is seen.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) node: Option<NameHash>,
    pub(crate) zone: Option<NameHash>,
    pub(crate) direct_return: bool,
    /// The node's addresses that are no loopback ones.
    pub(crate) own: Vec<IpAddr>,
}

/// The compiled form of a Service.
#[derive(Debug, Default)]
pub(crate) struct CompiledService {
    pub(crate) sets: Vec<DesiredSet>,
    /// UDP endpoints that still serve, for any client.
    pub(crate) datagrams: Vec<Datagrams>,
    pub(crate) problems: Vec<Reason>,
    /// Ready endpoints on this node, for load balancers that ask.
    pub(crate) local_ready: usize,
}

/// The endpoints of a UDP port in one family that serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagrams {
    pub(crate) keys: Vec<ServiceKey>,
    /// Sorted.
    pub(crate) serving: Vec<(Address, u16)>,
}

/// An endpoint of a service port, from all slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) address: Address,
    pub(crate) port: u16,
    pub(crate) state: State,
}

/// Decisions from all endpoints of a service port about each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preference {
    near: HintLevel,
    any_ready: bool,
    any_local_ready: bool,
    /// Somewhere in the cluster an endpoint may serve.
    pub(crate) any: bool,
}

/// The topology hints by which endpoints are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HintLevel {
    Anywhere,
    Zone,
    Node,
}

/// The reason why an endpoint is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnusedReason {
    /// It is not ready, and not serving while it ends either.
    NotReady,
    /// It is ending, and others are ready.
    Terminating,
    /// Hints give it to other nodes.
    OtherNode,
    /// Hints give it to other zones.
    OtherZone,
    /// It is on another node, and the traffic policy is `Local`.
    NotLocal,
}

/// Compiles a Service and its EndpointSlices, seen from node `node` in a zone.
///
/// A pure function of its arguments; the order of slices, endpoints and ports
/// makes no difference.
#[must_use]
pub fn compile<'a>(
    node: &str,
    zone: Option<&str>,
    service: &Service,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
) -> Vec<DesiredSet> {
    let state = ServiceState::from(service);
    if state.nothing().is_some() {
        return Vec::new();
    }
    let view = View::new(node, zone);
    let slices: Vec<_> = slices.into_iter().map(SliceState::from).collect();
    let prefix = format!("{}/{}", service.metadata.namespace, service.metadata.name);
    sets(&prefix, &state, slices.iter(), &view).sets
}

pub(crate) fn sets<'a>(
    prefix: &str,
    service: &ServiceState,
    slices: impl Iterator<Item = &'a SliceState> + Clone,
    view: &View,
) -> CompiledService {
    let mut compiled = CompiledService {
        problems: service.problems.clone(),
        ..CompiledService::default()
    };
    compiled
        .problems
        .extend(slices.clone().flat_map(SliceState::problems));
    let primary = service.families().next();
    let mut local_ready: Vec<Address> = Vec::new();
    for port in &service.ports {
        for family in [Family::V4, Family::V6] {
            let keys = Keys::of(service, port.node_port, &port.port, family, view);
            if keys.is_empty() {
                continue;
            }
            let found = candidates(&port.port, family, slices.clone(), view);
            if service.health_port.is_some() && Some(family) == primary {
                let ready = found
                    .iter()
                    .filter(|it| it.state.is_ready() && it.state.is_local());
                local_ready.extend(ready.map(|it| it.address));
            }
            if port.port.protocol == Protocol::UDP {
                compiled.datagrams.push(Datagrams {
                    keys: keys.all().collect(),
                    serving: found
                        .iter()
                        .filter(|it| it.state.is_serving() || it.state.is_ready())
                        .map(|it| (it.address, it.port))
                        .collect(),
                });
            }
            let name = port.port.set_name(prefix, family);
            push(&mut compiled, service, family, name, keys, &found, view);
        }
    }
    local_ready.sort_unstable();
    local_ready.dedup();
    compiled.local_ready = local_ready.len();
    compiled.problems.sort_unstable();
    compiled.problems.dedup();
    compiled
}

/// The sets of a port in a family: of all endpoints, and of local ones.
fn push(
    compiled: &mut CompiledService,
    service: &ServiceState,
    family: Family,
    name: Box<str>,
    keys: Keys,
    found: &[Candidate],
    view: &View,
) {
    let preference = Preference::from_candidates(found);
    let mut add = |name: Box<str>, keys: Vec<Key>, local: bool| {
        let chosen = found.iter().filter(|it| {
            let unused = if local {
                preference.unused_locally(it)
            } else {
                preference.unused(it)
            };
            unused.is_none()
        });
        let mut backends: Vec<Backend> = chosen
            .clone()
            .take(MOST_BACKENDS)
            .map(Candidate::backend)
            .collect();
        if backends.len() == MOST_BACKENDS {
            let count = chosen.count();
            if count > MOST_BACKENDS {
                compiled.problems.push(Reason::TooManyEndpoints {
                    found: count,
                    most: MOST_BACKENDS,
                    family,
                });
            }
        }
        backends.shrink_to_fit();
        let mut flags = service.flags();
        if local {
            flags = flags.with(ServiceFlags::LOCAL_ONLY);
            if backends.is_empty() && preference.any {
                flags = flags.with(ServiceFlags::DROP_EMPTY);
            }
        }
        let hashed = service.maglev && !backends.is_empty();
        if hashed {
            flags = flags.with(ServiceFlags::MAGLEV);
        }
        let restricted = keys
            .iter()
            .any(|key| key.flags.contains(ServiceFlags::SOURCES));
        let sources = if restricted {
            service.sources(family, &view.own)
        } else {
            Vec::new()
        };
        compiled.sets.push(DesiredSet {
            name,
            keys,
            flags,
            affinity_seconds: service.affinity_seconds.unwrap_or_default(),
            table: if hashed {
                maglev::size(backends.len())
            } else {
                0
            },
            sources,
            backends,
            missing: 0,
        });
    };
    if !keys.local.is_empty() {
        add(name::fit(format!("{name} local")), keys.local, true);
    }
    if !keys.cluster.is_empty() {
        add(name, keys.cluster, false);
    }
}

/// The endpoints of a port, each once.
pub(crate) fn candidates<'a>(
    port: &PortState,
    family: Family,
    slices: impl Iterator<Item = &'a SliceState>,
    view: &View,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    for slice in slices.filter(|slice| slice.is_of(family)) {
        for target in slice.ports.iter().filter(|target| target.serves(port)) {
            found.extend(slice.endpoints.iter().map(|endpoint| Candidate {
                address: endpoint.address,
                port: target.port,
                state: slice.seen(endpoint, view),
            }));
        }
    }
    // One endpoint may be in several slices while it moves between them, and an address
    // may pass from a terminating pod to a new one: the best state counts, with
    // everything in its entry.
    found.sort_unstable_by(|a, b| {
        (a.address, a.port)
            .cmp(&(b.address, b.port))
            .then_with(|| b.state.cmp(&a.state))
    });
    found.dedup_by_key(|it| (it.address, it.port));
    found
}

/// The keys of a port in a family, by the set that they lead to.
#[derive(Default)]
struct Keys {
    cluster: Vec<Key>,
    local: Vec<Key>,
}

// === impl Keys ===

impl Keys {
    fn of(
        service: &ServiceState,
        node_port: Option<u16>,
        port: &PortState,
        family: Family,
        view: &View,
    ) -> Self {
        let mut keys = Self::default();
        let addresses = service
            .addresses
            .iter()
            .filter(|(address, _)| Family::of_address(*address) == family);
        for (address, rank) in addresses.clone() {
            let flags = if *rank == Rank::LoadBalancer && service.is_restricted(family) {
                ServiceFlags::SOURCES
            } else {
                ServiceFlags::NONE
            };
            keys.add(
                service,
                *address,
                port.port,
                port.protocol,
                *rank,
                flags,
                view,
            );
        }
        let has_family = addresses.clone().any(|(_, rank)| *rank == Rank::ClusterIp);
        if let Some(node_port) = node_port.filter(|_| has_family) {
            let (rank, flags) = (Rank::NodePort, ServiceFlags::NODE_PORT);
            keys.add(
                service,
                family.wildcard(),
                node_port,
                port.protocol,
                rank,
                flags,
                view,
            );
        }
        keys
    }

    #[allow(clippy::too_many_arguments, reason = "a key is made of these")]
    fn add(
        &mut self,
        service: &ServiceState,
        address: Address,
        port: u16,
        protocol: Protocol,
        rank: Rank,
        flags: ServiceFlags,
        view: &View,
    ) {
        let key = |scope, flags| Key {
            key: ServiceKey::new(address, Port::new(port), protocol, scope),
            flags,
            rank,
        };
        if rank == Rank::ClusterIp {
            let key = key(Scope::INTERNAL, flags.with(ServiceFlags::CLUSTER_IP));
            if service.internal_local {
                self.local.push(key);
            } else {
                self.cluster.push(key);
            }
            return;
        }
        // A node port is this node's own address, for which none but this node
        // can answer.
        let direct = service.direct_return.unwrap_or(view.direct_return);
        let flags = if direct && rank != Rank::NodePort {
            flags.with(ServiceFlags::DIRECT_RETURN)
        } else {
            flags
        };
        if service.external_local {
            let inside = flags.with(ServiceFlags::SCOPED);
            self.cluster.push(key(Scope::INTERNAL, inside));
            self.local.push(key(Scope::EXTERNAL, flags));
        } else {
            self.cluster.push(key(Scope::INTERNAL, flags));
        }
    }

    fn is_empty(&self) -> bool {
        self.cluster.is_empty() && self.local.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = ServiceKey> + '_ {
        self.cluster.iter().chain(&self.local).map(|key| key.key)
    }
}

// === impl Preference ===

impl Preference {
    pub(crate) fn from_candidates(found: &[Candidate]) -> Self {
        let ready = || found.iter().filter(|it| it.state.is_ready());
        let any_ready = ready().next().is_some();
        // Hints count only if every ready endpoint has one: otherwise the controller is
        // still at work, and endpoints without one would be left out.
        let near = if any_ready
            && ready().all(|it| it.state.has_node_hints())
            && ready().any(|it| it.state.is_hinted_here())
        {
            HintLevel::Node
        } else if any_ready
            && ready().all(|it| it.state.has_zone_hints())
            && ready().any(|it| it.state.is_hinted_to_zone())
        {
            HintLevel::Zone
        } else {
            HintLevel::Anywhere
        };
        Self {
            near,
            any_ready,
            any_local_ready: ready().any(|it| it.state.is_local()),
            any: any_ready || found.iter().any(|it| it.state.may_step_in()),
        }
    }

    /// Returns why an endpoint is not used where all may be.
    pub(crate) fn unused(self, it: &Candidate) -> Option<UnusedReason> {
        if !it.state.is_ready() {
            return Self::unready(it, self.any_ready);
        }
        match self.near {
            HintLevel::Anywhere => None,
            HintLevel::Node => (!it.state.is_hinted_here()).then_some(UnusedReason::OtherNode),
            HintLevel::Zone => (!it.state.is_hinted_to_zone()).then_some(UnusedReason::OtherZone),
        }
    }

    /// Returns why an endpoint is not used where only those of this node may be.
    pub(crate) fn unused_locally(self, it: &Candidate) -> Option<UnusedReason> {
        if !it.state.is_local() {
            return Some(UnusedReason::NotLocal);
        }
        if it.state.is_ready() {
            return None;
        }
        Self::unready(it, self.any_local_ready)
    }

    fn unready(it: &Candidate, others_are: bool) -> Option<UnusedReason> {
        match (it.state.may_step_in(), others_are) {
            (false, _) => Some(UnusedReason::NotReady),
            (true, true) => Some(UnusedReason::Terminating),
            (true, false) => None,
        }
    }
}

// === impl Candidate ===

impl Candidate {
    fn backend(&self) -> Backend {
        let mut flags = BackendFlags::NONE;
        if self.state.is_local() {
            flags = flags.with(BackendFlags::LOCAL);
        }
        if !self.state.is_ready() {
            flags = flags.with(BackendFlags::TERMINATING);
        }
        Backend::new(self.address, Port::new(self.port), flags)
    }
}

// === impl PortState ===

impl PortState {
    pub(crate) fn set_name(&self, prefix: &str, family: Family) -> Box<str> {
        let protocol = self.protocol;
        if self.name.is_empty() {
            name::fit(format!("{prefix} {protocol} {family}"))
        } else {
            name::fit(format!("{prefix}:{} {protocol} {family}", self.name))
        }
    }
}

// === impl View ===

impl View {
    pub(crate) fn new(node: &str, zone: Option<&str>) -> Self {
        Self {
            node: NameHash::of_any(node),
            zone: zone.map(NameHash::hash),
            direct_return: false,
            own: Vec::new(),
        }
    }
}

// === impl Family ===

impl Family {
    /// The family of an address; a mapped IPv4 address is none that the API
    /// allows and counts as IPv6, where nothing reaches it.
    #[must_use]
    pub const fn for_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns the family of an address in a key.
    #[must_use]
    pub const fn of_address(address: Address) -> Self {
        if address.is_v4() { Self::V4 } else { Self::V6 }
    }

    pub(crate) const fn wildcard(self) -> Address {
        match self {
            Self::V4 => Address::UNSPECIFIED_V4,
            Self::V6 => Address::UNSPECIFIED,
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Returns whether this can be the address of a service or of an endpoint. The API server
/// rejects others, too; a translation to one of them would reach an unintended
/// destination on this node.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_broadcast())
        }
        IpAddr::V6(ip) => {
            let link_local = ip.is_unicast_link_local();
            let mapped = ip.to_ipv4_mapped().is_some();
            !(ip.is_unspecified() || ip.is_loopback() || link_local || ip.is_multicast() || mapped)
        }
    }
}

#[cfg(test)]
mod tests;
