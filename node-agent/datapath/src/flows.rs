//! Connections of packets, as the programs track them, for people: listed, and
//! ended one by one.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ebpf_abi::{Address, Flow, FlowEntry, FlowFlags, Life, Port, Protocol, Timeouts, Tuple, maps};
use ebpf_logic::packet::{is_over, together};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::pins::version_dir;
use crate::sys;
use crate::table::Table;

/// The connection table, read beside the process that owns the maps.
#[derive(Debug)]
pub struct Flows {
    table: Table<Tuple, FlowEntry>,
}

/// A connection to a Service, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The protocol.
    pub protocol: Protocol,
    /// Who asked.
    pub client: SocketAddr,
    /// What it asked for.
    pub service: SocketAddr,
    /// As whom the backend sees it.
    pub shown_as: SocketAddr,
    /// Who answers.
    pub backend: SocketAddr,
    /// Is the backend on this node?
    pub local: bool,
    /// Does the backend answer the client directly?
    pub direct: bool,
    /// Does the kernel translate it, as kube-proxy set it up?
    pub kernel: bool,
    /// What was seen of it.
    pub state: &'static str,
    /// Seconds since a packet was last seen.
    pub idle: u64,
    key: Tuple,
    reply: Tuple,
}

// === impl Flows ===

impl Flows {
    /// Opens what is pinned there.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`], [`Error::Map`].
    pub fn open(pin_dir: &Path) -> Result<Self, Error> {
        Self::open_version(&version_dir(pin_dir))
    }

    /// Opens what is pinned in the directory of a version.
    pub(crate) fn open_version(directory: &Path) -> Result<Self, Error> {
        let table = Table::open(directory, maps::FLOWS)?;
        Ok(Self { table })
    }

    /// All connections, sorted by client and service. One that begins or ends
    /// meanwhile may be missing.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn list(&self) -> Result<Vec<Connection>, Error> {
        let now = ticks_now();
        let entries = self.table.entries()?;
        let lives = lives(&entries);
        let mut all: Vec<_> = entries
            .iter()
            .filter_map(|(key, entry)| Connection::of(key, entry, &lives, now))
            .collect();
        all.sort_by_key(|it| (it.client, it.service, it.protocol));
        Ok(all)
    }

    /// Counts the streams (TCP, SCTP) that go on: neither closed, nor idle for longer than
    /// `timeouts` allow.
    pub(crate) fn open_streams(&self, timeouts: &Timeouts) -> Result<usize, Error> {
        let now = ticks_now();
        let entries = self.table.entries()?;
        let lives = lives(&entries);
        let goes_on =
            |(key, entry): &&(Tuple, FlowEntry)| is_open_stream(key, entry, &lives, timeouts, now);
        Ok(entries.iter().filter(goes_on).count())
    }

    /// What backends get of the connections that go on and that the programs translate.
    pub(crate) fn sent(&self, timeouts: &Timeouts) -> Result<Vec<Tuple>, Error> {
        let now = ticks_now();
        let entries = self.table.entries()?;
        let lives = lives(&entries);
        let sent = entries
            .iter()
            .filter_map(|(key, entry)| open_flow(key, entry, &lives, timeouts, now));
        Ok(sent.map(|flow| flow.to).collect())
    }

    /// Forgets a connection: its next packet begins a new one, or is refused.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn forget(&self, connection: &Connection) -> Result<(), Error> {
        // The client's side first: without it nothing new is sent, while the
        // other direction may still be answered.
        self.table.delete(&[connection.key])?;
        self.table.delete(&[connection.reply])
    }
}

/// Whether an entry is that of a client's direction of a stream that goes on.
fn is_open_stream(
    key: &Tuple,
    entry: &FlowEntry,
    lives: &FxHashMap<&Tuple, Life>,
    timeouts: &Timeouts,
    now: u32,
) -> bool {
    let stream = key.protocol == Protocol::TCP || key.protocol == Protocol::SCTP;
    stream && open_flow(key, entry, lives, timeouts, now).is_some()
}

