//! What one Service means for this node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebpf_abi::{Address, Backend, BackendFlags, Port, Protocol, ServiceFlags, ServiceKey};

use crate::objects::{Affinity, Conditions, EndpointSlice, Service};

/// A set of backends and the keys under which clients reach it: one service
/// port in one address family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Identifies the set: `namespace/service:port protocol family`.
    pub name: Box<str>,
    /// What clients address.
    pub keys: Vec<ServiceKey>,
    /// Properties.
    pub flags: ServiceFlags,
    /// How long an affinity lasts, in seconds.
    pub affinity_seconds: u32,
    /// Who answers, in the order of slots: sorted, each once.
    pub backends: Vec<Backend>,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The part of a Service that matters here, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceState {
    addresses: Vec<IpAddr>,
    ports: Vec<PortState>,
    affinity_seconds: Option<u32>,
    local_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PortState {
    name: Box<str>,
    protocol: Protocol,
    port: u16,
}

/// The part of an EndpointSlice that matters here, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceState {
    family: Family,
    ports: Vec<PortState>,
    endpoints: Vec<EndpointState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EndpointState {
    address: IpAddr,
    readiness: Readiness,
    local: bool,
}

/// Whether an endpoint may serve. The order is that of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Readiness {
    /// Never.
    No,
    /// If no endpoint is ready (KEP-1669).
    Terminating,
    /// Yes.
    Ready,
}

/// Seconds for which affinity lasts if the Service does not say (API default).
const AFFINITY_SECONDS: i64 = 10_800;
/// The API's upper limit: one day.
const AFFINITY_SECONDS_MOST: i64 = 86_400;

/// Compiles a Service and its EndpointSlices, seen from node `node`.
///
/// A pure function of its arguments; the order of slices, endpoints and ports
/// makes no difference.
#[must_use]
pub fn compile<'a>(
    node: &str,
    service: &Service,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
) -> Vec<Desired> {
    let Some(state) = ServiceState::of(service) else {
        return Vec::new();
    };
    let slices: Vec<_> = slices
        .into_iter()
        .filter_map(|slice| SliceState::of(slice, node))
        .collect();
    let prefix = format!("{}/{}", service.metadata.namespace, service.metadata.name);
    sets(&prefix, &state, slices.iter())
}

pub(crate) fn sets<'a>(
    prefix: &str,
    service: &ServiceState,
    slices: impl Iterator<Item = &'a SliceState> + Clone,
) -> Vec<Desired> {
    let mut sets = Vec::with_capacity(service.ports.len() * service.addresses.len());
    for port in &service.ports {
        for family in [Family::V4, Family::V6] {
            let keys: Vec<_> = service
                .addresses
                .iter()
                .filter(|address| Family::of(**address) == family)
                .map(|address| {
                    ServiceKey::internal(
                        Address::from(*address),
                        Port::new(port.port),
                        port.protocol,
                    )
                })
                .collect();
            if keys.is_empty() {
                continue;
            }
            let mut flags = ServiceFlags::NONE;
            if service.local_only {
                flags = flags.with(ServiceFlags::LOCAL_ONLY);
            }
            if service.affinity_seconds.is_some() {
                flags = flags.with(ServiceFlags::AFFINITY);
            }
            sets.push(Desired {
                name: port.set_name(prefix, family),
                keys,
                flags,
                affinity_seconds: service.affinity_seconds.unwrap_or_default(),
                backends: backends(port, family, service.local_only, slices.clone()),
            });
        }
    }
    sets
}

/// The backends of a port: the ready ones, or, if there are none, those that
/// serve while they terminate.
fn backends<'a>(
    port: &PortState,
    family: Family,
    local_only: bool,
    slices: impl Iterator<Item = &'a SliceState>,
) -> Vec<Backend> {
    // One endpoint may stand in several slices while it moves between them:
    // its best state counts.
    let mut found: BTreeMap<(Address, u16), (Readiness, bool)> = BTreeMap::new();
    for slice in slices.filter(|slice| slice.family == family) {
        let same = |other: &&PortState| other.name == port.name && other.protocol == port.protocol;
        for target in slice.ports.iter().filter(same) {
            for endpoint in &slice.endpoints {
                if endpoint.readiness == Readiness::No || (local_only && !endpoint.local) {
                    continue;
                }
                let place = (Address::from(endpoint.address), target.port);
                let entry = found
                    .entry(place)
                    .or_insert((endpoint.readiness, endpoint.local));
                entry.0 = entry.0.max(endpoint.readiness);
                entry.1 |= endpoint.local;
            }
        }
    }
    let best = found.values().map(|(readiness, _)| *readiness).max();
    found
        .into_iter()
        .filter(|(_, (readiness, _))| Some(*readiness) == best)
        .map(|((address, port), (readiness, local))| {
            let mut flags = BackendFlags::NONE;
            if local {
                flags = flags.with(BackendFlags::LOCAL);
            }
            if readiness == Readiness::Terminating {
                flags = flags.with(BackendFlags::TERMINATING);
            }
            Backend::new(address, Port::new(port), flags)
        })
        .collect()
}

