//! The socket hooks: a connection is translated once, when it is made, and
//! costs nothing afterwards.

use ebpf_abi::{
    Address, AffinityKey, Backend, ChecksummedValue, ConfigFlags, Counter, Hook, NodeFlags,
    Original, OriginalKey, Port, Protocol, ServiceEntryKinds, ServiceFlags, ServiceKey,
};

use crate::found_backend::FoundBackend;
use crate::lookup::{ATTEMPTS, Admission, Choice, LookupClient, choose};
use crate::maps::{Entropy, Maps};

/// Family of the address that a hook may rewrite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// `AF_INET`.
    V4,
    /// `AF_INET6`, mapped IPv4 addresses included.
    V6,
}

/// The other side, as the socket names it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub struct Peer {
    /// Its address.
    pub address: Address,
    /// Its port.
    pub port: Port,
}

/// A socket in one of the hooks.
pub trait Socket {
    /// Returns the family of the address in this call.
    fn family(&self) -> Family;
    /// The socket's protocol.
    fn protocol(&self) -> Protocol;
    /// The address in this call.
    fn peer(&self) -> Peer;
    /// Rewrites the address in this call. The address fits the family.
    fn set_peer(&mut self, peer: Peer);
    /// The socket's cookie.
    fn cookie(&self) -> u64;
    /// The cookie of the socket's network namespace.
    fn namespace(&self) -> u64;
}

/// The verdict on a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketVerdict {
    /// It continues unchanged.
    Pass,
    /// It continues with another address.
    Translated,
    /// It fails.
    Refuse(Refusal),
}

/// The reason why a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The service has no usable endpoint.
    NoEndpoint,
    /// The traffic policy is `Local`, and this node has no endpoint.
    NoLocalEndpoint,
    /// The service changed faster than it could be read.
    Unstable,
    /// The backend's family is not the socket's.
    Family,
    /// A datagram's reply could not be shown as the service's.
    NotStored,
    /// The port is a node port.
    NodePort,
}

// === impl Refusal ===

impl Refusal {
    /// Returns the counter of this refusal.
    #[inline(always)]
    #[must_use]
    pub const fn counter(self) -> Counter {
        match self {
            Self::NoEndpoint => Counter::RefusedNoEndpoint,
            Self::NoLocalEndpoint => Counter::RefusedNoLocalEndpoint,
            Self::Unstable => Counter::RefusedUnstable,
            Self::Family => Counter::RefusedFamily,
            Self::NotStored => Counter::OriginalNotStored,
            Self::NodePort => Counter::RefusedBind,
        }
    }

    /// The error number that the caller sees. A service without endpoints is
    /// `ECONNREFUSED`, as a closed port would be (kube-proxy answers with TCP
    /// reset or ICMP port unreachable, which sockets report so too).
    #[inline(always)]
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::NoEndpoint | Self::NoLocalEndpoint => ECONNREFUSED,
            Self::Unstable | Self::Family => EHOSTUNREACH,
            Self::NotStored => ENOBUFS,
            Self::NodePort => EADDRINUSE,
        }
    }
}

const EADDRINUSE: i32 = 98;
const ENOBUFS: i32 = 105;
const ECONNREFUSED: i32 = 111;
const EHOSTUNREACH: i32 = 113;

/// `connect(2)`: replaces a service's address by a backend's.
#[inline(always)]
pub fn connect<M: Maps + Entropy, S: Socket>(maps: &M, socket: &mut S) -> SocketVerdict {
    let verdict = translate(maps, socket, Hook::Connect);
    if verdict == SocketVerdict::Translated {
        maps.count(Counter::ConnectTranslated);
    }
    verdict
}

/// `sendmsg(2)` with a destination, of an unconnected socket.
#[inline(always)]
pub fn send<M: Maps + Entropy, S: Socket>(maps: &M, socket: &mut S) -> SocketVerdict {
    let verdict = translate(maps, socket, Hook::SendMsg);
    if verdict == SocketVerdict::Translated {
        maps.count(Counter::SendTranslated);
    }
    verdict
}

