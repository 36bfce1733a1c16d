//! Takes Services over from kube-proxy while its connections go on.
//!
//! kube-proxy translates by rules of netfilter. A rule sees a connection's first packet
//! only; afterwards the kernel's connection tracking translates it, on ways where packet
//! programs never are: between processes of this machine and through its loopback, too.
//! So these connections stay with the kernel until they end:
//!
//! 1. [`KernelNat::take_over`] enters them in `FLOWS` as the kernel's
//!    ([`FlowFlags::KERNEL`]): packet programs let their packets pass, and give their ports
//!    to nobody else. A datagram whose backend has left its Service begins anew.
//! 2. [`KernelNat::keep`] adds an [`anchor`], so that the kernel goes on translating once
//!    kube-proxy's rules are gone.
//! 3. [`KernelNat::release`] removes the anchor after the last of them.
//!
//! On the way back it is the other way round: connections that the programs translate stay
//! with them, and the kernel never sees these. It must not show a backend two clients under one
//! address and port: one that it masquerades, or one that asks another Service from the port
//! with which it asked ours. [`KernelNat::reserve_ports`] enters them in its connection
//! tracking; it chooses another port where one is taken there.

mod anchor;
mod attributes;
mod conntrack;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebpf_abi::{
    ChecksummedValue, Flow, FlowEntry, FlowFlags, FlowLogKey, FlowPorts, Life, Scope, Service,
    ServiceKey, Timeouts, Tuple, maps,
};

use crate::error::Error;
use crate::flows::{Flows, ticks_now};
use crate::pins::version_dir;
use crate::table::Table;

pub use conntrack::{Phase, TranslatedConnection};

/// How long the kernel leaves the ports of the programs' connections alone, unless they are reserved again.
pub(crate) const RESERVED_FOR: Duration = Duration::from_mins(2);

/// What the kernel translates in this network namespace, and what packet programs know of
/// that.
#[derive(Clone, Debug)]
pub struct KernelNat {
    directory: PathBuf,
}

/// The result of a [takeover](KernelNat::take_over).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Connections that are left to the kernel from now on.
    pub new: usize,
    /// Those that the programs knew already.
    pub known: usize,
    /// Those for which there is no room: their next packets begin new connections.
    pub left_out: usize,
}

// === impl KernelNat ===

impl KernelNat {
    /// That of the datapath pinned there.
    #[must_use]
    pub fn at(pin_dir: &Path) -> Self {
        Self {
            directory: version_dir(pin_dir),
        }
    }

    /// Lists all connections whose destination the kernel translates and that are not over.
    ///
    /// # Errors
    ///
    /// [`Error::KernelNat`].
    pub fn connections() -> Result<Vec<TranslatedConnection>, Error> {
        let all = conntrack::translated().map_err(failed("list the connections of"))?;
        let open = all.into_iter().filter(|it| it.phase != Phase::Closed);
        Ok(open.collect())
    }

    /// Leaves the connections that the kernel translates to it. Those that the programs
    /// translate stay with them.
    ///
    /// # Errors
    ///
    /// [`Error::KernelNat`], [`Error::Map`], [`Error::NotPinned`].
    pub fn take_over(&self) -> Result<TakenOver, Error> {
        let flows: Table<Tuple, FlowEntry> = Table::open(&self.directory, maps::FLOWS)?;
        let log: Table<(), FlowLogKey> = Table::open(&self.directory, maps::FLOW_LOG)?;
        let now = ticks_now();
        let mut done = TakenOver::default();
        let mut wanted: Vec<_> = Self::connections()?
            .iter()
            .filter_map(|it| entries(it, now))
            .collect();
        // Each has two entries; half of the table is for new connections.
        let room = flows.capacity() as usize / 4;
        done.left_out = wanted.len().saturating_sub(room);
        wanted.truncate(room);
        self.open_ports(&wanted)?;
        for [client, backend] in wanted {
            if !flows.add(&client.0, &client.1)? {
                done.known += 1;
                continue;
            }
            flows.add(&backend.0, &backend.1)?;
            if log.push_all([FlowLogKey::new(&client.0, now)])? == 0 {
                flows.delete(&[client.0, backend.0])?;
                done.left_out += 1;
            } else {
                done.new += 1;
            }
        }
        Ok(done)
    }

    /// Keeps the kernel translating what it translates now, without whoever set it up.
    /// Returns how many connections depend on that; with none, nothing is done.
    ///
    /// # Errors
    ///
    /// [`Error::KernelNat`].
    pub fn keep() -> Result<usize, Error> {
        let open = Self::connections()?.len();
        if open > 0 {
            anchor::add().map_err(failed("keep"))?;
        }
        Ok(open)
    }

    /// Whether this is in force.
    ///
    /// # Errors
    ///
    /// [`Error::KernelNat`].
    pub fn is_kept() -> Result<bool, Error> {
        anchor::is_there().map_err(failed("look for what keeps"))
    }

    /// Ends [`keep`](Self::keep) if no connection to one of the Services depends on it;
    /// returns how many do.
    ///
    /// # Errors
    ///
    /// [`Error::KernelNat`], [`Error::Map`], [`Error::NotPinned`].
    pub fn release(&self) -> Result<usize, Error> {
        let services: Table<ServiceKey, ChecksummedValue<Service>> =
            Table::open(&self.directory, maps::SERVICES)?;
        let mut open = 0;
        for it in Self::connections()? {
            open += usize::from(is_service(&services, &it.asked)?);
        }
        if open == 0 {
            Self::drop_anchor()?;
        }
        Ok(open)
    }

