//! Starts a process that ends with the thread that started it.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use nix::libc;

/// Starts a program with its output in pipes. The kernel kills it when the calling thread ends,
/// also when this whole process is killed: two members must never run on the same data.
///
/// # Errors
/// What the system said.
pub(crate) fn with_this_thread(command: &mut Command) -> io::Result<Child> {
    let parent = nix::unistd::getpid();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's signals go to us, and we end it in order.
        .process_group(0);
    // SAFETY: between fork and exec the closure calls prctl(2) and getppid(2) only, which are
    // async-signal-safe, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have ended before.
            if nix::unistd::getppid() != parent {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        });
    }
    command.spawn()
}