/// The flow of a client's direction of a connection that goes on and that the programs translate.
fn open_flow(
    key: &Tuple,
    entry: &FlowEntry,
    lives: &FxHashMap<&Tuple, Life>,
    timeouts: &Timeouts,
    now: u32,
) -> Option<Flow> {
    let flow = entry.flow.open(key)?;
    // The kernel goes on without the programs.
    if flow.flags.contains(FlowFlags::REPLY) || flow.flags.contains(FlowFlags::KERNEL) {
        return None;
    }
    let life = whole_life(&flow, entry.life, lives);
    let ended = life.seen() & Life::RESET != 0 || life.seen() & Life::CLOSED == Life::CLOSED;
    (!ended && !is_over(timeouts, key.protocol, life, now)).then_some(flow)
}

/// When each entry was used, and what was seen.
pub(crate) fn lives(entries: &[(Tuple, FlowEntry)]) -> FxHashMap<&Tuple, Life> {
    entries
        .iter()
        .map(|(key, entry)| (key, entry.life))
        .collect()
}

/// Each direction writes its own entry only.
pub(crate) fn whole_life(flow: &Flow, client: Life, lives: &FxHashMap<&Tuple, Life>) -> Life {
    let backend = lives.get(&flow.to.reversed());
    backend.map_or(client, |backend| together(client, *backend))
}

// === impl Connection ===

impl Connection {
    /// None for the entry of the other direction, and for what is torn.
    fn of(
        key: &Tuple,
        entry: &FlowEntry,
        lives: &FxHashMap<&Tuple, Life>,
        now: u32,
    ) -> Option<Self> {
        let flow = entry.flow.open(key)?;
        if flow.flags.contains(FlowFlags::REPLY) {
            return None;
        }
        let life = whole_life(&flow, entry.life, lives);
        let idle = u64::from(now.saturating_sub(life.used()));
        Some(Self {
            protocol: key.protocol,
            client: socket(key.source, key.source_port),
            service: socket(key.destination, key.destination_port),
            shown_as: socket(flow.to.source, flow.to.source_port),
            backend: socket(flow.to.destination, flow.to.destination_port),
            local: flow.flags.contains(FlowFlags::LOCAL),
            direct: flow.flags.contains(FlowFlags::DIRECT),
            kernel: flow.flags.contains(FlowFlags::KERNEL),
            state: state(life.seen()),
            idle: (idle << Life::TICK) / 1_000_000_000,
            key: *key,
            reply: flow.to.reversed(),
        })
    }
}

impl Display for Connection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            protocol,
            client,
            service,
            backend,
            state,
            idle,
            ..
        } = self;
        write!(f, "{protocol} {client} to {service}, served by {backend}")?;
        if self.local {
            write!(f, " on this node")?;
        }
        if self.shown_as != *client {
            write!(f, ", shown as {}", self.shown_as)?;
        }
        if self.direct {
            write!(f, ", answered directly")?;
        }
        if self.kernel {
            write!(f, ", translated by the kernel")?;
        }
        write!(f, ": {state}, idle for {idle} s")
    }
}

/// The furthest that was seen.
const fn state(seen: u32) -> &'static str {
    if seen & Life::RESET != 0 {
        "reset"
    } else if seen & Life::CLOSED == Life::CLOSED {
        "closed"
    } else if seen & Life::CLOSED != 0 {
        "half closed"
    } else if seen & Life::ESTABLISHED != 0 {
        "established"
    } else if seen & Life::REPLIED != 0 {
        "replied"
    } else {
        "opening"
    }
}

fn socket(address: Address, port: Port) -> SocketAddr {
    SocketAddr::new(IpAddr::from(address), port.get())
}

