//! BGP messages: zettabgp encodes them, and decodes those that we read.
//!
//! Of the peers' messages only OPEN is decoded: we accept no routes, so updates are not
//! parsed, and nothing in them can do harm. The optional parameters of OPEN are validated
//! here first, byte by byte, before the library sees them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use zettabgp::BgpMessage as _;
use zettabgp::prelude::{
    BgpAddr, BgpAddrV4, BgpAddrV6, BgpAddrs, BgpAttrItem, BgpAttrOrigin, BgpAttrUnknown, BgpCapGR,
    BgpCapability, BgpCommunity, BgpCommunityList, BgpLocalpref, BgpMPUpdates, BgpMPWithdraws,
    BgpNextHop, BgpOpenMessage, BgpOrigin, BgpSessionParams, BgpTransportMode, BgpUpdateMessage,
};

use super::routes::{Attributes, Changes};

/// A message's header (RFC 4271, 4.1).
pub const HEADER: usize = 19;
/// The longest message.
pub const LONGEST: usize = 4096;
/// `AS_TRANS` (RFC 6793): represents a number that does not fit.
const AS_TRANS: u32 = 23456;
/// A segment of a path whose order counts (RFC 4271, 4.3).
const AS_SEQUENCE: u8 = 2;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The opening.
    Open,
    /// Routes.
    Update,
    /// The end, with a reason.
    Notification,
    /// A keepalive.
    Keepalive,
    /// All routes again (RFC 2918).
    RouteRefresh,
}

/// Code and subcode of a NOTIFICATION (RFC 4271, section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", describe(self.code, self.subcode))]
pub struct Fault {
    /// The error's code.
    pub code: u8,
    /// Its subcode.
    pub subcode: u8,
}

impl Fault {
    /// Returns the notification with this code.
    #[must_use]
    pub const fn new(code: u8, subcode: u8) -> Self {
        Self { code, subcode }
    }
}

/// A message could not be encoded: a fault of ours.
#[derive(Debug, thiserror::Error)]
#[error("cannot write a BGP message: {0}")]
pub struct WriteError(String);

/// Describes a notification.
#[must_use]
pub fn describe(code: u8, subcode: u8) -> String {
    let text = match (code, subcode) {
        (1, 1) => "the connection is not synchronised",
        (1, 2) => "a message has a wrong length",
        (1, 3) => "a message is of an unknown type",
        (1, _) => "a message's header is wrong",
        (2, 1) => "the BGP version is not supported",
        (2, 2) => {
            "the peer is of another autonomous system than configured: compare myASN and peerASN with the router's"
        }
        (2, 3) => "the BGP identifier is wrong: both may have the same; set routerID",
        (2, 6) => "the hold time is not acceptable",
        (2, 7) => "a capability is missing",
        (2, _) => "the opening is wrong",
        (3, _) => "an update is wrong",
        (4, _) => "the hold timer expired",
        (5, _) => "a message came that was not expected",
        (6, 1) => "the most prefixes were reached",
        (6, 2) => "shut down by the administrator",
        (6, 3) => "the peer was removed from the configuration",
        (6, 4) => "reset by the administrator",
        (6, 5) => "the connection was refused: the router may not know this node",
        (6, 6) => "the configuration changed",
        (6, 7) => "there were two connections",
        (6, 8) => "out of resources",
        (6, _) => "the session was ended",
        _ => "unknown reason",
    };
    format!("{text} (BGP error {code}/{subcode})")
}

/// Reads a header: the kind, and how many bytes follow.
///
/// # Errors
/// The fault to tell the peer.
pub fn header(bytes: &[u8; HEADER]) -> Result<(Kind, usize), Fault> {
    let (marker, rest) = bytes.split_at(16);
    if marker.iter().any(|byte| *byte != 0xff) {
        return Err(Fault::new(1, 1));
    }
    let length = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
    let (kind, least) = match rest[2] {
        1 => (Kind::Open, 29),
        2 => (Kind::Update, 23),
        3 => (Kind::Notification, 21),
        4 => (Kind::Keepalive, HEADER),
        5 => (Kind::RouteRefresh, 23),
        _ => return Err(Fault::new(1, 3)),
    };
    let fits = (least..=LONGEST).contains(&length) && (kind != Kind::Keepalive || length == HEADER);
    if !fits {
        return Err(Fault::new(1, 2));
    }
    Ok((kind, length - HEADER))
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff; 16];
    let length = u16::try_from(HEADER + body.len()).unwrap_or(u16::MAX);
    bytes.extend(length.to_be_bytes());
    bytes.push(kind);
    bytes.extend(body);
    bytes
}

