//! The kernel's side of the VXLAN.

use std::{collections::BTreeMap, net::IpAddr};

use futures::TryStreamExt;
use ipnet::IpNet;
use netlink_packet_route::{
    AddressFamily,
    address::{AddressAttribute, AddressFlags},
    link::{InfoData, InfoVxlan, LinkAttribute, LinkInfo, LinkMessage},
    neighbour::{
        NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
    },
    route::{RouteAttribute, RouteMessage, RouteMetric},
};
use rtnetlink::{Handle, LinkUnspec, LinkVxlan, RouteMessageBuilder};

use super::{DEVICE, DeviceEntries, NodeReachability, OverlayAction, PORT, Tunnel, VNI, VtepMac};
use crate::{
    Error,
    routes::netlink::{ignoring, remove_device, whole},
};

/// How the kernel would send to these addresses; those to which it would not are
/// missing.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn reach(
    handle: &Handle,
    addresses: &[IpAddr],
) -> Result<BTreeMap<IpAddr, NodeReachability>, Error> {
    let mut mtus = BTreeMap::new();
    let mut found = BTreeMap::new();
    for address in addresses {
        let Some(route) = route_to(handle, *address).await? else {
            continue;
        };
        let (mut device, mut gateway, mut learned) = (None, false, None);
        for attribute in &route.attributes {
            match attribute {
                RouteAttribute::Oif(index) => device = Some(*index),
                RouteAttribute::Gateway(_) | RouteAttribute::Via(_) => gateway = true,
                // What a router on the way said (RFC 1191, RFC 8201).
                RouteAttribute::Metrics(metrics) => {
                    learned = metrics.iter().find_map(|metric| match metric {
                        RouteMetric::Mtu(mtu) if *mtu > 0 => Some(*mtu),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        let Some(device) = device else { continue };
        let of_device = match mtus.get(&device) {
            Some(mtu) => *mtu,
            None => {
                let Some(link) = link(handle, EntryKey::Index(device)).await? else {
                    continue;
                };
                let mtu = mtu(&link);
                mtus.insert(device, mtu);
                mtu
            }
        };
        let reach = NodeReachability {
            on_link: !gateway,
            mtu: learned.unwrap_or(of_device).min(of_device),
        };
        found.insert(*address, reach);
    }
    Ok(found)
}

async fn route_to(handle: &Handle, address: IpAddr) -> Result<Option<RouteMessage>, Error> {
    let to = IpNet::from(address);
    let question = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(to.addr(), to.prefix_len())
        .map_err(|_| Error::Range(to))?
        .build();
    let found = handle.route().get(question).execute().try_next().await;
    match found {
        Ok(route) => Ok(route),
        // There is no way, or it is forbidden.
        Err(rtnetlink::Error::NetlinkError(_)) => Ok(None),
        Err(error) => Err(Error::netlink(format!("find the way to {address}"))(error)),
    }
}

/// Makes the device as it shall be; the index of it. One that differs in what
/// cannot be changed is made anew.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn ensure(handle: &Handle, tunnel: &Tunnel) -> Result<u32, Error> {
    if let Some(present) = link(handle, EntryKey::Name(DEVICE)).await? {
        if is_like(&present, tunnel) {
            let index = present.header.index;
            let wanted = LinkUnspec::new_with_index(index).mtu(tunnel.mtu).up();
            let set = handle.link().set(wanted.build()).execute().await;
            set.map_err(Error::netlink(format!("set the MTU of `{DEVICE}`")))?;
            return Ok(index);
        }
        remove_device(handle, DEVICE).await?;
    }
    let mut device = LinkVxlan::new(DEVICE, VNI)
        .port(PORT)
        .learning(false)
        .address(tunnel.mac.to_vec())
        .mtu(tunnel.mtu);
    device = match tunnel.local {
        IpAddr::V4(local) => device.local(local),
        IpAddr::V6(local) => device.local6(local),
    };
    let made = handle.link().add(device.up().build()).execute().await;
    made.map_err(Error::netlink(format!("make the device `{DEVICE}`")))?;
    let made = link(handle, EntryKey::Name(DEVICE)).await?;
    made.map(|link| link.header.index)
        .ok_or_else(|| Error::NoDevice(DEVICE.to_owned()))
}

/// The device's index, if there is one.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn index(handle: &Handle) -> Result<Option<u32>, Error> {
    Ok(link(handle, EntryKey::Name(DEVICE))
        .await?
        .map(|link| link.header.index))
}

enum EntryKey<'a> {
    Name(&'a str),
    Index(u32),
}

async fn link(handle: &Handle, key: EntryKey<'_>) -> Result<Option<LinkMessage>, Error> {
    let request = handle.link().get();
    let request = match key {
        EntryKey::Name(name) => request.match_name(name.to_owned()),
        EntryKey::Index(index) => request.match_index(index),
    };
    match request.execute().try_next().await {
        Ok(link) => Ok(link),
        Err(rtnetlink::Error::NetlinkError(error))
            if error.raw_code().abs() == nix::libc::ENODEV =>
        {
            Ok(None)
        }
        Err(error) => Err(Error::netlink("read a device")(error)),
    }
}

fn mtu(link: &LinkMessage) -> u32 {
    let mtu = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    };
    link.attributes.iter().find_map(mtu).unwrap_or_default()
}

/// Is it the device in all that cannot be changed?
fn is_like(link: &LinkMessage, tunnel: &Tunnel) -> bool {
    let (mut id, mut port, mut local, mut mac) = (None, None, None, None);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Address(address) => mac = Some(address.as_slice()),
            LinkAttribute::LinkInfo(infos) => {
                let of_vxlan = infos.iter().filter_map(|info| match info {
                    LinkInfo::Data(InfoData::Vxlan(data)) => Some(data),
                    _ => None,
                });
                for info in of_vxlan.flatten() {
                    match info {
                        InfoVxlan::Id(it) => id = Some(*it),
                        InfoVxlan::Port(it) => port = Some(*it),
                        InfoVxlan::Local(it) => local = Some(IpAddr::V4(*it)),
                        InfoVxlan::Local6(it) => local = Some(IpAddr::V6(*it)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    (id, port, local, mac)
        == (
            Some(VNI),
            Some(PORT),
            Some(tunnel.local),
            Some(tunnel.mac.as_slice()),
        )
}

/// What leads through the device.
///
/// # Errors
/// [`Error::Netlink`].
pub async fn entries(handle: &Handle, device: u32) -> Result<DeviceEntries, Error> {
    let mut entries = DeviceEntries::default();
    for (address, mac) in neighbours(handle, device, AddressFamily::Bridge).await? {
        entries.nodes.insert(mac, address);
    }
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        entries
            .gateways
            .extend(neighbours(handle, device, family).await?);
    }
    let addresses: Vec<_> = handle
        .address()
        .get()
        .set_link_index_filter(device)
        .execute()
        .try_collect()
        .await
        .map_err(Error::netlink(format!("read the addresses of `{DEVICE}`")))?;
    let of_link = |it: &IpAddr| matches!(it, IpAddr::V6(it) if it.is_unicast_link_local());
    entries.addresses = addresses
        .iter()
        .flat_map(|message| &message.attributes)
        .filter_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
        .filter(|address| !of_link(address))
        .collect();
    Ok(entries)
}

/// The permanent entries of a family: those that nobody learned.
async fn neighbours(
    handle: &Handle,
    device: u32,
    family: AddressFamily,
) -> Result<Vec<(IpAddr, VtepMac)>, Error> {
    let all: Vec<NeighbourMessage> = handle
        .neighbours()
        .get()
        .set_address_family(family)
        .execute()
        .try_collect()
        .await
        .map_err(Error::netlink("read the neighbours"))?;
    let ours = |it: &&NeighbourMessage| {
        it.header.ifindex == device && it.header.state == NeighbourState::Permanent
    };
    Ok(all.iter().filter(ours).filter_map(pair).collect())
}

fn pair(message: &NeighbourMessage) -> Option<(IpAddr, VtepMac)> {
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(it)) => {
                address = Some(IpAddr::V4(*it));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(it)) => {
                address = Some(IpAddr::V6(*it));
            }
            // Forwarding entries have the family of bridges, whatever the address.
            NeighbourAttribute::Destination(NeighbourAddress::Other(it)) => {
                let v4 = <[u8; 4]>::try_from(it.as_slice()).map(IpAddr::from);
                let v6 = <[u8; 16]>::try_from(it.as_slice()).map(IpAddr::from);
                address = v4.or(v6).ok();
            }
            NeighbourAttribute::LinkLayerAddress(it) => mac = it.as_slice().try_into().ok(),
            _ => {}
        }
    }
    Some((address?, mac?))
}

/// Does one change. What is there, or gone, already is no error.
///
/// # Errors
/// [`Error::Netlink`], naming it.
pub async fn apply(handle: &Handle, device: u32, action: OverlayAction) -> Result<(), Error> {
    let failed = || Error::netlink(format!("{action:?} at `{DEVICE}`"));
    match action {
        OverlayAction::SetNode(mac, node) => handle
            .neighbours()
            .add_bridge(device, &mac)
            .flags(NeighbourFlags::Own)
            .destination(node)
            .replace()
            .execute()
            .await
            .map_err(failed()),
        OverlayAction::SetGateway(gateway, mac) => handle
            .neighbours()
            .add(device, gateway)
            .link_layer_address(&mac)
            .state(NeighbourState::Permanent)
            .replace()
            .execute()
            .await
            .map_err(failed()),
        OverlayAction::RemoveNode(mac, node) => {
            let mut add = handle
                .neighbours()
                .add_bridge(device, &mac)
                .flags(NeighbourFlags::Own)
                .destination(node);
            let message = add.message_mut().clone();
            let removed = handle.neighbours().del(message).execute().await;
            ignoring(nix::libc::ENOENT, removed).map_err(failed())
        }
        OverlayAction::RemoveGateway(gateway, mac) => {
            let mut add = handle
                .neighbours()
                .add(device, gateway)
                .link_layer_address(&mac);
            let message = add.message_mut().clone();
            let removed = handle.neighbours().del(message).execute().await;
            ignoring(nix::libc::ENOENT, removed).map_err(failed())
        }
        OverlayAction::AddAddress(address) => {
            let mut add = handle.address().add(device, address, whole(address));
            if address.is_ipv6() {
                // Nobody else has it, and whoever speaks at once must have it.
                let nodad = AddressAttribute::Flags(AddressFlags::Nodad);
                add.message_mut().attributes.push(nodad);
            }
            ignoring(nix::libc::EEXIST, add.execute().await).map_err(failed())
        }
        OverlayAction::RemoveAddress(address) => {
            let mut add = handle.address().add(device, address, whole(address));
            let message = add.message_mut().clone();
            let removed = handle.address().del(message).execute().await;
            ignoring(nix::libc::EADDRNOTAVAIL, removed).map_err(failed())
        }
    }
}

#[cfg(test)]
mod tests;
