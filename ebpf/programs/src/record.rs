//! Records of single verdicts and drops, through a ring buffer.
//!
//! A constant that user space sets when it loads the programs enables them: disabled code
//! is removed. Records are written beside the fast path, never in it.

use core::hint::black_box;

use aya_ebpf::helpers::{bpf_get_prandom_u32, bpf_ktime_get_ns};
use aya_ebpf::macros::map;
use aya_ebpf::maps::RingBuf;
use ebpf_abi::record::recording;
use ebpf_abi::{Counter, FlowRecord};
use ebpf_logic::Maps;
use ebpf_logic::policy::{Guard, VerdictReason, describe};

use crate::maps::Kernel;
use crate::scratch::{scratch, work};

#[map]
static FLOW_RECORDS: RingBuf = RingBuf::with_byte_size(recording::RING, 0);

/// Whether verdicts are recorded.
#[unsafe(no_mangle)]
static ORLOP_RECORDS: u8 = 0;

/// One in so many of the flows that policy allows; 0: none.
#[unsafe(no_mangle)]
static ORLOP_SAMPLE: u32 = 0;

/// Sampling rate of drops in a flood: one in this many is recorded, since they would
/// otherwise leave no room for others.
const CROWD: u32 = 64;

const ALLOWED: u32 = Counter::PolicyAllowed as u32;

#[inline(always)]
fn is_on() -> bool {
    // SAFETY: a constant of this object. User space may have written another
    // than the compiler knows.
    unsafe { core::ptr::addr_of!(ORLOP_RECORDS).read_volatile() != 0 }
}

/// Returns the sampling rate.
#[inline(always)]
fn share() -> u32 {
    // SAFETY: as above.
    unsafe { core::ptr::addr_of!(ORLOP_SAMPLE).read_volatile() }
}

/// Returns whether this one is sampled.
#[inline(always)]
fn is_drawn() -> bool {
    let share = share();
    // SAFETY: the helper takes nothing.
    share == 1 || (share != 0 && unsafe { bpf_get_prandom_u32() } % share == 0)
}

/// A verdict of policy.
#[inline(always)]
pub(crate) fn verdict(guard: &Guard, why: &VerdictReason) {
    if !is_on() || (why.reason == ALLOWED && !is_drawn()) {
        return;
    }
    // The function below reads what `guard` refers to, which the compiler
    // cannot see.
    black_box(core::ptr::from_ref(guard));
    orlop_record_verdict(why.reason, why.cookie, why.epoch);
}

/// A packet that a program of services drops or refuses.
#[inline(always)]
pub(crate) fn dropped(reason: Counter, device: u32) {
    if is_on() {
        orlop_record_drop(reason.index(), device);
    }
}

/// A packet that is more than a pod's bandwidth, one in [`CROWD`].
#[inline(always)]
pub(crate) fn crowded(device: u32) {
    // SAFETY: the helper takes nothing.
    if is_on() && unsafe { bpf_get_prandom_u32() } % CROWD == 0 {
        drop_of(Counter::DroppedBandwidth.index(), device, CROWD);
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_record_verdict(reason: u32, cookie: u32, epoch: u32) -> u32 {
    let Some(guard) = scratch() else {
        return 0;
    };
    let why = VerdictReason {
        reason,
        cookie,
        epoch,
    };
    let weight = if reason == ALLOWED { share() } else { 1 };
    write(weight, |record| describe(guard, &why, record))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_record_drop(reason: u32, device: u32) -> u32 {
    drop_of(reason, device, 1)
}

#[inline(always)]
fn drop_of(reason: u32, device: u32, weight: u32) -> u32 {
    let Some(work) = work() else {
        return 0;
    };
    write(weight, |record| {
        record.tuple = work.headers.tuple;
        record.peer = record.tuple.destination;
        record.peer_port = record.tuple.destination_port;
        record.cookie = 0;
        record.epoch = 0;
        record.reason = reason;
        record.device = device;
        record.flags = 0;
    })
}

/// `fill` writes every field but the time and the weight. A reader is woken if it had read all.
#[inline(always)]
fn write(weight: u32, fill: impl FnOnce(&mut FlowRecord)) -> u32 {
    let Some(mut entry) = FLOW_RECORDS.reserve::<FlowRecord>(0) else {
        Kernel.count(Counter::RecordLost);
        return 0;
    };
    // SAFETY: the place is as long as a record, and each of its fields, which
    // are plain data, is written before it is read.
    let record = unsafe { &mut *entry.as_mut_ptr() };
    // SAFETY: the helper takes nothing.
    record.time = unsafe { bpf_ktime_get_ns() };
    record.weight = weight;
    fill(record);
    entry.submit(0);
    1
}
