//! What stops a task, and the way on.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a task could not go on. Each message names the thing and the way out.
#[derive(Debug, Error)]
pub enum Error {
    /// A program, package or file that the machine lacks.
    #[error("{what} is missing: {how}")]
    Missing {
        /// The thing.
        what: String,
        /// How to get it.
        how: String,
    },
    /// A program that was started and failed.
    #[error("`{command}` failed ({status}){output}")]
    Command {
        /// The program with its arguments.
        command: String,
        /// How it ended.
        status: String,
        /// Its last lines, if it was run quietly.
        output: String,
    },
    /// A file or folder.
    #[error("`{}`: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The cluster is not in a state in which the task makes sense.
    #[error("{0}")]
    State(String),
    /// Something did not happen in time.
    #[error("waited {seconds} s for {what}: see `{}`", log.display())]
    Timeout {
        /// What was awaited.
        what: String,
        /// How long, in seconds.
        seconds: u64,
        /// Where to look.
        log: PathBuf,
    },
    /// A system call.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: nix::Error,
    },
    /// The eBPF build.
    #[error("{0}")]
    Ebpf(#[from] crate::ebpf::Error),
    /// Something that a test or a bench measured is not as it must be.
    #[error("{0}")]
    Failed(String),
}

/// Names the file in an I/O error: `read(path).map_err(at(path))`.
pub fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    |source| Error::File {
        path: path.to_owned(),
        source,
    }
}

/// Names the action in a system call's error.
pub fn while_doing(what: impl Into<String>) -> impl FnOnce(nix::Error) -> Error {
    |source| Error::System {
        what: what.into(),
        source,
    }
}
