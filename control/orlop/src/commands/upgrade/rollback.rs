//! `orlop upgrade rollback`: the binary that the last upgrade replaced.

use std::time::{Duration, Instant};

use clap::Args;
use jiff::Timestamp;

use super::{Machine, NodeName, Record, binary, facts, plan, ready};
use crate::commands::store::shell;
use crate::error::Error;
use crate::kubeconfig::Kubeconfig;
use crate::stores::STORE;

/// What to restore.
#[derive(Args)]
pub struct Options {
    /// Command that restarts the server or the agent, run by `sh -c`.
    #[arg(long, value_name = "COMMAND")]
    restart: String,
    /// Put the agent's binary back, not a server's.
    #[arg(long)]
    node: bool,
    #[command(flatten)]
    node_name: NodeName,
    /// How long to wait until the server is ready, or the node.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = crate::values::duration)]
    timeout: Duration,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

impl Options {
    /// Puts the old binary back, restarts the program and waits until it is ready, so that the
    /// next server can follow at once.
    ///
    /// # Errors
    /// No upgrade that could be rolled back, nodes that the old server would not serve, or a
    /// program that is not ready in time.
    pub async fn run(self) -> Result<(), Error> {
        let binary = self.machine.binary()?;
        let record = Record::load(&binary)?;
        let files = self.machine.client_files();
        let client = self.kubeconfig.client_or(&files, "orlop-upgrade").await;
        // A server that does not come up cannot be asked; a rollback is for that case.
        if !self.node
            && let Ok(client) = &client
            && let Ok(nodes) = facts::nodes(client).await
        {
            plan::may_go_back(&record.from, &nodes)
                .map_err(|error| Error::Option(error.to_string()))?;
        }
        let store = self.machine.data_dir.join(STORE);
        let (_, newest) = record.from.store_formats;
        if record.to.store_formats.1 > newest && store.exists() {
            let backup = record.backup.as_deref().unwrap_or("a backup");
            eprintln!(
                "orlop: if {} does not start because of the store's format, stop it and run \
                 `orlop restore --replace` with {backup}",
                record.from.version
            );
        }
        let before = ready::server_started(&self.machine);
        let began = Instant::now();
        binary::put_back(&binary)?;
        shell(&self.restart)?;
        Record::remove(&binary)?;
        match (self.node, &client) {
            (false, _) => {
                let is_ready = || ready::server(&self.machine, &self.kubeconfig, before);
                ready::wait_until(&self.restart, self.timeout, is_ready).await?;
            }
            (true, Ok(client)) => {
                let (node, since) = (self.node_name.get()?, Timestamp::now());
                let is_ready = || ready::node(client, &node, since);
                ready::wait_until(&self.restart, self.timeout, is_ready).await?;
            }
            (true, Err(error)) => eprintln!(
                "orlop: the node is not waited for, since the cluster cannot be asked: {}",
                crate::run::all_causes(error)
            ),
        }
        println!(
            "`{}` is {} again, ready after {:.1} s",
            binary.display(),
            record.from.version,
            began.elapsed().as_secs_f64()
        );
        Ok(())
    }
}