/// `recvmsg(2)`: shows the service as the source of a backend's datagram.
#[inline(always)]
pub fn receive<M: Maps, S: Socket>(maps: &M, socket: &mut S) {
    if restore(maps, socket) {
        maps.count(Counter::ReceiveTranslated);
    }
}

/// `getpeername(2)`: shows the service to which the socket connected.
#[inline(always)]
pub fn peer_name<M: Maps, S: Socket>(maps: &M, socket: &mut S) {
    if restore(maps, socket) {
        maps.count(Counter::PeerTranslated);
    }
}

#[inline(always)]
fn translate<M: Maps + Entropy, S: Socket>(maps: &M, socket: &mut S, hook: Hook) -> SocketVerdict {
    let asked = socket.peer();
    let protocol = socket.protocol();
    let mut key = ServiceKey::internal(asked.address, asked.port, protocol);
    let mut found = FoundBackend::NOTHING;
    let choice = choose::<ATTEMPTS, _, _>(maps, &mut key, &Process { maps, socket }, &mut found);
    let backend = match choice {
        // Nothing is translated for pods if that is left to their devices.
        choice if choice != Choice::NoService && is_left_out(maps, socket) => {
            return SocketVerdict::Pass;
        }
        Choice::Backend => found.backend,
        Choice::NoService => {
            // A socket that was connected to a service through this very
            // backend and now addresses it directly is to see it as it is.
            if hook == Hook::Connect && protocol == Protocol::UDP {
                maps.forget(&OriginalKey::new(
                    socket.cookie(),
                    asked.address,
                    asked.port,
                    protocol,
                ));
            }
            return SocketVerdict::Pass;
        }
        // Its packets show the client's address.
        Choice::Undecided => return SocketVerdict::Pass,
        Choice::NoEndpoint => return refuse(maps, &key, Refusal::NoEndpoint),
        Choice::NoLocalEndpoint | Choice::Silent | Choice::NotAdmitted => {
            return refuse(maps, &key, Refusal::NoLocalEndpoint);
        }
        Choice::Unstable => return refuse(maps, &key, Refusal::Unstable),
    };
    if !fits(socket.family(), asked.address, &backend) {
        return refuse(maps, &key, Refusal::Family);
    }
    let original = OriginalKey::new(socket.cookie(), backend.address, backend.port, protocol);
    let value = Original::new(asked.address, asked.port);
    if !maps.remember(&original, &ChecksummedValue::new(&original, value)) {
        // A connected socket works all the same; an unconnected one would
        // take the reply for a stranger's.
        if hook == Hook::SendMsg {
            return refuse(maps, &key, Refusal::NotStored);
        }
        report(maps, &key, Counter::OriginalNotStored);
    }
    socket.set_peer(Peer {
        address: backend.address,
        port: backend.port,
    });
    SocketVerdict::Translated
}

/// A process that calls.
struct Process<'a, M, S> {
    maps: &'a M,
    socket: &'a S,
}

impl<M: Maps + Entropy, S: Socket> LookupClient for Process<'_, M, S> {
    /// Returns the number that selects a backend. Each stream connection is spread
    /// separately. The datagrams of one socket stay together, as with connection
    /// tracking.
    #[inline(always)]
    fn spread(&self) -> u32 {
        if self.socket.protocol() == Protocol::UDP {
            mix(self.socket.cookie())
        } else {
            self.maps.random()
        }
    }

    #[inline(always)]
    fn client(&self, set: u32) -> AffinityKey {
        AffinityKey::of_namespace(self.socket.namespace(), set)
    }

    #[inline(always)]
    fn admission(&self, _set: u32) -> Admission {
        Admission::Unknown
    }

    #[inline(always)]
    fn is_outside(&self) -> bool {
        false
    }

    #[inline(always)]
    fn is_host(&self) -> bool {
        // Before user space has told, no process is known to be the node's.
        self.maps
            .config()
            .is_some_and(|config| config.host_namespace == self.socket.namespace())
    }

    #[inline(always)]
    fn hash(&self, _client_alone: bool) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn chosen(&self) -> Option<Address> {
        None
    }
}

