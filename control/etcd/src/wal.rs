//! Marks everything in the write-ahead log of a stopped member as committed.
//!
//! A member makes an entry durable before it is acknowledged. That a majority has the entry it learns
//! later, and keeps in memory until its next durable write. With `--force-new-cluster`, etcd drops
//! what the log does not mark as committed, and so the last acknowledged writes of a member that was
//! killed. Without a majority nobody can tell them from writes that were never acknowledged. Keeping
//! those, too, breaks no promise: their clients got an error that leaves open what became of them.
//!
//! The format is that of etcd's package `server/storage/wal`, the same in 3.4 to 3.7: frames of a length
//! in 8 bytes and a `walpb.Record`, padded to 8 bytes, whose CRC-32C continues that of the frame before.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use prost::Message as _;

use crate::Error;

/// Types of records.
const ENTRY: i64 = 2;
const STATE: i64 = 3;
const CRC: i64 = 4;

/// Bytes of a frame's length.
const HEADER: usize = 8;
/// Bytes that a disk writes at once.
const SECTOR: usize = 512;

/// `walpb.Record`.
#[derive(Clone, PartialEq, prost::Message)]
struct WalRecord {
    #[prost(int64, required, tag = "1")]
    kind: i64,
    #[prost(uint32, required, tag = "2")]
    crc: u32,
    #[prost(bytes = "vec", optional, tag = "3")]
    data: Option<Vec<u8>>,
}

/// The part of a `raftpb.Entry` that places it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct EntryPosition {
    #[prost(uint64, optional, tag = "2")]
    term: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    index: Option<u64>,
}

/// `raftpb.HardState`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct HardState {
    #[prost(uint64, required, tag = "1")]
    term: u64,
    #[prost(uint64, required, tag = "2")]
    vote: u64,
    #[prost(uint64, required, tag = "3")]
    commit: u64,
}

/// The readable part of a segment.
#[derive(Debug, Default, PartialEq, Eq)]
struct Segment {
    /// Bytes of whole records.
    length: usize,
    /// The checksum that the next record continues.
    crc: u32,
    /// The last entry; a later one of a lower index replaces those from there on.
    last: Option<EntryPosition>,
    state: Option<HardState>,
    /// Whether a write after the whole records was cut off.
    is_torn: bool,
}

/// Marks all entries in the log of the member with the folder `data` as committed. Returns how many
/// were not marked before.
///
/// # Errors
/// [`Error::File`] if the log cannot be read or written, is in use, or is damaged.
pub fn commit_all(data: &Path) -> Result<u64, Error> {
    let folder = data.join("member/wal");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    let mut segments = segments(&folder).map_err(failed(&folder))?;
    let Some(newest) = segments.pop() else {
        return Ok(0);
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&newest)
        .map_err(failed(&newest))?;
    lock(&file).map_err(failed(&newest))?;
    let mut segment = read_segment(&newest).map_err(failed(&newest))?;
    // A new segment begins with the state, but may have no entry yet.
    while let (None, Some(older)) = (segment.last, segments.pop()) {
        segment.last = read_segment(&older).map_err(failed(&older))?.last;
    }
    let Some((added, state)) = advanced(segment.state.unwrap_or_default(), segment.last) else {
        return Ok(0);
    };
    if segment.is_torn {
        // As etcd does before it repairs a log.
        let mut copy = newest.clone().into_os_string();
        copy.push(".broken");
        fs::copy(&newest, copy).map_err(failed(&newest))?;
    }
    append(&file, &segment, state).map_err(failed(&newest))?;
    Ok(added)
}

/// Returns the files of the log, oldest first.
fn segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            found.push(path);
        }
    }
    // Names begin with a sequence number in hexadecimal digits of one width.
    found.sort();
    Ok(found)
}

/// Takes the lock that etcd holds while it runs.
fn lock(file: &File) -> io::Result<()> {
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&whole))?;
    Ok(())
}

