//! The node's network devices and addresses, followed by rtnetlink(7).
//!
//! The kernel's messages only say that something changed: then all is read
//! anew, so that a lost message costs a moment and no more.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use netlink_packet_route::{
    address::AddressAttribute,
    link::{
        InfoKind, InfoPortKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
    },
};
use node_agent_datapath::Device;
use rtnetlink::{Handle, MulticastGroup, new_multicast_connection};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{Error, routes::netlink::addresses};

/// How long after a look no other one: messages come in crowds, a new pod's device
/// makes five. The first of them is not waited with, since its pod waits for it.
const SETTLE: Duration = Duration::from_millis(5);
/// And so many times as long as it took: of many devices a look takes a while.
const SPARE: u32 = 9;
/// How often all is read even if no message came.
const COMPARE: Duration = Duration::from_secs(30);
/// How long after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// The node's interfaces at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSnapshot {
    /// Devices, in the order of their indexes.
    pub devices: Vec<Device>,
    /// Addresses of all devices, sorted, each once.
    pub addresses: Vec<IpAddr>,
}

/// Reads what there is, and keeps the receiver up to date until `shutdown` or
/// until nobody receives any more.
///
/// # Errors
/// [`Error::Netlink`], [`Error::Netlink`] for the first look; later ones
/// are tried again.
pub async fn follow(
    shutdown: CancellationToken,
) -> Result<watch::Receiver<InterfaceSnapshot>, Error> {
    let groups = [
        MulticastGroup::Link,
        MulticastGroup::Ipv4Ifaddr,
        MulticastGroup::Ipv6Ifaddr,
    ];
    let (connection, handle, mut messages) =
        new_multicast_connection(&groups).map_err(Error::NetlinkSocket)?;
    tokio::spawn(connection);
    let (sender, receiver) = watch::channel(read(&handle).await?);
    // What it holds of the kernel cannot be made again: a new agent makes it.
    let work = async move {
        let mut pause = COMPARE;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sender.closed() => return,
                () = tokio::time::sleep(pause) => {}
                // An end of the messages leaves the comparisons in time.
                Some(_) = messages.next() => while messages.try_recv().is_ok() {},
            }
            let begun = Instant::now();
            let found = read(&handle).await;
            let took = begun.elapsed();
            match found {
                Ok(found) => {
                    pause = COMPARE;
                    sender.send_if_modified(|known| {
                        let changed = *known != found;
                        if changed {
                            *known = found;
                        }
                        changed
                    });
                }
                Err(error) => {
                    pause = RETRY;
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to list the node's devices; retrying"
                    );
                }
            }
            tokio::time::sleep(SETTLE.max(took * SPARE)).await;
        }
    };
    control_supervise::task("device-follower").spawn_essential(work);
    Ok(receiver)
}

async fn read(handle: &Handle) -> Result<InterfaceSnapshot, Error> {
    let links: Vec<_> = handle
        .link()
        .get()
        .execute()
        .try_collect()
        .await
        .map_err(Error::netlink("read the devices"))?;
    let messages = addresses(handle).await?;
    let mut devices: Vec<_> = links.iter().map(device).collect();
    devices.sort_by_key(|device| device.index);
    let mut addresses: Vec<IpAddr> = messages
        .iter()
        .filter_map(|message| {
            // With a peer, the own address is the local one.
            let of = |local: bool| {
                message
                    .attributes
                    .iter()
                    .find_map(|attribute| match attribute {
                        AddressAttribute::Local(address) if local => Some(*address),
                        AddressAttribute::Address(address) if !local => Some(*address),
                        _ => None,
                    })
            };
            of(true).or_else(|| of(false))
        })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(InterfaceSnapshot { devices, addresses })
}

fn device(message: &LinkMessage) -> Device {
    let mut device = Device {
        index: message.header.index,
        loopback: message.header.flags.contains(LinkFlags::Loopback),
        ethernet: message.header.link_layer_type == LinkLayerType::Ether,
        ..Device::default()
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => device.name.clone_from(name),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => device.kind = kind.to_string(),
                        LinkInfo::PortKind(InfoPortKind::Vrf) => {}
                        LinkInfo::PortKind(_) => device.port = true,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    debug_assert!(device.kind != InfoKind::Vrf.to_string() || !device.port);
    device
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sched::{CloneFlags, unshare};

    use super::*;

    fn ip(arguments: &str) {
        let words = arguments.split(' ');
        let status = Command::new("ip")
            .args(words)
            .status()
            .expect("the program `ip`");
        assert!(status.success(), "ip {arguments}");
    }

    async fn until(
        receiver: &mut watch::Receiver<InterfaceSnapshot>,
        condition: impl Fn(&InterfaceSnapshot) -> bool,
    ) -> InterfaceSnapshot {
        let wanted = tokio::time::timeout(Duration::from_secs(5), receiver.wait_for(condition));
        wanted.await.expect("in time").expect("followed").clone()
    }

    #[test]
    fn devices_and_addresses_are_known_at_once_and_followed() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to make network namespaces");
            return;
        }
        let work = async {
            let stop = CancellationToken::new();
            let mut receiver = follow(stop.clone()).await.expect("followed");
            let first = receiver.borrow().clone();
            assert!(
                first
                    .devices
                    .iter()
                    .any(|it| it.name == "lo" && it.loopback && !it.ethernet)
            );
            ip("link add br0 type bridge");
            ip("link add eth0 type veth peer name far0");
            ip("link set far0 master br0");
            ip("addr add 10.9.0.1/24 dev eth0");
            ip("addr add fd00:9::1/64 dev eth0 nodad");
            let named = |found: &InterfaceSnapshot, name: &str| {
                found.devices.iter().find(|it| it.name == name).cloned()
            };
            let own: IpAddr = "fd00:9::1".parse().expect("address");
            let found = until(&mut receiver, |found| {
                found.addresses.contains(&own) && named(found, "far0").is_some_and(|it| it.port)
            })
            .await;
            let eth0 = named(&found, "eth0").expect("eth0");
            assert!(
                eth0.ethernet && !eth0.port && eth0.kind == "veth",
                "{eth0:?}"
            );
            assert_eq!(named(&found, "br0").expect("br0").kind, "bridge");
            assert!(found.addresses.contains(&IpAddr::from([10, 9, 0, 1])));
            ip("link del eth0");
            let found = until(&mut receiver, |found| named(found, "far0").is_none()).await;
            assert!(!found.addresses.contains(&own));
            stop.cancel();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime")
                    .block_on(work);
            });
        });
    }
}
