//! An address for all servers together, which one of them has at a time.
//!
//! Servers tell each other ten times a second that they are there and ready. The one that has the
//! address keeps it while it is ready, and through an election of etcd; when it is not heard for
//! half a second, another takes the address and announces it by ARP or NDP. No store is asked, so
//! that the address also moves while etcd elects a leader, and stays somewhere while etcd has none.
//!
//! Two servers that do not hear each other both have the address. That harms nobody: each answers
//! as well as its store lets it, and a server without a majority yields as soon as it hears one
//! that has it.
//!
//! | file | contains |
//! | --- | --- |
//! | `decide` | who has the address, as a pure function |
//! | `advert` | what servers tell each other |
//! | `inbox` | what the keeper wakes up for: adverts and ticks |
//! | `interface` | the address on an interface, and its announcement |
//! | `syn_filter` | new connections to an address that is given away |

mod advert;
mod decide;
mod inbox;
mod interface;
mod syn_filter;

#[cfg(test)]
mod handover_tests;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use control_apiserver::api::Api;
use control_supervise::{TaskHandle, task};
use socket2::Socket;
use tokio::net::UdpSocket;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::advert::{Advert, Key};
use self::decide::{Look, OwnReadiness, OwnState, Peer, SILENCE, SilenceLimit, holds};
use self::inbox::{Event, Inbox};
use self::interface::Interface;
use crate::error::Error;

/// Groups of the machines of one network (RFC 2365, RFC 4291), and the port there.
const GROUP_4: Ipv4Addr = Ipv4Addr::new(239, 255, 64, 43);
const GROUP_6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x6f72, 0x6c70);
const PORT: u16 = 6444;

/// How often a server tells that it is there.
const EVERY: Duration = Duration::from_millis(100);
/// The interval at which the holder repeats its announcement: requests in between may
/// have been answered by a hanging server that still has the address.
const ANNOUNCE: Duration = Duration::from_secs(1);
/// How often it is looked whether the server is ready.
const LOOK: Duration = Duration::from_millis(300);
/// How long a silent server is remembered.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// How long a server that shuts down keeps the address, so that answers reach clients over it.
/// Connections that are still open after that are closed.
const DRAIN: Duration = Duration::from_secs(1);
/// How long a look may take.
const PATIENCE: Duration = Duration::from_millis(700);

/// Whether servers share an address.
#[derive(Args, Clone, Default)]
#[group(id = "shared_address")]
pub struct Options {
    /// Address shared by all servers, in their network and otherwise unused: one of them
    /// has it at a time. Give the same to all servers.
    #[arg(long, value_name = "ADDRESS")]
    pub control_plane_address: Option<IpAddr>,
    /// Interface for that address; the one with the server's own address unless given.
    #[arg(long, value_name = "NAME", requires = "control_plane_address")]
    pub control_plane_interface: Option<String>,
}

/// Cancelled in this order while a server shuts down.
struct ShutdownStages<'a> {
    /// The server is told to stop; it still serves its clients.
    shutdown: &'a CancellationToken,
    /// The server closes its clients' connections.
    draining: &'a CancellationToken,
    /// All of these connections are closed.
    drained: &'a CancellationToken,
}

/// Holds the address while this server has it.
pub struct AddressKeeper {
    address: IpAddr,
    interface: Interface,
    key: Key,
    /// This server's identity, for the lifetime of this process.
    id: u64,
    listener: UdpSocket,
    sender: UdpSocket,
    group: SocketAddr,
}

// === impl Options ===

impl Options {
    /// Opens the sockets; returns `None` if servers share no address. `own` is the
    /// address at which others reach this server, `bind` where it listens.
    ///
    /// # Errors
    /// An address of another IP version or on which the server does not listen, no
    /// interface, or no permission for the sockets.
    pub fn open(
        &self,
        own: IpAddr,
        bind: IpAddr,
        pki: &Path,
    ) -> Result<Option<AddressKeeper>, Error> {
        let Some(address) = self.control_plane_address else {
            return Ok(None);
        };
        if !bind.is_unspecified() && bind != address {
            return Err(Error::Option(format!(
                "--control-plane-address {address}: nobody would listen there with --bind-address \
                 {bind}; leave that out"
            )));
        }
        if address == own || address.is_ipv4() != own.is_ipv4() {
            return Err(Error::Option(format!(
                "--control-plane-address {address}: it must be of the same IP version as this \
                 server's own address {own}, and another one"
            )));
        }
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| Error::ControlPlaneAddress {
                address,
                what,
                source,
            }
        };
        let interface = Interface::find(self.control_plane_interface.as_deref(), own)
            .map_err(failed("find an interface"))?;
        let key = Key::of_cluster(pki, address).map_err(failed("read the cluster's key"))?;
        let (listener, sender, group) =
            sockets(own, &interface).map_err(failed("listen to the other servers"))?;
        Ok(Some(AddressKeeper {
            address,
            interface,
            key,
            id: rand::random(),
            listener,
            sender,
            group,
        }))
    }
}

