//! `cargo xtask drill`: faults that operators encounter, one after the other, on a
//! cluster of test hosts; their visible effects, and the recovery of the cluster.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use clap::Args;

use crate::{
    build,
    cluster::{Cluster, node::no_cluster},
    error::Error,
    run::{cargo, run, target},
    setup,
};

/// Faults and cluster.
#[derive(Args, Default)]
pub struct Options {
    /// Only scenarios whose names contain this; `list` prints all.
    name: Option<String>,
    /// Folder of a running cluster of test hosts with two nodes or more; for `servers`, with
    /// three servers. Without it, one is brought up below target and taken down afterwards.
    #[arg(long)]
    state: Option<PathBuf>,
    /// Shorter outages, and only the scenarios that CI runs.
    #[arg(long)]
    pub short: bool,
    /// Cycles of the scenario `servers`.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    cycles: Option<u64>,
    /// Seed of the first cycle of the scenario `servers`; the next has the next.
    #[arg(long)]
    seed: Option<u64>,
    /// Folder of the programs for a new cluster, instead of building them.
    #[arg(long, conflicts_with = "state")]
    programs: Option<PathBuf>,
}

/// The command of the drill's short form, of the program that `cargo test` has built without
/// optimisation.
pub fn short() -> Command {
    let mut command = Command::new(target().join("debug/drill"));
    command.arg("--short").stdin(Stdio::null());
    command
}

/// Builds the program that runs scenarios.
fn program() -> Result<Command, Error> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--package", "tests"]);
    run(build.args(["--bin", "drill"]))?;
    let mut command = Command::new(target().join("release/drill"));
    command.stdin(Stdio::null());
    Ok(command)
}

/// Runs the scenarios; prints a table for each, and last how many passed.
///
/// # Errors
/// When the programs cannot be built, or a scenario fails.
pub fn drill(options: &Options) -> Result<(), Error> {
    if let Some(state) = &options.state
        && Cluster::load(state)?.is_none()
    {
        return Err(no_cluster(state));
    }
    setup::setup_for_tests()?;
    if options.programs.is_none() && options.state.is_none() {
        build::build(build::Profile::Release)?;
    }
    crate::images::build()?;
    let mut command = program()?;
    command.args(&options.name);
    if let Some(state) = &options.state {
        command.arg("--state").arg(state);
    }
    if let Some(programs) = &options.programs {
        command.env("ORLOP_PROGRAMS", programs);
    }
    for (option, value) in [("--cycles", options.cycles), ("--seed", options.seed)] {
        if let Some(value) = value {
            command.args([option, &value.to_string()]);
        }
    }
    if options.short {
        command.arg("--short");
    }
    run(&mut command)
}
