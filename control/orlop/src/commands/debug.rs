//! `orlop debug`: shows the actual state of a node.

use std::path::PathBuf;

use clap::Subcommand;

use crate::error::Error;

/// Subcommand.
#[derive(Subcommand)]
pub enum Command {
    /// Print the contents of the eBPF maps: services, backends, counters.
    Services {
        /// Directory of pinned eBPF programs and maps.
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
