//! The part of a Service that matters here, checked.

use std::net::IpAddr;
use std::sync::Arc;

use ebpf_abi::{Address, ServiceFlags};
use ipnet::IpNet;
use smallvec::SmallVec;

use crate::compile::{Family, Rank, is_unicast};
use crate::objects::{Affinity, Metadata, Service};
use crate::problem::Reason;
use crate::slice::{PortState, parse_port};

/// Services with it belong to another proxy.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";
/// `maglev`: backends are chosen by consistent hashing; anything else, or
/// nothing: at random.
const LOAD_BALANCING: &str = "orlop.dev/load-balancing";
/// `true`: remote backends answer clients outside directly; `false`: through
/// this node; nothing: as the node's option says.
const DIRECT_RETURN: &str = "orlop.dev/direct-return";

/// Seconds for which affinity lasts if the Service does not say (API default).
const AFFINITY_SECONDS: i64 = 10_800;
/// The API's upper limit: one day.
const AFFINITY_SECONDS_MOST: i64 = 86_400;

/// The limit on source ranges of one Service; the API has none.
const MOST_RANGES: usize = 1_024;
/// Most ports of one Service. The API knows no limit but the object's size, in
/// which tens of thousands fit, and as many addresses: their product would fill
/// every map.
const MOST_PORTS: usize = 1_024;
/// The limit on reported problems of one object.
pub(crate) const MOST_PROBLEMS: usize = 32;
/// Most pairs of a port and an address of one Service.
const MOST_PAIRS: usize = 8_192;

/// The part of a Service that matters here, checked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ServiceState {
    /// Why it has no datapath on any node; `None` if it has one.
    nothing: Option<&'static str>,
    /// The older one of two that want the same goes first.
    pub(crate) created: u64,
    pub(crate) addresses: SmallVec<[(Address, Rank); 2]>,
    pub(crate) ports: Vec<ServicePortState>,
    pub(crate) affinity_seconds: Option<u32>,
    pub(crate) internal_local: bool,
    pub(crate) external_local: bool,
    /// The allowed sources of the load balancer's addresses, if restricted.
    pub(crate) ranges: Vec<IpNet>,
    /// Families in which ranges were written, valid or not.
    restricted: [bool; 2],
    pub(crate) maglev: bool,
    pub(crate) direct_return: Option<bool>,
    pub(crate) health_port: Option<u16>,
    pub(crate) problems: Vec<Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServicePortState {
    pub(crate) port: PortState,
    pub(crate) node_port: Option<u16>,
}

// === impl ServiceState ===

