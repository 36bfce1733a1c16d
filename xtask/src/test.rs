//! `cargo xtask test`: everything that must hold before a change lands.

use std::process::Command;

use clap::Args;

use crate::{
    build, differential, drill,
    error::Error,
    generate, go, machete, oracle,
    results::Results,
    run::{Step, cargo, run, say},
    setup, supply_chain, vm,
};

/// Packages with tests. All are built and run in one go: another selection of packages has
/// other features, and would compile most dependencies again.
const PACKAGES: [&str; 3] = ["--workspace", "--exclude", "ebpf-programs"];

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

/// Runs the checks and tests in the order in which they fail fastest. The last lines name
/// each skipped test with what it lacks, and count all.
///
/// # Errors
/// The first check or test that fails; cargo has printed why.
pub fn test(options: &Options) -> Result<(), Error> {
    let mut results = Results::default();
    let outcome = check(options, &mut results);
    println!("\n{results}");
    outcome
}

fn check(options: &Options, results: &mut Results) -> Result<(), Error> {
    setup::setup_for_tests()?;
    let step = Step::begin("format");
    run(cargo().args(["fmt", "--check"]))?;
    step.done();
    say("what is built in");
    supply_chain::check()?;
    say("unused dependencies");
    machete::check()?;
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
        Err(Error::Missing { what, how }) => {
            results.skip(
                "tables of the API, as published",
                format!("{what} is missing ({how})"),
            );
        }
        result => result?,
    }
    say("unit, property, differential and namespace tests, and those with clusters of test hosts");
    let tested = results.run(
        tests(options)
            .args(PACKAGES)
            .arg("--no-fail-fast")
            .args(&options.filter),
    );
    if options.filter.is_some() {
        return tested;
    }
    // One run tells all that is broken. The programs of what follows are built by now.
    say("the datapath on other kernels");
    let on_kernels = vm::short::run_among_tests(&PACKAGES, results);
    say("answers of the API server, beside a stock one's");
    let answers = oracle::run_among_tests();
    let decisions = differential::run_among_tests(results);
    say("faults, on a cluster of test hosts");
    let mut drill = drill::short();
    go::name_programs(&mut drill);
    let drilled = results.run_program("drill", &mut drill);
    let outcomes = [tested, on_kernels, answers, decisions, drilled];
    for error in outcomes.iter().filter_map(|it| it.as_ref().err()) {
        say(format!("failed: {error}"));
    }
    outcomes.into_iter().collect()
}

/// `cargo test` with the environment that tests read.
fn tests(options: &Options) -> Command {
    let mut command = cargo();
    command
        .arg("test")
        .env("PROPTEST_RNG_SEED", options.seed.to_string());
    go::name_programs(&mut command);
    command
}
