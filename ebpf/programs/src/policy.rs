//! The programs at the interfaces of pods that policy guards.
//!
//! They do the same as those of other pods, with policy in between: a packet is decided
//! on with the addresses that its pod sees and those after translation, before either is
//! written.

use aya_ebpf::bindings::{__sk_buff, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use ebpf_abi::policy::Direction;
use ebpf_logic::packet::{Fragment, Front, Kind, Origin, Packet, PacketVerdict, Step};
use ebpf_logic::policy::{
    DeviceFacts, Guard, ReturnPath, Ruling, begin, guard, is_recent, is_recent_still, neighbour,
    outline, portless, prove, unreadable, way_back,
};

use crate::maps::Kernel;
use crate::route::{self, Way};
use crate::scratch::{scratch, work};
use crate::steps::{kind_of, orlop_decide, take, verdict_of};
use crate::tc::{Skb, field, orlop_tc_act, read};

/// Packets of a guarded pod: received at the host's end of its device.
#[classifier]
fn orlop_tc_guard_ingress(ctx: TcContext) -> i32 {
    run(ctx.skb.skb, Origin::Pod, true)
}

/// Packets to a guarded pod: about to be sent at the host's end of its device.
#[classifier]
fn orlop_tc_guard_egress(ctx: TcContext) -> i32 {
    let skb = ctx.skb.skb;
    run(skb, Origin::Leaving, field!(skb, ingress_ifindex) == 0)
}

/// Runs the steps of a packet; `serve`: services are looked up as well.
#[inline(always)]
fn run(skb: *mut __sk_buff, origin: Origin, serve: bool) -> i32 {
    // Pods do not strip VLAN tags, except VID 0.
    if field!(skb, vlan_present) != 0 {
        orlop_guard_tagged(skb, u32::from(origin == Origin::Pod));
        return TC_ACT_SHOT as i32;
    }
    let way = u32::from(origin == Origin::Pod);
    if orlop_guard_recent(skb, way, u32::from(serve)) != 0 {
        return TC_ACT_UNSPEC;
    }
    let kind = read(skb);
    let mut verdict = PacketVerdict::Pass as u32;
    // Services concern what the pod sends and what the node itself sends: nothing else
    // needs to be parsed for them.
    if serve && kind != Kind::Other as u32 {
        verdict = orlop_decide(kind, origin as u32);
        if verdict == PacketVerdict::Pass as u32 && orlop_guard_still() != 0 {
            return TC_ACT_UNSPEC;
        }
    }
    if verdict != PacketVerdict::Drop as u32 && verdict != PacketVerdict::Refuse as u32 {
        let mut ruling = orlop_guard_outline(skb, kind, verdict, way);
        if ruling != Ruling::Pass as u32 {
            if ruling == Ruling::Ask as u32 {
                ruling = orlop_guard_rule();
                if ruling == Ruling::Prove as u32 {
                    ruling = orlop_guard_prove(skb, 1);
                }
                if ruling == Ruling::Begin as u32 {
                    ruling = orlop_guard_begin(skb);
                }
            } else if ruling == Ruling::Link as u32 {
                ruling = orlop_guard_link(skb);
            } else if ruling == Ruling::Prove as u32 {
                ruling = orlop_guard_prove(skb, 0);
            }
            if ruling != Ruling::Pass as u32 {
                return TC_ACT_SHOT as i32;
            }
        }
    }
    if verdict == PacketVerdict::Pass as u32 {
        return TC_ACT_UNSPEC;
    }
    orlop_tc_act(skb, verdict, u32::from(origin.is_routed()))
}

/// Counts and records a packet with a tag. A separate function, since Linux 6.1 rounds
/// the stack of each function up to 32 bytes, and the longest chain of calls has none to
/// spare.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_guard_tagged(skb: *mut __sk_buff, out: u32) -> u32 {
    if let Some(guard) = scratch() {
        guard.unknown(&told(skb, out != 0));
        unreadable(&Kernel, guard);
    }
    0
}