/// Returns whether the socket's calls are left to the packet programs.
#[inline(always)]
fn is_left_out<M: Maps, S: Socket>(maps: &M, socket: &S) -> bool {
    maps.switches().contains(ConfigFlags::HOST_SOCKETS_ONLY)
        && maps
            .config()
            .is_some_and(|config| config.host_namespace != socket.namespace())
}

/// `bind(2)`: a node port's number is refused to processes of the node, whose
/// clients would never reach them.
#[inline(always)]
pub fn bind<M: Maps, S: Socket>(maps: &M, socket: &S) -> SocketVerdict {
    let asked = socket.peer();
    let served = maps.served(socket.protocol(), asked.port);
    if asked.port.get() == 0 || !served.contains(ServiceEntryKinds::NODE) {
        return SocketVerdict::Pass;
    }
    let Some(config) = maps.config() else {
        return SocketVerdict::Pass;
    };
    if config.flags.contains(ConfigFlags::NO_BIND_PROTECTION)
        || config.host_namespace != socket.namespace()
    {
        return SocketVerdict::Pass;
    }
    let any = asked.address == asked.address.wildcard();
    let serves = |flags: NodeFlags| flags.contains(NodeFlags::PORTS);
    if !any && !maps.node(&asked.address).is_some_and(serves) {
        return SocketVerdict::Pass;
    }
    // A socket at `::` accepts IPv4, too, unless it is configured otherwise later.
    let key = |address| ServiceKey::internal(address, asked.port, socket.protocol());
    let own = key(asked.address.wildcard());
    if is_node_port(maps, &own) {
        return refuse(maps, &own, Refusal::NodePort);
    }
    let v4 = key(Address::UNSPECIFIED_V4);
    if any && is_node_port(maps, &v4) {
        return refuse(maps, &v4, Refusal::NodePort);
    }
    SocketVerdict::Pass
}

#[inline(always)]
fn is_node_port<M: Maps>(maps: &M, key: &ServiceKey) -> bool {
    maps.service(key)
        .and_then(|sealed| sealed.open(key))
        .is_some_and(|service| service.flags.contains(ServiceFlags::NODE_PORT))
}

#[inline(always)]
fn restore<M: Maps, S: Socket>(maps: &M, socket: &mut S) -> bool {
    let seen = socket.peer();
    let key = OriginalKey::new(socket.cookie(), seen.address, seen.port, socket.protocol());
    let Some(original) = maps.original(&key).and_then(|sealed| sealed.open(&key)) else {
        return false;
    };
    if socket.family() == Family::V4 && !original.address.is_v4() {
        return false;
    }
    socket.set_peer(Peer {
        address: original.address,
        port: original.port,
    });
    true
}

/// Returns whether the socket's call can carry the backend's address. A mapped address
/// stays mapped: the socket sends IPv4.
#[inline(always)]
fn fits(family: Family, asked: Address, backend: &Backend) -> bool {
    asked.is_v4() == backend.address.is_v4() && (family == Family::V6 || backend.address.is_v4())
}

#[inline(always)]
fn refuse<M: Maps>(maps: &M, key: &ServiceKey, refusal: Refusal) -> SocketVerdict {
    report(maps, key, refusal.counter());
    SocketVerdict::Refuse(refusal)
}

#[inline(always)]
fn report<M: Maps>(maps: &M, key: &ServiceKey, what: Counter) {
    maps.count(what);
    maps.tell(what, key);
}

/// Spreads cookies, which the kernel counts up, over all of `u32`.
#[inline(always)]
fn mix(cookie: u64) -> u32 {
    let mut state = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state ^= state >> 32;
    state = state.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (state >> 32) as u32
}

#[cfg(test)]
mod tests;
