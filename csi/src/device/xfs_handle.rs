//! Files of XFS, opened by their handle (`open_by_handle`(3)).
//!
//! What is written through such a file leaves its times alone. A loop device answers a flush
//! with fsync(2) on its image, for which XFS writes its log when a time has changed, and only
//! flushes the disk otherwise: without this, each synced write in a volume costs two.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::{null, null_mut};

use rustix::fs::OFlags;
use rustix::io::{Errno, FdFlags, Result, fcntl_setfd};
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};

/// `XFS_SUPER_MAGIC` of `linux/magic.h`.
const XFS_SUPER_MAGIC: u64 = 0x5846_5342;

/// Larger than any `xfs_handle_t`, which has 24 bytes.
const HANDLE: usize = 64;

/// `struct xfs_fsop_handlereq` of `xfs/xfs_fs.h`.
#[repr(C)]
struct HandleRequest {
    file: RawFd,
    path: *const c_void,
    flags: u32,
    handle: *const c_void,
    handle_length: u32,
    found: *mut c_void,
    found_length: *mut u32,
}

const XFS_IOC_FD_TO_HANDLE: Opcode = opcode::read_write::<HandleRequest>(b'X', 106);
const XFS_IOC_OPEN_BY_HANDLE: Opcode = opcode::read_write::<HandleRequest>(b'X', 107);

/// A call whose result is a number.
struct HandleCall {
    opcode: Opcode,
    request: HandleRequest,
}

// SAFETY: both calls read one `xfs_fsop_handlereq`; what it points to lives longer than the call
// in `open`.
unsafe impl Ioctl for HandleCall {
    type Output = RawFd;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.request).cast()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> Result<RawFd> {
        Ok(output)
    }
}

/// Opens a file again so that writes leave its times alone; `None` if it is not on XFS.
///
/// # Errors
/// When the kernel refuses, which it does without `CAP_SYS_ADMIN`.
pub fn reopen(file: &File, path: &Path, read_only: bool) -> Result<Option<File>> {
    if rustix::fs::fstatfs(file)?.f_type as u64 & 0xffff_ffff != XFS_SUPER_MAGIC {
        return Ok(None);
    }
    // The file system of a handle is that of any of its files.
    let folder = File::open(path.parent().unwrap_or(path))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let mut handle = [0_u8; HANDLE];
    let mut length = 0_u32;
    let request = HandleRequest {
        file: file.as_raw_fd(),
        path: null(),
        flags: 0,
        handle: null(),
        handle_length: 0,
        found: handle.as_mut_ptr().cast(),
        found_length: &raw mut length,
    };
    let opcode = XFS_IOC_FD_TO_HANDLE;
    // SAFETY: the call writes a handle, which is shorter than its place, and its length.
    unsafe { ioctl::ioctl(&folder, HandleCall { opcode, request }) }?;
    let access = match read_only {
        true => OFlags::RDONLY,
        false => OFlags::RDWR,
    };
    let request = HandleRequest {
        file: 0,
        path: null(),
        flags: access.bits(),
        handle: handle.as_ptr().cast(),
        handle_length: length,
        found: null_mut(),
        found_length: null_mut(),
    };
    let opcode = XFS_IOC_OPEN_BY_HANDLE;
    // SAFETY: the call reads the handle, of that length.
    let opened = unsafe { ioctl::ioctl(&folder, HandleCall { opcode, request }) }?;
    // SAFETY: the call returned a new descriptor, which nobody else owns.
    let opened = unsafe { OwnedFd::from_raw_fd(opened) };
    // The call knows no O_CLOEXEC.
    fcntl_setfd(&opened, FdFlags::CLOEXEC)?;
    Ok(Some(opened.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<HandleRequest>(), 56);
    }

    #[test]
    fn a_file_that_is_not_on_xfs_is_left_as_it_is() {
        let file = File::open("/proc/self/status").unwrap();
        let reopened = reopen(&file, Path::new("/proc/self/status"), true).unwrap();
        assert!(reopened.is_none());
    }
}
