//! A session with a peer: the state machine of RFC 4271, 8, without its I/O. The input is
//! bytes, times and routes; the output is what to send.
//!
//! We connect and do not listen. That avoids the port and collisions of connections
//! (6.8), and a router with passive neighbours is the usual other side.
//!
//! # Restarts (RFC 4724)
//!
//! The datapath works while the agent is away, so peers are asked to keep our routes for
//! that time: OPEN announces that forwarding was preserved, and the first one of a
//! process that it restarted. A terminating agent closes connections without a
//! notification, which would withdraw the routes, too. No session is opened before all
//! routes are known; then all are advertised, followed by End-of-RIB, at which the peer
//! removes stale routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::message::{
    self, Fault, HEADER, Kind, LocalOpen, PeerOpening, UpdateEncoding, WriteError,
};
use super::routes::{Routes, diff};

/// How long the peer may take to answer our opening (RFC 4271, 8.2.2: four minutes;
/// who answers so late is not there).
const OPENING: Duration = Duration::from_secs(30);

/// Settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Our autonomous system.
    pub asn: u32,
    /// The peer's.
    pub peer_asn: u32,
    /// Seconds; 0 for never.
    pub hold_time: u16,
    /// Our identifier.
    pub router_id: Ipv4Addr,
    /// Seconds; 0 for no graceful restart.
    pub restart_time: u16,
}

/// The next hops: the own addresses of a connection and a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextHops {
    /// For IPv4.
    pub v4: Option<Ipv4Addr>,
    /// For IPv6.
    pub v6: Option<Ipv6Addr>,
}

impl NextHops {
    /// The address of the connection, and the node's for the other family.
    #[must_use]
    pub fn for_connection(connection: IpAddr, node: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut it = Self::default();
        let nodes = node.into_iter();
        for address in std::iter::once(connection).chain(nodes) {
            match address {
                IpAddr::V4(v4) => it.v4 = it.v4.or(Some(v4)),
                IpAddr::V6(v6) if !v6.is_unicast_link_local() => it.v6 = it.v6.or(Some(v6)),
                IpAddr::V6(_) => {}
            }
        }
        it
    }
}

/// The reason why a session ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionEnd {
    /// The peer said so.
    #[error("the peer ended the session: {0}")]
    ByPeer(Fault),
    /// The peer violated the protocol and was notified.
    #[error("the session was ended: {0}")]
    ByUs(Fault),
    /// The peer is of another autonomous system.
    #[error("the peer is of AS {found}, not of AS {wanted}: correct peerASN")]
    PeerAsn {
        /// The received value.
        found: u32,
        /// The configured value.
        wanted: u32,
    },
    /// The peer cannot read our number.
    #[error("the peer knows no AS numbers of four bytes (RFC 6793), and ours is one")]
    NoFourOctets,
    /// Our fault.
    #[error(transparent)]
    Write(WriteError),
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// We opened.
    OpenSent,
    /// So did the peer.
    OpenConfirm,
    /// Established: routes are advertised.
    Established,
}

/// A session over one connection.
#[derive(Debug)]
pub struct Session {
    setting: Setting,
    next_hops: NextHops,
    state: State,
    received: Vec<u8>,
    /// The data to send.
    pub out: Vec<u8>,
    /// The advertised routes.
    told: Routes,
    /// The desired routes.
    wanted: Routes,
    peer: Option<PeerOpening>,
    /// Negotiated; zero for never.
    hold: Duration,
    heard: Instant,
    spoke: Instant,
    /// How many updates were written.
    pub updates: usize,
}

impl Session {
    /// Opens a session; `restarted` says whether it is the first of this process.
    ///
    /// # Errors
    /// [`SessionEnd::Write`].
    pub fn open(
        setting: Setting,
        next_hops: NextHops,
        restarted: bool,
        wanted: Routes,
        now: Instant,
    ) -> Result<Self, SessionEnd> {
        let out = message::open(&LocalOpen {
            asn: setting.asn,
            hold_time: setting.hold_time,
            router_id: setting.router_id,
            restart_time: setting.restart_time,
            restarted,
        })
        .map_err(SessionEnd::Write)?;
        Ok(Self {
            setting,
            next_hops,
            state: State::OpenSent,
            received: Vec::new(),
            out,
            told: Routes::new(),
            wanted,
            peer: None,
            hold: OPENING,
            heard: now,
            spoke: now,
            updates: 0,
        })
    }

    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the number of routes that were advertised and that the peer supports.
    #[must_use]
    pub fn advertised(&self) -> usize {
        let writing = self.writing();
        let can = |net: &&ipnet::IpNet| match net {
            ipnet::IpNet::V4(_) => writing.next_hop_v4.is_some(),
            ipnet::IpNet::V6(_) => writing.next_hop_v6.is_some(),
        };
        self.told.keys().filter(can).count()
    }

