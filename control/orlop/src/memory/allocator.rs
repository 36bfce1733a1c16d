//! Releases free memory of the allocator.

use std::{
    cell::Cell,
    ffi::{c_int, c_long},
    sync::atomic::{AtomicU32, Ordering},
};

/// `mi_option_purge_delay` of `mimalloc.h`: milliseconds for which memory is kept.
const PURGE_DELAY: c_int = 15;
const AT_ONCE: c_long = 0;
/// The allocator's own.
const LATER: c_long = 1_000;

unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// The number of requests to all threads to release memory.
static ASKED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// How often this one did.
    static DONE: Cell<u32> = const { Cell::new(0) };
}

/// Huge pages keep ten times as much memory as the agent's small objects take: each
/// thread's first ones took two megabytes. So they are declined by the commands of a
/// node, before there are threads. Where that is not possible, it only takes more.
pub fn without_huge_pages(arguments: &[std::ffi::OsString]) {
    let command = arguments.get(1).and_then(|it| it.to_str());
    if matches!(command, Some("node-agent" | "agent")) {
        let _ = nix::sys::prctl::set_thp_disable(true);
    }
}

/// Makes the allocator release free memory immediately. Initial lists need much memory
/// for a moment, and memory that is not released then stays: it is only searched as more
/// is freed, and later little is.
pub fn keep_nothing() {
    give_back(AT_ONCE);
}

/// Memory that is free is kept for a while, which costs fewer system calls.
pub fn keep_for_a_while() {
    give_back(LATER);
}

fn give_back(after: c_long) {
    // SAFETY: mimalloc is this program's allocator; any thread may set its options
    // at any time, and it takes every number for this one.
    unsafe { mi_option_set(PURGE_DELAY, after) };
}

/// Asks all threads to release the free memory of their heaps, which only they can do.
pub fn ask_all() {
    ASKED.fetch_add(1, Ordering::Relaxed);
    // Sleeping threads wake up, so that they release memory before they sleep again.
    for _ in 0..tokio::runtime::Handle::current().metrics().num_workers() {
        tokio::spawn(tokio::task::yield_now());
    }
}

/// Releases the free memory of this thread's heap if that was requested since the last
/// call: for threads that are about to sleep.
pub fn give_back_when_asked() {
    let asked = ASKED.load(Ordering::Relaxed);
    if DONE.replace(asked) != asked {
        // SAFETY: mimalloc is this program's allocator; it only touches the heap of the
        // calling thread, and what no thread owns under its own locks.
        unsafe { mi_collect(true) };
    }
}
