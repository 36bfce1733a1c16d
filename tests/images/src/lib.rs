//! What the programs of emulated machines share: they run others, and wait long, since
//! everything is slow there, but for what the API or the kernel says, never for a time.

use std::{
    error::Error,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Why a check failed.
pub type Failure = Box<dyn Error>;

const PATIENCE: Duration = Duration::from_secs(240);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Runs a program and returns its output.
///
/// # Errors
/// When it cannot be started or fails; the error contains what it printed as such.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program)
        .args(arguments)
        .env("HOME", "/root")
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), said.trim()).into())
}

/// Repeats a check until it passes.
///
/// # Errors
/// The check's last error once patience has run out.
pub fn eventually(what: &str, mut is: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let Err(error) = is() else { return Ok(()) };
        if started.elapsed() > PATIENCE {
            return Err(format!("waited for {what}: {error}").into());
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Returns an error with this text unless the condition holds.
///
/// # Errors
/// The text.
pub fn ensure(is: bool, otherwise: impl Into<String>) -> Result<(), Failure> {
    if is {
        Ok(())
    } else {
        Err(otherwise.into().into())
    }
}
