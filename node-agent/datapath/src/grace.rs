//! Until programs have ended that are at work now.
//!
//! A program that has read a reference may be stopped, on a machine that is itself
//! emulated for a long time, before it reads what is referred to. So what an overwritten
//! reference led to is removed, or given another meaning, only after this.
//!
//! Programs run as readers of RCU: those at devices and in drivers, those of sockets, and
//! those of tests; none of ours may sleep, which would be waited for otherwise. Once a
//! map is put into a map of maps, the kernel does not return to the caller before all
//! readers have ended that began earlier (`maybe_wait_bpf_programs` in
//! `kernel/bpf/syscall.c`, since Linux 4.20). membarrier(2) is not enough: it waits for
//! nothing where one processor is online, and refuses where some have no ticks.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use crate::error::Error;
use crate::sys;

/// A map, and one that it can be put into. They are kept: a process that has waited once
/// can do so when the kernel has no memory, or no leave, for further maps.
static MAPS: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();

/// Waits until all programs have ended that were at work when this was called:
/// milliseconds, mostly.
///
/// # Errors
///
/// [`Error::Wait`].
pub fn wait_for_programs() -> Result<(), Error> {
    let waited = maps().and_then(|(inner, outer)| sys::put_map(outer, inner.as_fd()));
    waited.map_err(|source| Error::Wait { source })
}

fn maps() -> io::Result<&'static (OwnedFd, OwnedFd)> {
    if let Some(maps) = MAPS.get() {
        return Ok(maps);
    }
    let inner = sys::make_array(None)?;
    let outer = sys::make_array(Some(inner.as_fd()))?;
    // Another thread's are as good.
    Ok(MAPS.get_or_init(|| (inner, outer)))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn programs_are_waited_for() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to make maps");
            return;
        }
        let since = Instant::now();
        wait_for_programs().expect("the kernel waits");
        println!("{:?}", since.elapsed());
    }

    #[test]
    fn who_has_waited_once_needs_no_further_map() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to make maps");
            return;
        }
        wait_for_programs().expect("the kernel waits");
        let maps = maps().expect("they are there");
        let since = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| wait_for_programs().expect("the kernel waits"));
            }
        });
        println!("{:?}", since.elapsed());
        assert!(std::ptr::eq(maps, super::maps().expect("they stay")));
    }
}
