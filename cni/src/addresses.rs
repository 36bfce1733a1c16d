//! Which addresses are given out, kept in files.
//!
//! One file an address, named by it, holds who has it: a crash can lose no
//! more than the call it interrupted, and an operator can read the state with
//! `ls`. A lock on the folder orders concurrent calls.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{ErrorKind, Write},
    net::IpAddr,
    path::{Path, PathBuf},
};

use ipnet::IpNet;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Who holds an address: one interface of one container.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Holder {
    #[serde(rename = "containerID")]
    pub(crate) container_id: String,
    pub(crate) ifname: String,
}

/// The addresses of one network on this node, locked while it lives.
pub(crate) struct Addresses {
    folder: PathBuf,
    _lock: Flock<File>,
}

impl Addresses {
    /// Opens the folder of `network` under `data_dir`, waiting for its lock.
    pub(crate) fn open(data_dir: &Path, network: &str) -> Result<Self, Error> {
        let folder = data_dir.join(network);
        fs::create_dir_all(&folder).map_err(file_error(&folder))?;
        let path = folder.join("lock");
        let file = File::create(&path).map_err(file_error(&path))?;
        let lock = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| file_error(&path)(errno.into()))?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// An address of `range` for `holder`: the one it has already, or a free one.
    pub(crate) fn take(&self, range: IpNet, holder: &Holder) -> Result<IpAddr, Error> {
        let held = self.held()?;
        if let Some((address, _)) = held
            .iter()
            .find(|(address, by)| range.contains(address) && by.as_ref() == Some(holder))
        {
            return Ok(*address);
        }
        let used = held.iter().map(|(address, _)| *address).collect();
        let last_file = self.folder.join(if range.addr().is_ipv4() {
            "last-v4"
        } else {
            "last-v6"
        });
        let last = fs::read_to_string(&last_file)
            .ok()
            .and_then(|text| text.trim().parse().ok());
        let address = choose(range, &used, last).ok_or(Error::Exhausted { range })?;
        let bytes =
            serde_json::to_vec(holder).map_err(|error| Error::Configuration(error.to_string()))?;
        write(&self.folder.join(address.to_string()), &bytes)?;
        write(&last_file, address.to_string().as_bytes())?;
        Ok(address)
    }

    /// Gives back all that `holder` has; giving back nothing is no error.
    pub(crate) fn give_back(&self, holder: &Holder) -> Result<Vec<IpAddr>, Error> {
        self.give_back_where(|by| by == Some(holder))
    }

    /// Gives back all whose holder is not in `keep`, and files that name none.
    pub(crate) fn give_back_others(&self, keep: &BTreeSet<Holder>) -> Result<Vec<IpAddr>, Error> {
        self.give_back_where(|by| by.is_none_or(|by| !keep.contains(by)))
    }

    /// The addresses that `holder` has.
    pub(crate) fn of(&self, holder: &Holder) -> Result<Vec<IpAddr>, Error> {
        Ok(self
            .held()?
            .into_iter()
            .filter(|(_, by)| by.as_ref() == Some(holder))
            .map(|(address, _)| address)
            .collect())
    }

    fn give_back_where(
        &self,
        gone: impl Fn(Option<&Holder>) -> bool,
    ) -> Result<Vec<IpAddr>, Error> {
        let mut given = Vec::new();
        for (address, by) in self.held()? {
            if gone(by.as_ref()) {
                let path = self.folder.join(address.to_string());
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        return Err(file_error(&path)(error));
                    }
                    _ => given.push(address),
                }
            }
        }
        Ok(given)
    }

    /// All addresses given out. A file that cannot be read as a holder (a crash
    /// while it was written) still blocks its address, until GC.
    fn held(&self) -> Result<Vec<(IpAddr, Option<Holder>)>, Error> {
        let mut held = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(file_error(&self.folder))? {
            let entry = entry.map_err(file_error(&self.folder))?;
            let Some(address) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            let path = entry.path();
            let bytes = fs::read(&path).map_err(file_error(&path))?;
            held.push((address, serde_json::from_slice(&bytes).ok()));
        }
        Ok(held)
    }
}

