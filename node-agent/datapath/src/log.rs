//! What the programs tell people: aya-log's records, handed to `tracing`.
//!
//! The ring is pinned with the maps, so that what happened while no agent ran
//! is told by the next one. Where it is full, records are lost; counters are
//! not.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::JoinHandle;

use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use aya_log::EbpfLogger;
use ebpf_abi::{Address, Counter, Protocol, SetName, maps};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use tracing::level_filters::LevelFilter;

use crate::error::Error;
use crate::pinned_map;
use crate::pod::Raw;

/// The target under which the programs log: a filter of `tracing` that lets
/// its debug messages through when the datapath is opened turns them on in
/// the kernel.
pub const LOG_TARGET: &str = "orlop_bpf";

/// Reads the log ring until it is dropped.
#[derive(Debug)]
pub(crate) struct Reader {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// The level at which programs are to log, as aya-log numbers it: what
/// `tracing` would drop is not even written.
pub(crate) fn level() -> u8 {
    let levels = [
        (
            tracing::enabled!(target: LOG_TARGET, tracing::Level::TRACE),
            LevelFilter::TRACE,
        ),
        (
            tracing::enabled!(target: LOG_TARGET, tracing::Level::DEBUG),
            LevelFilter::DEBUG,
        ),
        (
            tracing::enabled!(target: LOG_TARGET, tracing::Level::INFO),
            LevelFilter::INFO,
        ),
        (
            tracing::enabled!(target: LOG_TARGET, tracing::Level::WARN),
            LevelFilter::WARN,
        ),
        (
            tracing::enabled!(target: LOG_TARGET, tracing::Level::ERROR),
            LevelFilter::ERROR,
        ),
    ];
    let enabled = levels.iter().find(|(enabled, _)| *enabled);
    match enabled.map(|(_, level)| *level) {
        Some(LevelFilter::ERROR) => 1,
        Some(LevelFilter::WARN) => 2,
        Some(LevelFilter::INFO) => 3,
        Some(LevelFilter::DEBUG) => 4,
        Some(LevelFilter::TRACE) => 5,
        _ => 0,
    }
}

// === impl Reader ===

impl Reader {
    /// Starts a thread that hands records to the subscriber of the caller.
    pub(crate) fn start(ebpf: &mut Ebpf, directory: &Path) -> Result<Self, Error> {
        let unusable = |source| Error::Log { source };
        let (names, _) = pinned_map::open(directory, maps::NAMES)?;
        let logger = EbpfLogger::init_with_logger(ebpf, Bridge { names })
            .map_err(|error| unusable(io::Error::other(error)))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| unusable(errno.into()))?;
        let stopped = stop.try_clone().map_err(unusable)?;
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        let thread = std::thread::Builder::new()
            .name("bpf-log".to_owned())
            .spawn(move || {
                tracing::dispatcher::with_default(&subscriber, || read(logger, &stopped));
            })
            .map_err(unusable)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Writing can only fail if the descriptor is none.
        let told = rustix::io::write(&self.stop, &1_u64.to_ne_bytes()).is_ok();
        if let Some(thread) = self.thread.take()
            && told
        {
            let _ = thread.join();
        }
    }
}

fn read(mut logger: EbpfLogger<Bridge>, stopped: &OwnedFd) {
    loop {
        // aya-log panics on a record of another form; programs of our own
        // object write none.
        if catch_unwind(AssertUnwindSafe(|| logger.flush())).is_err() {
            tracing::error!("unknown record in the programs' log; reading stops");
            return;
        }
        let mut ready = [
            PollFd::from_borrowed_fd(logger.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => {
                tracing::error!(error = %io::Error::from(errno), "failed to wait for the programs' log");
                return;
            }
            Ok(_) => {}
        }
        if !ready[1].revents().is_empty() {
            return;
        }
    }
}

/// Turns aya-log's text into events with fields.
struct Bridge {
    names: HashMap<MapData, Raw<u32>, Raw<SetName>>,
}

impl log::Log for Bridge {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let text = record.args().to_string();
        let Some(Record {
            what,
            asked,
            protocol,
            set,
            generation,
        }) = parse(&text)
        else {
            tracing::warn!(target: LOG_TARGET, %text, "skipping a log message of another version");
            return;
        };
        let name = self.names.get(&Raw(set), 0).ok();
        let service = name.as_ref().map_or("", |Raw(name)| name.as_str());
        let reason = what.label();
        if record.level() <= log::Level::Warn {
            tracing::warn!(target: LOG_TARGET, reason, service, %asked, %protocol, set, generation, "{}", words(what));
        } else {
            tracing::debug!(target: LOG_TARGET, reason, service, %asked, %protocol, set, generation, "{}", words(what));
        }
    }

    fn flush(&self) {}
}

/// What a counter means when it is told as an event.
const fn words(what: Counter) -> &'static str {
    match what {
        Counter::RefusedNoEndpoint => "refused a call to a service without endpoints",
        Counter::RefusedNoLocalEndpoint => {
            "refused a call to a service without endpoints on this node"
        }
        Counter::RefusedUnstable => {
            "refused a call to a service whose entry and backends do not fit together"
        }
        Counter::RefusedFamily => {
            "refused a call to a service whose backend is of another address family"
        }
        Counter::OriginalNotStored => "no room to remember which service a socket talks to",
        _ => "an event",
    }
}

/// A message of the programs.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    what: Counter,
    asked: SocketAddr,
    protocol: Protocol,
    set: u32,
    generation: u32,
}

/// Reads the one statement of `ebpf/programs/src/log.rs`.
fn parse(text: &str) -> Option<Record> {
    let mut values = text.split(' ');
    let mut value = |name: &str| {
        let (key, value) = values.next()?.split_once('=')?;
        (key == name).then_some(value)
    };
    let what = Counter::of_index(value("what")?.parse().ok()?)?;
    let address: Ipv6Addr = value("address")?.parse().ok()?;
    let port = value("port")?.parse().ok()?;
    let protocol = Protocol(value("protocol")?.parse().ok()?);
    let set = value("set")?.parse().ok()?;
    let generation = value("generation")?.parse().ok()?;
    Some(Record {
        what,
        asked: SocketAddr::new(IpAddr::from(Address::v6(address.octets())), port),
        protocol,
        set,
        generation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_of_the_programs_is_understood() {
        let text = "what=4 address=::ffff:10.96.0.7 port=80 protocol=17 set=3 generation=9";
        let expected = Record {
            what: Counter::RefusedNoEndpoint,
            asked: "10.96.0.7:80".parse().unwrap(),
            protocol: Protocol::UDP,
            set: 3,
            generation: 9,
        };
        assert_eq!(parse(text), Some(expected));
    }

    #[test]
    fn other_texts_are_not_taken_for_it() {
        for text in [
            "",
            "hello",
            "what=4",
            "what=4000 address=::1 port=80 protocol=17 set=3 generation=9",
            "what=4 address=nowhere port=80 protocol=17 set=3 generation=9",
            "what=4 port=80 address=::1 protocol=17 set=3 generation=9",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
