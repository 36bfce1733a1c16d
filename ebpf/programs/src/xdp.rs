//! The program at a device's driver.
//!
//! It handles packets that leave through the device that received them, which is the case
//! for clients and backends on other machines. It passes others, unchanged, to the next
//! program, which takes the same decision by the same flow.

use aya_ebpf::bindings::{xdp_action, xdp_md};
use aya_ebpf::helpers::generated::{bpf_xdp_adjust_head, bpf_xdp_load_bytes, bpf_xdp_store_bytes};
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use ebpf_abi::Counter;
use ebpf_logic::Maps;
use ebpf_logic::packet::{
    Front, FrontV6, Glance, Kind, Origin, OuterHeader, Packet, PacketVerdict, Work, encapsulate,
    is_foreign, parse, parse_front, relay, rewrite, rewrite_error,
};

use crate::bytes::{front, front_v6, glance};
use crate::maps::Kernel;
use crate::route::{self, Way};
use crate::scratch::work;
use crate::steps::{orlop_decide, orlop_decide_whole, orlop_sctp_change, verdict_of};

/// Packets that a device of the node received, before the kernel allocates buffers for
/// them.
#[xdp]
fn orlop_xdp(ctx: XdpContext) -> u32 {
    if orlop_xdp_foreign(ctx.ctx) != 0 {
        return xdp_action::XDP_PASS;
    }
    let Some(work) = work() else {
        return xdp_action::XDP_PASS;
    };
    let verdict = if parse_front(Xdp(ctx.ctx), work) == Kind::Transport {
        core::hint::black_box(core::ptr::from_mut(work));
        orlop_decide_whole(Origin::Device as u32)
    } else {
        let kind = orlop_xdp_parse(ctx.ctx);
        if kind == Kind::Other as u32 {
            return xdp_action::XDP_PASS;
        }
        orlop_decide(kind, Origin::Device as u32)
    };
    if verdict == PacketVerdict::Pass as u32 {
        return xdp_action::XDP_PASS;
    }
    orlop_xdp_act(ctx.ctx, verdict)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_xdp_foreign(xdp: *mut xdp_md) -> u32 {
    let glance = Xdp(xdp).glance();
    u32::from(glance.is_some_and(|glance| is_foreign(&Kernel, &glance)))
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
    work().map_or(0, |work| u32::from(rewrite(Direct(Xdp(xdp)), work, true)))
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

/// Carries out the verdict.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_xdp_act(xdp: *mut xdp_md, verdict: u32) -> u32 {
    let Some(work) = work() else {
        return xdp_action::XDP_PASS;
    };
    let verdict = verdict_of(verdict);
    let packet = Xdp(xdp);
    match verdict {
        PacketVerdict::Pass => xdp_action::XDP_PASS,
        PacketVerdict::Drop => drop(xdp, work.counter),
        PacketVerdict::Forward
        | PacketVerdict::TranslateError
        | PacketVerdict::Encapsulate
        | PacketVerdict::Link
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
fn send(packet: Xdp, work: &mut Work, verdict: PacketVerdict) -> u32 {
    // SAFETY: the kernel hands a valid context in; it is no memory.
    let device = unsafe { core::ptr::addr_of!((*packet.0).ingress_ifindex).read_volatile() };
    let outer = match verdict {
        PacketVerdict::Encapsulate if work.headers.v4 => 20,
        PacketVerdict::Encapsulate => 40,
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
        PacketVerdict::Encapsulate => orlop_xdp_encapsulate(packet.0) != 0,
        PacketVerdict::Link => orlop_xdp_relay(packet.0) != 0,
        PacketVerdict::TranslateError => orlop_xdp_rewrite_error(packet.0) != 0,
        // Packets with data outside of the first buffer are left to the next program: the
        // farthest field is accessed first, so that nothing was written yet.
        _ if orlop_xdp_rewrite(packet.0) == 0 => return pass(),
        _ => true,
    };
    if written && Direct(packet).store(0, &route::frame(), false) {
        Kernel.count(work.counter);
        xdp_action::XDP_TX
    } else {
        drop(packet.0, Counter::DroppedUnwritable)
    }
}

#[inline(always)]
fn drop(xdp: *mut xdp_md, why: Counter) -> u32 {
    Kernel.count(why);
    // SAFETY: the kernel hands a valid context in; it is no memory.
    let device = unsafe { core::ptr::addr_of!((*xdp).ingress_ifindex).read_volatile() };
    crate::record::dropped(why, device);
    xdp_action::XDP_DROP
}

/// A packet as the driver has it.
#[derive(Clone, Copy)]
struct Xdp(*mut xdp_md);

impl Xdp {
    /// Returns the bounds of the packet's first buffer.
    #[inline(always)]
    fn ends(self) -> (usize, usize) {
        // SAFETY: the kernel hands a valid context in; it is no memory.
        unsafe {
            (
                core::ptr::addr_of!((*self.0).data).read_volatile() as usize,
                core::ptr::addr_of!((*self.0).data_end).read_volatile() as usize,
            )
        }
    }
}

impl Packet for Xdp {
    #[inline(always)]
    fn len(self) -> u32 {
        let (start, end) = self.ends();
        end.wrapping_sub(start) as u32
    }

    #[inline(always)]
    fn front(self) -> Option<Front> {
        let (start, end) = self.ends();
        front(start, end)
    }

    #[inline(always)]
    fn glance(self) -> Option<Glance> {
        let (start, end) = self.ends();
        glance(start, end)
    }

    #[inline(always)]
    fn front_v6(self) -> Option<FrontV6> {
        let (start, end) = self.ends();
        front_v6(start, end)
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
    fn grow(self, bytes: u32, _outer: OuterHeader) -> bool {
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

/// The same packet for frequent accesses, without a helper call per field. Each access
/// costs the verifier more this way, which is why others use helpers.
#[derive(Clone, Copy)]
struct Direct(Xdp);

/// Offsets that are looked at: headers lie far before.
const FARTHEST: u64 = 0x3fff;

impl Direct {
    /// Returns a pointer to `N` bytes at an offset, if all are present. Headers begin at
    /// even offsets.
    #[inline(always)]
    fn place<const N: usize>(self, at: u32) -> Option<*mut u8> {
        // The compiler is not to know where the number comes from: it would compare
        // another, of which the verifier does not know that it is the same.
        let at = core::hint::black_box(u64::from(at));
        if at > FARTHEST {
            return None;
        }
        let (start, end) = self.0.ends();
        // One sum is used for both the check and the access: the verifier would not
        // relate two.
        let place = core::hint::black_box(start + at as usize);
        if place + N > end {
            return None;
        }
        Some(place as *mut u8)
    }
}

impl Packet for Direct {
    #[inline(always)]
    fn len(self) -> u32 {
        self.0.len()
    }

    #[inline(always)]
    fn front(self) -> Option<Front> {
        self.0.front()
    }

    #[inline(always)]
    fn glance(self) -> Option<Glance> {
        self.0.glance()
    }

    #[inline(always)]
    fn front_v6(self) -> Option<FrontV6> {
        self.0.front_v6()
    }

    #[inline(always)]
    fn load<const N: usize>(self, at: u32) -> Option<[u8; N]> {
        let from = self.place::<N>(at)?;
        let mut bytes = [0; N];
        let mut i = 0;
        // SAFETY: `N` bytes lie there.
        unsafe {
            if N % 4 == 0 {
                while i < N {
                    let word = from.add(i).cast::<u32>().read_volatile().to_ne_bytes();
                    bytes[i] = word[0];
                    bytes[i + 1] = word[1];
                    bytes[i + 2] = word[2];
                    bytes[i + 3] = word[3];
                    i += 4;
                }
            } else if N % 2 == 0 {
                while i < N {
                    let [a, b] = from.add(i).cast::<u16>().read_volatile().to_ne_bytes();
                    bytes[i] = a;
                    bytes[i + 1] = b;
                    i += 2;
                }
            } else {
                while i < N {
                    bytes[i] = from.add(i).read_volatile();
                    i += 1;
                }
            }
        }
        Some(bytes)
    }

    #[inline(always)]
    fn store<const N: usize>(self, at: u32, bytes: &[u8; N], _summed: bool) -> bool {
        let Some(to) = self.place::<N>(at) else {
            return false;
        };
        let mut i = 0;
        // SAFETY: `N` bytes lie there.
        unsafe {
            if N % 4 == 0 {
                while i < N {
                    let word = [bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]];
                    to.add(i)
                        .cast::<u32>()
                        .write_volatile(u32::from_ne_bytes(word));
                    i += 4;
                }
            } else if N % 2 == 0 {
                while i < N {
                    let word = u16::from_ne_bytes([bytes[i], bytes[i + 1]]);
                    to.add(i).cast::<u16>().write_volatile(word);
                    i += 2;
                }
            } else {
                while i < N {
                    to.add(i).write_volatile(bytes[i]);
                    i += 1;
                }
            }
        }
        true
    }

    #[inline(always)]
    fn sctp_change(self, ports: u32, length: u32) -> u32 {
        self.0.sctp_change(ports, length)
    }

    #[inline(always)]
    fn truncate(self, length: u32) -> bool {
        self.0.truncate(length)
    }

    #[inline(always)]
    fn grow(self, bytes: u32, outer: OuterHeader) -> bool {
        self.0.grow(bytes, outer)
    }

    #[inline(always)]
    fn shrink(self, bytes: u32) -> bool {
        self.0.shrink(bytes)
    }
}
