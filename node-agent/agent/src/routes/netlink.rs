//! The kernel's side of routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::TryStreamExt;
use ipnet::IpNet;
use netlink_packet_route::{
    AddressFamily,
    address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope, CacheInfo},
    route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteType},
};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, RouteMessageBuilder};

use super::{RouteAction, RouteMap, RouteTable, RouteTarget};
use crate::{Error, overlay};

/// Marks the routes that are this agent's (`rtm_protocol`; numbers from 5 on
/// are free for routing programs).
pub const PROTOCOL: RouteProtocol = RouteProtocol::Other(111);

/// Opens a connection to the kernel of this network namespace.
///
/// # Errors
/// [`Error::Netlink`] when there is none.
pub fn connect() -> Result<Handle, Error> {
    let (connection, handle, _) = rtnetlink::new_connection().map_err(Error::NetlinkSocket)?;
    tokio::spawn(connection);
    Ok(handle)
}

/// This agent's routes in the main table; `tunnel` is the index of the overlay's
/// device, if there is one.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn present(handle: &Handle, tunnel: Option<u32>) -> Result<RouteMap, Error> {
    Ok(table(handle, tunnel).await?.own)
}

/// The main table.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn table(handle: &Handle, tunnel: Option<u32>) -> Result<RouteTable, Error> {
    let mut table = RouteTable::default();
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
        for message in &messages {
            if message.header.table != RouteHeader::RT_TABLE_MAIN {
                continue;
            }
            if message.header.protocol == PROTOCOL {
                table.own.extend(read(message, tunnel));
            } else {
                table.foreign.extend(destination(message));
            }
        }
    }
    Ok(table)
}

fn destination(message: &RouteMessage) -> Option<IpNet> {
    let mut attributes = message.attributes.iter();
    let address = attributes.find_map(|attribute| match attribute {
        RouteAttribute::Destination(address) => ip(address),
        _ => None,
    });
    // A default route names none.
    let any = match message.header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let length = message.header.destination_prefix_length;
    IpNet::new(address.unwrap_or(any), length).ok()
}

fn read(message: &RouteMessage, tunnel: Option<u32>) -> Option<(IpNet, RouteTarget)> {
    let (mut destination, mut device) = (None, None);
    let mut gateway = None;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address),
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Oif(index) => device = Some(*index),
            _ => {}
        }
    }
    let range = IpNet::new(destination?, message.header.destination_prefix_length).ok()?;
    match (message.header.kind, gateway) {
        (RouteType::Unreachable, _) => Some((range, RouteTarget::Unreachable)),
        (_, Some(gateway)) if tunnel.is_some() && device == tunnel => {
            Some((range, RouteTarget::Tunnel(gateway)))
        }
        (_, Some(gateway)) => Some((range, RouteTarget::Via(gateway))),
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

fn message(range: IpNet, way: RouteTarget, tunnel: Option<u32>) -> Result<RouteMessage, Error> {
    let invalid = |_| Error::Range(range);
    let mut builder = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(range.addr(), range.prefix_len())
        .map_err(invalid)?
        .protocol(PROTOCOL);
    match way {
        RouteTarget::Via(gateway) => builder = builder.gateway(gateway).map_err(invalid)?,
        RouteTarget::Tunnel(gateway) => {
            let device = tunnel.ok_or_else(|| Error::NoDevice(overlay::DEVICE.to_owned()))?;
            // The gateway is on no range of the device, and of none but it.
            builder = builder
                .gateway(gateway)
                .map_err(invalid)?
                .output_interface(device)
                .onlink();
        }
        RouteTarget::Unreachable => builder = builder.kind(RouteType::Unreachable),
    }
    Ok(builder.build())
}

/// Does one change. Removing what is gone already is no error.
///
/// # Errors
/// [`Error::Netlink`], naming the route.
pub async fn apply(handle: &Handle, action: RouteAction, tunnel: Option<u32>) -> Result<(), Error> {
    match action {
        // Without NLM_F_REPLACE it is NLM_F_EXCL: somebody else's route stays.
        RouteAction::Add(range, way) => handle
            .route()
            .add(message(range, way, tunnel)?)
            .execute()
            .await
            .map_err(Error::netlink(format!("add the route to {range}"))),
        RouteAction::Replace(range, way) => handle
            .route()
            .add(message(range, way, tunnel)?)
            .replace()
            .execute()
            .await
            .map_err(Error::netlink(format!("replace the route to {range}"))),
        // The kernel removes it only if the protocol in the message is the route's.
        RouteAction::Remove(range, way) => {
            let removed = handle
                .route()
                .del(message(range, way, tunnel)?)
                .execute()
                .await;
            ignoring(nix::libc::ESRCH, removed)
                .map_err(Error::netlink(format!("remove the route to {range}")))
        }
    }
}

/// Removes the device of this name; it is no error if there is none.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn remove_device(handle: &Handle, name: &str) -> Result<(), Error> {
    let message = LinkMessageBuilder::<LinkUnspec>::new().name(name).build();
    let removed = handle.link().del_with_message(message).execute().await;
    ignoring(nix::libc::ENODEV, removed)
        .map_err(Error::netlink(format!("remove the device `{name}`")))
}

