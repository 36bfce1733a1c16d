//! Sockets whose service has no backend.
//!
//! They are connected to [nowhere]: to a port of their own namespace's loopback address
//! at which nobody listens. So their owners get `ECONNREFUSED` for what they send, as
//! from a node that rejects packets for a service without backends, and the sockets stay
//! theirs. As soon as the service has a backend, they are connected to it again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ebpf_abi::{Address, Port};

use super::returned_backends::CurrentServices;
use super::{BackendOrigin, UdpSocket, named, owner};

/// How often services are looked at, as long as there is such a socket.
const PAUSE: Duration = Duration::from_millis(200);
/// How often sockets are looked for, whatever services have, so that those that were
/// closed are forgotten. This walks through the descriptors of all processes.
const PRUNE: Duration = Duration::from_secs(60);

/// The port of `tcpmux` (RFC 1078), which no program serves over UDP. Port 0 would not do: an
/// IPv6 socket that is connected to it sends nothing to IPv4 addresses.
const UNUSED_PORT: Port = Port::new(1);

/// Sockets whose reconnection is pending.
#[derive(Debug, Default)]
pub(super) struct WaitingSockets {
    sockets: BTreeMap<u64, (UdpSocket, BackendOrigin)>,
    /// Those that could not be connected though their service has a backend. They are tried
    /// again only when sockets are pruned: their owner, a pod, decides how long that goes on.
    refused: BTreeSet<u64>,
    due: Option<Instant>,
    prune: Option<Instant>,
}

/// What sockets of a way are connected to meanwhile.
pub(super) fn nowhere(family: u8, way: &BackendOrigin) -> SocketAddr {
    let address = if way.front.0.is_v4() {
        Address::v4([127, 0, 0, 1])
    } else {
        Address::v6(std::net::Ipv6Addr::LOCALHOST.octets())
    };
    named(family, (address, UNUSED_PORT))
}

// === impl Waiting ===

impl WaitingSockets {
    /// These wait from now on.
    pub(super) fn add(&mut self, sockets: Vec<(UdpSocket, BackendOrigin)>, now: Instant) {
        let sockets = sockets.into_iter().map(|it| (it.0.cookie, it));
        self.sockets.extend(sockets);
        if !self.sockets.is_empty() {
            self.due.get_or_insert(now + PAUSE);
            self.prune.get_or_insert(now + PRUNE);
        }
    }

    /// When to look at services next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Connects those whose services have backends; returns how many were.
    pub(super) fn connect(&mut self, services: &CurrentServices, now: Instant) -> usize {
        let may_connect = |(cookie, (_, way)): (&u64, &(UdpSocket, BackendOrigin))| {
            !self.refused.contains(cookie) && services.serves(way.service)
        };
        let mut connected = 0;
        if self.sockets.iter().any(may_connect) || self.prune.is_some_and(|at| at <= now) {
            let wanted = self.sockets.values();
            let wanted = wanted.map(|(it, _)| (it.inode, it.cookie)).collect();
            let (mut left, mut refused) = (BTreeMap::new(), BTreeSet::new());
            owner::copies(wanted, &mut |cookie, copy| {
                let Some((known, way)) = self.sockets.get(&cookie) else {
                    return;
                };
                // Its owner may have connected it to somewhere else.
                let peer = rustix::net::getpeername(&copy).ok().flatten();
                let peer = peer.and_then(|it| SocketAddr::try_from(it).ok());
                if peer != Some(nowhere(known.family, way)) {
                    return;
                }
                let front = named(known.family, way.front);
                let is_served = services.serves(way.service);
                if is_served && rustix::net::connect(&copy, &front).is_ok() {
                    connected += 1;
                    return;
                }
                left.insert(cookie, (*known, *way));
                if is_served {
                    refused.insert(cookie);
                }
            });
            self.sockets = left;
            self.refused = refused;
            self.prune = Some(now + PRUNE);
        }
        let is_waiting = !self.sockets.is_empty();
        self.due = is_waiting.then(|| now + PAUSE);
        self.prune = self.prune.filter(|_| is_waiting);
        connected
    }
}
