//! Records which functions of a program are called, in which order.
//!
//! There is a breakpoint at the beginning of each function, which is removed when it is
//! hit, so that the program is soon as fast as usual. Calls before the second phase are
//! recorded separately: a working program calls other functions than a starting one.

mod ptrace;

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io,
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use nix::{
    errno::Errno,
    sys::{
        signal::Signal,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, alarm},
};

use super::symbols;
use crate::error::{Error, at, while_doing};

/// The instruction that stops.
const BREAKPOINT: u8 = 0xcc;

/// Runs the program until it ends, and notes its functions' names. Signals that ask this
/// process to end are for the program.
///
/// # Errors
/// When it cannot be started or traced, or the names cannot be written.
pub fn trace(command: &[String], second: Option<u32>, into: &Path) -> Result<(), Error> {
    noted(command, second, into, true)
}

fn noted(command: &[String], second: Option<u32>, into: &Path, signals: bool) -> Result<(), Error> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::State("name a program to trace".to_owned()));
    };
    let path = fs::canonicalize(program).map_err(at(Path::new(program)))?;
    let mut names: HashMap<u64, Vec<String>> = HashMap::new();
    for function in symbols::functions(&path)? {
        names
            .entry(function.address)
            .or_default()
            .push(function.name);
    }
    let mut command = Command::new(&path);
    command.arg0(program).args(arguments);
    let child = ptrace::spawn(&mut command).map_err(at(&path))?;
    if signals {
        ptrace::pass_signals_on(child).map_err(while_doing("forward signals"))?;
    }
    let mut traced = TracedFaults {
        program: child,
        moved: 0,
        covered: HashMap::new(),
        called: Vec::new(),
    };
    traced
        .begin(&path, names.keys().copied())
        .map_err(at(&path))?;
    if let Some(seconds) = second {
        alarm::set(seconds);
    }
    let write = |called: &[u64], path: &Path| {
        let mut text = String::new();
        for name in called.iter().filter_map(|it| names.get(it)).flatten() {
            text.push_str(name);
            text.push('\n');
        }
        fs::write(path, text).map_err(at(path))
    };
    let mut second = second.is_some();
    loop {
        match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
            Ok(status @ (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)))
                if pid == child =>
            {
                write(&traced.called, into)?;
                return match status {
                    WaitStatus::Exited(_, 0) => Ok(()),
                    status => Err(Error::Failed(format!("`{program}` failed: {status:?}"))),
                };
            }
            Ok(status) => traced.goes_on(status).map_err(at(&path))?,
            Err(Errno::EINTR) if ptrace::rung() && second => {
                second = false;
                let mut start = into.as_os_str().to_owned();
                start.push(".start");
                write(&traced.called, Path::new(&start))?;
                traced.again().map_err(at(&path))?;
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(while_doing("wait for the program")(errno)),
        }
    }
}

/// A program with breakpoints.
struct TracedFaults {
    program: Pid,
    /// How far from its own addresses it was loaded.
    moved: u64,
    /// The code under the breakpoints, by the program's own addresses.
    covered: HashMap<u64, u8>,
    /// Functions that were called, by the program's own addresses.
    called: Vec<u64>,
}

// === impl Traced ===

impl TracedFaults {
    /// Sets a breakpoint at each function, once the program is loaded.
    fn begin(&mut self, path: &Path, functions: impl Iterator<Item = u64>) -> io::Result<()> {
        waitpid(self.program, None)?;
        ptrace::follow_all(self.program)?;
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.program))?;
        let path = path.to_string_lossy();
        self.moved = maps
            .lines()
            .find(|line| line.ends_with(&*path))
            .and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok())
            .ok_or_else(|| io::Error::other("its first page is nowhere in memory"))?;
        let memory = memory(self.program)?;
        for address in functions {
            let mut byte = [0];
            // Functions that are not loaded are not called.
            if memory
                .read_exact_at(&mut byte, self.moved + address)
                .is_ok()
            {
                self.covered.insert(address, byte[0]);
            }
        }
        self.again()?;
        ptrace::go_on(self.program, None)
    }

    /// Sets all breakpoints, and forgets who was called.
    fn again(&mut self) -> io::Result<()> {
        let memory = memory(self.program)?;
        for address in self.covered.keys() {
            memory.write_all_at(&[BREAKPOINT], self.moved + address)?;
        }
        self.called.clear();
        Ok(())
    }

    /// Continues a stopped thread; at a breakpoint, without it.
    fn goes_on(&mut self, status: WaitStatus) -> io::Result<()> {
        match status {
            WaitStatus::Stopped(pid, Signal::SIGTRAP) if self.passes(pid)? => {
                ptrace::go_on(pid, None)
            }
            // Thus threads begin, and children.
            WaitStatus::Stopped(pid, Signal::SIGSTOP) => ptrace::go_on(pid, None),
            WaitStatus::Stopped(pid, signal) => ptrace::go_on(pid, Some(signal)),
            WaitStatus::PtraceEvent(pid, _, ptrace::OTHER_PROGRAM) => ptrace::leave(pid),
            WaitStatus::PtraceEvent(pid, ..) => ptrace::go_on(pid, None),
            _ => Ok(()),
        }
    }

    /// Takes away the breakpoint at which a thread stopped, if it did.
    fn passes(&mut self, thread: Pid) -> io::Result<bool> {
        let after = ptrace::instruction(thread)?;
        let address = (after - 1).wrapping_sub(self.moved);
        let Some(byte) = self.covered.get(&address) else {
            return Ok(false);
        };
        // A child has the breakpoints in its own memory.
        let memory = memory(thread)?;
        let mut there = [0];
        memory.read_exact_at(&mut there, after - 1)?;
        if there == [BREAKPOINT] {
            memory.write_all_at(&[*byte], after - 1)?;
            self.called.push(address);
        }
        ptrace::set_instruction(thread, after - 1)?;
        Ok(true)
    }
}

fn memory(thread: Pid) -> io::Result<fs::File> {
    let path = format!("/proc/{thread}/mem");
    OpenOptions::new().read(true).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_a_program_calls_are_noted_once() {
        let folder = tempfile::tempdir().unwrap();
        let this = std::env::current_exe().unwrap().display().to_string();
        let into = folder.path().join("called");
        noted(&[this, "--list".to_owned()], None, &into, false).unwrap();
        let called = fs::read_to_string(into).unwrap();
        let called: Vec<_> = called.lines().collect();
        assert!(called.contains(&"main"), "{called:?}");
        let own = "functions_that_a_program_calls_are_noted_once";
        assert!(!called.iter().any(|name| name.ends_with(own)));
    }

    #[test]
    fn a_program_that_fails_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let this = std::env::current_exe().unwrap().display().to_string();
        let command = [this, "--no-such-option".to_owned()];
        let error = noted(&command, None, &folder.path().join("called"), false);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(&command[0]), "{error}");
    }
}