/// The loopback interface's index, in every network namespace.
const LOOPBACK: u32 = 1;

/// Makes `address` one of this node's own, on the loopback interface. It is no
/// error if it is one already.
///
/// The kernel is not to speak from it unless told to: pods' interfaces have no address of
/// this node, so it takes another interface's for what the node sends to pods, loopback's
/// first. Then probes would come from the Service, not from the node. So it is of host
/// scope, and of IPv6, where there is none, deprecated.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn add_local(handle: &Handle, address: IpAddr) -> Result<(), Error> {
    let failed = || Error::netlink(format!("put {address} on the loopback interface"));
    for message in local(handle, address).await.map_err(failed())? {
        if is_spoken_from(&message) {
            let removed = handle.address().del(message).execute().await;
            ignoring(nix::libc::EADDRNOTAVAIL, removed).map_err(failed())?;
        }
    }
    let mut add = handle.address().add(LOOPBACK, address, whole(address));
    let message = add.message_mut();
    if address.is_ipv4() {
        message.header.scope = AddressScope::Host;
    } else {
        let mut lifetime = CacheInfo::default();
        lifetime.ifa_valid = u32::MAX;
        let lifetime = AddressAttribute::CacheInfo(lifetime);
        message.attributes.push(lifetime);
        // Without it the kernel looks for doubles a moment later, and until
        // then whoever binds to the address is refused (RFC 4862, 5.4).
        let at_once = AddressAttribute::Flags(AddressFlags::Nodad);
        message.attributes.push(at_once);
    }
    ignoring(nix::libc::EEXIST, add.execute().await).map_err(failed())
}

/// Does the kernel choose this address for packets to other interfaces?
fn is_spoken_from(message: &AddressMessage) -> bool {
    match message.header.family {
        AddressFamily::Inet => message.header.scope != AddressScope::Host,
        _ => message.attributes.iter().any(
            |it| matches!(it, AddressAttribute::CacheInfo(lifetime) if lifetime.ifa_preferred > 0),
        ),
    }
}

/// This address on the loopback interface, if it is there.
async fn local(handle: &Handle, address: IpAddr) -> Result<Vec<AddressMessage>, rtnetlink::Error> {
    let found = handle
        .address()
        .get()
        .set_link_index_filter(LOOPBACK)
        .set_address_filter(address);
    found.execute().try_collect().await
}

/// Undoes [`add_local`]; it is no error if there is nothing to undo.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn remove_local(handle: &Handle, address: IpAddr) -> Result<(), Error> {
    let failed = || Error::netlink(format!("take {address} off the loopback interface"));
    for message in local(handle, address).await.map_err(failed())? {
        let removed = handle.address().del(message).execute().await;
        ignoring(nix::libc::EADDRNOTAVAIL, removed).map_err(failed())?;
    }
    Ok(())
}

/// The prefix length of a single address.
pub const fn whole(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// What failed with this number has not failed.
pub fn ignoring(code: i32, result: Result<(), rtnetlink::Error>) -> Result<(), rtnetlink::Error> {
    match result {
        Err(rtnetlink::Error::NetlinkError(error)) if error.raw_code().abs() == code => Ok(()),
        other => other,
    }
}

/// What the kernel says of the addresses of all of this machine's interfaces.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn addresses(handle: &Handle) -> Result<Vec<AddressMessage>, Error> {
    let found = handle.address().get().execute();
    let failed = Error::netlink("read the addresses");
    found.try_collect().await.map_err(failed)
}

/// The addresses of all of this machine's interfaces.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn own_addresses(handle: &Handle) -> Result<Vec<IpAddr>, Error> {
    let messages = addresses(handle).await?;
    let attributes = messages.iter().flat_map(|message| &message.attributes);
    let addresses = attributes.filter_map(|attribute| match attribute {
        AddressAttribute::Address(address) | AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    Ok(addresses.collect())
}

/// The networks that this machine is connected to: those of its interfaces' addresses, but
/// for single addresses.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn links(handle: &Handle) -> Result<Vec<IpNet>, Error> {
    let messages = addresses(handle).await?;
    let networks = messages.iter().flat_map(|message| {
        let length = message.header.prefix_len;
        let own = message.attributes.iter().filter_map(move |it| match it {
            AddressAttribute::Address(address) if length < whole(*address) => {
                IpNet::new(*address, length).ok()
            }
            _ => None,
        });
        own.map(|network| network.trunc())
    });
    Ok(networks.collect())
}

