//! The calls of ptrace(2) that are needed here, for x86-64.

use std::{
    io,
    mem::MaybeUninit,
    os::unix::process::CommandExt as _,
    process::Command,
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
};

use nix::{
    libc::{self, c_int, c_uint, c_void, user_regs_struct},
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
    unistd::Pid,
};

/// A process of the program became another program.
pub const OTHER_PROGRAM: c_int = libc::PTRACE_EVENT_EXEC;

/// The process that gets the signals of this process.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// Did the alarm go off?
static RUNG: AtomicBool = AtomicBool::new(false);

/// Starts a program that this thread traces: it stops at its first instruction.
pub fn spawn(command: &mut Command) -> io::Result<Pid> {
    let traced = || request(libc::PTRACE_TRACEME, Pid::from_raw(0), null_mut());
    // SAFETY: between fork and exec only ptrace(2) is called, which takes no lock and
    // allocates nothing.
    let child = unsafe { command.pre_exec(traced) }.spawn()?;
    Ok(Pid::from_raw(
        i32::try_from(child.id()).map_err(io::Error::other)?,
    ))
}

/// Its threads and children are traced as well, and all end with this process.
pub fn follow_all(program: Pid) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    request(
        libc::PTRACE_SETOPTIONS,
        program,
        options as usize as *mut c_void,
    )
}

/// Continues a thread, with a signal.
pub fn go_on(thread: Pid, signal: Option<Signal>) -> io::Result<()> {
    let signal = signal.map_or(0, |signal| signal as usize);
    unless_gone(request(libc::PTRACE_CONT, thread, signal as *mut c_void))
}

/// Continues a process and stops tracing it.
pub fn leave(process: Pid) -> io::Result<()> {
    unless_gone(request(libc::PTRACE_DETACH, process, null_mut()))
}

/// The address of the instruction that a thread comes to next.
pub fn instruction(thread: Pid) -> io::Result<u64> {
    Ok(registers(thread)?.rip)
}

/// Continues a thread at another address.
pub fn set_instruction(thread: Pid, address: u64) -> io::Result<()> {
    let mut registers = registers(thread)?;
    registers.rip = address;
    let place = (&raw mut registers).cast();
    request(libc::PTRACE_SETREGS, thread, place)
}

fn registers(thread: Pid) -> io::Result<user_regs_struct> {
    let mut registers = MaybeUninit::<user_regs_struct>::uninit();
    request(libc::PTRACE_GETREGS, thread, registers.as_mut_ptr().cast())?;
    // SAFETY: the kernel initialised all of it, or returned an error.
    Ok(unsafe { registers.assume_init() })
}

/// Ignores the error of a process that was killed in between.
fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        done => done,
    }
}

fn request(what: c_uint, thread: Pid, data: *mut c_void) -> io::Result<()> {
    // SAFETY: of the requests made here, GETREGS writes and SETREGS reads the registers
    // to which `data` points for these two; for all others it is a number.
    let done = unsafe { libc::ptrace(what, thread.as_raw(), null_mut::<c_void>(), data) };
    if done == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Forwards termination signals of this process to the program; an alarm interrupts
/// waiting.
pub fn pass_signals_on(program: Pid) -> nix::Result<()> {
    PROGRAM.store(program.as_raw(), Ordering::Relaxed);
    for (signal, handler) in [
        (Signal::SIGTERM, SigHandler::Handler(pass_on)),
        (Signal::SIGINT, SigHandler::Handler(pass_on)),
        (Signal::SIGALRM, SigHandler::Handler(ring)),
    ] {
        // SAFETY: the handlers only touch atomics and call kill(2).
        unsafe {
            sigaction(
                signal,
                &SigAction::new(handler, SaFlags::empty(), SigSet::empty()),
            )
        }?;
    }
    Ok(())
}

/// Did the alarm go off since this was last asked?
pub fn rung() -> bool {
    RUNG.swap(false, Ordering::Relaxed)
}

extern "C" fn pass_on(signal: c_int) {
    // SAFETY: kill(2) may be called by handlers of signals; the program is a child that
    // was not waited for, so that its number is its own.
    unsafe { libc::kill(PROGRAM.load(Ordering::Relaxed), signal) };
}

extern "C" fn ring(_: c_int) {
    RUNG.store(true, Ordering::Relaxed);
}
