//! The calls of bpf(2) that aya has not: finding out where a pinned link is
//! attached, replacing its program in place, and detaching it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::libc;

const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_LINK_UPDATE: libc::c_long = 29;
const BPF_LINK_DETACH: libc::c_long = 34;

#[repr(C)]
struct ObjGet {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

#[repr(C)]
struct InfoByFd {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

#[repr(C)]
struct LinkUpdate {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

#[repr(C)]
struct LinkDetach {
    link_fd: u32,
}

/// `struct bpf_link_info` as far as it concerns cgroups; the kernel fills what
/// is there.
#[repr(C)]
#[derive(Default)]
struct CgroupLinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    padding: u32,
    cgroup: u64,
    attach_type: u32,
    reserved: u32,
}

/// Opens a pinned link.
pub(crate) fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let attr = ObjGet {
        pathname: name.as_ptr() as u64,
        bpf_fd: 0,
        file_flags: 0,
    };
    // SAFETY: the attribute is that of BPF_OBJ_GET, and `name` outlives the call.
    let fd = unsafe { bpf(BPF_OBJ_GET, &attr)? };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The identifier of the cgroup at which a link is attached; 0 if that cgroup
/// is gone.
pub(crate) fn cgroup_of_link(link: BorrowedFd<'_>) -> io::Result<u64> {
    let mut info = CgroupLinkInfo::default();
    let attr = InfoByFd {
        bpf_fd: number(link),
        info_len: size_of::<CgroupLinkInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    // SAFETY: the attribute is that of BPF_OBJ_GET_INFO_BY_FD; `info` is
    // `info_len` bytes long and outlives the call.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &attr)? };
    Ok(info.cgroup)
}

/// Replaces the program of a link. Every call of the hook runs the old program
/// or the new one.
pub(crate) fn update_link(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let attr = LinkUpdate {
        link_fd: number(link),
        new_prog_fd: number(program),
        flags: 0,
        old_prog_fd: 0,
    };
    // SAFETY: the attribute is that of BPF_LINK_UPDATE.
    unsafe { bpf(BPF_LINK_UPDATE, &attr)? };
    Ok(())
}

/// Detaches a link: once this returns, its program runs no more. Removing the
/// pin alone does so too, but at a time of the kernel's choosing.
pub(crate) fn detach_link(link: BorrowedFd<'_>) -> io::Result<()> {
    let attr = LinkDetach {
        link_fd: number(link),
    };
    // SAFETY: the attribute is that of BPF_LINK_DETACH.
    unsafe { bpf(BPF_LINK_DETACH, &attr)? };
    Ok(())
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    // Open descriptors are not negative.
    fd.as_raw_fd().cast_unsigned()
}

/// # Safety
///
/// `attr` must be what `command` takes, and all that it points to must live.
unsafe fn bpf<T>(command: libc::c_long, attr: &T) -> io::Result<RawFd> {
    // SAFETY: the caller vouches for the attribute; the kernel reads `size`
    // bytes of it, which is its size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attr),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    RawFd::try_from(result).map_err(io::Error::other)
}
