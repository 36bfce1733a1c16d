//! Which process has a port.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::OccupiedPort;

/// State of a listening socket in `/proc/net/tcp` (`TCP_LISTEN`).
const LISTEN: &str = "0A";

/// Finds which of these ports sockets of this network namespace listen on, and whose they are.
pub fn taken(wanted: &[u16]) -> Vec<OccupiedPort> {
    let mut inodes = BTreeMap::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        inodes.extend(listeners(&text).filter(|(_, port)| wanted.contains(port)));
    }
    if inodes.is_empty() {
        return Vec::new();
    }
    let owners = owners(Path::new("/proc"), &inodes);
    let numbers: BTreeSet<u16> = inodes.values().copied().collect();
    let port = |number| OccupiedPort {
        number,
        process: owners.get(&number).cloned(),
    };
    numbers.into_iter().map(port).collect()
}

/// Inode and port of each listening socket in a table of `/proc/net`.
fn listeners(table: &str) -> impl Iterator<Item = (u64, u16)> {
    table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, _, _, inode, ..] = words[..] else {
            return None;
        };
        let port = local.rsplit_once(':')?.1;
        if state != LISTEN {
            return None;
        }
        Some((inode.parse().ok()?, u16::from_str_radix(port, 16).ok()?))
    })
}

/// Name and number of the processes with these sockets, by port.
fn owners(proc: &Path, inodes: &BTreeMap<u64, u16>) -> BTreeMap<u16, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        let process = entry.path();
        let number = entry.file_name();
        let Some(pid) = number.to_str().filter(|it| it.parse::<u32>().is_ok()) else {
            continue;
        };
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
        for descriptor in descriptors.flatten() {
            let target = fs::read_link(descriptor.path()).unwrap_or_default();
            let inode = target
                .to_str()
                .and_then(|it| it.strip_prefix("socket:[")?.strip_suffix(']'))
                .and_then(|it| it.parse::<u64>().ok());
            if let Some(port) = inode.and_then(|it| inodes.get(&it)) {
                let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
                found.insert(*port, format!("{} ({pid})", name.trim()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listening_socket_is_found_with_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let number = listener.local_addr().expect("an address").port();
        let found = taken(&[number]);
        assert_eq!(found.len(), 1);
        let process = found[0].process.clone().expect("this process");
        assert!(
            process.ends_with(&format!("({})", std::process::id())),
            "{process}"
        );
        drop(listener);
        assert_eq!(taken(&[number]), []);
    }

    #[test]
    fn only_listeners_of_the_table_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:2809 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1 0\n\
             1: 0100007F:280A 0100007F:A000 01 00000000:00000000 00:00000000 00000000     0        0 42 1 0\n";
        assert_eq!(listeners(table).collect::<Vec<_>>(), [(41, 10249)]);
    }
}
