//! Restores into a file of the embedded store. All keys keep their revisions.

use std::path::Path;

use control_store::Revision;
use control_store::embedded::{ImportedChange, Importer};

use super::RestoreSummary;
use crate::Error;
use crate::archive::{ArchiveReader, Item};
use crate::manifest::StoreSummary;

/// The number of keys per batch.
const BATCH: usize = 4096;
const BATCH_BYTES: usize = 16 << 20;

/// Writes the new file `path`, which begins at the revision that `revision` chooses for the
/// backup. It is no store until all of the backup was read and checked.
///
/// # Errors
/// What cannot be read or written.
pub fn restore_embedded(
    archive: ArchiveReader,
    path: &Path,
    revision: impl FnOnce(&StoreSummary) -> Revision,
) -> Result<RestoreSummary, Error> {
    let mut importer = Importer::create(path).map_err(Error::Store)?;
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut files = Vec::new();
    let manifest = archive.read(|item| {
        match item {
            Item::About(_) => {}
            Item::File(file) => files.push(file),
            Item::Key(entry) => {
                bytes += entry.value.len();
                batch.push(ImportedChange::Put {
                    remaining: entry.remaining(),
                    kv: entry.key_value(),
                });
                if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                    importer.apply(&batch).map_err(Error::Store)?;
                    batch.clear();
                    bytes = 0;
                }
            }
        }
        Ok(())
    })?;
    importer.apply(&batch).map_err(Error::Store)?;
    let revision = revision(&manifest.about);
    importer.finish(revision).map_err(Error::Store)?;
    Ok(RestoreSummary {
        manifest,
        files,
        revision,
    })
}
