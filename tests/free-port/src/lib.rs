//! Finds a TCP port on which a test's program can listen, now and after a restart.
//!
//! A listener on port 0 is no way to find one: the kernel picks from the range of
//! `net.ipv4.ip_local_port_range` (32768 to 60999 by default), from which it also picks the local
//! ports of outgoing connections. Between the test's choice and the program's `bind`, or while the
//! program is restarted, any connection of this machine may take the port.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below both the kernel's local ports and Kubernetes' node ports (30000 to 32767).
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// Where this process begins in the range. Processes that run at the same time begin elsewhere.
static BEGIN: LazyLock<AtomicU16> = LazyLock::new(|| {
    let random = RandomState::new().hash_one(std::process::id());
    AtomicU16::new(u16::try_from(random % u64::from(COUNT)).unwrap_or_default())
});

/// Returns a port between 10000 and 29999 on which nothing listens, and which this process has not
/// returned before.
///
/// # Errors
///
/// The error of the last attempt, if all ports of the range are taken.
pub fn free_port() -> io::Result<u16> {
    free_port_after(&BEGIN)
}

/// Returns the first free port from `next` on, and moves `next` past it.
fn free_port_after(next: &AtomicU16) -> io::Result<u16> {
    let mut refused = None;
    for _ in 0..COUNT {
        let port = FIRST + next.fetch_add(1, Ordering::Relaxed) % COUNT;
        match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
            Ok(_) => return Ok(port),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// That each can be bound afterwards is not asserted: another process of this machine may be
    /// given the port in between.
    #[test]
    fn a_port_is_returned_once() {
        let mut seen = HashSet::new();
        for _ in 0..50 {
            let port = free_port().expect("a port");
            assert!((FIRST..FIRST + COUNT).contains(&port), "{port}");
            assert!(seen.insert(port), "{port} twice");
        }
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_passed_over() {
        let (port, _listener) = (0..50)
            .find_map(|_| {
                let port = free_port().ok()?;
                Some((port, TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?))
            })
            .expect("a port to listen on");
        let next = AtomicU16::new(port - FIRST);
        assert_ne!(free_port_after(&next).expect("a port"), port);
    }
}
