//! The kernel's part of pods' interfaces: of a crowd, messages go to it together, and of
//! nothing is asked what is known beforehand.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use cni_addresses::{gateway, messages};
use netlink_packet_route::RouteNetlinkMessage;
use nix::{
    libc::EEXIST,
    net::if_::if_nametoindex,
    sched::{CloneFlags, setns},
};
use rtnetlink::{
    packet_core::{
        NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
        NetlinkPayload,
    },
    sys::{Socket, protocols::NETLINK_ROUTE},
};

/// Messages of one system call: the answers of all of them must find room in the socket.
const AT_ONCE: usize = 64;
/// Of a pair that nothing is said of, in bytes.
const USUAL_MTU: u32 = 1_500;

/// A hardware address.
pub type MacAddress = [u8; 6];

/// A veth pair to be created.
#[derive(Debug)]
pub struct VethPair {
    /// The name of the node's end.
    pub host: String,
    /// The name of the pod's end.
    pub pod: String,
    /// The pod's network namespace.
    pub netns: OwnedFd,
    /// In bytes; 0 leaves the kernel's default.
    pub mtu: u32,
    /// Of the node's end.
    pub host_mac: MacAddress,
    /// Of the pod's end.
    pub pod_mac: MacAddress,
    /// The pod's.
    pub addresses: Vec<IpAddr>,
}

/// A netlink request that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("netlink: cannot {what}")]
pub struct NetlinkFailure {
    what: String,
    source: io::Error,
}

// === impl Pair ===

impl VethPair {
    /// In bytes.
    pub const fn mtu(&self) -> u32 {
        match self.mtu {
            0 => USUAL_MTU,
            mtu => mtu,
        }
    }
}

/// Makes interfaces, whose nodes' ends are down, and sets the pods' ends up; the index of
/// each node's end. `pin_dir` is the datapath's, whose programs may be at interfaces of
/// these names that were left.
pub fn make(pin_dir: &Path, pairs: &[VethPair]) -> Vec<Result<u32, NetlinkFailure>> {
    let mut made = match pairs_made(pin_dir, pairs) {
        Ok(made) => made,
        Err(error) => return all_failed(pairs, "open a netlink socket", &error),
    };
    // Only a thread that ends afterwards enters other namespaces.
    let entered = std::thread::scope(|scope| {
        let work = || {
            let set_up = pairs.iter().zip(&made).map(|(pair, made)| match made {
                Ok(_) => pod_end(pair),
                // It is told of that.
                Err(_) => Ok(()),
            });
            set_up.collect::<Vec<_>>()
        };
        let named = std::thread::Builder::new().name("pods-ends".to_owned());
        named
            .spawn_scoped(scope, work)?
            .join()
            .map_err(|_| io::Error::other("the thread that enters pods' network namespaces failed"))
    });
    match entered {
        Ok(entered) => {
            for (made, entered) in made.iter_mut().zip(entered) {
                if let Err(error) = entered {
                    *made = Err(error);
                }
            }
            made
        }
        Err(error) => all_failed(pairs, "enter the pod's network namespace", &error),
    }
}

/// The route and neighbour entries that lead from the node to a pod.
#[derive(Debug)]
pub struct PodRoute {
    /// The index of the node's end.
    pub index: u32,
    /// The pod's hardware address.
    pub mac: MacAddress,
    /// The pod's addresses.
    pub addresses: Vec<IpAddr>,
}

/// Sets nodes' ends up, with neighbours and routes.
pub fn open(ways: &[PodRoute]) -> Vec<Result<(), NetlinkFailure>> {
    let mut asks = Vec::new();
    for (number, way) in ways.iter().enumerate() {
        asks.push((number, set_up(way.index)));
        for address in &way.addresses {
            asks.push((number, neighbour(way.index, *address, &way.mac)));
            asks.push((number, pod_route(way.index, *address)));
        }
    }
    let mut opened: Vec<_> = ways.iter().map(|_| Ok(())).collect();
    let (numbers, asks): (Vec<usize>, Vec<NetlinkRequest>) = asks.into_iter().unzip();
    let answers = NetlinkSocket::open().and_then(|mut netlink| netlink.all(&asks));
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) => return all_failed(ways, "set the node's end up", &error),
    };
    for ((number, ask), answer) in numbers.into_iter().zip(asks).zip(answers) {
        if let (Err(source), Some(opened)) = (answer, opened.get_mut(number))
            && opened.is_ok()
        {
            *opened = Err(ask.failed(source));
        }
    }
    opened
}

