//! The programs at the interfaces of pods with a bandwidth limit. For packets of pods
//! they run before the programs that guard them, since those may forward packets
//! themselves; for packets to pods they run after, so that dropped packets do not consume
//! the bandwidth.
//!
//! Packets cannot be delayed here: that takes a queueing discipline with timestamps
//! (`fq`), which a kernel may lack.

use core::arch::asm;

use aya_ebpf::bindings::{__sk_buff, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use ebpf_abi::policy::Direction;
use ebpf_abi::{Bandwidth, BandwidthKey, Counter};
use ebpf_logic::Maps;
use ebpf_logic::bandwidth::{Bucket, length, passes};

use crate::maps::{BANDWIDTH, Kernel};
use crate::record;
use crate::tc::{Skb, field, read};

/// Limits packets from a pod.
#[classifier]
fn orlop_tc_limit_ingress(ctx: TcContext) -> i32 {
    run(ctx.skb.skb, Direction::EGRESS)
}

/// Limits packets to a pod.
#[classifier]
fn orlop_tc_limit_egress(ctx: TcContext) -> i32 {
    run(ctx.skb.skb, Direction::INGRESS)
}

#[inline(always)]
fn run(skb: *mut __sk_buff, direction: Direction) -> i32 {
    let key = BandwidthKey {
        device: field!(skb, ifindex),
        direction,
    };
    let Some(bucket) = BANDWIDTH.get_ptr_mut(&key) else {
        return TC_ACT_UNSPEC;
    };
    // SAFETY: the helper takes nothing.
    let now = unsafe { bpf_ktime_get_ns() };
    let bytes = length(Skb(skb), field!(skb, gso_size));
    if passes(&Place(bucket), bytes, now) {
        return TC_ACT_UNSPEC;
    }
    Kernel.count(Counter::DroppedBandwidth);
    read(skb);
    record::crowded(key.device);
    TC_ACT_SHOT as i32
}

/// A bucket in the kernel's map.
struct Place(*mut Bandwidth);

impl Bucket for Place {
    #[inline(always)]
    fn rate(&self) -> u64 {
        // SAFETY: the map returned the pointer to this very run; a single word is read at
        // once. User space writes it once, before packets arrive.
        unsafe { core::ptr::addr_of!((*self.0).rate).read_volatile() }
    }

    #[inline(always)]
    fn depth(&self) -> u64 {
        // SAFETY: as above.
        unsafe { core::ptr::addr_of!((*self.0).depth).read_volatile() }
    }

    #[inline(always)]
    fn full(&self) -> u64 {
        // SAFETY: as above.
        unsafe { core::ptr::addr_of!((*self.0).full).read_volatile() }
    }

    #[inline(always)]
    fn fill(&self, at: u64) {
        // SAFETY: as above.
        unsafe { core::ptr::addr_of_mut!((*self.0).full).write_volatile(at) }
    }

    #[inline(always)]
    fn take(&self, cost: u64) {
        // SAFETY: the word is aligned, and the map lives as long as this run. The
        // instruction is that of all kernels (`BPF_STX | BPF_DW | BPF_ATOMIC`,
        // `BPF_ADD`), which the compiler's own atomics are not for this target: it does
        // not fetch the old value.
        unsafe {
            let full = core::ptr::addr_of_mut!((*self.0).full);
            asm!("lock *(u64 *)({full} + 0) += {cost}", full = in(reg) full, cost = in(reg) cost);
        }
    }
}
