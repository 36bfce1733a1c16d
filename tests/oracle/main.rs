//! Asks an API server recorded questions and compares its answers with those that
//! a stock Kubernetes server gave; records new ones from a stock server.
//!
//! ```text
//! oracle check  --kubeconfig FILE --answers FILE.jsonl.gz [--only RE] [--show N] [--floors FILE]
//! oracle record --kubeconfig FILE --corpus FOLDER --out FILE.jsonl.gz [--mutants N] [--seed N]
//! oracle record --kubeconfig FILE --questions FILE.jsonl.gz --out FILE.jsonl.gz
//! ```
//!
//! Two levels are told: an answer *agrees* when status code, media type, number of
//! warnings, reason, failing fields and, on success, the whole object are the same;
//! it is *exact* when every text for people is the same too. The server must be
//! alone, with nothing beside it that changes objects, and start empty.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod ask;
mod client;
mod corpus;
mod floors;
mod hook;
mod mutants;
mod normal;
mod recording;
mod verdict;

/// What went wrong, with its cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written, or holds something else.
    #[error("`{path}`: {why}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The server cannot be reached.
    #[error("the server does not answer: {0}")]
    Server(String),
    /// The webhook that questions may speak of cannot be started.
    #[error("no test webhook: {0}")]
    Hook(String),
    /// An expression for groups is none.
    #[error("`--only` is no regular expression")]
    Only(#[source] regex::Error),
    /// Fewer answers agree than the file of floors demands.
    #[error("below the floor: {0}")]
    BelowFloor(String),
}

impl Error {
    /// Something about a file.
    pub fn file(path: impl Into<PathBuf>, why: impl std::fmt::Display) -> Self {
        Self::File {
            path: path.into(),
            why: why.to_string(),
        }
    }
}

#[derive(Parser)]
#[command(about = "Compares an API server's answers with recorded ones")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Asks recorded questions.
    Check(ask::Options),
    /// Records the answers of a stock server.
    Record(recording::Options),
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(async {
            match Arguments::parse().verb {
                Verb::Check(options) => ask::check(&options).await,
                Verb::Record(options) => recording::record(&options).await,
            }
        }),
        Err(error) => Err(Error::Server(error.to_string())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oracle: {error}");
            ExitCode::FAILURE
        }
    }
}
