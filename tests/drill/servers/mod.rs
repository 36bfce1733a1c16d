//! `drill servers`: cycles of faults of three servers with three members of etcd, under clients
//! whose history is checked.
//!
//! In each cycle, clients of each server and of all together read and write registers, one fault
//! comes and goes, every server gets well, and then must hold: the history of each register is
//! linearizable, also as seen through a server that was cut off; watches through each server told
//! every change once and in order, over all cycles; no ordinal of a StatefulSet had two pods at a
//! time, and no Job ran twice.

mod faults;
mod loops;
mod plan;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tests::{Cluster, Failure, ensure, load::Load, logs, report::Skip};

use self::{
    faults::{Disks, Faults},
    loops::Loops,
    plan::{Cycle, SERVERS},
};

/// The name by which the cycles are asked for.
pub const NAME: &str = "servers";
/// What they are, for people.
pub const FAULT: &str = "three servers lose packets, processes, disks, time and machines";
/// Cycles unless a number is given, and with `--short`.
pub const CYCLES: u64 = 100;
/// Cycles of CI.
pub const SHORT: u64 = 20;
/// The first seed of CI.
pub const SHORT_SEED: u64 = 1;

/// How long clients work before the fault.
const BEFORE: Duration = Duration::from_millis(300);

/// How many cycles, from which seed on.
#[derive(Clone, Copy)]
pub struct Options {
    /// The number of cycles.
    pub cycles: u64,
    /// The seed of the first; each further one has the next.
    pub seed: u64,
}

/// A seed that differs from run to run.
pub fn any_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs() % 1_000_000 * 1000)
}

/// Runs the cycles on a cluster that runs in `state`, or on one of their own in `own`.
///
/// # Errors
/// The cycles that failed, or a cluster that cannot be brought up.
pub fn run(state: Option<&Path>, own: &Path, options: Options) -> Result<(), Failure> {
    if let Some(state) = state {
        return cycles(&Cluster::running(state)?, false, options);
    }
    let disks = Disks::mount(own)?;
    let cluster = Cluster::up_with(own, 1, &["--no-demo", "--servers", "3"])?;
    let result = cycles(&cluster, true, options);
    if result.is_err() {
        print!("{}", logs::last(&cluster.dir, "etcd"));
    }
    drop(disks);
    cluster.down()?;
    result
}

fn cycles(cluster: &Cluster, has_disks: bool, options: Options) -> Result<(), Failure> {
    let Options { cycles, seed } = options;
    let servers = SERVERS.iter().map(|server| {
        let kubeconfig = cluster.kubeconfig_of_server(*server);
        (format!("server-{server}"), kubeconfig)
    });
    let everyone: Vec<(String, PathBuf)> = [("all servers".to_owned(), cluster.kubeconfig())]
        .into_iter()
        .chain(servers)
        .collect();
    ensure(
        everyone.iter().all(|(_, path)| path.exists()),
        "the cluster has not three servers: bring it up with `--servers 3`",
    )?;
    println!("{cycles} cycles from seed {seed}; `--seed N --cycles 1` repeats the one of seed N");
    let faults = Faults::new(cluster, has_disks);
    let mut load = Load::start(&everyone, "drill-servers")?;
    load.all_are_ready()?;
    let mut loops = Loops::start(cluster)?;
    let mut failed = Vec::new();
    let mut operations = 0;
    for seed in seed..seed + cycles {
        let began = Instant::now();
        let cycle = plan::cycle(seed);
        let outcome = one(&mut load, &mut loops, &faults, cycle);
        let took = began.elapsed().as_secs_f64();
        match outcome {
            Ok(said) => {
                operations += said.operations;
                println!(
                    "seed {seed}: {}: {} operations, {} of unknown fate, longest {:.1?}, {} \
                     watched; all well {:.1} s after it ({took:.1} s)",
                    cycle.fault,
                    said.operations,
                    said.unknown,
                    said.longest,
                    said.watched,
                    said.healing.as_secs_f64()
                );
            }
            Err(error) if error.downcast_ref::<Skip>().is_some() => {
                println!("seed {seed}: {}: skipped: {error}", cycle.fault);
            }
            Err(error) => {
                println!(
                    "seed {seed}: {}: FAILED ({took:.1} s): {error}",
                    cycle.fault
                );
                failed.push(seed);
                // Of a cluster that is not well, further cycles tell nothing.
                load.all_are_ready()?;
            }
        }
    }
    loops.end()?;
    println!("{operations} operations in {cycles} cycles");
    ensure(
        failed.is_empty(),
        format!(
            "{} of {cycles} cycles failed, of seeds {failed:?}",
            failed.len()
        ),
    )
}

/// What a cycle was like.
struct Said {
    operations: usize,
    unknown: usize,
    watched: usize,
    longest: Duration,
    healing: Duration,
}

fn one(
    load: &mut Load,
    loops: &mut Loops<'_>,
    faults: &Faults<'_>,
    cycle: Cycle,
) -> Result<Said, Failure> {
    let round = load.begin(1)?;
    loops.begin()?;
    std::thread::sleep(BEFORE);
    let fault = faults.cycle(cycle, load);
    let undone = Instant::now();
    let ready = match &fault {
        Ok(()) => load.all_are_ready(),
        Err(_) => Ok(()),
    };
    let healing = undone.elapsed();
    let outcome = load.end(round);
    fault?;
    ready?;
    let outcome = outcome?;
    outcome.check_history()?;
    outcome.check_watches()?;
    loops.check()?;
    Ok(Said {
        operations: outcome.operations(),
        unknown: outcome.unknown(),
        watched: outcome.watched(),
        longest: outcome.percentile(100),
        healing,
    })
}