/// A keepalive.
#[must_use]
pub fn keepalive() -> Vec<u8> {
    framed(4, &[])
}

/// A notification.
#[must_use]
pub fn notification(fault: Fault) -> Vec<u8> {
    framed(3, &[fault.code, fault.subcode])
}

/// The OPEN message that this speaker sends.
#[derive(Debug, Clone, Copy)]
pub struct LocalOpen {
    /// Our autonomous system.
    pub asn: u32,
    /// Seconds.
    pub hold_time: u16,
    /// Our identifier.
    pub router_id: Ipv4Addr,
    /// Seconds for which routes are to be kept while we are away; 0 for no graceful
    /// restart.
    pub restart_time: u16,
    /// Whether we were away: forwarding continued meanwhile (RFC 4724).
    pub restarted: bool,
}

/// Messages are encoded as over IPv4, even on other sessions: only then IPv4 routes are
/// where RFC 4271 expects them, and IPv6 routes where RFC 4760 does.
fn parameters(asn: u32, four_octets: bool) -> BgpSessionParams {
    let any = Ipv4Addr::UNSPECIFIED;
    let mut it = BgpSessionParams::new(asn, 0, BgpTransportMode::IPv4, any, Vec::new());
    it.has_as32bit = four_octets;
    it.fuzzy_pathid = false;
    it
}

/// The opening.
///
/// # Errors
/// [`WriteError`].
pub fn open(opening: &LocalOpen) -> Result<Vec<u8>, WriteError> {
    let mut caps = vec![
        BgpCapability::SafiIPv4u,
        BgpCapability::SafiIPv6u,
        BgpCapability::CapRR,
        BgpCapability::CapASN32(opening.asn),
    ];
    if opening.restart_time > 0 {
        let family = |afi| BgpCapGR {
            afi,
            safi: 1,
            forwarding_state: true,
        };
        caps.push(BgpCapability::CapGR {
            restart_time: opening.restart_time.min(0x0fff),
            restart_state: opening.restarted,
            afis: vec![family(1), family(2)],
        });
    }
    let message = BgpOpenMessage {
        as_num: if opening.asn > 0xffff {
            AS_TRANS
        } else {
            opening.asn
        },
        hold_time: opening.hold_time,
        router_id: opening.router_id,
        caps,
    };
    let mut body = vec![0; LONGEST - HEADER];
    let size = message
        .encode_to(&parameters(opening.asn, true), &mut body)
        .map_err(|error| WriteError(error.to_string()))?;
    body.truncate(size);
    Ok(framed(1, &body))
}

/// The OPEN message of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerOpening {
    /// Its autonomous system.
    pub asn: u32,
    /// Seconds.
    pub hold_time: u16,
    /// Its identifier.
    pub router_id: Ipv4Addr,
    /// Whether numbers of autonomous systems have four bytes (RFC 6793).
    pub four_octets: bool,
    /// Whether it takes IPv4 routes.
    pub ipv4: bool,
    /// Whether it takes IPv6 routes.
    pub ipv6: bool,
    /// Whether it keeps our routes while we restart (RFC 4724).
    pub keeps_routes: bool,
}

/// Reads an opening.
///
/// # Errors
/// The fault to tell the peer.
pub fn read_open(body: &[u8]) -> Result<PeerOpening, Fault> {
    if body.first() != Some(&4) {
        return Err(Fault::new(2, 1));
    }
    check_parameters(body)?;
    let mut message = BgpOpenMessage::new();
    message
        .decode_from(&parameters(0, true), body)
        .map_err(|_| Fault::new(2, 0))?;
    let mut peer = PeerOpening {
        asn: message.as_num,
        hold_time: message.hold_time,
        router_id: message.router_id,
        four_octets: false,
        ipv4: false,
        ipv6: false,
        keeps_routes: false,
    };
    let mut says_families = false;
    for capability in &message.caps {
        match capability {
            BgpCapability::CapASN32(asn) => {
                peer.asn = *asn;
                peer.four_octets = true;
            }
            BgpCapability::SafiIPv4u => peer.ipv4 = true,
            BgpCapability::SafiIPv6u => peer.ipv6 = true,
            BgpCapability::CapGR { .. } => peer.keeps_routes = true,
            _ => {}
        }
    }
    for code in capabilities(body) {
        says_families |= code == 1;
    }
    // A peer that announces no families supports IPv4 (RFC 4760, 8).
    peer.ipv4 |= !says_families;
    if matches!(message.hold_time, 1 | 2) {
        return Err(Fault::new(2, 6));
    }
    if message.router_id.is_unspecified() {
        return Err(Fault::new(2, 3));
    }
    Ok(peer)
}

