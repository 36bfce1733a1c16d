//! System calls on block devices and files that have no safe wrapper.

use std::ffi::c_void;
use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::ioctl::{self, Getter, Ioctl, IoctlOutput, Opcode, Setter, Updater, opcode};

/// `BLKGETSIZE64`: the size in bytes.
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);
/// `BLKZEROOUT`: zeros a range.
const BLKZEROOUT: Opcode = opcode::none(0x12, 127);
/// `BLKDISCARD`: discards a range.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);
/// `BLKROSET`: makes a device read-only or writable.
const BLKROSET: Opcode = opcode::none(0x12, 93);
/// `FITRIM`: discards the free space of a file system.
const FITRIM: Opcode = opcode::read_write::<[u64; 3]>(b'X', 121);
/// `FIFREEZE`: freezes a file system.
const FIFREEZE: Opcode = opcode::read_write::<i32>(b'X', 119);
/// `FITHAW`: thaws a file system.
const FITHAW: Opcode = opcode::read_write::<i32>(b'X', 120);

/// Returns the size of a block device in bytes.
///
/// # Errors
/// When it is no block device.
pub fn size(device: impl AsFd) -> Result<u64> {
    // SAFETY: BLKGETSIZE64 writes one u64, which is the output type.
    unsafe { ioctl::ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }
}

/// Overwrites a range with zeros, by the device's own means where it has some.
///
/// # Errors
/// When the device refuses.
pub fn zero_out(device: impl AsFd, start: u64, length: u64) -> Result<()> {
    // SAFETY: BLKZEROOUT reads two u64 through the pointer.
    unsafe { ioctl::ioctl(device, Setter::<BLKZEROOUT, [u64; 2]>::new([start, length])) }
}

/// Tells a device that a range is unused.
///
/// # Errors
/// When the device knows no such thing.
pub fn discard(device: impl AsFd, start: u64, length: u64) -> Result<()> {
    // SAFETY: BLKDISCARD reads two u64 through the pointer.
    unsafe { ioctl::ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new([start, length])) }
}

/// Makes a device read-only or writable for all of its users.
///
/// # Errors
/// When it is no block device.
pub fn set_read_only(device: impl AsFd, read_only: bool) -> Result<()> {
    // SAFETY: BLKROSET reads one int through the pointer.
    unsafe { ioctl::ioctl(device, Setter::<BLKROSET, i32>::new(read_only.into())) }
}

/// Freezes the file system of a folder: writes wait until it is thawed.
///
/// # Errors
/// When the file system cannot be frozen, or is frozen already.
pub fn freeze(folder: impl AsFd) -> Result<()> {
    // SAFETY: FIFREEZE ignores its argument.
    unsafe { ioctl::ioctl(folder, Setter::<FIFREEZE, i32>::new(0)) }
}

/// Thaws the file system of a folder.
///
/// # Errors
/// When it is not frozen.
pub fn thaw(folder: impl AsFd) -> Result<()> {
    // SAFETY: FITHAW ignores its argument.
    unsafe { ioctl::ioctl(folder, Setter::<FITHAW, i32>::new(0)) }
}

/// Tells the disk which blocks of a folder's file system are free.
///
/// # Errors
/// When the file system or its disk knows no such thing.
pub fn trim(folder: impl AsFd) -> Result<()> {
    // The whole file system, and every free range.
    let mut range = [0, u64::MAX, 0];
    // SAFETY: FITRIM reads and writes three u64 (`struct fstrim_range`).
    unsafe { ioctl::ioctl(folder, Updater::<FITRIM, [u64; 3]>::new(&mut range)) }
}

/// An `ioctl` whose argument is a number and whose result is another.
pub(super) struct NumberCall {
    pub(super) opcode: Opcode,
    pub(super) argument: usize,
}

// SAFETY: the argument is passed by value, so that the kernel touches no memory
// of this process; the opcodes that are used (loop devices) expect a number.
unsafe impl Ioctl for NumberCall {
    type Output = i32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.argument)
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> Result<Self::Output> {
        Ok(output)
    }
}
