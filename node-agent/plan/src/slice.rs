//! The part of an EndpointSlice that matters here, checked and small: a
//! cluster's endpoints are all kept.

use std::net::IpAddr;

use ebpf_abi::{Address, Protocol};
use rustc_hash::FxHashMap;

use crate::compile::{Family, is_unicast};
use crate::objects::{Conditions, Endpoint, EndpointSlice};
use crate::problem::Reason;

/// Slices of headless Services bear it; they have no datapath.
const HEADLESS: &str = "service.kubernetes.io/headless";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceState {
    pub(crate) family: Family,
    pub(crate) ports: Box<[PortState]>,
    pub(crate) endpoints: Box<[EndpointState]>,
    /// What is wrong with it; mostly nothing.
    bad: Option<Box<Bad>>,
}

/// What of a slice is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bad {
    /// Endpoints at impossible addresses: how many, and one of them.
    endpoints: Option<(usize, Box<str>)>,
    /// The first port that is none.
    port: Option<Box<str>>,
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
    pub(crate) state: State,
    pub(crate) zones: ZoneHints,
}

/// What is said of an endpoint, as bits. The order is that of preference where
/// several slices say something of one endpoint: a pod that goes on before one
/// that ends and had the same address, then what is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State(u8);

/// Which zones should use an endpoint: a number of [`Zones`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ZoneHints(u16);

/// Sets of zones that hints name, by number: a cluster has few.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    zone: Option<Box<str>>,
    numbers: FxHashMap<Box<[Box<str>]>, u16>,
    /// By number: is this node's zone among them?
    ours: Vec<bool>,
}

// === impl SliceState ===

impl SliceState {
    /// None for slices that no Service here uses.
    pub(crate) fn of(slice: &EndpointSlice, node: &str, zones: &mut Zones) -> Option<Self> {
        let family = match slice.address_type.as_str() {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            _ => return None,
        };
        if slice.metadata.labels.contains_key(HEADLESS) {
            return None;
        }
        let mut bad: Option<Box<Bad>> = None;
        let mut ports = Vec::with_capacity(slice.ports.len());
        for port in &slice.ports {
            // Without a number it is for those who know theirs.
            let Some(number) = port.port else { continue };
            let (name, protocol) = (port.name.as_deref(), port.protocol.as_deref());
            if let Some(state) = PortState::new(name, protocol, number) {
                ports.push(state);
            } else {
                let named = name.filter(|name| !name.is_empty()).map(Into::into);
                let text = named.unwrap_or_else(|| number.to_string().into());
                bad.get_or_insert_default().port.get_or_insert(text);
            }
        }
        let mut endpoints = Vec::with_capacity(slice.endpoints.len());
        for endpoint in &slice.endpoints {
            // The API says that only the first counts; without any there is
            // nothing to complain of either.
            let Some(text) = endpoint.addresses.first() else {
                continue;
            };
            if let Some(address) = address(text, family) {
                endpoints.push(EndpointState {
                    address: Address::from(address),
                    state: State::of(endpoint, node),
                    zones: zones.number(endpoint),
                });
            } else {
                let bad = bad.get_or_insert_default();
                let first = || (0, text.as_str().into());
                bad.endpoints.get_or_insert_with(first).0 += 1;
            }
        }
        Some(Self {
            family,
            ports: ports.into(),
            endpoints: endpoints.into(),
            bad,
        })
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = Reason> {
        let bad = self.bad.as_deref();
        let endpoints = bad.and_then(|bad| bad.endpoints.as_ref());
        let endpoints = endpoints.map(|(count, example)| Reason::BadEndpoints {
            count: *count,
            example: example.clone(),
        });
        let port = bad.and_then(|bad| bad.port.as_ref());
        let port = port.map(|port| Reason::BadPort { port: port.clone() });
        endpoints.into_iter().chain(port)
    }
}

/// An endpoint's address, if it can be one in a slice of this family.
pub(crate) fn address(text: &str, family: Family) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    (Family::of(address) == family && is_unicast(address)).then_some(address)
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

pub(crate) fn parse_protocol(protocol: Option<&str>) -> Option<Protocol> {
    match protocol.unwrap_or("TCP") {
        "TCP" => Some(Protocol::TCP),
        "UDP" => Some(Protocol::UDP),
        "SCTP" => Some(Protocol::SCTP),
        _ => None,
    }
}

// === impl State ===

impl State {
    const NODE_HINTED: u8 = 1;
    const NODE_HINTED_HERE: u8 = 1 << 1;
    const LOCAL: u8 = 1 << 2;
    const SERVING: u8 = 1 << 3;
    const READY: u8 = 1 << 4;
    const NOT_TERMINATING: u8 = 1 << 5;

