//! How little memory a node's agent keeps: what the allocator does with memory that
//! nobody uses any more, and what of the program itself is mapped.

use std::{
    ffi::{c_int, c_long, c_void},
    time::Duration,
};

/// `mi_option_purge_delay` of `mimalloc.h`: milliseconds for which memory is kept.
const PURGE_DELAY: c_int = 15;
const AT_ONCE: c_long = 0;
/// The allocator's own.
const LATER: c_long = 1_000;

/// How long a start takes, at the most: lists of a large cluster, on a slow machine.
const START: Duration = Duration::from_secs(60);
/// So often it is looked meanwhile what of the program is needed no more.
const OFTEN: Duration = Duration::from_secs(10);

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
        for _ in 0..START.as_secs() / OFTEN.as_secs() {
            tokio::time::sleep(OFTEN).await;
            unmap_program();
        }
        give_back(LATER);
    });
}

fn give_back(after: c_long) {
    // SAFETY: mimalloc is this program's allocator; any thread may set its options
    // at any time, and it takes every number for this one.
    unsafe { mi_option_set(PURGE_DELAY, after) };
}

/// Unmaps the program's code: what goes on running is mapped again as it is met, and
/// what only the start ran (options, certificates, loading programs) is not. It stays
/// in the system's cache as long as there is room.
fn unmap_program() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Ok(program) = std::fs::read_link("/proc/self/exe") else {
        return;
    };
    for (first, length) in code(&maps, &program.to_string_lossy()) {
        let first = std::ptr::with_exposed_provenance_mut::<c_void>(first);
        // SAFETY: these pages are those of a file that is mapped privately and cannot
        // be written through them, so that dropping them loses nothing: the next
        // access maps the same bytes again. Relocations stand elsewhere.
        unsafe { nix::libc::madvise(first, length, nix::libc::MADV_DONTNEED) };
    }
}

/// Where the code of a program is mapped: address and length.
fn code(maps: &str, program: &str) -> Vec<(usize, usize)> {
    let of = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        if !rest.starts_with("r-xp ") || !rest.ends_with(program) {
            return None;
        }
        let (first, end) = range.split_once('-')?;
        let first = usize::from_str_radix(first, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        Some((first, end.checked_sub(first)?))
    };
    maps.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_is_unmapped() {
        let maps = "\
5000-6000 r--p 00000000 fe:00 7       /usr/bin/orlop
6000-9000 r-xp 00001000 fe:00 7       /usr/bin/orlop
9000-a000 r--p 00004000 fe:00 7       /usr/bin/orlop
a000-b000 rw-p 00005000 fe:00 7       /usr/bin/orlop
c000-d000 r-xp 00005000 fe:00 8       /usr/lib/libc.so.6
e000-f000 r-xp 00000000 00:00 0       [vdso]
";
        assert_eq!(code(maps, "/usr/bin/orlop"), [(0x6000, 0x3000)]);
    }

    #[test]
    fn the_program_goes_on_after_its_code_was_unmapped() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the maps");
        let program = std::fs::read_link("/proc/self/exe").expect("the program");
        assert!(!code(&maps, &program.to_string_lossy()).is_empty());
        unmap_program();
        assert_eq!(code(&maps, "no such program"), []);
    }
}
