//! The bridge that joins test hosts, and their legs.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    process::Command,
};

use serde::{Deserialize, Serialize};

use crate::{error::Error, run::output};

/// The prefix length of the network between test hosts.
pub const PREFIX: u8 = 24;
/// That of their IPv6 network.
const PREFIX_6: u8 = 64;

/// The addresses of a cluster, and the routes between its nodes' pods.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Net {
    /// Whether there are IPv6 addresses beside IPv4.
    pub dual_stack: bool,
    /// The agents' `--overlay`; their default unless given.
    pub overlay: Option<String>,
    /// Whether servers are test hosts of their own, which are no nodes and reach pods, too.
    #[serde(default)]
    pub has_servers: bool,
}

impl Net {
    /// The addresses of the n-th test host, as the agent takes them.
    pub fn addresses(&self, number: u8) -> String {
        let mut all = address(number).to_string();
        if self.dual_stack {
            all += &format!(",{}", address_6(number));
        }
        all
    }

    /// The server's options that say which ranges Services and pods have.
    pub fn ranges(&self) -> &'static str {
        if self.dual_stack {
            "--service-cluster-ip-range 10.96.0.0/16,fd88:96::/112 \
             --cluster-cidr 10.244.0.0/16,fd88:244::/56"
        } else {
            "--service-cluster-ip-range 10.96.0.0/16 --cluster-cidr 10.244.0.0/16"
        }
    }
}

/// The IPv4 range of pods.
const PODS: &str = "10.244.0.0/16";

/// The number of the n-th server among the test hosts.
pub const fn of_server(server: u8) -> u8 {
    200 + server
}

/// The address of all servers together.
pub const SERVERS: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 10);

/// The bridge's own address, through which this machine's loopback reaches the servers.
/// Nothing is routed through it.
const BRIDGE: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);

/// The address of the n-th test host, from 1.
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 88, 0, 10 + number)
}

fn address_6(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd88, 0, 0, 0, 0, 0, 0, u16::from(10 + number))
}

fn ip_in(pid: i32, words: &str) -> Result<(), Error> {
    output(
        Command::new("nsenter")
            .args(["--net", "--target", &pid.to_string(), "--", "ip"])
            .args(words.split(' ')),
    )
    .map(drop)
}

/// Makes the bridge in the namespace of the process `lan`.
///
/// # Errors
/// What `ip` says.
pub fn bridge(lan: i32) -> Result<(), Error> {
    ip_in(lan, "link add br0 type bridge")?;
    ip_in(lan, "link set br0 up")
}

/// Gives the bridge an address in the namespace of the process `lan`.
///
/// # Errors
/// What `ip` says.
pub fn address_bridge(lan: i32) -> Result<(), Error> {
    ip_in(lan, &format!("addr add {BRIDGE}/{PREFIX} dev br0"))
}

/// Joins the host of the process `node` to the bridge.
///
/// # Errors
/// What `ip` says.
pub fn join(lan: i32, node: i32, number: u8, net: &Net) -> Result<(), Error> {
    let address = address(number);
    // Sockets that still say goodbye can keep the network of a host that ended, and its leg.
    let _ = ip_in(lan, &format!("link del node{number}"));
    ip_in(
        lan,
        &format!("link add node{number} master br0 up type veth peer name eth0 netns {node}"),
    )?;
    ip_in(node, &format!("addr add {address}/{PREFIX} dev eth0"))?;
    ip_in(node, "link set eth0 up")?;
    if net.dual_stack {
        let address = address_6(number);
        // The address is unused, and programs would otherwise start without it.
        ip_in(
            node,
            &format!("addr add {address}/{PREFIX_6} dev eth0 nodad"),
        )?;
    }
    // A default route as on a real machine; nothing answers there.
    ip_in(node, "route add default via 10.88.0.1")?;
    if net.has_servers {
        pods_of_servers(node, number)?;
    }
    Ok(())
}

/// Lets servers reach pods, for webhooks and extension API servers. Which node has which pods is
/// not known when hosts start: servers ask for each pod by ARP, and nodes answer for theirs.
fn pods_of_servers(node: i32, number: u8) -> Result<(), Error> {
    if number > of_server(0) {
        return ip_in(node, &format!("route add {PODS} dev eth0"));
    }
    output(
        Command::new("nsenter")
            .args(["--net", "--target", &node.to_string(), "--"])
            .args([
                "sh",
                "-c",
                "echo 1 > /proc/sys/net/ipv4/conf/eth0/proxy_arp",
            ]),
    )
    .map(drop)
}

/// Sets the bridge's end of a host's leg up or down.
///
/// # Errors
/// What `ip` says.
pub fn set_leg(lan: i32, number: u8, state: &str) -> Result<(), Error> {
    ip_in(lan, &format!("link set node{number} {state}"))
}
