//! `orlop agent`: joins a cluster and runs as its node from then on.

use std::path::PathBuf;

use clap::Args;
use control_client::Client;
use tokio_util::sync::CancellationToken;

use super::node_agent::{Node, with_policy_account};
use crate::{
    error::Error,
    join::{self, Folder, Join},
    memory, run,
};

/// Examples in the help.
pub const EXAMPLES: &str = "\
The first start needs --join, --token and --ca-cert-hash; `orlop token create` on the server
prints the whole line. Later starts use the credentials that the first one got, and renew them in
time. Instead of --token, ORLOP_TOKEN may hold the token, which then is in no list of processes.";

/// Credentials, and how to get them.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    _file: crate::config::ConfigFile,
    /// The API server to join at, such as https://10.0.0.1:6443.
    #[arg(long, value_name = "URL", requires_all = ["token", "ca_cert_hash"])]
    join: Option<String>,
    /// The bootstrap token.
    #[arg(
        long,
        env = "ORLOP_TOKEN",
        hide_env_values = true,
        value_name = "ID.SECRET"
    )]
    token: Option<String>,
    /// Hash of the cluster's authority: sha256: and 64 hexadecimal digits. May be
    /// repeated; one of them must match.
    #[arg(long, value_name = "HASH", value_delimiter = ',')]
    ca_cert_hash: Vec<String>,
    /// Folder of the node's credentials; made if missing.
    #[arg(long, default_value = "/var/lib/orlop/agent", value_name = "FOLDER")]
    data_dir: PathBuf,
    /// Get the credentials, and end.
    #[arg(long)]
    join_only: bool,
    #[command(flatten)]
    node: Node,
}

/// Runs until a signal. Datapath and pods keep working afterwards.
///
/// # Errors
/// Why the machine cannot join, or what it lacks to be a node.
pub async fn run(options: Options) -> Result<(), Error> {
    memory::thrifty();
    let shutdown = run::shutdown_on_signals()?;
    let name = options.node.name()?;
    let folder = Folder::new(&options.data_dir);
    let join = options.join.map(|server| Join {
        server: server.trim_end_matches('/').to_owned(),
        token: options.token.unwrap_or_default(),
        hashes: options.ca_cert_hash,
    });
    if !options.join_only {
        // Nothing is requested that could not be used.
        let agent = options.node.complete(Some(folder.serving()))?;
        node_agent::check(&agent, &shutdown)
            .await
            .map_err(Error::NodeAgent)?;
    }
    tokio::select! {
        joined = join::ensure(&folder, &name, join.as_ref()) => {
            joined.map_err(Error::Join)?;
        }
        () = shutdown.cancelled() => return Ok(()),
    }
    if options.join_only {
        println!(
            "credentials of node {name} are in {}",
            folder.path().display()
        );
        return Ok(());
    }
    while serve(&folder, &name, &options.node, &shutdown).await? == End::Renewed {
        tracing::info!("restarting with the new certificate");
    }
    Ok(())
}

/// The reason why the agent ended without a fault.
#[derive(PartialEq, Eq)]
enum End {
    Shutdown,
    Renewed,
}

/// Runs the agent until `shutdown`, or until it has a new certificate.
async fn serve(
    folder: &Folder,
    name: &str,
    node: &Node,
    shutdown: &CancellationToken,
) -> Result<End, Error> {
    let client = Client::from_kubeconfig(folder.file("kubeconfig"))
        .await
        .map_err(Error::Client)?;
    let options = node.complete(Some(folder.serving()))?;
    let mut options = with_policy_account(options, folder.file("kubeconfig"));
    options.node_ips = node.addresses()?;
    options.volumes = node.local_volumes()?;
    let mut names: Vec<String> = options.node_ips.iter().map(ToString::to_string).collect();
    names.push(name.to_owned());
    let stop = shutdown.child_token();
    let keeping = join::keep(folder, name, &names, &client, &stop);
    let working = node_agent::run(client.clone(), options, stop.clone());
    tokio::pin!(working);
    let renewed = tokio::select! {
        done = &mut working => return done.map(|()| End::Shutdown).map_err(Error::NodeAgent),
        renewed = keeping => renewed,
        () = client.follow_servers() => false,
    };
    stop.cancel();
    working.await.map_err(Error::NodeAgent)?;
    Ok(if renewed { End::Renewed } else { End::Shutdown })
}
