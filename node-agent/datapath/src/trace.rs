//! What would become of a connection: the very decisions of the programs
//! (`ebpf_logic`), walked here over the pinned maps, with every look at a map.
//!
//! Nothing is written: neither maps nor sockets nor packets.

use std::cell::RefCell;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ebpf_abi::{Address, Counter, FlowFlags, Port, Protocol, Tuple};
use ebpf_logic::model::{Frame, ModelSocket};
use ebpf_logic::packet::{Origin, PacketVerdict, Work, decide, parse};
use ebpf_logic::{Family, SocketVerdict as Call, connect, send};
use serde::Serialize;

use crate::error::Error;
use crate::pins::version_dir;

mod frame;
mod live;
mod route;

use live::Live;
pub use route::Route;

/// A port of a client that names none.
const EXAMPLE_PORT: u16 = 40_000;

/// The client and destination to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The client.
    pub client: IpAddr,
    /// Its port, where that is known.
    pub client_port: Option<u16>,
    /// What it asks for.
    pub asked: SocketAddr,
    /// TCP, UDP or SCTP.
    pub protocol: Protocol,
    /// Where it is; worked out from its address if that is not said.
    pub from: Option<ClientLocation>,
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientLocation {
    /// In a pod of this node.
    Pod,
    /// In this node's own namespace.
    Host,
    /// On another machine, be it in a pod.
    Outside,
}

/// The predicted path of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The protocol.
    pub protocol: String,
    /// The client.
    pub client: SocketAddr,
    /// The client's port is an example.
    pub example_port: bool,
    /// What it asks for.
    pub asked: SocketAddr,
    /// Where it is.
    pub from: ClientLocation,
    /// Which programs look at it, in their order.
    pub walks: Vec<ProgramWalk>,
}

/// One program's path to its decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramWalk {
    /// Of a socket's call, or of a packet.
    pub path: PathKind,
    /// Where the program stands.
    pub hook: &'static str,
    /// What it looked up, in order.
    pub looks: Vec<MapRead>,
    /// What it decides.
    pub decision: Decision,
    /// The set of endpoints that it chose from, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Who gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<SocketAddr>,
    /// How that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen_by: Option<EndpointChoice>,
    /// As whom the endpoint sees the client, if not as itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown_as: Option<SocketAddr>,
    /// What is counted, as metrics have it.
    pub counted: Vec<&'static str>,
    /// The error that the call gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// The endpoint answers the client directly.
    pub direct: bool,
    /// Where this node sends it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
}

/// One lookup in a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MapRead {
    /// The map, by its name.
    pub map: &'static str,
    /// What was asked.
    pub key: String,
    /// What is there; none: nothing.
    pub found: Option<String>,
}

/// Of what a program decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PathKind {
    /// A call of a socket.
    Socket,
    /// A packet.
    Packet,
}

/// The decision of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// It goes on as it is.
    Pass,
    /// It goes to the endpoint.
    Translate,
    /// It goes to the endpoint, sent there by the program itself.
    Forward,
    /// It goes to the endpoint in an outer header.
    Encapsulate,
    /// It goes to the endpoint's node as it is, in another frame.
    Link,
    /// The client is told that nobody serves.
    Refuse,
    /// It is dropped.
    Drop,
}

/// How an endpoint is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EndpointChoice {
    /// Anew for each connection: the one shown is an example.
    Random,
    /// By the socket, for all its datagrams: the one shown is an example.
    Socket,
    /// By addresses, ports and this node's seed.
    Hash,
    /// By consistent hashing, alike on all nodes.
    Maglev,
    /// The client was there before (`sessionAffinity`).
    Affinity,
    /// The connection is there already.
    Flow,
}

/// Walks the decisions over the maps pinned there.
///
/// # Errors
///
/// [`Error::NotPinned`], [`Error::Map`], [`Error::Routes`]; [`Error::Families`].
pub fn trace(pin_dir: &Path, question: &Question) -> Result<Trace, Error> {
    let live = Live::open(&version_dir(pin_dir))?;
    let client: Address = question.client.into();
    let from = question.from.unwrap_or_else(|| {
        if question.client.is_loopback() || live.is_own(client) {
            ClientLocation::Host
        } else if live.is_of_pods(client) {
            ClientLocation::Pod
        } else {
            ClientLocation::Outside
        }
    });
    let client = SocketAddr::new(
        question.client,
        question.client_port.unwrap_or(EXAMPLE_PORT),
    );
    let mut walks = Vec::new();
    if from != ClientLocation::Outside && question.protocol != Protocol::SCTP {
        walks.push(call(&live, question, from)?);
    }
    // What a socket's program translated carries the endpoint's address. Pods may
    // have packets that no socket of this kernel made.
    let translated = walks
        .first()
        .is_some_and(|walk| walk.decision != Decision::Pass);
    if from == ClientLocation::Pod || !translated {
        walks.push(packet(&live, question, client, from)?);
    }
    Ok(Trace {
        protocol: question.protocol.to_string(),
        client,
        example_port: question.client_port.is_none(),
        asked: question.asked,
        from,
        walks,
    })
}

