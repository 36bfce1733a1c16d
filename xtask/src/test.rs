//! `cargo xtask test`: everything that must hold before a change lands.

use clap::Args;

use crate::{
    build,
    error::Error,
    images,
    run::{Step, cargo, run, say},
    setup,
};

/// Which tests.
#[derive(Args)]
pub struct Options {
    /// Leave out the tests that bring clusters up (crate `tests`).
    #[arg(long)]
    no_cluster: bool,
    /// Run only tests whose names contain this.
    filter: Option<String>,
}

/// Runs the checks and tests in the order in which they fail fastest.
///
/// # Errors
/// The first check or test that fails; cargo has printed why.
pub fn test(options: &Options) -> Result<(), Error> {
    setup::setup()?;
    let step = Step::begin("format");
    run(cargo().args(["fmt", "--check"]))?;
    step.done();
    build::build()?;
    let step = Step::begin("images");
    images::build()?;
    step.done();
    say("lints");
    run(cargo().args([
        "clippy",
        "--quiet",
        "--release",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    say("unit, property, differential and namespace tests");
    // With the release profile: the dependencies are those of the binaries,
    // compiled once.
    let mut command = cargo();
    command.args([
        "test",
        "--release",
        "--exclude",
        "tests",
        "--exclude",
        "ebpf-programs",
    ]);
    command.args(["--workspace"]);
    run(command.args(&options.filter))?;
    if !options.no_cluster {
        say("tests with clusters");
        let mut command = cargo();
        command.args(["test", "--release", "--package", "tests"]);
        // One cluster at a time: they share two cores with what they measure.
        run(command
            .args(&options.filter)
            .args(["--", "--test-threads", "1"]))?;
    }
    Ok(())
}
