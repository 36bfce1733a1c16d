//! The bridge that joins test hosts, and their legs.

use std::{net::Ipv4Addr, process::Command};

use crate::{error::Error, run::output};

/// The prefix length of the network between test hosts.
pub const PREFIX: u8 = 24;

/// The address of the n-th test host, from 1.
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 88, 0, 10 + number)
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

/// Joins the host of the process `node` to the bridge.
///
/// # Errors
/// What `ip` says.
pub fn join(lan: i32, node: i32, number: u8) -> Result<(), Error> {
    let address = address(number);
    ip_in(
        lan,
        &format!("link add node{number} master br0 up type veth peer name eth0 netns {node}"),
    )?;
    ip_in(node, &format!("addr add {address}/{PREFIX} dev eth0"))?;
    ip_in(node, "link set eth0 up")?;
    // A default route as a real machine has one; nobody answers there.
    ip_in(node, "route add default via 10.88.0.1")
}
