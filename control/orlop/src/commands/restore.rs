//! `orlop restore`: a backup becomes the folder of a server, the first member of a managed etcd, a
//! file for etcd, or the content of an etcd.

mod managed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use control_backup::BackupName;
use control_backup::archive::ArchiveReader;
use control_backup::place::{Address, Place, StoredBackup};
use control_backup::restore::{
    DataFolder, RestoreSummary, restore_embedded, restore_etcd_file, restore_live,
    restored_revision,
};
use control_etcd::Record;
use jiff::Timestamp;

use crate::backups::{self, S3};
use crate::error::Error;
use crate::server_record::ServerRecord;
use crate::stores::{self, NamedEtcd, STORE};

pub const EXAMPLES: &str = "\
Examples:
  orlop restore --identity /root/backup.key /var/backups/orlop/orlop-….backup.age
  orlop restore --identity /root/backup.key /var/backups/orlop                     # the newest
  orlop restore --identity /root/backup.key s3://backups/cluster1 --at 2026-11-26T08:00:00Z
  orlop restore --identity /root/backup.key /var/backups/orlop --etcd managed
  orlop restore --identity /root/backup.key /var/backups/orlop --etcd-snapshot /root/etcd.db";

/// Backup and destination.
#[derive(Args)]
pub struct Options {
    /// The backup: a file or s3://BUCKET/PREFIX/NAME; or a folder or s3://BUCKET/PREFIX, of which
    /// the newest backup is taken.
    #[arg(value_name = "BACKUP")]
    backup: Address,
    /// Take the newest backup of the folder or bucket that was made until then.
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Take backups of this cluster alone: the first eight digits that `orlop backup list` shows.
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// File of an identity of age that can read the backup.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Folder of the server: gets the store and the keys.
    #[arg(long, default_value = "/var/lib/orlop/server")]
    data_dir: PathBuf,
    /// Replace the contents of the folder; they are kept beside it.
    #[arg(long)]
    replace: bool,
    /// Restore the store alone, into etcd, and leave the folder of the server as it is.
    #[arg(long)]
    store_only: bool,
    /// Restore into a new file for `etcdctl snapshot restore` or `etcdutl snapshot restore`.
    #[arg(long, value_name = "FILE", conflicts_with = "etcd_servers")]
    etcd_snapshot: Option<PathBuf>,
    #[command(flatten)]
    managed: managed::Options,
    #[command(flatten)]
    etcd: NamedEtcd,
    /// With --etcd-servers: upper bound of revisions made after the backup. The revision
    /// is raised by it, so that no client's watch goes backwards.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 100_000,
        requires = "etcd_servers"
    )]
    revisions_ahead: u64,
    #[command(flatten)]
    s3: S3,
}

/// Runs the command.
///
/// # Errors
/// What cannot be read or written; nothing is changed then.
pub async fn run(options: Options) -> Result<(), Error> {
    let identities = backups::identities(options.identity.as_deref())?;
    let to_etcd = options.etcd_snapshot.is_some() || options.etcd.record().is_some();
    if options.store_only && !to_etcd {
        return Err(Error::Option(
            "--store-only needs --etcd-servers or --etcd-snapshot: the embedded store is a part of the folder".to_owned(),
        ));
    }
    if !options.store_only
        && ServerRecord::read(&options.data_dir).is_some_and(|server| server.is_running())
    {
        return Err(Error::Option(format!(
            "the server of `{}` runs: stop it first",
            options.data_dir.display()
        )));
    }
    let member = match options.managed.is_wanted() {
        true => Some(options.managed.record()?),
        false => None,
    };
    let etcd = match options.etcd.record() {
        Some(record) => Some(stores::etcd_store(&record).await?),
        None => None,
    };
    let work = move || -> Result<String, Error> {
        let (place, name) = options.choose()?;
        let open = || {
            let file = place.open(&name)?;
            ArchiveReader::new(file, &identities)
        };
        // Before anything is read, since it refuses.
        let folder = match options.store_only {
            true => None,
            false => {
                Some(DataFolder::begin(&options.data_dir, options.replace).map_err(Error::Backup)?)
            }
        };
        let archive = open().map_err(Error::Backup)?;
        let now = Timestamp::now();
        let restored = match (&etcd, &options.etcd_snapshot, &folder) {
            (Some(etcd), _, _) => {
                restore_live(archive, &etcd.store, &etcd.name, options.revisions_ahead)
            }
            (None, Some(file), _) => restore_etcd_file(archive, file, |about| {
                restored_revision(about.revision, about.created, now, None)
            }),
            (None, None, Some(folder)) if member.is_some() => {
                restore_etcd_file(archive, &managed::snapshot(folder), |about| {
                    restored_revision(about.revision, about.created, now, None)
                })
            }
            (None, None, Some(folder)) => {
                let replaced = replaced_revision(&options.data_dir);
                restore_embedded(archive, &folder.path(STORE), |about| {
                    restored_revision(about.revision, about.created, now, replaced)
                })
            }
            (None, None, None) => return Ok(String::new()),
        };
        let restored = restored.map_err(Error::Backup)?;
        let aside = match folder {
            Some(folder) => {
                folder.write(&restored.files).map_err(Error::Backup)?;
                if let Some(member) = &member {
                    options.managed.make(member, &folder)?;
                }
                folder.install(now).map_err(Error::Backup)?
            }
            None => None,
        };
        let next = options.next(member.as_ref());
        Ok(report(&options, &name, &restored, aside.as_deref()) + &next)
    };
    let text = tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    print!("{text}");
    Ok(())
}

