//! Two hosts without our programs on the nodes' bridge, each with a namespace behind a veth pair
//! in place of a pod.
//!
//! ```text
//! pod ── veth ── host ── eth0 ── br0 ── eth0 ── host ── veth ── pod
//!                     └─ vxlan ─┘    └─ vxlan ─┘
//! ```

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::lan::Lan;
use tests::{Failure, ensure, netns};

use super::Place;

/// The namespaces of one plain cluster; they go with it.
pub struct Plain {
    names: Vec<String>,
    places: [Place; 2],
}

impl Plain {
    /// Joins two plain hosts to the bridge of a cluster; through a VXLAN
    /// device or by routes; pods with this MTU.
    pub fn new(lan: &Lan, tunnel: bool, mtu: &str) -> Result<Self, Failure> {
        let mut plain = Self {
            names: Vec::new(),
            places: [place(1), place(2)],
        };
        for number in 1..=2 {
            for part in ["host", "pod"] {
                let name = name(part, number);
                run(&["netns", "add", &name])?;
                plain.names.push(name);
            }
            host(&lan.network(), number, mtu)?;
        }
        for number in 1..=2 {
            if tunnel {
                through_vxlan(number, mtu)?;
            } else {
                over_routes(number)?;
            }
        }
        Ok(plain)
    }

    /// Who stands in the place of pods.
    pub fn places(&self) -> &[Place; 2] {
        &self.places
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = run(&["netns", "delete", name]);
        }
    }
}

fn name(part: &str, number: u8) -> String {
    format!("orlop-bench-{}-{part}-{number}", std::process::id())
}

fn network(part: &str, number: u8) -> PathBuf {
    Path::new("/run/netns").join(name(part, number))
}

fn place(number: u8) -> Place {
    Place {
        network: network("pod", number),
        addresses: vec![
            IpAddr::from([10, 250, number, 2]),
            IpAddr::from([0xfd99, 0, 0, u16::from(number), 0, 0, 0, 2]),
        ],
    }
}

/// One host on the bridge, with its pod.
fn host(lan: &Path, number: u8, mtu: &str) -> Result<(), Failure> {
    let (host, pod) = (network("host", number), network("pod", number));
    let peer = name("host", number);
    ip_in(
        lan,
        &format!("link add plain{number} type veth peer name eth0 netns {peer}"),
    )?;
    ip_in(lan, &format!("link set plain{number} master br0 up"))?;
    ip_in(
        &host,
        &format!("addr add 10.88.0.{}/24 dev eth0", 100 + number),
    )?;
    ip_in(
        &host,
        &format!("addr add fd88::{number}00/64 dev eth0 nodad"),
    )?;
    ip_in(&host, "link set eth0 up")?;
    let peer = name("pod", number);
    ip_in(
        &host,
        &format!("link add pod mtu {mtu} type veth peer name eth0 mtu {mtu} netns {peer}"),
    )?;
    ip_in(&host, &format!("addr add 10.250.{number}.1/24 dev pod"))?;
    ip_in(
        &host,
        &format!("addr add fd99:0:0:{number}::1/64 dev pod nodad"),
    )?;
    ip_in(&host, "link set pod up")?;
    for setting in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
        netns::inside(&host, &format!("sysctl -qw {setting}"))?;
    }
    ip_in(&pod, &format!("addr add 10.250.{number}.2/24 dev eth0"))?;
    ip_in(
        &pod,
        &format!("addr add fd99:0:0:{number}::2/64 dev eth0 nodad"),
    )?;
    ip_in(&pod, "link set eth0 up")?;
    ip_in(&pod, &format!("route add default via 10.250.{number}.1"))?;
    ip_in(
        &pod,
        &format!("-6 route add default via fd99:0:0:{number}::1"),
    )
}

fn over_routes(number: u8) -> Result<(), Failure> {
    let (host, other) = (network("host", number), 3 - number);
    ip_in(
        &host,
        &format!("route add 10.250.{other}.0/24 via 10.88.0.{}", 100 + other),
    )?;
    ip_in(
        &host,
        &format!("-6 route add fd99:0:0:{other}::/64 via fd88::{other}00"),
    )
}

/// A device as the kernel makes it unless told otherwise, with one other end.
fn through_vxlan(number: u8, mtu: &str) -> Result<(), Failure> {
    let (host, other) = (network("host", number), 3 - number);
    ip_in(
        &host,
        &format!(
            "link add vxlan0 mtu {mtu} type vxlan id 42 dstport 8472 local 10.88.0.{} remote 10.88.0.{} dev eth0",
            100 + number,
            100 + other
        ),
    )?;
    ip_in(&host, &format!("addr add 10.251.0.{number}/24 dev vxlan0"))?;
    ip_in(
        &host,
        &format!("addr add fd98::{number}/64 dev vxlan0 nodad"),
    )?;
    ip_in(&host, "link set vxlan0 up")?;
    ip_in(
        &host,
        &format!("route add 10.250.{other}.0/24 via 10.251.0.{other}"),
    )?;
    ip_in(
        &host,
        &format!("-6 route add fd99:0:0:{other}::/64 via fd98::{other}"),
    )
}

fn ip_in(network: &Path, words: &str) -> Result<(), Failure> {
    netns::inside(network, &format!("ip {words}")).map(drop)
}

fn run(words: &[&str]) -> Result<(), Failure> {
    let status = Command::new("ip").args(words).status()?;
    ensure(status.success(), format!("ip {}", words.join(" ")))
}
