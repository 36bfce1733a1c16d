use std::{fs::File, process::Command};

use nix::sched::unshare;
use node_agent_objects::error_chain;
use serde_json::Value;

use super::*;

const HOST: MacAddress = [2, 0, 0, 0, 0, 1];
const POD: MacAddress = [2, 0, 0, 0, 0, 2];

/// Does something in a network namespace of its own.
pub fn in_own(work: impl FnOnce() + Send) {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root to make network namespaces");
        return;
    }
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            work();
        });
        done.join().expect("a network namespace");
    });
}

/// Another network namespace, kept by its file.
pub fn other() -> OwnedFd {
    let make = || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        File::open("/proc/thread-self/ns/net").expect("its file")
    };
    let made = std::thread::scope(|scope| scope.spawn(make).join());
    made.expect("a network namespace").into()
}

/// What `ip` says, as JSON.
pub fn ip(arguments: &str) -> Value {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.expect("the program `ip`");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// The same in another namespace.
fn ip_in(netns: &OwnedFd, arguments: &str) -> Value {
    std::thread::scope(|scope| {
        let ask = scope.spawn(|| {
            setns(netns, CloneFlags::CLONE_NEWNET).expect("enter");
            ip(arguments)
        });
        ask.join().expect("asked")
    })
}

fn pair(number: u8, pod: &str, netns: OwnedFd) -> VethPair {
    VethPair {
        host: format!("orl{number}"),
        pod: pod.to_owned(),
        netns,
        mtu: 1_400,
        host_mac: HOST,
        pod_mac: POD,
        addresses: vec![
            IpAddr::from([10, 0, 0, number]),
            format!("fd00::1:{number}").parse().expect("an address"),
        ],
    }
}

fn way(number: u8, index: u32) -> PodRoute {
    PodRoute {
        index,
        mac: POD,
        addresses: pair(number, "eth0", other()).addresses,
    }
}

#[test]
fn of_a_crowd_each_has_all_that_it_needs_and_one_that_fails_is_named() {
    in_own(|| {
        let pins = tempfile::tempdir().expect("a folder");
        let pods: Vec<OwnedFd> = (0..4).map(|_| other()).collect();
        let copy = |number: usize| pods[number].try_clone().expect("a file");
        // What was left of the third, and what the fourth has already.
        ip("link add orl2 type veth peer name left");
        let before = if_nametoindex("orl2").expect("left");
        let occupied = std::thread::scope(|scope| {
            let work = || {
                setns(&pods[3], CloneFlags::CLONE_NEWNET).expect("enter");
                ip("link add eth0 type veth peer name other");
            };
            scope.spawn(work).join()
        });
        occupied.expect("a device");
        let pairs: Vec<VethPair> = (0..4)
            .map(|number: u8| pair(number, "eth0", copy(number.into())))
            .chain([
                pair(4, "eth0", File::open("/dev/null").expect("a file").into()),
                // More messages than go at once.
                pair(5, "eth0", other()),
            ])
            .chain((6..80).map(|number| pair(number, "eth0", other())))
            .collect();
        let made = make(pins.path(), &pairs);
        let failed: Vec<(usize, String)> = made
            .iter()
            .enumerate()
            .filter_map(|(number, made)| Some((number, error_chain(made.as_ref().err()?))))
            .collect();
        let [(3, third), (4, fourth)] = &failed[..] else {
            panic!("{failed:?}");
        };
        assert!(
            third.contains("orl3") && third.contains("exists"),
            "{third}"
        );
        assert!(fourth.contains("orl4"), "{fourth}");
        assert!(if_nametoindex("left").is_err() && made[2].as_ref().ok() != Some(&before));
        assert!(if_nametoindex("orl3").is_err() && if_nametoindex("orl4").is_err());

        // The pods' ends are ready, the node's are down.
        for number in [0, 2] {
            let link = &ip_in(&pods[number], "-j link show eth0")[0];
            assert_eq!(link["address"], "02:00:00:00:00:02", "{link}");
            assert_eq!(link["mtu"], 1_400);
            let flags = link["flags"].as_array().expect("flags");
            assert!(flags.contains(&"UP".into()), "{link}");
            let addresses = ip_in(&pods[number], "-j addr show eth0")[0]["addr_info"].clone();
            let is = |wanted: String, bits: u8| {
                addresses.as_array().expect("addresses").iter().any(|it| {
                    it["local"] == wanted.as_str()
                        && it["prefixlen"] == bits
                        && it["tentative"].is_null()
                })
            };
            assert!(is(format!("10.0.0.{number}"), 32), "{addresses}");
            assert!(is(format!("fd00::1:{number}"), 128), "{addresses}");
            for (version, by) in [("-4", "169.254.1.1"), ("-6", "fe80::1")] {
                let routes = ip_in(&pods[number], &format!("{version} -j route show default"));
                assert_eq!(routes[0]["gateway"], by, "{routes}");
                let known = ip_in(&pods[number], &format!("{version} -j neigh show {by}"));
                assert_eq!(known[0]["lladdr"], "02:00:00:00:00:01", "{known}");
                assert_eq!(known[0]["state"][0], "PERMANENT", "{known}");
            }
            let host = &ip(&format!("-j link show orl{number}"))[0];
            assert_eq!(host["operstate"], "DOWN", "{host}");
            assert_eq!(host["address"], "02:00:00:00:00:01");
            assert_eq!(host["mtu"], 1_400);
        }

        let index = |number: usize| *made[number].as_ref().expect("made");
        let opened = open(&[way(0, index(0)), way(9, 9_999), way(2, index(2))]);
        assert!(opened[0].is_ok() && opened[2].is_ok(), "{opened:?}");
        let gone = opened[1].as_ref().expect_err("no such device").to_string();
        assert!(gone.contains("9999"), "{gone}");
        for number in [0, 2] {
            let host = format!("orl{number}");
            assert_eq!(ip(&format!("-j link show {host}"))[0]["operstate"], "UP");
            for (version, address) in [
                ("-4", format!("10.0.0.{number}")),
                ("-6", format!("fd00::1:{number}")),
            ] {
                let route = ip(&format!("{version} -j route get {address}"));
                assert_eq!(route[0]["dev"], host.as_str(), "{route}");
                let known = ip(&format!("{version} -j neigh show {address}"));
                assert_eq!(known[0]["lladdr"], "02:00:00:00:00:02", "{known}");
            }
        }
    });
}
