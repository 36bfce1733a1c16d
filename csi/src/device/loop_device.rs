//! Loop devices, by which an image file becomes a block device.
//!
//! They use direct I/O: pages are cached once, and a write that the volume's
//! user has synced is on the disk of the image.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::ioctl::{self, Getter, Opcode, Setter};

use super::block::NumberCall;
use super::xfs_handle;
use crate::error::{Error, Result};

const CONTROL: &str = "/dev/loop-control";
const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LOOP_SET_CAPACITY: Opcode = 0x4C07;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;

const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Logical block size: that of the pages, so that direct I/O is aligned on
/// every disk.
const BLOCK_SIZE: u32 = 4096;

/// The number of attempts when another process takes the device first.
const TRIES: usize = 64;

/// `struct loop_info64` of `linux/loop.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of `linux/loop.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const EMPTY: LoopInfo = LoopInfo {
    device: 0,
    inode: 0,
    rdevice: 0,
    offset: 0,
    size_limit: 0,
    number: 0,
    encrypt_type: 0,
    encrypt_key_size: 0,
    flags: 0,
    file_name: [0; 64],
    crypt_name: [0; 64],
    encrypt_key: [0; 32],
    init: [0; 2],
};

/// Returns the loop devices of an image.
///
/// # Errors
/// When the image or `/sys` cannot be read.
pub fn find(image: &Path) -> Result<Vec<PathBuf>> {
    let wanted = match fs::metadata(image) {
        Ok(wanted) => wanted,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("look at", image)(error)),
    };
    let folder = Path::new("/sys/block");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let entry = entry.map_err(Error::io("list", folder))?;
        let name = entry.file_name();
        // Only devices that are in use have this folder.
        if !name.to_string_lossy().starts_with("loop") || !entry.path().join("loop").exists() {
            continue;
        }
        let device = Path::new("/dev").join(&name);
        let Ok(file) = File::open(&device) else {
            continue;
        };
        // SAFETY: LOOP_GET_STATUS64 writes one `loop_info64`, which is the type.
        let info = unsafe { ioctl::ioctl(&file, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) };
        if info.is_ok_and(|it| it.inode == wanted.ino() && it.device == wanted.dev()) {
            found.push(device);
        }
    }
    found.sort();
    Ok(found)
}

/// Attaches an image, unless it is attached, and returns the device.
///
/// # Errors
/// When the kernel has no loop devices left or refuses the image.
pub fn attach(image: &Path, read_only: bool) -> Result<PathBuf> {
    if let Some(device) = find(image)?.into_iter().next() {
        return Ok(device);
    }
    let path = Path::new(CONTROL);
    let control = File::open(path).map_err(Error::io("open", path))?;
    let file = OpenOptions::new()
        .read(true)
        .write(!read_only)
        .open(image)
        .map_err(Error::io("open", image))?;
    let file = match xfs_handle::reopen(&file, image, read_only) {
        Ok(reopened) => reopened.unwrap_or(file),
        Err(errno) => {
            tracing::debug!(
                image = %image.display(), error = %errno,
                "cannot open the image by its handle; synced writes take longer"
            );
            file
        }
    };
    for _ in 0..TRIES {
        let call = NumberCall {
            opcode: LOOP_CTL_GET_FREE,
            argument: 0,
        };
        // SAFETY: LOOP_CTL_GET_FREE takes no argument and returns a number.
        let number = unsafe { ioctl::ioctl(&control, call) }.map_err(Error::sys("ask", path))?;
        let device = PathBuf::from(format!("/dev/loop{number}"));
        let node = OpenOptions::new()
            .read(true)
            .write(!read_only)
            .open(&device);
        let node = node.map_err(Error::io("open", &device))?;
        match configure(&node, &file, image, read_only) {
            Ok(()) => return Ok(device),
            // Another process was faster.
            Err(Errno::BUSY) => {}
            Err(error) => return Err(Error::sys("attach", image)(error)),
        }
    }
    Err(Error::sys("attach", image)(Errno::BUSY))
}

fn configure(node: &File, image: &File, path: &Path, read_only: bool) -> Result<(), Errno> {
    let mut info = EMPTY;
    info.flags = LO_FLAGS_DIRECT_IO | if read_only { LO_FLAGS_READ_ONLY } else { 0 };
    let name = path.as_os_str().as_encoded_bytes();
    // The end says more than the beginning, and the last byte stays zero.
    let name = &name[name.len().saturating_sub(63)..];
    info.file_name[..name.len()].copy_from_slice(name);
    let config = LoopConfig {
        fd: image.as_raw_fd().cast_unsigned(),
        block_size: BLOCK_SIZE,
        info,
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads one `loop_config`, whose layout this is.
    unsafe { ioctl::ioctl(node, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) }
}

/// Makes a device as large as its image has become.
///
/// # Errors
/// When the device is not attached.
pub fn refresh_size(device: &Path) -> Result<()> {
    let node = File::open(device).map_err(Error::io("open", device))?;
    let call = NumberCall {
        opcode: LOOP_SET_CAPACITY,
        argument: 0,
    };
    // SAFETY: LOOP_SET_CAPACITY takes no argument.
    let done = unsafe { ioctl::ioctl(&node, call) };
    done.map(drop)
        .map_err(Error::sys("refresh the size of", device))
}

/// Detaches all devices of an image; does nothing if there is none.
///
/// # Errors
/// When the kernel refuses.
pub fn detach(image: &Path) -> Result<()> {
    for device in find(image)? {
        let node = File::open(&device).map_err(Error::io("open", &device))?;
        let call = NumberCall {
            opcode: LOOP_CLR_FD,
            argument: 0,
        };
        // SAFETY: LOOP_CLR_FD takes no argument.
        match unsafe { ioctl::ioctl(&node, call) } {
            // Not attached any more.
            Ok(_) | Err(Errno::NXIO) => {}
            Err(error) => return Err(Error::sys("detach", &device)(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
    }
}
