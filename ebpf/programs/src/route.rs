//! Looks up the kernel's route for a packet.

use core::ffi::c_void;

use aya_ebpf::bindings::{
    BPF_FIB_LKUP_RET_FRAG_NEEDED, BPF_FIB_LKUP_RET_FWD_DISABLED, BPF_FIB_LKUP_RET_NO_NEIGH,
    BPF_FIB_LKUP_RET_NOT_FWDED, BPF_FIB_LKUP_RET_SUCCESS, BPF_FIB_LKUP_RET_UNSUPP_LWT,
    bpf_fib_lookup as Lookup,
};
use aya_ebpf::helpers::generated::bpf_fib_lookup;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use ebpf_abi::{Address, Tuple};
use ebpf_logic::packet::hardware_of;

/// The question and its answer: too long for the stack.
#[map]
static ROUTE: PerCpuArray<Lookup> = PerCpuArray::with_max_entries(1, 0);

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// The kernel's routing decision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Send it through [`device`] in a frame with [`frame`]'s addresses.
    Known,
    /// Send it through [`device`], to a neighbour that it must look for.
    Neighbour,
    /// The kernel handles it: delivers it, or sends it in another way.
    Kernel,
    /// Refuse it, since it is longer than [`mtu`].
    TooBig,
    /// Drop it.
    None,
}

/// Asks for the way of packets with these addresses. `length` zero: the
/// packet's own.
#[inline(always)]
pub(crate) fn find(ctx: *mut c_void, device: u32, tuple: &Tuple, length: u32) -> Way {
    let Some(lookup) = ROUTE.get_ptr_mut(0) else {
        return Way::None;
    };
    // SAFETY: this processor's value; every field is an integer.
    unsafe {
        (*lookup).l4_protocol = tuple.protocol.0;
        (*lookup).sport = 0;
        (*lookup).dport = 0;
        (*lookup).__bindgen_anon_1.tot_len = length as u16;
        (*lookup).ifindex = device;
        (*lookup).__bindgen_anon_2.flowinfo = 0;
        (*lookup).__bindgen_anon_5.tbid = 0;
        if tuple.destination.is_v4() {
            (*lookup).family = AF_INET;
            (*lookup).__bindgen_anon_3.ipv4_src = tuple.source.last_word();
            (*lookup).__bindgen_anon_4.ipv4_dst = tuple.destination.last_word();
        } else {
            (*lookup).family = AF_INET6;
            (*lookup).__bindgen_anon_3.ipv6_src = words(tuple.source);
            (*lookup).__bindgen_anon_4.ipv6_dst = words(tuple.destination);
        }
    }
    // SAFETY: the context is the program's, and the value as long as said.
    let found = unsafe { bpf_fib_lookup(ctx, lookup, size_of::<Lookup>() as i32, 0) };
    if found < 0 {
        return Way::None;
    }
    match found as u32 {
        BPF_FIB_LKUP_RET_SUCCESS => Way::Known,
        BPF_FIB_LKUP_RET_NO_NEIGH => Way::Neighbour,
        BPF_FIB_LKUP_RET_NOT_FWDED
        | BPF_FIB_LKUP_RET_FWD_DISABLED
        | BPF_FIB_LKUP_RET_UNSUPP_LWT => Way::Kernel,
        BPF_FIB_LKUP_RET_FRAG_NEEDED => Way::TooBig,
        _ => Way::None,
    }
}

/// The device of the way that was found.
#[inline(always)]
pub(crate) fn device() -> u32 {
    // SAFETY: this processor's value.
    ROUTE.get_ptr(0).map_or(0, |it| unsafe { (*it).ifindex })
}

/// The MTU that was exceeded.
#[inline(always)]
pub(crate) fn mtu() -> u32 {
    // SAFETY: this processor's value; the kernel wrote this field last.
    ROUTE.get_ptr(0).map_or(0, |it| {
        u32::from(unsafe { (*it).__bindgen_anon_1.mtu_result })
    })
}

/// The addresses of the frame: to whom, from whom.
#[inline(always)]
pub(crate) fn frame() -> [u8; 12] {
    let mut both = [0; 12];
    if let Some(it) = ROUTE.get_ptr(0) {
        // SAFETY: this processor's value.
        let (to, from) = unsafe { ((*it).dmac, (*it).smac) };
        let mut i = 0;
        while i < 6 {
            both[i] = to[i];
            both[i + 6] = from[i];
            i += 1;
        }
    }
    both
}

/// The hardware address to which the frame goes, as [`Packet::hardware`] gives it.
///
/// [`Packet::hardware`]: ebpf_logic::packet::Packet::hardware
#[inline(always)]
pub(crate) fn receiver() -> u64 {
    // SAFETY: this processor's value.
    ROUTE
        .get_ptr(0)
        .map_or(0, |it| hardware_of(unsafe { (*it).dmac }))
}

#[inline(always)]
const fn words(address: Address) -> [u32; 4] {
    address.to_words()
}
