//! BGP: tells routers the ways to addresses. A task a peer keeps a session up.

pub mod message;
pub mod routes;
pub mod session;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_client::{Client, resources};
use control_load_balancer::{BgpPeerSpec, PASSWORD_NAMESPACE, PasswordSecret, PeerStatus, Text};
use control_types::error_chain;
use nix::sys::socket::{setsockopt, sockopt};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use self::routes::Routes;
use self::session::{NextHops, Session, SessionEnd, Setting, State};
use crate::metrics::Metrics;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// The time limit for a peer to read pending data.
const STUCK: Duration = Duration::from_secs(30);
/// How long a last message may take to be sent.
const PARTING: Duration = Duration::from_secs(1);

/// A parsed peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    address: SocketAddr,
    source: Option<IpAddr>,
    multi_hop: bool,
    retry: Duration,
    password: Option<PasswordSecret>,
    setting: Setting,
    node: Vec<IpAddr>,
}

/// The reason why there is no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address in the object is none.
    #[error("`{text}` in {field} is no IP address")]
    Address {
        /// The field.
        field: &'static str,
        /// The value.
        text: String,
    },
    /// The node has no IPv4 address and the object no identifier.
    #[error("the node has no IPv4 address to be its BGP identifier: set routerID")]
    NoRouterId,
    /// The password cannot be had.
    #[error(
        "cannot read the password in Secret kube-system/{name}: create it, and let this node read it"
    )]
    Secret {
        /// The Secret.
        name: Text,
        /// The API server's error.
        #[source]
        source: control_client::Error,
    },
    /// The Secret lacks the key.
    #[error(
        "Secret kube-system/{name} has no usable key `{key}`: put the password there, at most 80 bytes"
    )]
    Password {
        /// The Secret.
        name: Text,
        /// The key.
        key: Text,
    },
    /// No connection.
    #[error("cannot connect to {address}")]
    Connect {
        /// The peer.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection was lost")]
    Lost(#[source] io::Error),
    /// The session ended.
    #[error(transparent)]
    Ended(SessionEnd),
}

impl Peer {
    /// Returns the peer of an object, for a node with these addresses.
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::NoRouterId`].
    pub fn from_spec(spec: &BgpPeerSpec, node: &[IpAddr]) -> Result<Self, Error> {
        let address = |field: &'static str, text: &str| {
            let parsed: Result<IpAddr, _> = text.parse();
            parsed.map_err(|_| Error::Address {
                field,
                text: text.to_owned(),
            })
        };
        let peer = address("peerAddress", &spec.peer_address)?;
        let source = spec.source_address.as_deref();
        let source = source
            .map(|text| address("sourceAddress", text))
            .transpose()?;
        let first_v4 = || {
            node.iter().find_map(|address| match address {
                IpAddr::V4(it) => Some(*it),
                IpAddr::V6(_) => None,
            })
        };
        let router_id: Ipv4Addr = match spec.router_id.as_deref() {
            Some(text) => text.parse().map_err(|_| Error::Address {
                field: "routerID",
                text: text.to_owned(),
            })?,
            None => first_v4().ok_or(Error::NoRouterId)?,
        };
        Ok(Self {
            address: SocketAddr::new(peer, spec.peer_port.unwrap_or(179)),
            source,
            multi_hop: spec.ebgp_multi_hop.unwrap_or(false),
            retry: Duration::from_secs(u64::from(spec.connect_retry_seconds.unwrap_or(5).max(1))),
            password: spec.password_secret.clone(),
            setting: Setting {
                asn: spec.my_asn,
                peer_asn: spec.peer_asn,
                hold_time: spec.hold_time_seconds.unwrap_or(90),
                router_id,
                restart_time: spec.restart_time_seconds.unwrap_or(120),
            },
            node: node.to_vec(),
        })
    }
}

/// The state of sessions by peer name.
pub type Statuses = BTreeMap<Text, PeerStatus>;

/// Runs the sessions with all peers.
pub struct Speaker {
    client: Client,
    metrics: Metrics,
    statuses: watch::Sender<Statuses>,
    running: BTreeMap<Text, RunningSession>,
    /// Ends sessions as an agent that restarts does.
    shutdown: CancellationToken,
}

struct RunningSession {
    peer: Peer,
    routes: watch::Sender<Arc<Routes>>,
    /// Ends it permanently, also when this is dropped.
    end: DropGuard,
    task: control_supervise::TaskHandle,
}

impl Speaker {
    /// Without any session yet.
    #[must_use]
    pub fn new(client: Client, metrics: Metrics, shutdown: CancellationToken) -> Self {
        Self {
            client,
            metrics,
            statuses: watch::Sender::default(),
            running: BTreeMap::new(),
            shutdown,
        }
    }

    /// How the sessions are, from now on.
    #[must_use]
    pub fn statuses(&self) -> watch::Receiver<Statuses> {
        self.statuses.subscribe()
    }

    /// Starts and ends sessions so that exactly these peers have one, and advertises each
    /// peer's routes. Problems of a peer are in its status.
    pub async fn bring(&mut self, wanted: BTreeMap<Text, (Result<Peer, Error>, Routes)>) {
        let gone: Vec<Text> = self
            .running
            .iter()
            .filter(|(name, running)| {
                let peer = wanted.get(*name).and_then(|(peer, _)| peer.as_ref().ok());
                peer != Some(&running.peer) || running.task.is_finished()
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(running) = self.running.remove(&name) {
                drop(running.end);
                running.task.await;
                if !wanted.contains_key(&name) {
                    self.metrics.forget(&name);
                }
            }
        }
        self.statuses.send_if_modified(|statuses| {
            let before = statuses.clone();
            statuses.retain(|name, _| wanted.contains_key(name));
            for (name, (peer, _)) in &wanted {
                if let Err(error) = peer {
                    let status = PeerStatus {
                        state: "Idle".into(),
                        advertised: 0,
                        error: Some(error_chain(error)),
                    };
                    statuses.insert(name.clone(), status);
                }
            }
            before != *statuses
        });
        for (name, (peer, routes)) in wanted {
            let Ok(peer) = peer else { continue };
            if let Some(running) = self.running.get(&name) {
                running.routes.send_if_modified(|known| {
                    let other = **known != routes;
                    if other {
                        *known = Arc::new(routes);
                    }
                    other
                });
                continue;
            }
            let (sender, receiver) = watch::channel(Arc::new(routes));
            let end = self.shutdown.child_token();
            let task = control_supervise::task("bgp-session").detail(&*name);
            let first = Arc::new(AtomicBool::new(true));
            let keeper = {
                let (name, peer, end) = (name.clone(), peer.clone(), end.clone());
                let (client, metrics) = (self.client.clone(), self.metrics.clone());
                let (statuses, shutdown) = (self.statuses.clone(), self.shutdown.clone());
                move || SessionKeeper {
                    name: name.clone(),
                    peer: peer.clone(),
                    routes: receiver.clone(),
                    client: client.clone(),
                    metrics: metrics.clone(),
                    statuses: statuses.clone(),
                    shutdown: shutdown.clone(),
                    end: end.clone(),
                    first: Arc::clone(&first),
                    said: Mutex::default(),
                    has_ended: false,
                }
            };
            // The connection is lost with the task; the peer keeps routes as after a
            // restart of the agent.
            let task = task.until(&end).spawn_restarting(move || keeper().run());
            self.running.insert(
                name,
                RunningSession {
                    peer,
                    routes: sender,
                    end: end.drop_guard(),
                    task,
                },
            );
        }
    }

    /// Waits until all sessions ended after shutdown.
    pub async fn ended(self) {
        for running in self.running.into_values() {
            running.task.await;
        }
    }
}

/// Keeps the session with one peer established.
struct SessionKeeper {
    name: Text,
    peer: Peer,
    routes: watch::Receiver<Arc<Routes>>,
    client: Client,
    metrics: Metrics,
    statuses: watch::Sender<Statuses>,
    shutdown: CancellationToken,
    /// The shutdown, or the end of this peer.
    end: CancellationToken,
    /// No session of this process was up yet.
    first: Arc<AtomicBool>,
    /// The last log message.
    said: Mutex<String>,
    /// Whether the task returned, and did not panic.
    has_ended: bool,
}

impl Drop for SessionKeeper {
    fn drop(&mut self) {
        if !self.has_ended {
            self.metrics.session(&self.name, false);
            self.tell("Idle", 0, Some("the session's task failed".to_owned()));
        }
    }
}

/// The reason why a session is stopped.
enum Stop {
    /// The agent ends; routes are to stay.
    Shutdown,
    /// The peer was removed or changed.
    Removed,
}

impl SessionKeeper {
    async fn run(mut self) {
        loop {
            self.tell("Connect", 0, None);
            let ended = self.session().await;
            self.metrics.session(&self.name, false);
            let Err(error) = ended else { break };
            let text = error_chain(&error);
            self.tell("Idle", 0, Some(text.clone()));
            let news = {
                let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *said, text.clone()) != text
            };
            if news {
                warn!(peer = %self.name, address = %self.peer.address, error = text, "BGP session failed; retrying");
            }
            tokio::select! {
                () = self.end.cancelled() => break,
                () = tokio::time::sleep(self.peer.retry) => {}
            }
        }
        self.has_ended = true;
    }

    /// The reason why [`SessionKeeper::end`] is cancelled.
    fn stop(&self) -> Stop {
        if self.shutdown.is_cancelled() {
            Stop::Shutdown
        } else {
            Stop::Removed
        }
    }

    fn tell(&self, state: &str, advertised: usize, error: Option<String>) {
        let status = PeerStatus {
            state: state.into(),
            advertised: u32::try_from(advertised).unwrap_or(u32::MAX),
            error,
        };
        self.statuses.send_if_modified(|all| {
            let known = all.get(&self.name);
            // An attempt is no news while the last one's failure is shown.
            let trying = state == "Connect" && known.is_some_and(|known| known.error.is_some());
            let other = !trying && known != Some(&status);
            if other {
                all.insert(self.name.clone(), status);
            }
            other
        });
    }

    /// One session, from the call to its end; `Ok` when it was to end.
    async fn session(&mut self) -> Result<(), Error> {
        let stream = tokio::select! {
            () = self.end.cancelled() => return Ok(()),
            stream = self.connect() => stream?,
        };
        let local = stream.local_addr().map_err(Error::Lost)?.ip();
        let next_hops = NextHops::for_connection(local, self.peer.node.iter().copied());
        let routes = self.routes.borrow_and_update().as_ref().clone();
        let setting = self.peer.setting.clone();
        let first = self.first.load(Ordering::Relaxed);
        let session = Session::open(setting, next_hops, first, routes, Instant::now());
        let mut session = session.map_err(Error::Ended)?;
        self.speak(&mut session, stream).await
    }

    async fn speak(&mut self, session: &mut Session, mut stream: TcpStream) -> Result<(), Error> {
        let mut buffer = vec![0_u8; 16 * 1024];
        let mut up = false;
        loop {
            if !session.out.is_empty() {
                let out = std::mem::take(&mut session.out);
                // A peer that does not read counts as gone.
                match tokio::time::timeout(STUCK, stream.write_all(&out)).await {
                    Ok(written) => written.map_err(Error::Lost)?,
                    Err(_) => return Err(Error::Lost(io::ErrorKind::TimedOut.into())),
                }
            }
            if session.state() == State::Established {
                if !up {
                    up = true;
                    self.first.store(false, Ordering::Relaxed);
                    self.said
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .clear();
                    info!(peer = %self.name, address = %self.peer.address, "BGP session established");
                    self.metrics.session(&self.name, true);
                }
                self.metrics.record_update(
                    &self.name,
                    session.advertised(),
                    std::mem::take(&mut session.updates),
                );
                self.tell("Established", session.advertised(), None);
            }
            let tick = session.next_tick();
            let event = tokio::select! {
                () = self.end.cancelled() => Err(self.stop()),
                read = stream.read(&mut buffer) => match read {
                    Ok(0) => return Err(Error::Lost(io::ErrorKind::UnexpectedEof.into())),
                    Ok(size) => Ok(session.receive(&buffer[..size], Instant::now())),
                    Err(error) => return Err(Error::Lost(error)),
                },
                changed = self.routes.changed() => match changed {
                    Ok(()) => {
                        let routes = self.routes.borrow_and_update().as_ref().clone();
                        Ok(session.want(routes, Instant::now()))
                    }
                    Err(_) => Err(Stop::Removed),
                },
                () = until(tick) => Ok(session.tick(Instant::now())),
            };
            match event {
                Ok(Ok(())) => {}
                Ok(Err(ended)) => {
                    part(session, &mut stream).await;
                    return Err(Error::Ended(ended));
                }
                Err(stop) => {
                    match stop {
                        // Without a word: with graceful restart the routes stay.
                        Stop::Shutdown if self.peer.setting.restart_time > 0 => {}
                        Stop::Shutdown => session.cease(2),
                        Stop::Removed => session.cease(3),
                    }
                    part(session, &mut stream).await;
                    return Ok(());
                }
            }
        }
    }

    async fn connect(&self) -> Result<TcpStream, Error> {
        let address = self.peer.address;
        let failed = |source| Error::Connect { address, source };
        let password = self.password().await?;
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        };
        let socket = socket.map_err(failed)?;
        if let Some(password) = password {
            crate::sys::sign_segments(socket.as_fd(), address.ip(), &password).map_err(failed)?;
        }
        let external = self.peer.setting.asn != self.peer.setting.peer_asn;
        if external && !self.peer.multi_hop {
            // A neighbour is one hop away; who is not is not meant (RFC 4271, 5.1.3).
            let set = if address.is_ipv4() {
                setsockopt(&socket, sockopt::Ipv4Ttl, &1)
            } else {
                setsockopt(&socket, sockopt::Ipv6Ttl, &1)
            };
            set.map_err(|error| failed(error.into()))?;
        }
        if let Some(source) = self.peer.source {
            socket.bind(SocketAddr::new(source, 0)).map_err(failed)?;
        }
        let stream = match tokio::time::timeout(CONNECT, socket.connect(address)).await {
            Ok(stream) => stream.map_err(failed)?,
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        };
        stream.set_nodelay(true).map_err(failed)?;
        Ok(stream)
    }

    async fn password(&self) -> Result<Option<Vec<u8>>, Error> {
        #[derive(Deserialize)]
        struct Secret {
            data: Option<BTreeMap<String, String>>,
        }
        let Some(PasswordSecret { name, key }) = &self.peer.password else {
            return Ok(None);
        };
        let secret: Secret = self
            .client
            .get(&resources::SECRETS, PASSWORD_NAMESPACE, name)
            .await
            .map_err(|source| Error::Secret {
                name: name.clone(),
                source,
            })?;
        let value = secret.data.and_then(|mut data| data.remove(key.as_str()));
        let password = value.and_then(|text| STANDARD.decode(text).ok());
        password
            .filter(|it| (1..=crate::sys::LONGEST_PASSWORD).contains(&it.len()))
            .map(Some)
            .ok_or_else(|| Error::Password {
                name: name.clone(),
                key: key.clone(),
            })
    }
}

/// Sends pending data.
async fn part(session: &mut Session, stream: &mut TcpStream) {
    let out = std::mem::take(&mut session.out);
    if !out.is_empty() {
        let _ = tokio::time::timeout(PARTING, async {
            stream.write_all(&out).await?;
            stream.shutdown().await
        })
        .await;
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use control_client::RequestBody;
    use control_supervise::Supervisor;
    use http::{Request, Response};
    use http_body_util::Empty;
    use tokio::net::TcpListener;

    use super::*;

    fn client() -> Client {
        let service = tower::service_fn(|_: Request<RequestBody>| async {
            Ok::<_, Infallible>(Response::new(Empty::new()))
        });
        Client::in_process(service, ())
    }

    #[tokio::test]
    async fn a_session_whose_task_panics_is_reported_as_down_and_calls_again() {
        let supervisor = Supervisor::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let spec = BgpPeerSpec {
            my_asn: 65001,
            peer_asn: 65001,
            peer_address: "127.0.0.1".into(),
            peer_port: Some(port),
            router_id: Some("192.0.2.1".into()),
            ..BgpPeerSpec::default()
        };
        let peer = Peer::from_spec(&spec, &[]).expect("a peer");
        let shutdown = CancellationToken::new();
        let test = async {
            let mut speaker = Speaker::new(client(), Metrics::default(), shutdown.clone());
            let mut statuses = speaker.statuses();
            let wanted =
                |peer: &Peer| BTreeMap::from([("p".into(), (Ok(peer.clone()), Routes::default()))]);
            speaker.bring(wanted(&peer)).await;
            let (mut first, _) = listener.accept().await.expect("a call");
            let mut open = [0; 19];
            first.read_exact(&mut open).await.expect("a message");
            assert_eq!(supervisor.panic("bgp-session"), 1);
            let down = |all: &Statuses| {
                let status = all.get("p").and_then(|status| status.error.as_deref());
                status == Some("the session's task failed")
            };
            statuses.wait_for(down).await.expect("a status");
            let (mut second, _) = listener.accept().await.expect("another call");
            second.read_exact(&mut open).await.expect("a message");
            assert_eq!(supervisor.failure(), None, "the process goes on");
            // Neither a removal nor a shutdown waits for a restart.
            assert_eq!(supervisor.panic("bgp-session"), 1);
            statuses.wait_for(down).await.expect("a status");
            speaker.bring(BTreeMap::new()).await;
            speaker.bring(wanted(&peer)).await;
            let _third = listener.accept().await.expect("a call");
            shutdown.cancel();
            speaker.ended().await;
        };
        let test = supervisor.scope(test);
        tokio::time::timeout(Duration::from_secs(30), test)
            .await
            .expect("in time");
        assert!(supervisor.names().is_empty(), "no task is left");
    }
}
