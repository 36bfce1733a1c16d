//! `orlop debug`: what a node really does.

use std::path::PathBuf;

use clap::Subcommand;

use crate::error::Error;

/// What to look at.
#[derive(Subcommand)]
pub enum Command {
    /// What the eBPF maps hold, in words: services, backends, counters.
    Services {
        /// Where eBPF programs and maps are pinned.
        #[arg(long, default_value = node_agent::PINS)]
        pin_dir: PathBuf,
    },
}

/// Prints it.
///
/// # Errors
/// When there are no maps, or they cannot be read.
pub fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Services { pin_dir } => {
            print!(
                "{}",
                node_agent::inspect(&pin_dir).map_err(Error::NodeAgent)?
            );
            Ok(())
        }
    }
}
