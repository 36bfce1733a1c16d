//! Reconnects connected UDP sockets whose backend is gone to another backend.
//!
//! A connected UDP socket was translated once, when it was connected, and
//! would send to its backend for ever. So a [copy](owner) of its descriptor is
//! connected to the service once more, and the socket hooks choose a backend that
//! is there. Its owner notices nothing: local address and port stay, and who waits
//! for an answer goes on waiting.
//!
//! Where there is no backend, it [waits] for one, and its owner's datagrams are refused.
//! A socket that is found in no process is disconnected by `SOCK_DESTROY` (sock_diag(7)):
//! who waits for an answer gets `ECONNABORTED`, who sends `EDESTADDRREQ`, upon which
//! clients reconnect. TCP connections are left alone: they drain, or time out.
//!
//! [waits]: waiting
//!
//! Which sockets: those of this node's network namespaces that are connected
//! to exactly this backend, and of which `ORIGINALS` says that they came
//! through the service. Who connected to the backend itself stays.
//!
//! They are looked for at once in the namespaces that are at hand, and in all by a walk
//! through processes, of which one serves all backends that go within some time
//! ([`pending`]): nobody is forgotten before.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ebpf_abi::{Address, ChecksummedValue, Original, OriginalKey, Port, Protocol, maps};
use rustix::net::netlink::SOCK_DIAG;
use tracing::debug;

use crate::error::Error;
use crate::namespaces::{NamespaceSelection, Namespaces};
use crate::netlink::{ACK, DUMP, Socket, word};
use crate::pins::version_dir;
use crate::table::Table;

mod owner;
mod pending_removals;
mod returned_backends;
mod waiting_sockets;

use pending_removals::PendingRemovals;
use returned_backends::CurrentServices;
use waiting_sockets::{WaitingSockets, nowhere};

/// Kinds of messages (`linux/sock_diag.h`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const UDP: u8 = 17;
/// A connected UDP socket is "established" (`TCP_ESTABLISHED`).
const CONNECTED: u32 = 1 << 1;

/// Places in `struct inet_diag_msg` (`linux/inet_diag.h`): 4 bytes, then the
/// socket's identity of 48 bytes.
const ID: usize = 4;
const ID_LEN: usize = 48;
const DESTINATION_PORT: usize = ID + 2;
const DESTINATION: usize = ID + 4 + 16;
const COOKIE: usize = ID + 4 + 16 + 16 + 4;
/// After expiry, two queues and the user.
const INODE: usize = ID + ID_LEN + 16;

/// A UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UdpSocket {
    family: u8,
    /// The kernel's `struct inet_diag_sockid`, as it came.
    id: [u8; ID_LEN],
    /// Its cookie, as programs see it.
    pub(crate) cookie: u64,
    /// To where it is connected; nowhere with port 0.
    pub(crate) peer: (Address, Port),
    /// Its number in the file system of sockets, by which its owner is found.
    inode: u32,
}

/// How a socket was assigned its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BackendOrigin {
    /// The service's address to which it was connected.
    front: (Address, Port),
    /// Under which the service is known: for all addresses of the node, if it is one.
    service: (Address, Port),
    /// Whether the service has another backend.
    serves: bool,
}

/// Returns how a socket, given by its cookie and peer, was assigned that peer; `None` unless by
/// a Service.
type OriginLookup<'a> = dyn Fn(u64, (Address, Port)) -> Option<BackendOrigin> + Sync + 'a;

/// The result of a walk through the namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveSummary {
    /// Namespaces that were looked into.
    pub namespaces: usize,
    /// Sockets that were connected to one of the backends.
    pub found: usize,
    /// Those of them that were connected to another backend.
    pub reconnected: usize,
    /// Those of them whose service has no other: they wait for one.
    pub waiting: usize,
    /// Those of them that were destroyed.
    pub destroyed: usize,
}

/// Finds and moves sockets, beside the process that writes the maps: it
/// takes milliseconds, for which no change of a service is to wait.
#[derive(Debug)]
pub struct Mover {
    directory: PathBuf,
    originals: Table<OriginalKey, ChecksummedValue<Original>>,
    namespaces: Namespaces,
    pending: PendingRemovals<Move>,
    waiting: WaitingSockets,
}

