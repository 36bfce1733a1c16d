//! Finds the address by which others reach this machine.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
};

/// Returns the source address of the default route, of the IP version of `like`. Nothing
/// is sent: connecting a UDP socket only looks up the route.
///
/// # Errors
/// The system's error, if there is no such route.
pub fn of_default_route(like: IpAddr) -> io::Result<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849): routed by default.
    let (local, remote): (IpAddr, IpAddr) = if like.is_ipv4() {
        (
            Ipv4Addr::UNSPECIFIED.into(),
            Ipv4Addr::new(192, 0, 2, 1).into(),
        )
    } else {
        (
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        )
    };
    let socket = UdpSocket::bind((local, 0))?;
    socket.connect((remote, 9))?;
    Ok(socket.local_addr()?.ip())
}
