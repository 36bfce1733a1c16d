//! `orlop store move`: moves the store from the embedded file to etcd or back, with all
//! keys and values unchanged. A kube-apiserver's etcd is such a store, too.
//!
//! Keys are copied while the cluster works, and later changes follow. Then the server is
//! stopped, the rest is copied, both stores are compared key by key, and the server
//! starts with the new store. Writes wait from the stop to the start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use control_backup::restore::{is_in_use, raise_revision};
use control_backup::transfer::{Comparison, Copy, Target, compare};
use control_store::Revision;
use control_store::embedded::Importer;

use crate::error::Error;
use crate::server_record::{EtcdRecord, ServerRecord};
use crate::stores::{self, MOVED, NamedEtcd, OpenedStore, SOCKET, STORE};

pub const EXAMPLES: &str = "\
Examples:
  orlop store move --to etcd --etcd-servers https://10.0.0.5:2379 --etcd-cafile ca.crt \\
    --stop 'systemctl stop orlop-server' --start 'systemctl start orlop-server'
  orlop store move --to embedded --stop 'systemctl stop orlop-server'";

/// Subcommand.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Copy the store to another one while the cluster works, then change over.
    Move(Move),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    /// An etcd, which --etcd-servers names and which is empty.
    Etcd,
    /// The embedded store in the folder of the server.
    Embedded,
}

#[derive(Args)]
struct Move {
    /// Destination of the store.
    #[arg(long, value_name = "STORE")]
    to: StoreKind,
    /// Folder of the server.
    #[arg(long, default_value = "/var/lib/orlop/server")]
    data_dir: PathBuf,
    /// Command that stops all API servers of the cluster, run by `sh -c`. Without it they have to
    /// be stopped already.
    #[arg(long, value_name = "COMMAND")]
    stop: Option<String>,
    /// Command that starts the server again, with the options that belong to the new store.
    /// Without it the options are printed.
    #[arg(long, value_name = "COMMAND", requires = "stop")]
    start: Option<String>,
    #[command(flatten)]
    etcd: NamedEtcd,
}

/// How long a stopped server may take to let its store go.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// For how long a source must not change after the servers have stopped.
const AT_REST: Duration = Duration::from_secs(1);
/// How many revisions a copy may be behind when the server is stopped, and how often it
/// catches up at most before that.
const NEAR: Revision = 200;
const ROUNDS: usize = 50;

/// Runs the command.
///
/// # Errors
/// A store that cannot be read or written, or differs afterwards; then the old one stays
/// in use.
pub async fn run(options: Options) -> Result<(), Error> {
    match options.command {
        Command::Move(options) => options.run().await,
    }
}

impl Move {
    async fn run(self) -> Result<(), Error> {
        let source = self.source().await?;
        let file = self.data_dir.join(STORE);
        let partial = self.data_dir.join(format!("{STORE}.moving"));
        let target = self.target(&file, &partial).await?;
        let live = match &target {
            Target::Live { store, name } => Some((Arc::clone(store), name.clone())),
            Target::Embedded(_) => None,
        };
        let began = Instant::now();
        let mut copy = Copy::begin(&*source.store, target)
            .await
            .map_err(Error::Backup)?;
        println!(
            "copied {} keys of {} at revision {} in {:.1} s",
            copy.keys(),
            source.name,
            copy.revision(),
            began.elapsed().as_secs_f64()
        );
        for _ in 0..ROUNDS {
            let newest = source.store.latest().await.map_err(Error::Store)?;
            if newest.saturating_sub(copy.revision()) <= NEAR {
                break;
            }
            copy.follow(&*source.store, newest)
                .await
                .map_err(Error::Backup)?;
        }
        if let Some((store, name)) = &live {
            // With the cluster at work, since it may take long.
            raise_revision(&**store, copy.revision() + NEAR, name)
                .await
                .map_err(Error::Backup)?;
        }
        let pause = Instant::now();
        if let Some(command) = &self.stop {
            shell(command)?;
        }
        let moved = self.finish(source, copy, live, &file, &partial).await;
        let (compared, revision) = match moved {
            Ok(moved) => moved,
            Err(error) => {
                let _ = std::fs::remove_file(&partial);
                self.start_again();
                return Err(error);
            }
        };
        println!(
            "{} keys and {} are equal in both stores; the new one stands at revision {revision}",
            compared.keys,
            super::backup::bytes(compared.bytes)
        );
        if let Some(command) = &self.start {
            shell(command)?;
        }
        println!("writes waited for {:.1} s", pause.elapsed().as_secs_f64());
        print!("{}", self.advice());
        Ok(())
    }

    /// The store that is in use.
    async fn source(&self) -> Result<OpenedStore, Error> {
        let source = match self.to {
            StoreKind::Etcd => stores::open(&self.data_dir, &NamedEtcd::default()).await?,
            StoreKind::Embedded => match self.etcd_record() {
                Some(record) => stores::etcd_store(&record).await?,
                None => {
                    return Err(Error::Option(
                        "the server of this folder uses no etcd: name one with --etcd-servers"
                            .to_owned(),
                    ));
                }
            },
        };
        match (self.to, source.kind) {
            (StoreKind::Etcd, "etcd") => Err(Error::Option(format!(
                "the server uses {} already",
                source.name
            ))),
            _ => Ok(source),
        }
    }

    fn etcd_record(&self) -> Option<EtcdRecord> {
        let of_server = || ServerRecord::read(&self.data_dir)?.etcd;
        self.etcd.record().or_else(of_server)
    }

