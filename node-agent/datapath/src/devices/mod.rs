//! Which programs run at which network device.
//!
//! ```text
//! rtnetlink ──► [Device] ─┐
//!               Patterns ─┴► desired ──► difference ──► [Change] ──► attach
//!                            pinned links ──┘
//! ```
//!
//! Deciding is pure ([`desired`], [`difference`]); [`attach`] makes links,
//! pins them, and adopts what an earlier process pinned.

pub(crate) mod attach;
mod expedited_rcu;
mod glob;
mod remove;

use std::collections::BTreeSet;

pub use glob::{Globs, NotAPattern};
pub use remove::remove_devices;

/// A network device of the node's namespace, as rtnetlink describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What kind of virtual device it is (`IFLA_INFO_KIND`: `veth`, `bridge`,
    /// …); empty for hardware.
    pub kind: String,
    /// Is it the loopback device?
    pub loopback: bool,
    /// Does it carry Ethernet frames (`ARPHRD_ETHER`)? The programs read an
    /// Ethernet header.
    pub ethernet: bool,
    /// Is it a port of a bridge or a bond, whose packets that device sees?
    pub port: bool,
}

/// Where a program may run at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceHook {
    /// Before the driver hands a packet on.
    Xdp,
    /// What a device of the node's sends: towards clients and other nodes.
    TcEgress,
    /// What a device of the node's receives.
    TcIngress,
    /// What goes to a pod.
    PodEgress,
    /// What comes from a pod.
    PodIngress,
    /// What goes to a pod that policy guards.
    GuardEgress,
    /// What comes from one.
    GuardIngress,
    /// What the node itself sends, while policy selects it.
    HostEgress,
    /// What it gets.
    HostIngress,
    /// What goes to a pod that has a bandwidth.
    LimitEgress,
    /// What comes from one.
    LimitIngress,
}

/// How XDP programs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum XdpMode {
    /// Not at all.
    #[default]
    Off,
    /// In the driver; a device whose driver cannot is left to tc.
    Native,
    /// In the driver, or, where it cannot, in the kernel's generic hook.
    NativeOrGeneric,
    /// In the kernel's generic hook: for tests, slower than tc.
    Generic,
}

/// The operator's device patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patterns {
    /// Devices at which traffic enters from outside.
    pub devices: Globs,
    /// Devices behind which there are pods. They are none of the former.
    pub pods: Globs,
    /// Devices behind which there is one pod each, whose traffic network policy
    /// decides on. They are none of the former.
    pub guarded: Globs,
    /// Does network policy decide on the node's own traffic at the former?
    pub host: bool,
    /// How XDP runs at the former.
    pub xdp: XdpMode,
}

/// A hook of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attachment {
    /// The device's index.
    pub device: u32,
    /// Which of its hooks.
    pub hook: DeviceHook,
}

/// One step from the present to the desired attachments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Runs a program at a hook.
    Attach(Attachment),
    /// Ends it.
    Detach(Attachment),
}

/// Kinds of devices that only stand for others, or carry no traffic of their
/// own: they are attached to only by a name without wildcards.
const UNUSUAL: &[&str] = &["dummy", "ifb", "nlmon", "netdevsim", "vcan", "vxcan"];

// === impl DeviceHook ===

impl DeviceHook {
    /// All hooks, those of replies first: nothing is to be translated whose
    /// replies are not. The node's own connections are taken note of before
    /// what answers them is decided on, and all is translated before.
    pub const ALL: [Self; 11] = [
        Self::TcEgress,
        Self::PodEgress,
        Self::GuardEgress,
        Self::TcIngress,
        Self::PodIngress,
        Self::GuardIngress,
        Self::HostEgress,
        Self::HostIngress,
        Self::LimitEgress,
        Self::LimitIngress,
        Self::Xdp,
    ];

    /// The program's name in the object.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Xdp => "orlop_xdp",
            Self::TcEgress => "orlop_tc_egress",
            Self::TcIngress => "orlop_tc_ingress",
            Self::PodEgress => "orlop_tc_pod_egress",
            Self::PodIngress => "orlop_tc_pod_ingress",
            Self::GuardEgress => "orlop_tc_guard_egress",
            Self::GuardIngress => "orlop_tc_guard_ingress",
            Self::HostEgress => "orlop_tc_host_egress",
            Self::HostIngress => "orlop_tc_host_ingress",
            Self::LimitEgress => "orlop_tc_limit_egress",
            Self::LimitIngress => "orlop_tc_limit_ingress",
        }
    }

    /// For names of pins, metrics and people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::TcEgress => "tc_egress",
            Self::TcIngress => "tc_ingress",
            Self::PodEgress => "pod_egress",
            Self::PodIngress => "pod_ingress",
            Self::GuardEgress => "guard_egress",
            Self::GuardIngress => "guard_ingress",
            Self::HostEgress => "host_egress",
            Self::HostIngress => "host_ingress",
            Self::LimitEgress => "limit_egress",
            Self::LimitIngress => "limit_ingress",
        }
    }

    pub(crate) fn of_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.label() == label)
    }

    /// Seen from the device, does the program run on what it receives?
    pub(crate) const fn is_ingress(self) -> bool {
        matches!(
            self,
            Self::TcIngress
                | Self::PodIngress
                | Self::GuardIngress
                | Self::HostIngress
                | Self::LimitIngress
        )
    }
}

