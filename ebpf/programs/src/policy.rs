//! The programs at the interfaces of pods that policy guards.
//!
//! They do what those of other pods do, and ask policy in between: a packet is
//! decided on with the addresses that its pod sees and those that are behind
//! translation, before either is written.

use aya_ebpf::bindings::{__sk_buff, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use ebpf_abi::policy::Direction;
use ebpf_abi::{Counter, Port, Protocol, Tuple};
use ebpf_logic::packet::{Fragment, Kind, Origin, Step, Verdict};
use ebpf_logic::policy::{
    Guard, PolicyFlows, Ruling, Told, Why, begin, guard, outline, portless, unreadable,
};

use crate::maps::{GUARD, Kernel};
use crate::route::{self, Way};
use crate::steps::{kind_of, orlop_decide, take, verdict_of, work};
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

/// `serve`: services are to be looked for, too.
#[inline(always)]
fn run(skb: *mut __sk_buff, origin: Origin, serve: bool) -> i32 {
    // Nobody behind such a device takes tags off, except that of no network.
    if field!(skb, vlan_present) != 0 {
        orlop_guard_tagged(skb, u32::from(origin == Origin::Pod));
        return TC_ACT_SHOT as i32;
    }
    let kind = read(skb);
    let mut verdict = Verdict::Pass as u32;
    if serve && kind != Kind::Other as u32 {
        verdict = orlop_decide(kind, origin as u32);
    }
    if verdict != Verdict::Drop as u32 && verdict != Verdict::Refuse as u32 {
        let way = u32::from(origin == Origin::Pod);
        let ruling = orlop_guard_outline(skb, kind, verdict, way);
        if ruling == Ruling::Drop as u32 {
            return TC_ACT_SHOT as i32;
        }
        if ruling == Ruling::Ask as u32 {
            let mut ruling = orlop_guard_rule();
            if ruling == Ruling::Begin as u32 {
                ruling = orlop_guard_begin(skb);
            }
            if ruling != Ruling::Pass as u32 {
                return TC_ACT_SHOT as i32;
            }
        }
    }
    if verdict == Verdict::Pass as u32 {
        return TC_ACT_UNSPEC;
    }
    orlop_tc_act(skb, verdict, u32::from(origin.is_routed()))
}

/// Counts and tells of a packet with a tag. Apart, since Linux 6.1 rounds the stack of
/// each function up to 32 bytes, and of the longest chain of calls there is none to spare.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_guard_tagged(skb: *mut __sk_buff, out: u32) -> u32 {
    if let Some(guard) = scratch() {
        guard.unknown(&told(skb, out != 0));
        unreadable(&Kernel, guard);
    }
    0
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
            && take(Step::Recall, Origin::Pod, work) != Verdict::Unknown
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
    if !guard.is_ingress() && !is_behind(skb, guard) {
        Kernel.tally(Counter::DroppedSpoofed);
        Kernel.report(guard, &Why::not_policy(Counter::DroppedSpoofed));
        return Ruling::Drop as u32;
    }
    begin(&Kernel, guard) as u32
}

/// What the device says.
#[inline(always)]
fn told(skb: *mut __sk_buff, out: bool) -> Told {
    Told {
        direction: if out {
            Direction::EGRESS
        } else {
            Direction::INGRESS
        },
        device: field!(skb, ifindex),
        from: field!(skb, ingress_ifindex),
    }
}

/// Does the kernel send what is for the sender's address back through the
/// device? Else it is not the sender's.
#[inline(always)]
fn is_behind(skb: *mut __sk_buff, guard: &Guard) -> bool {
    let back = Tuple::new(
        guard.key.destination,
        Port(0),
        guard.key.source,
        Port(0),
        Protocol(0),
    );
    let device = guard.flow.device;
    match route::find(skb.cast(), device, &back, 0) {
        Way::Known | Way::Neighbour => route::device() == device,
        _ => false,
    }
}

/// This processor's.
#[inline(always)]
pub(crate) fn scratch() -> Option<&'static mut Guard> {
    // SAFETY: this processor's value; each step has the only reference to it.
    GUARD.get_ptr_mut(0).map(|guard| unsafe { &mut *guard })
}
