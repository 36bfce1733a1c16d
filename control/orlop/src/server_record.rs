//! The server's record for commands on its machine: a file in its folder, which is
//! written at every start and stays when it ends.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The name of the file.
pub const FILE: &str = "server.json";

/// The server that started last in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerRecord {
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The program's file.
    pub executable: PathBuf,
    /// Its command line, without the program.
    pub arguments: Vec<String>,
    /// The etcd that it uses; none with the embedded store.
    pub etcd: Option<EtcdRecord>,
    /// Files outside of the folder without which its store cannot be read, or its tokens are
    /// not believed.
    pub files: Vec<PathBuf>,
}

/// How a server reaches its etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdRecord {
    /// URLs of the members.
    pub servers: Vec<String>,
    /// Authority of their certificates.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
}

impl ServerRecord {
    /// Describes this process.
    pub fn of_this_process(etcd: Option<EtcdRecord>, files: Vec<PathBuf>) -> Self {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            executable: std::env::current_exe().unwrap_or_default(),
            arguments: std::env::args_os()
                .skip(1)
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            etcd,
            files: files.into_iter().map(absolute).collect(),
        }
    }

    /// Writes the file, readable by its owner.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        control_pki::write_private(&folder.join(FILE), &text).map_err(Error::Pki)
    }

    /// Reads the file; returns `None` if there is none, or it has another version.
    pub fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read(folder.join(FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Whether its process runs.
    pub fn is_running(&self) -> bool {
        let Ok(pid) = i32::try_from(self.pid) else {
            return false;
        };
        let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let executable = executable.to_string_lossy();
        // A program that was replaced shows as deleted.
        let name = executable.trim_end_matches(" (deleted)");
        pid != 0 && Path::new(name) == self.executable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_as_it_was_written_and_known_to_run() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(ServerRecord::read(dir.path()), None);
        let record = ServerRecord::of_this_process(None, vec!["/etc/encryption.yaml".into()]);
        record.write(dir.path()).unwrap();
        let read = ServerRecord::read(dir.path()).unwrap();
        assert_eq!(read, record);
        assert!(read.is_running());
        let gone = ServerRecord { pid: 0, ..record };
        assert!(!gone.is_running());
    }
}
