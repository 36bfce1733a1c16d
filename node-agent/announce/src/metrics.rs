//! Metrics of announcing.

use std::net::IpAddr;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
enum IpFamily {
    Ipv4,
    Ipv6,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByFamily {
    family: IpFamily,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPeer {
    peer: String,
}

/// Counters of announcements. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    answers: Family<ByFamily, Counter>,
    announcements: Family<ByFamily, Counter>,
    conflicts: Family<ByFamily, Counter>,
    held: Gauge,
    missed: Counter,
    established: Family<ByPeer, Gauge>,
    routes: Family<ByPeer, Gauge>,
    updates: Family<ByPeer, Counter>,
    losses: Family<ByPeer, Counter>,
}

impl Metrics {
    /// Shows them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("orlop_announce");
        registry.register(
            "answers",
            "ARP and NDP requests answered",
            self.answers.clone(),
        );
        registry.register(
            "announcements",
            "Announcements by ARP and NDP that nobody asked for",
            self.announcements.clone(),
        );
        registry.register(
            "conflicts",
            "Claims of others to an address that this node answers for",
            self.conflicts.clone(),
        );
        registry.register(
            "addresses",
            "Addresses that this node answers for",
            self.held.clone(),
        );
        registry.register(
            "missed_renewals",
            "Times that this node could not say that it lives",
            self.missed.clone(),
        );
        registry.register(
            "bgp_session_up",
            "Whether a session is established",
            self.established.clone(),
        );
        registry.register("bgp_routes", "Routes told to a peer", self.routes.clone());
        registry.register(
            "bgp_updates",
            "Updates sent to a peer",
            self.updates.clone(),
        );
        registry.register(
            "bgp_session_losses",
            "Sessions that ended",
            self.losses.clone(),
        );
    }

    pub(crate) fn answered(&self, address: IpAddr) {
        self.answers.get_or_create(&of(address)).inc();
    }

    pub(crate) fn announced(&self, address: IpAddr) {
        self.announcements.get_or_create(&of(address)).inc();
    }

    pub(crate) fn conflict(&self, address: IpAddr) {
        self.conflicts.get_or_create(&of(address)).inc();
    }

    pub(crate) fn holds(&self, count: usize) {
        self.held.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn missed_renewal(&self) {
        self.missed.inc();
    }

    pub(crate) fn session(&self, peer: &str, up: bool) {
        let was = self.established.get_or_create(&by(peer)).set(i64::from(up));
        if was == 1 && !up {
            self.losses.get_or_create(&by(peer)).inc();
        }
    }

    pub(crate) fn record_update(&self, peer: &str, routes: usize, updates: usize) {
        let routes = i64::try_from(routes).unwrap_or(i64::MAX);
        self.routes.get_or_create(&by(peer)).set(routes);
        self.updates.get_or_create(&by(peer)).inc_by(updates as u64);
    }

    pub(crate) fn forget(&self, peer: &str) {
        let by = by(peer);
        self.established.remove(&by);
        self.routes.remove(&by);
        self.updates.remove(&by);
        self.losses.remove(&by);
    }
}

const fn of(address: IpAddr) -> ByFamily {
    let family = match address {
        IpAddr::V4(_) => IpFamily::Ipv4,
        IpAddr::V6(_) => IpFamily::Ipv6,
    };
    ByFamily { family }
}

fn by(peer: &str) -> ByPeer {
    let peer = peer.to_owned();
    ByPeer { peer }
}
