//! `orlop node-agent`: what runs on a node.

use std::path::PathBuf;

use clap::Args;
use control_client::Client;

use crate::{error::Error, run};

/// For which node, and where.
#[derive(Args)]
pub struct Options {
    /// Kubeconfig of a user who may read Services and EndpointSlices.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The Node object's name.
    #[arg(long)]
    node_name: String,
    /// Only the datapath: beside another kubelet, in kube-proxy's place.
    #[arg(long, required = true)]
    datapath_only: bool,
    /// The cgroup v2 folder whose processes see services; the root of the
    /// hierarchy unless given.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Where eBPF programs and maps are pinned.
    #[arg(long, default_value = node_agent::PINS)]
    pin_dir: PathBuf,
}

/// Runs until a signal. The datapath goes on working afterwards.
///
/// # Errors
/// An unusable kubeconfig, or a kernel that lacks what is needed.
pub async fn run(options: Options) -> Result<(), Error> {
    let client = Client::from_kubeconfig(&options.kubeconfig)
        .await
        .map_err(Error::Client)?
        .named("kube-proxy");
    node_agent::run(
        client,
        node_agent::Options {
            node_name: options.node_name,
            cgroup: options.cgroup,
            pin_dir: options.pin_dir,
        },
        run::shutdown_on_signals()?,
    )
    .await
    .map_err(Error::NodeAgent)
}