impl Default for Patterns {
    fn default() -> Self {
        Self {
            devices: Globs::new(DEVICES).unwrap_or_default(),
            pods: Globs::new(POD_DEVICES).unwrap_or_default(),
            guarded: Globs::default(),
            host: false,
            xdp: XdpMode::Off,
        }
    }
}

/// All devices: what is none is left out by `desired`.
pub const DEVICES: &str = "*";
/// What our own CNI plugin calls them: policy is enforced there.
pub const GUARDED_DEVICES: &str = "orl*";
/// What CNI plugins call the node's ends of pods' devices, and bridges of pods.
pub const POD_DEVICES: &str =
    "orl*,veth*,cni*,cbr*,lxc*,cali*,docker*,podman*,br-*,virbr*,vnet*,tap*";

/// The hooks of the host firewall.
const HOST: &[DeviceHook] = &[DeviceHook::HostEgress, DeviceHook::HostIngress];

/// The hooks of a pod's bandwidth.
const LIMITS: &[DeviceHook] = &[DeviceHook::LimitEgress, DeviceHook::LimitIngress];

/// At which hooks programs should run; `limited` devices' pods have a bandwidth. The
/// order of devices makes no difference.
#[must_use]
pub fn desired(
    devices: &[Device],
    patterns: &Patterns,
    limited: &BTreeSet<u32>,
) -> BTreeSet<Attachment> {
    let mut wanted = BTreeSet::new();
    for device in devices
        .iter()
        .filter(|device| !device.loopback && device.ethernet)
    {
        let mut host = false;
        let hooks: &[DeviceHook] = if device.port {
            // The bridge or bond above it sees the same packets, once.
            &[]
        } else if patterns.guarded.choose(&device.name) {
            &[DeviceHook::GuardEgress, DeviceHook::GuardIngress]
        } else if patterns.pods.choose(&device.name) {
            &[DeviceHook::PodEgress, DeviceHook::PodIngress]
        } else if patterns.devices.name(&device.name)
            || (patterns.devices.choose(&device.name) && !UNUSUAL.contains(&device.kind.as_str()))
        {
            host = patterns.host;
            match patterns.xdp {
                XdpMode::Off => &[DeviceHook::TcEgress, DeviceHook::TcIngress],
                _ => &[DeviceHook::TcEgress, DeviceHook::TcIngress, DeviceHook::Xdp],
            }
        } else {
            &[]
        };
        let hooks = hooks.iter().chain(if host { HOST } else { &[] });
        let is_limited = limited.contains(&device.index);
        let hooks = hooks.chain(if is_limited { LIMITS } else { &[] });
        wanted.extend(hooks.map(|hook| Attachment {
            device: device.index,
            hook: *hook,
        }));
    }
    wanted
}

