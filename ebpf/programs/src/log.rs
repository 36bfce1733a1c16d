//! Log messages about rare events, through aya-log.
//!
//! The log level of programs is a constant that user space sets when it loads them: the
//! verifier removes statements below it, so that a disabled statement costs nothing, and
//! an enabled one is beside the fast path, never in it.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use aya_log_ebpf::macro_support::{Level, level_enabled};
use ebpf_abi::{ChecksummedValue, Counter, Service, ServiceKey};
use ebpf_logic::Maps;

use crate::maps::Kernel;

/// The time of a processor's last message, by counter.
#[map]
static TOLD: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::CAPACITY, 0);

/// A fault tells of itself once in this time, per processor: it may strike
/// every call.
const PACE: u64 = 1_000_000_000;

/// Tells of an event: faults as warnings, the rest for debugging.
#[inline(always)]
pub(crate) fn log_event(what: Counter, asked: &ServiceKey) {
    let level = if what.is_fault() {
        Level::Warn
    } else {
        Level::Debug
    };
    if level_enabled(level) {
        write(what.index(), asked, level);
    }
}

#[inline(always)]
fn due(what: u32) -> bool {
    let Some(last) = TOLD.get_ptr_mut(what) else {
        return false;
    };
    // SAFETY: the helper takes nothing.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: the pointer is to this processor's value.
    unsafe {
        if *last != 0 && now.wrapping_sub(*last) < PACE {
            return false;
        }
        *last = now;
    }
    true
}

/// One statement for all events: it is several hundred instructions long. The
/// reader knows the words (`node-agent-datapath`, `log.rs`).
#[inline(never)]
fn write(what: u32, asked: &ServiceKey, level: Level) {
    if level == Level::Warn && !due(what) {
        return;
    }
    let service = Kernel
        .service(asked)
        .and_then(|it: ChecksummedValue<Service>| it.open(asked));
    let (set, generation) = service.map_or((0, 0), |it| (it.set, it.generation));
    aya_log_ebpf::log!(
        &(),
        target: "orlop_bpf",
        level,
        "what={} address={:i} port={} protocol={} set={} generation={}",
        what,
        asked.address.octets(),
        asked.port.get(),
        asked.protocol.0,
        set,
        generation
    );
}
