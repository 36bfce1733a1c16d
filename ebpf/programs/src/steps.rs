//! The steps of packet processing, as global functions.
//!
//! The verifier checks a global function once, for all arguments, and not again at each
//! call: costs that would otherwise multiply are added. Such functions take only numbers
//! and the context, so each obtains the [`Work`] of its processor itself.

use core::hint::black_box;

use ebpf_logic::packet::{Kind, Origin, PacketVerdict, Step, Work};

use crate::maps::Kernel;
use crate::scratch::work;

/// Runs a step that is a separate function.
#[inline(always)]
pub(crate) fn take(step: Step, origin: Origin, work: &mut Work) -> PacketVerdict {
    let origin = origin as u32;
    // The function below writes to `work`, which the compiler cannot see: no part of it
    // may be kept in registers across the call.
    black_box(core::ptr::from_mut(work));
    let verdict = match step {
        Step::Error => orlop_error(origin),
        Step::Recall => orlop_recall(),
        Step::Keep => orlop_keep(),
        Step::Track => orlop_track(origin),
        Step::Ask => orlop_ask(),
        Step::Leave => orlop_leave(),
        Step::Hide => orlop_hide(),
        Step::Select => orlop_select(origin),
        Step::Add => orlop_add(),
        Step::Forward => orlop_forward(),
        Step::Reply => orlop_reply(),
        Step::Search => orlop_search(),
        Step::SearchRun => orlop_search_run(),
        Step::TakeOver => orlop_take_over(),
        Step::Forget => orlop_forget(),
        Step::Collect => orlop_collect(),
        Step::MakeRoom => orlop_make_room(),
    };
    black_box(core::ptr::from_mut(work));
    verdict_of(verdict)
}

macro_rules! steps {
    ($($name:ident = $step:ident, $($origin:ident)?;)+) => {
        $(
            #[unsafe(no_mangle)]
            #[inline(never)]
            extern "C" fn $name($($origin: u32)?) -> u32 {
                // An argument that is not used would not be set by callers.
                let origin = 0 $(+ $origin)?;
                let Some(work) = work() else {
                    return PacketVerdict::Pass as u32;
                };
                ebpf_logic::packet::take(&Kernel, Step::$step, origin_of(origin), work) as u32
            }
        )+
    };
}

steps! {
    orlop_error = Error, origin;
    orlop_recall = Recall,;
    orlop_keep = Keep,;
    orlop_track = Track, origin;
    orlop_ask = Ask,;
    orlop_leave = Leave,;
    orlop_hide = Hide,;
    orlop_select = Select, origin;
    orlop_add = Add,;
    orlop_forward = Forward,;
    orlop_reply = Reply,;
    orlop_search = Search,;
    orlop_search_run = SearchRun,;
    orlop_take_over = TakeOver,;
    orlop_forget = Forget,;
    orlop_collect = Collect,;
    orlop_make_room = MakeRoom,;
}

/// Returns the change of an SCTP packet's checksum for changed ports.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn orlop_sctp_change(ports: u32, length: u32) -> u32 {
    ebpf_logic::packet::sctp_change(ports, length)
}

/// Decides on the parsed packet.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn orlop_decide(kind: u32, origin: u32) -> u32 {
    let Some(work) = work() else {
        return PacketVerdict::Pass as u32;
    };
    ebpf_logic::packet::decide(&Kernel, kind_of(kind), origin_of(origin), work) as u32
}

/// Decides on a packet that is no fragment and lies in no other.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn orlop_decide_whole(origin: u32) -> u32 {
    let Some(work) = work() else {
        return PacketVerdict::Pass as u32;
    };
    ebpf_logic::packet::decide_whole(&Kernel, origin_of(origin), work) as u32
}

/// The kind of a number.
#[inline(always)]
pub(crate) const fn kind_of(number: u32) -> Kind {
    match number {
        1 => Kind::Transport,
        2 => Kind::Error,
        3 => Kind::Echo,
        _ => Kind::Other,
    }
}

#[inline(always)]
const fn origin_of(number: u32) -> Origin {
    match number {
        0 => Origin::Device,
        1 => Origin::Pod,
        2 => Origin::Host,
        _ => Origin::Leaving,
    }
}

/// The verdict of a number.
#[inline(always)]
pub(crate) const fn verdict_of(number: u32) -> PacketVerdict {
    match number {
        1 => PacketVerdict::Unknown,
        2 => PacketVerdict::Translate,
        3 => PacketVerdict::Forward,
        4 => PacketVerdict::TranslateError,
        5 => PacketVerdict::Drop,
        6 => PacketVerdict::Refuse,
        7 => PacketVerdict::Encapsulate,
        8 => PacketVerdict::Link,
        _ => PacketVerdict::Pass,
    }
}