/// Opens sockets for one interface: one that receives the group, and one that sends to
/// it. The kernel sends through the interface whose address the latter has.
fn sockets(own: IpAddr, interface: &Interface) -> io::Result<(UdpSocket, UdpSocket, SocketAddr)> {
    let (listener, sender, group) = match own {
        IpAddr::V4(own) => {
            let listener = std::net::UdpSocket::bind((GROUP_4, PORT))?;
            listener.join_multicast_v4(&GROUP_4, &own)?;
            let sender = std::net::UdpSocket::bind((own, 0))?;
            sender.set_multicast_loop_v4(false)?;
            (listener, sender, SocketAddr::from((GROUP_4, PORT)))
        }
        IpAddr::V6(own) => {
            let scoped =
                |address, port| std::net::SocketAddrV6::new(address, port, 0, interface.index);
            let listener = std::net::UdpSocket::bind(scoped(GROUP_6, PORT))?;
            listener.join_multicast_v6(&GROUP_6, interface.index)?;
            let sender = std::net::UdpSocket::bind((own, 0))?;
            sender.set_multicast_loop_v6(false)?;
            (listener, sender, scoped(GROUP_6, PORT).into())
        }
    };
    for socket in [&listener, &sender] {
        socket.set_nonblocking(true)?;
    }
    Ok((
        UdpSocket::from_std(listener)?,
        UdpSocket::from_std(sender)?,
        group,
    ))
}

// === impl Keeper ===

impl AddressKeeper {
    /// Takes part until `shutdown`, then gives the address back once the server has let its
    /// clients go, a second later at the latest. The task ends once it has. `listeners` are the
    /// server's.
    pub fn start(
        self,
        api: Arc<Api>,
        listeners: Vec<Socket>,
        shutdown: CancellationToken,
    ) -> TaskHandle {
        task("control-plane-address")
            .until(&shutdown)
            .spawn_essential(self.run(api, listeners, shutdown.clone()))
    }

    async fn run(self, api: Arc<Api>, listeners: Vec<Socket>, shutdown: CancellationToken) {
        let stop = CancellationToken::new();
        let (tell, ready) = tokio::sync::watch::channel(Look::default());
        let looking = look(&api, tell, &stop);
        let taking_part = async {
            let stages = ShutdownStages {
                shutdown: &shutdown,
                draining: api.lifecycle.draining(),
                drained: api.lifecycle.drained(),
            };
            let on_change = |is_holder| match is_holder {
                true => api.lifecycle.restore(self.address),
                false => api.lifecycle.withdraw(self.address),
            };
            self.take_part(ready, &stages, &listeners, on_change).await;
            stop.cancel();
        };
        tokio::join!(looking, taking_part);
    }

    /// Calls `on_change` with `true` before this server takes the address, and with `false` after
    /// it has given it back.
    async fn take_part(
        &self,
        looks: tokio::sync::watch::Receiver<Look>,
        stages: &ShutdownStages<'_>,
        listeners: &[Socket],
        on_change: impl Fn(bool),
    ) {
        // An address that a killed process left: this server drops it until it decides to
        // take it.
        if let Err(error) = self.interface.remove(self.address).await {
            tracing::warn!(%error, address = %self.address, "failed to remove the control plane address");
        }
        let began = Instant::now();
        let mut peers = Peers::new(began);
        let mut readiness = OwnReadiness::default();
        let mut is_holder = false;
        let mut ticked = began;
        let mut announced = began;
        let mut sequence = 0;
        let mut drains_since = None;
        let mut inbox = Inbox::new(&self.listener, &self.key, self.id, EVERY);
        loop {
            tokio::select! {
                biased;
                () = stages.shutdown.cancelled(), if !is_holder => break,
                () = stages.drained.cancelled() => break,
                () = stages.draining.cancelled(), if drains_since.is_none() => {
                    drains_since = Some(Instant::now());
                    self.ignore_new_connections(listeners);
                    continue;
                }
                event = inbox.next() => {
                    if let Event::Heard(advert) = event {
                        peers.hear(advert, Instant::now());
                        continue;
                    }
                }
            }
            let now = Instant::now();
            if drains_since.is_some_and(|since| now - since >= DRAIN) {
                break;
            }
            peers.forget_silent(now);
            let look = *looks.borrow();
            let own = OwnState {
                id: self.id,
                is_ready: readiness.update(look, is_holder, now),
                is_holder,
                listened: now - began,
                was_silent: now - ticked >= SILENCE,
            };
            ticked = now;
            let wanted = holds(own, &peers.all());
            if wanted != is_holder {
                is_holder = self.change(wanted, &on_change).await;
                announced = now;
            } else if is_holder && now - announced >= ANNOUNCE {
                announced = now;
                self.announce().await;
            }
            sequence += 1;
            let advert = Advert {
                id: self.id,
                sequence,
                is_ready: own.is_ready,
                is_holder,
                leaves: false,
            };
            self.tell(advert).await;
        }
        if is_holder {
            self.change(false, &on_change).await;
        }
        // The others need not wait until they miss this server.
        let advert = Advert {
            id: self.id,
            sequence: sequence + 1,
            is_ready: false,
            is_holder: false,
            leaves: true,
        };
        self.tell(advert).await;
    }

