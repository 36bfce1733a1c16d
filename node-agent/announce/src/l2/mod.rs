//! Answers for addresses by ARP and NDP without having them: on the configured
//! interfaces, and only for the present [`AnsweredAddresses`].
//!
//! The kernel is not involved and has no such address on any interface; the datapath
//! translates packets before they are routed. Packet sockets read and write frames, one
//! per protocol and interface, opened only while there is something to answer for. The
//! groups of solicitations are joined, so that switches and network cards pass them.

pub mod frame;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use control_load_balancer::Text;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::frame::{Mac, ReceivedFrame};
use crate::metrics::Metrics;
use crate::sys::{self, FrameFilter};

/// Addresses to answer for, and the patterns of interfaces on which to do so.
pub type AnsweredAddresses = BTreeMap<IpAddr, BTreeSet<Text>>;

/// When a new address is announced again: hosts ignore updates within a second of the
/// last one (`neigh/*/locktime`), and frames get lost.
const REPEATS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_millis(1200),
    Duration::from_millis(2500),
    Duration::from_secs(5),
];
/// How often interfaces are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Another host claims an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The address.
    pub address: IpAddr,
    /// The announcing host.
    pub mac: Mac,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Interface {
    name: Text,
    index: u32,
    mac: Mac,
    link_local: Option<Ipv6Addr>,
    /// Whether one of the node's own addresses is on it.
    own: bool,
}

impl Interface {
    fn matches(&self, patterns: &BTreeSet<Text>) -> bool {
        patterns
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                _ if pattern.is_empty() => self.own,
                Some(start) => self.name.starts_with(start),
                None => self.name == *pattern,
            })
    }
}

/// The interfaces that can announce: up, with broadcast and a hardware address.
fn interfaces(node: &BTreeSet<IpAddr>) -> io::Result<BTreeMap<Text, Interface>> {
    let mut all: BTreeMap<Text, (Option<Mac>, Option<Ipv6Addr>, bool)> = BTreeMap::new();
    let wanted = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_BROADCAST;
    for entry in getifaddrs()? {
        let unable = InterfaceFlags::IFF_LOOPBACK | InterfaceFlags::IFF_NOARP;
        if !entry.flags.contains(wanted) || entry.flags.intersects(unable) {
            continue;
        }
        let (mac, link_local, own) = all.entry(entry.interface_name.as_str().into()).or_default();
        let Some(address) = entry.address else {
            continue;
        };
        if let Some(link) = address.as_link_addr() {
            *mac = link.addr().filter(|mac| mac != &[0; 6]);
        } else if let Some(v4) = address.as_sockaddr_in() {
            *own |= node.contains(&IpAddr::V4(v4.ip()));
        } else if let Some(v6) = address.as_sockaddr_in6() {
            let ip = v6.ip();
            if ip.is_unicast_link_local() {
                *link_local = Some(ip);
            }
            *own |= node.contains(&IpAddr::V6(ip));
        }
    }
    let found = all
        .into_iter()
        .filter_map(|(name, (mac, link_local, own))| {
            let index = if_nametoindex(name.as_str()).ok()?;
            let interface = Interface {
                name: name.clone(),
                index,
                mac: mac?,
                link_local,
                own,
            };
            Some((name, interface))
        });
    Ok(found.collect())
}

