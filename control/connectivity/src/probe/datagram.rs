//! UDP.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use nix::{
    getsockopt_impl, libc, setsockopt_impl, sockopt_impl,
    sys::socket::{getsockopt, setsockopt},
};

use super::{TIMEOUT, dns, failure::ProbeFailure, stream::pattern};
use crate::operation::{DatagramSize, Failure};

sockopt_impl!(
    /// Whether IPv4 packets may be fragmented (ip(7)).
    Ipv4Fragmentation,
    Both,
    libc::IPPROTO_IP,
    libc::IP_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// Whether IPv6 packets may be fragmented (ipv6(7)).
    Ipv6Fragmentation,
    Both,
    libc::IPPROTO_IPV6,
    libc::IPV6_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// The known path MTU of a connected socket.
    Ipv4PathMtu,
    GetOnly,
    libc::IPPROTO_IP,
    libc::IP_MTU,
    libc::c_int
);
sockopt_impl!(
    /// The known path MTU of a connected socket.
    Ipv6PathMtu,
    GetOnly,
    libc::IPPROTO_IPV6,
    libc::IPV6_MTU,
    libc::c_int
);

/// Bytes of an IPv4 header without options, and of a UDP header.
const IPV4_HEADERS: usize = 20 + 8;
/// Bytes of an IPv6 header and of a UDP header.
const IPV6_HEADERS: usize = 40 + 8;

/// Sends a datagram to an echo server and waits for its echo. Returns its size.
pub fn echo(target: &str, size: DatagramSize) -> Result<usize, ProbeFailure> {
    let mut addresses = target
        .to_socket_addrs()
        .map_err(|error| dns::failed(target, &error))?;
    let address = addresses.next().ok_or_else(|| {
        ProbeFailure::new(Failure::NoSuchName, format!("`{target}` has no address"))
    })?;
    let socket = UdpSocket::bind(match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    })?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let bytes = match size {
        DatagramSize::Bytes(bytes) => {
            // Not connected: that the answer comes from the right address is checked below.
            socket.send_to(&pattern(bytes), address)?;
            bytes
        }
        DatagramSize::WholePacket => {
            socket.connect(address)?;
            let bytes = whole_packet(&socket, address)?;
            socket.send(&pattern(bytes))?;
            bytes
        }
    };
    let mut buffer = vec![0; 65_536];
    let (length, from) = socket
        .recv_from(&mut buffer)
        .map_err(|error| sized(error, bytes))?;
    if from != address {
        return Err(ProbeFailure::wrong(format!(
            "the answer comes from {from}, not from {address}"
        )));
    }
    if buffer[..length] != pattern(bytes) {
        return Err(ProbeFailure::wrong(format!(
            "{length} other bytes come back, {bytes} were sent"
        )));
    }
    Ok(bytes)
}

/// Forbids fragments, and gives the payload that fills one packet.
fn whole_packet(socket: &UdpSocket, address: SocketAddr) -> Result<usize, ProbeFailure> {
    let failed = |error: nix::Error| ProbeFailure::from(std::io::Error::from(error));
    let (mtu, headers) = match address {
        SocketAddr::V4(_) => {
            setsockopt(socket, Ipv4Fragmentation, &libc::IP_PMTUDISC_DO).map_err(failed)?;
            let mtu = getsockopt(socket, Ipv4PathMtu).map_err(failed)?;
            (mtu, IPV4_HEADERS)
        }
        SocketAddr::V6(_) => {
            setsockopt(socket, Ipv6Fragmentation, &libc::IPV6_PMTUDISC_DO).map_err(failed)?;
            let mtu = getsockopt(socket, Ipv6PathMtu).map_err(failed)?;
            (mtu, IPV6_HEADERS)
        }
    };
    // Loopback devices have an MTU beyond the size of a datagram.
    let mtu = usize::try_from(mtu).unwrap_or(0).min(65_535);
    Ok(mtu.saturating_sub(headers))
}

/// Returns a failure with the size of the datagram.
fn sized(error: std::io::Error, bytes: usize) -> ProbeFailure {
    let mut failed = ProbeFailure::from(error);
    failed.detail = format!("{} (datagram of {bytes} bytes)", failed.detail);
    failed
}