fn all_failed<A, T>(all: &[A], what: &str, error: &io::Error) -> Vec<Result<T, NetlinkFailure>> {
    let failed = |_| {
        Err(NetlinkFailure {
            what: what.to_owned(),
            source: io::Error::new(error.kind(), error.to_string()),
        })
    };
    all.iter().map(failed).collect()
}

/// Makes pairs, both ends down.
fn pairs_made(pin_dir: &Path, pairs: &[VethPair]) -> io::Result<Vec<Result<u32, NetlinkFailure>>> {
    let mut netlink = NetlinkSocket::open()?;
    let mut asks: BTreeMap<usize, NetlinkRequest> =
        pairs.iter().map(new_pair).enumerate().collect();
    let mut failures = BTreeMap::new();
    for again in [true, false] {
        let (numbers, messages): (Vec<usize>, Vec<NetlinkRequest>) =
            std::mem::take(&mut asks).into_iter().unzip();
        let answers = netlink.all(&messages)?;
        let mut left = BTreeSet::new();
        for ((number, ask), answer) in numbers.into_iter().zip(messages).zip(answers) {
            match (answer, pairs.get(number)) {
                (Err(error), Some(pair)) if again && error.raw_os_error() == Some(EEXIST) => {
                    left.insert(pair.host.clone());
                    asks.insert(number, ask);
                }
                (Err(error), _) => drop(failures.insert(number, ask.failed(error))),
                (Ok(()), _) => {}
            }
        }
        if asks.is_empty() {
            break;
        }
        // What an ADD that was killed half-way left. If it stays, that is told next.
        drop(node_agent_datapath::remove_devices(pin_dir, &left));
    }
    let made = pairs.iter().enumerate().map(|(number, pair)| {
        if let Some(failed) = failures.remove(&number) {
            return Err(failed);
        }
        if_nametoindex(pair.host.as_str()).map_err(|error| NetlinkFailure {
            what: format!("find the interface `{}`", pair.host),
            source: error.into(),
        })
    });
    Ok(made.collect())
}

/// Sets the pod's end up, in its namespace, in which this thread stays.
fn pod_end(pair: &VethPair) -> Result<(), NetlinkFailure> {
    let failed = |what: &str| {
        let what = what.to_owned();
        |source| NetlinkFailure { what, source }
    };
    let entered = setns(&pair.netns, CloneFlags::CLONE_NEWNET).map_err(io::Error::from);
    entered.map_err(failed("enter the pod's network namespace"))?;
    let index = if_nametoindex(pair.pod.as_str()).map_err(io::Error::from);
    let index = index.map_err(failed("find the pod's end"))?;
    let mut asks = vec![set_up(index)];
    for address in &pair.addresses {
        let gateway = gateway(address);
        asks.push(own_address(index, *address));
        asks.push(neighbour(index, gateway, &pair.host_mac));
        asks.push(default_route(index, gateway));
    }
    let answers = NetlinkSocket::open().and_then(|mut netlink| netlink.all(&asks));
    let answers = answers.map_err(failed("set the pod's end up"))?;
    for (ask, answer) in asks.into_iter().zip(answers) {
        answer.map_err(|error| ask.failed(error))?;
    }
    Ok(())
}

// === messages ===

/// A change requested from the kernel.
#[derive(Clone, Debug)]
struct NetlinkRequest {
    /// For people, should it fail.
    what: String,
    message: RouteNetlinkMessage,
    flags: u16,
}

impl NetlinkRequest {
    fn new(what: String, message: RouteNetlinkMessage, flags: u16) -> Self {
        Self {
            what,
            message,
            flags,
        }
    }

    fn failed(self, source: io::Error) -> NetlinkFailure {
        NetlinkFailure {
            what: self.what,
            source,
        }
    }
}

/// Made, or in the place of what is there.
const REPLACED: u16 = NLM_F_CREATE | NLM_F_REPLACE;

