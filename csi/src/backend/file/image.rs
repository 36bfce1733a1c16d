//! Image files: creating, growing, copying.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::config::ProvisioningMode;
use crate::error::{Error, Result};

/// Creates an empty file that only root can read.
pub(super) fn create(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(Error::io("create", path))
}

/// Opens an image that is there.
pub(super) fn open(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map_err(Error::io("open", path))
}

/// Grows an image; never makes it smaller. New bytes read as zeros.
pub(super) fn grow(
    file: &File,
    path: &Path,
    bytes: u64,
    provisioning: ProvisioningMode,
) -> Result<()> {
    let length = file.metadata().map_err(Error::io("look at", path))?.len();
    if provisioning == ProvisioningMode::Thick {
        // Also allocates holes in the existing part.
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes.max(length))
            .map_err(Error::sys("allocate", path))?;
    }
    if bytes > length {
        file.set_len(bytes).map_err(Error::io("grow", path))?;
    }
    Ok(())
}

/// Frees all blocks of an image immediately: some file systems free those of a removed
/// file later, and until then the space is unavailable.
pub(super) fn free(path: &Path) -> Result<()> {
    let file = match OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    file.set_len(0).map_err(Error::io("free", path))
}

/// Discards free blocks immediately, if the disk supports it.
pub(super) fn trim(folder: &Path) -> Result<()> {
    let file = File::open(folder).map_err(Error::io("open", folder))?;
    match crate::device::block::trim(&file) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(Error::sys("trim", folder)(error)),
    }
}

/// Makes a file share all blocks of another.
pub(super) fn reflink(source: &Path, file: &File, target: &Path) -> Result<()> {
    let source = File::open(source).map_err(Error::io("open", source))?;
    rustix::fs::ioctl_ficlone(file, &source).map_err(Error::sys("reflink", target))
}

/// Whether files in a folder can share blocks: tried with two small files.
pub(super) fn has_reflink(folder: &Path) -> Result<bool> {
    let [one, two] = ["one", "two"].map(|name| folder.join(format!(".reflink-{name}")));
    let try_it = || -> Result<bool> {
        for path in [&one, &two] {
            super::remove(path)?;
        }
        let source = create(&one)?;
        source.set_len(4096).map_err(Error::io("grow", &one))?;
        let target = create(&two)?;
        match rustix::fs::ioctl_ficlone(&target, &source) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NOSYS) => Ok(false),
            Err(error) => Err(Error::sys("reflink", &two)(error)),
        }
    };
    let found = try_it();
    for path in [&one, &two] {
        super::remove(path)?;
    }
    found
}

/// Copies the written parts of a file; holes stay holes.
pub(super) fn copy_sparse(source: &Path, file: &File, target: &Path) -> Result<()> {
    let from = File::open(source).map_err(Error::io("open", source))?;
    let length = from.metadata().map_err(Error::io("look at", source))?.len();
    file.set_len(length).map_err(Error::io("grow", target))?;
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(&from, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(Error::sys("look for data in", source)(error)),
        };
        let end = rustix::fs::seek(&from, SeekFrom::Hole(start))
            .map_err(Error::sys("look for holes in", source))?;
        copy_range(&from, file, start, end, target)?;
        at = end;
    }
    Ok(())
}

fn copy_range(from: &File, to: &File, start: u64, end: u64, target: &Path) -> Result<()> {
    let (mut read_at, mut write_at) = (start, start);
    while read_at < end {
        let left = usize::try_from(end - read_at)
            .unwrap_or(usize::MAX)
            .min(1 << 30);
        let copied =
            rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), left)
                .map_err(Error::sys("copy to", target))?;
        if copied == 0 {
            return Err(Error::io("copy to", target)(
                io::ErrorKind::UnexpectedEof.into(),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    #[test]
    fn a_copy_has_the_same_bytes_and_the_same_holes() {
        let folder = tempfile::tempdir().unwrap();
        let [source, target] = ["a", "b"].map(|name| folder.path().join(name));
        let file = create(&source).unwrap();
        grow(&file, &source, 64 << 20, ProvisioningMode::Thin).unwrap();
        file.write_all_at(b"data", 32 << 20).unwrap();
        let copy = create(&target).unwrap();
        copy_sparse(&source, &copy, &target).unwrap();
        let mut bytes = [0; 4];
        copy.read_exact_at(&mut bytes, 32 << 20).unwrap();
        assert_eq!(&bytes, b"data");
        let found = copy.metadata().unwrap();
        assert_eq!(found.len(), 64 << 20);
        assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    }

    #[test]
    fn growing_never_shrinks_and_thick_images_are_allocated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = create(&path).unwrap();
        grow(&file, &path, 8 << 20, ProvisioningMode::Thick).unwrap();
        grow(&file, &path, 1 << 20, ProvisioningMode::Thick).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!(found.len(), 8 << 20);
        assert!(found.blocks() * 512 >= 8 << 20);
    }
}