/// Backends that a Service no longer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// What clients of the service address; the unspecified address stands for
    /// all of the node's.
    pub fronts: Vec<SocketAddr>,
    /// The backends that are gone.
    pub backends: Vec<SocketAddr>,
}

// === impl Mover ===

impl Mover {
    /// Opens the map that says which socket came through which service.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`], [`Error::Map`].
    pub fn open(pin_dir: &Path) -> Result<Self, Error> {
        let directory = version_dir(pin_dir);
        Ok(Self {
            originals: Table::open(&directory, maps::ORIGINALS)?,
            directory,
            namespaces: Namespaces::default(),
            pending: PendingRemovals::default(),
            waiting: WaitingSockets::default(),
        })
    }

    /// Connects the UDP sockets to other backends, in all network namespaces of this
    /// machine, that were connected through the services to the backends that are gone;
    /// destroys those of them for which that cannot be. Those that were connected to a backend itself, or through another
    /// service, stay.
    ///
    /// Those that live in a namespace that is not known yet, or are being connected
    /// now, are found later, and those whose service has no other backend are connected
    /// when it has one: call this again, with nothing more, when that is
    /// [due](Self::due). A backend that is back by then is left alone.
    ///
    /// # Errors
    ///
    /// [`Error::Sockets`] when sockets cannot be listed; they are not looked for again.
    pub fn run(&mut self, moves: &[Move], now: Instant) -> Result<MoveSummary, Error> {
        self.pending.add(moves, now);
        let mut moved = MoveSummary::default();
        if let Some(which) = self.pending.look(now) {
            let done = self.move_sockets(which, now);
            match done {
                Ok(_) => self.pending.looked(which, now),
                Err(_) => self.pending = PendingRemovals::default(),
            }
            moved = done?;
        }
        if self.waiting.due().is_some_and(|due| due <= now) {
            let services = CurrentServices::open(&self.directory)?;
            moved.reconnected += self.waiting.connect(&services, now);
        }
        Ok(moved)
    }

    /// When sockets are to be looked for again, if any are.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let both = self.pending.due().into_iter().chain(self.waiting.due());
        both.min()
    }

    fn move_sockets(
        &mut self,
        which: NamespaceSelection,
        now: Instant,
    ) -> Result<MoveSummary, Error> {
        let (mut moves, again) = self.pending.all();
        let services = CurrentServices::open(&self.directory)?;
        moves.extend(services.without(&again)?);
        let mut fronts: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for it in moves {
            for backend in it.backends.iter().copied().map(place) {
                let fronts = fronts.entry(backend).or_default();
                fronts.extend(it.fronts.iter().copied().map(place));
            }
        }
        let places = fronts.keys().copied().collect();
        let originals = &self.originals;
        let way = |cookie, backend: (Address, Port)| {
            let key = OriginalKey::new(cookie, backend.0, backend.1, Protocol::UDP);
            let original = originals.get(&key).ok()??.open(&key)?;
            let front = (original.address, original.port);
            let any = (original.address.wildcard(), original.port);
            let known = fronts.get(&backend)?;
            let service = [front, any].into_iter().find(|it| known.contains(it))?;
            Some(BackendOrigin {
                front,
                service,
                serves: services.serves(service),
            })
        };
        let mut waiting = Vec::new();
        let done = move_each(&mut self.namespaces, which, &places, &way, &mut waiting);
        self.waiting.add(waiting, now);
        done.map_err(|source| Error::Sockets { source })
    }
}

/// Moves the sockets connected to one of `backends` of which `way` knows, in these
/// network namespaces of this machine. `waiting` gets those without a backend.
///
/// # Errors
///
/// What keeps this machine's sockets from being listed at all. Namespaces and
/// sockets that go away meanwhile are no error.
fn move_each(
    namespaces: &mut Namespaces,
    which: NamespaceSelection,
    backends: &BTreeSet<(Address, Port)>,
    way: &OriginLookup<'_>,
    waiting: &mut Vec<(UdpSocket, BackendOrigin)>,
) -> io::Result<MoveSummary> {
    if backends.is_empty() {
        return Ok(MoveSummary::default());
    }
    let mut moved = MoveSummary::default();
    let entered = namespaces.in_each(which, &mut || {
        in_namespace(backends, way, &mut moved, waiting)
    })?;
    moved.namespaces = entered;
    moved.waiting = waiting.len();
    Ok(moved)
}