/// Whether all optional parameters, and all capabilities in them, end where they say.
fn check_parameters(body: &[u8]) -> Result<(), Fault> {
    let wrong = Fault::new(2, 0);
    let (length, mut rest) = body
        .get(9..)
        .and_then(|rest| rest.split_first())
        .ok_or(wrong)?;
    if rest.len() != usize::from(*length) {
        return Err(wrong);
    }
    while let [kind, size, after @ ..] = rest {
        if *kind != 2 {
            return Err(Fault::new(2, 4));
        }
        let mut inside = after.get(..usize::from(*size)).ok_or(wrong)?;
        rest = after.get(usize::from(*size)..).ok_or(wrong)?;
        while let [code, size, after @ ..] = inside {
            let data = after.get(..usize::from(*size)).ok_or(wrong)?;
            // Those whose content the library takes apart.
            let sound = match *code {
                1 => data.len() == 4,
                64 => data.len() >= 2 && (data.len() - 2).is_multiple_of(4),
                65 => data.len() == 4,
                69 => data.len().is_multiple_of(4),
                71 => data.len().is_multiple_of(7),
                73 => sound_names(data),
                _ => true,
            };
            if !sound {
                return Err(wrong);
            }
            inside = after.get(usize::from(*size)..).ok_or(wrong)?;
        }
        if !inside.is_empty() {
            return Err(wrong);
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Host and domain name, each after its length.
fn sound_names(data: &[u8]) -> bool {
    let Some((host, rest)) = data.split_first() else {
        return false;
    };
    let Some((domain, rest)) = rest.get(usize::from(*host)..).and_then(|r| r.split_first()) else {
        return false;
    };
    rest.len() == usize::from(*domain) && std::str::from_utf8(data).is_ok()
}

/// The codes of all capabilities in an opening that was checked.
fn capabilities(body: &[u8]) -> Vec<u8> {
    let mut codes = Vec::new();
    let mut rest = body.get(10..).unwrap_or_default();
    while let [_, size, after @ ..] = rest {
        let mut inside = after.get(..usize::from(*size)).unwrap_or_default();
        while let [code, size, after @ ..] = inside {
            codes.push(*code);
            inside = after.get(usize::from(*size)..).unwrap_or_default();
        }
        rest = after.get(usize::from(*size)..).unwrap_or_default();
    }
    codes
}

/// How routes are encoded in a session.
#[derive(Debug, Clone, Copy)]
pub struct UpdateEncoding {
    /// Our autonomous system.
    pub asn: u32,
    /// Whether the peer is of the same.
    pub internal: bool,
    /// Whether numbers of autonomous systems have four bytes.
    pub four_octets: bool,
    /// The IPv4 next hop; without it no IPv4 route is advertised.
    pub next_hop_v4: Option<Ipv4Addr>,
    /// The IPv6 next hop; without it no IPv6 route is advertised.
    pub next_hop_v6: Option<Ipv6Addr>,
}

/// Prefixes in an update: with all attributes it stays well below the longest.
const IN_ONE: usize = 120;

/// Updates that tell of changes. Withdrawals come first: they make room.
///
/// # Errors
/// [`WriteError`].
pub fn updates(changes: &Changes, writing: &UpdateEncoding) -> Result<Vec<Vec<u8>>, WriteError> {
    let mut all = Vec::new();
    let (v4, v6) = split(&changes.withdrawn);
    if writing.next_hop_v4.is_some() {
        for nets in v4.chunks(IN_ONE) {
            let mut update = empty();
            update.withdraws = BgpAddrs::IPV4U(nets.to_vec());
            all.push(written(&update, writing)?);
        }
    }
    if writing.next_hop_v6.is_some() {
        for nets in v6.chunks(IN_ONE) {
            let mut update = empty();
            let gone = BgpMPWithdraws::new(BgpAddrs::IPV6U(nets.to_vec()));
            update.attrs.push(BgpAttrItem::MPWithdraws(gone));
            all.push(written(&update, writing)?);
        }
    }
    for (attributes, nets) in &changes.told {
        let (v4, v6) = split(nets);
        if let Some(next_hop) = writing.next_hop_v4 {
            for nets in v4.chunks(IN_ONE) {
                let mut update = empty();
                update.attrs = common(attributes, writing);
                let value = IpAddr::V4(next_hop);
                update
                    .attrs
                    .insert(2, BgpAttrItem::NextHop(BgpNextHop { value }));
                update.updates = BgpAddrs::IPV4U(nets.to_vec());
                all.push(written(&update, writing)?);
            }
        }
        if let Some(next_hop) = writing.next_hop_v6 {
            for nets in v6.chunks(IN_ONE) {
                let mut update = empty();
                update.attrs = common(attributes, writing);
                update.attrs.push(BgpAttrItem::MPUpdates(BgpMPUpdates {
                    nexthop: BgpAddr::V6(next_hop),
                    addrs: BgpAddrs::IPV6U(nets.to_vec()),
                }));
                all.push(written(&update, writing)?);
            }
        }
    }
    Ok(all)
}

/// Returns an End-of-RIB for each family (RFC 4724, 2).
///
/// # Errors
/// [`WriteError`].
pub fn ends(writing: &UpdateEncoding) -> Result<Vec<Vec<u8>>, WriteError> {
    let mut all = Vec::new();
    if writing.next_hop_v4.is_some() {
        all.push(written(&empty(), writing)?);
    }
    if writing.next_hop_v6.is_some() {
        let mut update = empty();
        let none = BgpMPWithdraws::new(BgpAddrs::IPV6U(Vec::new()));
        update.attrs.push(BgpAttrItem::MPWithdraws(none));
        all.push(written(&update, writing)?);
    }
    Ok(all)
}

fn empty() -> BgpUpdateMessage {
    BgpUpdateMessage::new()
}

fn split<'a>(nets: impl IntoIterator<Item = &'a IpNet>) -> (Vec<BgpAddrV4>, Vec<BgpAddrV6>) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for net in nets {
        match net {
            IpNet::V4(it) => v4.push(BgpAddrV4::new(it.addr(), it.prefix_len())),
            IpNet::V6(it) => v6.push(BgpAddrV6::new(it.addr(), it.prefix_len())),
        }
    }
    (v4, v6)
}

fn common(attributes: &Attributes, writing: &UpdateEncoding) -> Vec<BgpAttrItem> {
    // The library (0.6.0) writes sequences of autonomous systems as sets.
    let mut path = BgpAttrUnknown::new(2, 0x40);
    if !writing.internal {
        path.value.extend([AS_SEQUENCE, 1]);
        match u16::try_from(writing.asn) {
            Ok(asn) if !writing.four_octets => path.value.extend(asn.to_be_bytes()),
            _ => path.value.extend(writing.asn.to_be_bytes()),
        }
    }
    let mut all = vec![
        BgpAttrItem::Origin(BgpOrigin {
            value: BgpAttrOrigin::Igp,
        }),
        BgpAttrItem::Unknown(path),
    ];
    // Within the autonomous system it is not optional (RFC 4271, 5.1.5).
    if writing.internal {
        let value = attributes.local_pref.unwrap_or(100);
        all.push(BgpAttrItem::LocalPref(BgpLocalpref { value }));
    }
    let communities = &attributes.communities;
    if !communities.plain.is_empty() {
        let value = communities
            .plain
            .iter()
            .map(|it| BgpCommunity { value: *it })
            .collect();
        all.push(BgpAttrItem::CommunityList(BgpCommunityList { value }));
    }
    if !communities.large.is_empty() {
        // The library sets the bit for attributes that were forwarded unrecognised; we
        // originate.
        let mut large = BgpAttrUnknown::new(32, 0x80 | 0x40 | 0x10);
        for part in communities.large.iter().flatten() {
            large.value.extend(part.to_be_bytes());
        }
        all.push(BgpAttrItem::Unknown(large));
    }
    all
}

fn written(update: &BgpUpdateMessage, writing: &UpdateEncoding) -> Result<Vec<u8>, WriteError> {
    // The library writes into the given buffer, and needs more than is sent.
    let mut body = vec![0; 4 * LONGEST];
    let size = update
        .encode_to(&parameters(writing.asn, writing.four_octets), &mut body)
        .map_err(|error| WriteError(error.to_string()))?;
    if HEADER + size > LONGEST {
        return Err(WriteError(format!("it has {size} bytes")));
    }
    body.truncate(size);
    Ok(framed(2, &body))
}

#[cfg(test)]
mod tests;
