//! Two nodes on links of their own with a router between, each with a pod. Needs
//! root.
//!
//! ```text
//! pod ── node a ──192.0.2.0/24── router ──198.51.100.0/24── node b ── pod
//!                 2001:db8:a::/64         2001:db8:b::/64
//! ```

use std::{
    fs::File,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::Command,
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, setns, unshare};

use super::*;
use crate::{
    network::bring_about,
    overlay::{Overlay, OverlayHost, OverlayNetwork, desired},
    routes::NodeNetwork,
};

/// A network namespace; it goes with the last file and thread that has it.
struct Host(File);

impl Host {
    fn new() -> Self {
        let open = || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            ip("link set lo up");
            for setting in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/{setting}"), "1").expect("a setting");
            }
            File::open("/proc/thread-self/ns/net").expect("the namespace")
        };
        Self(thread::spawn(open).join().expect("a thread"))
    }

    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = || {
                setns(&self.0, CloneFlags::CLONE_NEWNET).expect("enter");
                work()
            };
            scope.spawn(inside).join().expect("a thread")
        })
    }

    /// Runs `work` with the kernel of this host.
    fn with_kernel<T: Send>(&self, work: impl AsyncFnOnce(Handle) -> T + Send) -> T {
        self.run(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(async { work(crate::routes::netlink::connect().expect("netlink")).await })
        })
    }

    /// Connects a device of this host's with one of another's.
    fn join(&self, own: &str, other: &Self, name: &str) {
        use std::os::fd::AsRawFd;
        // The descriptor is this process's, and so is the child's path to it.
        let path = format!("/proc/{}/fd/{}", std::process::id(), other.0.as_raw_fd());
        self.run(|| {
            ip(&format!(
                "link add {own} type veth peer name {name} netns {path}"
            ));
            ip(&format!("link set {own} up"));
        });
        other.run(|| ip(&format!("link set {name} up")));
    }

    fn configure(&self, lines: &[&str]) {
        self.run(|| lines.iter().for_each(|line| ip(line)));
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .expect("the program `ip`");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {error}");
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

struct World {
    a: Host,
    b: Host,
    _router: Host,
    pod_a: Host,
    pod_b: Host,
}

fn world() -> World {
    let [a, b, router, pod_a, pod_b] = std::array::from_fn(|_| Host::new());
    a.join("eth0", &router, "toa");
    b.join("eth0", &router, "tob");
    router.configure(&[
        "addr add 192.0.2.254/24 dev toa",
        "addr add 198.51.100.254/24 dev tob",
        "addr add 2001:db8:a::fe/64 dev toa nodad",
        "addr add 2001:db8:b::fe/64 dev tob nodad",
    ]);
    a.configure(&[
        "addr add 192.0.2.1/24 dev eth0",
        "addr add 2001:db8:a::1/64 dev eth0 nodad",
        "route add default via 192.0.2.254",
        "route add default via 2001:db8:a::fe",
    ]);
    b.configure(&[
        "addr add 198.51.100.2/24 dev eth0",
        "addr add 2001:db8:b::2/64 dev eth0 nodad",
        "route add default via 198.51.100.254",
        "route add default via 2001:db8:b::fe",
    ]);
    for (node, pod, number) in [(&a, &pod_a, 1), (&b, &pod_b, 2)] {
        node.join("pod0", pod, "eth0");
        node.configure(&[
            "addr add 169.254.1.1/32 dev pod0",
            "addr add fe80::1/64 dev pod0 nodad",
            &format!("route add 10.0.{number}.5/32 dev pod0"),
            &format!("route add fd00:{number}::5/128 dev pod0"),
        ]);
        pod.configure(&[
            &format!("addr add 10.0.{number}.5/32 dev eth0"),
            &format!("addr add fd00:{number}::5/128 dev eth0 nodad"),
            "route add default via 169.254.1.1 dev eth0 onlink",
            "route add default via fe80::1 dev eth0",
        ]);
    }
    World {
        a,
        b,
        _router: router,
        pod_a,
        pod_b,
    }
}

fn nodes(v4: bool) -> [NodeNetwork; 2] {
    let node = |name: &str, addresses: [&str; 2], number: u8| NodeNetwork {
        name: name.to_owned(),
        addresses: vec![address(addresses[usize::from(!v4)])],
        pod_ranges: vec![
            format!("10.0.{number}.0/24").parse().expect("range"),
            format!("fd00:{number}::/64").parse().expect("range"),
        ],
    };
    [
        node("a", ["192.0.2.1", "2001:db8:a::1"], 1),
        node("b", ["198.51.100.2", "2001:db8:b::2"], 2),
    ]
}

/// What the agent does on each change, on one node.
async fn agent(
    kernel: &Handle,
    nodes: &[NodeNetwork],
    own: usize,
    overlay: Overlay,
) -> OverlayNetwork {
    let address = nodes[own].addresses[0];
    let machine = OverlayHost {
        address,
        mtu: crate::routes::netlink::mtu_of(kernel, address)
            .await
            .expect("an interface"),
        reach: reach(kernel, &nodes[1 - own].addresses)
            .await
            .expect("routes"),
    };
    let network = desired(nodes, &nodes[own].name, overlay, &machine);
    bring_about(kernel, &network).await.expect("applied");
    network
}

/// Asks `server` from `client`; who it says that it saw.
fn asked_by(client: &Host, server: &Host, at: IpAddr) -> IpAddr {
    let listener = server.run(|| TcpListener::bind((at, 0)).expect("a port"));
    let to = listener.local_addr().expect("an address");
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let (mut stream, from) = listener.accept().expect("a client");
            // More than one packet, each as long as the way takes.
            stream.write_all(&[7; 100_000]).expect("sent");
            from.ip()
        });
        client.run(|| {
            let limit = Duration::from_secs(30);
            let mut stream = TcpStream::connect_timeout(&to, limit).expect("connected");
            stream.set_read_timeout(Some(limit)).expect("a limit");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("an answer");
            assert_eq!(all.len(), 100_000);
        });
        serving.join().expect("a thread")
    })
}

