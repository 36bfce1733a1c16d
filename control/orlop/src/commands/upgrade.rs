//! `orlop upgrade`: another binary for the server or the agent of this machine, checked before,
//! backed up, and taken back if it does not come up.

mod apply;
mod binary;
mod drain;
mod facts;
mod finish;
mod migrate;
mod plan;
mod ready;
mod report;
mod rollback;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use self::plan::Program;
use crate::backups;
use crate::error::Error;
use crate::kubeconfig::Kubeconfig;
use crate::server_record::ServerRecord;

pub const EXAMPLES: &str = "\
Examples:
  orlop upgrade plan --to ./orlop-0.2.0
  orlop upgrade apply --to ./orlop-0.2.0 --restart 'systemctl restart orlop-server' \\
    --backup-to /var/backups/orlop --backup-recipient age1…
  orlop upgrade apply --node --to ./orlop-0.2.0 --restart 'systemctl restart orlop-agent'
  orlop upgrade apply --node --drain --to ./orlop-0.2.0 --restart 'systemctl restart orlop-agent'
  orlop upgrade rollback --restart 'systemctl restart orlop-server'
  orlop upgrade finish";

/// Subcommand.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the preconditions of an upgrade: skew, removed APIs, store format, disk,
    /// backup. Changes nothing.
    Plan(Box<UpgradeCommandPlan>),
    /// Replace the binary of the server on this machine, or with --node that of the agent.
    Apply(Box<apply::Options>),
    /// Put the binary back that the last upgrade of this machine replaced.
    Rollback(rollback::Options),
    /// Migrate stored objects to the current storage versions, and remove the files for a
    /// rollback. Run it on each server once all servers and nodes are upgraded; a
    /// rollback is impossible afterwards.
    Finish(finish::Options),
    /// Print facts about this binary as JSON.
    #[command(hide = true)]
    Facts,
}

#[derive(Args)]
struct UpgradeCommandPlan {
    /// The new binary.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

/// The paths of programs and files of this machine.
#[derive(Args)]
struct Machine {
    /// Folder of the server.
    #[arg(long, default_value = "/var/lib/orlop/server")]
    data_dir: PathBuf,
    /// The installed binary; the one that the server or the agent runs unless given.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// The Node whose agent is meant.
#[derive(Args)]
struct NodeName {
    /// Name of the Node; the machine's host name unless given.
    #[arg(long, value_name = "NAME", requires = "node", value_parser = crate::values::node_name)]
    node_name: Option<String>,
}

/// The record that an upgrade leaves for a rollback, beside the binary that it kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    from: Program,
    to: Program,
    backup: Option<String>,
    at: Timestamp,
    /// How the release before stored each resource, by the hashes of discovery.
    #[serde(default)]
    stored_as: BTreeMap<String, String>,
}

/// The end of the record's name.
const RECORD: &str = "upgrade.json";

/// Runs the command.
///
/// # Errors
/// What blocks the upgrade; a new binary that does not come up, after the old one was
/// restored.
pub async fn run(options: Options) -> Result<(), Error> {
    match options.command {
        Command::Plan(options) => options.run().await,
        Command::Apply(options) => options.run().await,
        Command::Rollback(options) => options.run().await,
        Command::Finish(options) => options.run().await,
        Command::Facts => {
            println!(
                "{}",
                serde_json::to_string(&this_program()).unwrap_or_default()
            );
            Ok(())
        }
    }
}

fn this_program() -> Program {
    let formats = control_store::embedded::FORMATS;
    Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes: backups::KUBERNETES.to_owned(),
        store_formats: (*formats.start(), *formats.end()),
    }
}

impl Machine {
    /// The installed binary.
    fn binary(&self) -> Result<PathBuf, Error> {
        let found = match &self.binary {
            Some(binary) => Some(binary.clone()),
            None => ServerRecord::read(&self.data_dir).map(|record| record.executable),
        };
        let found = found.or_else(|| std::env::current_exe().ok());
        found.ok_or_else(|| Error::Option("name the installed binary with --binary".to_owned()))
    }

    fn client_files(&self) -> [PathBuf; 1] {
        [self.data_dir.join("admin.kubeconfig")]
    }
}

impl UpgradeCommandPlan {
    async fn run(self) -> Result<(), Error> {
        let binary = self.machine.binary()?;
        let client = self
            .kubeconfig
            .client_or(&self.machine.client_files(), "orlop-upgrade")
            .await
            .ok();
        let found = facts::gather(&self.machine, &binary, &self.to, client.as_ref());
        let found = found.await?;
        let checks = plan::checks(&found);
        print!("{}", report::table(&checks));
        print!("{}", report::steps(&found));
        report::conclude(&checks)
    }
}

// === impl NodeName ===

impl NodeName {
    fn get(&self) -> Result<String, Error> {
        match &self.node_name {
            Some(name) => Ok(name.clone()),
            None => nix::unistd::gethostname()
                .map(|name| name.to_string_lossy().into_owned())
                .map_err(|error| Error::Option(format!("no host name: {error}; give --node-name"))),
        }
    }
}

// === impl Record ===

impl Record {
    fn path(binary: &Path) -> PathBuf {
        let mut name = binary.as_os_str().to_owned();
        name.push(format!(".{RECORD}"));
        PathBuf::from(name)
    }

    /// Reads the record of the last upgrade of `binary`.
    ///
    /// # Errors
    /// When there is none, or it cannot be parsed.
    fn load(binary: &Path) -> Result<Self, Error> {
        let path = Self::path(binary);
        let text = std::fs::read(&path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::Option(format!("`{}`: {error}", path.display())))
    }

    fn save(&self, binary: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        control_pki::write_private(&Self::path(binary), &text).map_err(Error::Pki)
    }

    fn remove(binary: &Path) -> Result<(), Error> {
        let path = Self::path(binary);
        std::fs::remove_file(&path).map_err(|source| Error::File { path, source })
    }
}
