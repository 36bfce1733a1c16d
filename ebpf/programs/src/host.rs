//! The host firewall: programs at the node's own devices, beside those of services, while
//! a policy selects the node.

use aya_ebpf::bindings::{__sk_buff, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use ebpf_abi::policy::Direction;
use ebpf_logic::packet::{Fragment, Kind, Origin, PacketVerdict, Step};
use ebpf_logic::policy::{Ruling, host_begin, host_outline, host_portless, host_told, is_recent};

use crate::maps::Kernel;
use crate::policy::orlop_guard_rule;
use crate::scratch::{scratch, work};
use crate::steps::{kind_of, take};
use crate::tc::{Skb, field, read};

/// Packets that a device of the node received, as services leave them.
#[classifier]
fn orlop_tc_host_ingress(ctx: TcContext) -> i32 {
    run(ctx.skb.skb, 0)
}

/// Packets that a device of the node is about to send.
#[classifier]
fn orlop_tc_host_egress(ctx: TcContext) -> i32 {
    let skb = ctx.skb.skb;
    // Forwarded packets are not the node's.
    if field!(skb, ingress_ifindex) == 0 {
        run(skb, 1)
    } else {
        TC_ACT_UNSPEC
    }
}

#[inline(always)]
fn run(skb: *mut __sk_buff, out: u32) -> i32 {
    // The device of the tag sees it again, without.
    if field!(skb, vlan_present) != 0 {
        return TC_ACT_UNSPEC;
    }
    if orlop_host_recent(skb, out) != 0 {
        return TC_ACT_UNSPEC;
    }
    let kind = read(skb);
    let mut ruling = orlop_host_outline(skb, kind, out);
    if ruling == Ruling::Ask as u32 {
        ruling = orlop_guard_rule();
        if ruling == Ruling::Begin as u32 {
            ruling = orlop_host_begin();
        }
    }
    if ruling == Ruling::Pass as u32 {
        TC_ACT_UNSPEC
    } else {
        TC_ACT_SHOT as i32
    }
}

/// Did a packet like this pass a moment ago? `out`: the node sends it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_host_recent(skb: *mut __sk_buff, out: u32) -> u32 {
    match scratch() {
        Some(guard) => u32::from(is_recent(
            &Kernel,
            Skb(skb),
            &host_told(direction(out)),
            false,
            guard,
        )),
        None => 0,
    }
}

/// Says which flow of the node's a packet belongs to. `out`: the node sends it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_host_outline(skb: *mut __sk_buff, kind: u32, out: u32) -> u32 {
    let (Some(work), Some(guard)) = (work(), scratch()) else {
        return Ruling::Pass as u32;
    };
    let direction = direction(out);
    let kind = kind_of(kind);
    if kind == Kind::Transport && work.tunnel == 0 {
        if work.headers.fragment == Fragment::LATER
            && take(Step::Recall, Origin::Device, work) != PacketVerdict::Unknown
        {
            return host_portless(&Kernel, &work.headers.tuple, direction, guard) as u32;
        }
        if work.headers.fragment == Fragment::FIRST {
            take(Step::Keep, Origin::Device, work);
        }
    }
    host_outline(&Kernel, Skb(skb), work, kind, direction, guard) as u32
}

/// Decides on a packet that begins a flow of the node's.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_host_begin() -> u32 {
    match scratch() {
        Some(guard) => host_begin(&Kernel, guard) as u32,
        None => Ruling::Pass as u32,
    }
}

#[inline(always)]
const fn direction(out: u32) -> Direction {
    if out != 0 {
        Direction::EGRESS
    } else {
        Direction::INGRESS
    }
}
