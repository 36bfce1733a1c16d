//! Restores into a file for etcd: the input of `etcdctl snapshot restore` (or `etcdutl`)
//! for new members. All keys keep their revisions, and the store begins at the chosen
//! one, which is impossible in a running etcd.
//!
//! The file is a bbolt database with etcd's buckets, followed by its SHA-256 digest:
//!
//! ```text
//! key    revision (main, `_`, sub)  -> mvccpb.KeyValue
//! lease  number                     -> leasepb.Lease
//! meta   finishedCompactRev         -> the revision at which the store begins
//! ```

mod bolt;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use control_store::{Revision, txn};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::RestoreSummary;
use crate::archive::{ArchiveReader, Item};
use crate::manifest::StoreSummary;
use crate::{Entry, Error};
use bolt::{Bolt, BoltBucket};

/// The position of a key's message in the spool.
struct Row {
    revision: Revision,
    offset: u64,
    length: usize,
}

/// `leasepb.Lease`.
#[derive(Clone, PartialEq, prost::Message)]
struct Lease {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    ttl: i64,
}

/// A file that is removed unless it is kept.
struct Partial(Option<PathBuf>);

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Writes the new file `path`, whose store begins at the revision that `revision` chooses
/// for the backup.
///
/// # Errors
/// What cannot be read or written.
pub fn restore_etcd_file(
    archive: ArchiveReader,
    path: &Path,
    revision: impl FnOnce(&StoreSummary) -> Revision,
) -> Result<RestoreSummary, Error> {
    if path.exists() {
        return Err(Error::NotEmpty {
            target: format!("`{}`", path.display()),
            way_out: "name a file that does not exist",
        });
    }
    let (mut spool, spool_path) = create(path, "keys")?;
    let failed = || Error::file(path);
    let mut rows = Vec::new();
    let mut leases = BTreeMap::new();
    let mut files = Vec::new();
    let mut offset = 0;
    let mut writer = BufWriter::with_capacity(1 << 20, &mut spool);
    let manifest = archive.read(|item| {
        match item {
            Item::About(_) => {}
            Item::File(file) => files.push(file),
            Item::Key(entry) => {
                let (message, lease) = message(entry);
                if let Some(lease) = lease {
                    leases.insert(lease.id, lease);
                }
                rows.push(Row {
                    revision: message.mod_revision,
                    offset,
                    length: message.encoded_len(),
                });
                let bytes = message.encode_to_vec();
                offset += bytes.len() as u64;
                writer.write_all(&bytes).map_err(failed())?;
            }
        }
        Ok(())
    })?;
    writer.flush().map_err(failed())?;
    drop(writer);
    let revision = revision(&manifest.about);
    let (mut out, mut partial) = create(path, "partial")?;
    write(&mut out, &mut spool, rows, &leases, revision).map_err(failed())?;
    append_digest(&mut out).map_err(failed())?;
    out.sync_all().map_err(failed())?;
    if let Some(from) = &partial.0 {
        std::fs::rename(from, path).map_err(failed())?;
    }
    partial.0 = None;
    drop(spool_path);
    Ok(RestoreSummary {
        manifest,
        files,
        revision,
    })
}

fn create(path: &Path, end: &str) -> Result<(File, Partial), Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{end}"));
    let path = PathBuf::from(name);
    // One that a crash left holds secrets and is of no use.
    let _ = std::fs::remove_file(&path);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(Error::file(&path))?;
    Ok((file, Partial(Some(path))))
}

/// A key as etcd has it, and its lease.
fn message(entry: Entry) -> (Entry, Option<Lease>) {
    let lease = entry.remaining().map(|remaining| Lease {
        id: txn::lease_id(entry.lease).max(1),
        ttl: i64::try_from(remaining.as_secs())
            .unwrap_or(i64::MAX)
            .max(1),
    });
    let id = lease.as_ref().map_or(0, |lease| lease.id.unsigned_abs());
    let message = Entry {
        lease: id,
        remaining_ms: 0,
        ..entry
    };
    (message, lease)
}

fn write(
    out: &mut File,
    spool: &mut File,
    mut rows: Vec<Row>,
    leases: &BTreeMap<i64, Lease>,
    revision: Revision,
) -> io::Result<()> {
    rows.sort_by_key(|row| (row.revision, row.offset));
    let mut bolt = Bolt::new(BufWriter::with_capacity(1 << 20, out))?;
    // In the order of their names.
    for name in ["alarm", "auth", "authRoles", "authUsers", "cluster"] {
        let root = BoltBucket::default().finish(&mut bolt)?;
        bolt.bucket(name, root);
    }
    let mut keys = BoltBucket::default();
    let mut last = (0, 0);
    let mut value = Vec::new();
    for row in rows {
        let sub = if row.revision == last.0 {
            last.1 + 1
        } else {
            0
        };
        last = (row.revision, sub);
        value.resize(row.length, 0);
        let mut reader = BufReader::with_capacity(row.length.max(1), &mut *spool);
        reader.seek(SeekFrom::Start(row.offset))?;
        reader.read_exact(&mut value)?;
        keys.put(&mut bolt, &revision_bytes(row.revision, sub), &value)?;
    }
    let root = keys.finish(&mut bolt)?;
    bolt.bucket("key", root);
    let mut bucket = BoltBucket::default();
    for (id, lease) in leases {
        bucket.put(&mut bolt, &id.to_be_bytes(), &lease.encode_to_vec())?;
    }
    let root = bucket.finish(&mut bolt)?;
    bolt.bucket("lease", root);
    for name in ["members", "members_removed"] {
        let root = BoltBucket::default().finish(&mut bolt)?;
        bolt.bucket(name, root);
    }
    let mut meta = BoltBucket::default();
    let begin = revision_bytes(revision, 0);
    meta.put(&mut bolt, b"consistent_index", &1_u64.to_be_bytes())?;
    meta.put(&mut bolt, b"finishedCompactRev", &begin)?;
    meta.put(&mut bolt, b"scheduledCompactRev", &begin)?;
    let root = meta.finish(&mut bolt)?;
    bolt.bucket("meta", root);
    bolt.finish()
}

/// A revision as etcd writes it.
fn revision_bytes(main: u64, sub: u64) -> [u8; 17] {
    let mut bytes = [b'_'; 17];
    bytes[..8].copy_from_slice(&main.to_be_bytes());
    bytes[9..].copy_from_slice(&sub.to_be_bytes());
    bytes
}

fn append_digest(file: &mut File) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
    }
    file.seek(SeekFrom::End(0))?;
    file.write_all(&digest.finalize())
}
