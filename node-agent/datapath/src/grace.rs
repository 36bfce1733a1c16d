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

use std::os::fd::AsFd;

use crate::error::Error;
use crate::sys;

/// Waits until all programs have ended that were at work when this was called:
/// milliseconds, mostly.
///
/// # Errors
///
/// [`Error::Wait`].
pub fn wait_for_programs() -> Result<(), Error> {
    let waited = sys::make_array(None).and_then(|inner| {
        let outer = sys::make_array(Some(inner.as_fd()))?;
        sys::put_map(&outer, inner.as_fd())
    });
    waited.map_err(|source| Error::Wait { source })
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
}
