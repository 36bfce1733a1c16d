//! Whole frames, as no kernel would send them by itself.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::libc;

use super::world::Place;

/// A socket at a place's `eth0` to which frames are written.
pub struct Wire(OwnedFd);

impl Wire {
    pub fn open(place: &Place) -> Self {
        let made = place.within(|| -> io::Result<OwnedFd> {
            // SAFETY: no memory is passed.
            let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
            if raw < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the descriptor is new and nobody else's.
            let socket = unsafe { OwnedFd::from_raw_fd(raw) };
            // SAFETY: all-zero is a value of this plain structure.
            let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = nix::net::if_::if_nametoindex("eth0")?.cast_signed();
            let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            // SAFETY: the address is a sockaddr_ll of that length, read during the call.
            let bound =
                unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
            if bound < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(socket)
        });
        Self(made.expect("a socket for frames"))
    }

    pub fn send(&self, frame: &[u8]) {
        let sent = rustix::io::write(&self.0, frame).expect("write");
        assert_eq!(sent, frame.len());
    }
}
