//! System calls: packet sockets with a filter, and TCP passwords.

use std::io;
use std::mem::{size_of, size_of_val};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::libc;
use tokio::io::unix::AsyncFd;

/// One instruction of a classic filter.
const fn op(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Takes the frames of neighbour discovery: ICMPv6 of the types 135 and 136, with
/// hop limit 255. All other IPv6 traffic stays in the kernel.
const NEIGHBOURS: [libc::sock_filter; 9] = [
    op(0x30, 0, 0, 20),   // next header:
    op(0x15, 0, 6, 58),   //   ICMPv6, else 8
    op(0x30, 0, 0, 21),   // hop limit:
    op(0x15, 0, 4, 255),  //   255, else 8
    op(0x30, 0, 0, 54),   // type:
    op(0x35, 0, 2, 135),  //   at least 135, else 8
    op(0x25, 1, 0, 136),  //   more than 136: 8
    op(0x06, 0, 0, 2048), // 7: the frame
    op(0x06, 0, 0, 0),    // 8: nothing
];

/// The frames that a socket receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFilter {
    /// ARP.
    Arp,
    /// Neighbour discovery.
    Neighbours,
}

/// Opens a socket for whole frames of an interface; written frames are sent there. Must
/// be called within a tokio runtime.
///
/// # Errors
/// The system's error: no permission (`CAP_NET_RAW`), or no such interface.
pub fn packet_socket(interface: u32, take: FrameFilter) -> io::Result<AsyncFd<OwnedFd>> {
    let protocol = match take {
        FrameFilter::Arp => libc::ETH_P_ARP,
        FrameFilter::Neighbours => libc::ETH_P_IPV6,
    };
    let protocol = u16::try_from(protocol).unwrap_or_default().to_be();
    // Protocol 0: nothing is received until filter and interface are set.
    // SAFETY: no memory is passed.
    let raw = unsafe {
        libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            0,
        )
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nothing else.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    if take == FrameFilter::Neighbours {
        let mut program = NEIGHBOURS;
        let filter = libc::sock_fprog {
            len: u16::try_from(program.len()).unwrap_or_default(),
            filter: program.as_mut_ptr(),
        };
        set(
            socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            &filter,
        )?;
    }
    // SAFETY: all-zero is a value of this plain structure.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = protocol;
    address.sll_ifindex = i32::try_from(interface).unwrap_or_default();
    let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
    // SAFETY: the address is a sockaddr_ll of that length, read during the call only.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if bound < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an `OwnedFd` gives the same open descriptor as long as it lives, and
    // nothing takes it out of the `AsyncFd`.
    Ok(unsafe { AsyncFd::register(socket) }?)
}

fn set<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or_default();
    // SAFETY: the value lives and has that length during the call; callers give the
    // structure that the option is documented to take (socket(7), tcp(7)).
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const *value).cast(),
            length,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The longest password (`TCP_MD5SIG_MAXKEYLEN` of linux/tcp.h).
pub const LONGEST_PASSWORD: usize = 80;

/// `struct tcp_md5sig` of linux/tcp.h.
#[repr(C)]
struct TcpMd5Sig {
    address: libc::sockaddr_storage,
    flags: u8,
    prefix_length: u8,
    key_length: u16,
    interface: i32,
    key: [u8; LONGEST_PASSWORD],
}

/// Signs all segments from and to a peer with a password (RFC 2385). Must be called
/// before connecting.
///
/// # Errors
/// The system's error; a password that is too long, or empty.
pub fn sign_segments(socket: BorrowedFd<'_>, peer: IpAddr, password: &[u8]) -> io::Result<()> {
    if password.is_empty() || password.len() > LONGEST_PASSWORD {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: all-zero is a value of these plain structures.
    let mut sign: TcpMd5Sig = unsafe { std::mem::zeroed() };
    match peer {
        IpAddr::V4(it) => {
            // SAFETY: sockaddr_storage is large enough and aligned for a sockaddr_in.
            let address = unsafe { &mut *(&raw mut sign.address).cast::<libc::sockaddr_in>() };
            address.sin_family = u16::try_from(libc::AF_INET).unwrap_or_default();
            address.sin_addr.s_addr = u32::from_ne_bytes(it.octets());
        }
        IpAddr::V6(it) => {
            // SAFETY: sockaddr_storage is large enough and aligned for a sockaddr_in6.
            let address = unsafe { &mut *(&raw mut sign.address).cast::<libc::sockaddr_in6>() };
            address.sin6_family = u16::try_from(libc::AF_INET6).unwrap_or_default();
            address.sin6_addr.s6_addr = it.octets();
        }
    }
    sign.key_length = u16::try_from(password.len()).unwrap_or_default();
    sign.key[..password.len()].copy_from_slice(password);
    set(socket, libc::IPPROTO_TCP, libc::TCP_MD5SIG, &sign)
}
