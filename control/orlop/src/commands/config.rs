//! `orlop config`: what may stand in the file of `--config`.

use std::io::Write as _;

use clap::Args;

use crate::{config, error::Error};

/// Of which command.
#[derive(Args)]
pub struct Options {
    /// The command whose file is printed.
    #[arg(value_parser = config::COMMANDS)]
    command: String,
}

/// Prints the file.
///
/// # Errors
/// When nobody reads it.
pub fn run(options: &Options, program: clap::Command) -> Result<(), Error> {
    let text = config::printed(program, &options.command);
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(Error::Start)
}