/// `connect(2)`, or `sendmsg(2)` where there is no connection.
fn call(live: &Live, question: &Question, from: ClientLocation) -> Result<ProgramWalk, Error> {
    live.begin();
    let asked = question.asked;
    let family = if asked.is_ipv4() {
        Family::V4
    } else {
        Family::V6
    };
    let host = live.node_config().map_or(0, |config| config.host_namespace);
    let mut socket = ModelSocket {
        // No other namespace has this one.
        namespace: if from == ClientLocation::Host {
            host
        } else {
            0
        },
        ..ModelSocket::new(
            family,
            question.protocol,
            asked.ip().into(),
            Port::new(asked.port()),
        )
    };
    let datagram = question.protocol == Protocol::UDP;
    let verdict = if datagram {
        send(live, &mut socket)
    } else {
        connect(live, &mut socket)
    };
    let (decision, errno) = match verdict {
        Call::Pass => (Decision::Pass, None),
        Call::Translated => (Decision::Translate, None),
        Call::Refuse(why) => (Decision::Refuse, Some(why.errno())),
    };
    let mut walk = ProgramWalk::of(live, PathKind::Socket, decision);
    walk.hook = if datagram { "sendmsg" } else { "connect" };
    walk.errno = errno;
    if decision == Decision::Translate {
        let endpoint = SocketAddr::new(socket.peer.address.into(), socket.peer.port.get());
        walk.endpoint = Some(endpoint);
        walk.chosen_by = live.how.get().or(Some(EndpointChoice::Socket));
        walk.route = to(endpoint.ip())?;
    }
    live.end()?;
    Ok(walk)
}

/// The first packet, where it is seen first.
fn packet(
    live: &Live,
    question: &Question,
    client: SocketAddr,
    from: ClientLocation,
) -> Result<ProgramWalk, Error> {
    live.begin();
    let Some(bytes) = frame::opening(client, question.asked, question.protocol) else {
        return Err(Error::Families {
            client: question.client,
            asked: question.asked.ip(),
        });
    };
    let bytes = RefCell::new(bytes);
    let (origin, hook) = match from {
        ClientLocation::Outside => (Origin::Device, "tc ingress, and XDP before it"),
        ClientLocation::Pod => (Origin::Pod, "tc ingress of the pod's device"),
        ClientLocation::Host => (Origin::Host, "tc egress"),
    };
    let mut work = Work::new();
    let kind = parse(Frame(&bytes), &mut work);
    let verdict = decide(live, kind, origin, &mut work);
    let decision = match verdict {
        PacketVerdict::Pass | PacketVerdict::Unknown => Decision::Pass,
        PacketVerdict::Translate => Decision::Translate,
        PacketVerdict::Forward | PacketVerdict::TranslateError => Decision::Forward,
        PacketVerdict::Drop => Decision::Drop,
        PacketVerdict::Refuse => Decision::Refuse,
        PacketVerdict::Encapsulate => Decision::Encapsulate,
        PacketVerdict::Link => Decision::Link,
    };
    let mut walk = ProgramWalk::of(live, PathKind::Packet, decision);
    walk.hook = hook;
    match decision {
        Decision::Pass => {}
        Decision::Drop => walk.count(work.counter),
        Decision::Refuse => walk.count(Counter::PacketRefused),
        Decision::Translate | Decision::Forward | Decision::Encapsulate | Decision::Link => {
            walk.count(work.counter);
            let flow = work.entry.flow.open(&work.headers.tuple);
            if walk.set.is_none() {
                walk.set = flow.map(|flow| live.name(flow.set));
            }
            let Tuple {
                source,
                source_port,
                destination,
                destination_port,
                ..
            } = work.to;
            let endpoint = SocketAddr::new(destination.into(), destination_port.get());
            let shown = SocketAddr::new(source.into(), source_port.get());
            walk.endpoint = Some(endpoint);
            walk.chosen_by = live.how.get();
            walk.direct = flow.is_some_and(|flow| flow.flags.contains(FlowFlags::DIRECT));
            walk.shown_as = (shown != client && !walk.direct).then_some(shown);
            walk.route = to(endpoint.ip())?;
        }
    }
    live.end()?;
    Ok(walk)
}

