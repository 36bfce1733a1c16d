//! Packs programs that are built already. `cargo xtask dist` builds them and runs this; it is a
//! crate of its own, so that nobody who only brings a cluster up compiles what writes packages.
//!
//! ```text
//! programs ─► Contents (files of the machine) ─┬─► tarball
//!                                              ├─► .deb
//!                                              ├─► .rpm
//!                                              └─► OCI image ─► air-gap bundle
//! Cargo.lock ─► SBOM, licences          all of them ─► SHA256SUMS ─► signature
//! ```
//!
//! The same programs make the same bytes: files are sorted and have one date,
//! `SOURCE_DATE_EPOCH`, or else that of the last commit.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

mod bundle;
mod contents;
mod crates;
mod deb;
mod error;
mod image;
mod licences;
mod pack;
mod rpms;
mod sbom;
mod signature;
mod sizes;
mod tarball;
mod target;

#[derive(Parser)]
#[command(about = "Packs Orlop's programs", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Write all artefacts of the given programs.
    Pack(pack::Options),
    /// Write the Debian package of the given programs, under any version.
    Deb(pack::DebOptions),
    /// Make a key pair: NAME.key signs, NAME.pub verifies.
    Keygen {
        /// Where the pair goes, without an ending.
        name: PathBuf,
    },
    /// Check the sums, and with a public key the signature, of a folder of artefacts.
    Verify {
        /// The folder.
        folder: PathBuf,
        /// The public key.
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Pack(options) => pack::pack(&options),
        Verb::Deb(options) => pack::pack_deb(&options),
        Verb::Keygen { name } => signature::generate(&name),
        Verb::Verify { folder, key } => signature::verify(&folder, key.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orlop: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}
