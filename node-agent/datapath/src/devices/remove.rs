//! Removes devices of pods that end, all in one step of the kernel's.
//!
//! For each device whose programs are tcx links the kernel waits for a grace period of
//! RCU in each direction, then for the readers of the device itself, and, with its lock
//! given up, for all callbacks of RCU that are under way (`unregister_netdevice_many`
//! and `netdev_run_todo` in its `net/core/dev.c`): 50 ms, and of a hundred devices one
//! after the other, since the lock is held meanwhile. Here the former waits are
//! [short](Hurry), and the latter is one for all devices that are asked for together: they
//! are put into a group of their own, which is removed at once (`IFLA_GROUP` of
//! rtnetlink(7)).

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use nix::libc::{EINVAL, ENODEV, EOPNOTSUPP, EPERM};
use nix::net::if_::if_nametoindex;

use crate::devices::expedited_rcu::ExpeditedRcuGuard;
use crate::error::Error;
use crate::netlink::{ACK, Socket};
use crate::pins::{DEVICE_LINKS, LINKS, version_dir};

const RTM_DELLINK: u16 = 17;
const RTM_SETLINK: u16 = 19;
const IFLA_GROUP: u16 = 27;
/// The group of devices that are about to be removed, a number that nobody chooses by
/// chance: `orl` and a byte.
const LEAVING: u32 = 0x6f72_6c01;

/// Removes these devices and, of veth pairs, their other ends. One that is absent is no
/// error. `pin_dir` is the datapath's, whose programs go with them.
///
/// # Errors
/// [`Error::Removal`] for the first that cannot be removed; others are gone.
pub fn remove_devices(pin_dir: &Path, names: &BTreeSet<String>) -> Result<(), Error> {
    let of = |name: &String| if_nametoindex(name.as_str()).ok();
    let found: Vec<(&String, u32)> = names
        .iter()
        .filter_map(|name| Some((name, of(name)?)))
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let failed = |name: &str| {
        let device = name.to_owned();
        move |source| Error::Removal { device, source }
    };
    let all = names.iter().next().map_or("", String::as_str);
    let mut socket = Socket::open(None).map_err(failed(all))?;
    let _hurry = ExpeditedRcuGuard::begin(&version_dir(pin_dir).join(LINKS).join(DEVICE_LINKS));
    if let [_, _, ..] = found.as_slice()
        && together(&mut socket, &found).map_err(failed(all))?
    {
        return Ok(());
    }
    let mut first = Ok(());
    for (name, index) in found {
        let removed = remove(&mut socket, index, &[]);
        if removed.is_err() {
            // It must not be in the way of a group to come.
            drop(socket.request(RTM_SETLINK, ACK, &message(index, &group(0)), |_| {}));
        }
        first = first.and(removed.map_err(failed(name)));
    }
    first
}

/// Removes all as one group; false if the kernel does not do that.
fn together(socket: &mut Socket, found: &[(&String, u32)]) -> io::Result<bool> {
    for (_, index) in found {
        let moved = socket.request(RTM_SETLINK, ACK, &message(*index, &group(LEAVING)), |_| {});
        match moved.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) | Err(Some(ENODEV)) => {}
            _ => moved?,
        }
    }
    let removed = remove(socket, 0, &group(LEAVING));
    match removed.as_ref().map_err(io::Error::raw_os_error) {
        Err(Some(EPERM | EINVAL | EOPNOTSUPP)) => Ok(false),
        _ => removed.map(|()| true),
    }
}

fn remove(socket: &mut Socket, index: u32, attributes: &[u8]) -> io::Result<()> {
    let removed = socket.request(RTM_DELLINK, ACK, &message(index, attributes), |_| {});
    match removed.as_ref().map_err(io::Error::raw_os_error) {
        Err(Some(ENODEV)) => Ok(()),
        _ => removed,
    }
}

/// A `struct ifinfomsg` and what follows.
fn message(index: u32, attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend([0; 8]);
    body.extend(attributes);
    body
}

fn group(number: u32) -> [u8; 8] {
    let [a, b] = 8_u16.to_ne_bytes();
    let [c, d] = IFLA_GROUP.to_ne_bytes();
    let [e, f, g, h] = number.to_ne_bytes();
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sched::{CloneFlags, unshare};

    use super::*;

    fn ip(arguments: &str) {
        let status = Command::new("ip").args(arguments.split(' ')).status();
        assert!(
            status.expect("the program `ip`").success(),
            "ip {arguments}"
        );
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn those_that_are_named_go_with_their_other_ends_and_no_others() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to make network namespaces");
            return;
        }
        let work = || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            let none = tempfile::tempdir().expect("a folder");
            let remove = |all: &[&str]| remove_devices(none.path(), &names(all));
            for number in 0..4 {
                ip(&format!(
                    "link add orl{number} type veth peer name pod{number}"
                ));
            }
            let left = || {
                let is = |name: &str| if_nametoindex(name).is_ok();
                let ends = |number| (is(&format!("orl{number}")), is(&format!("pod{number}")));
                [0, 1, 2, 3].map(ends)
            };
            let (there, gone) = ((true, true), (false, false));
            remove(&["orl0", "orl2", "absent"]).expect("two at once");
            assert_eq!(left(), [gone, there, gone, there]);
            remove(&["orl1", "orl0"]).expect("one, and one that is gone");
            assert_eq!(left(), [gone, gone, gone, there]);
            remove(&["orl1", "absent"]).expect("none");
            // Of two of which one cannot be removed the other is.
            let refused = remove(&["lo", "orl3"]).expect_err("the loopback device stays");
            assert!(refused.to_string().contains("lo"), "{refused}");
            assert_eq!(left(), [gone; 4]);
            // And what was refused is not in the way of the next.
            ip("link add orl5 type veth peer name pod5");
            ip("link add orl6 type veth peer name pod6");
            let shown = Command::new("ip")
                .args(["link", "show", "dev", "lo"])
                .output();
            let shown = String::from_utf8(shown.expect("`ip`").stdout).expect("text");
            assert!(shown.contains("group default"), "{shown}");
            remove(&["orl5", "orl6"]).expect("together");
            assert!(if_nametoindex("orl5").is_err() && if_nametoindex("orl6").is_err());
        };
        std::thread::scope(|scope| {
            let done = scope.spawn(work).join();
            done.expect("a network namespace");
        });
    }
}