/// The MTU of the interface that has this address, in bytes.
///
/// # Errors
/// [`Error::Netlink`], or [`Error::NoAddress`] when no interface has it.
pub async fn mtu_of(handle: &Handle, address: IpAddr) -> Result<u32, Error> {
    let messages = addresses(handle).await?;
    let index = messages
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
    // A connected UDP socket sends nothing; the kernel only picks a source. No network has the
    // remote addresses, so that no route but the default one leads there: 0.0.0.0/8 is of no host
    // (RFC 1122), 3ffe::/16 was returned (RFC 3701). Networks of the documentation's ranges exist.
    for (local, remote) in [
        (
            IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::from([0, 0, 0, 1]),
        ),
        (
            IpAddr::from(Ipv6Addr::UNSPECIFIED),
            IpAddr::from(Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 1)),
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sched::{CloneFlags, unshare};

    use super::*;
    use crate::routes::diff;

    /// Runs `work` in a network namespace of its own, with an interface that
    /// has 10.9.0.1/24.
    fn in_namespace(work: impl AsyncFnOnce(Handle) + Send) {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to make network namespaces");
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
                ip("link set lo up");
                ip("link add eth0 mtu 1400 type veth peer name far0");
                ip("link set far0 up");
                ip("addr add 10.9.0.1/24 dev eth0");
                ip("link set eth0 up");
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime")
                    .block_on(async { work(connect().expect("netlink")).await });
            });
        });
    }

    fn ip(arguments: &str) {
        let words = arguments.split(' ');
        let status = Command::new("ip")
            .args(words)
            .status()
            .expect("the program `ip`");
        assert!(status.success(), "ip {arguments}");
    }

    fn net(text: &str) -> IpNet {
        text.parse().expect("range")
    }

    #[test]
    fn the_kernel_s_table_becomes_what_is_desired_and_others_routes_stay() {
        in_namespace(async |kernel| {
            ip("route add 198.51.100.0/24 via 10.9.0.9");
            let steps: [RouteMap; 3] = [
                RouteMap::from([
                    (net("10.0.0.0/24"), RouteTarget::Unreachable),
                    (net("10.0.1.0/24"), RouteTarget::Via([10, 9, 0, 2].into())),
                    (net("10.0.2.0/24"), RouteTarget::Via([10, 9, 0, 3].into())),
                ]),
                RouteMap::from([
                    (net("10.0.0.0/24"), RouteTarget::Unreachable),
                    (net("10.0.1.0/24"), RouteTarget::Via([10, 9, 0, 4].into())),
                ]),
                RouteMap::new(),
            ];
            for desired in steps {
                let found = table(&kernel, None).await.expect("routes");
                for action in diff(&found, &desired) {
                    apply(&kernel, action, None).await.expect("applied");
                }
                assert_eq!(present(&kernel, None).await.expect("routes"), desired);
            }
            ip("route get 198.51.100.1");
            let gone =
                RouteAction::Remove(net("10.0.1.0/24"), RouteTarget::Via([10, 9, 0, 2].into()));
            apply(&kernel, gone, None)
                .await
                .expect("gone already is no error");
            let far = RouteAction::Add(
                net("10.0.9.0/24"),
                RouteTarget::Via([203, 0, 113, 1].into()),
            );
            let error = apply(&kernel, far, None).await.expect_err("no way there");
            assert!(error.to_string().contains("10.0.9.0/24"), "{error}");
        });
    }

    #[test]
    fn a_route_of_others_is_neither_replaced_nor_doubled_nor_removed() {
        in_namespace(async |kernel| {
            let show = || {
                let output = Command::new("ip").args(["route", "show"]).output();
                String::from_utf8(output.expect("the program `ip`").stdout).expect("text")
            };
            let victims = [
                "default via 10.9.0.9",
                "10.0.1.0/24 via 10.9.0.8 metric 100",
            ];
            for route in victims {
                ip(&format!("route add {route} dev eth0"));
            }
            let before = show();
            let stolen = RouteTarget::Via([10, 9, 0, 2].into());
            let ranges = [net("0.0.0.0/0"), net("10.0.1.0/24")];
            let desired: RouteMap = ranges.map(|range| (range, stolen)).into();
            let found = table(&kernel, None).await.expect("routes");
            assert_eq!(diff(&found, &desired), []);
            // Somebody adds one after the agent has read the table.
            let action = RouteAction::Add(net("0.0.0.0/0"), stolen);
            apply(&kernel, action, None).await.expect_err("it exists");
            for range in ranges {
                let action = RouteAction::Remove(range, stolen);
                apply(&kernel, action, None).await.expect("none of ours");
            }
            assert_eq!(show(), before);
        });
    }

    #[test]
    fn the_interface_of_an_address_tells_the_mtu() {
        in_namespace(async |kernel| {
            let own = IpAddr::from([10, 9, 0, 1]);
            assert_eq!(mtu_of(&kernel, own).await.expect("found"), 1400);
            let other = IpAddr::from([10, 9, 0, 7]);
            let error = mtu_of(&kernel, other).await.expect_err("nobody's");
            assert!(matches!(error, Error::NoAddress(address) if address == other));
        });
    }

    #[test]
    fn the_default_route_tells_the_node_s_address() {
        in_namespace(async |_| {
            assert!(matches!(default_address(), Err(Error::NoDefaultRoute)));
            // Networks of the documentation's ranges are no default routes.
            ip("addr add 192.0.2.7/24 dev far0");
            ip("-6 addr add 2001:db8::7/64 dev far0 nodad");
            assert!(matches!(default_address(), Err(Error::NoDefaultRoute)));

            ip("-6 addr add fd09::1/64 dev eth0 nodad");
            ip("-6 route add default via fd09::9");
            let address = default_address().expect("found");
            assert_eq!(address, net("fd09::1/128").addr());

            ip("route add default via 10.9.0.9");
            let address = default_address().expect("found");
            assert_eq!(address, IpAddr::from([10, 9, 0, 1]));
        });
    }

    #[test]
    fn an_address_is_taken_and_given_back_and_both_twice() {
        in_namespace(async |kernel| {
            let address = IpAddr::from([10, 96, 0, 10]);
            let bind = || std::net::UdpSocket::bind((address, 53));
            assert!(bind().is_err());
            for _ in 0..2 {
                add_local(&kernel, address).await.expect("taken");
                bind().expect("our own");
            }
            for _ in 0..2 {
                remove_local(&kernel, address).await.expect("given back");
                assert!(bind().is_err());
            }
            let loopback = IpAddr::from([127, 0, 0, 1]);
            assert!(std::net::UdpSocket::bind((loopback, 0)).is_ok());
        });
    }

    #[test]
    fn an_address_of_ipv6_is_usable_without_the_search_for_doubles() {
        in_namespace(async |kernel| {
            let address: IpAddr = "fd00:96::a".parse().expect("an address");
            add_local(&kernel, address).await.expect("taken");
            let taken = local(&kernel, address).await.expect("addresses");
            let [taken] = taken.as_slice() else {
                panic!("one address: {taken:?}")
            };
            let flags = taken.attributes.iter().find_map(|it| match it {
                AddressAttribute::Flags(flags) => Some(*flags),
                _ => None,
            });
            let flags = flags.expect("flags");
            assert!(flags.contains(AddressFlags::Nodad), "{flags:?}");
            assert!(!flags.contains(AddressFlags::Tentative), "{flags:?}");
        });
    }

    #[test]
    fn the_node_does_not_speak_to_pods_from_an_address_that_it_took() {
        in_namespace(async |kernel| {
            ip("addr add fd00:9::1/64 dev eth0 nodad");
            ip("link add pod0 type veth peer name pod1");
            ip("link set pod1 up");
            ip("link set pod0 up");
            ip("route add 10.244.0.5/32 dev pod0 scope link");
            ip("-6 route add fd00:96::5/128 dev pod0");
            let cases = [
                ("10.96.0.10", "10.244.0.5", "10.9.0.1"),
                ("fd00:96::a", "fd00:96::5", "fd00:9::1"),
            ];
            for (taken, pod, own) in cases {
                let taken: IpAddr = taken.parse().expect("an address");
                let any = if taken.is_ipv4() {
                    "0.0.0.0:0"
                } else {
                    "[::]:0"
                };
                let speaks = || {
                    let socket = std::net::UdpSocket::bind(any).expect("a socket");
                    let pod: IpAddr = pod.parse().expect("an address");
                    socket.connect((pod, 80)).expect("a way");
                    socket.local_addr().expect("an address").ip()
                };
                // As a former agent left it.
                ip(&format!("addr add {taken} dev lo"));
                for _ in 0..2 {
                    add_local(&kernel, taken).await.expect("taken");
                    assert_eq!(speaks().to_string(), own);
                    assert!(std::net::UdpSocket::bind((taken, 53)).is_ok());
                }
                remove_local(&kernel, taken).await.expect("given back");
            }
        });
    }
}
