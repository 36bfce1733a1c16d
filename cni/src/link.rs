//! Interfaces, addresses, routes and neighbours, by netlink.
//!
//! A pod's side is set up by a thread that enters the pod's network namespace;
//! the process itself never leaves the node's.

use std::{
    fs::File,
    future::Future,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::Path,
};

use cni_addresses::{
    host_prefix,
    messages::{self, Pair},
    wire::End,
};
use futures::TryStreamExt;
use netlink_packet_route::{
    address::AddressAttribute,
    link::{LinkAttribute, LinkFlags, LinkMessage},
    route::{RouteAddress, RouteAttribute, RouteMessage},
};
use nix::sched::{CloneFlags, setns};
use rtnetlink::{Handle, RouteMessageBuilder};

use crate::error::Error;

/// An interface as the kernel has it.
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) mac: Vec<u8>,
    /// In bytes.
    pub(crate) mtu: u32,
    pub(crate) up: bool,
}

impl From<End> for Link {
    /// As the agent made it; its index is the agent's business.
    fn from(End { mac, mtu }: End) -> Self {
        Self {
            index: 0,
            mac: mac.to_vec(),
            mtu,
            up: true,
        }
    }
}

impl Link {
    fn of(message: &LinkMessage) -> Self {
        let (mut mac, mut mtu) = (Vec::new(), 0);
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::Address(address) => mac.clone_from(address),
                LinkAttribute::Mtu(bytes) => mtu = *bytes,
                _ => {}
            }
        }
        Self {
            index: message.header.index,
            mac,
            mtu,
            up: message.header.flags.contains(LinkFlags::Up),
        }
    }
}

/// Runs `work` with a netlink connection of the calling thread's namespace.
pub(crate) fn with_netlink<T, F>(work: impl FnOnce(Handle) -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Connection)?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(Error::Connection)?;
        tokio::spawn(connection);
        work(handle).await
    })
}

