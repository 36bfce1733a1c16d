//! UDP that moves: who was sent to a backend that is gone is sent to another at once.

mod host;

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use host::{Host, Server, put_service, put_slice, service, slice};
use nix::sched::{CloneFlags, setns, unshare};
use node_agent_datapath::{Move, MoveSummary, Mover};

fn connected(to: &str) -> UdpSocket {
    let any = if to.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = UdpSocket::bind(any).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    socket.connect(to.parse::<SocketAddr>().unwrap()).unwrap();
    socket
}

/// Which server answers; an error if the socket is none any more.
fn ask(socket: &UdpSocket) -> std::io::Result<String> {
    socket.send(b"?")?;
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

#[test]
fn sockets_of_a_backend_that_is_gone_move_without_their_owner_and_no_others() {
    let Some(host) = Host::new() else { return };
    for address in ["10.244.0.1", "10.244.0.2", "fd00:244::1", "fd00:244::2"] {
        host.address(address);
    }
    let _servers: Vec<_> = [
        "10.244.0.1:5353",
        "10.244.0.2:5353",
        "[fd00:244::1]:5353",
        "[fd00:244::2]:5353",
    ]
    .into_iter()
    .map(Server::start)
    .collect();
    let mut engine = host.engine();
    put_service(
        &mut engine,
        &service("dns", &["10.96.0.10", "fd00:96::a"], 53),
    );
    put_service(&mut engine, &service("other", &["10.96.0.11"], 53));
    put_slice(&mut engine, &slice("dns-4", "dns", &["10.244.0.1"], 5353));
    put_slice(&mut engine, &slice("dns-6", "dns", &["fd00:244::1"], 5353));
    put_slice(
        &mut engine,
        &slice("other-4", "other", &["10.244.0.1"], 5353),
    );

    let v4 = connected("10.96.0.10:53");
    let mapped = {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        socket
            .connect("[::ffff:10.96.0.10]:53".parse::<SocketAddr>().unwrap())
            .unwrap();
        socket
    };
    let v6 = connected("[fd00:96::a]:53");
    let another_service = connected("10.96.0.11:53");
    let direct = connected("10.244.0.1:5353");
    for socket in [&v4, &mapped, &another_service, &direct] {
        assert_eq!(ask(socket).unwrap(), "10.244.0.1:5353");
    }
    assert_eq!(ask(&v6).unwrap(), "[fd00:244::1]:5353");

    put_slice(&mut engine, &slice("dns-4", "dns", &["10.244.0.2"], 5353));
    put_slice(&mut engine, &slice("dns-6", "dns", &["fd00:244::2"], 5353));
    let sockets = |texts: &[&str]| texts.iter().map(|it| it.parse().unwrap()).collect();
    let gone = [Move {
        fronts: sockets(&["10.96.0.10:53", "[fd00:96::a]:53"]),
        backends: sockets(&["10.244.0.1:5353", "[fd00:244::1]:5353"]),
    }];
    let mut mover = Mover::open(&host.pin_dir).unwrap();
    let since = Instant::now();
    let moved = mover.run(&gone, since).unwrap();
    println!("{moved:?} in {:?}", since.elapsed());
    assert_eq!((moved.found, moved.reconnected, moved.destroyed), (5, 3, 0));
    for socket in [&v4, &mapped] {
        assert_eq!(ask(socket).unwrap(), "10.244.0.2:5353");
    }
    assert_eq!(ask(&v6).unwrap(), "[fd00:244::2]:5353");
    let front = "10.96.0.10:53".parse::<SocketAddr>().unwrap();
    assert_eq!(v4.peer_addr().unwrap(), front, "it sees the service still");
    assert_eq!(ask(&another_service).unwrap(), "10.244.0.1:5353");
    assert_eq!(ask(&direct).unwrap(), "10.244.0.1:5353");

    let again = mover.run(&gone, since + Duration::from_secs(1)).unwrap();
    assert_eq!((again.reconnected, again.destroyed), (0, 0));

    // Where nobody serves any more, clients are refused until somebody does.
    put_slice(&mut engine, &slice("dns-4", "dns", &[], 5353));
    put_slice(&mut engine, &slice("dns-6", "dns", &[], 5353));
    let gone = [Move {
        fronts: sockets(&["10.96.0.10:53", "[fd00:96::a]:53"]),
        backends: sockets(&["10.244.0.2:5353", "[fd00:244::2]:5353"]),
    }];
    let moved = mover.run(&gone, since + Duration::from_secs(2)).unwrap();
    assert_eq!(
        (moved.reconnected, moved.waiting, moved.destroyed),
        (0, 3, 0)
    );
    for socket in [&v4, &mapped, &v6] {
        let error = ask(socket).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    // What its owner connects meanwhile is the owner's.
    mapped
        .connect("[::ffff:10.244.0.1]:5353".parse::<SocketAddr>().unwrap())
        .unwrap();
    let due = mover.due().unwrap();
    assert_eq!(mover.run(&[], due).unwrap(), MoveSummary::default());
    put_slice(&mut engine, &slice("dns-4", "dns", &["10.244.0.2"], 5353));
    put_slice(&mut engine, &slice("dns-6", "dns", &["fd00:244::2"], 5353));
    let moved = mover.run(&[], mover.due().unwrap()).unwrap();
    assert_eq!((moved.reconnected, moved.destroyed), (2, 0));
    assert_eq!(ask(&v4).unwrap(), "10.244.0.2:5353");
    assert_eq!(ask(&v6).unwrap(), "[fd00:244::2]:5353");
    assert_eq!(ask(&mapped).unwrap(), "10.244.0.1:5353");
    // A client that reconnects reaches a backend that is there.
    assert_eq!(ask(&connected("10.96.0.10:53")).unwrap(), "10.244.0.2:5353");
}

/// A process with a network namespace of its own that has no name.
struct Alone(Child);

impl Alone {
    fn new() -> Self {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            for words in ["link set lo up", "route add default dev lo"] {
                let status = Command::new("ip").args(words.split(' ')).status();
                assert!(status.unwrap().success(), "ip {words}");
            }
            // Any program that stays; the small machines of other kernels have few.
            let stays = Command::new("ip")
                .args(["monitor", "link"])
                .stdout(Stdio::null())
                .spawn();
            stays.unwrap()
        });
        Self(made.join().unwrap())
    }

    /// A socket there.
    fn connected(&self, to: &str) -> UdpSocket {
        let path = format!("/proc/{}/ns/net", self.0.id());
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                setns(File::open(path).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
                connected(to)
            });
            there.join().unwrap()
        })
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn sockets_of_a_namespace_that_is_new_move_too_unless_their_backend_is_back() {
    let Some(host) = Host::new() else { return };
    let mut engine = host.engine();
    let backends = ["10.244.0.1", "10.244.0.2", "10.244.0.3"];
    put_service(&mut engine, &service("dns", &["10.96.0.10"], 53));
    let mut serve = |by: &[&str]| put_slice(&mut engine, &slice("dns-4", "dns", by, 5353));
    let gone = |backend: &str| Move {
        fronts: vec!["10.96.0.10:53".parse().unwrap()],
        backends: vec![SocketAddr::new(backend.parse().unwrap(), 5353)],
    };
    let mut mover = Mover::open(&host.pin_dir).unwrap();
    let known = Alone::new();
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    serve(&backends[..1]);
    let early = known.connected("10.96.0.10:53");
    // The first that goes is looked for everywhere.
    serve(&backends[1..2]);
    let moved = mover.run(&[gone(backends[0])], start).unwrap();
    assert_eq!((moved.reconnected, moved.destroyed), (1, 0));
    early.send(b"?").unwrap();
    // What is made since then is not known, and what is known is at hand.
    let new = Alone::new();
    let sockets = [&known, &new].map(|it| it.connected("10.96.0.10:53"));
    serve(&backends[2..]);
    let moved = mover.run(&[gone(backends[1])], after(2)).unwrap();
    // The early one, too, is at the second backend by now.
    assert_eq!((moved.found, moved.reconnected), (2, 2));
    // The next walk finds it; a backend that went and came back has kept its clients.
    let kept = new.connected("10.96.0.10:53");
    let moved = mover.run(&[gone(backends[2])], after(3)).unwrap();
    assert_eq!((moved.reconnected, moved.destroyed), (2, 0), "to the same");
    assert_eq!(mover.due(), Some(after(10)));
    assert_eq!(mover.run(&[], after(9)).unwrap(), MoveSummary::default());
    let moved = mover.run(&[], after(10)).unwrap();
    assert_eq!((moved.reconnected, moved.destroyed), (1, 0));
    for socket in sockets.iter().chain([&early, &kept]) {
        socket.send(b"?").unwrap();
    }
    assert_eq!(mover.due(), None);
}
