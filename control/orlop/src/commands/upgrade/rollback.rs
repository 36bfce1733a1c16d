//! `orlop upgrade rollback`: the binary that the last upgrade replaced.

use clap::Args;

use super::{Machine, Record, binary, facts, plan};
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
    machine: Machine,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

impl Options {
    /// Puts the old binary back and restarts the program.
    ///
    /// # Errors
    /// No upgrade that could be taken back, or nodes that the old server would not serve.
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
            plan::may_go_back(&record.from, &nodes).map_err(Error::Option)?;
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
        binary::put_back(&binary)?;
        shell(&self.restart)?;
        Record::remove(&binary)?;
        println!("`{}` is {} again", binary.display(), record.from.version);
        Ok(())
    }
}