// === impl ServiceState ===

impl ServiceState {
    /// None for what has no datapath on a node: headless and external
    /// services, and those that another proxy serves.
    pub(crate) fn of(service: &Service) -> Option<Self> {
        let spec = &service.spec;
        let elsewhere = service
            .metadata
            .labels
            .contains_key("service.kubernetes.io/service-proxy-name");
        if elsewhere || spec.kind.as_deref() == Some("ExternalName") {
            return None;
        }
        let mut addresses: Vec<IpAddr> = Vec::new();
        for text in spec.cluster_ips.iter().chain(&spec.cluster_ip) {
            if let Ok(address) = text.parse()
                && is_unicast(address)
                && !addresses.contains(&address)
            {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return None;
        }
        let mut ports: Vec<PortState> = Vec::with_capacity(spec.ports.len());
        for port in &spec.ports {
            let state = PortState::new(port.name.as_deref(), port.protocol.as_deref(), port.port);
            // Two ports of one name and protocol: the API forbids it.
            if let Some(state) = state
                && !ports
                    .iter()
                    .any(|other| other.name == state.name && other.protocol == state.protocol)
            {
                ports.push(state);
            }
        }
        let affinity_seconds = (spec.session_affinity == Some(Affinity::ClientIp)).then(|| {
            let config = spec
                .session_affinity_config
                .as_ref()
                .and_then(|config| config.client_ip.as_ref());
            let seconds = config
                .and_then(|config| config.timeout_seconds)
                .unwrap_or(AFFINITY_SECONDS);
            u32::try_from(seconds.clamp(1, AFFINITY_SECONDS_MOST)).unwrap_or(u32::MAX)
        });
        let local_only = spec.internal_traffic_policy.as_deref() == Some("Local");
        Some(Self {
            addresses,
            ports,
            affinity_seconds,
            local_only,
        })
    }
}

// === impl SliceState ===

impl SliceState {
    /// None for slices without addresses of either family.
    pub(crate) fn of(slice: &EndpointSlice, node: &str) -> Option<Self> {
        let family = match slice.address_type.as_str() {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            _ => return None,
        };
        let ports = slice
            .ports
            .iter()
            .filter_map(|port| {
                PortState::new(port.name.as_deref(), port.protocol.as_deref(), port.port?)
            })
            .collect();
        let endpoints = slice
            .endpoints
            .iter()
            .filter_map(|endpoint| {
                let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
                let fits = Family::of(address) == family && is_unicast(address);
                fits.then(|| EndpointState {
                    address,
                    readiness: Readiness::of(endpoint.conditions),
                    local: endpoint.node_name.as_deref() == Some(node),
                })
            })
            .collect();
        Some(Self {
            family,
            ports,
            endpoints,
        })
    }
}

// === impl PortState ===

impl PortState {
    fn new(name: Option<&str>, protocol: Option<&str>, port: i64) -> Option<Self> {
        let protocol = match protocol.unwrap_or("TCP") {
            "TCP" => Protocol::TCP,
            "UDP" => Protocol::UDP,
            "SCTP" => Protocol::SCTP,
            _ => return None,
        };
        let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
        Some(Self {
            name: name.unwrap_or_default().into(),
            protocol,
            port,
        })
    }

    fn set_name(&self, prefix: &str, family: Family) -> Box<str> {
        let (protocol, family) = (self.protocol, family.name());
        if self.name.is_empty() {
            format!("{prefix} {protocol} {family}").into()
        } else {
            format!("{prefix}:{} {protocol} {family}", self.name).into()
        }
    }
}

// === impl Readiness ===

impl Readiness {
    fn of(conditions: Conditions) -> Self {
        let serving = conditions.serving.unwrap_or(true);
        let terminating = conditions.terminating.unwrap_or(false);
        if conditions.ready.unwrap_or(true) {
            Self::Ready
        } else if serving && terminating {
            Self::Terminating
        } else {
            Self::No
        }
    }
}

// === impl Family ===

impl Family {
    /// The family of an address; a mapped IPv4 address is none that the API
    /// allows and counts as IPv6, where nothing reaches it.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// Can this be the address of a service or of an endpoint? The API server
/// refuses the others too; a translation to one of them would reach something
/// on this node that is not meant.
fn is_unicast(address: IpAddr) -> bool {
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
