//! The programs at network devices.

use aya_ebpf::bindings::{
    __sk_buff, BPF_F_INGRESS, BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR, BPF_F_RECOMPUTE_CSUM,
    TC_ACT_SHOT, TC_ACT_UNSPEC,
};
use aya_ebpf::helpers::generated::{
    bpf_l3_csum_replace, bpf_l4_csum_replace, bpf_redirect, bpf_redirect_neigh,
    bpf_skb_adjust_room, bpf_skb_change_tail, bpf_skb_load_bytes, bpf_skb_store_bytes,
};
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use ebpf_abi::{Counter, Protocol};
use ebpf_logic::Maps;
use ebpf_logic::packet::{
    Fragment, Front, FrontV6, Glance, Kind, Origin, OuterHeader, Packet, PacketVerdict, Work,
    answer, decapsulate, encapsulate, is_foreign, parse, parse_front, relay, rewrite,
    rewrite_error,
};

use crate::bytes::{front, front_v6, glance, link, link_address};
use crate::maps::Kernel;
use crate::record;
use crate::route::{self, Way};
use crate::scratch::work;
use crate::steps::{orlop_decide, orlop_decide_whole, orlop_sctp_change, verdict_of};

/// A field of the context.
macro_rules! field {
    ($ctx:expr, $field:ident) => {
        // SAFETY: the kernel hands a valid context in, for the whole run. It is
        // no memory: the verifier rewrites each access of a field.
        unsafe { core::ptr::addr_of!((*$ctx).$field).read_volatile() }
    };
}
pub(crate) use field;

/// Packets that a device of the node received.
#[classifier]
fn orlop_tc_ingress(ctx: TcContext) -> i32 {
    run(ctx.skb.skb, Origin::Device)
}

/// Packets that a device of the node is about to send.
#[classifier]
fn orlop_tc_egress(ctx: TcContext) -> i32 {
    let skb = ctx.skb.skb;
    // Forwarded packets were examined at their ingress.
    if field!(skb, ingress_ifindex) == 0 {
        run(skb, Origin::Host)
    } else {
        TC_ACT_UNSPEC
    }
}

/// Packets of a pod: received at the host's end of its device.
#[classifier]
fn orlop_tc_pod_ingress(ctx: TcContext) -> i32 {
    run(ctx.skb.skb, Origin::Pod)
}

/// Packets to a pod: about to be sent at the host's end of its device.
#[classifier]
fn orlop_tc_pod_egress(ctx: TcContext) -> i32 {
    let skb = ctx.skb.skb;
    if field!(skb, ingress_ifindex) == 0 {
        run(skb, Origin::Leaving)
    } else {
        TC_ACT_UNSPEC
    }
}

#[inline(always)]
fn run(skb: *mut __sk_buff, origin: Origin) -> i32 {
    // The device of the tag sees it again, without.
    if field!(skb, vlan_present) != 0 {
        return TC_ACT_UNSPEC;
    }
    if origin != Origin::Pod && orlop_tc_foreign(skb) != 0 {
        return TC_ACT_UNSPEC;
    }
    let Some(work) = work() else {
        return TC_ACT_UNSPEC;
    };
    // Most packets are simple and foreign: as few functions as possible are called for
    // them.
    let verdict = if parse_front(Skb(skb), work) == Kind::Transport {
        core::hint::black_box(core::ptr::from_mut(work));
        orlop_decide_whole(origin as u32)
    } else {
        let kind = orlop_tc_parse(skb);
        if kind == Kind::Other as u32 {
            return TC_ACT_UNSPEC;
        }
        orlop_decide(kind, origin as u32)
    };
    if verdict == PacketVerdict::Pass as u32 {
        return TC_ACT_UNSPEC;
    }
    orlop_tc_act(skb, verdict, u32::from(origin.is_routed()))
}

/// Returns whether a packet is obviously foreign. A separate function, as others below,
/// for its stack: the callees have none to spare.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_tc_foreign(skb: *mut __sk_buff) -> u32 {
    let glance = Skb(skb).glance();
    u32::from(glance.is_some_and(|glance| is_foreign(&Kernel, &glance)))
}

