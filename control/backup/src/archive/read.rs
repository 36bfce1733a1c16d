//! Reads an archive to its end and checks it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

use bytes::Bytes;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::{ABOUT, FILES, KEYS, MANIFEST, ServerFile, hex};
use crate::age::{self, Identity};
use crate::manifest::{FORMAT, Manifest, StoreSummary};
use crate::{Entry, Error};

/// The first bytes of every age file.
const AGE: &[u8] = b"age-encryption.org/";
/// The most bytes of one entry, which is held in memory.
const MAX_ENTRY: u64 = 64 << 20;

/// An item of an archive.
#[derive(Debug)]
pub enum Item {
    /// The summary; comes first.
    About(StoreSummary),
    /// A file of the server.
    File(ServerFile),
    /// A key of the store.
    Key(Entry),
}

/// An archive that is read.
pub struct ArchiveReader {
    tar: tar::Archive<Box<dyn Read + Send>>,
}

/// The items so far, for comparison with the manifest.
#[derive(Default)]
struct SeenEntries {
    about: Option<StoreSummary>,
    checksums: BTreeMap<String, String>,
    keys: u64,
    value_bytes: u64,
    last_key: Option<Bytes>,
    manifest: Option<Manifest>,
}

impl ArchiveReader {
    /// Opens an archive.
    ///
    /// # Errors
    /// [`Error::Encrypted`] without an identity, [`Error::Age`] with another one,
    /// [`Error::Damaged`].
    pub fn new(from: Box<dyn Read + Send>, identities: &[Identity]) -> Result<Self, Error> {
        let mut from = BufReader::with_capacity(1 << 17, from);
        let begin = from.fill_buf().map_err(unreadable)?;
        let inner: Box<dyn Read + Send> = if begin.starts_with(AGE) {
            if identities.is_empty() {
                return Err(Error::Encrypted);
            }
            Box::new(age::decrypt(from, identities).map_err(Error::Age)?)
        } else {
            Box::new(from)
        };
        let decoder = zstd::Decoder::new(inner).map_err(unreadable)?;
        Ok(Self {
            tar: tar::Archive::new(Box::new(decoder) as Box<dyn Read + Send>),
        })
    }

    /// Reads everything; `take` gets each item. The items are only known to be complete
    /// when this returns.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Format`], or an error of `take`.
    pub fn read(
        mut self,
        mut take: impl FnMut(Item) -> Result<(), Error>,
    ) -> Result<Manifest, Error> {
        let mut seen = SeenEntries::default();
        for entry in self.tar.entries().map_err(unreadable)? {
            let mut entry = entry.map_err(unreadable)?;
            let size = entry.size();
            if size > MAX_ENTRY {
                return Err(Error::damaged(format!("an entry claims {size} bytes")));
            }
            let name = entry.path_bytes();
            let name = String::from_utf8_lossy(&name).into_owned();
            let mode = entry.header().mode().unwrap_or(0o600) & 0o777;
            let mut content = Vec::new();
            entry.read_to_end(&mut content).map_err(unreadable)?;
            if content.len() as u64 != size {
                return Err(Error::damaged(format!("`{name}` was cut off")));
            }
            seen.entry(&name, mode, content.into(), &mut take)?;
        }
        // To the very end, so that truncation after the last entry is detected.
        let mut rest = self.tar.into_inner();
        io::copy(&mut rest, &mut io::sink()).map_err(unreadable)?;
        seen.finish()
    }
}

fn unreadable(error: io::Error) -> Error {
    Error::damaged(error.to_string())
}

impl SeenEntries {
    fn entry(
        &mut self,
        name: &str,
        mode: u32,
        content: Bytes,
        take: &mut impl FnMut(Item) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.manifest.is_some() {
            return Err(Error::damaged("something follows the manifest"));
        }
        if name != MANIFEST {
            let digest = hex(&Sha256::digest(&content));
            if self.checksums.insert(name.to_owned(), digest).is_some() {
                return Err(Error::damaged(format!("`{name}` is there twice")));
            }
        }
        if self.about.is_none() && name != ABOUT {
            return Err(Error::damaged("it does not begin as a backup does"));
        }
        if name == ABOUT {
            let format: Format = json(name, &content)?;
            if format.format != FORMAT {
                return Err(Error::Format {
                    found: format.format,
                    known: FORMAT,
                });
            }
            let about: StoreSummary = json(name, &content)?;
            self.about = Some(about.clone());
            return take(Item::About(about));
        }
        if name == MANIFEST {
            self.manifest = Some(json(name, &content)?);
            return Ok(());
        }
        if let Some(file) = name.strip_prefix(FILES) {
            let is_below = !file.starts_with('/') && file.split('/').all(|part| part != "..");
            if !is_below || file.is_empty() {
                return Err(Error::damaged(format!("`{name}` is no name of a file")));
            }
            return take(Item::File(ServerFile {
                name: file.to_owned(),
                mode,
                content: content.to_vec(),
            }));
        }
        if name.starts_with(KEYS) {
            return self.keys(name, content, take);
        }
        Err(Error::damaged(format!("`{name}` is unknown")))
    }

    fn keys(
        &mut self,
        name: &str,
        mut content: Bytes,
        take: &mut impl FnMut(Item) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while !content.is_empty() {
            let entry = Entry::decode_length_delimited(&mut content)
                .map_err(|error| Error::damaged(format!("`{name}`: {error}")))?;
            if self
                .last_key
                .as_ref()
                .is_some_and(|last| *last >= entry.key)
            {
                let key = String::from_utf8_lossy(&entry.key);
                return Err(Error::damaged(format!("key `{key}` is out of order")));
            }
            self.last_key = Some(entry.key.clone());
            self.keys += 1;
            self.value_bytes += entry.value.len() as u64;
            take(Item::Key(entry))?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Manifest, Error> {
        let manifest = self
            .manifest
            .ok_or_else(|| Error::damaged("it has no manifest: it was cut off"))?;
        if let Some((name, _)) = manifest
            .checksums
            .iter()
            .find(|(name, sum)| self.checksums.get(*name) != Some(*sum))
        {
            return Err(Error::damaged(format!(
                "`{name}` is missing or differs from its checksum"
            )));
        }
        if let Some(name) = self
            .checksums
            .keys()
            .find(|name| !manifest.checksums.contains_key(*name))
        {
            return Err(Error::damaged(format!("`{name}` is not in the manifest")));
        }
        if (self.keys, self.value_bytes) != (manifest.keys, manifest.value_bytes) {
            return Err(Error::damaged(format!(
                "it has {} keys, the manifest says {}",
                self.keys, manifest.keys
            )));
        }
        if self.about.as_ref() != Some(&manifest.about) {
            return Err(Error::damaged(
                "its begin and its end contradict each other",
            ));
        }
        Ok(manifest)
    }
}

#[derive(serde::Deserialize)]
struct Format {
    format: u32,
}

fn json<T: serde::de::DeserializeOwned>(name: &str, content: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(content).map_err(|error| Error::damaged(format!("`{name}`: {error}")))
}
