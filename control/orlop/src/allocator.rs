//! What the allocator does with memory that nobody uses any more.

use std::{
    ffi::{c_int, c_long},
    time::Duration,
};

/// `mi_option_purge_delay` of `mimalloc.h`: milliseconds for which memory is kept.
const PURGE_DELAY: c_int = 15;
const AT_ONCE: c_long = 0;
/// The allocator's own.
const LATER: c_long = 1_000;

/// How long a start takes, at the most: lists of a large cluster, on a slow machine.
const START: Duration = Duration::from_secs(60);

unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
}

/// While lists come, much is needed for a moment, and what is not given back then
/// stays: memory is only looked through as more is freed, and later little is. So
/// it is given back at once for as long as that takes, and late again afterwards,
/// which costs fewer system calls.
pub fn thrifty_at_first() {
    give_back(AT_ONCE);
    tokio::spawn(async {
        tokio::time::sleep(START).await;
        give_back(LATER);
    });
}

fn give_back(after: c_long) {
    // SAFETY: mimalloc is this program's allocator; any thread may set its options
    // at any time, and it takes every number for this one.
    unsafe { mi_option_set(PURGE_DELAY, after) };
}