    async fn target(&self, file: &Path, partial: &Path) -> Result<Target, Error> {
        match self.to {
            StoreKind::Etcd => {
                let record = self
                    .etcd
                    .record()
                    .ok_or_else(|| Error::Option("--to etcd needs --etcd-servers".to_owned()))?;
                let etcd = stores::etcd_store(&record).await?;
                Ok(Target::Live {
                    store: etcd.store,
                    name: etcd.name,
                })
            }
            StoreKind::Embedded => {
                // One that was moved away earlier is no store any more.
                if file.exists() && !self.data_dir.join(MOVED).exists() {
                    return Err(Error::Option(format!(
                        "`{}` exists: move it away first",
                        file.display()
                    )));
                }
                std::fs::create_dir_all(&self.data_dir).map_err(of_file(&self.data_dir))?;
                let _ = std::fs::remove_file(partial);
                let importer = Importer::create(partial).map_err(Error::Store)?;
                Ok(Target::Embedded(Box::new(importer)))
            }
        }
    }

    /// Copies the last changes of a source without further writers, compares, and makes
    /// the target the store of this folder.
    async fn finish(
        &self,
        source: OpenedStore,
        mut copy: Copy,
        live: Option<(Arc<dyn control_store::Store>, String)>,
        file: &Path,
        partial: &Path,
    ) -> Result<(Comparison, Revision), Error> {
        let source = self.at_rest(source).await?;
        copy.follow_instead(&*source.store);
        let newest = source.store.latest().await.map_err(Error::Store)?;
        copy.follow(&*source.store, newest)
            .await
            .map_err(Error::Backup)?;
        match (copy.into_target(), live) {
            (Target::Live { .. }, Some((store, name))) => {
                let revision = raise_revision(&*store, newest + 1, &name)
                    .await
                    .map_err(Error::Backup)?;
                let compared = compare(&*source.store, &*store)
                    .await
                    .map_err(Error::Backup)?;
                control_pki::write_private(&self.data_dir.join(MOVED), name.as_bytes())
                    .map_err(Error::Pki)?;
                Ok((compared, revision))
            }
            (Target::Embedded(importer), _) => {
                importer.finish(newest).map_err(Error::Store)?;
                let compared = {
                    let imported = stores::embedded(partial)?;
                    compare(&*source.store, &*imported.store)
                        .await
                        .map_err(Error::Backup)?
                };
                if file.exists() {
                    let aside = self.data_dir.join(format!("{STORE}.before-move"));
                    std::fs::rename(file, &aside).map_err(of_file(&aside))?;
                }
                std::fs::rename(partial, file).map_err(of_file(file))?;
                let _ = std::fs::remove_file(self.data_dir.join(MOVED));
                Ok((compared, newest))
            }
            (Target::Live { .. }, None) => Err(Error::Option("no target".to_owned())),
        }
    }

    /// The source when no server uses it any more.
    async fn at_rest(&self, source: OpenedStore) -> Result<OpenedStore, Error> {
        if source.kind == "embedded" {
            if !self.data_dir.join(SOCKET).exists() && !is_in_use(&self.data_dir) {
                return stores::embedded(&self.data_dir.join(STORE));
            }
            if self.stop.is_none() && is_in_use(&self.data_dir) && self.is_own(&source) {
                // The server did not run: this process has the file.
                return Ok(source);
            }
            let began = Instant::now();
            while is_in_use(&self.data_dir) {
                if began.elapsed() > STOP_TIMEOUT {
                    return Err(Error::Backup(control_backup::Error::StillWritten {
                        target: source.name,
                    }));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            return stores::embedded(&self.data_dir.join(STORE));
        }
        // A terminating server closes its connections first.
        let began = Instant::now();
        while began.elapsed() < STOP_TIMEOUT {
            let before = source.store.latest().await.map_err(Error::Store)?;
            tokio::time::sleep(AT_REST).await;
            if source.store.latest().await.map_err(Error::Store)? == before {
                return Ok(source);
            }
        }
        Err(Error::Backup(control_backup::Error::StillWritten {
            target: source.name,
        }))
    }

    /// Whether a store is a file that this process has open.
    fn is_own(&self, source: &OpenedStore) -> bool {
        source.name == format!("`{}`", self.data_dir.join(STORE).display())
    }

    fn start_again(&self) {
        if let Some(command) = &self.start {
            eprintln!("orlop: the old store stays in use");
            if let Err(error) = shell(command) {
                eprintln!("orlop: {}", crate::run::all_causes(&error));
            }
        } else {
            eprintln!("orlop: the old store stays in use: start the server again as it was");
        }
    }

    fn advice(&self) -> String {
        match (self.to, self.etcd_record()) {
            (StoreKind::Etcd, Some(record)) => {
                let mut options = format!("--etcd-servers {}", record.servers.join(","));
                for (option, path) in [
                    ("--etcd-cafile", &record.ca_file),
                    ("--etcd-certfile", &record.cert_file),
                    ("--etcd-keyfile", &record.key_file),
                ] {
                    if let Some(path) = path {
                        options.push_str(&format!(" {option} {}", path.display()));
                    }
                }
                format!(
                    "the server needs from now on: {options}\n`{}` is the old store: remove it when you do not need it any more\n",
                    self.data_dir.join(STORE).display()
                )
            }
            _ => "the server needs no --etcd-… options from now on; etcd still has the old store\n"
                .to_owned(),
        }
    }
}

fn of_file(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

/// Runs a command of the operator.
pub fn shell(command: &str) -> Result<(), Error> {
    let failed = |detail: String| Error::Program {
        command: command.to_owned(),
        detail,
    };
    let status = std::process::Command::new("sh")
        .args(["-c", command])
        .status()
        .map_err(|error| failed(error.to_string()))?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(status.to_string()))
    }
}
