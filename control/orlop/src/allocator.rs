//! How little memory a node's agent keeps: what the allocator does with memory that
//! nobody uses any more.

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

/// Huge pages keep ten times as much memory as the agent's small objects take: each
/// thread's first ones took two megabytes. So they are declined by the commands of a
/// node, before there are threads. Where that is not possible, it only takes more.
pub fn without_huge_pages(arguments: &[std::ffi::OsString]) {
    let command = arguments.get(1).and_then(|it| it.to_str());
    if matches!(command, Some("node-agent" | "agent")) {
        let _ = nix::sys::prctl::set_thp_disable(true);
    }
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