/// Did a packet like this pass a moment ago? `out`: the pod sent it. `serve`: services
/// may have a say in it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_guard_recent(skb: *mut __sk_buff, out: u32, serve: u32) -> u32 {
    let Some(guard) = scratch() else {
        return 0;
    };
    let told = told(skb, out != 0);
    u32::from(is_recent(&Kernel, Skb(skb), &told, serve != 0, guard))
}

/// The same, once services leave it as it is.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_guard_still() -> u32 {
    scratch().map_or(0, |guard| u32::from(is_recent_still(&Kernel, guard)))
}

/// Says which flow a packet belongs to. `out`: the pod sent it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_guard_outline(skb: *mut __sk_buff, kind: u32, verdict: u32, out: u32) -> u32 {
    let (Some(work), Some(guard)) = (work(), scratch()) else {
        return Ruling::Drop as u32;
    };
    let told = told(skb, out != 0);
    let kind = kind_of(kind);
    if kind == Kind::Transport && work.tunnel == 0 {
        if work.headers.fragment == Fragment::LATER
            && take(Step::Recall, Origin::Pod, work) != PacketVerdict::Unknown
        {
            return portless(&Kernel, &work.headers.tuple, &told, guard) as u32;
        }
        if work.headers.fragment == Fragment::FIRST {
            take(Step::Keep, Origin::Pod, work);
        }
    }
    let verdict = verdict_of(verdict);
    outline(&Kernel, Skb(skb), work, kind, verdict, &told, guard) as u32
}

/// Decides on the packet of that flow.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn orlop_guard_rule() -> u32 {
    match scratch() {
        Some(scratch) => guard(&Kernel, scratch) as u32,
        None => Ruling::Drop as u32,
    }
}

/// Decides on a packet that begins a flow.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_guard_begin(skb: *mut __sk_buff) -> u32 {
    let Some(guard) = scratch() else {
        return Ruling::Drop as u32;
    };
    if !guard.is_ingress() && guard.proven == 0 {
        let back = back(skb, guard);
        if prove(&Kernel, back, false, guard) != Ruling::Pass {
            return Ruling::Drop as u32;
        }
    }
    begin(&Kernel, guard) as u32
}

/// Decides on a packet that must be proven to come from the pod. `flow`: it belongs to a
/// known flow, which is guarded again then.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_guard_prove(skb: *mut __sk_buff, flow: u32) -> u32 {
    let Some(guard) = scratch() else {
        return Ruling::Drop as u32;
    };
    let back = back(skb, guard);
    let ruling = prove(&Kernel, back, false, guard);
    if ruling == Ruling::Pass && flow != 0 {
        core::hint::black_box(core::ptr::from_mut(guard));
        return orlop_guard_rule();
    }
    ruling as u32
}

/// Decides on link-local packets.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_guard_link(skb: *mut __sk_buff) -> u32 {
    let Some(guard) = scratch() else {
        return Ruling::Drop as u32;
    };
    let mut ruling = neighbour(&Kernel, Skb(skb), guard);
    if ruling == Ruling::Prove {
        let back = back(skb, guard);
        ruling = prove(&Kernel, back, true, guard);
    }
    ruling as u32
}

/// Returns the facts that the device provides.
#[inline(always)]
fn told(skb: *mut __sk_buff, out: bool) -> DeviceFacts {
    DeviceFacts {
        direction: if out {
            Direction::EGRESS
        } else {
            Direction::INGRESS
        },
        device: field!(skb, ifindex),
        from: field!(skb, ingress_ifindex),
        hardware: Skb(skb).hardware(if out { Front::FROM } else { Front::TO }),
    }
}

/// Returns the kernel's route for an answer.
#[inline(always)]
fn back(skb: *mut __sk_buff, guard: &Guard) -> ReturnPath {
    let device = guard.flow.device;
    let way = route::find(skb.cast(), device, &way_back(guard), 0);
    if !matches!(way, Way::Known | Way::Neighbour) || route::device() != device {
        ReturnPath::Elsewhere
    } else if way == Way::Known {
        ReturnPath::To(route::receiver())
    } else {
        ReturnPath::Behind
    }
}
