//! The file that says how values are encrypted: read at start, and again
//! whenever it changes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::Encryption;
use crate::config;
use crate::error::Error;
use crate::own::OwnKeys;
use crate::providers::Table;

/// The source of the encryption configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file of keys for Secrets ([`OwnKeys`]).
    Keys(PathBuf),
    /// An `EncryptionConfiguration`.
    Configuration(PathBuf),
}

impl Source {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Keys(path) | Self::Configuration(path) => path,
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When other users could read it, it does not exist, or is invalid.
    pub fn load(&self) -> Result<(Table, [u8; 32]), Error> {
        let path = self.path();
        let failed = |source| Error::File {
            path: path.to_owned(),
            action: "read",
            source,
        };
        let mode = std::fs::metadata(path)
            .map_err(failed)?
            .permissions()
            .mode()
            & 0o7777;
        if mode & 0o077 != 0 {
            return Err(Error::Readable {
                path: path.to_owned(),
                mode,
            });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let hash = Sha256::digest(text.as_bytes()).into();
        let table = match self {
            Self::Keys(path) => OwnKeys::parse(&text, path)?.table(),
            Self::Configuration(path) => config::read(&text).map_err(|error| match error {
                Error::Invalid { at, detail } => Error::Malformed {
                    path: path.clone(),
                    detail: format!("{at}: {detail}"),
                },
                other => other,
            })?,
        };
        Ok((table, hash))
    }

    /// Polls the file, reloads it when it changes, and applies it; an invalid file is
    /// logged and changes nothing. Never returns.
    pub async fn follow(self, encryption: Encryption, mut known: [u8; 32], every: Duration) {
        let mut told = None;
        loop {
            tokio::time::sleep(every).await;
            let source = self.clone();
            let read = tokio::task::spawn_blocking(move || {
                let bytes = std::fs::read(source.path()).ok()?;
                let hash: [u8; 32] = Sha256::digest(&bytes).into();
                Some((hash, (hash != known).then(|| source.load())))
            });
            let Ok(Some((hash, Some(loaded)))) = read.await else {
                continue;
            };
            match loaded {
                Ok((table, hash)) => {
                    tracing::info!(path = %self.path().display(), "encryption configuration reloaded");
                    encryption.replace(table);
                    known = hash;
                }
                Err(error) if told != Some(hash) => {
                    told = Some(hash);
                    tracing::error!(%error, "encryption configuration not reloaded");
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
    }

    #[test]
    fn keys_that_others_can_read_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("encryption.key");
        let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        for mode in [0o644, 0o640, 0o604] {
            write(&path, key, mode);
            let error = Source::Keys(path.clone()).load().expect_err("readable");
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        write(&path, key, 0o600);
        Source::Keys(path).load().expect("read");
    }

    #[tokio::test]
    async fn a_changed_file_is_read_again_and_a_broken_one_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("encryption.key");
        write(&path, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", 0o600);
        let source = Source::Keys(path.clone());
        let (table, hash) = source.load().expect("read");
        let encryption = Encryption::new(table);
        let following =
            tokio::spawn(source.follow(encryption.clone(), hash, Duration::from_millis(5)));
        let prefix = || encryption.now().prefix("", "secrets").to_owned();
        write(
            &path,
            "new:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            0o600,
        );
        for _ in 0..1000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if prefix() == "k8s:enc:aesgcm:v1:new:" {
                break;
            }
        }
        assert_eq!(prefix(), "k8s:enc:aesgcm:v1:new:");
        write(&path, "broken", 0o600);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(prefix(), "k8s:enc:aesgcm:v1:new:");
        following.abort();
    }
}
