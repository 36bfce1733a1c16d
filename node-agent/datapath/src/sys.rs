//! The calls of bpf(2) that aya has not: finding out where a pinned link is
//! attached, replacing its program in place, and detaching it.

pub(crate) mod probe;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ebpf_abi::Plain;
use nix::libc;

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_MAP_LOOKUP_AND_DELETE_ELEM: libc::c_long = 21;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
const BPF_MAP_UPDATE_BATCH: libc::c_long = 26;
const BPF_MAP_DELETE_BATCH: libc::c_long = 27;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_LINK_UPDATE: libc::c_long = 29;
const BPF_LINK_DETACH: libc::c_long = 34;

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
}

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

#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `struct bpf_attr` of the commands for many elements.
#[repr(C)]
struct LookupBatch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// The entries that one batch call read.
pub(crate) struct Portion<K, V> {
    /// Entries.
    pub(crate) entries: Vec<(K, V)>,
    /// Where to go on, or why not: `ENOENT` at the map's end, with the last
    /// entries.
    pub(crate) end: io::Result<MapCursor>,
}

/// A place in a map, known to the kernel. It writes four bytes for hash maps,
/// and a key of 24 for tries.
#[derive(Clone, Copy, Default)]
pub(crate) struct MapCursor([u64; 4]);

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
}

/// How a program is attached to a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceAttach {
    /// What the device receives (Linux 6.6).
    TcxIngress,
    /// The same, before all other programs.
    TcxIngressFirst,
    /// What it sends (Linux 6.6).
    TcxEgress,
    /// In its driver (Linux 5.9 as a link).
    XdpNative,
    /// Before the network stack, for every driver.
    XdpGeneric,
}