/// Answers until `shutdown`. `answering` are the addresses to answer for; `node` are the
/// node's own addresses. Announcements by others are sent to `conflicts`.
pub async fn run(
    mut answering: watch::Receiver<Arc<AnsweredAddresses>>,
    mut node: watch::Receiver<Arc<BTreeSet<IpAddr>>>,
    conflicts: mpsc::UnboundedSender<Conflict>,
    metrics: Metrics,
    shutdown: CancellationToken,
) {
    let mut links: BTreeMap<Text, Link> = BTreeMap::new();
    loop {
        let wanted = answering.borrow_and_update().clone();
        if wanted.is_empty() {
            links.clear();
        } else {
            let own = node.borrow_and_update().clone();
            match interfaces(&own) {
                Ok(found) => bring(&mut links, &found, &wanted, &conflicts, &metrics),
                Err(error) => warn!(%error, "failed to list interfaces"),
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = answering.changed() => if changed.is_err() { return },
            changed = node.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(LOOK), if !wanted.is_empty() => {}
        }
    }
}

/// Opens, changes and closes links as desired.
fn bring(
    links: &mut BTreeMap<Text, Link>,
    found: &BTreeMap<Text, Interface>,
    wanted: &AnsweredAddresses,
    conflicts: &mpsc::UnboundedSender<Conflict>,
    metrics: &Metrics,
) {
    let mut keep = BTreeSet::new();
    for (name, interface) in found {
        let here: BTreeSet<IpAddr> = wanted
            .iter()
            .filter(|(_, patterns)| interface.matches(patterns))
            .map(|(address, _)| *address)
            .collect();
        if here.is_empty() {
            continue;
        }
        keep.insert(name.clone());
        let usable = links
            .get(name)
            .is_some_and(|link| link.interface == *interface && !link.is_broken());
        if !usable {
            links.remove(name);
            match Link::open(interface.clone(), conflicts.clone(), metrics.clone()) {
                Ok(link) => {
                    links.insert(name.clone(), link);
                }
                Err(error) => {
                    warn!(interface = %name, %error, "failed to answer for addresses on the interface; retrying");
                    continue;
                }
            }
        }
        if let Some(link) = links.get_mut(name) {
            link.set(here);
        }
    }
    links.retain(|name, _| keep.contains(name));
}

/// The work on one interface; it stops when dropped.
struct Link {
    interface: Interface,
    addresses: watch::Sender<Arc<BTreeSet<IpAddr>>>,
    /// Holds the memberships of groups.
    groups: Option<UdpSocket>,
    joined: BTreeSet<Ipv6Addr>,
    tasks: JoinSet<()>,
}

impl Link {
    fn open(
        interface: Interface,
        conflicts: mpsc::UnboundedSender<Conflict>,
        metrics: Metrics,
    ) -> io::Result<Self> {
        let arp = Arc::new(sys::packet_socket(interface.index, FrameFilter::Arp)?);
        let neighbours = Arc::new(sys::packet_socket(
            interface.index,
            FrameFilter::Neighbours,
        )?);
        let addresses = watch::Sender::new(Arc::default());
        let mut tasks = JoinSet::new();
        for socket in [Arc::clone(&arp), Arc::clone(&neighbours)] {
            let listener = Listener {
                interface: interface.clone(),
                addresses: addresses.subscribe(),
                conflicts: conflicts.clone(),
                metrics: metrics.clone(),
            };
            tasks.spawn(listener.run(socket));
        }
        let herald = herald(
            interface.clone(),
            addresses.subscribe(),
            arp,
            neighbours,
            metrics,
        );
        tasks.spawn(herald);
        // A host without IPv6 has no such groups.
        let groups = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok();
        info!(interface = %interface.name, "answering by ARP and NDP");
        Ok(Self {
            interface,
            addresses,
            groups,
            joined: BTreeSet::new(),
            tasks,
        })
    }

    /// Whether a task ended: the interface went down, or was replaced.
    fn is_broken(&self) -> bool {
        self.addresses.receiver_count() < self.tasks.len()
    }

    fn set(&mut self, addresses: BTreeSet<IpAddr>) {
        self.join(&addresses);
        self.addresses.send_if_modified(|known| {
            let other = **known != addresses;
            if other {
                *known = Arc::new(addresses);
            }
            other
        });
    }

    fn join(&mut self, addresses: &BTreeSet<IpAddr>) {
        let Some(groups) = &self.groups else { return };
        let wanted: BTreeSet<Ipv6Addr> = addresses
            .iter()
            .filter_map(|address| match address {
                IpAddr::V6(it) => Some(frame::solicited_node(*it)),
                IpAddr::V4(_) => None,
            })
            .collect();
        for group in self.joined.difference(&wanted) {
            let _ = groups.leave_multicast_v6(group, self.interface.index);
        }
        let mut joined: BTreeSet<Ipv6Addr> = self.joined.intersection(&wanted).copied().collect();
        for group in wanted.difference(&self.joined) {
            match groups.join_multicast_v6(group, self.interface.index) {
                Ok(()) => {
                    joined.insert(*group);
                }
                Err(error) => {
                    debug!(interface = %self.interface.name, %group, %error, "failed to join the multicast group; retrying");
                }
            }
        }
        self.joined = joined;
    }
}

/// Receives and answers frames.
struct Listener {
    interface: Interface,
    addresses: watch::Receiver<Arc<BTreeSet<IpAddr>>>,
    conflicts: mpsc::UnboundedSender<Conflict>,
    metrics: Metrics,
}

impl Listener {
    async fn run(self, socket: Arc<AsyncFd<OwnedFd>>) {
        let mut buffer = [0_u8; 2048];
        loop {
            let Ok(mut ready) = socket.readable().await else {
                return;
            };
            let read = ready.try_io(|fd| {
                nix::unistd::read(fd.get_ref().as_fd(), &mut buffer).map_err(io::Error::from)
            });
            match read {
                Ok(Ok(size)) => {
                    if let Some(heard) = buffer.get(..size).and_then(frame::parse) {
                        self.hear(heard, &socket).await;
                    }
                }
                // The interface went down: it is reopened when it is up.
                Ok(Err(error)) => {
                    debug!(interface = %self.interface.name, %error, "failed to read a frame");
                    return;
                }
                Err(_would_block) => {}
            }
        }
    }

    async fn hear(&self, heard: ReceivedFrame, socket: &AsyncFd<OwnedFd>) {
        let own = self.interface.mac;
        match heard {
            ReceivedFrame::Asked { target, from, mac } => {
                let ours = self.addresses.borrow().contains(&target);
                if ours && mac != own {
                    let link_local = self.interface.link_local;
                    let frame = frame::answer(own, link_local, target, from, mac);
                    if write(socket, &frame).await.is_ok() {
                        self.metrics.answered(target);
                    }
                }
            }
            ReceivedFrame::Claimed { address, mac } => {
                let ours = self.addresses.borrow().contains(&address);
                if ours && mac != own {
                    self.metrics.conflict(address);
                    let _ = self.conflicts.send(Conflict { address, mac });
                }
            }
        }
    }
}

/// Announces addresses that are new here, several times.
async fn herald(
    interface: Interface,
    mut addresses: watch::Receiver<Arc<BTreeSet<IpAddr>>>,
    arp: Arc<AsyncFd<OwnedFd>>,
    neighbours: Arc<AsyncFd<OwnedFd>>,
    metrics: Metrics,
) {
    /// When an address was added, and how often it was announced.
    type Due = BTreeMap<IpAddr, (Instant, usize)>;
    let mut known: BTreeSet<IpAddr> = BTreeSet::new();
    let mut due: Due = Due::new();
    loop {
        let now = Instant::now();
        let current = addresses.borrow_and_update().clone();
        due.retain(|address, _| current.contains(address));
        for address in current.difference(&known) {
            due.insert(*address, (now, 0));
        }
        known = BTreeSet::clone(&current);
        let mut next: Option<Instant> = None;
        let mut over = Vec::new();
        for (address, (since, times)) in &mut due {
            while REPEATS
                .get(*times)
                .is_some_and(|after| *since + *after <= now)
            {
                *times += 1;
                let socket = if address.is_ipv4() { &arp } else { &neighbours };
                for frame in frame::announcement(interface.mac, interface.link_local, *address) {
                    if let Err(error) = write(socket, &frame).await {
                        debug!(interface = %interface.name, %address, %error, "failed to announce an address");
                    }
                }
                metrics.announced(*address);
            }
            match REPEATS.get(*times) {
                Some(after) => {
                    let at = *since + *after;
                    next = Some(next.map_or(at, |known| known.min(at)));
                }
                None => over.push(*address),
            }
        }
        for address in over {
            due.remove(&address);
        }
        tokio::select! {
            changed = addresses.changed() => if changed.is_err() { return },
            () = until(next) => {}
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Announces an address once on an interface. Nothing answers for the address: it must be
/// the interface's own.
///
/// # Errors
/// The system's error, or that there is no such interface that is up.
pub async fn announce_once(interface: &str, address: IpAddr) -> io::Result<()> {
    let found = interfaces(&BTreeSet::new())?;
    let own = found
        .get(interface)
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let take = match address {
        IpAddr::V4(_) => FrameFilter::Arp,
        IpAddr::V6(_) => FrameFilter::Neighbours,
    };
    let socket = sys::packet_socket(own.index, take)?;
    for frame in frame::announcement(own.mac, own.link_local, address) {
        write(&socket, &frame).await?;
    }
    Ok(())
}

async fn write(socket: &AsyncFd<OwnedFd>, frame: &[u8]) -> io::Result<()> {
    loop {
        let mut ready = socket.writable().await?;
        let wrote = ready
            .try_io(|fd| nix::unistd::write(fd.get_ref().as_fd(), frame).map_err(io::Error::from));
        match wrote {
            Ok(result) => return result.map(drop),
            Err(_would_block) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_chosen_by_name_or_because_the_node_lives_there() {
        let on = |name: &str, own: bool, patterns: &[&str]| {
            let interface = Interface {
                name: name.into(),
                index: 1,
                mac: [2; 6],
                link_local: None,
                own,
            };
            interface.matches(&patterns.iter().map(|p| Text::from(*p)).collect())
        };
        assert!(on("eth0", true, &[""]) && !on("veth1", false, &[""]));
        assert!(on("eth0", false, &["eth0"]) && !on("eth01", true, &["eth0"]));
        assert!(on("bond0.7", false, &["x", "bond*"]) && on("any", false, &["*"]));
        assert!(!on("eth0", true, &[]));
    }
}