/// What leads from one to the other: what answers is attached first and
/// detached last, so that no translated packet meets a device whose replies
/// are not translated back.
#[must_use]
pub fn difference(attached: &BTreeSet<Attachment>, desired: &BTreeSet<Attachment>) -> Vec<Change> {
    let rank = |at: &Attachment| DeviceHook::ALL.iter().position(|hook| *hook == at.hook);
    let mut gone: Vec<_> = attached.difference(desired).copied().collect();
    gone.sort_by_key(|at| (std::cmp::Reverse(rank(at)), at.device));
    let mut new: Vec<_> = desired.difference(attached).copied().collect();
    new.sort_by_key(|at| (rank(at), at.device));
    new.into_iter()
        .map(Change::Attach)
        .chain(gone.into_iter().map(Change::Detach))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: BTreeSet<u32> = BTreeSet::new();

    fn device(index: u32, name: &str, kind: &str) -> Device {
        Device {
            index,
            name: name.to_owned(),
            kind: kind.to_owned(),
            loopback: name == "lo",
            ethernet: true,
            port: false,
        }
    }

    fn at(device: u32, hook: DeviceHook) -> Attachment {
        Attachment { device, hook }
    }

    fn patterns(devices: &str, pods: &str, xdp: XdpMode) -> Patterns {
        Patterns {
            devices: Globs::new(devices).unwrap(),
            pods: Globs::new(pods).unwrap(),
            guarded: Globs::default(),
            host: false,
            xdp,
        }
    }

    #[test]
    fn pods_devices_others_and_neither_are_told_apart() {
        use DeviceHook::{PodEgress, PodIngress, TcEgress, TcIngress};
        let tunnel = Device {
            ethernet: false,
            ..device(6, "tun0", "tun")
        };
        let port = Device {
            port: true,
            ..device(7, "veth77", "veth")
        };
        let slave = Device {
            port: true,
            ..device(8, "eth1", "")
        };
        let devices = [
            device(1, "lo", ""),
            device(2, "eth0", ""),
            device(3, "orlop12ab", "veth"),
            device(4, "dummy0", "dummy"),
            device(5, "cni0", "bridge"),
            tunnel,
            port,
            slave,
            device(9, "toclient", "veth"),
        ];
        let wanted = desired(&devices, &Patterns::default(), &NONE);
        assert_eq!(
            wanted,
            BTreeSet::from([
                at(2, TcEgress),
                at(2, TcIngress),
                at(3, PodEgress),
                at(3, PodIngress),
                at(5, PodEgress),
                at(5, PodIngress),
                at(9, TcEgress),
                at(9, TcIngress),
            ])
        );
    }

    #[test]
    fn what_is_excluded_is_not_touched_and_what_is_named_is() {
        let devices = [
            device(2, "eth0", ""),
            device(3, "eth1", ""),
            device(4, "dummy0", "dummy"),
        ];
        let wanted = desired(
            &devices,
            &patterns("eth*,!eth1,dummy0", "", XdpMode::Off),
            &NONE,
        );
        let indexes: BTreeSet<_> = wanted.iter().map(|at| at.device).collect();
        assert_eq!(indexes, BTreeSet::from([2, 4]));
        assert_eq!(
            desired(&devices, &patterns("", "", XdpMode::Off), &NONE),
            BTreeSet::new()
        );
    }

    #[test]
    fn xdp_runs_where_traffic_enters_and_not_at_pods() {
        let devices = [device(2, "eth0", ""), device(3, "orlop1", "veth")];
        let wanted = desired(&devices, &patterns("*", "orlop*", XdpMode::Generic), &NONE);
        assert!(wanted.contains(&at(2, DeviceHook::Xdp)));
        assert!(!wanted.contains(&at(3, DeviceHook::Xdp)));
    }

    #[test]
    fn devices_of_pods_are_guarded_where_it_is_wanted() {
        let mut patterns = patterns("*", "orl*,veth*", XdpMode::Off);
        patterns.guarded = Globs::new("orl*").unwrap();
        let devices = [device(2, "veth1", "veth"), device(3, "orl1", "veth")];
        assert_eq!(
            desired(&devices, &patterns, &NONE),
            BTreeSet::from([
                at(2, DeviceHook::PodEgress),
                at(2, DeviceHook::PodIngress),
                at(3, DeviceHook::GuardEgress),
                at(3, DeviceHook::GuardIngress),
            ])
        );
    }

    #[test]
    fn the_nodes_own_devices_are_guarded_while_a_policy_selects_it() {
        use DeviceHook::{HostEgress, HostIngress, PodEgress, PodIngress, TcEgress, TcIngress};
        let mut patterns = patterns("*", "orl*", XdpMode::Off);
        patterns.host = true;
        let devices = [
            device(1, "lo", ""),
            device(2, "eth0", ""),
            device(3, "orl1", "veth"),
        ];
        assert_eq!(
            desired(&devices, &patterns, &NONE),
            BTreeSet::from([
                at(2, TcEgress),
                at(2, TcIngress),
                at(2, HostEgress),
                at(2, HostIngress),
                at(3, PodEgress),
                at(3, PodIngress),
            ])
        );
    }

    #[test]
    fn devices_of_pods_that_have_a_bandwidth_are_limited_too() {
        use DeviceHook::{LimitEgress, LimitIngress, PodEgress, PodIngress};
        let devices = [device(2, "orl1", "veth"), device(3, "orl2", "veth")];
        let limited = BTreeSet::from([3, 9]);
        let wanted = desired(&devices, &patterns("*", "orl*", XdpMode::Off), &limited);
        assert_eq!(
            wanted,
            BTreeSet::from([
                at(2, PodEgress),
                at(2, PodIngress),
                at(3, PodEgress),
                at(3, PodIngress),
                at(3, LimitEgress),
                at(3, LimitIngress),
            ])
        );
    }

    #[test]
    fn replies_are_attached_first_and_detached_last() {
        use Change::{Attach, Detach};
        use DeviceHook::{TcEgress, TcIngress, Xdp};
        let old = BTreeSet::from([at(2, TcIngress), at(2, TcEgress), at(2, Xdp)]);
        let new = BTreeSet::from([at(3, TcIngress), at(3, TcEgress)]);
        assert_eq!(
            difference(&old, &new),
            [
                Attach(at(3, TcEgress)),
                Attach(at(3, TcIngress)),
                Detach(at(2, Xdp)),
                Detach(at(2, TcIngress)),
                Detach(at(2, TcEgress)),
            ]
        );
        assert_eq!(difference(&new, &new), []);
    }

    #[test]
    fn labels_name_hooks() {
        for hook in DeviceHook::ALL {
            assert_eq!(DeviceHook::of_label(hook.label()), Some(hook));
        }
        assert_eq!(DeviceHook::of_label("connect4"), None);
    }
}