impl ServiceState {
    /// Returns why a Service has no datapath on any node; `None` if it has one.
    #[must_use]
    pub const fn nothing(&self) -> Option<&'static str> {
        self.nothing
    }

    /// Returns the parts with a datapath, if it has addresses.
    fn served(service: &Service) -> Option<Self> {
        let spec = &service.spec;
        let mut state = Self {
            nothing: None,
            created: created(&service.metadata),
            addresses: SmallVec::new(),
            ports: Vec::with_capacity(spec.ports.len()),
            affinity_seconds: affinity(service),
            internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            external_local: false,
            ranges: Vec::new(),
            restricted: [false; 2],
            maglev: annotation(&service.metadata, LOAD_BALANCING) == Some("maglev"),
            direct_return: match annotation(&service.metadata, DIRECT_RETURN) {
                Some("true") => Some(true),
                Some("false") => Some(false),
                _ => None,
            },
            health_port: None,
            problems: Vec::new(),
        };
        for text in spec.cluster_ips.iter().chain(&spec.cluster_ip) {
            if !matches!(text.as_str(), "" | "None") {
                state.add("clusterIPs", text, Rank::ClusterIp);
            }
        }
        if state.addresses.is_empty() {
            return None;
        }
        let kind = spec.kind.as_deref().unwrap_or("ClusterIP");
        for ingress in &service.status.load_balancer.ingress {
            let ours = ingress.ip_mode.as_deref().unwrap_or("VIP") == "VIP";
            if let Some(text) = ingress
                .ip
                .as_deref()
                .filter(|text| ours && !text.is_empty())
            {
                state.add("status.loadBalancer.ingress", text, Rank::LoadBalancer);
            }
        }
        for text in spec
            .external_ips
            .iter()
            .filter(|text| !text.trim().is_empty())
        {
            state.add("externalIPs", text, Rank::ExternalIp);
        }
        // Otherwise the policy is a leftover of another type.
        state.external_local = spec.external_traffic_policy.as_deref() == Some("Local")
            && (matches!(kind, "NodePort" | "LoadBalancer") || !spec.external_ips.is_empty());
        if kind == "LoadBalancer" && state.external_local {
            state.health_port = spec.health_check_node_port.and_then(parse_port);
        }
        state.read_ports(service);
        let found = state.addresses.len();
        let most = (MOST_PAIRS / state.ports.len().max(1)).max(2);
        if found > most {
            // Cluster IPs stand first.
            state.addresses.truncate(most);
            state
                .problems
                .push(Reason::TooManyAddresses { found, most });
        }
        state.problems.truncate(MOST_PROBLEMS);
        state.read_ranges(&spec.load_balancer_source_ranges);
        Some(state)
    }

    fn add(&mut self, field: &'static str, text: &str, rank: Rank) {
        let address: IpAddr = match text.trim().parse() {
            Ok(address) if is_unicast(address) => address,
            _ => {
                self.problems.push(Reason::BadAddress {
                    field,
                    text: text.into(),
                });
                return;
            }
        };
        let family = Family::for_address(address);
        let address = Address::from(address);
        if rank != Rank::ClusterIp && !self.families().any(|it| it == family) {
            self.problems.push(Reason::WrongFamily { field, address });
            return;
        }
        // An address under two titles has the better one: the first.
        if self.addresses.len() < MOST_PAIRS
            && !self.addresses.iter().any(|(other, _)| *other == address)
        {
            self.addresses.push((address, rank));
        }
    }

    fn read_ports(&mut self, service: &Service) {
        let found = service.spec.ports.len();
        if found > MOST_PORTS {
            let most = MOST_PORTS;
            self.problems.push(Reason::TooManyPorts { found, most });
        }
        for port in service.spec.ports.iter().take(MOST_PORTS) {
            let state = PortState::new(port.name.as_deref(), port.protocol.as_deref(), port.port);
            // Two ports of one name and protocol: the API forbids it.
            match state {
                Some(state) if !self.ports.iter().any(|other| other.port.serves(&state)) => {
                    self.ports.push(ServicePortState {
                        port: state,
                        node_port: port.node_port.and_then(parse_port),
                    });
                }
                _ => self.problems.push(Reason::BadPort {
                    port: port
                        .name
                        .clone()
                        .filter(|name| !name.is_empty())
                        .unwrap_or_else(|| port.port.to_string())
                        .into(),
                }),
            }
        }
    }

    /// Parses source ranges. Ranges of one family do not restrict the other, and one that
    /// contains every address is no restriction (as in kube-proxy). An invalid range
    /// admits no client.
    fn read_ranges(&mut self, texts: &[String]) {
        let mut unreadable = false;
        for text in texts.iter().map(|text| text.trim()) {
            match text.parse::<IpNet>() {
                Ok(range) => self.ranges.push(range.trunc()),
                Err(_) if text.is_empty() => {}
                Err(_) => {
                    unreadable = true;
                    self.problems.push(Reason::BadRange { text: text.into() });
                }
            }
        }
        self.ranges.sort_unstable();
        self.ranges.dedup();
        for (family, restricted) in [Family::V4, Family::V6]
            .into_iter()
            .zip(&mut self.restricted)
        {
            let mut its = self
                .ranges
                .iter()
                .filter(|range| Family::for_address(range.addr()) == family);
            let open = its.clone().any(|range| range.prefix_len() == 0);
            *restricted = !open && (its.next().is_some() || (unreadable && self.ranges.is_empty()));
        }
        let found = self.ranges.len();
        if found > MOST_RANGES {
            self.ranges.truncate(MOST_RANGES);
            self.problems.push(Reason::TooManyRanges {
                found,
                most: MOST_RANGES,
            });
        }
    }

    /// Returns the families in which the Service is served: those of its cluster IPs.
    pub(crate) fn families(&self) -> impl Iterator<Item = Family> + '_ {
        self.addresses
            .iter()
            .filter(|(_, rank)| *rank == Rank::ClusterIp)
            .map(|(address, _)| Family::of_address(*address))
    }

    /// Returns whether the load balancer's addresses of this family are restricted to
    /// some clients.
    pub(crate) fn is_restricted(&self, family: Family) -> bool {
        self.restricted[usize::from(family == Family::V6)]
    }

    /// Returns whether any load balancer address is restricted to some clients.
    pub(crate) fn has_ranges(&self) -> bool {
        self.restricted.contains(&true)
    }

    /// Returns the allowed sources of the load balancer's addresses of a family: its
    /// ranges. A node in them that has such an address on an interface uses it as its
    /// source, so the addresses are admitted, too (as in kube-proxy).
    pub(crate) fn sources(&self, family: Family, own: &[IpAddr]) -> Vec<IpNet> {
        let its = |range: &&IpNet| Family::for_address(range.addr()) == family;
        let mut sources: Vec<IpNet> = self.ranges.iter().filter(its).copied().collect();
        let inside = |address: &IpAddr| sources.iter().any(|range| range.contains(address));
        if own.iter().any(inside) {
            let balanced = self.addresses.iter().filter(|(address, rank)| {
                *rank == Rank::LoadBalancer && Family::of_address(*address) == family
            });
            sources.extend(balanced.map(|(address, _)| IpNet::from(IpAddr::from(*address))));
            sources.sort_unstable();
            sources.dedup();
        }
        sources
    }

    pub(crate) fn flags(&self) -> ServiceFlags {
        if self.affinity_seconds.is_some() {
            ServiceFlags::AFFINITY
        } else {
            ServiceFlags::NONE
        }
    }
}

