//! cargo-machete: finds dependencies that a crate names and does not use.

use crate::{
    ebpf::tools,
    error::Error,
    run::{cargo, print_step, run, workspace},
};

const VERSION: &str = "0.9.2";

/// Installs it into cargo's home; does nothing where it is there.
///
/// # Errors
/// When it cannot be installed.
pub fn install() -> Result<(), Error> {
    if tools().join("bin/cargo-machete").is_file() {
        return Ok(());
    }
    print_step("cargo-machete is built from its package (about a minute)");
    run(cargo()
        .args(["install", "cargo-machete", "--locked", "--version", VERSION])
        .arg("--root")
        .arg(tools()))
}

/// Fails on dependencies that no source file of their crate uses.
///
/// # Errors
/// When there are such, or it cannot be started.
pub fn check() -> Result<(), Error> {
    run(
        std::process::Command::new(tools().join("bin/cargo-machete"))
            .arg("--skip-target-dir")
            .current_dir(workspace()),
    )
}
