//! `orlop upgrade apply`: another binary for the server or the agent of this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use control_backup::age::Recipient;
use control_backup::create::{Request, create};
use control_backup::place::Address;
use control_client::Client;
use jiff::Timestamp;

use super::drain::DrainOutcome;
use super::plan::{self, UpgradePart};
use super::{Machine, NodeName, Record, binary, facts, ready, report};
use crate::backups::{self, S3};
use crate::commands::store::shell;
use crate::error::Error;
use crate::kubeconfig::Kubeconfig;
use crate::stores::{self, NamedEtcd};

/// What to replace, and how.
#[derive(Args)]
pub struct Options {
    /// The new binary.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Command that restarts the server or the agent, run by `sh -c`.
    #[arg(long, value_name = "COMMAND")]
    restart: String,
    /// Upgrade the agent of this machine, not a server. Pods keep running.
    #[arg(long)]
    node: bool,
    /// Evict the node's pods first, and uncordon it afterwards. DaemonSets' and static
    /// pods stay.
    #[arg(long, requires = "node")]
    drain: bool,
    /// How long the eviction of all pods may take.
    #[arg(long, value_name = "DURATION", default_value = "10m", requires = "drain",
          value_parser = crate::values::duration)]
    drain_timeout: Duration,
    #[command(flatten)]
    node_name: NodeName,
    /// How long to wait until the server is ready, or the node, before the old binary is put back.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = crate::values::duration)]
    timeout: Duration,
    /// Destination of the backup that is made first: a folder, or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "PLACE")]
    backup_to: Option<Address>,
    /// age recipient (`age1…`) that the backup is encrypted for. May be repeated.
    #[arg(long, value_name = "RECIPIENT", requires = "backup_to")]
    backup_recipient: Vec<Recipient>,
    /// Do not encrypt that backup.
    #[arg(long, requires = "backup_to")]
    backup_plain: bool,
    /// Make no backup.
    #[arg(long, conflicts_with = "backup_to")]
    no_backup: bool,
    #[command(flatten)]
    s3: S3,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

impl Options {
    /// Checks, makes a backup, replaces the binary, and puts the old one back if the new one
    /// does not come up.
    ///
    /// # Errors
    /// What hinders the upgrade, or how the new binary failed.
    pub async fn run(self) -> Result<(), Error> {
        let binary = self.machine.binary()?;
        let client = self
            .kubeconfig
            .client_or(&self.machine.client_files(), "orlop-upgrade")
            .await;
        let found = facts::gather(&self.machine, &binary, &self.to, client.as_ref().ok());
        let mut found = found.await?;
        found.part = if self.node {
            UpgradePart::Agent
        } else {
            UpgradePart::Server {
                makes_backup: self.backup_to.is_some(),
            }
        };
        let checks = plan::checks(&found);
        print!("{}", report::table(&checks));
        report::conclude(&checks)?;
        let mut record = Record {
            from: found.current,
            to: found.new,
            backup: None,
            at: Timestamp::now(),
            stored_as: BTreeMap::new(),
        };
        if self.node {
            return self.agent(&binary, &client?, &record).await;
        }
        record.backup = match &self.backup_to {
            Some(place) => Some(self.backup(place).await?),
            None if self.no_backup => None,
            None => {
                return Err(Error::Option(
                    "an upgrade of a server begins with a backup: give --backup-to PLACE, or \
                     --no-backup"
                        .to_owned(),
                ));
            }
        };
        if let Ok(client) = &client {
            record.stored_as = facts::stored_as(client).await?;
        }
        let before = ready::server_started(&self.machine);
        self.replace(&binary, &record, || {
            ready::server(&self.machine, &self.kubeconfig, before)
        })
        .await
    }

    /// The agent of this machine, whose node is emptied before if that is wanted.
    async fn agent(&self, binary: &Path, client: &Client, record: &Record) -> Result<(), Error> {
        let node = self.node_name.get()?;
        let drained = match self.drain {
            true => Some(DrainOutcome::begin(client, &node, self.drain_timeout).await?),
            false => None,
        };
        let before = ready::containers(client, &node).await?;
        // Recorded after the restart: earlier heartbeats are of the old agent.
        let mut restarted = None;
        let replaced = self
            .replace(binary, record, || {
                let since = *restarted.get_or_insert_with(Timestamp::now);
                ready::node(client, &node, since)
            })
            .await;
        // Also of an upgrade that was taken back.
        if let Some(drained) = drained {
            drained.end().await?;
        }
        replaced?;
        let after = ready::containers(client, &node).await?;
        let kept = before.iter().filter(|one| after.contains(one)).count();
        println!("{kept} of {} containers kept running", before.len());
        Ok(())
    }

    /// Replaces the binary and waits until it is at work; puts the old one back otherwise.
    async fn replace<F: Future<Output = Result<(), ready::ReadinessError>>>(
        &self,
        binary: &Path,
        record: &Record,
        is_ready: impl FnMut() -> F,
    ) -> Result<(), Error> {
        record.save(binary)?;
        binary::replace(binary, &self.to)?;
        let began = Instant::now();
        let up = async {
            shell(&self.restart)?;
            ready::wait_until(&self.restart, self.timeout, is_ready).await
        };
        if let Err(error) = up.await {
            eprintln!(
                "orlop: the new binary does not come up, putting the old one back: {}",
                crate::run::all_causes(&error)
            );
            binary::put_back(binary)?;
            Record::remove(binary)?;
            shell(&self.restart)?;
            return Err(error);
        }
        println!(
            "`{}` is {} now, ready after {:.1} s; the old one is `{}`",
            binary.display(),
            record.to.version,
            began.elapsed().as_secs_f64(),
            binary::kept(binary).display()
        );
        Ok(())
    }

    async fn backup(&self, place: &Address) -> Result<String, Error> {
        let recipients =
            backups::recipients(&self.backup_recipient, self.backup_plain, "--backup-")?;
        let data_dir = &self.machine.data_dir;
        let opened = stores::open(data_dir, &NamedEtcd::default()).await?;
        let about = backups::about(&*opened.store, opened.kind).await?;
        let request = Request {
            about,
            files: backups::server_files(data_dir)?,
            recipients,
            place: self.s3.place(place)?,
        };
        let created = create(Arc::clone(&opened.store), request)
            .await
            .map_err(Error::Backup)?;
        println!("backup {}", created.name);
        Ok(created.name.to_string())
    }
}
