//! What a device leaves to its hardware: `ETHTOOL_S…` of ethtool(8)'s ioctl.

#![allow(unsafe_code, reason = "an ioctl that no library here wraps")]

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use nix::libc;

/// Checksums of what it sends (`ETHTOOL_STXCSUM`).
pub const CHECKSUM: u32 = 0x17;

const SIOCETHTOOL: libc::Ioctl = 0x8946;

#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ifreq` with the member that SIOCETHTOOL reads.
#[repr(C)]
struct Request {
    name: [u8; 16],
    value: *mut Value,
    rest: [u64; 2],
}

/// Switches it on or off at a device of the caller's namespace.
pub fn set(device: &str, command: u32, on: bool) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut value = Value {
        command,
        data: u32::from(on),
    };
    let mut request = Request {
        name: [0; 16],
        value: &raw mut value,
        rest: [0; 2],
    };
    request.name[..device.len()].copy_from_slice(device.as_bytes());
    // SAFETY: the request is as long as the kernel's, and the value that it
    // points to lives until the call returns.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    let error = std::io::Error::last_os_error();
    assert!(failed == 0, "{device}: {error}");
}