/// All UDP sockets of this machine's namespaces: a walk.
///
/// # Errors
///
/// As [`move_each`].
pub(crate) fn all(namespaces: &mut Namespaces) -> io::Result<Vec<UdpSocket>> {
    let mut all = Vec::new();
    namespaces.in_each(NamespaceSelection::All, &mut || {
        let mut socket = Socket::open(Some(SOCK_DIAG))?;
        for family in [AF_INET, AF_INET6] {
            list(&mut socket, family, u32::MAX, &mut |found| all.push(found))?;
        }
        Ok(())
    })?;
    Ok(all)
}

fn in_namespace(
    backends: &BTreeSet<(Address, Port)>,
    way: &OriginLookup<'_>,
    moved: &mut MoveSummary,
    waiting: &mut Vec<(UdpSocket, BackendOrigin)>,
) -> io::Result<()> {
    let mut socket = Socket::open(Some(SOCK_DIAG))?;
    let mut found = Vec::new();
    for family in families(backends) {
        list(&mut socket, family, CONNECTED, &mut |it| {
            if backends.contains(&it.peer) {
                found.push(it);
            }
        })?;
    }
    moved.found += found.len();
    let ways = found.into_iter();
    let mut ways: BTreeMap<u64, (UdpSocket, BackendOrigin)> = ways
        .filter_map(|it| Some((it.cookie, (it, way(it.cookie, it.peer)?))))
        .collect();
    let wanted: BTreeMap<u32, u64> = ways.values().map(|(it, _)| (it.inode, it.cookie)).collect();
    if !wanted.is_empty() {
        owner::copies(wanted, &mut |cookie, copy| {
            let Some((known, way)) = ways.get(&cookie).copied() else {
                return;
            };
            let to = if way.serves {
                named(known.family, way.front)
            } else {
                nowhere(known.family, &way)
            };
            if let Err(error) = rustix::net::connect(&copy, &to) {
                debug!(%error, %to, "failed to reconnect a UDP socket");
                return;
            }
            ways.remove(&cookie);
            if way.serves {
                moved.reconnected += 1;
            } else {
                waiting.push((known, way));
            }
        });
    }
    for (connected, _) in ways.into_values() {
        let destroyed = socket.request(SOCK_DESTROY, ACK, &destruction(&connected), |_| {});
        match destroyed {
            Ok(()) => moved.destroyed += 1,
            // Its owner was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A place as a socket of a family names it.
fn named(family: u8, (address, port): (Address, Port)) -> SocketAddr {
    let ip = match IpAddr::from(address) {
        IpAddr::V4(ip) if family == AF_INET6 => IpAddr::V6(ip.to_ipv6_mapped()),
        ip => ip,
    };
    SocketAddr::new(ip, port.get())
}

/// Hands out the UDP sockets of a family, in some states, of the socket's namespace.
fn list(
    socket: &mut Socket,
    family: u8,
    states: u32,
    each: &mut dyn FnMut(UdpSocket),
) -> io::Result<()> {
    let listed = socket.request(SOCK_DIAG_BY_FAMILY, DUMP, &query(family, states), |body| {
        if let Some(found) = parse(body) {
            each(found);
        }
    });
    match listed {
        // A kernel without IPv6 has no such sockets.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// IPv6 sockets may be connected to IPv4 backends, but not the other way.
fn families(backends: &BTreeSet<(Address, Port)>) -> impl Iterator<Item = u8> {
    let v4 = backends.iter().any(|(address, _)| address.is_v4());
    [AF_INET, AF_INET6]
        .into_iter()
        .filter(move |family| *family == AF_INET6 || v4)
}

/// `struct inet_diag_req_v2`: all UDP sockets of a family that are in one of the states.
fn query(family: u8, states: u32) -> Vec<u8> {
    let mut body = vec![family, UDP, 0, 0];
    body.extend(states.to_ne_bytes());
    body.extend([0; ID_LEN]);
    body
}

/// The same, for one socket.
fn destruction(connected: &UdpSocket) -> Vec<u8> {
    let mut body = vec![connected.family, UDP, 0, 0];
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(connected.id);
    body
}

fn parse(body: &[u8]) -> Option<UdpSocket> {
    let family = *body.first()?;
    let id: [u8; ID_LEN] = body.get(ID..ID + ID_LEN)?.try_into().ok()?;
    let octets: [u8; 16] = body.get(DESTINATION..DESTINATION + 16)?.try_into().ok()?;
    let address = match family {
        AF_INET => {
            let [a, b, c, d, ..] = octets;
            Address::v4([a, b, c, d])
        }
        AF_INET6 => Address::v6(octets),
        _ => return None,
    };
    let port = body.get(DESTINATION_PORT..DESTINATION_PORT + 2)?;
    let port = Port(port.try_into().map(u16::from_ne_bytes).ok()?);
    let cookie = u64::from(word(body, COOKIE)?) | u64::from(word(body, COOKIE + 4)?) << 32;
    Some(UdpSocket {
        family,
        id,
        cookie,
        peer: (address, port),
        inode: word(body, INODE)?,
    })
}

/// A backend as sockets are compared with it.
#[must_use]
pub(crate) fn place(address: SocketAddr) -> (Address, Port) {
    let ip = match address.ip() {
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
        ip @ IpAddr::V4(_) => ip,
    };
    (Address::from(ip), Port::new(address.port()))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_message_of_the_kernel_is_understood() {
        let mut body = vec![AF_INET, 1, 0, 0];
        body.extend(4000_u16.to_be_bytes());
        body.extend(53_u16.to_be_bytes());
        body.extend([10, 0, 0, 1]);
        body.extend([0; 12]);
        body.extend([10, 0, 0, 2]);
        body.extend([0; 12]);
        body.extend(0_u32.to_ne_bytes());
        body.extend(7_u32.to_ne_bytes());
        body.extend(1_u32.to_ne_bytes());
        body.extend([0; 16]);
        body.extend(99_u32.to_ne_bytes());
        let parsed = parse(&body).unwrap();
        assert_eq!(parsed.inode, 99);
        assert_eq!(parsed.cookie, (1 << 32) | 7);
        assert_eq!(parsed.peer, place("10.0.0.2:53".parse().unwrap()));
        assert_eq!(parse(&body[..body.len() - 1]), None);
        body[0] = 1;
        assert_eq!(parse(&body), None);
    }

    #[test]
    fn only_the_accepted_sockets_to_the_backend_move_or_wait() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to destroy sockets");
            return;
        }
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let connect = |to: &UdpSocket| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(to.local_addr().unwrap()).unwrap();
            socket
        };
        let (gone, kept, elsewhere) = (connect(&server), connect(&server), connect(&other));
        let going = connect(&server);
        let front = place(other.local_addr().unwrap());
        let backends = BTreeSet::from([place(server.local_addr().unwrap())]);
        let cookie = |of: &UdpSocket| rustix::net::sockopt::socket_cookie(of).unwrap();
        let (waits, moves) = (cookie(&gone), cookie(&going));
        let mut namespaces = Namespaces::default();
        let mut run = |backends: &_, way: &OriginLookup<'_>| {
            let mut waiting = Vec::new();
            move_each(
                &mut namespaces,
                NamespaceSelection::AtHand,
                backends,
                way,
                &mut waiting,
            )
            .unwrap()
        };
        let moved = run(&backends, &|cookie, _| {
            let serves = cookie == moves;
            (serves || cookie == waits).then_some(BackendOrigin {
                front,
                service: front,
                serves,
            })
        });
        assert_eq!((moved.found, moved.reconnected), (3, 1));
        assert_eq!((moved.waiting, moved.destroyed), (1, 0));
        assert_eq!(going.peer_addr().unwrap(), other.local_addr().unwrap());
        let error = gone.send(b"?").and_then(|_| gone.send(b"?")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        kept.send(b"?").unwrap();
        elsewhere.send(b"?").unwrap();
        assert_eq!(run(&BTreeSet::new(), &|_, _| None), MoveSummary::default());
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        assert_eq!(
            place("[::ffff:10.0.0.2]:53".parse().unwrap()),
            place("10.0.0.2:53".parse().unwrap())
        );
    }
}
