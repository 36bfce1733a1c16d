//! Where this node sends packets, as its tables of routes say (rtnetlink(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use crate::netlink::{self, Socket, word};

const GET_ROUTE: u16 = 26;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const LOCAL: u8 = 2;
const DESTINATION: u16 = 1;
const DEVICE: u16 = 4;
const GATEWAY: u16 = 5;
/// `struct rtmsg`.
const HEADER: usize = 12;

/// The next hop of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The address is this node's own.
    pub local: bool,
    /// The next hop, if it is not the destination itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// The device's index; zero if there is none.
    pub device: u32,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The route to an address; none if there is no way.
pub(super) fn to(address: IpAddr) -> std::io::Result<Option<Route>> {
    let mut socket = Socket::open(None)?;
    let (family, octets) = match address {
        IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
    };
    let bits = u8::try_from(octets.len() * 8).unwrap_or_default();
    let mut body = vec![family, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let length = u16::try_from(4 + octets.len()).unwrap_or_default();
    body.extend(length.to_ne_bytes());
    body.extend(DESTINATION.to_ne_bytes());
    body.extend(octets);
    let mut found = None;
    match socket.request(GET_ROUTE, netlink::ACK, &body, |answer| {
        found = Some(read(answer, family));
    }) {
        Ok(()) => {}
        // No way, or one that forbids.
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NetworkUnreachable
                    | std::io::ErrorKind::HostUnreachable
                    | std::io::ErrorKind::PermissionDenied
                    | std::io::ErrorKind::InvalidInput
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    if let Some(route) = &mut found {
        route.name = name(route.device);
    }
    Ok(found)
}

fn read(answer: &[u8], family: u8) -> Route {
    let mut route = Route {
        local: answer.get(7) == Some(&LOCAL),
        ..Route::default()
    };
    let mut rest = answer.get(HEADER..).unwrap_or_default();
    while let Some(header) = word(rest, 0) {
        let [a, b, c, d] = header.to_ne_bytes();
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(content) = rest.get(4..length) else {
            break;
        };
        match u16::from_ne_bytes([c, d]) {
            DEVICE => route.device = word(content, 0).unwrap_or_default(),
            GATEWAY if family == AF_INET => {
                let octets: Option<[u8; 4]> = content.try_into().ok();
                route.via = octets.map(|it| Ipv4Addr::from(it).into());
            }
            GATEWAY => {
                let octets: Option<[u8; 16]> = content.try_into().ok();
                route.via = octets.map(|it| Ipv6Addr::from(it).into());
            }
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    route
}

/// What `/sys` says needs no further question.
fn name(device: u32) -> Option<String> {
    let all = nix::net::if_::if_nameindex().ok()?;
    let found = all.iter().find(|it| it.index() == device)?;
    Some(found.name().to_string_lossy().into_owned())
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.local {
            return f.write_str("to this node itself");
        }
        if let Some(via) = self.via {
            write!(f, "via {via} ")?;
        }
        match &self.name {
            Some(name) => write!(f, "through {name}"),
            None => write!(f, "through the device of index {}", self.device),
        }
    }
}
