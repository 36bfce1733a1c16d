//! `cargo xtask test`: everything that must hold before a change lands.

use std::{
    fmt,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use clap::Args;

use crate::{
    differential, drill, ebpf,
    error::Error,
    generate, go, machete, oracle, previous,
    results::Results,
    run::{Step, cargo, print_step, run, target, workspace},
    setup, supply_chain, vm,
};

/// Packages with tests. All are built and run in one go: another selection of packages has
/// other features, and would compile most dependencies again.
const PACKAGES: [&str; 3] = ["--workspace", "--exclude", "ebpf-programs"];

/// Tests to run.
#[derive(Args)]
pub struct Options {
    /// Run only tests whose names contain this.
    filter: Option<String>,
    /// Seed of property tests. The same cases are used each time unless another number is
    /// given, so that a change is judged by its own effects. Try others now and then.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder of the programs that clusters of test hosts run, such as `target/release`.
    /// Without it, they run those that `cargo test` builds, without optimisation but with
    /// checks of overflows, so that nothing is compiled twice.
    #[arg(long, env = "ORLOP_PROGRAMS")]
    programs: Option<PathBuf>,
    /// Tag or commit of the previous release, which is built first: upgrades in tests begin from
    /// it. Without it, they begin from another copy of what is tested.
    #[arg(long, value_name = "COMMIT")]
    previous: Option<String>,
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
    let mut parts = Parts::default();
    let mut previous_program = None;
    parts.run("what tests need", setup::setup_for_tests)?;
    parts.run("format", || run(cargo().args(["fmt", "--check"])))?;
    parts.run("what is built in", supply_chain::check)?;
    parts.run("unused dependencies", machete::check)?;
    if let Some(commit) = &options.previous {
        parts.run("the previous release", || {
            previous_program = Some(previous::build(commit)?);
            Ok(())
        })?;
    }
    let step = Step::begin("eBPF programs");
    ebpf::build(&workspace(), &workspace().join(ebpf::OBJECT))?;
    step.done();
    parts.run("lints", || {
        run(cargo().args(["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"]))
    })?;
    parts.run("documentation", || {
        run(cargo()
            .args(["doc", "--quiet", "--no-deps"])
            .args(PACKAGES)
            .env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    parts.run("tables of the API, as published", || {
        match generate::run(true) {
            Err(Error::Missing { what, how }) => {
                results.skip(
                    "tables of the API, as published",
                    format!("{what} is missing ({how})"),
                );
                Ok(())
            }
            result => result,
        }
    })?;
    parts.run("tests are built", || {
        run(tests(options).args(PACKAGES).args(["--quiet", "--no-run"]))
    })?;
    let tested = parts.run(
        "unit, property, differential and namespace tests, and those with clusters of test hosts",
        || {
            let mut tests = tests(options);
            if let Some(program) = &previous_program {
                tests.env(previous::VARIABLE, program);
            }
            results.run(
                tests
                    .args(PACKAGES)
                    .arg("--no-fail-fast")
                    .args(&options.filter),
            )
        },
    );
    if options.filter.is_some() {
        return tested;
    }
    // One run tells all that is broken. The programs of what follows are built by now.
    let outcomes = [
        tested,
        parts.run("the datapath on other kernels", || {
            vm::short::run_among_tests(&PACKAGES, results)
        }),
        parts.run(
            "answers of the API server, beside a stock one's",
            oracle::run_among_tests,
        ),
        parts.run("decisions, beside a stock scheduler's", || {
            differential::run_among_tests(results)
        }),
        parts.run("faults, on a cluster of test hosts", || {
            let mut drill = drill::short();
            drill.env("ORLOP_PROGRAMS", programs(options));
            go::name_programs(&mut drill);
            results.run_program("drill", &mut drill)
        }),
    ];
    println!("\n{parts}");
    for error in outcomes.iter().filter_map(|it| it.as_ref().err()) {
        print_step(format!("failed: {}", error.chain()));
    }
    outcomes.into_iter().collect()
}

/// The parts of a run, with the time that each took.
#[derive(Default)]
struct Parts(Vec<(&'static str, Duration)>);

impl Parts {
    fn run(
        &mut self,
        what: &'static str,
        part: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        print_step(what);
        let began = Instant::now();
        let outcome = part();
        self.0.push((what, began.elapsed()));
        outcome
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, took) in &self.0 {
            writeln!(f, "{:>7.1} s  {what}", took.as_secs_f64())?;
        }
        let all: Duration = self.0.iter().map(|(_, took)| *took).sum();
        writeln!(f, "{:>7.1} s  all", all.as_secs_f64())
    }
}

/// Where the programs are that clusters of test hosts run.
fn programs(options: &Options) -> PathBuf {
    let built = || target().join("debug");
    options.programs.clone().unwrap_or_else(built)
}

/// `cargo test` with the environment that tests read.
fn tests(options: &Options) -> Command {
    let mut command = cargo();
    command
        .arg("test")
        .env("PROPTEST_RNG_SEED", options.seed.to_string())
        .env("ORLOP_PROGRAMS", programs(options));
    go::name_programs(&mut command);
    command
}