fn to(address: IpAddr) -> Result<Option<Route>, Error> {
    route::to(address).map_err(|source| Error::Routes { source })
}

// === impl Walk ===

impl ProgramWalk {
    fn of(live: &Live, path: PathKind, decision: Decision) -> Self {
        let decided = decision != Decision::Pass;
        Self {
            path,
            hook: "",
            looks: live.looks.borrow().clone(),
            decision,
            set: live.set.get().filter(|_| decided).map(|set| live.name(set)),
            endpoint: None,
            chosen_by: None,
            shown_as: None,
            counted: live.counted.borrow().iter().map(|it| it.label()).collect(),
            errno: None,
            direct: false,
            route: None,
        }
    }

    fn count(&mut self, counter: Counter) {
        if !self.counted.contains(&counter.label()) {
            self.counted.push(counter.label());
        }
    }
}

// === impl Display ===

impl Display for ClientLocation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "in a pod of this node",
            Self::Host => "in this node's own namespace",
            Self::Outside => "on another machine",
        })
    }
}

impl Display for EndpointChoice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "at random, anew for each connection: this is an example",
            Self::Socket => "by the socket, for all its datagrams: this is an example",
            Self::Hash => "by addresses, ports and this node's seed",
            Self::Maglev => "by consistent hashing, alike on all nodes",
            Self::Affinity => "by affinity: the client was there before",
            Self::Flow => "when the connection began, which is there already",
        })
    }
}

impl Display for Trace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            protocol,
            client,
            asked,
            from,
            ..
        } = self;
        write!(f, "{protocol} {client} to {asked}; the client is {from}")?;
        if self.example_port && self.walks.iter().any(|walk| walk.path == PathKind::Packet) {
            write!(f, ", and its port an example")?;
        }
        writeln!(f)?;
        for (number, walk) in self.walks.iter().enumerate() {
            match walk.path {
                PathKind::Socket => writeln!(f, "the socket's call ({})", walk.hook)?,
                PathKind::Packet if number > 0 && self.from == ClientLocation::Pod => {
                    writeln!(f, "packets that no socket here made ({})", walk.hook)?;
                }
                PathKind::Packet => writeln!(f, "the packet ({})", walk.hook)?,
            }
            Display::fmt(walk, f)?;
        }
        Ok(())
    }
}

impl Display for ProgramWalk {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for look in &self.looks {
            let found = look.found.as_deref().unwrap_or("nothing");
            writeln!(f, "  {:<8} {}: {found}", look.map, look.key)?;
        }
        let counted = self.counted.join(", ");
        match self.decision {
            Decision::Pass => writeln!(f, "  it goes on as it is")?,
            Decision::Drop => writeln!(f, "  DROPPED: {counted}")?,
            Decision::Refuse => {
                write!(f, "  REFUSED: {counted}")?;
                if let Some(errno) = self.errno {
                    write!(f, " ({})", std::io::Error::from_raw_os_error(errno))?;
                }
                writeln!(f)?;
            }
            Decision::Translate | Decision::Forward | Decision::Encapsulate | Decision::Link => {}
        }
        if let Some(endpoint) = self.endpoint {
            write!(f, "  it goes to {endpoint}")?;
            if let Some(set) = &self.set {
                write!(f, " of {set}")?;
            }
            writeln!(f)?;
            if let Some(how) = self.chosen_by {
                writeln!(f, "  chosen {how}")?;
            }
            match self.shown_as {
                Some(shown) => writeln!(f, "  the client is shown as {shown}")?,
                None if self.path == PathKind::Packet => {
                    writeln!(f, "  the client is shown as it is")?;
                }
                None => {}
            }
            if self.direct {
                writeln!(f, "  the endpoint answers the client directly")?;
            }
            match (&self.route, self.decision) {
                (Some(route), Decision::Forward | Decision::Encapsulate | Decision::Link) => {
                    writeln!(f, "  the program sends it {route}")?;
                }
                (Some(route), _) => writeln!(f, "  the kernel sends it {route}")?,
                (None, _) => writeln!(f, "  NO ROUTE leads there from this node")?,
            }
        }
        Ok(())
    }
}