/// Runs `work` on a thread that has entered the network namespace at `path`.
pub(crate) fn in_namespace<T: Send>(
    path: &Path,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let name = path.display().to_string();
    let namespace = File::open(path).map_err(|error| Error::Namespace {
        path: name.clone(),
        source: nix::Error::from_raw(error.raw_os_error().unwrap_or(nix::libc::ENOENT)),
    })?;
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                setns(&namespace, CloneFlags::CLONE_NEWNET)
                    .map_err(|source| Error::Namespace { path: name, source })?;
                work()
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Creates a pair: the node's end here, the pod's in its namespace.
pub(crate) async fn create_pair(netlink: &Handle, wanted: &Pair<'_>) -> Result<(), Error> {
    netlink
        .link()
        .add(messages::pair(wanted))
        .execute()
        .await
        .map_err(netlink_error(|| {
            format!("create the veth pair `{}` – `{}`", wanted.host, wanted.pod)
        }))
}

/// The interface of this name.
pub(crate) async fn find(netlink: &Handle, name: &str) -> Result<Link, Error> {
    match netlink
        .link()
        .get()
        .match_name(name.to_owned())
        .execute()
        .try_next()
        .await
    {
        Ok(Some(message)) => Ok(Link::of(&message)),
        Ok(None) => Err(Error::NoInterface(name.to_owned())),
        Err(error) if errno(&error) == Some(nix::libc::ENODEV) => {
            Err(Error::NoInterface(name.to_owned()))
        }
        Err(error) => Err(netlink_error(|| format!("read interface `{name}`"))(error)),
    }
}

/// Removes an interface; one that is absent is no error.
pub(crate) async fn remove(netlink: &Handle, name: &str) -> Result<(), Error> {
    let link = match find(netlink, name).await {
        Ok(link) => link,
        Err(Error::NoInterface(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    match netlink.link().del(link.index).execute().await {
        Err(error) if errno(&error) != Some(nix::libc::ENODEV) => {
            Err(netlink_error(|| format!("remove interface `{name}`"))(
                error,
            ))
        }
        _ => Ok(()),
    }
}

/// Sets an interface up.
pub(crate) async fn set_up(netlink: &Handle, index: u32) -> Result<(), Error> {
    netlink
        .link()
        .set(messages::up(index))
        .execute()
        .await
        .map_err(netlink_error(|| format!("set interface {index} up")))
}

/// Adds an address to an interface.
pub(crate) async fn add_address(
    netlink: &Handle,
    index: u32,
    address: IpAddr,
) -> Result<(), Error> {
    let mut request = netlink.address().add(index, address, 0).replace();
    *request.message_mut() = messages::own_address(index, address);
    request
        .execute()
        .await
        .map_err(netlink_error(|| format!("add address {address}")))
}

/// The addresses of an interface.
pub(crate) async fn addresses(netlink: &Handle, index: u32) -> Result<Vec<IpAddr>, Error> {
    let messages: Vec<_> = netlink
        .address()
        .get()
        .set_link_index_filter(index)
        .execute()
        .try_collect()
        .await
        .map_err(netlink_error(|| "read addresses".to_owned()))?;
    Ok(messages
        .iter()
        .flat_map(|message| &message.attributes)
        .filter_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
        .collect())
}

/// The default route by the gateway on this interface.
pub(crate) async fn add_default_route(
    netlink: &Handle,
    index: u32,
    gateway: IpAddr,
) -> Result<(), Error> {
    netlink
        .route()
        .add(messages::default_route(index, gateway))
        .replace()
        .execute()
        .await
        .map_err(netlink_error(|| {
            format!("add the default route by {gateway}")
        }))
}

/// Returns whether the default route by the gateway exists on this interface.
pub(crate) async fn has_default_route(
    netlink: &Handle,
    index: u32,
    gateway: IpAddr,
) -> Result<bool, Error> {
    let found = routes(netlink, gateway.is_ipv4(), index).await?;
    Ok(found.iter().any(|route| {
        route.header.destination_prefix_length == 0
            && route.attributes.iter().any(
                |it| matches!(it, RouteAttribute::Gateway(by) if *by == RouteAddress::from(gateway)),
            )
    }))
}

/// Returns whether the route to a pod's address exists on this interface.
pub(crate) async fn has_pod_route(
    netlink: &Handle,
    index: u32,
    address: IpAddr,
) -> Result<bool, Error> {
    let found = routes(netlink, address.is_ipv4(), index).await?;
    Ok(found.iter().any(|route| {
        route.header.destination_prefix_length == host_prefix(&address)
            && route.attributes.iter().any(|it| {
                matches!(it, RouteAttribute::Destination(to) if *to == RouteAddress::from(address))
            })
    }))
}

/// The routes of an IP version on this interface.
async fn routes(netlink: &Handle, v4: bool, index: u32) -> Result<Vec<RouteMessage>, Error> {
    let all = if v4 {
        RouteMessageBuilder::<Ipv4Addr>::new().build()
    } else {
        RouteMessageBuilder::<Ipv6Addr>::new().build()
    };
    let on = |route: &RouteMessage| {
        let mut attributes = route.attributes.iter();
        attributes.any(|it| matches!(it, RouteAttribute::Oif(oif) if *oif == index))
    };
    let found: Vec<_> = netlink
        .route()
        .get(all)
        .execute()
        .try_collect()
        .await
        .map_err(netlink_error(|| "read routes".to_owned()))?;
    Ok(found.into_iter().filter(on).collect())
}

/// The route to one pod's address on the host's end of its pair.
pub(crate) async fn add_pod_route(
    netlink: &Handle,
    index: u32,
    address: IpAddr,
) -> Result<(), Error> {
    netlink
        .route()
        .add(messages::pod_route(index, address))
        .replace()
        .execute()
        .await
        .map_err(netlink_error(|| format!("add the route to {address}")))
}

/// A neighbour that needs no asking.
pub(crate) async fn add_neighbour(
    netlink: &Handle,
    index: u32,
    address: IpAddr,
    mac: &[u8],
) -> Result<(), Error> {
    let mut request = netlink.neighbours().add(index, address).replace();
    *request.message_mut() = messages::neighbour(index, address, mac);
    request
        .execute()
        .await
        .map_err(netlink_error(|| format!("add the neighbour {address}")))
}

fn netlink_error(action: impl FnOnce() -> String) -> impl FnOnce(rtnetlink::Error) -> Error {
    |source| Error::Netlink {
        action: action(),
        source,
    }
}

/// The kernel's error number, positive.
fn errno(error: &rtnetlink::Error) -> Option<i32> {
    match error {
        rtnetlink::Error::NetlinkError(message) => Some(message.raw_code().abs()),
        _ => None,
    }
}
