//! Destinations of backups: a folder, or a bucket of S3-compatible storage.
//!
//! Calls block on the disk or the network: make them on a blocking thread, such as those
//! of `tokio::task::spawn_blocking`, inside a runtime.

mod folder;
mod s3;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::str::FromStr;

pub use folder::Folder;
pub use s3::{S3Bucket, S3Options};

use crate::{BackupName, Error};

/// The address of a place, or of one backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A path.
    Path(PathBuf),
    /// `s3://BUCKET/PREFIX`.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix of object names: empty, or ends with `/` for a place.
        key: String,
    },
}

/// A backup of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBackup {
    /// Its name.
    pub name: BackupName,
    /// Its size, in bytes.
    pub size: u64,
}

/// Receives the bytes of a backup. A sink that is dropped before [`Sink::commit`] removes
/// its data.
pub trait Sink: Write + Send {
    /// Makes the backup durable and visible; returns its size in bytes.
    ///
    /// # Errors
    /// When it cannot be written, or one of that name exists.
    fn commit(self: Box<Self>) -> Result<u64, Error>;
}

/// Keeps backups.
pub trait Place: Send + Sync {
    /// Returns its name for people.
    fn describe(&self) -> String;

    /// The backups, oldest first.
    ///
    /// # Errors
    /// When it cannot be read.
    fn list(&self) -> Result<Vec<StoredBackup>, Error>;

    /// Opens a backup.
    ///
    /// # Errors
    /// [`Error::NotFound`], or when it cannot be read.
    fn open(&self, name: &str) -> Result<Box<dyn Read + Send>, Error>;

    /// Begins a backup, which is not there until it is whole.
    ///
    /// # Errors
    /// When it cannot be written.
    fn create(&self, name: &str) -> Result<Box<dyn Sink>, Error>;

    /// Removes a backup.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&self, name: &str) -> Result<(), Error>;
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let Some(rest) = text.strip_prefix("s3://") else {
            if text.is_empty() || text.contains("://") {
                return Err(Error::Place(format!(
                    "`{text}` is no place for backups: give a folder or s3://BUCKET/PREFIX"
                )));
            }
            return Ok(Self::Path(PathBuf::from(text)));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(Error::Place(format!(
                "`{text}` names no bucket: s3://BUCKET/PREFIX"
            )));
        }
        Ok(Self::S3 {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        })
    }
}

impl Address {
    /// The place at this address.
    ///
    /// # Errors
    /// Options of S3 that are missing or cannot be used.
    pub fn place(&self, s3: &S3Options) -> Result<Box<dyn Place>, Error> {
        Ok(match self {
            Self::Path(path) => Box::new(Folder::new(path)),
            Self::S3 { bucket, key } => {
                let prefix = match key.trim_end_matches('/') {
                    "" => String::new(),
                    prefix => format!("{prefix}/"),
                };
                Box::new(S3Bucket::new(bucket, &prefix, s3)?)
            }
        })
    }

    /// The address of the place that has the backup at this address, and its name.
    ///
    /// # Errors
    /// When the address ends with no name.
    pub fn split(&self) -> Result<(Self, String), Error> {
        let nameless =
            || Error::Place("name a backup, not a folder: see `orlop backup list`".to_owned());
        match self {
            Self::Path(path) => {
                let name = path.file_name().ok_or_else(nameless)?;
                let parent = match path.parent() {
                    Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
                    Some(parent) => parent.to_owned(),
                    None => return Err(nameless()),
                };
                Ok((Self::Path(parent), name.to_string_lossy().into_owned()))
            }
            Self::S3 { bucket, key } => {
                let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
                if name.is_empty() {
                    return Err(nameless());
                }
                let place = Self::S3 {
                    bucket: bucket.clone(),
                    key: prefix.to_owned(),
                };
                Ok((place, name.to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_folders_or_buckets() {
        let split = |text: &str| text.parse::<Address>().and_then(|address| address.split());
        let (place, name) = split("s3://b/a/c/n.backup").unwrap();
        let wanted = Address::S3 {
            bucket: "b".to_owned(),
            key: "a/c".to_owned(),
        };
        assert_eq!((place, &*name), (wanted, "n.backup"));
        let (place, name) = split("n.backup").unwrap();
        assert_eq!((place, &*name), (Address::Path(".".into()), "n.backup"));
        assert!(split("s3://b").is_err());
        assert!(split("s3://b/a/").is_err());
        for bad in ["", "s3://", "http://x/y"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
