//! Errors of tasks, with the way out.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Reason why a task could not continue. Each message names the object and the way out.
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
    #[error("cannot access `{}`", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
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
        /// The log.
        log: PathBuf,
    },
    /// A system call.
    #[error("cannot {what}")]
    System {
        /// The operation.
        what: String,
        /// The kernel's error.
        source: nix::Error,
    },
    /// The eBPF build.
    #[error("{0}")]
    Ebpf(#[from] crate::ebpf::Error),
    /// Something that a test or a bench measured is not as it must be.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Returns the message with its causes.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        text
    }
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
