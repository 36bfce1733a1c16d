//! With programs that do nothing, at devices of a namespace of its own.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::*;
use crate::devices::{Globs, Patterns, desired};

static TURN: Mutex<()> = Mutex::new(());

/// What `bpf(2)` calls the kinds of programs.
const SCHED_CLS: u32 = 3;
const XDP: u32 = 6;
/// `TC_ACT_UNSPEC` and `XDP_PASS`: as if there was no program.
const GO_ON: i32 = -1;
const PASS: i32 = 2;

struct Place {
    folder: PathBuf,
}

impl Place {
    fn links(&self, way: TcWay) -> DeviceLinks {
        let mut programs = BTreeMap::new();
        for hook in DeviceHook::ALL {
            let path = self.folder.join(hook.program());
            if !path.exists() {
                let (kind, verdict) = match hook {
                    DeviceHook::Xdp => (XDP, PASS),
                    _ => (SCHED_CLS, GO_ON),
                };
                sys::pin_trivial(kind, verdict, &path).expect("a program");
            }
            let classifier = (hook != DeviceHook::Xdp)
                .then(|| SchedClassifier::from_pin(&path).expect("program"));
            let program = LoadedProgram {
                fd: sys::open_pinned(&path).expect("a program"),
                classifier,
            };
            programs.insert(hook, program);
        }
        let mut links = DeviceLinks::new(programs, &self.folder.join("links"), way);
        links.adopt().expect("adopted");
        links
    }

    fn pinned(&self) -> Vec<String> {
        let pins = pins(&self.folder.join("links")).expect("pins");
        pins.into_iter().map(|(name, _)| name).collect()
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .expect("ip");
    assert!(status.success(), "ip {arguments}");
}

fn shown(program: &str, arguments: &str) -> String {
    let output = Command::new(program)
        .args(arguments.split(' '))
        .output()
        .expect("started");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn device(name: &str) -> Device {
    let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"));
    Device {
        index: index.expect("a device").trim().parse().expect("a number"),
        name: name.to_owned(),
        kind: "veth".to_owned(),
        ethernet: true,
        ..Device::default()
    }
}

fn patterns(devices: &str, xdp: XdpMode) -> Patterns {
    Patterns {
        host: false,
        devices: Globs::new(devices).expect("patterns"),
        pods: Globs::new("pod*").expect("patterns"),
        guarded: Globs::default(),
        xdp,
    }
}

impl DeviceLinks {
    fn follow_chosen(&mut self, devices: &[Device], by: &Patterns) -> Result<AttachSummary, Error> {
        let wanted = desired(devices, by, &BTreeSet::new());
        self.follow(devices, &wanted, by.xdp)
    }
}

/// Whether this kernel has tcx (Linux 6.6); what is done without is a test of its own.
fn has_tcx() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    let has = (numbers.next(), numbers.next()) >= (Some(6), Some(6));
    if !has {
        println!("skipped: needs tcx");
    }
    has
}

/// A thread in a network namespace and with a BPF filesystem of its own.
fn in_namespace(work: impl FnOnce(&Place) + Send) {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root to make network namespaces");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = std::env::temp_dir().join(format!("orlop-links-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let at = folder.clone();
    let done = std::thread::scope(|scope| {
        scope
            .spawn(move || {
                unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("namespaces");
                let none: Option<&str> = None;
                mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
                    .expect("private mounts");
                // A namespace's own `/sys/class/net`.
                mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none).expect("sysfs");
                assert!(crate::ensure_bpffs(&at).expect("a BPF filesystem"));
                ip("link add eth0 type veth peer name far0");
                ip("link add pod0 type veth peer name far1");
                work(&Place { folder: at });
            })
            .join()
    });
    let _ = fs::remove_dir(&folder);
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn devices_are_followed_as_they_come_and_go() {
    if !has_tcx() {
        return;
    }
    in_namespace(|place| {
        let mut links = place.links(TcWay::Auto);
        let (eth, pod) = (device("eth0"), device("pod0"));
        let chosen = patterns("eth*", XdpMode::Generic);
        let followed = links
            .follow_chosen(&[eth.clone(), pod.clone()], &chosen)
            .expect("followed");
        assert_eq!(
            (followed.attached, followed.changed, followed.failed),
            (5, 5, 0)
        );
        let again = links
            .follow_chosen(&[eth.clone(), pod.clone()], &chosen)
            .expect("followed");
        assert_eq!((again.attached, again.changed), (5, 0), "nothing to do");
        let shows = shown("ip", "-d link show dev eth0");
        assert!(shows.contains("xdpgeneric"), "{shows}");

        // A device that went takes its links along; the pins go at the next look.
        ip("link del pod0");
        ip("link add eth1 type veth peer name far1");
        let new = device("eth1");
        let followed = links
            .follow_chosen(&[eth.clone(), new.clone()], &chosen)
            .expect("followed");
        assert_eq!((followed.attached, followed.changed), (6, 5));
        let expected = [eth.index, new.index]
            .map(|index| ["tc_egress", "tc_ingress", "xdp"].map(|hook| format!("{hook}-{index}")));
        let mut expected: Vec<_> = expected.into_iter().flatten().collect();
        expected.sort();
        assert_eq!(place.pinned(), expected);

        // Left out by the operator.
        let followed = links
            .follow_chosen(&[eth.clone(), new], &patterns("eth0", XdpMode::Off))
            .expect("followed");
        assert_eq!((followed.attached, followed.changed), (2, 4));
        let shows = shown("ip", "-d link show dev eth0");
        assert!(!shows.contains("xdp"), "{shows}");
        drop(links);
        remove(&place.folder.join("links")).expect("removed");
        assert!(!place.folder.join("links").exists());
    });
}

#[test]
fn a_restart_replaces_programs_in_their_links() {
    if !has_tcx() {
        return;
    }
    in_namespace(|place| {
        let eth = device("eth0");
        let chosen = patterns("eth0", XdpMode::Generic);
        let identity = |place: &Place| {
            let names = place.pinned();
            let ids = names.iter().map(|name| {
                let link =
                    sys::open_pinned(&place.folder.join("links").join(name)).expect("a link");
                sys::link_and_program(link.as_fd()).expect("its identity")
            });
            ids.collect::<Vec<_>>()
        };
        let mut links = place.links(TcWay::Auto);
        links
            .follow_chosen(std::slice::from_ref(&eth), &chosen)
            .expect("followed");
        let before = identity(place);
        drop(links);
        assert_eq!(
            identity(place),
            before,
            "the end of the process changes nothing"
        );
        for hook in DeviceHook::ALL {
            fs::remove_file(place.folder.join(hook.program())).expect("unpinned");
        }
        let mut links = place.links(TcWay::Auto);
        let after = identity(place);
        assert_eq!(before.len(), 3);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before.0, after.0, "the same link");
            assert_ne!(before.1, after.1, "another program");
        }
        let followed = links
            .follow_chosen(std::slice::from_ref(&eth), &chosen)
            .expect("followed");
        assert_eq!(followed.changed, 0);

        // What was pinned for a device that is gone is not adopted.
        drop(links);
        ip("link del eth0");
        let links = place.links(TcWay::Auto);
        assert_eq!(links.attached().count(), 0);
        assert_eq!(place.pinned(), Vec::<String>::new());
    });
}

