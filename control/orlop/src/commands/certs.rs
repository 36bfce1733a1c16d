//! `orlop certs`: the certificates of a server on this machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use control_pki::Authority;
use jiff::{SignedDuration, Timestamp};

use crate::{error::Error, token_keys};

/// Certificates that a running server renews.
const LEAVES: [&str; 4] = [
    "admin",
    "apiserver",
    "apiserver-kubelet-client",
    "front-proxy-client",
];
/// Names that can be renewed manually.
const NAMES: [&str; 5] = [
    "admin",
    "apiserver",
    "apiserver-kubelet-client",
    "front-proxy-client",
    SERVICE_ACCOUNT,
];
/// The key of service accounts' tokens.
const SERVICE_ACCOUNT: &str = "service-account";
/// How long a running server takes at most to notice.
const PATIENCE: Duration = Duration::from_secs(40);

/// Server and subcommand.
#[derive(Args)]
pub struct Options {
    /// Folder of the server's store, authorities and keys.
    #[arg(long, global = true, default_value = "/var/lib/orlop/server")]
    data_dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

/// Subcommand.
#[derive(Subcommand)]
enum Command {
    /// Show the certificates and how long they are good.
    Status,
    /// Renew certificates now; a running server uses them within seconds.
    Rotate {
        /// Certificates to renew; all except the authorities and service-account unless
        /// given. The latter is the key that signs service accounts' tokens: tokens of
        /// the old key stay valid until its sa-TIME.pub is deleted.
        #[arg(value_parser = NAMES, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Runs the command.
///
/// # Errors
/// Unusable files.
pub async fn run(options: Options) -> Result<(), Error> {
    let dir = options.data_dir.join("pki");
    match options.command {
        Command::Status => {
            print!("{}", status(&dir, Timestamp::now())?);
            Ok(())
        }
        Command::Rotate { names } => {
            let names = if names.is_empty() {
                LEAVES.map(str::to_owned).to_vec()
            } else {
                names
            };
            let (keys, names): (Vec<_>, Vec<_>) =
                names.into_iter().partition(|name| name == SERVICE_ACCOUNT);
            check_signers(&dir, &names)?;
            if !keys.is_empty() {
                let kept = token_keys::rotate(&dir, Timestamp::now())?;
                println!(
                    "another key signs service accounts' tokens; delete {} when no token of the \
                     old one is in use any more",
                    kept.display()
                );
            }
            if names.is_empty() {
                return Ok(());
            }
            rotate(&dir, &names).await
        }
    }
}

fn unusable(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

/// A table of the certificates in a folder.
fn status(dir: &Path, now: Timestamp) -> Result<String, Error> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unusable(dir))? {
        let path = entry.map_err(unusable(dir))?.path();
        if path.extension().is_none_or(|end| end != "crt") {
            continue;
        }
        let pem = std::fs::read_to_string(&path).map_err(unusable(&path))?;
        let (begins, expires) = control_pki::validity(&pem, &path).map_err(Error::Pki)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        rows.push(row(&name, begins, expires, now));
    }
    rows.sort();
    let head = ["NAME", "EXPIRES", "LEFT", "RENEWED"].map(str::to_owned);
    let mut out = String::new();
    for [name, expires, left, renewed] in std::iter::once(head).chain(rows) {
        out.push_str(&format!("{name:<26} {expires:<22} {left:<9} {renewed}\n"));
    }
    Ok(out)
}

fn row(name: &str, begins: Timestamp, expires: Timestamp, now: Timestamp) -> [String; 4] {
    let left = expires.duration_since(now);
    let left = if left.is_negative() {
        "expired".to_owned()
    } else if left < SignedDuration::from_hours(48) {
        format!("{}h", left.as_hours())
    } else {
        format!("{}d", left.as_hours() / 24)
    };
    let renewed = if LEAVES.contains(&name) {
        let at = expires - expires.duration_since(begins) / 3;
        format!("by the server on {}", at.strftime("%Y-%m-%d"))
    } else {
        "by hand".to_owned()
    };
    let expires = expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    [name.to_owned(), expires, left, renewed]
}

/// Checks that the authorities are there which sign these certificates: without them a server
/// could not make others, nor start.
fn check_signers(dir: &Path, names: &[String]) -> Result<(), Error> {
    for name in names {
        let authority = match name.as_str() {
            "front-proxy-client" => "front-proxy-ca",
            _ => "ca",
        };
        if Authority::load(dir, authority)
            .map_err(Error::Pki)?
            .is_none()
        {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(unusable(&dir.join(format!("{authority}.crt")))(missing));
        }
    }
    Ok(())
}

/// Deletes certificates and waits until a server has made others.
async fn rotate(dir: &Path, names: &[String]) -> Result<(), Error> {
    for name in names {
        // The certificate first: a key without one is of no use to anybody.
        for end in ["crt", "key"] {
            let path = dir.join(format!("{name}.{end}"));
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(unusable(&path)(error));
                }
                _ => {}
            }
        }
    }
    let began = Instant::now();
    let there = |name: &String| {
        ["crt", "key"]
            .iter()
            .all(|end| dir.join(format!("{name}.{end}")).exists())
    };
    while !names.iter().all(there) {
        if began.elapsed() > PATIENCE {
            println!("no server is running here: they are made at its next start");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("made anew: {}", names.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_what_is_left_and_who_renews() {
        let day = |days: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(days * 24);
        assert_eq!(
            row("apiserver", day(0), day(300), day(100)),
            [
                "apiserver",
                "1970-10-28T00:00:00Z",
                "200d",
                "by the server on 1970-07-20"
            ]
        );
        let gone = row("ca", day(0), day(10), day(11));
        assert_eq!((gone[2].as_str(), gone[3].as_str()), ("expired", "by hand"));
    }

    #[tokio::test]
    async fn nothing_is_deleted_where_no_authority_could_sign_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let pki = control_pki::Cluster::load_or_create(dir.path().join("pki")).expect("keys");
        pki.administrator().expect("issued");
        let before = pki.service_account_key.public_pem();
        std::fs::remove_file(pki.dir.join("ca.key")).expect("removed");
        let rotate = |names: &[&str]| {
            run(Options {
                data_dir: dir.path().to_owned(),
                command: Command::Rotate {
                    names: names.iter().map(|name| (*name).to_owned()).collect(),
                },
            })
        };
        assert!(rotate(&["admin"]).await.is_err());
        assert!(pki.dir.join("admin.crt").exists());
        assert!(rotate(&["service-account", "admin"]).await.is_err());
        let key = control_pki::ServiceAccountKey::load(&pki.dir.join("sa.key")).expect("a key");
        assert_eq!(key.public_pem(), before, "the key is the old one");
    }

    #[tokio::test]
    async fn status_reads_what_a_cluster_has() {
        let dir = tempfile::tempdir().expect("a directory");
        let pki = control_pki::Cluster::load_or_create(dir.path()).expect("keys");
        pki.administrator().expect("issued");
        let table = status(dir.path(), Timestamp::now()).expect("a table");
        let names: Vec<_> = table
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(
            names,
            ["NAME", "admin", "ca", "front-proxy-ca", "kubelet-ca"]
        );
    }
}
