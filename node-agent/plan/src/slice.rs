//! The part of an EndpointSlice that matters here, checked and small: a
//! cluster's endpoints are all kept.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use ebpf_abi::{Address, Protocol};

use crate::compile::{Family, View, is_unicast};
use crate::objects::{Conditions, EndpointPort, EndpointSlice, Hint, Hints};
use crate::problem::Reason;

mod read;

pub use read::{Endpoints, ReadEndpoint};

/// Slices of headless Services bear it; they have no datapath.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// The label that names an EndpointSlice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Sets of hints that are compared before one more is kept: slices have few.
const ALIKE: usize = 8;

/// The relevant part of an EndpointSlice. It does not depend on the viewer, so that the
/// object cache and the planner share one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SliceState {
    /// The Service's name; `None` if it belongs to no Service.
    service: Option<Box<str>>,
    /// `None` if no Service here uses it: it contains names, or is headless.
    family: Option<Family>,
    pub(crate) ports: Box<[PortState]>,
    pub(crate) endpoints: Box<[EndpointState]>,
    hints: Box<[HintSet]>,
    /// The parts that are left out; usually none.
    bad: Option<Box<SliceProblems>>,
}

/// Parts of a slice that are ignored.
#[derive(Debug, Default, PartialEq, Eq)]
struct SliceProblems {
    /// Endpoints at impossible addresses.
    endpoints: Vec<Box<str>>,
    /// Ports without a number by which endpoints could be reached.
    ports: Vec<(Box<str>, Protocol)>,
    /// The first invalid number, by its port's name.
    number: Option<Box<str>>,
}

/// A port by which Services and slices find each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortState {
    pub(crate) name: Box<str>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointState {
    pub(crate) address: Address,
    node: Option<NameHash>,
    /// Whatever does not depend on who looks at it.
    state: State,
    /// The index of its hints in the slice, from 1 on; 0: it has none.
    hints: u16,
}

/// An endpoint of a slice, for parts that read endpoints without planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// The address at which it is reached.
    pub address: IpAddr,
    /// The node on which it runs.
    pub node: Option<NameHash>,
    /// Whether it is ready; unknown counts as yes.
    pub is_ready: bool,
    /// Whether it serves, though it may be about to end; unknown counts as yes, as
    /// kube-proxy has it.
    pub is_serving: bool,
}

/// The zones and nodes that should use endpoints; sorted, each once.
#[derive(Debug, PartialEq, Eq)]
struct HintSet {
    zones: Box<[NameHash]>,
    nodes: Box<[NameHash]>,
}

/// The name of a node or zone, of which is only asked whether it is this one: its
/// hash, since there are as many as endpoints. That two of 5 000 nodes have one is
/// less likely than one in a billion clusters, and both would be near then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameHash(NonZeroU64);

/// The state of an endpoint, as bits. The order is that of preference if several slices
/// contain one endpoint: a pod that is not terminating before a terminating one that had
/// the same address, then readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State(u8);

// === impl SliceState ===

