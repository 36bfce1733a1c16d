//! `cargo xtask bench`: the figures of docs/performance.md.

use clap::Args;

use crate::{
    build,
    error::Error,
    run::{cargo, print_step, run},
    setup,
};

/// Figures to measure.
#[derive(Args)]
pub struct Options {
    /// Only the benches of this package (`control-apiserver`, `tests`, …).
    package: Option<String>,
}

/// The packages with benches: hot paths first, then whole programs.
const PACKAGES: &[&str] = &[
    "control-types",
    "control-store",
    "control-access",
    "control-apiserver",
    "control-client",
    "control-scheduler",
    "node-agent-plan",
    "node-agent-datapath",
    "csi",
    "tests",
];

/// Runs the benches; each prints its figures with their units.
///
/// # Errors
/// When a bench does not build or fails.
pub fn bench(options: &Options) -> Result<(), Error> {
    setup::setup()?;
    build::build(build::Profile::Release)?;
    crate::images::build()?;
    for package in PACKAGES {
        if options
            .package
            .as_deref()
            .is_none_or(|only| only == *package)
        {
            print_step(format!("benches of {package}"));
            run(cargo().args(["bench", "--package", package, "--benches"]))?;
        }
    }
    Ok(())
}
