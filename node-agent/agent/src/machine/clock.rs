//! Whether the kernel's clock follows another one.

use nix::libc;

/// Asks the kernel (adjtimex(2)); `None` if it does not say.
pub fn is_synchronized() -> Option<bool> {
    // SAFETY: all-zero bytes are a valid `timex`, which asks without changing anything.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives through the call.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    if result < 0 {
        return None;
    }
    Some(result != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0)
}
