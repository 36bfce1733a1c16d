//! Tests a probe against another one on the loopback device.

use std::net::{TcpListener, UdpSocket};

use super::*;
use crate::operation::{DatagramSize, Expectation, ExpectedServers, Failure};

/// Two ports, both free for TCP, the second for UDP, too.
fn free_ports() -> (u16, u16) {
    let http = TcpListener::bind("[::]:0").unwrap();
    for _ in 0..50 {
        let echo = TcpListener::bind("[::]:0").unwrap();
        let ports = [&http, &echo].map(|it| it.local_addr().unwrap().port());
        if UdpSocket::bind(("::", ports[1])).is_ok() {
            return (ports[0], ports[1]);
        }
    }
    panic!("no free ports");
}

fn server(name: &str) -> (u16, u16) {
    let (http, echo) = free_ports();
    serve::start(name, http, echo).unwrap();
    (http, echo)
}

#[test]
fn a_probe_waits_for_a_port_that_another_still_holds() {
    let (http, echo) = free_ports();
    let held = TcpListener::bind(("::", http)).unwrap();
    let ending = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        drop(held);
    });
    serve::start("second", http, echo).unwrap();
    ending.join().unwrap();
}

#[test]
fn a_probe_answers_with_its_name_and_the_clients_address() {
    let (http, _) = server("first");
    for host in ["127.0.0.1", "[::1]"] {
        let target = format!("{host}:{http}");
        let (outcome, times) = attempt(&Operation::Ask { target, count: 3 });
        let Outcome::Answered {
            servers,
            translated,
        } = outcome
        else {
            panic!("{outcome:?}");
        };
        assert_eq!(servers.get("first"), Some(&3));
        assert!(translated.is_empty(), "{translated:?}");
        assert_eq!(times.len(), 3);
    }
}

#[test]
fn datagrams_and_streams_come_back_whole() {
    let (_, echo) = server("echo");
    let target = format!("127.0.0.1:{echo}");
    for size in [
        DatagramSize::Bytes(64),
        DatagramSize::Bytes(8000),
        DatagramSize::WholePacket,
    ] {
        let target = target.clone();
        let (outcome, _) = attempt(&Operation::Datagram { target, size });
        assert!(
            matches!(outcome, Outcome::Done { bytes } if bytes >= 64),
            "{outcome:?}"
        );
    }
    let bytes = 3 << 20;
    let (outcome, _) = attempt(&Operation::Stream { target, bytes });
    assert_eq!(outcome, Outcome::Done { bytes });
}

#[test]
fn a_datagram_comes_back_from_the_address_that_was_asked() {
    let (_, echo) = server("echo");
    // The kernel's own choice for the answer is 127.0.0.1.
    for host in ["127.0.0.2", "[::1]"] {
        let (target, size) = (format!("{host}:{echo}"), DatagramSize::Bytes(64));
        let (outcome, _) = attempt(&Operation::Datagram { target, size });
        assert_eq!(outcome, Outcome::Done { bytes: 64 });
    }
}

#[test]
fn a_port_without_server_refuses_and_that_is_no_answer() {
    let (http, echo) = free_ports();
    let target = format!("127.0.0.1:{http}");
    let task = Task {
        id: 9,
        operation: Operation::Ask { target, count: 2 },
        expectation: Expectation::NoAnswer,
    };
    let report = settle_task(&task, Duration::from_secs(5));
    assert_eq!((report.id, report.attempts), (9, 1));
    assert!(
        matches!(
            &report.outcome,
            Outcome::Failed {
                failure: Failure::Refused,
                ..
            }
        ),
        "{report:?}"
    );
    let target = format!("127.0.0.1:{echo}");
    let size = DatagramSize::WholePacket;
    let (outcome, _) = attempt(&Operation::Datagram { target, size });
    assert!(
        matches!(
            &outcome,
            Outcome::Failed {
                failure: Failure::Refused,
                ..
            }
        ),
        "{outcome:?}"
    );
}

#[test]
fn a_task_is_tried_until_time_is_up() {
    let (http, _) = server("one");
    let task = Task {
        id: 0,
        operation: Operation::Ask {
            target: format!("127.0.0.1:{http}"),
            count: 1,
        },
        expectation: ExpectedServers::among(["another"]).into(),
    };
    let report = settle_task(&task, Duration::from_millis(400));
    assert!(report.attempts >= 2, "{report:?}");
    assert!(verdict::judge(&task.expectation, &report.outcome).is_err());
}

#[test]
fn options_are_read_and_others_refused() {
    let parse = |words: &str| Options::parse(words.split_whitespace().map(str::to_owned));
    let options = parse("--name a --serve --http 1 --echo 2 --settle 3").unwrap();
    assert_eq!((options.http, options.echo), (1, 2));
    assert!(options.serve && options.settle == Duration::from_secs(3));
    assert!(parse("--http").is_err());
    assert!(parse("--http x").is_err());
    assert!(parse("--what").is_err());
}
