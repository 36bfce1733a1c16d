//! `cargo xtask differential`: our parts beside the stock ones that they replace, on random
//! objects. What is compared, and how, is in `tests/differential`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::{Args, Subcommand};

use crate::{
    error::Error,
    go,
    results::Results,
    run::{cargo, run, say, target},
};

/// What is compared.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// The scheduler with a stock kube-scheduler: which nodes each pod fits, their scores, the
    /// choice, why a pod fits nowhere, and preemption. Prints last how many decisions agree.
    Scheduler(Scheduler),
    /// The controllers with a stock kube-controller-manager: the objects and events that both
    /// leave. Prints last how many cases agree.
    Controllers(Controllers),
}

#[derive(Args)]
struct Controllers {
    /// A stock kube-controller-manager 1.36; without it, the one that `setup --for-tests` built.
    #[arg(long, value_name = "KUBE_CONTROLLER_MANAGER")]
    peer: Option<PathBuf>,
    /// The first case's seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many cases, each with the next seed.
    #[arg(long, default_value_t = 32)]
    cases: u64,
    /// Only cases of this family, such as `deployment`.
    #[arg(long)]
    family: Option<String>,
    /// Print what each case does.
    #[arg(long)]
    verbose: bool,
    /// Build without optimisation, which is faster to build and slower to run.
    #[arg(long)]
    dev: bool,
}

#[derive(Args)]
struct Scheduler {
    /// A stock kube-scheduler 1.36; without it, the one that `setup --for-tests` built.
    #[arg(long, value_name = "KUBE_SCHEDULER")]
    peer: Option<PathBuf>,
    /// The first case's seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many cases, each with the next seed.
    #[arg(long, default_value_t = 40)]
    cases: u64,
    /// What all cases are about (such as `volumes`); drawn for each unless given.
    #[arg(long)]
    about: Option<String>,
    /// What no case has (such as `devices`). Repeatable.
    #[arg(long)]
    without: Vec<String>,
    /// Build without optimisation, which is faster to build and slower to run.
    #[arg(long)]
    dev: bool,
}

/// The short form among the tests: its first seed, how many cases, and after how many seconds
/// none begins.
const SHORT_SEED: u64 = 1;
const SHORT_CASES: u64 = 12;
const SHORT_SECONDS: u64 = 60;

/// Runs it.
///
/// # Errors
/// When something cannot be built or started, or when a decision differs.
pub fn differential(options: &Options) -> Result<(), Error> {
    match &options.part {
        Part::Scheduler(options) => {
            let mut command = command(
                "scheduler",
                &peer(options.peer.as_deref(), "kube-scheduler")?,
                options.dev,
            )?;
            command
                .args(["--seed", &options.seed.to_string()])
                .args(["--cases", &options.cases.to_string()]);
            if let Some(about) = &options.about {
                command.args(["--about", about]);
            }
            for without in &options.without {
                command.args(["--without", without]);
            }
            run(&mut command)
        }
        Part::Controllers(options) => {
            let name = "kube-controller-manager";
            let peer = peer(options.peer.as_deref(), name)?;
            let mut command = command("controllers", &peer, options.dev)?;
            command
                .args(["--seed", &options.seed.to_string()])
                .args(["--cases", &options.cases.to_string()]);
            if let Some(family) = &options.family {
                command.args(["--family", family]);
            }
            if options.verbose {
                command.arg("--verbose");
            }
            run(&mut command)
        }
    }
}

/// The stock program: the one that is named, or the one of this machine.
fn peer(named: Option<&Path>, program: &str) -> Result<PathBuf, Error> {
    named
        .map(Path::to_owned)
        .or_else(|| go::program(program))
        .ok_or_else(|| missing(program))
}

/// The short form, one of the tests; skipped where there is no stock kube-scheduler.
///
/// # Errors
/// When a decision differs.
pub fn run_among_tests(results: &mut Results) -> Result<(), Error> {
    const NAME: &str = "decisions of the scheduler, beside a stock one's";
    say(NAME);
    let Some(peer) = go::program("kube-scheduler") else {
        results.skip(NAME, missing("kube-scheduler").to_string());
        return Ok(());
    };
    // `cargo test` has built the programs, without optimisation.
    let mut command = built("scheduler", &peer, &target().join("debug"));
    command
        .args(["--seed", &SHORT_SEED.to_string()])
        .args(["--cases", &SHORT_CASES.to_string()])
        .args(["--within", &SHORT_SECONDS.to_string()]);
    run(&mut command)
}

fn missing(program: &str) -> Error {
    Error::Missing {
        what: format!("a stock {program}"),
        how: "name one with --peer, or let `cargo xtask setup --for-tests` build it where Go \
              is installed"
            .to_owned(),
    }
}

/// Builds the programs; returns the command that compares a part.
fn command(part: &str, peer: &Path, dev: bool) -> Result<Command, Error> {
    let profile: &[&str] = if dev { &[] } else { &["--release"] };
    let build = |what: &[&str]| run(cargo().args(["build", "--quiet"]).args(profile).args(what));
    build(&["--package", "control-apiserver", "--example", "apiserver"])?;
    build(&["--package", "tests", "--bin", "differential"])?;
    let programs = target().join(if dev { "debug" } else { "release" });
    Ok(built(part, peer, &programs))
}

/// The command that compares a part with the programs of a folder.
fn built(part: &str, peer: &Path, programs: &Path) -> Command {
    let mut command = Command::new(programs.join("differential"));
    command
        .arg(part)
        .arg("--peer")
        .arg(peer)
        .arg("--apiserver")
        .arg(programs.join("examples/apiserver"))
        .stdin(Stdio::null());
    command
}