impl SliceState {
    /// Converts an EndpointSlice's parts; `label` returns its labels.
    #[must_use]
    pub fn new<'a>(
        label: impl Fn(&str) -> Option<&'a str>,
        address_type: &str,
        endpoints: &Endpoints,
        ports: &[EndpointPort],
    ) -> Self {
        let service = label(SERVICE_NAME).map(Into::into);
        let family = match address_type {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            _ => return Self::default(),
        };
        if label(HEADLESS).is_some() {
            return Self::default();
        }
        let mut state = Self {
            service,
            family: Some(family),
            ..Self::default()
        };
        state.read_ports(ports);
        state.read_endpoints(endpoints, family);
        state
    }

    fn read_ports(&mut self, given: &[EndpointPort]) {
        let mut ports = Vec::with_capacity(given.len());
        for port in given {
            let (name, protocol) = (port.name.as_deref(), port.protocol.as_deref());
            // Without a number it is for those who know theirs.
            let state = port
                .port
                .and_then(|number| PortState::new(name, protocol, number));
            if let Some(state) = state {
                ports.push(state);
                continue;
            }
            let bad = self.bad.get_or_insert_default();
            if let Some(protocol) = parse_protocol(protocol) {
                bad.ports.push((name.unwrap_or_default().into(), protocol));
            }
            if let Some(number) = port.port {
                let named = name.filter(|name| !name.is_empty()).map(Into::into);
                let text = named.unwrap_or_else(|| number.to_string().into());
                bad.number.get_or_insert(text);
            }
        }
        self.ports = ports.into();
    }

    fn read_endpoints(&mut self, given: &Endpoints, family: Family) {
        let mut hints: Vec<HintSet> = Vec::new();
        let mut endpoints = Vec::with_capacity(given.0.len());
        for endpoint in given.iter() {
            // The API says that only the first counts; without any there is
            // nothing to complain of either.
            let Some(address) = endpoint.first_address() else {
                continue;
            };
            match address {
                Ok(address) if Family::for_address(address) == family && is_unicast(address) => {
                    endpoints.push(EndpointState {
                        address: Address::from(address),
                        node: endpoint.node_name,
                        state: State::of(endpoint.conditions),
                        hints: number(&mut hints, endpoint.hints.as_ref()),
                    });
                }
                Ok(address) => self.leave_out(address.to_string().into()),
                Err(text) => self.leave_out(text.into()),
            }
        }
        self.endpoints = endpoints.into();
        self.hints = hints.into();
    }

    fn leave_out(&mut self, text: Box<str>) {
        let bad = self.bad.get_or_insert_default();
        bad.endpoints.push(text);
    }

    /// The Service's name; none if no Service here uses the slice.
    #[must_use]
    pub fn service(&self) -> Option<&str> {
        self.family.and(self.service.as_deref())
    }

    /// Returns the endpoints' valid port numbers.
    pub fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.ports.iter().map(|it| it.port)
    }

    /// The endpoints' ports: name, protocol and number.
    pub fn named_ports(&self) -> impl Iterator<Item = (&str, Protocol, u16)> {
        self.ports
            .iter()
            .map(|it| (&*it.name, it.protocol, it.port))
    }

    /// All endpoints.
    pub fn listed_endpoints(&self) -> impl Iterator<Item = SliceEndpoint> + '_ {
        self.endpoints.iter().map(|it| SliceEndpoint {
            address: it.address.into(),
            node: it.node,
            is_ready: it.state.is_ready(),
            is_serving: it.state.is_serving(),
        })
    }

    /// Whether no endpoint and no port of the slice was left out.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.family.is_some() && self.bad.is_none()
    }

    pub(crate) fn is_of(&self, family: Family) -> bool {
        self.family == Some(family)
    }

    /// Returns the state of an endpoint, seen from a node.
    pub(crate) fn seen(&self, endpoint: &EndpointState, view: &View) -> State {
        let place = usize::from(endpoint.hints).checked_sub(1);
        let hints = place.and_then(|place| self.hints.get(place));
        let zones = hints.map(|hints| &*hints.zones).unwrap_or_default();
        let nodes = hints.map(|hints| &*hints.nodes).unwrap_or_default();
        let among = |ours: Option<NameHash>, names: &[NameHash]| {
            ours.is_some_and(|it| names.binary_search(&it).is_ok())
        };
        let is_local = endpoint.node.is_some() && endpoint.node == view.node;
        endpoint
            .state
            .with(!zones.is_empty(), State::ZONE_HINTED)
            .with(among(view.zone, zones), State::ZONE_HINTED_HERE)
            .with(!nodes.is_empty(), State::NODE_HINTED)
            .with(among(view.node, nodes), State::NODE_HINTED_HERE)
            .with(is_local, State::LOCAL)
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = Reason> {
        let bad = self.bad.as_deref();
        let endpoints = bad.map(|bad| bad.endpoints.as_slice()).unwrap_or_default();
        let endpoints = endpoints.first().map(|first| Reason::BadEndpoints {
            count: endpoints.len(),
            example: first.clone(),
        });
        let port = bad.and_then(|bad| bad.number.as_ref());
        let port = port.map(|port| Reason::BadPort { port: port.clone() });
        endpoints.into_iter().chain(port)
    }

    /// Endpoints that are left out, as the slice names them.
    pub(crate) fn bad_endpoints(&self) -> impl Iterator<Item = &str> {
        let bad = self.bad.iter().flat_map(|bad| &bad.endpoints);
        bad.map(|text| &**text)
    }

    /// Returns whether it has this port without a valid number.
    pub(crate) fn has_bad_port(&self, port: &PortState) -> bool {
        let mut bad = self.bad.iter().flat_map(|bad| &bad.ports);
        bad.any(|(name, protocol)| *name == port.name && *protocol == port.protocol)
    }
}

impl From<&EndpointSlice> for SliceState {
    fn from(slice: &EndpointSlice) -> Self {
        let labels = &slice.metadata.labels;
        Self::new(
            |label| labels.get(label).map(String::as_str),
            &slice.address_type,
            &slice.endpoints.iter().collect(),
            &slice.ports,
        )
    }
}

