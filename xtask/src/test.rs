//! `cargo xtask test`: everything that must hold before a change lands.

use clap::Args;

use crate::{
    build,
    error::Error,
    generate, oracle,
    run::{Step, cargo, run, say},
    setup, supply_chain,
};

/// Which tests.
#[derive(Args)]
pub struct Options {
    /// Run only tests whose names contain this.
    filter: Option<String>,
    /// Where property tests begin. The same cases each time unless another number is
    /// given: a change is to be judged by what it changes. Try others now and then.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the checks and tests in the order in which they fail fastest.
///
/// # Errors
/// The first check or test that fails; cargo has printed why.
pub fn test(options: &Options) -> Result<(), Error> {
    setup::setup_for_tests()?;
    let step = Step::begin("format");
    run(cargo().args(["fmt", "--check"]))?;
    step.done();
    say("what is built in");
    supply_chain::check()?;
    build::build()?;
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
    say("tables of the API, as published");
    match generate::run(true) {
        Err(Error::Missing { what, how }) => say(format!("skipped: {what} is missing ({how})")),
        result => result?,
    }
    say("unit, property, differential and namespace tests");
    let mut command = cargo();
    command.args([
        "test",
        "--workspace",
        // One run tells all that is broken.
        "--no-fail-fast",
        "--exclude",
        "ebpf-programs",
        "--exclude",
        "tests",
    ]);
    command.env("PROPTEST_RNG_SEED", options.seed.to_string());
    run(command.args(&options.filter))?;
    if options.filter.is_none() {
        say("answers of the API server, beside a stock one's");
        oracle::oracle(&oracle::Options::default())?;
    }
    say("tests with clusters of test hosts");
    run(cargo()
        .args(["test", "--package", "tests"])
        .args(&options.filter))?;
    Ok(())
}
