//! The calls of bpf(2) that find out whether the kernel takes a kind of program or map.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use super::{BPF_LINK_CREATE, BPF_MAP_CREATE, LinkCreate, MapCreate, bpf, number};

const BPF_PROG_LOAD: nix::libc::c_long = 5;

/// `struct bpf_attr` of BPF_PROG_LOAD.
#[repr(C)]
struct ProgLoadAttr {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_type: u32,
}

/// Loads a program of these instructions (RFC 9669).
pub(crate) fn load(kind: u32, attach_type: u32, instructions: &[u64]) -> io::Result<OwnedFd> {
    let attr = ProgLoadAttr {
        kind,
        count: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: *b"orlop_probe\0\0\0\0\0",
        device: 0,
        attach_type,
    };
    // SAFETY: the attribute is that of BPF_PROG_LOAD; the instructions and the licence
    // outlive the call.
    let fd = unsafe { bpf(BPF_PROG_LOAD, &attr)? };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a map, which ends with its descriptor.
pub(crate) fn make_map(
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let attr = MapCreate {
        map_type: kind,
        key_size: key,
        value_size: value,
        max_entries: entries,
        map_flags: flags,
        inner_map_fd: 0,
    };
    // SAFETY: the attribute is that of BPF_MAP_CREATE; what it leaves out is zero.
    let fd = unsafe { bpf(BPF_MAP_CREATE, &attr)? };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches a program to a cgroup, until the descriptor is closed.
pub(crate) fn attach_to_cgroup(
    program: BorrowedFd<'_>,
    cgroup: BorrowedFd<'_>,
    attach_type: u32,
) -> io::Result<OwnedFd> {
    let attr = LinkCreate {
        prog_fd: number(program),
        target: number(cgroup),
        attach_type,
        flags: 0,
    };
    // SAFETY: the attribute is that of BPF_LINK_CREATE; what it leaves out is zero.
    let fd = unsafe { bpf(BPF_LINK_CREATE, &attr)? };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
