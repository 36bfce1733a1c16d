//! `sd_notify(3)`: tells systemd, where it asks, that the driver is ready or
//! stops.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state to the service manager; does nothing if there is none.
///
/// # Errors
/// When the manager's socket cannot be reached.
pub fn notify(socket: Option<&OsStr>, state: &str) -> io::Result<()> {
    let Some(name) = socket.filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_receives_the_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        notify(Some(path.as_os_str()), "READY=1").unwrap();
        let mut bytes = [0; 16];
        let count = manager.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"READY=1");
        assert!(notify(None, "READY=1").is_ok());
    }
}
