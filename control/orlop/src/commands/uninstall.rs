//! `orlop node-agent uninstall`: returns this machine's Services to another
//! implementation.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use node_agent::{Uninstall, UninstallReport};

use super::service_options::ports;
use crate::{error::Error, values};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop node-agent uninstall --datapath-only --dry-run     list what would be removed
  orlop node-agent uninstall --datapath-only               let connections end for up to 30s first
  orlop node-agent uninstall --datapath-only --drain 0s    remove all at once";

/// What to remove, and how.
#[derive(Args)]
pub struct Options {
    /// Remove what `orlop node-agent --datapath-only` left. To take a whole node out of its
    /// cluster, use `orlop reset`.
    #[arg(long, required = true)]
    datapath_only: bool,
    /// List what would be removed, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    drain: Drain,
    /// Directory of pinned eBPF programs and maps.
    #[arg(long, default_value = node_agent::PINS)]
    pin_dir: PathBuf,
    /// The agent's --client-ports: the reserved ports, if the agent's version keeps no
    /// record.
    #[arg(long, value_parser = ports, default_value = "61000-65535", value_name = "FIRST-LAST")]
    client_ports: (u16, u16),
}

/// How long connections are waited for.
#[derive(Args, Clone, Copy)]
#[group(id = "drain_options")]
pub struct Drain {
    /// Time for which packet programs keep translating known connections, while new ones
    /// are left to kube-proxy; it ends earlier with the last connection. 0s to skip it.
    #[arg(long, value_parser = values::duration, default_value = "30s", value_name = "DURATION")]
    drain: Duration,
}

/// The fate of the datapath when the agent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnExit {
    /// Keep it in force; the next start adopts it.
    Keep,
    /// Remove it: another implementation serves Services from then on.
    Uninstall,
}

/// Removes the datapath, or lists it.
///
/// # Errors
/// If an agent uses it, if pods depend on it, or what could not be removed.
pub fn run(options: &Options) -> Result<(), Error> {
    if !options.datapath_only {
        return Ok(());
    }
    let what = options
        .drain
        .into_uninstall(options.pin_dir.clone(), options.client_ports);
    if options.dry_run {
        let lines = node_agent::installed_datapath(&what).map_err(Error::NodeAgent)?;
        for line in &lines {
            println!("{line}");
        }
        if lines.is_empty() {
            println!("no datapath of Orlop is on this machine");
        }
        return Ok(());
    }
    match remove(&what)? {
        UninstallReport { found: false, .. } => {
            println!("no datapath of Orlop was on this machine");
        }
        UninstallReport { cut: 0, .. } => println!("the datapath is removed"),
        UninstallReport { cut, .. } => {
            println!("the datapath is removed; {cut} connections had not ended");
        }
    }
    Ok(())
}

/// Removes a datapath; says on standard error how many connections are waited for.
///
/// # Errors
/// As [`run`].
pub fn remove(what: &Uninstall) -> Result<UninstallReport, Error> {
    let mut before = 0;
    let waiting = |open: usize| {
        if open != before {
            eprintln!("waiting for {open} connections to end");
            before = open;
        }
    };
    node_agent::uninstall_datapath(what, waiting).map_err(Error::NodeAgent)
}

impl Drain {
    /// The removal of the datapath pinned there.
    pub const fn into_uninstall(self, pin_dir: PathBuf, client_ports: (u16, u16)) -> Uninstall {
        Uninstall {
            pin_dir,
            client_ports,
            drain: self.drain,
        }
    }
}
