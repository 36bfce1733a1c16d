//! The project of a folder (`struct fsxattr` of `linux/fs.h`).

use std::fs::File;
use std::path::Path;

use rustix::ioctl::{self, Getter, Opcode, Setter, opcode};

use crate::error::{Error, Result};

/// Files that are made in the folder get its project.
const FS_XFLAG_PROJINHERIT: u32 = 0x200;

#[repr(C)]
#[derive(Clone, Copy)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    padding: [u8; 8],
}

const FS_IOC_FSGETXATTR: Opcode = opcode::read::<Attributes>(b'X', 31);
const FS_IOC_FSSETXATTR: Opcode = opcode::write::<Attributes>(b'X', 32);

fn read(file: &File, path: &Path) -> Result<Attributes> {
    // SAFETY: the call writes one `fsxattr`, whose layout this is.
    unsafe { ioctl::ioctl(file, Getter::<FS_IOC_FSGETXATTR, Attributes>::new()) }
        .map_err(Error::sys("read the project of", path))
}

/// Returns the project of a folder.
pub(super) fn get(path: &Path) -> Result<u32> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    read(&file, path).map(|it| it.project)
}

/// Gives a folder, and all files that will be made in it, a project.
pub(super) fn set(path: &Path, project: u32) -> Result<()> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut attributes = read(&file, path)?;
    attributes.project = project;
    attributes.flags |= FS_XFLAG_PROJINHERIT;
    // SAFETY: the call reads one `fsxattr`, whose layout this is.
    unsafe {
        ioctl::ioctl(
            &file,
            Setter::<FS_IOC_FSSETXATTR, Attributes>::new(attributes),
        )
    }
    .map_err(Error::sys("set the project of", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<Attributes>(), 28);
    }
}
