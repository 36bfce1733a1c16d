//! `orlop upgrade finish`: completes an upgrade, after which only a backup leads back.

use clap::Args;

use super::{Machine, Record, binary, facts, migrate, plan, this_program};
use crate::error::Error;
use crate::kubeconfig::Kubeconfig;

/// Machine.
#[derive(Args)]
pub struct Options {
    /// Finish the upgrade of this machine's agent: remove its previous binary, and nothing else.
    #[arg(long)]
    node: bool,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

impl Options {
    /// Migrates stored objects to the current storage versions, and removes the previous
    /// binary.
    ///
    /// # Errors
    /// No upgrade, a server that is not upgraded, or the API's error.
    pub async fn run(self) -> Result<(), Error> {
        let binary = self.machine.binary()?;
        let record = Record::load(&binary)?;
        if !self.node {
            let files = self.machine.client_files();
            let client = self.kubeconfig.client_or(&files, "orlop-upgrade").await?;
            let serves = facts::version(&client).await;
            plan::may_finish(&this_program(), serves.as_deref())
                .map_err(|error| Error::Option(error.to_string()))?;
            let now = facts::stored_as(&client).await?;
            let written = migrate::migrate(&client, &record.stored_as, &now).await?;
            println!("{written} objects written anew");
        }
        binary::forget(&binary)?;
        Record::remove(&binary)?;
        println!("the upgrade from {} is finished", record.from.version);
        Ok(())
    }
}