    /// Ends [`keep`](Self::keep), whoever depends on it.
    ///
    /// # Errors
    ///
    /// [`Error::KernelNat`].
    pub fn drop_anchor() -> Result<(), Error> {
        anchor::remove().map_err(failed("stop keeping"))
    }

    /// Keeps the kernel from using the ports with which the programs' connections reach backends:
    /// enters them in its connection tracking for [`RESERVED_FOR`]. Returns how many there are.
    ///
    /// # Errors
    ///
    /// [`Error::KernelNat`], [`Error::Map`], [`Error::NotPinned`].
    pub(crate) fn reserve_ports(&self, timeouts: &Timeouts) -> Result<usize, Error> {
        let sent = Flows::open_version(&self.directory)?.sent(timeouts)?;
        let seconds = u32::try_from(RESERVED_FOR.as_secs()).unwrap_or(u32::MAX);
        conntrack::enter(&sent, seconds).map_err(failed("reserve ports in"))?;
        Ok(sent.len())
    }

    /// Has programs look for flows at the ports of these. Whole elements are given up:
    /// programs write single bytes of them.
    fn open_ports(&self, wanted: &[[(Tuple, FlowEntry); 2]]) -> Result<(), Error> {
        let ports: Table<u32, FlowPorts> = Table::open(&self.directory, maps::FLOW_PORTS)?;
        let mut elements: Vec<_> = wanted
            .iter()
            .flat_map(|[client, backend]| {
                let places = [
                    FlowPorts::for_flow(&client.0, false),
                    FlowPorts::for_flow(&backend.0, true),
                ];
                places.into_iter().flatten().flatten()
            })
            .map(|place| place.element)
            .collect();
        elements.sort_unstable();
        elements.dedup();
        let mut unsaid = Vec::new();
        for element in elements {
            if ports.get(&element)?.is_some_and(|it| it != FlowPorts(0)) {
                unsaid.push((element, FlowPorts(0)));
            }
        }
        ports.write(&unsaid)
    }
}

/// Whether a connection addresses a Service that the maps have.
fn is_service(
    services: &Table<ServiceKey, ChecksummedValue<Service>>,
    asked: &Tuple,
) -> Result<bool, Error> {
    for address in [asked.destination, asked.destination.wildcard()] {
        let key = ServiceKey::new(
            address,
            asked.destination_port,
            asked.protocol,
            Scope::INTERNAL,
        );
        if services.get(&key)?.is_some() {
            return Ok(true);
        }
    }
    // Node ports on the loopback are kube-proxy's alone.
    Ok(IpAddr::from(asked.destination).is_loopback())
}

/// The client's and the backend's entry of a connection; `None` for one whose packets no
/// program sees, that is over, or that has yet to open: its client tries again.
fn entries(it: &TranslatedConnection, now: u32) -> Option<[(Tuple, FlowEntry); 2]> {
    let (client_seen, backend_seen) = match it.phase {
        _ if it.is_of_loopback() => return None,
        Phase::Closed | Phase::Opening => return None,
        Phase::Open => (Life::ESTABLISHED, Life::REPLIED),
        Phase::Closing => (Life::ESTABLISHED | Life::CLIENT_FINISHED, Life::REPLIED),
    };
    let entry = |key: Tuple, to: Tuple, flags: FlowFlags, seen: u32| {
        let flow = Flow {
            to,
            set: 0,
            generation: 0,
            flags,
            reserved: 0,
        };
        let entry = FlowEntry {
            flow: ChecksummedValue::new(&key, flow),
            life: Life::new(now, seen),
        };
        (key, entry)
    };
    let kernel = FlowFlags::KERNEL;
    Some([
        entry(it.asked, it.sent, kernel, client_seen),
        entry(
            it.sent.reversed(),
            it.asked.reversed(),
            kernel.with(FlowFlags::REPLY),
            backend_seen,
        ),
    ])
}

fn failed(verb: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::KernelNat { verb, source }
}

#[cfg(test)]
mod tests {
    use super::conntrack::tests::{OPEN, translated};
    use super::*;

    #[test]
    fn an_open_connection_has_an_entry_for_each_direction() {
        let it = translated(OPEN, 3).unwrap();
        let [client, backend] = entries(&it, 9).unwrap();
        let (forth, back) = (
            client.1.flow.open(&client.0).unwrap(),
            backend.1.flow.open(&backend.0).unwrap(),
        );
        // Either, turned round, is the key of the other.
        assert_eq!(forth.to.reversed(), backend.0);
        assert_eq!(back.to.reversed(), client.0);
        assert!(forth.flags == FlowFlags::KERNEL && back.flags.contains(FlowFlags::REPLY));
        let life = ebpf_logic::packet::together(client.1.life, backend.1.life);
        assert_eq!(life, Life::new(9, Life::ESTABLISHED | Life::REPLIED));
    }

    #[test]
    fn what_is_over_or_only_opens_has_none() {
        for state in [1, 2, 7, 8] {
            let it = translated(OPEN, state).unwrap();
            assert_eq!(entries(&it, 9), None, "{state}");
        }
    }
}
