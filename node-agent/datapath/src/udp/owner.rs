//! Sockets of other processes, through the descriptors of who has them.
//!
//! What a process may do with its socket can be done with a copy of its descriptor
//! (pidfd_getfd(2)). A socket that no process has, on its way in a message or held by the
//! kernel alone, is not found.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_cookie;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::namespaces::identity;

/// Hands out copies of the sockets of this thread's network namespace that are `wanted`, by
/// inode and cookie; those that nobody has, or that may not be copied, are left out.
///
/// Processes of the namespace come first: few have sockets of another.
pub(super) fn copies(mut wanted: BTreeMap<u32, u64>, each: &mut dyn FnMut(u64, OwnedFd)) {
    let here = identity(Path::new("/proc/thread-self/ns/net"));
    let (near, far): (Vec<i32>, Vec<i32>) =
        processes().partition(|process| identity(&folder(*process).join("ns/net")) == here);
    for process in near.into_iter().chain(far) {
        if wanted.is_empty() {
            return;
        }
        for (descriptor, inode) in sockets(process) {
            let Some(cookie) = wanted.get(&inode).copied() else {
                continue;
            };
            if let Some(copy) = copy(process, descriptor)
                && socket_cookie(&copy) == Ok(cookie)
            {
                wanted.remove(&inode);
                each(cookie, copy);
            }
        }
    }
}

fn folder(process: i32) -> PathBuf {
    format!("/proc/{process}").into()
}

fn numbers(folder: &Path) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn processes() -> impl Iterator<Item = i32> {
    numbers(Path::new("/proc"))
}

/// The descriptors of a process that are sockets, and these sockets' inodes.
fn sockets(process: i32) -> impl Iterator<Item = (i32, u32)> {
    let folder = folder(process).join("fd");
    let all: Vec<i32> = numbers(&folder).collect();
    all.into_iter().filter_map(move |descriptor| {
        let link = fs::read_link(folder.join(descriptor.to_string())).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some((descriptor, inode.parse().ok()?))
    })
}

fn copy(process: i32, descriptor: i32) -> Option<OwnedFd> {
    let process = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_socket_is_found_in_another_process_and_connected_there() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to copy other processes' descriptors");
            return;
        }
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let patience = Some(std::time::Duration::from_secs(5));
        server.set_read_timeout(patience).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = socket.local_addr().unwrap();
        let cookie = socket_cookie(&socket).unwrap();
        let inode = nix::sys::stat::fstat(socket.as_fd()).unwrap().st_ino;
        // It runs until it is killed, and is in emulated machines, too.
        let mut child = Command::new("ip")
            .arg("monitor")
            .stdout(Stdio::null())
            .stdin(Stdio::from(OwnedFd::from(socket)))
            .spawn()
            .unwrap();
        let wanted = BTreeMap::from([(inode.try_into().unwrap(), cookie), (1, 1)]);
        let mut found = Vec::new();
        copies(wanted.clone(), &mut |cookie, copy| {
            rustix::net::connect(&copy, &server.local_addr().unwrap()).unwrap();
            rustix::net::send(&copy, b"?", rustix::net::SendFlags::empty()).unwrap();
            found.push(cookie);
        });
        let from = server.recv_from(&mut [0]).unwrap().1;
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((found, from), (vec![cookie], own));
        // It went with the process.
        copies(wanted, &mut |_, _| panic!("a socket that is gone"));
    }
}
