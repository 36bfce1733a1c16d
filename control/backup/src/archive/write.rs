//! Writes an archive, entry after entry.

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::{ABOUT, CHUNK, FILES, KEYS, MANIFEST, hex};
use crate::age::{self, EncryptWriter, Recipient};
use crate::manifest::{Manifest, StoreSummary};
use crate::{Entry, Error};

/// Fast, and about half as large again as the best.
const LEVEL: i32 = 1;

/// A file of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFile {
    /// Its name below the server's folder, such as `pki/ca.key`.
    pub name: String,
    /// Its permissions.
    pub mode: u32,
    /// The content of the file.
    pub content: Vec<u8>,
}

/// The bytes of an archive before they are compressed go here.
enum Layer<W: Write> {
    Plain(W),
    Encrypted(EncryptWriter<W>),
}

/// An archive that is written.
pub struct ArchiveWriter<W: Write> {
    tar: tar::Builder<zstd::Encoder<'static, Layer<W>>>,
    manifest: Manifest,
    chunk: Vec<u8>,
    chunks: u32,
    modified: u64,
}

impl<W: Write> Write for Layer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Encrypted(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Encrypted(out) => out.flush(),
        }
    }
}

impl<W: Write> ArchiveWriter<W> {
    /// Begins an archive, which is not encrypted if there are no recipients.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W, about: StoreSummary, recipients: &[Recipient]) -> Result<Self, Error> {
        let layer = if recipients.is_empty() {
            Layer::Plain(out)
        } else {
            Layer::Encrypted(age::encrypt(out, recipients).map_err(Error::Age)?)
        };
        let encoder = zstd::Encoder::new(layer, LEVEL).map_err(Error::Write)?;
        let head = serde_json::to_vec_pretty(&about).unwrap_or_default();
        let mut this = Self {
            tar: tar::Builder::new(encoder),
            modified: u64::try_from(about.created.as_second()).unwrap_or_default(),
            manifest: Manifest {
                about,
                keys: 0,
                value_bytes: 0,
                leased_keys: 0,
                resources: BTreeMap::new(),
                files: Vec::new(),
                checksums: BTreeMap::new(),
            },
            chunk: Vec::new(),
            chunks: 0,
        };
        this.append(ABOUT, 0o600, &head)?;
        Ok(this)
    }

    /// Adds a file of the server.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn file(&mut self, file: &ServerFile) -> Result<(), Error> {
        self.append(&format!("{FILES}{}", file.name), file.mode, &file.content)?;
        self.manifest.files.push(file.name.clone());
        Ok(())
    }

    /// Adds a key of the store.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn key(&mut self, entry: &Entry) -> Result<(), Error> {
        entry
            .encode_length_delimited(&mut self.chunk)
            .map_err(|error| Error::Write(io::Error::other(error)))?;
        let manifest = &mut self.manifest;
        manifest.keys += 1;
        manifest.value_bytes += entry.value.len() as u64;
        manifest.leased_keys += u64::from(entry.remaining_ms != 0);
        *manifest.resources.entry(entry.group()).or_default() += 1;
        if self.chunk.len() >= CHUNK {
            self.flush_keys()?;
        }
        Ok(())
    }

    fn flush_keys(&mut self) -> Result<(), Error> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        self.chunks += 1;
        let chunk = std::mem::take(&mut self.chunk);
        self.append(&format!("{KEYS}{:08}", self.chunks), 0o600, &chunk)?;
        self.chunk = chunk;
        self.chunk.clear();
        Ok(())
    }

    /// Writes the manifest and ends the archive.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<(W, Manifest), Error> {
        self.flush_keys()?;
        let text = serde_json::to_vec_pretty(&self.manifest).unwrap_or_default();
        self.append(MANIFEST, 0o600, &text)?;
        // It cannot tell its own.
        self.manifest.checksums.remove(MANIFEST);
        let encoder = self.tar.into_inner().map_err(Error::Write)?;
        let out = match encoder.finish().map_err(Error::Write)? {
            Layer::Plain(out) => out,
            Layer::Encrypted(out) => out.finish().map_err(Error::Write)?,
        };
        Ok((out, self.manifest))
    }

    fn append(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<(), Error> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(self.modified);
        self.tar
            .append_data(&mut header, name, content)
            .map_err(Error::Write)?;
        let digest = hex(&Sha256::digest(content));
        self.manifest.checksums.insert(name.to_owned(), digest);
        Ok(())
    }
}
