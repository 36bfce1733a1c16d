//! `orlop scheduler`: the scheduler against any API server.

use std::path::Path;

use clap::Args;
use control_scheduler::Config;
use control_scheduler::config::{self, Configuration};

use crate::{error::Error, kubeconfig::Kubeconfig, run};

/// Which pods, and whether others may be schedulers too.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    file: crate::config::File,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Place the pods whose `schedulerName` is one of these. Profiles of a
    /// KubeSchedulerConfiguration given as --config stand for them.
    #[arg(long, value_delimiter = ',', default_value = "default-scheduler")]
    scheduler_names: Vec<String>,
    /// Identity for the leader election; without it, only a KubeSchedulerConfiguration asks for
    /// one.
    #[arg(long)]
    elect_as: Option<String>,
}

/// Why a scheduler's configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It cannot be read.
    #[error("cannot be read")]
    Read(#[source] std::io::Error),
    /// It cannot be.
    #[error("is no KubeSchedulerConfiguration")]
    Configuration(#[source] config::Error),
}

/// Runs until a signal.
///
/// # Errors
/// An unusable kubeconfig or configuration.
pub async fn run(options: Options) -> Result<(), Error> {
    let config = match &options.file.config {
        Some(path) if is_configuration(path) => {
            configured(path, true, options.elect_as.as_deref())?
        }
        _ => {
            let config = Config::for_names(options.scheduler_names);
            match options.elect_as {
                Some(identity) => config.elected_as(&identity),
                None => config,
            }
        }
    };
    let client = options.kubeconfig.client_or(&[], "kube-scheduler").await?;
    crate::servers::follow(&client);
    control_scheduler::run(client, config, run::shutdown_on_signals()?).await;
    Ok(())
}

/// Whether a file is a `KubeSchedulerConfiguration` rather than options of this program.
pub fn is_configuration(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    config::is_configuration(&text)
}

/// What a `KubeSchedulerConfiguration` says; with `elects`, with its election.
///
/// # Errors
/// What is wrong with the file.
pub fn configured(path: &Path, elects: bool, identity: Option<&str>) -> Result<Config, Error> {
    read(path, elects, identity).map_err(|source| Error::SchedulerConfiguration {
        path: path.to_owned(),
        source,
    })
}

fn read(path: &Path, elects: bool, identity: Option<&str>) -> Result<Config, ConfigurationError> {
    let text = std::fs::read_to_string(path).map_err(ConfigurationError::Read)?;
    let file = Configuration::from_yaml(&text).map_err(ConfigurationError::Configuration)?;
    let identity = identity.map_or_else(own_identity, str::to_owned);
    let election = file.leader_election.as_candidate(&identity);
    let election = election.map_err(ConfigurationError::Configuration)?;
    let mut config = Config::from_file(file);
    config.election = election.filter(|_| elects);
    Ok(config)
}

/// The host's name with something that no other process has, as stock components name
/// themselves.
pub fn own_identity() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    format!("{}_{:032x}", host.to_string_lossy(), rand::random::<u128>())
}
