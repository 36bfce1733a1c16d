//! The controllers: the same cases once under a stock kube-controller-manager and once under
//! ours, each on an API server of its own, and the objects that both leave after each step.

mod compare;
mod drive;
mod generate;
mod kubelet;
mod mirror;
mod normal;
mod probe;
mod scenario;
mod side;

use std::path::PathBuf;
use std::sync::Arc;

use self::compare::differences;
use self::scenario::Case;
use self::side::Controllers;
use crate::{Counts, Error};

/// What is compared.
#[derive(clap::Args)]
pub struct Options {
    /// The stock kube-controller-manager.
    #[arg(long, value_name = "KUBE_CONTROLLER_MANAGER")]
    peer: PathBuf,
    /// The API server: started with a folder and a port, it writes `admin.kubeconfig`.
    #[arg(long, value_name = "PROGRAM")]
    apiserver: PathBuf,
    /// The first case's seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many cases, each with the next seed.
    #[arg(long, default_value_t = 32)]
    cases: u64,
    /// Only cases of this family, such as `deployment`.
    #[arg(long)]
    family: Option<String>,
    /// How many cases run at the same time.
    #[arg(long, default_value_t = 32)]
    at_once: usize,
    /// Print what each case does.
    #[arg(long)]
    verbose: bool,
}

/// Runs the cases on both sides and prints what differs.
pub async fn run(options: &Options) -> Result<Counts, Error> {
    let seeds = options.seed..options.seed.saturating_add(options.cases);
    let cases: Option<Vec<Case>> = seeds
        .map(|seed| generate::case(seed, options.family.as_deref()))
        .collect();
    let cases = cases.ok_or_else(|| Error::Program("no family is called so".to_owned()))?;
    if options.verbose {
        for case in &cases {
            println!("seed {} ({}):\n{}", case.seed, case.family, case.describe());
        }
    }
    let cases = Arc::new(cases);
    let side = |controllers| {
        side::run(
            &options.apiserver,
            controllers,
            Arc::clone(&cases),
            options.at_once,
        )
    };
    let (stock, ours) = tokio::try_join!(
        side(Controllers::Stock(&options.peer)),
        side(Controllers::Ours),
    )?;
    let mut counts = Counts::default();
    for ((case, stock), ours) in cases.iter().zip(stock).zip(ours) {
        let (stock, ours) = (stock?, ours?);
        let found = stock
            .iter()
            .zip(&ours)
            .map(|(stock, ours)| differences(stock, ours))
            .enumerate()
            .find(|(_, lines)| !lines.is_empty());
        let Some((step, lines)) = found else {
            counts.agree += 1;
            continue;
        };
        counts.differ += 1;
        println!(
            "seed {} ({}) differs after step {}:",
            case.seed,
            case.family,
            step + 1
        );
        print!("{}", case.describe());
        for line in lines {
            println!("  {line}");
        }
    }
    Ok(counts)
}
