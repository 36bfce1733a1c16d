//! The state of the packet that a processor works on: a stack is too small for it.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use ebpf_logic::packet::Work;
use ebpf_logic::policy::Guard;

/// The state of the packet that this processor works on. Programs at devices do not
/// interrupt one another.
#[map]
static WORK: PerCpuArray<Work> = PerCpuArray::with_max_entries(1, 0);
/// The state of a packet at a pod's interface.
#[map]
static GUARD: PerCpuArray<Guard> = PerCpuArray::with_max_entries(1, 0);

/// This processor's work.
#[inline(always)]
pub(crate) fn work() -> Option<&'static mut Work> {
    // SAFETY: this processor's value. Code with another reference to it passes it to
    // `black_box` before and after a call that leads here.
    WORK.get_ptr_mut(0).map(|work| unsafe { &mut *work })
}

/// This processor's.
#[inline(always)]
pub(crate) fn scratch() -> Option<&'static mut Guard> {
    // SAFETY: this processor's value; each step has the only reference to it.
    GUARD.get_ptr_mut(0).map(|guard| unsafe { &mut *guard })
}