    /// Clients that connect to the address while connections end reach the next server.
    fn ignore_new_connections(&self, listeners: &[Socket]) {
        for listener in listeners {
            if let Err(error) = syn_filter::ignore_new_connections(listener, self.address) {
                tracing::warn!(%error, address = %self.address, "failed to filter new connections");
            }
        }
    }

    async fn tell(&self, advert: Advert) {
        let Some(bytes) = advert.seal(&self.key) else {
            return;
        };
        if let Err(error) = self.sender.send_to(&bytes, self.group).await {
            // A cable that is pulled, or no route yet.
            tracing::debug!(%error, "failed to send to the other servers");
        }
    }

    /// Takes the address or gives it back; returns whether this server has it then.
    async fn change(&self, take: bool, on_change: impl Fn(bool)) -> bool {
        let (address, interface) = (self.address, self.interface.name.as_str());
        if take {
            on_change(true);
        }
        let done = match take {
            true => self.interface.add(address).await,
            false => self.interface.remove(address).await,
        };
        match done {
            Ok(()) if take => {
                tracing::info!(%address, interface, "acquired the control plane address");
                self.announce().await;
                true
            }
            Ok(()) => {
                tracing::info!(%address, interface, "released the control plane address");
                on_change(false);
                false
            }
            Err(error) => {
                tracing::error!(%error, %address, interface, take, "failed to manage the control plane address");
                !take
            }
        }
    }

    async fn announce(&self) {
        let told = node_agent_announce::l2::announce_once(&self.interface.name, self.address).await;
        if let Err(error) = told {
            tracing::warn!(%error, address = %self.address, "failed to announce the control plane address");
        }
    }
}

/// The other servers.
struct Peers {
    heard: BTreeMap<u64, (Advert, Instant)>,
    /// Servers that went silent, and when each was heard last.
    silent: BTreeMap<u64, Instant>,
    limit: SilenceLimit,
}

impl Peers {
    const fn new(now: Instant) -> Self {
        Self {
            heard: BTreeMap::new(),
            silent: BTreeMap::new(),
            limit: SilenceLimit::new(now),
        }
    }

    fn hear(&mut self, advert: Advert, now: Instant) {
        let known = self.heard.get(&advert.id);
        if known.is_some_and(|(known, _)| advert.sequence <= known.sequence) {
            return;
        }
        if let Some(last) = self.silent.remove(&advert.id) {
            self.limit.heard_again(now - last, now);
        }
        if advert.leaves {
            self.heard.remove(&advert.id);
        } else {
            self.heard.insert(advert.id, (advert, now));
        }
    }

    fn forget_silent(&mut self, now: Instant) {
        self.limit.elapse(now);
        let limit = self.limit.get();
        let silent = &mut self.silent;
        self.heard.retain(|id, (_, heard)| {
            let is_heard = now - *heard < limit;
            if !is_heard {
                silent.insert(*id, *heard);
            }
            is_heard
        });
        // Each start of a server has an id of its own.
        self.silent.retain(|_, last| now - *last < FORGOTTEN);
    }

    fn all(&self) -> Vec<Peer> {
        let adverts = self.heard.values();
        adverts.map(|(advert, _)| advert.peer()).collect()
    }
}

/// Looks again and again whether the server is ready.
async fn look(api: &Api, tell: tokio::sync::watch::Sender<Look>, stop: &CancellationToken) {
    loop {
        let looked = tokio::time::timeout(PATIENCE, api.health().is_ready()).await;
        tell.send_replace(Look {
            is_ready: looked.unwrap_or(false),
            is_stopping: api.lifecycle.is_stopping(),
        });
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}
