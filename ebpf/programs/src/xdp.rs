//! The program at a device's driver.
//!
//! It does what leaves through the device that it came from, which is the case
//! of clients and backends on other machines. It leaves the rest, untouched,
//! to the program behind it, which takes the same decision by the same flow.

use aya_ebpf::bindings::{xdp_action, xdp_md};
use aya_ebpf::helpers::generated::{bpf_xdp_adjust_head, bpf_xdp_load_bytes, bpf_xdp_store_bytes};
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use ebpf_abi::Counter;
use ebpf_logic::Maps;
use ebpf_logic::packet::{
    Front, Kind, Origin, Outer, Packet, Verdict, Work, encapsulate, parse, parse_front, relay,
    rewrite, rewrite_error,
};

use crate::maps::{Kernel, front};
use crate::route::{self, Way};
use crate::steps::{orlop_decide, orlop_sctp_change, verdict_of, work};

/// Packets that a device of the node received, before the kernel makes buffers
/// of its own for them.
#[xdp]
fn orlop_xdp(ctx: XdpContext) -> u32 {
    let mut kind = orlop_xdp_front(ctx.ctx);
    if kind == Kind::Other as u32 {
        kind = orlop_xdp_parse(ctx.ctx);
    }
    if kind == Kind::Other as u32 {
        return xdp_action::XDP_PASS;
    }
    let verdict = orlop_decide(kind, Origin::Device as u32);
    if verdict == Verdict::Pass as u32 {
        return xdp_action::XDP_PASS;
    }
    orlop_xdp_act(ctx.ctx, verdict)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_xdp_front(xdp: *mut xdp_md) -> u32 {
    match work() {
        Some(work) => parse_front(Xdp(xdp), work) as u32,
        None => Kind::Other as u32,
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_xdp_parse(xdp: *mut xdp_md) -> u32 {
    match work() {
        Some(work) => parse(Xdp(xdp), work) as u32,
        None => Kind::Other as u32,
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_xdp_rewrite(xdp: *mut xdp_md) -> u32 {
    work().map_or(0, |work| u32::from(rewrite(Xdp(xdp), work, true)))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_xdp_rewrite_error(xdp: *mut xdp_md) -> u32 {
    work().map_or(0, |work| u32::from(rewrite_error(Xdp(xdp), work)))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_xdp_encapsulate(xdp: *mut xdp_md) -> u32 {
    work().map_or(0, |work| u32::from(encapsulate(Xdp(xdp), work)))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_xdp_relay(xdp: *mut xdp_md) -> u32 {
    work().map_or(0, |work| u32::from(relay(Xdp(xdp), work)))
}

/// Does what was decided.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_xdp_act(xdp: *mut xdp_md, verdict: u32) -> u32 {
    let Some(work) = work() else {
        return xdp_action::XDP_PASS;
    };
    let verdict = verdict_of(verdict);
    let packet = Xdp(xdp);
    match verdict {
        Verdict::Pass => xdp_action::XDP_PASS,
        Verdict::Drop => {
            Kernel.count(work.counter);
            xdp_action::XDP_DROP
        }
        Verdict::Forward | Verdict::TranslateError | Verdict::Encapsulate | Verdict::Link
            if work.tunnel == 0 =>
        {
            send(packet, work, verdict)
        }
        _ => pass(),
    }
}

#[inline(always)]
fn pass() -> u32 {
    Kernel.count(Counter::XdpPassed);
    xdp_action::XDP_PASS
}

#[inline(always)]
fn send(packet: Xdp, work: &mut Work, verdict: Verdict) -> u32 {
    // SAFETY: the kernel hands a valid context in; it is no memory.
    let device = unsafe { core::ptr::addr_of!((*packet.0).ingress_ifindex).read_volatile() };
    let outer = match verdict {
        Verdict::Encapsulate if work.headers.v4 => 20,
        Verdict::Encapsulate => 40,
        _ => 0,
    };
    let length = work.headers.length + outer;
    if work.headers.hops <= 1
        || route::find(packet.0.cast(), device, &work.to, length) != Way::Known
        || route::device() != device
    {
        return pass();
    }
    let written = match verdict {
        Verdict::Encapsulate => orlop_xdp_encapsulate(packet.0) != 0,
        Verdict::Link => orlop_xdp_relay(packet.0) != 0,
        Verdict::TranslateError => orlop_xdp_rewrite_error(packet.0) != 0,
        _ => orlop_xdp_rewrite(packet.0) != 0,
    };
    if written && packet.store(0, &route::frame(), false) {
        Kernel.count(work.counter);
        xdp_action::XDP_TX
    } else {
        Kernel.count(Counter::DroppedUnwritable);
        xdp_action::XDP_DROP
    }
}

/// A packet as the driver has it.
#[derive(Clone, Copy)]
struct Xdp(*mut xdp_md);

impl Packet for Xdp {
    #[inline(always)]
    fn len(self) -> u32 {
        // SAFETY: as above.
        unsafe {
            let end = core::ptr::addr_of!((*self.0).data_end).read_volatile();
            let start = core::ptr::addr_of!((*self.0).data).read_volatile();
            end.wrapping_sub(start)
        }
    }

    #[inline(always)]
    fn front(self) -> Option<Front> {
        // SAFETY: as above.
        unsafe {
            front(
                core::ptr::addr_of!((*self.0).data).read_volatile() as usize,
                core::ptr::addr_of!((*self.0).data_end).read_volatile() as usize,
            )
        }
    }

    #[inline(always)]
    fn load<const N: usize>(self, at: u32) -> Option<[u8; N]> {
        let mut bytes = core::mem::MaybeUninit::<[u8; N]>::uninit();
        // SAFETY: the helper writes `N` bytes, or fails.
        let failed = unsafe { bpf_xdp_load_bytes(self.0, at, bytes.as_mut_ptr().cast(), N as u32) };
        if failed == 0 {
            // SAFETY: they are written.
            Some(unsafe { bytes.assume_init() })
        } else {
            None
        }
    }

    #[inline(always)]
    fn store<const N: usize>(self, at: u32, bytes: &[u8; N], _summed: bool) -> bool {
        let from = bytes.as_ptr().cast_mut().cast();
        // SAFETY: the helper reads `N` bytes.
        unsafe { bpf_xdp_store_bytes(self.0, at, from, N as u32) == 0 }
    }

    #[inline(always)]
    fn sctp_change(self, ports: u32, length: u32) -> u32 {
        orlop_sctp_change(ports, length)
    }

    #[inline(always)]
    fn truncate(self, _length: u32) -> bool {
        // Answers are made by the program behind this one.
        false
    }

    #[inline(always)]
    fn grow(self, bytes: u32, _outer: Outer) -> bool {
        let Some(link) = self.load::<14>(0) else {
            return false;
        };
        // SAFETY: the helper takes numbers.
        let failed = unsafe { bpf_xdp_adjust_head(self.0, -(bytes as i32)) };
        failed == 0 && self.store(0, &link, false)
    }

    #[inline(always)]
    fn shrink(self, _bytes: u32) -> bool {
        false
    }
}
