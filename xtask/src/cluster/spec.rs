//! The specification of a test host: written by `up`, read by its first process.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, at};

/// A test host's description, `host.json` in its folder.
#[derive(Debug, Deserialize, Serialize)]
pub struct Host {
    /// The host name.
    pub name: String,
    /// Its control group in every hierarchy, relative to the hierarchy's root.
    pub group: String,
    /// Folders of this machine to be seen under `/mnt` inside: name and source.
    pub binds: Vec<(String, String)>,
    /// The programs to keep running, in order of their start.
    pub programs: Vec<Program>,
}

/// A program that a test host keeps running.
#[derive(Debug, Deserialize, Serialize)]
pub struct Program {
    /// Names its log, `/mnt/logs/NAME.log`.
    pub name: String,
    /// The program with its arguments, by paths as seen inside.
    pub command: Vec<String>,
    /// Whether it gets the inherited API socket.
    #[serde(default)]
    pub socket: bool,
}

impl Host {
    /// Reads a host's description.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub fn load(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("host.json");
        let bytes = std::fs::read(&path).map_err(at(&path))?;
        serde_json::from_slice(&bytes).map_err(|error| at(&path)(error.into()))
    }

    /// Writes it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join("host.json");
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| at(&path)(error.into()))?;
        std::fs::write(&path, bytes).map_err(at(&path))
    }
}