impl From<&EndpointSlice> for Arc<SliceState> {
    fn from(slice: &EndpointSlice) -> Self {
        Self::new(slice.into())
    }
}

/// Returns the index of an endpoint's hints among those of its slice.
fn number(known: &mut Vec<HintSet>, hints: Option<&Hints>) -> u16 {
    let names = |hints: &[Hint]| {
        let hashes = hints.iter().map(|hint| NameHash::hash(&hint.name));
        let mut names: Vec<NameHash> = hashes.collect();
        names.sort_unstable();
        names.dedup();
        names.into()
    };
    let Some(hints) = hints else { return 0 };
    let set = HintSet {
        zones: names(&hints.for_zones),
        nodes: names(&hints.for_nodes),
    };
    if set.zones.is_empty() && set.nodes.is_empty() {
        return 0;
    }
    let alike = known.iter().rev().take(ALIKE).position(|it| *it == set);
    let place = alike.map_or(known.len(), |back| known.len() - 1 - back);
    // With more sets than indexes, no hints apply, which is always correct, if less
    // local.
    let Ok(number) = u16::try_from(place + 1) else {
        return 0;
    };
    if alike.is_none() {
        known.push(set);
    }
    number
}

// === impl NameHash ===

impl NameHash {
    /// Returns the hash of a name.
    #[must_use]
    pub fn hash(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns `None` for an empty name.
    pub(crate) fn of_any(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::hash(text))
    }
}

// === impl PortState ===

impl PortState {
    pub(crate) fn new(name: Option<&str>, protocol: Option<&str>, port: i64) -> Option<Self> {
        Some(Self {
            name: name.unwrap_or_default().into(),
            protocol: parse_protocol(protocol)?,
            port: parse_port(port)?,
        })
    }

    pub(crate) fn serves(&self, other: &Self) -> bool {
        self.name == other.name && self.protocol == other.protocol
    }
}

pub(crate) fn parse_port(port: i64) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port != 0)
}

/// Reads a protocol as the API writes it; absent means TCP.
#[must_use]
pub fn parse_protocol(protocol: Option<&str>) -> Option<Protocol> {
    match protocol.unwrap_or("TCP") {
        "TCP" => Some(Protocol::TCP),
        "UDP" => Some(Protocol::UDP),
        "SCTP" => Some(Protocol::SCTP),
        _ => None,
    }
}

// === impl State ===

impl State {
    const ZONE_HINTED: u8 = 1;
    const ZONE_HINTED_HERE: u8 = 1 << 1;
    const NODE_HINTED: u8 = 1 << 2;
    const NODE_HINTED_HERE: u8 = 1 << 3;
    const LOCAL: u8 = 1 << 4;
    const SERVING: u8 = 1 << 5;
    const READY: u8 = 1 << 6;
    const NOT_TERMINATING: u8 = 1 << 7;

    fn of(conditions: Conditions) -> Self {
        let Conditions {
            ready,
            serving,
            terminating,
        } = conditions;
        Self(0)
            .with(ready.unwrap_or(true), Self::READY)
            .with(serving.unwrap_or(true), Self::SERVING)
            .with(!terminating.unwrap_or(false), Self::NOT_TERMINATING)
    }

    const fn with(self, is: bool, bit: u8) -> Self {
        if is { Self(self.0 | bit) } else { self }
    }

    pub(crate) const fn is_ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    pub(crate) const fn is_serving(self) -> bool {
        self.0 & Self::SERVING != 0
    }

    pub(crate) const fn is_terminating(self) -> bool {
        self.0 & Self::NOT_TERMINATING == 0
    }

    /// Returns whether it may serve while no other is ready (KEP-1669).
    pub(crate) const fn may_step_in(self) -> bool {
        self.is_serving() && self.is_terminating()
    }

    pub(crate) const fn is_local(self) -> bool {
        self.0 & Self::LOCAL != 0
    }

    pub(crate) const fn has_node_hints(self) -> bool {
        self.0 & Self::NODE_HINTED != 0
    }

    pub(crate) const fn is_hinted_here(self) -> bool {
        self.0 & Self::NODE_HINTED_HERE != 0
    }

    pub(crate) const fn has_zone_hints(self) -> bool {
        self.0 & Self::ZONE_HINTED != 0
    }

    pub(crate) const fn is_hinted_to_zone(self) -> bool {
        self.0 & Self::ZONE_HINTED_HERE != 0
    }
}
