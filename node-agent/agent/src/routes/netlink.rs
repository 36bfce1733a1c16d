//! The kernel's side of routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::TryStreamExt;
use ipnet::IpNet;
use netlink_packet_route::{
    address::AddressAttribute,
    route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteType},
};
use rtnetlink::{Handle, RouteMessageBuilder};

use super::{Action, Routes, Way};
use crate::Error;

/// Marks the routes that are this agent's (`rtm_protocol`; numbers from 5 on
/// are free for routing programs).
pub const PROTOCOL: RouteProtocol = RouteProtocol::Other(111);

/// Opens a connection to the kernel of this network namespace.
///
/// # Errors
/// [`Error::NetlinkSocket`] when there is none.
pub fn connect() -> Result<Handle, Error> {
    let (connection, handle, _) = rtnetlink::new_connection().map_err(Error::NetlinkSocket)?;
    tokio::spawn(connection);
    Ok(handle)
}

/// This agent's routes in the main table.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn present(handle: &Handle) -> Result<Routes, Error> {
    let mut routes = Routes::new();
    for request in [
        RouteMessageBuilder::<Ipv4Addr>::new().build(),
        RouteMessageBuilder::<Ipv6Addr>::new().build(),
    ] {
        let messages: Vec<RouteMessage> = handle
            .route()
            .get(request)
            .execute()
            .try_collect()
            .await
            .map_err(Error::netlink("read the routes"))?;
        routes.extend(
            messages
                .iter()
                .filter(|message| {
                    message.header.protocol == PROTOCOL
                        && message.header.table == RouteHeader::RT_TABLE_MAIN
                })
                .filter_map(read),
        );
    }
    Ok(routes)
}

fn read(message: &RouteMessage) -> Option<(IpNet, Way)> {
    let mut destination = None;
    let mut gateway = None;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address),
            RouteAttribute::Gateway(address) => gateway = ip(address),
            _ => {}
        }
    }
    let range = IpNet::new(destination?, message.header.destination_prefix_length).ok()?;
    match (message.header.kind, gateway) {
        (RouteType::Unreachable, _) => Some((range, Way::Unreachable)),
        (_, Some(gateway)) => Some((range, Way::Via(gateway))),
        (_, None) => None,
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

fn message(range: IpNet, way: Way) -> Result<RouteMessage, Error> {
    let invalid = |_| Error::Range(range);
    let mut builder = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(range.addr(), range.prefix_len())
        .map_err(invalid)?
        .protocol(PROTOCOL);
    match way {
        Way::Via(gateway) => builder = builder.gateway(gateway).map_err(invalid)?,
        Way::Unreachable => builder = builder.kind(RouteType::Unreachable),
    }
    Ok(builder.build())
}

/// Does one change. Removing what is gone already is no error.
///
/// # Errors
/// [`Error::Netlink`], naming the route.
pub async fn apply(handle: &Handle, action: Action) -> Result<(), Error> {
    match action {
        Action::Set(range, way) => handle
            .route()
            .add(message(range, way)?)
            .replace()
            .execute()
            .await
            .map_err(Error::netlink(format!("set the route to {range}"))),
        Action::Remove(range, way) => {
            let removed = handle.route().del(message(range, way)?).execute().await;
            ignoring(nix::libc::ESRCH, removed)
                .map_err(Error::netlink(format!("remove the route to {range}")))
        }
    }
}

/// The loopback interface's index, in every network namespace.
const LOOPBACK: u32 = 1;

/// Makes `address` one of this node's own, on the loopback interface. It is no
/// error if it is one already.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn add_local(handle: &Handle, address: IpAddr) -> Result<(), Error> {
    let added = handle
        .address()
        .add(LOOPBACK, address, whole(address))
        .execute()
        .await;
    ignoring(nix::libc::EEXIST, added).map_err(Error::netlink(format!(
        "put {address} on the loopback interface"
    )))
}

/// Undoes [`add_local`]; it is no error if there is nothing to undo.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn remove_local(handle: &Handle, address: IpAddr) -> Result<(), Error> {
    let failed = || Error::netlink(format!("take {address} off the loopback interface"));
    let present: Vec<_> = handle
        .address()
        .get()
        .set_link_index_filter(LOOPBACK)
        .set_address_filter(address)
        .execute()
        .try_collect()
        .await
        .map_err(failed())?;
    for message in present {
        let removed = handle.address().del(message).execute().await;
        ignoring(nix::libc::EADDRNOTAVAIL, removed).map_err(failed())?;
    }
    Ok(())
}

/// The prefix length of a single address.
const fn whole(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn ignoring(code: i32, result: Result<(), rtnetlink::Error>) -> Result<(), rtnetlink::Error> {
    match result {
        Err(rtnetlink::Error::NetlinkError(error)) if error.raw_code().abs() == code => Ok(()),
        other => other,
    }
}

/// The MTU of the interface that has this address, in bytes.
///
/// # Errors
/// [`Error::Netlink`], or [`Error::NoAddress`] when no interface has it.
pub async fn mtu_of(handle: &Handle, address: IpAddr) -> Result<u32, Error> {
    let addresses: Vec<_> = handle
        .address()
        .get()
        .execute()
        .try_collect()
        .await
        .map_err(Error::netlink("read the addresses"))?;
    let index = addresses
        .iter()
        .find(|message| {
            message.attributes.iter().any(|attribute| {
                matches!(attribute,
                    AddressAttribute::Address(a) | AddressAttribute::Local(a) if *a == address)
            })
        })
        .map(|message| message.header.index)
        .ok_or(Error::NoAddress(address))?;
    let link = handle
        .link()
        .get()
        .match_index(index)
        .execute()
        .try_next()
        .await
        .map_err(Error::netlink("read the interface"))?;
    link.into_iter()
        .flat_map(|message| message.attributes)
        .find_map(|attribute| match attribute {
            netlink_packet_route::link::LinkAttribute::Mtu(mtu) => Some(mtu),
            _ => None,
        })
        .ok_or(Error::NoAddress(address))
}

/// The address by which this machine reaches the world: the source of its
/// default route.
///
/// # Errors
/// [`Error::NoDefaultRoute`] when there is none.
pub fn default_address() -> Result<IpAddr, Error> {
    // A connected UDP socket sends nothing; the kernel only picks a source.
    for (local, remote) in [
        (
            IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::from([192, 0, 2, 1]),
        ),
        (
            IpAddr::from(Ipv6Addr::UNSPECIFIED),
            IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        ),
    ] {
        let address = std::net::UdpSocket::bind((local, 0)).and_then(|socket| {
            socket.connect((remote, 9))?;
            socket.local_addr()
        });
        if let Ok(address) = address {
            return Ok(address.ip());
        }
    }
    Err(Error::NoDefaultRoute)
}