impl DeviceAttach {
    /// `enum bpf_attach_type`, and the flags of `linux/if_link.h` or, `BPF_F_BEFORE`,
    /// `linux/bpf.h`.
    const fn numbers(self) -> (u32, u32) {
        match self {
            Self::TcxIngress => (46, 0),
            Self::TcxIngressFirst => (46, 1 << 3),
            Self::TcxEgress => (47, 0),
            Self::XdpNative => (37, 1 << 2),
            Self::XdpGeneric => (37, 1 << 1),
        }
    }
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

/// Makes an array of one element of four bytes; `inner`: of one map like this.
pub(crate) fn make_array(inner: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    const BPF_MAP_TYPE_ARRAY_OF_MAPS: u32 = 12;
    let attr = MapCreate {
        map_type: if inner.is_some() {
            BPF_MAP_TYPE_ARRAY_OF_MAPS
        } else {
            BPF_MAP_TYPE_ARRAY
        },
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        map_flags: 0,
        inner_map_fd: inner.map_or(0, number),
    };
    // SAFETY: the attribute is that of BPF_MAP_CREATE; what it leaves out is zero.
    let fd = unsafe { bpf(BPF_MAP_CREATE, &attr)? };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Puts a map into an array of maps.
pub(crate) fn put_map(array: &impl AsFd, map: BorrowedFd<'_>) -> io::Result<()> {
    write_one(array, &0_u32, &number(map))
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

/// Runs a program at a device of this namespace, after those that are there,
/// until the link or the device goes.
pub(crate) fn create_device_link(
    program: BorrowedFd<'_>,
    device: u32,
    how: DeviceAttach,
) -> io::Result<OwnedFd> {
    let (attach_type, flags) = how.numbers();
    let attr = LinkCreate {
        prog_fd: number(program),
        target: device,
        attach_type,
        flags,
    };
    // SAFETY: the attribute is that of BPF_LINK_CREATE; what it leaves out is
    // zero, by which the kernel appends the program.
    let fd = unsafe { bpf(BPF_LINK_CREATE, &attr)? };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Pins a link at a path of a BPF filesystem.
pub(crate) fn pin(link: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let attr = ObjGet {
        pathname: name.as_ptr() as u64,
        bpf_fd: number(link),
        file_flags: 0,
    };
    // SAFETY: the attribute is that of BPF_OBJ_PIN, and `name` outlives the call.
    unsafe { bpf(BPF_OBJ_PIN, &attr)? };
    Ok(())
}

/// The index of the device at which a link is attached; 0 if it is gone.
pub(crate) fn device_of_link(link: BorrowedFd<'_>) -> io::Result<u32> {
    // The index stands where a cgroup's identifier begins (`union` in
    // `struct bpf_link_info`: `xdp.ifindex`, `tcx.ifindex`).
    let first = cgroup_of_link(link)?.to_ne_bytes();
    Ok(u32::from_ne_bytes([first[0], first[1], first[2], first[3]]))
}

/// The name that a device has now.
pub(crate) fn device_name(index: u32) -> io::Result<String> {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    let any = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    Ok(netdevice::index_to_name(&any, index)?)
}

/// The clock of programs (`CLOCK_MONOTONIC`), in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives through the call. This clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The cookie of this thread's network namespace, as programs see it.
pub(crate) fn namespace_cookie() -> io::Result<u64> {
    use rustix::net::{AddressFamily, SocketType, socket};
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)
        .or_else(|_| socket(AddressFamily::UNIX, SocketType::DGRAM, None))?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the option's value has eight bytes, for which there is room, and
    // both live through the call.
    let result = unsafe {
        libc::getsockopt(
            any.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            std::ptr::from_mut(&mut cookie).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(cookie)
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

/// Reads up to `most` entries of a hash map, from `place` on. Its keys and
/// values must be as large as `K` and `V` (their layout was checked when the
/// map was opened).
pub(crate) fn read_batch<K: Plain, V: Plain>(
    map: &impl AsFd,
    place: Option<MapCursor>,
    most: usize,
) -> Portion<K, V> {
    let mut next = MapCursor::default();
    let mut keys: Vec<K> = Vec::with_capacity(most);
    let mut values: Vec<V> = Vec::with_capacity(most);
    let mut attr = LookupBatch {
        in_batch: place.as_ref().map_or(0, |it| it.0.as_ptr() as u64),
        out_batch: next.0.as_mut_ptr() as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count: u32::try_from(most).unwrap_or(u32::MAX),
        map_fd: number(map.as_fd()),
        elem_flags: 0,
        flags: 0,
    };
    // SAFETY: the attribute is that of BPF_MAP_LOOKUP_BATCH; what it points to
    // lives, has room for `count` keys and values, and for the place.
    let end = unsafe { bpf_mut(BPF_MAP_LOOKUP_BATCH, &mut attr) };
    let valid = match &end {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(libc::ENOENT),
    };
    let count = if valid {
        (attr.count as usize).min(most)
    } else {
        0
    };
    // SAFETY: the kernel wrote so many of each, they have room, and every bit
    // pattern is a value of plain data.
    unsafe {
        keys.set_len(count);
        values.set_len(count);
    }
    Portion {
        entries: keys.into_iter().zip(values).collect(),
        end: end.map(|_| next),
    }
}

/// Reads one entry. Keys and values must be of the map's size.
pub(crate) fn read_one<K: Plain, V: Plain>(map: &impl AsFd, key: &K) -> io::Result<V> {
    let mut value = std::mem::MaybeUninit::<V>::uninit();
    let attr = Element {
        map_fd: number(map.as_fd()),
        padding: 0,
        key: std::ptr::from_ref(key) as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the attribute is that of BPF_MAP_LOOKUP_ELEM; the key lives, and
    // the value has room.
    unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &attr) }?;
    // SAFETY: the kernel wrote all of it, and every bit pattern is a value of
    // plain data.
    Ok(unsafe { value.assume_init() })
}

/// Writes one entry. Keys and values must be of the map's size.
pub(crate) fn write_one<K: Plain, V: Plain>(map: &impl AsFd, key: &K, value: &V) -> io::Result<()> {
    update(map, key, value, 0)
}

/// As [`write_one`], unless there is an entry (`BPF_NOEXIST`).
pub(crate) fn add_one<K: Plain, V: Plain>(map: &impl AsFd, key: &K, value: &V) -> io::Result<()> {
    update(map, key, value, 1)
}

fn update<K: Plain, V: Plain>(map: &impl AsFd, key: &K, value: &V, flags: u64) -> io::Result<()> {
    let attr = Element {
        map_fd: number(map.as_fd()),
        padding: 0,
        key: std::ptr::from_ref(key) as u64,
        value: std::ptr::from_ref(value) as u64,
        flags,
    };
    // SAFETY: the attribute is that of BPF_MAP_UPDATE_ELEM; key and value live.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attr) }.map(drop)
}

/// Appends a value to a queue. Values must be of the map's size.
pub(crate) fn push<V: Plain>(queue: &impl AsFd, value: &V) -> io::Result<()> {
    let attr = Element {
        map_fd: number(queue.as_fd()),
        padding: 0,
        key: 0,
        value: std::ptr::from_ref(value) as u64,
        flags: 0,
    };
    // SAFETY: the attribute is that of BPF_MAP_UPDATE_ELEM; queues have no key, and the
    // value lives.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attr) }.map(drop)
}

/// Takes the first value off a queue; `ENOENT` if there is none. Values must be of the
/// map's size.
pub(crate) fn pop<V: Plain>(queue: &impl AsFd) -> io::Result<V> {
    let mut value = std::mem::MaybeUninit::<V>::uninit();
    let attr = Element {
        map_fd: number(queue.as_fd()),
        padding: 0,
        key: 0,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the attribute is that of BPF_MAP_LOOKUP_AND_DELETE_ELEM; queues have no
    // key, and the value has room.
    unsafe { bpf(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &attr) }?;
    // SAFETY: the kernel wrote all of it, and every bit pattern is a value of
    // plain data.
    Ok(unsafe { value.assume_init() })
}

/// Removes one entry.
pub(crate) fn delete_one<K: Plain>(map: &impl AsFd, key: &K) -> io::Result<()> {
    let attr = Element {
        map_fd: number(map.as_fd()),
        padding: 0,
        key: std::ptr::from_ref(key) as u64,
        value: 0,
        flags: 0,
    };
    // SAFETY: the attribute is that of BPF_MAP_DELETE_ELEM; the key lives.
    unsafe { bpf(BPF_MAP_DELETE_ELEM, &attr) }.map(drop)
}

/// Writes entries in order; says how many were, and why not all.
pub(crate) fn write_batch<K: Plain, V: Plain>(
    map: &impl AsFd,
    keys: &[K],
    values: &[V],
) -> (usize, io::Result<()>) {
    let most = keys.len().min(values.len());
    let mut attr = LookupBatch {
        in_batch: 0,
        out_batch: 0,
        keys: keys.as_ptr() as u64,
        values: values.as_ptr() as u64,
        count: u32::try_from(most).unwrap_or(u32::MAX),
        map_fd: number(map.as_fd()),
        elem_flags: 0,
        flags: 0,
    };
    // SAFETY: the attribute is that of BPF_MAP_UPDATE_BATCH; keys and values
    // live, and there are `count` of each.
    let end = unsafe { bpf_mut(BPF_MAP_UPDATE_BATCH, &mut attr) };
    progress(&attr, most, end)
}

/// Removes entries in order; says how many were, and why not all. One that is
/// not there ends it.
pub(crate) fn delete_batch<K: Plain>(map: &impl AsFd, keys: &[K]) -> (usize, io::Result<()>) {
    let most = keys.len();
    let mut attr = LookupBatch {
        in_batch: 0,
        out_batch: 0,
        keys: keys.as_ptr() as u64,
        values: 0,
        count: u32::try_from(most).unwrap_or(u32::MAX),
        map_fd: number(map.as_fd()),
        elem_flags: 0,
        flags: 0,
    };
    // SAFETY: the attribute is that of BPF_MAP_DELETE_BATCH; the keys live, and
    // there are `count` of them.
    let end = unsafe { bpf_mut(BPF_MAP_DELETE_BATCH, &mut attr) };
    progress(&attr, most, end)
}

fn progress(attr: &LookupBatch, most: usize, end: io::Result<RawFd>) -> (usize, io::Result<()>) {
    match end {
        Ok(_) => (most, Ok(())),
        // Refused as a whole, the count is as it was asked.
        Err(error) if attr.count as usize >= most => (0, Err(error)),
        Err(error) => (attr.count as usize, Err(error)),
    }
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    // Open descriptors are not negative.
    fd.as_raw_fd().cast_unsigned()
}

/// # Safety
///
/// `attr` must be what `command` takes, and all that it points to must live.
unsafe fn bpf<T>(command: libc::c_long, attr: &T) -> io::Result<RawFd> {
    // SAFETY: the caller vouches for the attribute.
    unsafe { call(command, std::ptr::from_ref(attr)) }
}

/// As [`bpf`], for commands whose answer is in the attribute.
///
/// # Safety
///
/// As for [`bpf`].
unsafe fn bpf_mut<T>(command: libc::c_long, attr: &mut T) -> io::Result<RawFd> {
    // SAFETY: the caller vouches for the attribute.
    unsafe { call(command, std::ptr::from_mut(attr)) }
}

/// # Safety
///
/// As for [`bpf`].
unsafe fn call<T>(command: libc::c_long, attr: *const T) -> io::Result<RawFd> {
    // SAFETY: the kernel reads `size` bytes of the attribute, which is its
    // size, and writes only to what `command` answers in.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    RawFd::try_from(result).map_err(io::Error::other)
}

/// The identifiers of a link and of its program.
#[cfg(test)]
pub(crate) fn link_and_program(link: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut info = CgroupLinkInfo::default();
    let attr = InfoByFd {
        bpf_fd: number(link),
        info_len: size_of::<CgroupLinkInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    // SAFETY: as in `cgroup_of_link`.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &attr)? };
    Ok((info.id, info.program))
}

/// Loads and pins a program that does nothing but return `verdict`, for tests
/// of what attaches programs.
#[cfg(test)]
pub(crate) fn pin_trivial(kind: u32, verdict: i32, path: &Path) -> io::Result<()> {
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        rest: [u64; 4],
    }
    // r0 = verdict; exit (RFC 9669, sections 4.1 and 4.3).
    let instructions = [
        0xb7_u64 | u64::from(verdict.cast_unsigned()) << 32,
        0x95_u64,
    ];
    let attr = Load {
        kind,
        count: 2,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        rest: [0; 4],
    };
    // SAFETY: the attribute is that of BPF_PROG_LOAD (5); the instructions and
    // the licence outlive the call.
    let fd = unsafe { bpf(5, &attr)? };
    // SAFETY: the kernel has just made this descriptor for us.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    pin(program.as_fd(), path)
}

/// Plain data out of as many bytes.
pub(crate) fn plain_of<T: Plain>(bytes: &[u8]) -> Option<T> {
    (bytes.len() == size_of::<T>()).then(|| {
        // SAFETY: as many bytes are there, and `Plain` promises that any of them
        // are a value.
        unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
    })
}
