//! Gangs: the same scenarios under a stock kube-scheduler and under ours, one after the other
//! on a stock kube-apiserver that serves PodGroups, and what becomes of pods and groups.
//!
//! Which of equal pods, or of equal groups, is placed is chance: what becomes of them is
//! compared without their names.

mod outcome;
mod scenario;
mod servers;
mod side;

use std::path::PathBuf;
use std::time::Instant;

use self::servers::Servers;
use self::side::Side;
use crate::{Counts, Error};

/// What is compared.
#[derive(clap::Args)]
pub struct Options {
    /// The stock kube-scheduler.
    #[arg(long, value_name = "KUBE_SCHEDULER")]
    peer: PathBuf,
    /// The stock kube-apiserver; no other serves PodGroups.
    #[arg(long, value_name = "KUBE_APISERVER")]
    apiserver: PathBuf,
    /// Its store.
    #[arg(long, value_name = "ETCD")]
    etcd: PathBuf,
    /// Only the scenarios whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Print what becomes of each scenario.
    #[arg(long)]
    verbose: bool,
}

/// Runs all scenarios with both schedulers and prints what differs.
pub async fn run(options: &Options) -> Result<Counts, Error> {
    let began = Instant::now();
    let servers = Servers::start(&options.etcd, &options.apiserver)?;
    let client = servers.client().await?;
    let _stock = servers.scheduler(&options.peer)?;
    let _ours = side::start_ours(&client);
    let mut counts = Counts::default();
    let scenarios = scenario::all().into_iter();
    let wanted = options.only.as_deref().unwrap_or_default();
    for scenario in scenarios.filter(|it| it.name.contains(wanted)) {
        let stock = side::play(&client, &scenario, Side::Stock).await?;
        let ours = side::play(&client, &scenario, Side::Ours).await?;
        if options.verbose {
            println!("{}:", scenario.name);
            for outcome in &stock {
                println!("{outcome}");
            }
        }
        let differs = stock
            .iter()
            .zip(&ours)
            .position(|(one, other)| one != other);
        match differs {
            None => counts.agree += 1,
            Some(at) => {
                counts.differ += 1;
                println!("{}, look {}:", scenario.name, at + 1);
                println!("stock\n{}ours\n{}", stock[at], ours[at]);
            }
        }
    }
    let scenarios = counts.agree + counts.differ;
    println!("{scenarios} scenarios in {} s", began.elapsed().as_secs());
    Ok(counts)
}
