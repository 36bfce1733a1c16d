//! Holds our parts against the stock ones that they replace, on random objects.
//!
//! ```text
//! differential scheduler --peer KUBE_SCHEDULER --apiserver PROGRAM [--seed N] [--cases M]
//! differential controllers --peer KUBE_CONTROLLER_MANAGER --apiserver PROGRAM [--seed N] …
//! differential gangs --peer KUBE_SCHEDULER --apiserver KUBE_APISERVER --etcd ETCD
//! ```
//!
//! The controllers are compared by the objects that they leave ([`controllers`]), gangs by
//! what becomes of them ([`gangs`]), the scheduler as follows.
//!
//! A case is a small cluster and the pods that come to it, made from a seed. Both schedulers
//! get the same objects: stock through an API server that is alone with it, ours as a library
//! on what that API server answered. Pods come one after the other, and where stock places a
//! pod it is for ours, too. What stock logs about a decision must be what ours explains: the
//! nodes that the pod fits, their scores, the message for a pod that fits nowhere, the node
//! on which room is made and the pods that go. Among nodes with the best score, either may
//! take any.
//!
//! A difference is printed with the seed of its case (`--seed N --cases 1` runs it alone), and
//! with the smallest cluster that still shows it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

mod case;
mod compare;
mod controllers;
mod gangs;
mod generate;
mod loops;
mod ours;
mod process;
mod shrink;
mod stage;
mod stock;
mod stock_log;
mod volumes;

use crate::loops::OurScheduler;
use crate::process::{ApiServer, StockScheduler};
use crate::stage::Stage;

/// What went wrong, so that nothing can be compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or program of the machine cannot be used.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The API server refuses a request.
    #[error("the API server refuses a request")]
    Api(#[from] control_client::Error),
    /// An object is not what our scheduler reads.
    #[error(transparent)]
    Objects(#[from] control_scheduler::objects::Error),
    /// A pattern for what two runs cannot have in common.
    #[error("a pattern is wrong")]
    Pattern(#[from] regex::Error),
    /// A program does not do what it must.
    #[error("{0}")]
    Program(String),
    /// Somebody ends the comparison.
    #[error("interrupted by a signal")]
    Interrupted,
}

#[derive(Parser)]
#[command(about = "Holds our parts against the stock ones that they replace")]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// The scheduler.
    Scheduler(Options),
    /// The controllers.
    Controllers(controllers::Options),
    /// The scheduler with PodGroups.
    Gangs(gangs::Options),
}

/// What is compared.
#[derive(clap::Args)]
struct Options {
    /// The stock kube-scheduler.
    #[arg(long, value_name = "KUBE_SCHEDULER")]
    peer: PathBuf,
    /// The API server: started with a folder and a port, it writes `admin.kubeconfig`.
    #[arg(long, value_name = "PROGRAM")]
    apiserver: PathBuf,
    /// The first case's seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many cases, each with the next seed.
    #[arg(long, default_value_t = 20)]
    cases: u64,
    /// What all cases are about; drawn for each unless given.
    #[arg(long, value_enum)]
    about: Option<generate::Constraint>,
    /// What no case has. Repeatable.
    #[arg(long, value_enum)]
    without: Vec<generate::Constraint>,
    /// Begin no case after this many seconds.
    #[arg(long)]
    within: Option<u64>,
    /// For how many differences the smallest cluster is looked for.
    #[arg(long, default_value_t = 5)]
    shrink: usize,
    /// Print what each case is.
    #[arg(long)]
    verbose: bool,
}

/// In every fourth case our scheduler also places pods through the API.
const THROUGH_API: u64 = 4;

/// How many decisions were compared.
#[derive(Default)]
struct Counts {
    agree: usize,
    differ: usize,
}

fn main() -> ExitCode {
    let part = Arguments::parse().part;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let done = runtime
        .map_err(|source| Error::Io {
            what: "starting threads",
            source,
        })
        .and_then(|runtime| runtime.block_on(compare(&part)));
    match done {
        Ok(counts) => {
            println!("{} agree, {} differ", counts.agree, counts.differ);
            if counts.differ == 0 && counts.agree > 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("differential: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn compare(part: &Part) -> Result<Counts, Error> {
    let signals = |source| Error::Io {
        what: "listening to signals",
        source,
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let compared = async {
        match part {
            Part::Scheduler(options) => scheduler(options).await,
            Part::Controllers(options) => controllers::run(options).await,
            Part::Gangs(options) => gangs::run(options).await,
        }
    };
    // Dropping the comparison ends the programs that it started.
    tokio::select! {
        counts = compared => counts,
        _ = terminate.recv() => Err(Error::Interrupted),
        _ = interrupt.recv() => Err(Error::Interrupted),
    }
}

async fn scheduler(options: &Options) -> Result<Counts, Error> {
    let server = ApiServer::start(&options.apiserver)?;
    let stock = StockScheduler::start(&options.peer, &server)?;
    let mut stage = Stage::new(&server, stock).await?;
    let _ours = OurScheduler::start(&stage);
    let mut counts = Counts::default();
    let mut shrinks = options.shrink;
    let began = Instant::now();
    let within = options.within.map(Duration::from_secs);
    for seed in (options.seed..).take(usize::try_from(options.cases).unwrap_or(usize::MAX)) {
        if within.is_some_and(|within| began.elapsed() > within) {
            break;
        }
        let case = generate::case(seed, options.about, &options.without);
        if options.verbose {
            println!(
                "seed {seed}: {} objects, {} pods",
                case.objects.len(),
                case.steps.len()
            );
        }
        let mut compared = stage.run(&case).await?;
        if options.cases == 1 || seed % THROUGH_API == 0 {
            compared.extend(stage.run_ours(&case).await?);
        }
        for compared in compared {
            if compared.differences.is_empty() {
                counts.agree += 1;
                continue;
            }
            counts.differ += 1;
            println!("seed {seed}, pod {}:", compared.pod);
            for difference in &compared.differences {
                println!("  {difference}");
            }
            if shrinks > 0
                && let Some(frozen) = &compared.frozen
            {
                shrinks -= 1;
                shrink::print(&mut stage, frozen, &compared.differences).await?;
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let pods = counts.agree + counts.differ;
    println!("{pods} decisions in {seconds:.0} s");
    Ok(counts)
}