/// The next free address after `last`, round and round, so that an address is
/// reused as late as possible: others may still have state for its old pod.
/// The first two addresses (network, customary gateway) and the IPv4 broadcast
/// address are never given out.
pub(crate) fn choose(
    range: IpNet,
    used: &BTreeSet<IpAddr>,
    last: Option<IpAddr>,
) -> Option<IpAddr> {
    let (base, bits) = match range.network() {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    // A search longer than this many addresses is longer than any node's pods.
    let host_bits = (bits - u32::from(range.prefix_len())).min(24);
    let size = 1u128 << host_bits;
    let end = if range.network().is_ipv4() {
        size.checked_sub(1)?
    } else {
        size
    };
    let first = 2;
    if end <= first {
        return None;
    }
    let start = last
        .filter(|last| range.contains(last))
        .map_or(first, |last| number(&last) - base + 1);
    let count = end - first;
    (0..count)
        .map(|step| first + (start.max(first) - first + step) % count)
        .map(|offset| address(base + offset, range.network().is_ipv4()))
        .find(|candidate| !used.contains(candidate))
}

fn number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(*address)),
        IpAddr::V6(address) => u128::from(*address),
    }
}

fn address(number: u128, v4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if v4 => IpAddr::V4(number.into()),
        _ => IpAddr::V6(number.into()),
    }
}

/// Writes a file so that a reader finds either the old content or the new.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary).map_err(file_error(&temporary))?;
    file.write_all(bytes).map_err(file_error(&temporary))?;
    fs::rename(&temporary, path).map_err(file_error(path))
}

pub(crate) fn file_error(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    |source| Error::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holder(id: &str) -> Holder {
        Holder {
            container_id: id.to_owned(),
            ifname: "eth0".to_owned(),
        }
    }

    #[test]
    fn addresses_are_kept_over_reopening_and_given_back_once() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let range: IpNet = "10.1.2.0/29".parse().expect("range");
        let first = {
            let addresses = Addresses::open(folder.path(), "net").expect("open");
            addresses.take(range, &holder("a")).expect("take")
        };
        let addresses = Addresses::open(folder.path(), "net").expect("open again");
        assert_eq!(first.to_string(), "10.1.2.2");
        assert_eq!(addresses.take(range, &holder("a")).expect("same"), first);
        assert_ne!(addresses.take(range, &holder("b")).expect("other"), first);
        assert_eq!(addresses.give_back(&holder("a")).expect("give"), [first]);
        assert!(addresses.give_back(&holder("a")).expect("again").is_empty());
        // Not reused at once.
        assert_eq!(
            addresses
                .take(range, &holder("c"))
                .expect("next")
                .to_string(),
            "10.1.2.4"
        );
    }

    #[test]
    fn garbage_collection_keeps_the_valid_and_drops_broken_files() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let range: IpNet = "10.1.2.0/24".parse().expect("range");
        let addresses = Addresses::open(folder.path(), "net").expect("open");
        let kept = addresses.take(range, &holder("a")).expect("take");
        let gone = addresses.take(range, &holder("b")).expect("take");
        fs::write(folder.path().join("net/10.1.2.9"), b"{").expect("broken file");
        let keep = BTreeSet::from([holder("a")]);
        let mut given = addresses.give_back_others(&keep).expect("collect");
        given.sort();
        assert_eq!(given, [gone, "10.1.2.9".parse().expect("address")]);
        assert_eq!(addresses.of(&holder("a")).expect("of"), [kept]);
    }

    #[test]
    fn a_range_too_small_for_any_pod_is_exhausted() {
        let range: IpNet = "10.1.2.0/31".parse().expect("range");
        assert_eq!(choose(range, &BTreeSet::new(), None), None);
    }

    proptest! {
        #[test]
        fn every_usable_address_is_given_once_and_no_other(
            third in 0u8.., prefix in 24u8..=30, last in proptest::option::of(0u8..)
        ) {
            let range: IpNet = format!("10.0.{third}.0/{prefix}").parse().expect("range");
            let last = last.map(|host| IpAddr::from([10, 0, third, host]));
            let mut used = BTreeSet::new();
            let mut previous = last;
            while let Some(address) = choose(range, &used, previous) {
                prop_assert!(range.contains(&address));
                prop_assert!(used.insert(address));
                previous = Some(address);
            }
            prop_assert_eq!(used.len(), (1usize << (32 - prefix)) - 3);
        }

        #[test]
        fn a_v6_range_gives_addresses_of_its_own(prefix in 64u8..=124) {
            let range: IpNet = format!("fd00:1::/{prefix}").parse().expect("range");
            let mut used = BTreeSet::new();
            for _ in 0..10 {
                let address = choose(range, &used, None).expect("free");
                prop_assert!(range.contains(&address));
                prop_assert!(used.insert(address));
            }
        }
    }
}
