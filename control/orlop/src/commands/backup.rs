//! `orlop backup`: makes, lists and verifies backups of a cluster's store and keys.

mod verify;

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use control_backup::age::{Identity, Recipient};
use control_backup::create::{Request, create};
use control_backup::place::{Address, StoredBackup};
use jiff::Timestamp;
use serde_json::json;

use crate::backups::{self, S3};
use crate::error::Error;
use crate::stores::{self, NamedEtcd};

pub const EXAMPLES: &str = "\
Examples:
  orlop backup keygen --file /root/backup.key       # prints the recipient, age1…
  orlop backup create --to /var/backups/orlop --recipient age1…
  orlop backup create --to s3://backups/cluster1 --s3-endpoint https://s3.example.com --recipient age1…
  orlop backup list --from /var/backups/orlop
  orlop backup verify --identity /root/backup.key /var/backups/orlop/orlop-….backup.age";

/// Subcommand and options.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Back up the store and the keys of the server on this machine, or an etcd, while they are
    /// in use.
    Create(Create),
    /// List the backups of a folder or bucket.
    List(List),
    /// Verify a whole backup: checksums, every object, and missing parts.
    Verify(verify::Verify),
    /// Make a key for backups and print its recipient.
    Keygen(Keygen),
}

#[derive(Args)]
struct Create {
    /// Destination of the backup: a folder, or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "PLACE")]
    to: Address,
    /// age recipient (`age1…`) that the backup is encrypted for. May be repeated.
    #[arg(long, value_name = "RECIPIENT")]
    recipient: Vec<Recipient>,
    /// Do not encrypt: readers of the backup get all keys and Secrets of the cluster.
    #[arg(long)]
    plain: bool,
    /// Folder of the server's store, authorities and keys.
    #[arg(long, default_value = "/var/lib/orlop/server")]
    data_dir: PathBuf,
    #[command(flatten)]
    etcd: NamedEtcd,
    #[command(flatten)]
    s3: S3,
}

#[derive(Args)]
struct List {
    /// Location of the backups: a folder, or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "PLACE")]
    from: Address,
    #[command(flatten)]
    s3: S3,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Keygen {
    /// The new file of the key.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// What cannot be read or written.
pub async fn run(options: Options) -> Result<(), Error> {
    match options.command {
        Command::Create(options) => options.run().await,
        Command::List(options) => options.run().await,
        Command::Verify(options) => options.run().await,
        Command::Keygen(options) => options.run(),
    }
}

impl Create {
    async fn run(self) -> Result<(), Error> {
        let recipients = backups::recipients(&self.recipient, self.plain, "--")?;
        let opened = stores::open(&self.data_dir, &self.etcd).await?;
        let files = backups::server_files(&self.data_dir)?;
        if files.is_empty() {
            eprintln!(
                "orlop: `{}` has no keys of a server: the backup holds the store alone",
                self.data_dir.display()
            );
        }
        let about = backups::about(&*opened.store, opened.kind).await?;
        let place = self.s3.place(&self.to)?;
        let created = create(
            Arc::clone(&opened.store),
            Request {
                about,
                files,
                recipients,
                place: Arc::clone(&place),
            },
        )
        .await
        .map_err(Error::Backup)?;
        let manifest = &created.manifest;
        println!("{}", created.name);
        println!(
            "{} keys and {} files at revision {}, {} of {}, in {:.1} s, to {}",
            manifest.keys,
            manifest.files.len(),
            manifest.about.revision,
            bytes(created.size),
            opened.name,
            created.took.as_secs_f64(),
            place.describe()
        );
        Ok(())
    }
}

impl List {
    async fn run(self) -> Result<(), Error> {
        let place = self.s3.place(&self.from)?;
        let found = tokio::task::spawn_blocking(move || place.list())
            .await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
            .map_err(Error::Backup)?;
        if self.json {
            let rows: Vec<_> = found.iter().map(row).collect();
            println!("{}", json!({ "backups": rows }));
        } else {
            print!("{}", table(&found, Timestamp::now()));
        }
        Ok(())
    }
}

fn row(stored: &StoredBackup) -> serde_json::Value {
    json!({
        "name": stored.name.to_string(),
        "cluster": stored.name.cluster,
        "created": stored.name.created.to_string(),
        "revision": stored.name.revision,
        "size": stored.size,
        "encrypted": stored.name.encrypted,
    })
}

fn table(found: &[StoredBackup], now: Timestamp) -> String {
    let rows: Vec<[String; 6]> = found
        .iter()
        .map(|stored| {
            let name = &stored.name;
            [
                name.to_string(),
                crate::status::age(name.created, now),
                bytes(stored.size),
                name.revision.to_string(),
                name.cluster.clone(),
                if name.encrypted { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    crate::table::table(
        ["NAME", "AGE", "SIZE", "REVISION", "CLUSTER", "ENCRYPTED"],
        &rows,
    )
}

/// A number of bytes for people.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = u32::try_from(count).map_or(count as f64, f64::from);
    let mut unit = "B";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" {
        format!("{count} B")
    } else {
        format!("{value:.1} {unit}")
    }
}

impl Keygen {
    fn run(self) -> Result<(), Error> {
        use std::io::Write as _;
        let failed = |error| Error::Backup(control_backup::Error::Age(error));
        let identity = Identity::generate().map_err(failed)?;
        let recipient = identity.recipient().map_err(failed)?;
        let text = format!(
            "# created: {}\n# public key: {recipient}\n{}\n",
            Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            identity.secret()
        );
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.file)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|source| Error::File {
                path: self.file.clone(),
                source,
            })?;
        println!("{recipient}");
        eprintln!(
            "orlop: keep `{}` away from the cluster: without it no backup can be read",
            self.file.display()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use control_backup::BackupName;

    use super::*;

    #[test]
    fn the_list_tells_age_size_and_revision() {
        let name = "orlop-1b2c3d4e-20261126T195310Z-r7.backup.age";
        let found = [StoredBackup {
            name: BackupName::parse(name).unwrap(),
            size: 5 << 20,
        }];
        let now = "2026-11-26T21:53:10Z".parse().unwrap();
        let table = table(&found, now);
        let line = table.lines().nth(1).unwrap();
        for word in [name, "2h", "5.0 MiB", "7", "1b2c3d4e", "yes"] {
            assert!(line.contains(word), "{table}");
        }
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }
}
