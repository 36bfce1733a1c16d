//! `cargo xtask differential`: compares our parts with the stock ones that they replace,
//! on random objects. `tests/differential` defines the comparisons.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::{Args, Subcommand};

use crate::{
    error::Error,
    go,
    results::Results,
    run::{cargo, print_step, run, target, which},
};

/// What to compare.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    part: DifferentialPart,
}

#[derive(Subcommand)]
enum DifferentialPart {
    /// The scheduler with a stock kube-scheduler: which nodes each pod fits, their scores, the
    /// choice, why a pod fits nowhere, and preemption. Prints last how many decisions agree.
    Scheduler(Scheduler),
    /// Compare the scheduler with a stock kube-scheduler on a stock kube-apiserver that
    /// serves PodGroups: which gangs are bound, and the messages about the others. Prints
    /// last how many scenarios agree.
    Gangs(Gangs),
    /// The controllers with a stock kube-controller-manager: the objects and events that both
    /// leave. Prints last how many cases agree.
    Controllers(Controllers),
}

#[derive(Args)]
struct Gangs {
    /// A stock kube-scheduler 1.36; without it, the one that `setup --for-tests` built.
    #[arg(long, value_name = "KUBE_SCHEDULER")]
    peer: Option<PathBuf>,
    /// Only the scenarios whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Print what becomes of each scenario.
    #[arg(long)]
    verbose: bool,
    /// Build without optimisation, which is faster to build and slower to run.
    #[arg(long)]
    dev: bool,
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
    /// Print the steps of each case.
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
    /// Subject of all cases (such as `volumes`); random for each unless given.
    #[arg(long)]
    about: Option<String>,
    /// Subject that no case has (such as `devices`). Repeatable.
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
        DifferentialPart::Scheduler(options) => {
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
        DifferentialPart::Gangs(options) => {
            let programs = stock_programs(options.peer.as_deref())?;
            let folder = build_differential(options.dev)?;
            let mut command = gangs(&programs, &folder);
            if let Some(only) = &options.only {
                command.args(["--only", only]);
            }
            if options.verbose {
                command.arg("--verbose");
            }
            run(&mut command)
        }
        DifferentialPart::Controllers(options) => {
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

/// A stock kube-scheduler and kube-apiserver, and etcd.
fn stock_programs(peer: Option<&Path>) -> Result<[PathBuf; 3], Error> {
    let apiserver = go::program("kube-apiserver").ok_or_else(|| missing("kube-apiserver"))?;
    let etcd = which("etcd").ok_or_else(|| Error::Missing {
        what: "`etcd` on the PATH".to_owned(),
        how: "install Debian's `etcd-server`".to_owned(),
    })?;
    Ok([self::peer(peer, "kube-scheduler")?, apiserver, etcd])
}

/// The command that compares what becomes of gangs.
fn gangs(programs: &[PathBuf; 3], folder: &Path) -> Command {
    let [peer, apiserver, etcd] = programs;
    let mut command = Command::new(folder.join("differential"));
    command.arg("gangs").stdin(Stdio::null());
    for (option, program) in [
        ("--peer", peer),
        ("--apiserver", apiserver),
        ("--etcd", etcd),
    ] {
        command.arg(option).arg(program);
    }
    command
}

/// The stock program: the one that is named, or the one of this machine.
fn peer(named: Option<&Path>, program: &str) -> Result<PathBuf, Error> {
    named
        .map(Path::to_owned)
        .or_else(|| go::program(program))
        .ok_or_else(|| missing(program))
}

/// Runs the short form, one of the tests; skipped without a stock kube-scheduler.
///
/// # Errors
/// When a decision differs.
pub fn run_among_tests(results: &mut Results) -> Result<(), Error> {
    const NAME: &str = "decisions of the scheduler, beside a stock one's";
    print_step(NAME);
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
    build(
        dev,
        &["--package", "control-apiserver", "--example", "apiserver"],
    )?;
    Ok(built(part, peer, &build_differential(dev)?))
}

fn build(dev: bool, what: &[&str]) -> Result<(), Error> {
    let profile: &[&str] = if dev { &[] } else { &["--release"] };
    run(cargo().args(["build", "--quiet"]).args(profile).args(what))
}

/// Builds the program that compares; returns its folder.
fn build_differential(dev: bool) -> Result<PathBuf, Error> {
    build(dev, &["--package", "tests", "--bin", "differential"])?;
    Ok(target().join(if dev { "debug" } else { "release" }))
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
