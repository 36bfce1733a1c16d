//! Two servers in network namespaces of their own, one of which ends.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{geteuid, gettid};
use tokio_util::sync::CancellationToken;

use super::decide::Look;
use super::{DRAIN, Options, ShutdownStages};

/// The addresses of the servers and the one that they share.
const OWN: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
const SHARED: &str = "10.9.0.100";

/// The interval at which each server's addresses are read.
const SAMPLE: Duration = Duration::from_millis(2);
/// The longest wait for a change.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time in which neither server has the address. The takeover itself takes a tenth of a
/// second; the rest is for busy test machines.
const WITHOUT_HOLDER: Duration = Duration::from_secs(2);

/// The stages of a server's end.
#[derive(Clone, Default)]
struct Stages {
    shutdown: CancellationToken,
    draining: CancellationToken,
    drained: CancellationToken,
    /// The machine is switched off, and its network namespace disappears with the link.
    off: CancellationToken,
    /// Calls of `on_change`, in order: whether the server takes the address or has given it back.
    changes: Arc<Mutex<Vec<bool>>>,
}

/// A server acquires the address or loses it.
#[derive(Debug)]
struct Change {
    server: usize,
    has_address: bool,
    at: Instant,
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.expect("ip").success(), "ip {arguments}");
}

/// Whether the network namespace of this thread has the shared address.
fn has_address() -> bool {
    let shared: IpAddr = SHARED.parse().expect("an address");
    let mut entries = getifaddrs().expect("addresses");
    entries.any(|entry| {
        let address = entry.address.as_ref().and_then(|it| it.as_sockaddr_in());
        address.is_some_and(|it| it.ip() == shared)
    })
}

/// Takes part in this thread as a ready server, and reports when it has the address.
fn serve(server: usize, pki: &Path, stages: &Stages, changes: &mpsc::Sender<Change>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let off = &stages.off;
    runtime.block_on(async {
        let options = Options {
            control_plane_address: Some(SHARED.parse().expect("an address")),
            control_plane_interface: None,
        };
        let own = OWN[server].parse().expect("an address");
        let keeper = options
            .open(own, [0, 0, 0, 0].into(), pki)
            .expect("sockets")
            .expect("a keeper");
        let ready = Look {
            is_ready: true,
            is_stopping: false,
        };
        let (_tell, looks) = tokio::sync::watch::channel(ready);
        let calls = &stages.changes;
        let stages = ShutdownStages {
            shutdown: &stages.shutdown,
            draining: &stages.draining,
            drained: &stages.drained,
        };
        let mut had = false;
        let mut sample = || {
            let has_address = has_address();
            if std::mem::replace(&mut had, has_address) != has_address {
                let at = Instant::now();
                let change = Change {
                    server,
                    has_address,
                    at,
                };
                changes.send(change).expect("a listener");
            }
        };
        let sampling = async {
            loop {
                sample();
                tokio::time::sleep(SAMPLE).await;
            }
        };
        let on_change = |is_holder| {
            assert!(is_holder || !has_address(), "called before the release");
            calls.lock().expect("no panic").push(is_holder);
        };
        tokio::select! {
            () = keeper.take_part(looks, &stages, &[], on_change) => {}
            () = sampling => {}
        }
        sample();
    });
    runtime.block_on(off.cancelled());
}

#[test]
fn a_server_that_ends_keeps_the_address_while_clients_leave_and_never_shares_it() {
    if !geteuid().is_root() {
        println!("skipped: network namespaces need root");
        return;
    }
    let pki = tempfile::tempdir().expect("a folder");
    std::fs::write(pki.path().join("ca.key"), "key").expect("written");
    let (pki, stages) = (pki.path(), [Stages::default(), Stages::default()]);
    let (changed, changes) = mpsc::channel();
    let (started, second_thread) = mpsc::channel();
    let (linked, link) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // Servers end when an assertion fails, too.
        let _ends = stages
            .clone()
            .map(|it| (it.drained.drop_guard(), it.off.drop_guard()));
        let (first_changed, second_changed) = (changed.clone(), changed);
        let (first, second) = (&stages[0], &stages[1]);
        scope.spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            started.send(gettid()).expect("a listener");
            link.recv().expect("a link");
            ip(&format!("address add {}/24 dev two", OWN[1]));
            ip("link set two up");
            serve(1, pki, second, &second_changed);
        });
        scope.spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            let other = second_thread.recv().expect("the other server's thread");
            ip(&format!(
                "link add one type veth peer name two netns {other}"
            ));
            linked.send(()).expect("a listener");
            ip(&format!("address add {}/24 dev one", OWN[0]));
            ip("link set one up");
            serve(0, pki, first, &first_changed);
        });

        let acquired = next_settled(&changes);
        let (holder, other) = (acquired.server, 1 - acquired.server);
        stages[holder].shutdown.cancel();
        stages[holder].draining.cancel();
        let kept = changes.recv_timeout(DRAIN / 2);
        assert!(kept.is_err(), "while clients leave: {kept:?}");

        stages[holder].drained.cancel();
        let released = changes.recv_timeout(PATIENCE).expect("a change");
        assert!(
            released.server == holder && !released.has_address,
            "first of all: {released:?}"
        );
        let taken = changes.recv_timeout(PATIENCE).expect("a change");
        assert!(
            taken.server == other && taken.has_address,
            "after the release: {taken:?}"
        );
        let calls = stages[holder].changes.lock().expect("no panic").clone();
        assert_eq!(calls.last(), Some(&false), "after the release: {calls:?}");
        let without = taken.at - released.at;
        assert!(without < WITHOUT_HOLDER, "nobody has it for {without:?}");
    });
}

/// Waits until one server has the address and nothing changes for a second. Both may take it at
/// their start.
fn next_settled(changes: &mpsc::Receiver<Change>) -> Change {
    let mut last = changes.recv_timeout(PATIENCE).expect("a change");
    let mut holders = [false; 2];
    holders[last.server] = last.has_address;
    for _ in 0..10 {
        let Ok(next) = changes.recv_timeout(Duration::from_secs(1)) else {
            break;
        };
        holders[next.server] = next.has_address;
        last = next;
    }
    let holder = holders.iter().position(|has| *has).expect("a holder");
    assert_ne!(holders, [true; 2], "both have it");
    Change {
        server: holder,
        has_address: true,
        ..last
    }
}