/// Parses a packet's headers: at once for most packets, or one by one.
#[inline(always)]
pub(crate) fn read(skb: *mut __sk_buff) -> u32 {
    let Some(work) = work() else {
        return Kind::Other as u32;
    };
    if parse_front(Skb(skb), work) == Kind::Transport {
        core::hint::black_box(core::ptr::from_mut(work));
        return Kind::Transport as u32;
    }
    orlop_tc_parse(skb)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_tc_parse(skb: *mut __sk_buff) -> u32 {
    match work() {
        Some(work) => parse(Skb(skb), work) as u32,
        None => Kind::Other as u32,
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_tc_rewrite(skb: *mut __sk_buff, forward: u32) -> u32 {
    work().map_or(0, |work| u32::from(rewrite(Skb(skb), work, forward != 0)))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_tc_rewrite_error(skb: *mut __sk_buff) -> u32 {
    work().map_or(0, |work| u32::from(rewrite_error(Skb(skb), work)))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_tc_refuse(skb: *mut __sk_buff, mtu: u32) -> u32 {
    work().map_or(0, |work| u32::from(answer(Skb(skb), work, mtu)))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_tc_encapsulate(skb: *mut __sk_buff) -> u32 {
    work().map_or(0, |work| u32::from(encapsulate(Skb(skb), work)))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_tc_relay(skb: *mut __sk_buff) -> u32 {
    work().map_or(0, |work| u32::from(relay(Skb(skb), work)))
}

/// Carries out the verdict.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn orlop_tc_act(skb: *mut __sk_buff, verdict: u32, routed: u32) -> i32 {
    let Some(work) = work() else {
        return TC_ACT_UNSPEC;
    };
    let (verdict, routed) = (verdict_of(verdict), routed != 0);
    let packet = Skb(skb);
    if work.tunnel != 0 {
        if !matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward)
            || !decapsulate(packet, work)
        {
            return drop(skb, Counter::DroppedUnwritable);
        }
        Kernel.count(Counter::PacketDecapsulated);
        core::hint::black_box(core::ptr::from_mut(work));
    }
    match verdict {
        PacketVerdict::Pass | PacketVerdict::Unknown => TC_ACT_UNSPEC,
        PacketVerdict::Drop => drop(skb, work.counter),
        PacketVerdict::Translate => done(skb, orlop_tc_rewrite(skb, 0) != 0, work),
        PacketVerdict::TranslateError if work.quote.forward == 0 => {
            done(skb, orlop_tc_rewrite_error(skb) != 0, work)
        }
        PacketVerdict::Refuse => {
            if orlop_tc_refuse(skb, 0) != 0 {
                Kernel.count(Counter::PacketRefused);
                record::dropped(Counter::PacketRefused, field!(skb, ifindex));
                back(skb, routed)
            } else {
                drop(skb, Counter::DroppedUnwritable)
            }
        }
        PacketVerdict::Forward
        | PacketVerdict::TranslateError
        | PacketVerdict::Encapsulate
        | PacketVerdict::Link => send(skb, work, verdict, routed),
    }
}

/// Translates a packet and sends it on.
#[inline(always)]
fn send(skb: *mut __sk_buff, work: &mut Work, verdict: PacketVerdict, routed: bool) -> i32 {
    let packet = Skb(skb);
    let outer: u32 = match verdict {
        PacketVerdict::Encapsulate if work.headers.v4 => 20,
        PacketVerdict::Encapsulate => 40,
        _ => 0,
    };
    // A packet that is segmented later is as long as one segment.
    let length = outer
        + match field!(skb, gso_size) {
            0 => work.headers.length,
            content => segment(packet, work, content),
        };
    let way = route::find(skb.cast(), field!(skb, ifindex), &work.to, length);
    match way {
        Way::None => return drop(skb, Counter::DroppedNoRoute),
        Way::Kernel if routed || outer != 0 || verdict == PacketVerdict::Link => {
            return drop(skb, Counter::DroppedNoRoute);
        }
        Way::TooBig => {
            // Programs cannot fragment what a router might: the sender can, once it is
            // notified, whether it forbade fragmentation or not. Only the first fragment
            // may be answered (RFC 1122, 3.2.2).
            if work.headers.fragment != Fragment::LATER
                && verdict != PacketVerdict::TranslateError
                && orlop_tc_refuse(skb, route::mtu().saturating_sub(outer)) != 0
            {
                Kernel.count(Counter::DroppedTooBig);
                record::dropped(Counter::DroppedTooBig, field!(skb, ifindex));
                return back(skb, routed);
            }
            return drop(skb, Counter::DroppedTooBig);
        }
        _ => {}
    }
    let hop = way != Way::Kernel;
    if hop && work.headers.hops <= 1 {
        return drop(skb, Counter::DroppedExpired);
    }
    let written = match verdict {
        PacketVerdict::Encapsulate => orlop_tc_encapsulate(skb) != 0,
        PacketVerdict::Link => orlop_tc_relay(skb) != 0,
        PacketVerdict::TranslateError => {
            work.quote.forward = u32::from(hop);
            core::hint::black_box(core::ptr::from_mut(work));
            orlop_tc_rewrite_error(skb) != 0
        }
        _ => orlop_tc_rewrite(skb, u32::from(hop)) != 0,
    };
    let passed = done(skb, written, work);
    if !written || way == Way::Kernel {
        return passed;
    }
    let device = route::device();
    if way == Way::Neighbour {
        // SAFETY: no parameters: the kernel looks the neighbour up itself.
        return unsafe { bpf_redirect_neigh(device, core::ptr::null_mut(), 0, 0) } as i32;
    }
    if !packet.store(0, &route::frame(), false) {
        return drop(skb, Counter::DroppedUnwritable);
    }
    // SAFETY: the helper takes numbers.
    unsafe { bpf_redirect(device, 0) as i32 }
}

/// Bytes of a segment with so many of content, from its IP header on.
#[inline(always)]
fn segment(packet: Skb, work: &Work, content: u32) -> u32 {
    let headers = &work.headers;
    let transport = match headers.tuple.protocol {
        Protocol::TCP => match packet.load::<1>(headers.transport + 12) {
            Some([words]) => u32::from(words >> 4) * 4,
            None => 20,
        },
        _ => 8,
    };
    headers.transport - headers.network + transport + content
}

/// Sends the packet back to where it came from.
#[inline(always)]
fn back(skb: *mut __sk_buff, routed: bool) -> i32 {
    let flags = if routed { BPF_F_INGRESS } else { 0 };
    let device = field!(skb, ifindex);
    // SAFETY: the helper takes numbers.
    unsafe { bpf_redirect(device, u64::from(flags)) as i32 }
}

#[inline(always)]
fn done(skb: *mut __sk_buff, written: bool, work: &Work) -> i32 {
    if written {
        Kernel.count(work.counter);
        TC_ACT_UNSPEC
    } else {
        drop(skb, Counter::DroppedUnwritable)
    }
}

#[inline(always)]
fn drop(skb: *mut __sk_buff, why: Counter) -> i32 {
    Kernel.count(why);
    record::dropped(why, field!(skb, ifindex));
    TC_ACT_SHOT as i32
}

/// A packet in a buffer of the kernel's.
#[derive(Clone, Copy)]
pub(crate) struct Skb(pub(crate) *mut __sk_buff);

/// Room after the Ethernet header.
const ROOM_MAC: u32 = 1;
/// `BPF_F_ADJ_ROOM_ENCAP_L3_IPV4`.
const ENCAP_V4: u64 = 1 << 1;
/// `BPF_F_ADJ_ROOM_ENCAP_L3_IPV6`.
const ENCAP_V6: u64 = 1 << 2;

impl Packet for Skb {
    #[inline(always)]
    fn len(self) -> u32 {
        field!(self.0, len)
    }

    #[inline(always)]
    fn front(self) -> Option<Front> {
        front(
            field!(self.0, data) as usize,
            field!(self.0, data_end) as usize,
        )
    }

    #[inline(always)]
    fn glance(self) -> Option<Glance> {
        glance(
            field!(self.0, data) as usize,
            field!(self.0, data_end) as usize,
        )
    }

    #[inline(always)]
    fn front_v6(self) -> Option<FrontV6> {
        front_v6(
            field!(self.0, data) as usize,
            field!(self.0, data_end) as usize,
        )
    }

    #[inline(always)]
    fn link(self) -> Option<u16> {
        link(
            field!(self.0, data) as usize,
            field!(self.0, data_end) as usize,
        )
    }

    #[inline(always)]
    fn load<const N: usize>(self, at: u32) -> Option<[u8; N]> {
        let mut bytes = core::mem::MaybeUninit::<[u8; N]>::uninit();
        // SAFETY: the helper writes `N` bytes, or fails.
        let failed =
            unsafe { bpf_skb_load_bytes(self.0.cast(), at, bytes.as_mut_ptr().cast(), N as u32) };
        if failed == 0 {
            // SAFETY: they are written.
            Some(unsafe { bytes.assume_init() })
        } else {
            None
        }
    }

    #[inline(always)]
    fn hardware(self, at: u32) -> u64 {
        link_address(
            field!(self.0, data) as usize,
            field!(self.0, data_end) as usize,
            at as usize,
        )
    }

    #[inline(always)]
    fn store<const N: usize>(self, at: u32, bytes: &[u8; N], summed: bool) -> bool {
        let flags = if summed { BPF_F_RECOMPUTE_CSUM } else { 0 };
        let from = bytes.as_ptr().cast();
        // SAFETY: the helper reads `N` bytes.
        unsafe { bpf_skb_store_bytes(self.0, at, from, N as u32, u64::from(flags)) == 0 }
    }

    #[inline(always)]
    fn fix_header(self, at: u32, difference: u32) -> bool {
        // SAFETY: the helper takes numbers.
        unsafe { bpf_l3_csum_replace(self.0, at, 0, u64::from(difference), 0) == 0 }
    }

    // A sum that the device is to complete holds the pseudo header only: the
    // helper knows which it is.
    #[inline(always)]
    fn fix_transport(self, at: u32, difference: u32, pseudo: bool, optional: bool) -> bool {
        let mut flags = 0;
        if pseudo {
            flags |= BPF_F_PSEUDO_HDR;
        }
        if optional {
            flags |= BPF_F_MARK_MANGLED_0;
        }
        // SAFETY: the helper takes numbers.
        unsafe { bpf_l4_csum_replace(self.0, at, 0, u64::from(difference), u64::from(flags)) == 0 }
    }

    #[inline(always)]
    fn sctp_change(self, ports: u32, length: u32) -> u32 {
        orlop_sctp_change(ports, length)
    }

    #[inline(always)]
    fn truncate(self, length: u32) -> bool {
        // SAFETY: the helper takes numbers.
        unsafe { bpf_skb_change_tail(self.0, length, 0) == 0 }
    }

    #[inline(always)]
    fn grow(self, bytes: u32, outer: OuterHeader) -> bool {
        let flags = match outer {
            OuterHeader::Message => 0,
            OuterHeader::V4 => ENCAP_V4,
            OuterHeader::V6 => ENCAP_V6,
        };
        // SAFETY: the helper takes numbers.
        unsafe { bpf_skb_adjust_room(self.0, bytes as i32, ROOM_MAC, flags) == 0 }
    }

    #[inline(always)]
    fn shrink(self, bytes: u32) -> bool {
        // SAFETY: the helper takes numbers.
        unsafe { bpf_skb_adjust_room(self.0, -(bytes as i32), ROOM_MAC, 0) == 0 }
    }
}
