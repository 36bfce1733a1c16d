//! `orlop down`: the end of what `orlop up`, a server or an agent made on this machine.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use tokio::process::Command;

use super::{reset, up};
use crate::error::Error;

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop down --yes     stop the units, remove pods, network and state; the cluster is lost
  apt purge orlop      the same, and remove programs and /etc/orlop";

/// The units of the package.
const UNITS: [&str; 3] = [
    "orlop.service",
    "orlop-server.service",
    "orlop-agent.service",
];
/// Where packages and administrators put units.
const UNIT_FOLDERS: [&str; 2] = ["/usr/lib/systemd/system", "/etc/systemd/system"];
/// The folder of the server unless another one is given.
const SERVER: &str = "/var/lib/orlop/server";

/// What to remove, and whether.
#[derive(Args)]
#[group(id = "down_options")]
pub struct Options {
    #[command(flatten)]
    reset: reset::Options,
}

/// Stops and disables the units, then removes pods, datapath, network and the state of node and
/// server. Nothing is removed while `orlop up` runs in the foreground.
///
/// # Errors
/// Units that do not stop, and what could not be removed.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut reset = options.reset;
    reset.server_dir.get_or_insert_with(|| SERVER.into());
    if Path::new("/run/systemd/system").is_dir() {
        stop(&installed(&UNIT_FOLDERS)).await?;
    }
    reset::run(reset).await?;
    // Other files of its folder are options, which the next cluster has, too.
    match std::fs::remove_file(up::KUBECONFIG) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::File {
            path: up::KUBECONFIG.into(),
            source,
        }),
        _ => Ok(()),
    }
}

/// The units that are in one of these folders.
fn installed(folders: &[&str]) -> Vec<&'static str> {
    let is_there = |unit: &&str| {
        folders
            .iter()
            .any(|it| PathBuf::from(it).join(unit).exists())
    };
    UNITS.into_iter().filter(is_there).collect()
}

async fn stop(units: &[&str]) -> Result<(), Error> {
    if units.is_empty() {
        return Ok(());
    }
    let status = Command::new("systemctl")
        .args(["--quiet", "disable", "--now"])
        .args(units)
        .status()
        .await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Option(format!(
            "systemctl disable --now {}: {status}; see `systemctl status`",
            units.join(" ")
        ))),
        Err(source) => Err(Error::File {
            path: "systemctl".into(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_units_that_are_installed_are_stopped() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().to_str().expect("a name");
        assert!(installed(&[path]).is_empty());
        std::fs::write(folder.path().join("orlop.service"), "").expect("written");
        assert_eq!(installed(&["/none", path]), ["orlop.service"]);
    }
}