impl From<&Service> for ServiceState {
    fn from(service: &Service) -> Self {
        let served = match foreign(service) {
            Some(_) => None,
            None => Self::served(service),
        };
        served.unwrap_or_else(|| Self {
            nothing: Some(unserved(service)),
            ..Self::default()
        })
    }
}

impl From<&Service> for Arc<ServiceState> {
    fn from(service: &Service) -> Self {
        Self::new(service.into())
    }
}

/// Returns why a Service is not for this datapath at all; `None` if it is.
fn foreign(service: &Service) -> Option<&'static str> {
    if service.metadata.labels.contains_key(PROXY_NAME) {
        return Some(
            "its label service.kubernetes.io/service-proxy-name gives it to another proxy",
        );
    }
    (service.spec.kind.as_deref() == Some("ExternalName"))
        .then_some("it is of type ExternalName: a name for DNS, without addresses")
}

/// Returns why a Service without a datapath has none.
fn unserved(service: &Service) -> &'static str {
    let spec = &service.spec;
    let mut addresses = spec.cluster_ips.iter().chain(&spec.cluster_ip);
    if let Some(why) = foreign(service) {
        why
    } else if addresses.clone().any(|text| text == "None") {
        "it is headless: DNS names its endpoints, which clients reach directly"
    } else if addresses.all(String::is_empty) {
        "it has no cluster IP yet"
    } else {
        "none of its cluster IPs is an address that a Service can have"
    }
}

/// Returns the digits of a time in UTC (`2026-01-02T03:04:05Z`), which sort as times do;
/// a missing time counts as newest.
pub(crate) fn created(metadata: &Metadata) -> u64 {
    let text = metadata.creation_timestamp.as_deref().unwrap_or_default();
    let digits = text.bytes().filter(u8::is_ascii_digit).take(14);
    let (count, number) = digits.fold((0, 0_u64), |(count, number), digit| {
        (count + 1, number * 10 + u64::from(digit - b'0'))
    });
    if count == 14 { number } else { u64::MAX }
}

fn annotation<'a>(metadata: &'a Metadata, key: &str) -> Option<&'a str> {
    metadata.annotations.get(key).map(String::as_str)
}

fn affinity(service: &Service) -> Option<u32> {
    let spec = &service.spec;
    (spec.session_affinity == Some(Affinity::ClientIp)).then(|| {
        let config = spec
            .session_affinity_config
            .as_ref()
            .and_then(|config| config.client_ip.as_ref());
        let seconds = config
            .and_then(|config| config.timeout_seconds)
            .unwrap_or(AFFINITY_SECONDS);
        u32::try_from(seconds.clamp(1, AFFINITY_SECONDS_MOST)).unwrap_or(u32::MAX)
    })
}
