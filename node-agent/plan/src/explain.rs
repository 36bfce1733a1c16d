//! Why an endpoint is used, or is not.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use ebpf_abi::Protocol;

use crate::compile::{Candidate, Family, MOST_BACKENDS, Preference, Unused, View, candidates};
use crate::service::ServiceState;
use crate::slice::{PortState, SliceState};

/// An endpoint of a Service's port, and whether this node uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Explained {
    /// The port's name, empty if it has none.
    pub port: Box<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// The family of the endpoint's slice.
    pub family: Family,
    /// Where the endpoint is.
    pub endpoint: Place,
    /// For clients who may use all endpoints; none if nobody may.
    pub cluster: Option<Use>,
    /// For clients who may use those of this node only; none if no policy is
    /// `Local`.
    pub local: Option<Use>,
}

/// Where an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// At an address.
    Socket(SocketAddr),
    /// As the slice says, since it cannot be.
    Text(Box<str>),
}

/// Is an endpoint used?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Yes.
    InForce,
    /// No: others go first, or it may not serve.
    Not(Unused),
    /// No: the Service has no cluster IP of its family.
    WrongFamily,
    /// No: no endpoint can be at its address.
    BadAddress,
    /// No: its slice has no port of this name and protocol.
    NoSuchPort,
    /// No: the port that its slice names is none.
    BadPort,
    /// No: there are more endpoints than are supported.
    TooMany,
}

/// Explains each endpoint of each port of a Service, seen from `node` in a
/// zone; sorted. Nothing if the Service has no datapath here (headless,
/// ExternalName, another proxy's).
#[must_use]
pub fn explain(
    node: &str,
    zone: Option<&str>,
    state: &ServiceState,
    slices: &[&SliceState],
) -> Vec<Explained> {
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
            let mut add = |endpoint: Place, cluster: Use, local: Use| {
                explained.push(Explained {
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
                    add(Place::of(it), Use::WrongFamily, Use::WrongFamily);
                }
                continue;
            }
            let preference = Preference::of(&found);
            let (mut used, mut used_locally) = (0, 0);
            for it in &found {
                let cluster = Use::of(preference.unused(it), &mut used);
                let local = Use::of(preference.unused_locally(it), &mut used_locally);
                add(Place::of(it), cluster, local);
            }
        }
    }
    explained.sort();
    explained.dedup();
    explained
}

/// Endpoints that do not even come to be chosen from.
fn misfits(port: &PortState, family: Family, slices: &[&SliceState]) -> Vec<(Place, Use)> {
    let mut misfits = Vec::new();
    for slice in slices.iter().filter(|slice| slice.is_of(family)) {
        let bad = slice.bad_endpoints();
        misfits.extend(bad.map(|text| (Place::Text(text.into()), Use::BadAddress)));
        if slice.ports.iter().any(|other| other.serves(port)) {
            continue;
        }
        let why = if slice.has_bad_port(port) {
            Use::BadPort
        } else {
            Use::NoSuchPort
        };
        let endpoints = slice.endpoints.iter();
        misfits.extend(endpoints.map(|it| (Place::Text(it.address.to_string().into()), why)));
    }
    misfits
}

// === impl Place ===

impl Place {
    fn of(it: &Candidate) -> Self {
        Self::Socket(SocketAddr::new(it.address.into(), it.port))
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => Display::fmt(socket, f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

// === impl Use ===

impl Use {
    fn of(unused: Option<Unused>, used: &mut usize) -> Self {
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

impl Display for Use {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InForce => "in force",
            Self::Not(Unused::NotReady) => "not ready",
            Self::Not(Unused::Terminating) => "terminating, and others are ready",
            Self::Not(Unused::OtherNode) => "hints give it to other nodes",
            Self::Not(Unused::OtherZone) => "hints give it to other zones",
            Self::Not(Unused::NotLocal) => "on another node, and the traffic policy is Local",
            Self::WrongFamily => "the Service has no cluster IP of its family",
            Self::BadAddress => "no endpoint can be at this address",
            Self::NoSuchPort => "its slice has no port of this name and protocol",
            Self::BadPort => "the port that its slice names is none",
            Self::TooMany => "more endpoints than are supported",
        })
    }
}