/// Sends datagrams of 1 440 bytes, until somebody on the way has said how long they
/// may be.
fn told_mtu(host: &Host, to: IpAddr) -> u32 {
    host.with_kernel(async |kernel| {
        let any: IpAddr = if to.is_ipv4() {
            [0; 4].into()
        } else {
            [0; 16].into()
        };
        let socket = UdpSocket::bind((any, 0)).expect("a socket");
        let mut known = 0;
        for _ in 0..500 {
            // Refused once the kernel knows.
            let _ = socket.send_to(&[0; 1440], SocketAddr::new(to, 9));
            known = reach(&kernel, &[to]).await.expect("the way")[&to].mtu;
            if known < 1500 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        known
    })
}

fn root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("skipped: needs root to make network namespaces");
    }
    root
}

#[test]
fn pods_behind_a_router_reach_each_other_as_themselves() {
    if !root() {
        return;
    }
    for v4 in [true, false] {
        let world = world();
        let nodes = nodes(v4);
        let hosts = [(&world.a, 0), (&world.b, 1)];
        for (host, own) in hosts {
            // Twice: the second time finds nothing to do.
            for _ in 0..2 {
                let network = host
                    .with_kernel(async |kernel| agent(&kernel, &nodes, own, Overlay::Auto).await);
                let expected = if v4 { 1450 } else { 1430 };
                assert_eq!(network.mtu, expected);
                let tunnel = network.tunnel.expect("a device");
                let present = host.with_kernel(async |kernel| {
                    let device = index(&kernel).await.expect("read").expect("a device");
                    entries(&kernel, device).await.expect("read")
                });
                assert_eq!(crate::overlay::diff(&present, &tunnel), []);
            }
        }
        let at = ["10.0.2.5", "fd00:2::5"].map(address);
        let from = ["10.0.1.5", "fd00:1::5"].map(address);
        let node = ["10.0.1.0", "fd00:1::"].map(address);
        for i in 0..2 {
            assert_eq!(asked_by(&world.pod_a, &world.pod_b, at[i]), from[i]);
            assert_eq!(asked_by(&world.pod_b, &world.pod_a, from[i]), at[i]);
            // The node itself, from its address on the device.
            assert_eq!(asked_by(&world.a, &world.pod_b, at[i]), node[i]);
            // Pods' interfaces here take more than the tunnel: they are told.
            let expected = if v4 { 1450 } else { 1430 };
            assert_eq!(told_mtu(&world.pod_a, at[i]), expected, "to {}", at[i]);
        }
        // Without the other node, nothing is left.
        for (host, own) in hosts {
            let alone = &nodes[own..=own];
            host.with_kernel(async |kernel| {
                let machine = OverlayHost {
                    address: nodes[own].addresses[0],
                    mtu: 1500,
                    reach: BTreeMap::new(),
                };
                let network = desired(alone, &nodes[own].name, Overlay::Auto, &machine);
                bring_about(&kernel, &network).await.expect("applied");
                assert_eq!(index(&kernel).await.expect("read"), None);
                let routes = crate::routes::netlink::present(&kernel, None).await;
                assert_eq!(routes.expect("read").len(), 2, "its own ranges");
            });
        }
    }
}

#[test]
fn a_way_that_moves_between_link_and_tunnel_is_followed() {
    if !root() {
        return;
    }
    let world = world();
    let mut nodes = nodes(true);
    // IPv6 of nodes that have none would need the tunnel on a link, too.
    nodes.iter_mut().for_each(|it| it.pod_ranges.truncate(1));
    let routes_of = |overlay| {
        world.a.with_kernel(async |kernel| {
            let network = agent(&kernel, &nodes, 0, overlay).await;
            let tunnel = index(&kernel).await.expect("read");
            let present = crate::routes::netlink::present(&kernel, tunnel).await;
            assert_eq!(present.expect("read"), network.routes);
            network.tunnel.is_some()
        })
    };
    assert!(routes_of(Overlay::Auto));
    // The other node's address appears on the link, as after a change of masks.
    world
        .a
        .configure(&["route add 198.51.100.2/32 dev eth0 scope link"]);
    assert!(!routes_of(Overlay::Auto));
    assert!(routes_of(Overlay::Always));
    world.a.configure(&["link set dev vxlan.orlop mtu 1300"]);
    assert!(routes_of(Overlay::Always));
    let found = world.a.with_kernel(async |kernel| {
        let link = link(&kernel, EntryKey::Name(DEVICE)).await.expect("read");
        mtu(&link.expect("a device"))
    });
    assert_eq!(found, 1450, "what somebody changed is changed back");
}
