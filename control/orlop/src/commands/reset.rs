//! `orlop reset`: a machine is no node any more.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::node_agent::Node;
use crate::error::Error;

/// What to remove besides the agent's files.
#[derive(Args)]
pub struct Options {
    /// Really do it.
    #[arg(long, required = true)]
    yes: bool,
    /// Folder of the node's credentials, removed as well.
    #[arg(long, default_value = "/var/lib/orlop/agent", value_name = "FOLDER")]
    data_dir: PathBuf,
    /// Folder of a server, with its store and its authorities, to remove as well: the
    /// cluster itself is then lost.
    #[arg(long, value_name = "FOLDER")]
    pub(super) server_dir: Option<PathBuf>,
    /// Pods on this machine that another kubelet runs or ran. Without this flag nothing is
    /// removed where there are any.
    #[arg(long, value_name = "WHAT")]
    foreign_pods: Option<ForeignPods>,
    #[command(flatten)]
    node: Node,
}

/// The fate of another kubelet's pods.
#[derive(Clone, Copy, ValueEnum)]
enum ForeignPods {
    /// They stay.
    Keep,
    /// Remove them as well.
    Remove,
}

/// Files by which the folder of an agent, and that of a server, is known.
const AGENT_FILES: [&str; 4] = ["kubeconfig", "ca.crt", "client.key", "serving.key"];
const SERVER_FILES: [&str; 3] = ["pki", "store.redb", "admin.kubeconfig"];

/// Removes pods, datapath, routes, CNI plugin, mounts of volumes, logs, control groups and
/// credentials. `orlop agent`, `node-agent` and `up` must have ended.
///
/// # Errors
/// What could not be removed.
pub async fn run(options: Options) -> Result<(), Error> {
    if !options.yes {
        return Ok(());
    }
    // before anything is done
    is_own(&options.data_dir, &AGENT_FILES)?;
    if let Some(folder) = &options.server_dir {
        is_own(folder, &SERVER_FILES)?;
        ensure_stopped(folder)?;
    }
    let foreign = match options.foreign_pods {
        None => node_agent::ForeignPods::Refuse,
        Some(ForeignPods::Keep) => node_agent::ForeignPods::Keep,
        Some(ForeignPods::Remove) => node_agent::ForeignPods::Remove,
    };
    let agent = options.node.complete(None)?;
    node_agent::reset(&agent, foreign)
        .await
        .map_err(Error::NodeAgent)?;
    for folder in std::iter::once(&options.data_dir).chain(&options.server_dir) {
        remove(folder)?;
    }
    remove_volumes(Path::new(node_agent::volumes::FOLDER))?;
    println!("this machine is no node any more");
    Ok(())
}

/// Rejects a folder that has none of the files that Orlop creates.
fn is_own(folder: &Path, files: &[&str]) -> Result<(), Error> {
    let failed = |source| Error::File {
        path: folder.to_owned(),
        source,
    };
    let is_empty = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(failed(error)),
        Ok(mut entries) => entries.next().is_none(),
    };
    if is_empty {
        return Ok(());
    }
    if files.iter().any(|file| folder.join(file).exists()) {
        return Ok(());
    }
    let names = files.join("`, `");
    let why = format!("Orlop did not make it: it has none of `{names}`");
    Err(failed(std::io::Error::other(why)))
}

/// Refuses the folder of a server that runs: it holds its store's lock.
fn ensure_stopped(folder: &Path) -> Result<(), Error> {
    let store = folder.join("store.redb");
    let failed = |source| Error::File {
        path: store.clone(),
        source,
    };
    match File::open(&store) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(file) => match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(Error::Option(format!(
                "a server uses `{}`: end it first",
                store.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        },
    }
}

/// Removes the folder of local volumes unless it has some: their data is not the node's.
fn remove_volumes(folder: &Path) -> Result<(), Error> {
    let unused = node_agent::volumes::remove_unused(folder).map_err(|source| Error::File {
        path: folder.to_owned(),
        source,
    })?;
    if unused {
        // Ours as well, unless others keep something in it.
        let _ = folder.parent().map(std::fs::remove_dir);
    } else {
        println!(
            "{} stays, with local volumes or a driver that runs: remove it if nobody needs the data",
            folder.display()
        );
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(folder) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::File {
            path: folder.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_server_that_runs_is_refused() {
        use control_store::embedded::{EmbeddedStore, Options};
        let folder = tempfile::tempdir().expect("temporary folder");
        assert!(ensure_stopped(folder.path()).is_ok(), "no store");
        let store = folder.path().join("store.redb");
        let store = EmbeddedStore::open(store, Options::default()).expect("a store");
        let refused = ensure_stopped(folder.path())
            .expect_err("in use")
            .to_string();
        assert!(refused.contains("end it first"), "{refused}");
        drop(store);
        assert!(ensure_stopped(folder.path()).is_ok());
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path();
        assert!(is_own(path, &AGENT_FILES).is_ok(), "empty");
        assert!(is_own(&path.join("none"), &AGENT_FILES).is_ok());
        std::fs::write(path.join("thesis.txt"), "").expect("written");
        let refused = is_own(path, &AGENT_FILES).expect_err("refused");
        assert!(matches!(refused, Error::File { .. }));
        std::fs::write(path.join("kubeconfig"), "").expect("written");
        assert!(is_own(path, &AGENT_FILES).is_ok());
        assert!(is_own(path, &SERVER_FILES).is_err());
    }
}
