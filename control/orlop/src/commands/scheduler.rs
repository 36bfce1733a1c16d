//! `orlop scheduler`: the scheduler against any API server.

use std::path::Path;

use clap::Args;
use control_apiserver::features::{Feature, Gates};
use control_metrics::Page;
use control_scheduler::{Config, Features};

use crate::{component, election, error::Error, kubeconfig::Kubeconfig, run, scheduler_file};

/// Pods to schedule, and leader election.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    file: crate::config::ConfigFile,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Schedule pods with one of these values of `schedulerName`. Profiles of a
    /// KubeSchedulerConfiguration given as --config replace them.
    #[arg(long, value_delimiter = ',', default_value = "default-scheduler")]
    scheduler_names: Vec<String>,
    /// Feature gates to enable: GenericWorkload, GangScheduling (see
    /// docs/reference/scheduler.md).
    #[arg(long, value_delimiter = ',', value_name = "NAME=BOOL")]
    feature_gates: Vec<String>,
    /// Identity in the leader election; the host's name with a random suffix unless given.
    #[arg(long)]
    elect_as: Option<String>,
    #[command(flatten)]
    election: election::Options,
    /// Port of health and metrics; 0 for none.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    secure_port: u16,
    #[command(flatten)]
    port: component::Options,
}

/// Runs until a signal.
///
/// # Errors
/// An unusable kubeconfig or configuration.
pub async fn run(options: Options) -> Result<(), Error> {
    let gates = Gates::parse(options.feature_gates.iter().map(String::as_str));
    let gates = gates.map_err(|error| Error::Option(format!("--feature-gates: {error}")))?;
    let features = features(gates);
    let config = match &options.file.config {
        Some(path) if scheduler_file::is_configuration(path) => {
            configured(path, features, true, options.elect_as.as_deref())?
        }
        _ => {
            let mut config = Config::for_names(options.scheduler_names, features);
            let identity = options.elect_as.unwrap_or_else(own_identity);
            config.election = options.election.election(election::SCHEDULER, &identity)?;
            config
        }
    };
    let client = options.kubeconfig.client_or(&[], "kube-scheduler").await?;
    crate::servers::follow(&client);
    let shutdown = run::shutdown_on_signals()?;
    let port = options
        .port
        .bind(options.secure_port, &client, write_metrics)
        .await?;
    component::serve(port, &shutdown);
    control_scheduler::run(client, config, shutdown).await;
    Ok(())
}

/// Writes the scheduler's metrics.
fn write_metrics(page: &mut Page) {
    let mut text = String::new();
    control_client::metrics::write(&mut text);
    control_scheduler::metrics::write(&mut text);
    page.open_metrics(&text);
    control_apiserver::metrics::write_version(page);
}

/// Reads a `KubeSchedulerConfiguration`; with `elects`, including its election.
///
/// # Errors
/// The problem with the file.
pub fn configured(
    path: &Path,
    features: Features,
    elects: bool,
    identity: Option<&str>,
) -> Result<Config, Error> {
    let identity = identity.map_or_else(own_identity, str::to_owned);
    scheduler_file::read(path, features, elects, &identity).map_err(|source| {
        Error::SchedulerConfiguration {
            path: path.to_owned(),
            source,
        }
    })
}

/// Those of these gates that the scheduler knows.
pub fn features(gates: Gates) -> Features {
    Features {
        generic_workload: gates.enabled(Feature::GenericWorkload),
        gang_scheduling: gates.enabled(Feature::GangScheduling),
    }
}

/// The host's name with something that no other process has, as stock components name
/// themselves.
pub fn own_identity() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    format!("{}_{:032x}", host.to_string_lossy(), rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_options_of_kubeadms_manifest_are_taken() {
        let line = Line::try_parse_from([
            "scheduler",
            "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
            "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
            "--bind-address=127.0.0.1",
            "--kubeconfig=/etc/kubernetes/scheduler.conf",
            "--leader-elect=true",
            "--feature-gates=GenericWorkload=true,GangScheduling=true",
        ]);
        let options = line.unwrap_or_else(|error| panic!("{error}")).options;
        assert_eq!(options.secure_port, 10259);
        let gates = Gates::parse(options.feature_gates.iter().map(String::as_str));
        let features = features(gates.unwrap_or_else(|error| panic!("{error}")));
        assert!(features.generic_workload && features.gang_scheduling);
    }
}
