//! `orlop config`: prints a complete file for `--config`.

use clap::Args;

use crate::config;

/// The command of the file.
#[derive(Args)]
pub struct Options {
    /// The command whose file is printed.
    #[arg(value_parser = config::COMMANDS)]
    command: String,
}

/// Prints the file.
pub fn run(options: &Options, program: clap::Command) {
    print!("{}", config::printed(program, &options.command));
}
