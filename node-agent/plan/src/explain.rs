//! Explains why an endpoint is used, or is not.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use ebpf_abi::Protocol;

use crate::compile::{
    Candidate, Family, MOST_BACKENDS, Preference, UnusedReason, View, candidates,
};
use crate::service::ServiceState;
use crate::slice::{PortState, SliceState};

/// An endpoint of a Service's port, and whether this node uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExplainedEndpoint {
    /// The port's name, empty if it has none.
    pub port: Box<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// The family of the endpoint's slice.
    pub family: Family,
    /// The location of the endpoint.
    pub endpoint: EndpointPlace,
    /// For clients that may use all endpoints; `None` if there are none.
    pub cluster: Option<EndpointUse>,
    /// For clients that may use only those of this node; `None` if no policy is `Local`.
    pub local: Option<EndpointUse>,
}

/// The location of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointPlace {
    /// At an address.
    Socket(SocketAddr),
    /// As the slice says, since it cannot be.
    Text(Box<str>),
}

/// Whether an endpoint is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointUse {
    /// Yes.
    InForce,
    /// No: others go first, or it may not serve.
    Not(UnusedReason),
    /// Not used: the Service has no cluster IP of its family.
    WrongFamily,
    /// No: no endpoint can be at its address.
    BadAddress,
    /// Not used: its slice has no port of this name and protocol.
    NoSuchPort,
    /// No: the port that its slice names is none.
    BadPort,
    /// No: there are more endpoints than are supported.
    TooMany,
}

/// Explains each endpoint of each port of a Service, seen from `node` in a zone; sorted.
/// Empty if the Service has no datapath here (headless, ExternalName, another proxy's).
#[must_use]
pub fn explain(
    node: &str,
    zone: Option<&str>,
    state: &ServiceState,
    slices: &[&SliceState],
) -> Vec<ExplainedEndpoint> {
    if state.nothing().is_some() {
        return Vec::new();
    }
    let view = View::new(node, zone);
    let external = state.ports.iter().any(|port| port.node_port.is_some())
        || state.addresses.len() > state.families().count();
    let uses_cluster = !state.internal_local || external;
    let uses_local = state.internal_local || (state.external_local && external);
    let mut explained = Vec::new();
    for port in state.ports.iter().map(|port| &port.port) {
        for family in [Family::V4, Family::V6] {
            let mut add = |endpoint: EndpointPlace, cluster: EndpointUse, local: EndpointUse| {
                explained.push(ExplainedEndpoint {
                    port: port.name.clone(),
                    protocol: port.protocol,
                    family,
                    endpoint,
                    cluster: uses_cluster.then_some(cluster),
                    local: uses_local.then_some(local),
                });
            };
            for (place, why) in misfits(port, family, slices) {
                add(place, why, why);
            }
            let found = candidates(port, family, slices.iter().copied(), &view);
            if !state.families().any(|it| it == family) {
                for it in &found {
                    add(
                        EndpointPlace::of(it),
                        EndpointUse::WrongFamily,
                        EndpointUse::WrongFamily,
                    );
                }
                continue;
            }
            let preference = Preference::from_candidates(&found);
            let (mut used, mut used_locally) = (0, 0);
            for it in &found {
                let cluster = EndpointUse::of(preference.unused(it), &mut used);
                let local = EndpointUse::of(preference.unused_locally(it), &mut used_locally);
                add(EndpointPlace::of(it), cluster, local);
            }
        }
    }
    explained.sort();
    explained.dedup();
    explained
}

/// Endpoints that do not even come to be chosen from.
fn misfits(
    port: &PortState,
    family: Family,
    slices: &[&SliceState],
) -> Vec<(EndpointPlace, EndpointUse)> {
    let mut misfits = Vec::new();
    for slice in slices.iter().filter(|slice| slice.is_of(family)) {
        let bad = slice.bad_endpoints();
        misfits.extend(bad.map(|text| (EndpointPlace::Text(text.into()), EndpointUse::BadAddress)));
        if slice.ports.iter().any(|other| other.serves(port)) {
            continue;
        }
        let why = if slice.has_bad_port(port) {
            EndpointUse::BadPort
        } else {
            EndpointUse::NoSuchPort
        };
        let endpoints = slice.endpoints.iter();
        misfits
            .extend(endpoints.map(|it| (EndpointPlace::Text(it.address.to_string().into()), why)));
    }
    misfits
}

// === impl Place ===

impl EndpointPlace {
    fn of(it: &Candidate) -> Self {
        Self::Socket(SocketAddr::new(it.address.into(), it.port))
    }
}

impl Display for EndpointPlace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => Display::fmt(socket, f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

// === impl Use ===

impl EndpointUse {
    fn of(unused: Option<UnusedReason>, used: &mut usize) -> Self {
        match unused {
            Some(why) => Self::Not(why),
            None if *used >= MOST_BACKENDS => Self::TooMany,
            None => {
                *used += 1;
                Self::InForce
            }
        }
    }
}

impl Display for EndpointUse {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InForce => "in force",
            Self::Not(UnusedReason::NotReady) => "not ready",
            Self::Not(UnusedReason::Terminating) => "terminating, and others are ready",
            Self::Not(UnusedReason::OtherNode) => "hints give it to other nodes",
            Self::Not(UnusedReason::OtherZone) => "hints give it to other zones",
            Self::Not(UnusedReason::NotLocal) => "on another node, and the traffic policy is Local",
            Self::WrongFamily => "the Service has no cluster IP of its family",
            Self::BadAddress => "no endpoint can be at this address",
            Self::NoSuchPort => "its slice has no port of this name and protocol",
            Self::BadPort => "the port that its slice names is none",
            Self::TooMany => "more endpoints than are supported",
        })
    }
}
