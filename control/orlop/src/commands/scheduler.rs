//! `orlop scheduler`: the scheduler against any API server.

use clap::Args;
use control_scheduler::Config;

use crate::{error::Error, kubeconfig::Kubeconfig, run};

/// Which pods, and whether others may be schedulers too.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    _file: crate::config::File,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Place the pods whose `schedulerName` is one of these.
    #[arg(long, value_delimiter = ',', default_value = "default-scheduler")]
    scheduler_names: Vec<String>,
    /// Take part in the leader election under this name.
    #[arg(long)]
    elect_as: Option<String>,
}

/// Runs until a signal.
///
/// # Errors
/// An unusable kubeconfig, or a lost election.
pub async fn run(options: Options) -> Result<(), Error> {
    let client = options.kubeconfig.client_or(&[], "kube-scheduler").await?;
    let config = Config {
        scheduler_names: options.scheduler_names,
        elect_as: options.elect_as,
    };
    control_scheduler::run(client, config, run::shutdown_on_signals()?)
        .await
        .map_err(Error::Scheduler)
}
