//! Detects that the store's file was replaced by an older copy.
//!
//! An open store notes its newest revision beside its bytes: in an extended attribute of
//! the file, with the identity of the inode. A copy has another inode or no such
//! attribute, and an older content copied into the same inode has a lower revision than
//! the attribute. The file's own tables say that there is an attribute to expect, so that
//! a file system without extended attributes is no sign of a restore.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use redb::{Database, ReadableDatabase as _};
use rustix::fs::{AtFlags, StatxFlags, XattrFlags, fgetxattr, fsetxattr, statx};

use super::fault;
use super::layout::{STATE, STATE_KEY, StoreCounters};
use crate::{Error, Revision};

/// The extended attribute of the file.
const ATTRIBUTE: &str = "user.orlop.store";
/// In the state table: the file has the attribute.
const EXPECTED_KEY: &str = "marked";
/// How far a restore moves the revision, which is more than were lost with certainty.
pub(super) const RESTORE_GAP: Revision = 1_000_000_000;
/// How often the attribute is written at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// The inode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    inode: u64,
    /// Seconds and nanoseconds of its creation; zero where the file system does not know.
    created: (i64, u32),
}

/// The value of the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MarkValue {
    identity: Identity,
    revision: Revision,
}

/// Writes the attribute while the store is open.
#[derive(Debug)]
pub(super) struct Marker {
    file: File,
    identity: Identity,
    marked: Revision,
    at: Instant,
}

/// Whether a file with these marks is another one than the store that was open last.
fn is_restored(
    expected: bool,
    found: Option<MarkValue>,
    identity: Identity,
    state: &StoreCounters,
) -> bool {
    expected && found.is_none_or(|mark| mark.identity != identity || mark.revision > state.revision)
}

/// Moves the revision of a restored store ahead and compacts its history, so that no
/// client continues where the lost store was; starts marking the file. Returns `None` if
/// the file system has no extended attributes.
///
/// # Errors
/// When the file cannot be read or written.
pub(super) fn check_for_restore(
    path: &Path,
    database: &Database,
    state: &mut StoreCounters,
) -> Result<Option<Marker>, Error> {
    // The library panics on pages that make no sense.
    catch_unwind(AssertUnwindSafe(|| check(path, database, state)))
        .unwrap_or_else(|payload| Err(fault::corrupt(path, fault::panic_text(&*payload))))
}

fn check(
    path: &Path,
    database: &Database,
    state: &mut StoreCounters,
) -> Result<Option<Marker>, Error> {
    let file = File::open(path).map_err(|source| fault::system(path, source))?;
    let identity =
        identity(&file).map_err(|error| fault::system(path, std::io::Error::from(error)))?;
    let operation = |error| fault::operation(path, error);
    let expected = is_expected(database).map_err(operation)?;
    let mut wanted = *state;
    if is_restored(expected, read(&file), identity, state) {
        wanted.revision = state.revision.saturating_add(RESTORE_GAP);
        wanted.compacted = wanted.revision;
        tracing::warn!(
            path = %path.display(),
            revision = state.revision,
            now = wanted.revision,
            "store was restored from a copy; clients must list again"
        );
        // Without the attribute until the counters are written: a crash repeats this.
        write_state(database, wanted, true).map_err(operation)?;
        *state = wanted;
    }
    let mut marker = Marker {
        file,
        identity,
        marked: 0,
        at: Instant::now(),
    };
    let is_marked = marker.write(state.revision);
    if is_marked != expected {
        write_state(database, *state, is_marked).map_err(operation)?;
    }
    Ok(is_marked.then_some(marker))
}

fn identity(file: &File) -> rustix::io::Result<Identity> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
    Ok(Identity {
        inode: found.stx_ino,
        created: (found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
    })
}

fn read(file: &File) -> Option<MarkValue> {
    let mut bytes = [0; 128];
    let length = fgetxattr(file, ATTRIBUTE, &mut bytes).ok()?;
    MarkValue::parse(std::str::from_utf8(bytes.get(..length)?).ok()?)
}

fn is_expected(database: &Database) -> Result<bool, redb::Error> {
    let table = database.begin_read()?.open_table(STATE)?;
    Ok(table.get(EXPECTED_KEY)?.is_some())
}

/// Writes the counters, and whether the file is expected to have the attribute.
pub(super) fn write_state(
    database: &Database,
    state: StoreCounters,
    marked: bool,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(STATE)?;
        table.insert(STATE_KEY, state.encode().as_slice())?;
        if marked {
            table.insert(EXPECTED_KEY, [1].as_slice())?;
        } else {
            table.remove(EXPECTED_KEY)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

// === impl Mark ===

impl MarkValue {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mark = Self {
            identity: Identity {
                inode: parts.next()?.parse().ok()?,
                created: (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?),
            },
            revision: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(mark)
    }

    fn print(&self) -> String {
        let Identity { inode, created } = self.identity;
        format!("{inode} {} {} {}", created.0, created.1, self.revision)
    }
}

// === impl Marker ===

impl Marker {
    /// Notes a revision that is durable, unless another was noted a moment ago.
    pub fn committed(&mut self, revision: Revision) {
        if self.at.elapsed() >= INTERVAL {
            self.write(revision);
        }
    }

    /// Notes the last revision before the file is closed.
    pub fn closing(&mut self, revision: Revision) {
        self.write(revision);
    }

    /// Whether the attribute could be written.
    fn write(&mut self, revision: Revision) -> bool {
        if self.marked == revision {
            return true;
        }
        self.at = Instant::now();
        let mark = MarkValue {
            identity: self.identity,
            revision,
        };
        let text = mark.print();
        match fsetxattr(&self.file, ATTRIBUTE, text.as_bytes(), XattrFlags::empty()) {
            Ok(()) => {
                self.marked = revision;
                true
            }
            Err(error) => {
                tracing::debug!(%error, "failed to set an extended attribute of the store's file");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Identity = Identity {
        inode: 7,
        created: (1, 2),
    };

    fn state(revision: Revision) -> StoreCounters {
        StoreCounters {
            revision,
            ..StoreCounters::new()
        }
    }

    fn mark(identity: Identity, revision: Revision) -> Option<MarkValue> {
        Some(MarkValue { identity, revision })
    }

    #[test]
    fn a_mark_survives_its_text() {
        let mark = mark(HERE, 99).expect("a mark");
        assert_eq!(MarkValue::parse(&mark.print()), Some(mark));
        for bad in ["", "7", "7 1 2", "7 1 2 99 1", "a 1 2 99"] {
            assert_eq!(MarkValue::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_copy_and_an_older_content_are_restores_and_nothing_else_is() {
        let other = Identity { inode: 8, ..HERE };
        let is = |expected, found| is_restored(expected, found, HERE, &state(50));
        assert!(is(true, None), "a copy without the attribute");
        assert!(is(true, mark(other, 50)), "a copy with the attribute");
        assert!(is(true, mark(HERE, 51)), "older content in the same inode");
        assert!(!is(true, mark(HERE, 50)));
        assert!(!is(true, mark(HERE, 3)), "a crash before the last mark");
        assert!(!is(false, None), "never marked");
    }
}