fn read_segment(path: &Path) -> io::Result<Segment> {
    parse(&fs::read(path)?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a record is damaged"))
}

/// Returns what a segment holds, or nothing if a record in it is damaged.
fn parse(bytes: &[u8]) -> Option<Segment> {
    let mut segment = Segment::default();
    while let Some(frame) = frame(bytes, segment.length) {
        let body = bytes.get(frame.body.clone());
        let Some(body) = body.filter(|_| frame.next <= bytes.len()) else {
            segment.is_torn = true;
            break;
        };
        let read = WalRecord::decode(body).ok();
        let read = read.and_then(|record| Some((checksum(segment.crc, &record)?, record)));
        let Some((crc, record)) = read else {
            segment.is_torn = is_torn(body, frame.body.start);
            if segment.is_torn {
                break;
            }
            return None;
        };
        let data = record.data.unwrap_or_default();
        match record.kind {
            ENTRY => segment.last = Some(EntryPosition::decode(&*data).ok()?),
            STATE => segment.state = Some(HardState::decode(&*data).ok()?),
            _ => {}
        }
        segment.crc = crc;
        segment.length = frame.next;
    }
    Some(segment)
}

/// Returns the checksum up to this record, if the record has the same.
fn checksum(before: u32, record: &WalRecord) -> Option<u32> {
    let crc = match record.kind {
        // The first record repeats the checksum of the segment before.
        CRC if before == 0 => record.crc,
        CRC => before,
        _ => crc32c::crc32c_append(before, record.data.as_deref().unwrap_or_default()),
    };
    (crc == record.crc).then_some(crc)
}

/// Whether a record at this offset was written in part: disks write whole sectors, and what etcd
/// allocates ahead is zeros.
fn is_torn(body: &[u8], offset: usize) -> bool {
    let first = (SECTOR - offset % SECTOR).min(body.len());
    let (first, rest) = body.split_at(first);
    std::iter::once(first)
        .chain(rest.chunks(SECTOR))
        .any(|part| part.iter().all(|byte| *byte == 0))
}

/// Where a record lies.
struct Frame {
    body: Range<usize>,
    next: usize,
}

/// Returns the place of the record at an offset; none behind the last one.
fn frame(bytes: &[u8], at: usize) -> Option<Frame> {
    let start = at.checked_add(HEADER)?;
    let header = u64::from_le_bytes(bytes.get(at..start)?.try_into().ok()?);
    let length = usize::try_from(header & (u64::MAX >> 8)).ok()?;
    if length == 0 {
        return None;
    }
    let padding = if header >> 63 == 1 {
        (header >> 56) & 7
    } else {
        0
    };
    let end = start.checked_add(length)?;
    let next = end.checked_add(usize::try_from(padding).ok()?)?;
    Some(Frame {
        body: start..end,
        next,
    })
}

/// Returns how many entries become committed and the state that says so, if any does.
fn advanced(state: HardState, last: Option<EntryPosition>) -> Option<(u64, HardState)> {
    let last = last?;
    let (term, index) = (
        last.term.unwrap_or_default(),
        last.index.unwrap_or_default(),
    );
    let added = index.checked_sub(state.commit).filter(|added| *added > 0)?;
    // An entry is on the disk before the state of its term is.
    let vote = if term > state.term { 0 } else { state.vote };
    let state = HardState {
        term: state.term.max(term),
        vote,
        commit: index,
    };
    Some((added, state))
}

/// Writes the state behind the last whole record.
fn append(file: &File, segment: &Segment, state: HardState) -> io::Result<()> {
    let at = segment.length as u64;
    if segment.is_torn {
        // What etcd allocates ahead is zeros.
        let size = file.metadata()?.len();
        file.set_len(at)?;
        file.set_len(size)?;
    }
    file.write_all_at(&state_frame(segment.crc, state), at)?;
    file.sync_all()
}

fn state_frame(crc: u32, state: HardState) -> Vec<u8> {
    let data = state.encode_to_vec();
    let record = WalRecord {
        kind: STATE,
        crc: crc32c::crc32c_append(crc, &data),
        data: Some(data),
    };
    let body = record.encode_to_vec();
    let padding = body.len().wrapping_neg() % HEADER;
    let flags = if padding == 0 {
        0
    } else {
        0x80 | padding as u64
    };
    let mut frame = (flags << 56 | body.len() as u64).to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    frame.resize(frame.len() + padding, 0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE_BEFORE: HardState = HardState {
        term: 3,
        vote: 7,
        commit: 10,
    };

    fn position(term: u64, index: u64) -> Option<EntryPosition> {
        let (term, index) = (Some(term), Some(index));
        Some(EntryPosition { term, index })
    }

    #[test]
    fn the_state_reaches_the_last_entry_and_never_goes_back() {
        let with = |term, vote, commit| HardState { term, vote, commit };
        let cases = [
            (None, None),
            (position(3, 9), None),
            (position(3, 10), None),
            (position(3, 12), Some((2, with(3, 7, 12)))),
            // The vote belongs to a term.
            (position(4, 11), Some((1, with(4, 0, 11)))),
            (position(2, 11), Some((1, with(3, 7, 11)))),
        ];
        for (last, expected) in cases {
            assert_eq!(advanced(STATE_BEFORE, last), expected, "{last:?}");
        }
    }

    #[test]
    fn what_is_appended_is_read_again_and_a_torn_tail_goes() {
        let mut bytes = Vec::new();
        let mut crc = 0;
        for commit in 1..4 {
            let state = HardState {
                commit,
                ..STATE_BEFORE
            };
            let frame = state_frame(crc, state);
            assert_eq!(frame.len() % HEADER, 0);
            bytes.extend_from_slice(&frame);
            let segment = parse(&bytes).expect("whole");
            assert_eq!(segment.length, bytes.len());
            assert_eq!(segment.state, Some(state));
            crc = segment.crc;
        }
        let whole = bytes.len();
        bytes.resize(whole + 4096, 0);
        assert!(!parse(&bytes).expect("allocated ahead").is_torn);
        // The length of a record is there, and the rest is not.
        bytes[whole] = 200;
        bytes.truncate(whole + 100);
        let segment = parse(&bytes).expect("torn");
        assert_eq!((segment.length, segment.is_torn), (whole, true));

        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("0.wal");
        fs::write(&path, &bytes).expect("written");
        let file = OpenOptions::new().write(true).open(&path).expect("opened");
        append(&file, &segment, STATE_BEFORE).expect("appended");
        let again = read_segment(&path).expect("read");
        assert_eq!((again.state, again.is_torn), (Some(STATE_BEFORE), false));
    }

    #[test]
    fn a_damaged_record_is_noticed() {
        let mut bytes = state_frame(0, STATE_BEFORE);
        assert!(parse(&bytes).is_some());
        let commit = bytes.iter().rposition(|byte| *byte == 10);
        bytes[commit.expect("the last byte of the state")] ^= 1;
        assert_eq!(parse(&bytes), None);
        // Nor is what follows a damaged record cut off.
        let mut bytes = state_frame(0, STATE_BEFORE);
        bytes[HEADER] = 0xff;
        assert_eq!(parse(&bytes), None);
    }

    #[test]
    fn a_record_without_its_last_sector_is_torn() {
        let record = WalRecord {
            kind: ENTRY,
            crc: 1,
            data: Some(vec![7; 2 * SECTOR]),
        };
        let body = record.encode_to_vec();
        let mut bytes = (body.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&body);
        assert_eq!(parse(&bytes), None, "a wrong checksum");
        bytes[2 * SECTOR..].fill(0);
        let segment = parse(&bytes).expect("torn");
        assert_eq!((segment.length, segment.is_torn), (0, true));
    }
}
