//! Finds out what the kernel can do by doing it: programs are loaded, maps are made and
//! links are attached in a cgroup and a network namespace that exist for nothing else.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use aya::programs::loaded_programs;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

use crate::netlink::{ACK, DUMP, Socket, word};
use crate::sys::{self, DeviceAttach, probe as bpf};

/// A kernel feature that the datapath needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Feature {
    /// Programs at `connect`, `sendmsg`, `recvmsg`, `getpeername` and `bind`.
    SocketPrograms,
    /// The helper `bpf_set_retval`, by which a refused call says why.
    ReturnValues,
    /// Links of programs to a cgroup v2 directory.
    CgroupLinks,
    /// Classifiers at network devices.
    Classifiers,
    /// Links of classifiers to network devices (tcx).
    Tcx,
    /// The qdisc `clsact`, for kernels without tcx.
    Clsact,
    /// XDP programs.
    XdpPrograms,
    /// XDP in the driver of veth devices.
    XdpVeth,
    /// Maps: hash, LRU hash, array, array per processor, LPM trie, queue, ring buffer.
    Maps,
    /// Devices for VXLAN.
    Vxlan,
    /// Sockets of SCTP.
    Sctp,
    /// IPv6.
    Ipv6,
}

/// The result of probing a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// What was tried.
    pub feature: Feature,
    /// What the kernel said, if it refused.
    pub refusal: Option<String>,
}

/// A program in the kernel that Orlop did not load.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ForeignProgram {
    /// Its name; the kernel keeps 15 characters.
    pub name: String,
    /// Where such programs run: `cgroup`, `tc` or `xdp`.
    pub place: String,
}

const CGROUP_SOCK_ADDR: u32 = 18;
const SCHED_CLS: u32 = 3;
const XDP: u32 = 6;
const CGROUP_SKB: u32 = 8;
/// `enum bpf_attach_type` of the hooks of sockets: bind, connect, sendmsg, recvmsg and
/// getpeername of IPv4 and IPv6.
const SOCKET_HOOKS: [u32; 10] = [8, 9, 10, 11, 14, 15, 19, 20, 29, 30];
const INET4_CONNECT: u32 = 10;

/// Kind, bytes of a key and of a value, entries, flags.
const MAPS: [(&str, u32, u32, u32, u32, u32); 7] = [
    ("hash", 1, 4, 4, 1, 1),
    ("array", 2, 4, 4, 1, 0),
    ("per-CPU array", 6, 4, 4, 1, 0),
    ("LRU hash", 9, 4, 4, 1, 0),
    ("LPM trie", 11, 8, 4, 1, 1),
    ("queue", 22, 0, 4, 1, 0),
    ("ring buffer", 27, 0, 0, 1 << 16, 0),
];

/// Name of the device that is made in a network namespace of its own.
const DEVICE: &str = "orlopprobe";

/// Tries all features; `cgroup` is the root of the cgroup v2 hierarchy. Needs root, and
/// leaves nothing behind.
#[must_use]
pub fn probe(cgroup: Option<&Path>) -> Vec<Probe> {
    let of = |feature, tried: io::Result<()>| Probe {
        feature,
        refusal: tried.err().map(|error| error.to_string()),
    };
    let mut all = vec![
        of(Feature::SocketPrograms, socket_programs()),
        of(Feature::ReturnValues, return_values()),
        of(Feature::CgroupLinks, cgroup_link(cgroup)),
        of(Feature::Classifiers, program(SCHED_CLS, 0).map(drop)),
        of(Feature::XdpPrograms, program(XDP, 37).map(drop)),
        of(Feature::Maps, maps()),
        of(Feature::Sctp, sctp()),
        of(Feature::Ipv6, fs::metadata("/proc/net/if_inet6").map(drop)),
    ];
    let elsewhere = std::thread::scope(|scope| {
        let work = || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from)?;
            Ok::<_, io::Error>(at_devices())
        };
        scope.spawn(work).join()
    });
    let unknown = |error: &str| {
        let all = [
            Feature::Tcx,
            Feature::Clsact,
            Feature::XdpVeth,
            Feature::Vxlan,
        ];
        all.map(|feature| (feature, Err(io::Error::other(error.to_owned()))))
    };
    let elsewhere = match elsewhere {
        Ok(Ok(all)) => all,
        Ok(Err(error)) => unknown(&format!("no network namespace can be made: {error}")),
        Err(_) => unknown("the probe failed"),
    };
    all.extend(elsewhere.map(|(feature, tried): (_, io::Result<()>)| of(feature, tried)));
    all.sort_by_key(|probe| probe.feature);
    all
}

