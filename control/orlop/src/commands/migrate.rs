//! `orlop migrate`: take the place of another program, node by node.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use control_client::{Client, Discard, Patch, Selection, resources};
use node_agent::kube_proxy_takeover::step::{LABEL, ServiceProxyChoice};
use serde_json::{Value, json};

use super::migrate_metallb;
use crate::{
    error::Error,
    kubeconfig::Kubeconfig,
    migrate::plan::{self, MigrationProgress, NodeState, Task},
    values,
};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop migrate kube-proxy --dry-run        list what would be done
  orlop migrate kube-proxy --node worker-1  one node first
  orlop migrate kube-proxy                  all nodes, one after another
  orlop migrate kube-proxy --undo           give Services back to kube-proxy";

/// How often a node is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// The implementation to replace.
#[derive(Subcommand)]
pub enum Command {
    /// Replace kube-proxy on nodes whose agents serve beside it (`orlop node-agent
    /// install --datapath-only`), one node after another, and stop at the first node that
    /// is worse than before. Connections continue.
    #[command(name = "kube-proxy", after_help = EXAMPLES)]
    KubeProxy(Options),
    /// Take over load balancer addresses from MetalLB: convert its objects, then announce
    /// its addresses one after another before MetalLB stops, and stop at the first
    /// address that answers worse. Run it where clients are: this machine probes the
    /// addresses. Services keep their addresses.
    #[command(after_help = migrate_metallb::EXAMPLES)]
    Metallb(migrate_metallb::Options),
}

/// Nodes and direction.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// A node; may be repeated. All nodes unless given.
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Give Services back to kube-proxy.
    #[arg(long)]
    undo: bool,
    /// List what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// How long one node may take.
    #[arg(long, value_parser = values::duration, default_value = "3m", value_name = "DURATION")]
    timeout: Duration,
    /// DaemonSet of kube-proxy. If there is none, stop kube-proxy on each node when this
    /// command waits for it: move its static pod away, or start k3s with
    /// --disable-kube-proxy.
    #[arg(
        long,
        default_value = "kube-system/kube-proxy",
        value_name = "NAMESPACE/NAME"
    )]
    daemon_set: String,
}

/// Runs the command.
///
/// # Errors
/// Why it cannot begin, or the node at which it stopped.
pub async fn run(command: Command) -> Result<(), Error> {
    let options = match command {
        Command::KubeProxy(options) => options,
        Command::Metallb(options) => return migrate_metallb::run(options).await,
    };
    let client = options.kubeconfig.client("orlop-migrate").await?;
    Migration { client, options }.run().await
}

struct Migration {
    client: Client,
    options: Options,
}

impl Migration {
    async fn run(&self) -> Result<(), Error> {
        let begun = Instant::now();
        let nodes = self.nodes().await?;
        let chosen = plan::choose(&nodes, &self.options.nodes).map_err(refused)?;
        let daemon_set = self.daemon_set().await?;
        let tasks = if self.options.undo {
            plan::undo(&nodes, &chosen, daemon_set.as_ref())
        } else {
            plan::migrate(&chosen, daemon_set.as_ref()).map_err(refused)?
        };
        let words = plan::describe(&tasks, &self.options.daemon_set);
        if tasks.is_empty() {
            println!("nothing to do: the nodes are where they are to be");
            return Ok(());
        }
        for (number, task) in tasks.iter().enumerate() {
            let text = words.get(&number).map(String::as_str).unwrap_or_default();
            println!("[{}/{}] {text}", number + 1, tasks.len());
            if !self.options.dry_run {
                self.execute(task, daemon_set.as_ref()).await?;
            }
        }
        if !self.options.dry_run {
            println!("done in {} s", begun.elapsed().as_secs());
        }
        Ok(())
    }

    async fn execute(&self, task: &Task, daemon_set: Option<&Value>) -> Result<(), Error> {
        match task {
            Task::ExemptNodes => {
                let patch = daemon_set.map(plan::exempting).unwrap_or_default();
                self.patch_daemon_set(Patch::Merge(&patch)).await
            }
            Task::RestoreDaemonSet => match daemon_set.and_then(plan::restoring) {
                Some(patch) => self.patch_daemon_set(Patch::Json(&patch)).await,
                None => Ok(()),
            },
            Task::Move(node, to) => {
                let patch = json!({"metadata": {"labels": {LABEL: to.label()}}});
                self.client
                    .patch::<Discard>(&resources::NODES, "", node, "", Patch::Merge(&patch))
                    .await
                    .map_err(Error::Client)?;
                self.follow(node, *to).await
            }
        }
    }

    /// Waits until a node has arrived.
    async fn follow(&self, node: &str, to: ServiceProxyChoice) -> Result<(), Error> {
        let until = Instant::now() + self.options.timeout;
        let mut said = String::new();
        loop {
            let object: Value = self
                .client
                .get(&resources::NODES, "", node)
                .await
                .map_err(Error::Client)?;
            let stopped = |why: &str| {
                let way_out = match to {
                    ServiceProxyChoice::Replaced => {
                        format!("; go back with `orlop migrate kube-proxy --undo --node {node}`")
                    }
                    _ => String::new(),
                };
                Error::Migration(format!("node {node}: {why}{way_out}"))
            };
            match NodeState::from_node(&object).progress(to) {
                MigrationProgress::Done(message) => {
                    println!("      {message}");
                    return Ok(());
                }
                MigrationProgress::Stopped(message) => return Err(stopped(&message)),
                MigrationProgress::Waiting(message) if Instant::now() > until => {
                    let waited = self.options.timeout.as_secs();
                    return Err(stopped(&format!("after {waited} s still: {message}")));
                }
                MigrationProgress::Waiting(message) => {
                    if said != message {
                        println!("      {message}");
                        said = message;
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn nodes(&self) -> Result<Vec<NodeState>, Error> {
        let list = self
            .client
            .list::<Value>(&resources::NODES, &Selection::all())
            .await
            .map_err(Error::Client)?;
        Ok(list.items.iter().map(NodeState::from_node).collect())
    }

    /// Returns the DaemonSet, if there is one.
    async fn daemon_set(&self) -> Result<Option<Value>, Error> {
        let (namespace, name) = self.daemon_set_name()?;
        let got = self
            .client
            .get::<Value>(&resources::DAEMON_SETS, namespace, name)
            .await;
        match got {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(Error::Client(error)),
        }
    }

    async fn patch_daemon_set(&self, patch: Patch<'_, Value>) -> Result<(), Error> {
        let (namespace, name) = self.daemon_set_name()?;
        self.client
            .patch::<Discard>(&resources::DAEMON_SETS, namespace, name, "", patch)
            .await
            .map(drop)
            .map_err(Error::Client)
    }

    fn daemon_set_name(&self) -> Result<(&str, &str), Error> {
        let name = &self.options.daemon_set;
        name.split_once('/').ok_or_else(|| {
            Error::Option(format!(
                "--daemon-set: write NAMESPACE/NAME instead of `{name}`"
            ))
        })
    }
}

fn refused(refusal: plan::Refusal) -> Error {
    Error::Migration(refusal.to_string())
}
