//! `orlop controllers`: the controllers against any API server.

use std::path::PathBuf;

use clap::Args;
use control_controllers::Config;
use ipnet::IpNet;

use crate::{election, error::Error, kubeconfig::Kubeconfig, run};

/// Which controllers, with what.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    _file: crate::config::File,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Names of controllers; `*` for all, `-NAME` for all but one.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// The pods' ranges, divided among nodes: at most one of each IP version.
    #[arg(long, value_delimiter = ',')]
    cluster_cidr: Vec<IpNet>,
    /// Leave Services of type LoadBalancer that name no loadBalancerClass to others.
    #[arg(long)]
    load_balancer_class_only: bool,
    /// `external`: a cloud controller manager gives out load balancer addresses and makes
    /// routes.
    #[arg(long, value_name = "PROVIDER", value_parser = ["", "external"])]
    cloud_provider: Option<String>,
    /// PEM file of the authority that pods trust, published in every namespace.
    #[arg(long)]
    root_ca_file: Option<PathBuf>,
    #[command(flatten)]
    election: election::Options,
}

/// Runs until a signal.
///
/// # Errors
/// An unusable kubeconfig, configuration or file; a controller that ended.
pub async fn run(options: Options) -> Result<(), Error> {
    let root_ca_pem = match options.root_ca_file {
        Some(path) => {
            Some(std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?)
        }
        None => None,
    };
    let client = options
        .kubeconfig
        .client_or(&[], "kube-controller-manager")
        .await?;
    crate::servers::follow(&client);
    let identity = super::scheduler::own_identity();
    let election = options
        .election
        .election(election::CONTROLLERS, &identity)?;
    let config = Config {
        controllers: options.controllers,
        cluster_cidrs: options.cluster_cidr,
        root_ca_pem,
        default_load_balancer: !options.load_balancer_class_only,
        external_cloud: options.cloud_provider.as_deref() == Some("external"),
        election,
        ..Config::default()
    };
    control_controllers::run(client, config, run::shutdown_on_signals()?)
        .await
        .map_err(Error::Controllers)
}
