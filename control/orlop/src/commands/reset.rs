//! `orlop reset`: a machine is no node any more.

use std::path::{Path, PathBuf};

use clap::Args;

use super::node_agent::Node;
use crate::error::Error;

/// What to remove besides what the agent left.
#[derive(Args)]
pub struct Options {
    /// Really do it.
    #[arg(long, required = true)]
    yes: bool,
    /// Folder of the node's credentials, removed as well.
    #[arg(long, default_value = "/var/lib/orlop/agent", value_name = "FOLDER")]
    data_dir: PathBuf,
    /// Folder of a server, with its store and its authorities, to be removed as well: then the
    /// cluster itself is gone.
    #[arg(long, value_name = "FOLDER")]
    server_dir: Option<PathBuf>,
    #[command(flatten)]
    node: Node,
}

/// Removes pods, datapath, routes, CNI plugin, volumes, logs, control groups and
/// credentials. `orlop agent`, `node-agent` and `up` must have ended.
///
/// # Errors
/// What could not be removed.
pub async fn run(options: Options) -> Result<(), Error> {
    if !options.yes {
        return Ok(());
    }
    let agent = options.node.complete(None)?;
    node_agent::reset(&agent).await.map_err(Error::NodeAgent)?;
    for folder in std::iter::once(&options.data_dir).chain(&options.server_dir) {
        remove(folder)?;
    }
    println!("this machine is no node any more");
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