fn new_pair(pair: &VethPair) -> NetlinkRequest {
    let message = messages::pair(&messages::Pair {
        host: &pair.host,
        pod: &pair.pod,
        netns: pair.netns.as_fd(),
        mtu: pair.mtu,
        host_mac: Some(pair.host_mac),
        pod_mac: Some(pair.pod_mac),
        up: false,
    });
    NetlinkRequest::new(
        format!("create the veth pair `{}` – `{}`", pair.host, pair.pod),
        RouteNetlinkMessage::NewLink(message),
        NLM_F_CREATE | NLM_F_EXCL,
    )
}

fn set_up(index: u32) -> NetlinkRequest {
    let what = format!("set interface {index} up");
    NetlinkRequest::new(what, RouteNetlinkMessage::SetLink(messages::up(index)), 0)
}

fn own_address(index: u32, address: IpAddr) -> NetlinkRequest {
    let what = format!("add address {address}");
    let message = messages::own_address(index, address);
    NetlinkRequest::new(what, RouteNetlinkMessage::NewAddress(message), REPLACED)
}

fn neighbour(index: u32, address: IpAddr, mac: &MacAddress) -> NetlinkRequest {
    let what = format!("add the neighbour {address}");
    let message = messages::neighbour(index, address, mac);
    NetlinkRequest::new(what, RouteNetlinkMessage::NewNeighbour(message), REPLACED)
}

fn default_route(index: u32, gateway: IpAddr) -> NetlinkRequest {
    let what = format!("add the default route by {gateway}");
    let message = messages::default_route(index, gateway);
    NetlinkRequest::new(what, RouteNetlinkMessage::NewRoute(message), REPLACED)
}

fn pod_route(index: u32, address: IpAddr) -> NetlinkRequest {
    let what = format!("add the route to {address}");
    let message = messages::pod_route(index, address);
    NetlinkRequest::new(what, RouteNetlinkMessage::NewRoute(message), REPLACED)
}

// === the socket ===

/// A netlink socket of the namespace in which it was opened.
struct NetlinkSocket {
    socket: Socket,
    sequence: u32,
}

impl NetlinkSocket {
    fn open() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        // Answers without what was asked.
        socket.set_cap_ack(true)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Asks for all in turn, whatever becomes of those before; what became of each.
    fn all(&mut self, asks: &[NetlinkRequest]) -> io::Result<Vec<io::Result<()>>> {
        let mut answers = Vec::with_capacity(asks.len());
        for some in asks.chunks(AT_ONCE) {
            self.some(some, &mut answers)?;
        }
        Ok(answers)
    }

    fn some(
        &mut self,
        asks: &[NetlinkRequest],
        answers: &mut Vec<io::Result<()>>,
    ) -> io::Result<()> {
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        for ask in asks {
            self.sequence = self.sequence.wrapping_add(1);
            let mut message = NetlinkMessage::from(ask.message.clone());
            message.header.flags = NLM_F_REQUEST | NLM_F_ACK | ask.flags;
            message.header.sequence_number = self.sequence;
            message.finalize();
            let begin = bytes.len();
            bytes.resize(begin + message.buffer_len().next_multiple_of(4), 0);
            message.serialize(bytes.get_mut(begin..).unwrap_or_default());
        }
        self.socket.send(&bytes, 0)?;
        let mut told: Vec<Option<io::Result<()>>> = asks.iter().map(|_| None).collect();
        let mut missing = told.len();
        while missing > 0 {
            let (received, _) = self.socket.recv_from_full()?;
            let mut rest = received.as_slice();
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                let length = message.header.length as usize;
                rest = rest
                    .get(length.next_multiple_of(4).max(4)..)
                    .unwrap_or_default();
                let NetlinkPayload::Error(said) = message.payload else {
                    continue;
                };
                let place = message.header.sequence_number.wrapping_sub(first);
                if let Some(told @ None) = told.get_mut(place as usize) {
                    *told = Some(match said.code {
                        None => Ok(()),
                        Some(code) => Err(io::Error::from_raw_os_error(-code.get())),
                    });
                    missing -= 1;
                }
            }
        }
        answers.extend(told.into_iter().flatten());
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests;