/// The clock of `bpf_ktime_get_ns`, in ticks.
pub(crate) fn ticks_now() -> u32 {
    u32::try_from(sys::monotonic() >> Life::TICK).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use ebpf_abi::ChecksummedValue;

    use super::*;

    fn place(text: &str) -> (Address, Port) {
        let socket: SocketAddr = text.parse().unwrap();
        (socket.ip().into(), Port::new(socket.port()))
    }

    fn tuple(from: &str, to: &str) -> Tuple {
        let ((source, source_port), (destination, destination_port)) = (place(from), place(to));
        Tuple::new(
            source,
            source_port,
            destination,
            destination_port,
            Protocol::TCP,
        )
    }

    fn entry(key: &Tuple, to: Tuple, flags: FlowFlags, life: Life) -> FlowEntry {
        let flow = Flow {
            to,
            set: 1,
            generation: 1,
            flags,
            reserved: 0,
        };
        FlowEntry {
            flow: ChecksummedValue::new(key, flow),
            life,
        }
    }

    #[test]
    fn a_connection_is_told_once_in_the_client_s_words() {
        let key = tuple("198.51.100.9:4000", "192.0.2.1:30080");
        let to = tuple("192.0.2.1:61000", "10.244.1.2:8080");
        let life = Life::new(10, Life::REPLIED | Life::ESTABLISHED);
        let there = entry(&key, to, FlowFlags::MASQUERADED, life);
        let of =
            |key: &Tuple, entry: &FlowEntry| Connection::of(key, entry, &FxHashMap::default(), 20);
        let told = of(&key, &there).unwrap();
        assert_eq!(
            told.to_string(),
            "TCP 198.51.100.9:4000 to 192.0.2.1:30080, served by 10.244.1.2:8080, \
             shown as 192.0.2.1:61000: established, idle for 10 s"
        );
        assert_eq!(told.reply, tuple("10.244.1.2:8080", "192.0.2.1:61000"));
        let reply = entry(&told.reply, key.reversed(), FlowFlags::REPLY, life);
        assert_eq!(of(&told.reply, &reply), None);
        // Sealed under another key: an element that was handed out anew.
        let elsewhere = entry(&key, to, FlowFlags::NONE, life);
        assert_eq!(of(&told.reply, &elsewhere), None);
    }

    #[test]
    fn what_the_backend_did_counts_too() {
        let key = tuple("198.51.100.9:4000", "192.0.2.1:30080");
        let to = tuple("198.51.100.9:4000", "10.244.1.2:8080");
        let client = Life::new(10, Life::ESTABLISHED | Life::CLIENT_FINISHED);
        let backend = Life::new(14, Life::REPLIED | Life::BACKEND_FINISHED);
        let there = [
            (key, entry(&key, to, FlowFlags::LOCAL, client)),
            (
                to.reversed(),
                entry(&to.reversed(), key.reversed(), FlowFlags::REPLY, backend),
            ),
        ];
        let told = Connection::of(&key, &there[0].1, &lives(&there), 20).unwrap();
        let six = (6_u64 << Life::TICK) / 1_000_000_000;
        assert_eq!((told.state, told.idle), ("closed", six));
    }

    #[test]
    fn only_streams_that_go_on_are_waited_for() {
        let key = tuple("198.51.100.9:4000", "192.0.2.1:30080");
        let to = tuple("198.51.100.9:4000", "10.244.1.2:8080");
        let established = Life::ESTABLISHED | Life::REPLIED;
        let open = |seen: u32, flags, now| {
            let there = entry(&key, to, flags, Life::new(10, seen));
            let none = FxHashMap::default();
            is_open_stream(&key, &there, &none, &Timeouts::DEFAULT, now)
        };
        assert!(open(established, FlowFlags::NONE, 12));
        assert!(open(
            established | Life::CLIENT_FINISHED,
            FlowFlags::NONE,
            12
        ));
        assert!(!open(established, FlowFlags::REPLY, 12), "counted once");
        assert!(!open(established | Life::CLOSED, FlowFlags::NONE, 12));
        assert!(!open(established | Life::RESET, FlowFlags::NONE, 12));
        let day = (86_400_u64 * 1_000_000_000) >> Life::TICK;
        let later = u32::try_from(day + 100).unwrap();
        assert!(!open(established, FlowFlags::NONE, later), "idle for a day");
        let datagrams = Tuple::new(
            key.source,
            key.source_port,
            key.destination,
            key.destination_port,
            Protocol::UDP,
        );
        let there = entry(
            &datagrams,
            to,
            FlowFlags::NONE,
            Life::new(10, Life::REPLIED),
        );
        let none = FxHashMap::default();
        assert!(!is_open_stream(
            &datagrams,
            &there,
            &none,
            &Timeouts::DEFAULT,
            12
        ));
    }

    #[test]
    fn the_furthest_state_is_told() {
        for (seen, expected) in [
            (0, "opening"),
            (Life::REPLIED, "replied"),
            (Life::REPLIED | Life::ESTABLISHED, "established"),
            (Life::ESTABLISHED | Life::CLIENT_FINISHED, "half closed"),
            (Life::CLOSED, "closed"),
            (Life::CLOSED | Life::RESET, "reset"),
        ] {
            assert_eq!(state(seen), expected);
        }
    }
}
