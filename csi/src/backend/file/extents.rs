//! Finds the written blocks of an image, and those that differ from another's: two files
//! that share an extent have it at the same place of the disk.

use std::fs::File;
use std::path::Path;

use rustix::ioctl::{self, Opcode, Updater, opcode};

use crate::backend::Extent;
use crate::error::{Error, Result};

/// The number of extents per request.
const BATCH: usize = 128;

/// Extents of one file that are looked at, at most.
const LIMIT: usize = 4 << 20;

const FIEMAP_FLAG_SYNC: u32 = 1;
const FIEMAP_EXTENT_LAST: u32 = 0x1;
const FIEMAP_EXTENT_UNKNOWN: u32 = 0x2;
const FIEMAP_EXTENT_DATA_INLINE: u32 = 0x200;
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;

/// `struct fiemap_extent` of `linux/fiemap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// The head of `struct fiemap`, from which the opcode has its size.
#[repr(C)]
#[derive(Clone, Copy)]
struct FiemapHead {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

#[repr(C)]
struct Fiemap {
    head: FiemapHead,
    extents: [FiemapExtent; BATCH],
}

const FS_IOC_FIEMAP: Opcode = opcode::read_write::<FiemapHead>(b'f', 11);

/// An extent with its place on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PhysicalExtent {
    /// The offset in the file.
    pub(super) offset: u64,
    /// The offset on the disk; `None` if it is meaningless.
    pub(super) physical: Option<u64>,
    /// How long it is.
    pub(super) length: u64,
}

/// Returns the written extents of a file, in order.
pub(super) fn of_file(path: &Path) -> Result<Vec<PhysicalExtent>> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut found = Vec::new();
    let mut start = 0;
    while found.len() < LIMIT {
        let mut request = Fiemap {
            head: FiemapHead {
                start,
                length: u64::MAX - start,
                flags: FIEMAP_FLAG_SYNC,
                mapped: 0,
                count: BATCH as u32,
                reserved: 0,
            },
            extents: [FiemapExtent::default(); BATCH],
        };
        // SAFETY: FS_IOC_FIEMAP reads the head and writes at most `count`
        // extents behind it, for which there is room.
        unsafe { ioctl::ioctl(&file, Updater::<FS_IOC_FIEMAP, Fiemap>::new(&mut request)) }
            .map_err(Error::sys("map the blocks of", path))?;
        let mapped = (request.head.mapped as usize).min(BATCH);
        let Some(last) = request.extents[..mapped].last() else {
            return Ok(found);
        };
        start = last.logical + last.length;
        for extent in &request.extents[..mapped] {
            if extent.flags & FIEMAP_EXTENT_UNWRITTEN != 0 {
                continue;
            }
            let nowhere = extent.flags & (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DATA_INLINE) != 0;
            found.push(PhysicalExtent {
                offset: extent.logical,
                physical: (!nowhere).then_some(extent.physical),
                length: extent.length,
            });
        }
        if last.flags & FIEMAP_EXTENT_LAST != 0 {
            return Ok(found);
        }
    }
    Err(Error::Unsupported {
        class: path.display().to_string(),
        backend: "file",
        what: "list the blocks of an image of so many parts",
        instead: "copy the whole snapshot".to_owned(),
    })
}

/// Returns the ranges that are written.
pub(super) fn written(extents: &[PhysicalExtent]) -> Vec<Extent> {
    let mut ranges = Vec::new();
    for extent in extents {
        push(&mut ranges, extent.offset, extent.length);
    }
    ranges
}

/// Returns the ranges in which `target` may differ from `base`: those that are
/// not at the same place of the disk in both, and those that only one has.
pub(super) fn changed(base: &[PhysicalExtent], target: &[PhysicalExtent]) -> Vec<Extent> {
    let mut cuts: Vec<u64> = Vec::new();
    for extent in base.iter().chain(target) {
        cuts.extend([extent.offset, extent.offset + extent.length]);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let (mut old, mut new) = (base.iter().peekable(), target.iter().peekable());
    let mut ranges = Vec::new();
    for pair in cuts.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        let place = |extents: &mut std::iter::Peekable<std::slice::Iter<'_, PhysicalExtent>>| {
            while extents
                .peek()
                .is_some_and(|it| it.offset + it.length <= start)
            {
                extents.next();
            }
            let here = extents.peek().filter(|it| it.offset <= start);
            here.map(|it| it.physical.map(|at| at + (start - it.offset)))
        };
        let (before, after) = (place(&mut old), place(&mut new));
        let same = match (before, after) {
            (None, None) => true,
            (Some(Some(a)), Some(Some(b))) => a == b,
            _ => false,
        };
        if !same {
            push(&mut ranges, start, end - start);
        }
    }
    ranges
}

/// Appends a range, joined with the last one where they touch.
fn push(ranges: &mut Vec<Extent>, offset: u64, length: u64) {
    match ranges.last_mut() {
        Some(last) if last.offset + last.length >= offset => {
            last.length = (offset + length).max(last.offset + last.length) - last.offset;
        }
        _ => ranges.push(Extent { offset, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(offset: u64, physical: u64, length: u64) -> PhysicalExtent {
        PhysicalExtent {
            offset,
            physical: Some(physical),
            length,
        }
    }

    fn extent(offset: u64, length: u64) -> Extent {
        Extent { offset, length }
    }

    #[test]
    fn shared_extents_are_unchanged_however_they_are_cut() {
        let base = [placed(0, 100, 30)];
        let target = [placed(0, 100, 10), placed(10, 500, 10), placed(20, 120, 10)];
        assert_eq!(changed(&base, &target), [extent(10, 10)]);
        assert_eq!(changed(&target, &base), [extent(10, 10)]);
        assert!(changed(&base, &base).is_empty());
    }

    #[test]
    fn what_only_one_has_is_changed_and_neighbours_are_joined() {
        let target = [placed(0, 100, 10), placed(10, 300, 10)];
        assert_eq!(changed(&[], &target), [extent(0, 20)]);
        assert_eq!(changed(&target, &[]), [extent(0, 20)]);
        assert_eq!(written(&target), [extent(0, 20)]);
    }

    #[test]
    fn an_extent_without_a_place_counts_as_changed() {
        let inline = [PhysicalExtent {
            physical: None,
            ..placed(0, 0, 10)
        }];
        assert_eq!(changed(&inline, &inline), [extent(0, 10)]);
    }

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<FiemapHead>(), 32);
        assert_eq!(size_of::<FiemapExtent>(), 56);
    }
}
