//! Sockets to listen on: opened here, or inherited.

use std::{
    net::SocketAddr,
    os::fd::{FromRawFd, OwnedFd},
};

use tokio::net::TcpListener;

use crate::error::Error;

/// First descriptor of the socket activation protocol (`sd_listen_fds(3)`).
const FIRST: i32 = 3;

/// Opens a listening socket.
///
/// # Errors
/// [`Error::Listen`], naming the address.
pub async fn open(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address)
        .await
        .map_err(|source| Error::Listen { address, source })
}

/// Returns a further socket that a service manager passed on, if any. It stays open over
/// restarts of this process, so that clients wait instead of being refused.
///
/// # Errors
/// [`Error::Inherited`] if the descriptor is not a listening socket.
pub fn inherited() -> Result<Option<TcpListener>, Error> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) || number("LISTEN_FDS").unwrap_or(0) < 1 {
        return Ok(None);
    }
    // SAFETY: by the protocol, descriptor 3 is open and was passed to this very
    // process (LISTEN_PID) for it to own; nothing else here refers to it, since
    // this is called once, at the start.
    let socket = unsafe { OwnedFd::from_raw_fd(FIRST) };
    let socket = std::net::TcpListener::from(socket);
    socket.set_nonblocking(true).map_err(Error::Inherited)?;
    TcpListener::from_std(socket)
        .map(Some)
        .map_err(Error::Inherited)
}