/// Programs of others in the kernel that run where ours do.
///
/// # Errors
/// What the kernel says.
pub fn foreign_programs() -> io::Result<Vec<ForeignProgram>> {
    let mut found = Vec::new();
    for info in loaded_programs() {
        // One that ends meanwhile is no program any more.
        let Ok(info) = info else { continue };
        let place = match info.program_type() as u32 {
            CGROUP_SOCK_ADDR | CGROUP_SKB => "cgroup",
            SCHED_CLS => "tc",
            XDP => "xdp",
            _ => continue,
        };
        let name = info.name_as_str().unwrap_or_default();
        // systemd's filters of units are in every kernel and change no packet.
        if !name.starts_with("orlop") && !name.starts_with("sd_") {
            found.push(ForeignProgram {
                name: name.to_owned(),
                place: place.to_owned(),
            });
        }
    }
    found.sort();
    Ok(found)
}

/// What the driver of each device can do with XDP, by the device's index: whether it runs
/// programs itself. Empty on kernels that do not tell (before Linux 6.3).
///
/// # Errors
/// What the kernel says.
pub fn xdp_in_drivers() -> io::Result<Vec<(u32, bool)>> {
    const CONTROLLER: u16 = 0x10;
    const GET_FAMILY: u8 = 3;
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    const DEVICES: u8 = 1;
    const INDEX: u16 = 1;
    const XDP_FEATURES: u16 = 3;
    const XDP_BASIC: u64 = 1;
    let mut socket = Socket::open(Some(rustix::net::netlink::GENERIC))?;
    let mut body = vec![GET_FAMILY, 1, 0, 0];
    body.extend(attribute(FAMILY_NAME, b"netdev\0"));
    let mut family = None;
    let asked = socket.request(CONTROLLER, ACK, &body, |answer| {
        family = attributes(answer.get(4..).unwrap_or_default())
            .find(|(kind, _)| *kind == FAMILY_ID)
            .and_then(|(_, value)| Some(u16::from_ne_bytes(value.get(..2)?.try_into().ok()?)))
            .or(family);
    });
    let Some(family) = family else {
        return match asked {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Vec::new()),
        };
    };
    let mut found = Vec::new();
    socket.request(family, DUMP, &[DEVICES, 1, 0, 0], |answer| {
        let mut index = None;
        let mut features = 0;
        for (kind, value) in attributes(answer.get(4..).unwrap_or_default()) {
            match kind {
                INDEX => index = word(value, 0),
                XDP_FEATURES => {
                    let eight = value.get(..8).and_then(|it| it.try_into().ok());
                    features = eight.map_or(0, u64::from_ne_bytes);
                }
                _ => {}
            }
        }
        found.extend(index.map(|index| (index, features & XDP_BASIC != 0)));
    })?;
    Ok(found)
}

/// A program that returns 1: it lets all pass.
fn program(kind: u32, attach_type: u32) -> io::Result<std::os::fd::OwnedFd> {
    // r0 = 1; exit (RFC 9669, sections 4.1 and 4.3).
    bpf::load(kind, attach_type, &[0x1_0000_00b7, 0x95])
}

fn socket_programs() -> io::Result<()> {
    let load = |hook: &u32| program(CGROUP_SOCK_ADDR, *hook).map(drop);
    SOCKET_HOOKS.iter().try_for_each(load)
}

fn return_values() -> io::Result<()> {
    // r1 = -111; call bpf_set_retval; r0 = 1; exit.
    let instructions = [
        0xffff_ff91_0000_01b7,
        0x0000_00bb_0000_0085,
        0x1_0000_00b7,
        0x95,
    ];
    bpf::load(CGROUP_SOCK_ADDR, INET4_CONNECT, &instructions).map(drop)
}

fn cgroup_link(root: Option<&Path>) -> io::Result<()> {
    let none = || io::Error::other("no cgroup2 hierarchy is mounted");
    let folder = root
        .ok_or_else(none)?
        .join(format!("orlop-probe-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let attach = || {
        let cgroup = File::open(&folder)?;
        let program = program(CGROUP_SOCK_ADDR, INET4_CONNECT)?;
        bpf::attach_to_cgroup(program.as_fd(), cgroup.as_fd(), INET4_CONNECT).map(drop)
    };
    let attached = attach();
    fs::remove_dir(&folder)?;
    attached
}

fn maps() -> io::Result<()> {
    MAPS.iter()
        .try_for_each(|(name, kind, key, value, entries, flags)| {
            bpf::make_map(*kind, *key, *value, *entries, *flags)
                .map(drop)
                .map_err(|error| io::Error::other(format!("{name}: {error}")))
        })
}

fn sctp() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, ipproto, socket};
    socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::SCTP))
        .map(drop)
        .map_err(io::Error::from)
}

