//! Network namespaces of test hosts and pods, and programs that are run there.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, ensure};

/// The network namespace of a process.
pub fn of(process: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/ns/net"))
}

/// A program that is to run in a network namespace.
pub fn command(network: &Path, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net={}", network.display()))
        .args(["--", program]);
    command
}

/// What a program prints in a network namespace; its words are separated by spaces.
///
/// # Errors
/// What it prints as its error.
pub fn inside(network: &Path, line: &str) -> Result<String, Failure> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let output = command(network, program).args(words).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success(), format!("{line}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