impl Options {
    /// Returns the next steps.
    fn next(&self, member: Option<&Record>) -> String {
        let folder = self.data_dir.display();
        if let Some(member) = member {
            return managed::next(member, &self.data_dir);
        }
        match (&self.etcd_snapshot, self.etcd.record()) {
            (Some(file), _) => format!(
                "next: on each member, etcdctl snapshot restore {} --data-dir NEW-FOLDER (and --name, --initial-cluster and --initial-advertise-peer-urls with several), then start etcd and the servers\n",
                file.display()
            ),
            (None, Some(etcd)) => format!(
                "next: start the server with --data-dir {folder} --etcd-servers {}\n",
                etcd.servers.join(",")
            ),
            (None, None) => format!("next: start the server with --data-dir {folder}\n"),
        }
    }

    /// The backup that the command line means.
    fn choose(&self) -> Result<(Arc<dyn Place>, String), Error> {
        let named = self.backup.split().ok().filter(|(_, name)| {
            // A folder may be called anything.
            BackupName::parse(name).is_some()
                || matches!(&self.backup, Address::Path(path) if path.is_file())
        });
        if let Some((place, name)) = named {
            return Ok((self.s3.place(&place)?, name));
        }
        let place = self.s3.place(&self.backup)?;
        let found = place.list().map_err(Error::Backup)?;
        let name = newest(&found, self.cluster.as_deref(), self.at)
            .map_err(|why| Error::Option(format!("{}: {why}", place.describe())))?;
        Ok((place, name.to_string()))
    }
}

/// Why no backup is the one that is meant.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum BackupChoiceError {
    /// None is of the cluster and time.
    #[error("there is no such backup, see `orlop backup list`")]
    NoBackup,
    /// The place has backups of several clusters.
    #[error("there are backups of several clusters: name one with --cluster")]
    SeveralClusters,
}

/// The newest backup of those that are wanted.
fn newest<'f>(
    found: &'f [StoredBackup],
    cluster: Option<&str>,
    at: Option<Timestamp>,
) -> Result<&'f BackupName, BackupChoiceError> {
    let wanted: Vec<&BackupName> = found
        .iter()
        .map(|stored| &stored.name)
        .filter(|name| cluster.is_none_or(|cluster| name.cluster == cluster))
        .filter(|name| at.is_none_or(|at| name.created <= at))
        .collect();
    let newest = wanted
        .iter()
        .max_by_key(|name| (name.created, name.revision));
    let newest = newest.ok_or(BackupChoiceError::NoBackup)?;
    if wanted.iter().any(|name| name.cluster != newest.cluster) {
        return Err(BackupChoiceError::SeveralClusters);
    }
    Ok(newest)
}

/// The revision of a store that is replaced, if it can be read.
fn replaced_revision(data_dir: &Path) -> Option<u64> {
    let inspected = control_store::embedded::inspect(&data_dir.join(STORE));
    inspected.ok().map(|(_, revision)| revision)
}

fn report(
    options: &Options,
    name: &str,
    restored: &RestoreSummary,
    aside: Option<&Path>,
) -> String {
    let about = &restored.manifest.about;
    let mut out = format!(
        "restored {name}: {} keys of revision {}, made {}\nthe store begins at revision {}: clients list again\n",
        restored.manifest.keys, about.revision, about.created, restored.revision
    );
    let external: Vec<&str> = restored
        .files
        .iter()
        .filter_map(|file| file.name.strip_prefix(backups::EXTERNAL))
        .filter(|path| *path != crate::server_record::FILE)
        .collect();
    let folder = options.data_dir.display();
    if !options.store_only {
        out.push_str(&format!("{} files are in {folder}\n", restored.files.len()));
        for path in external {
            out.push_str(&format!(
                "copy {folder}/{}{path} to /{path}, where the server had it\n",
                backups::EXTERNAL
            ));
        }
    }
    if let Some(aside) = aside {
        out.push_str(&format!("what was there is in {}\n", aside.display()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str) -> StoredBackup {
        StoredBackup {
            name: BackupName::parse(name).unwrap(),
            size: 1,
        }
    }

    #[test]
    fn the_newest_backup_until_a_time_is_chosen() {
        let found = [
            stored("orlop-aaaaaaaa-20261126T080000Z-r8.backup"),
            stored("orlop-aaaaaaaa-20261126T060000Z-r6.backup"),
            stored("orlop-bbbbbbbb-20261126T070000Z-r7.backup"),
        ];
        let at = |text: &str| Some(text.parse().unwrap());
        let revision = |cluster, at| newest(&found, cluster, at).map(|name| name.revision);
        assert_eq!(revision(Some("aaaaaaaa"), None), Ok(8));
        assert_eq!(
            revision(Some("aaaaaaaa"), at("2026-11-26T07:30:00Z")),
            Ok(6)
        );
        assert!(revision(None, None).is_err(), "two clusters");
        assert_eq!(revision(None, at("2026-11-26T06:00:00Z")), Ok(6));
        assert!(revision(Some("cccccccc"), None).is_err());
    }
}