#[test]
fn kernels_without_tcx_get_filters_that_survive_and_leave_nothing() {
    in_namespace(|place| {
        let eth = device("eth0");
        let chosen = patterns("eth0", XdpMode::Off);
        let filters = || {
            ["ingress", "egress"].map(|side| {
                shown("tc", &format!("filter show dev eth0 {side}"))
                    .matches("handle 0x6f72")
                    .count()
            })
        };
        let mut links = place.links(TcWay::Qdisc);
        let followed = links
            .follow_chosen(std::slice::from_ref(&eth), &chosen)
            .expect("followed");
        assert_eq!((followed.attached, followed.failed), (2, 0));
        assert_eq!(filters(), [1, 1]);
        drop(links);
        assert_eq!(filters(), [1, 1], "the end of the process changes nothing");
        let mut links = place.links(TcWay::Qdisc);
        assert_eq!(links.attached().count(), 2, "adopted");
        let followed = links
            .follow_chosen(std::slice::from_ref(&eth), &chosen)
            .expect("followed");
        assert_eq!(followed.changed, 0);
        assert_eq!(filters(), [1, 1], "not doubled");

        // As an agent left them that knew of no limits.
        drop(links);
        let place_of = |hook| shown("tc", &format!("filter show dev eth0 {hook} pref 2"));
        assert!(place_of("ingress").contains("handle 0x6f72"));
        for side in ["ingress", "egress"] {
            let program = place.folder.join(DeviceHook::TcIngress.program());
            for arguments in [
                format!(
                    "filter add dev eth0 {side} pref 1 handle 0x6f72 bpf object-pinned {} da",
                    program.display()
                ),
                format!("filter del dev eth0 {side} pref 2"),
            ] {
                let done = Command::new("tc").args(arguments.split(' ')).status();
                assert!(done.expect("tc").success(), "tc {arguments}");
            }
        }
        assert!(!place_of("ingress").contains("handle 0x6f72"));
        let mut links = place.links(TcWay::Qdisc);
        assert_eq!(links.attached().count(), 2, "adopted");
        assert_eq!(filters(), [1, 1], "moved, not doubled");
        assert!(place_of("ingress").contains("handle 0x6f72"));
        links
            .follow_chosen(std::slice::from_ref(&eth), &patterns("none", XdpMode::Off))
            .expect("followed");
        assert!(!shown("tc", "qdisc show dev eth0").contains("clsact"));
        assert_eq!(place.pinned(), Vec::<String>::new());

        // A qdisc of somebody else stays, with what is in it.
        assert!(
            Command::new("tc")
                .args("qdisc add dev eth0 clsact".split(' '))
                .status()
                .expect("tc")
                .success()
        );
        links
            .follow_chosen(std::slice::from_ref(&eth), &chosen)
            .expect("followed");
        drop(links);
        remove(&place.folder.join("links")).expect("removed");
        assert_eq!(filters(), [0, 0]);
        assert!(shown("tc", "qdisc show dev eth0").contains("clsact"));
    });
}

#[test]
fn a_device_that_refuses_is_counted_and_the_rest_goes_on() {
    in_namespace(|place| {
        let mut links = place.links(TcWay::Auto);
        let gone = Device {
            index: 4_000,
            name: "eth9".to_owned(),
            ..device("eth0")
        };
        let followed = links
            .follow_chosen(&[gone, device("eth0")], &patterns("eth*", XdpMode::Off))
            .expect("followed");
        assert_eq!((followed.attached, followed.failed), (2, 2));
    });
}
