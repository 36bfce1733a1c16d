//! UDP that moves: who was sent to a backend that is gone notices at once.

mod host;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use host::{Host, Server, put_service, put_slice, service, slice};
use node_agent_datapath::{Move, Mover};

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
fn sockets_of_a_backend_that_is_gone_end_and_no_others() {
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
    let mover = Mover::open(&host.pin_dir).unwrap();
    let since = Instant::now();
    let moved = mover.run(&gone).unwrap();
    println!("{moved:?} in {:?}", since.elapsed());
    assert_eq!((moved.found, moved.destroyed), (5, 3));
    for socket in [&v4, &mapped, &v6] {
        let error = ask(socket).unwrap_err();
        // Who waits for an answer is woken with the former, who sends has no
        // peer any more.
        let expected = [nix::libc::ECONNABORTED, nix::libc::EDESTADDRREQ];
        let errno = error.raw_os_error().unwrap_or_default();
        assert!(expected.contains(&errno), "{error}");
    }
    assert_eq!(ask(&another_service).unwrap(), "10.244.0.1:5353");
    assert_eq!(ask(&direct).unwrap(), "10.244.0.1:5353");
    // Connected anew, a client reaches a backend that is there.
    assert_eq!(ask(&connected("10.96.0.10:53")).unwrap(), "10.244.0.2:5353");

    let again = mover.run(&gone).unwrap();
    assert_eq!(again.destroyed, 0);
}
