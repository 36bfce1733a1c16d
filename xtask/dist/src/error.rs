//! Errors of packaging.

use std::path::{Path, PathBuf};

/// Reason why no artefact is made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A program that is not there.
    #[error("`{}` is missing: build it, or name its folder with --programs", .0.display())]
    NoProgram(PathBuf),
    /// A program for another machine.
    #[error("`{}` is for {found}, not for {wanted}", path.display())]
    OtherMachine {
        /// The path.
        path: PathBuf,
        /// The actual target.
        found: String,
        /// The expected target.
        wanted: String,
    },
    /// A program that is not an ELF file.
    #[error("`{}` is no program", path.display())]
    NoElf {
        /// The path.
        path: PathBuf,
        /// The reason.
        #[source]
        source: object::Error,
    },
    /// A program that was run for its version, manual pages or completions and failed.
    #[error("`{command}` failed: {output}")]
    Run {
        /// The command.
        command: String,
        /// Its output.
        output: String,
    },
    /// A program above its limit.
    #[error("`orlop` has {bytes} bytes, {limit} are allowed: SIZES.txt lists its parts")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The most.
        limit: u64,
    },
    /// A target that is not known.
    #[error(
        "`{0}` is no target that packages are made for: x86_64 or aarch64, -linux-musl or -gnu"
    )]
    Target(String),
    /// The RPM package.
    #[error("cannot write the .rpm")]
    Rpm(#[source] rpm::Error),
    /// `cargo metadata`.
    #[error("cannot read the crates")]
    Metadata(#[source] cargo_metadata::Error),
    /// Keys and signatures.
    #[error("cannot sign or verify")]
    Signature(#[source] minisign::PError),
    /// Files do not match their sums.
    #[error("{0}")]
    Sums(String),
    /// An invalid date.
    #[error("SOURCE_DATE_EPOCH is `{0}`; it must be a number of seconds")]
    Epoch(String),
}

/// Names the file in an I/O error.
pub fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    |source| Error::File {
        path: path.to_owned(),
        source,
    }
}