    fn of(endpoint: &Endpoint, node: &str) -> Self {
        let Conditions {
            ready,
            serving,
            terminating,
        } = endpoint.conditions;
        let hints = endpoint
            .hints
            .as_ref()
            .map(|hints| hints.for_nodes.as_slice())
            .unwrap_or_default();
        let bits = [
            (ready.unwrap_or(true), Self::READY),
            (serving.unwrap_or(true), Self::SERVING),
            (!terminating.unwrap_or(false), Self::NOT_TERMINATING),
            (
                !node.is_empty() && endpoint.node_name.as_deref() == Some(node),
                Self::LOCAL,
            ),
            (!hints.is_empty(), Self::NODE_HINTED),
            (
                hints.iter().any(|hint| hint.name == node),
                Self::NODE_HINTED_HERE,
            ),
        ];
        Self(
            bits.into_iter()
                .filter(|(is, _)| *is)
                .fold(0, |all, (_, bit)| all | bit),
        )
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

    /// May it serve while no other is ready (KEP-1669)?
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
}

// === impl Zones ===

impl ZoneHints {
    /// No zone is named.
    pub(crate) const NONE: Self = Self(0);
}

impl Zones {
    pub(crate) fn new(zone: Option<&str>) -> Self {
        Self {
            zone: zone.map(Into::into),
            ..Self::default()
        }
    }

    /// The node is in another zone than before; true if that is so.
    pub(crate) fn move_to(&mut self, zone: Option<&str>) -> bool {
        if self.zone.as_deref() == zone {
            return false;
        }
        self.zone = zone.map(Into::into);
        for (names, number) in &self.numbers {
            if let Some(ours) = self.ours.get_mut(usize::from(*number) - 1) {
                *ours = names.iter().any(|name| Some(&**name) == zone);
            }
        }
        true
    }

    fn number(&mut self, endpoint: &Endpoint) -> ZoneHints {
        let hints = endpoint
            .hints
            .as_ref()
            .map(|hints| hints.for_zones.as_slice())
            .unwrap_or_default();
        if hints.is_empty() {
            return ZoneHints::NONE;
        }
        let mut names: Vec<Box<str>> = hints.iter().map(|hint| hint.name.as_str().into()).collect();
        names.sort_unstable();
        names.dedup();
        if let Some(number) = self.numbers.get(names.as_slice()) {
            return ZoneHints(*number);
        }
        // More sets than numbers: as if nothing were hinted, which is always
        // right, if less near.
        let Ok(number) = u16::try_from(self.ours.len() + 1) else {
            return ZoneHints::NONE;
        };
        self.ours.push(
            names
                .iter()
                .any(|name| Some(&**name) == self.zone.as_deref()),
        );
        self.numbers.insert(names.into(), number);
        ZoneHints(number)
    }

    /// Should nodes of this node's zone use it?
    pub(crate) fn is_ours(&self, hints: ZoneHints) -> bool {
        usize::from(hints.0)
            .checked_sub(1)
            .and_then(|place| self.ours.get(place))
            .copied()
            .unwrap_or_default()
    }
}