/// What is tried at devices of this thread's network namespace.
fn at_devices() -> [(Feature, io::Result<()>); 4] {
    let loopback = if_nametoindex("lo").map_err(io::Error::from);
    let tcx = loopback.and_then(|index| {
        let program = program(SCHED_CLS, 0)?;
        sys::create_device_link(program.as_fd(), index, DeviceAttach::TcxIngress).map(drop)
    });
    let clsact = aya::programs::tc::qdisc_add_clsact("lo").map_err(io::Error::other);
    let xdp = make_device("veth", &[]).and_then(|()| {
        let index = if_nametoindex(DEVICE).map_err(io::Error::from)?;
        let program = program(XDP, 37)?;
        sys::create_device_link(program.as_fd(), index, DeviceAttach::XdpNative).map(drop)?;
        remove_device(index)
    });
    let mut vxlan = attribute(1, &1_u32.to_ne_bytes());
    vxlan.extend(attribute(15, &8472_u16.to_be_bytes()));
    let vxlan = make_device("vxlan", &vxlan);
    [
        (Feature::Tcx, tcx),
        (Feature::Clsact, clsact),
        (Feature::XdpVeth, xdp),
        (Feature::Vxlan, vxlan),
    ]
}

/// `RTM_NEWLINK` (rtnetlink(7)) with data of the device's kind.
fn make_device(kind: &str, data: &[u8]) -> io::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const CREATE_ONLY: u16 = 0x600;
    const NAME: u16 = 3;
    const INFO: u16 = 18;
    let mut info = attribute(1, kind.as_bytes());
    if !data.is_empty() {
        info.extend(attribute(2, data));
    }
    let mut body = vec![0; 16];
    body.extend(attribute(NAME, format!("{DEVICE}\0").as_bytes()));
    body.extend(attribute(INFO, &info));
    Socket::open(None)?.request(RTM_NEWLINK, ACK | CREATE_ONLY, &body, |_| {})
}

fn remove_device(index: u32) -> io::Result<()> {
    const RTM_DELLINK: u16 = 17;
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend([0; 8]);
    Socket::open(None)?.request(RTM_DELLINK, ACK, &body, |_| {})
}

/// An attribute of netlink, padded to words.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes of a message, without flags in their kinds.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = word(bytes, 0)?.to_ne_bytes();
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_are_written() {
        let mut bytes = attribute(2, b"netdev\0");
        bytes.extend(attribute(0x8001, &7_u16.to_ne_bytes()));
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read, [(2, &b"netdev\0"[..]), (1, &7_u16.to_ne_bytes()[..])]);
        assert_eq!(
            attributes(&[255, 255, 1, 0]).count(),
            0,
            "longer than there is"
        );
    }

    #[test]
    fn a_kernel_that_runs_the_datapath_passes_and_nothing_is_left() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to load programs");
            return;
        }
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let path = words.next()?;
            (words.next()? == "cgroup2").then_some(path)
        });
        let Some(root) = root.map(Path::new) else {
            println!("skipped: no cgroup2 is mounted");
            return;
        };
        let all = probe(Some(root));
        let refused = |feature| {
            let found = all.iter().find(|it| it.feature == feature);
            found.expect("each feature is tried").refusal.clone()
        };
        for feature in [
            Feature::SocketPrograms,
            Feature::ReturnValues,
            Feature::CgroupLinks,
            Feature::Classifiers,
            Feature::XdpPrograms,
            Feature::Maps,
        ] {
            assert_eq!(refused(feature), None, "{feature:?}");
        }
        assert_eq!(all.len(), 12);
        let left = root.join(format!("orlop-probe-{}", std::process::id()));
        assert!(!left.exists());
        assert!(if_nametoindex(DEVICE).is_err());
        // Without the hierarchy the probe says so.
        let without = probe(None);
        let links = without.iter().find(|it| it.feature == Feature::CgroupLinks);
        let refusal = links.and_then(|it| it.refusal.clone()).expect("refused");
        assert!(refusal.contains("cgroup2"), "{refusal}");
        let programs = foreign_programs().expect("listed");
        assert!(programs.iter().all(|it| !it.name.starts_with("orlop")));
        xdp_in_drivers().expect("listed");
    }
}