    /// Processes received bytes.
    ///
    /// # Errors
    /// Why the session is over; `out` is to be sent regardless.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) -> Result<(), SessionEnd> {
        self.received.extend(bytes);
        let mut at = 0;
        let result = loop {
            let Some(head) = self.received.get(at..at + HEADER) else {
                break Ok(());
            };
            let mut fixed = [0; HEADER];
            fixed.copy_from_slice(head);
            let (kind, size) = match message::header(&fixed) {
                Ok(read) => read,
                Err(fault) => break Err(self.refuse(fault)),
            };
            let from = at + HEADER;
            let Some(body) = self.received.get(from..from + size) else {
                break Ok(());
            };
            let body = body.to_vec();
            at = from + size;
            self.heard = now;
            if let Err(ended) = self.handle(kind, &body, now) {
                break Err(ended);
            }
        };
        self.received.drain(..at);
        result
    }

    fn handle(&mut self, kind: Kind, body: &[u8], now: Instant) -> Result<(), SessionEnd> {
        match (self.state, kind) {
            (_, Kind::Notification) => {
                let byte = |at: usize| body.get(at).copied().unwrap_or_default();
                Err(SessionEnd::ByPeer(Fault::new(byte(0), byte(1))))
            }
            (State::OpenSent, Kind::Open) => {
                let peer = match message::read_open(body) {
                    Ok(peer) => peer,
                    Err(fault) => return Err(self.refuse(fault)),
                };
                self.accept(peer)?;
                self.send(&message::keepalive(), now);
                Ok(())
            }
            (State::OpenConfirm, Kind::Keepalive) => {
                self.state = State::Established;
                self.tell(now)?;
                let ends = message::ends(&self.writing()).map_err(SessionEnd::Write)?;
                for end in ends {
                    self.send(&end, now);
                }
                Ok(())
            }
            // We take no routes, so nothing in them matters.
            (State::Established, Kind::Keepalive | Kind::Update) => Ok(()),
            (State::Established, Kind::RouteRefresh) => {
                self.told.clear();
                self.tell(now)
            }
            (State::OpenSent, _) => Err(self.refuse(Fault::new(5, 1))),
            (State::OpenConfirm, _) => Err(self.refuse(Fault::new(5, 2))),
            (State::Established, Kind::Open) => Err(self.refuse(Fault::new(5, 3))),
        }
    }

    fn accept(&mut self, peer: PeerOpening) -> Result<(), SessionEnd> {
        if peer.asn != self.setting.peer_asn {
            self.refuse(Fault::new(2, 2));
            return Err(SessionEnd::PeerAsn {
                found: peer.asn,
                wanted: self.setting.peer_asn,
            });
        }
        if !peer.four_octets && self.setting.asn > 0xffff {
            self.refuse(Fault::new(2, 7));
            return Err(SessionEnd::NoFourOctets);
        }
        let internal = peer.asn == self.setting.asn;
        if internal && peer.router_id == self.setting.router_id {
            return Err(self.refuse(Fault::new(2, 3)));
        }
        let hold = self.setting.hold_time.min(peer.hold_time);
        self.hold = Duration::from_secs(u64::from(hold));
        self.state = State::OpenConfirm;
        self.peer = Some(peer);
        Ok(())
    }

    /// The peer shall know these routes.
    ///
    /// # Errors
    /// [`SessionEnd::Write`].
    pub fn want(&mut self, routes: Routes, now: Instant) -> Result<(), SessionEnd> {
        self.wanted = routes;
        if self.state == State::Established {
            self.tell(now)?;
        }
        Ok(())
    }

    /// Time passed.
    ///
    /// # Errors
    /// The peer was silent for too long.
    pub fn tick(&mut self, now: Instant) -> Result<(), SessionEnd> {
        if !self.hold.is_zero() && now.saturating_duration_since(self.heard) >= self.hold {
            return Err(self.refuse(Fault::new(4, 0)));
        }
        let due = self.keepalive_after();
        if due.is_some_and(|due| now.saturating_duration_since(self.spoke) >= due) {
            self.send(&message::keepalive(), now);
        }
        Ok(())
    }

    /// When [`Session::tick`] has something to do.
    #[must_use]
    pub fn next_tick(&self) -> Option<Instant> {
        let dead = (!self.hold.is_zero()).then(|| self.heard + self.hold);
        let speak = self.keepalive_after().map(|after| self.spoke + after);
        dead.into_iter().chain(speak).min()
    }

    /// A third of the hold time (RFC 4271, 10).
    fn keepalive_after(&self) -> Option<Duration> {
        let negotiated = self.state != State::OpenSent && !self.hold.is_zero();
        negotiated.then(|| self.hold / 3)
    }

    /// Ends the session permanently: the peer removes our routes.
    pub fn cease(&mut self, subcode: u8) {
        self.out
            .extend(message::notification(Fault::new(6, subcode)));
    }

    fn refuse(&mut self, fault: Fault) -> SessionEnd {
        self.out.extend(message::notification(fault));
        SessionEnd::ByUs(fault)
    }

    fn send(&mut self, bytes: &[u8], now: Instant) {
        self.out.extend(bytes);
        self.spoke = now;
    }

    fn tell(&mut self, now: Instant) -> Result<(), SessionEnd> {
        let changes = diff(&self.told, &self.wanted);
        let updates = message::updates(&changes, &self.writing()).map_err(SessionEnd::Write)?;
        self.updates += updates.len();
        for update in updates {
            self.send(&update, now);
        }
        self.told = self.wanted.clone();
        Ok(())
    }

    fn writing(&self) -> UpdateEncoding {
        let peer = self.peer.as_ref();
        UpdateEncoding {
            asn: self.setting.asn,
            internal: self.setting.asn == self.setting.peer_asn,
            four_octets: peer.is_some_and(|peer| peer.four_octets),
            next_hop_v4: self
                .next_hops
                .v4
                .filter(|_| peer.is_some_and(|peer| peer.ipv4)),
            next_hop_v6: self
                .next_hops
                .v6
                .filter(|_| peer.is_some_and(|peer| peer.ipv6)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bgp::routes::Attributes;

    const SECOND: Duration = Duration::from_secs(1);

    fn setting(hold_time: u16) -> Setting {
        Setting {
            asn: 65001,
            peer_asn: 65002,
            hold_time,
            router_id: [1, 1, 1, 1].into(),
            restart_time: 120,
        }
    }

    fn routes(nets: &[&str]) -> Routes {
        nets.iter()
            .map(|net| (net.parse().unwrap(), Attributes::default()))
            .collect()
    }

    fn hops() -> NextHops {
        NextHops::for_connection([10, 0, 0, 1].into(), ["fd00::1".parse().unwrap()])
    }

    fn opened(now: Instant) -> Session {
        Session::open(
            setting(90),
            hops(),
            true,
            routes(&["10.1.0.1/32", "fd01::1/128"]),
            now,
        )
        .unwrap()
    }

    fn peer_open(asn: u32, hold_time: u16, router_id: [u8; 4]) -> Vec<u8> {
        let router_id = router_id.into();
        message::open(&LocalOpen {
            asn,
            hold_time,
            router_id,
            restart_time: 0,
            restarted: false,
        })
        .unwrap()
    }

    /// The kinds of all messages that are to be sent.
    fn sent(session: &mut Session) -> Vec<Kind> {
        let out = std::mem::take(&mut session.out);
        let mut rest = out.as_slice();
        let mut kinds = Vec::new();
        while !rest.is_empty() {
            let (kind, size) = message::header(rest[..HEADER].try_into().unwrap()).unwrap();
            kinds.push(kind);
            rest = &rest[HEADER + size..];
        }
        kinds
    }

    fn established(now: Instant) -> Session {
        let mut session = opened(now);
        session
            .receive(&peer_open(65002, 30, [2, 2, 2, 2]), now)
            .unwrap();
        session.receive(&message::keepalive(), now).unwrap();
        session
    }

    #[test]
    fn opening_leads_to_routes_and_their_end() {
        let now = Instant::now();
        let mut session = opened(now);
        assert_eq!(sent(&mut session), [Kind::Open]);
        // in pieces, as networks deliver
        for byte in peer_open(65002, 30, [2, 2, 2, 2]) {
            session.receive(&[byte], now).unwrap();
        }
        assert_eq!(session.state(), State::OpenConfirm);
        assert_eq!(sent(&mut session), [Kind::Keepalive]);
        session.receive(&message::keepalive(), now).unwrap();
        assert_eq!(session.state(), State::Established);
        // a route of each family, and the end of each
        assert_eq!(sent(&mut session), [Kind::Update; 4]);
        assert_eq!((session.advertised(), session.updates), (2, 2));
        session.want(routes(&["10.1.0.1/32"]), now).unwrap();
        assert_eq!(sent(&mut session), [Kind::Update], "only what changed");
        session.want(routes(&["10.1.0.1/32"]), now).unwrap();
        assert!(sent(&mut session).is_empty());
        session
            .receive(
                &[[0xff; 16].as_slice(), &[0, 23, 5, 0, 1, 0, 1]].concat(),
                now,
            )
            .unwrap();
        assert_eq!(sent(&mut session), [Kind::Update], "all again, if asked");
    }

    #[test]
    fn silence_ends_the_session_and_we_are_not_silent() {
        let now = Instant::now();
        let mut session = established(now);
        sent(&mut session);
        assert_eq!(
            session.next_tick(),
            Some(now + 10 * SECOND),
            "a third of the lesser"
        );
        session.tick(now + 9 * SECOND).unwrap();
        assert!(session.out.is_empty());
        session.tick(now + 10 * SECOND).unwrap();
        assert_eq!(sent(&mut session), [Kind::Keepalive]);
        session
            .receive(&message::keepalive(), now + 20 * SECOND)
            .unwrap();
        session.tick(now + 49 * SECOND).unwrap();
        let ended = session.tick(now + 50 * SECOND).unwrap_err();
        assert!(matches!(ended, SessionEnd::ByUs(Fault { code: 4, .. })));
        assert_eq!(sent(&mut session).last(), Some(&Kind::Notification));
        let mut unanswered = opened(now);
        assert!(unanswered.tick(now + OPENING).is_err());
    }

    #[test]
    fn peers_that_are_not_who_they_should_be_are_refused() {
        let now = Instant::now();
        let mut session = opened(now);
        let ended = session
            .receive(&peer_open(65003, 30, [2, 2, 2, 2]), now)
            .unwrap_err();
        assert!(matches!(
            ended,
            SessionEnd::PeerAsn {
                found: 65003,
                wanted: 65002
            }
        ));
        assert_eq!(sent(&mut session), [Kind::Open, Kind::Notification]);
        let internal = Setting {
            peer_asn: 65001,
            ..setting(90)
        };
        let mut session = Session::open(internal, hops(), false, Routes::new(), now).unwrap();
        let ended = session
            .receive(&peer_open(65001, 30, [1, 1, 1, 1]), now)
            .unwrap_err();
        assert!(matches!(
            ended,
            SessionEnd::ByUs(Fault {
                code: 2,
                subcode: 3
            })
        ));
        let large = Setting {
            asn: 4_200_000_000,
            ..setting(90)
        };
        let mut session = Session::open(large, hops(), false, Routes::new(), now).unwrap();
        let old = [
            [0xff; 16].as_slice(),
            &[0, 29, 1, 4, 0xfd, 0xea, 0, 90, 2, 2, 2, 2, 0],
        ]
        .concat();
        assert!(matches!(
            session.receive(&old, now).unwrap_err(),
            SessionEnd::NoFourOctets
        ));
    }

    #[test]
    fn messages_out_of_turn_end_the_session() {
        let now = Instant::now();
        for (bytes, subcode) in [
            (message::keepalive(), 1),
            (message::ends(&opened(now).writing()).unwrap().concat(), 1),
        ] {
            let mut session = opened(now);
            if bytes.is_empty() {
                continue;
            }
            let ended = session.receive(&bytes, now).unwrap_err();
            assert!(
                matches!(ended, SessionEnd::ByUs(Fault { code: 5, subcode: s }) if s == subcode)
            );
        }
        let mut session = established(now);
        assert!(
            session
                .receive(&peer_open(65002, 30, [2, 2, 2, 2]), now)
                .is_err()
        );
        let mut session = established(now);
        let ended = session
            .receive(&message::notification(Fault::new(6, 2)), now)
            .unwrap_err();
        assert!(
            ended.to_string().contains("shut down by the administrator"),
            "{ended}"
        );
        let mut session = established(now);
        assert!(session.receive(&[0; HEADER], now).is_err());
    }

    #[test]
    fn next_hops_are_own_addresses_of_each_family() {
        let node: Vec<IpAddr> = vec!["10.0.0.9".parse().unwrap(), "fd00::9".parse().unwrap()];
        let over_v6 = NextHops::for_connection("fd00::1".parse().unwrap(), node.clone());
        assert_eq!(over_v6.v4, Some([10, 0, 0, 9].into()));
        assert_eq!(over_v6.v6, Some("fd00::1".parse().unwrap()));
        let link_local = NextHops::for_connection("fe80::1".parse().unwrap(), node);
        assert_eq!(link_local.v6, Some("fd00::9".parse().unwrap()));
    }
}
