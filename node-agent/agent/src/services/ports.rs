//! Keeps ports for translated clients free of the node's own processes
//! (`net.ipv4.ip_local_reserved_ports`, ip-sysctl).

use std::{collections::BTreeSet, fs, ops::RangeInclusive, path::Path};

use crate::Error;

const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Reserves the ports if the kernel might hand them out itself; true if it did
/// so now. `before` gets those that nobody reserved yet, before they are written.
///
/// # Errors
/// [`Error::File`].
pub fn reserve(
    ports: RangeInclusive<u16>,
    before: impl FnOnce(&BTreeSet<u16>),
) -> Result<bool, Error> {
    reserve_at(Path::new(RESERVED), Path::new(EPHEMERAL), ports, before)
}

/// Undoes [`reserve`]; it is no error if there is nothing to undo.
///
/// # Errors
/// [`Error::File`].
pub fn release(ports: &BTreeSet<u16>) -> Result<(), Error> {
    release_at(Path::new(RESERVED), ports)
}

/// Which of these ports are reserved now, as the kernel writes them.
///
/// # Errors
/// [`Error::File`].
pub fn reserved(ports: &BTreeSet<u16>) -> Result<String, Error> {
    let path = Path::new(RESERVED);
    if !path.exists() {
        return Ok(String::new());
    }
    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
    let both = parse(&text).intersection(ports).copied().collect();
    Ok(format(&both).trim().to_owned())
}

fn reserve_at(
    reserved: &Path,
    ephemeral: &Path,
    ports: RangeInclusive<u16>,
    before: impl FnOnce(&BTreeSet<u16>),
) -> Result<bool, Error> {
    let text = fs::read_to_string(ephemeral).map_err(Error::file("read", ephemeral))?;
    let mut numbers = text.split_whitespace().map(str::parse::<u16>);
    if let (Some(Ok(first)), Some(Ok(last))) = (numbers.next(), numbers.next())
        && (last < *ports.start() || first > *ports.end())
    {
        return Ok(false);
    }
    change(reserved, |set| {
        before(&ports.clone().filter(|port| !set.contains(port)).collect());
        set.extend(ports);
    })
}

fn release_at(reserved: &Path, ports: &BTreeSet<u16>) -> Result<(), Error> {
    if !reserved.exists() {
        return Ok(());
    }
    change(reserved, |set| set.retain(|port| !ports.contains(port))).map(drop)
}

fn change(path: &Path, change: impl FnOnce(&mut BTreeSet<u16>)) -> Result<bool, Error> {
    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
    let present = parse(&text);
    let mut wanted = present.clone();
    change(&mut wanted);
    if wanted == present {
        return Ok(false);
    }
    fs::write(path, format(&wanted)).map_err(Error::file("write", path))?;
    Ok(true)
}

/// The kernel's list: `8080,9148-9150`. What is no number is left out.
fn parse(text: &str) -> BTreeSet<u16> {
    let range = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

fn format(ports: &BTreeSet<u16>) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for port in ports {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*port) => *last = *port,
            _ => ranges.push((*port, *port)),
        }
    }
    let words = ranges.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    // An empty line empties the list.
    words.collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_reservations_stay_and_ours_are_taken_back() {
        let folder = tempfile::tempdir().expect("folder");
        let (reserved, ephemeral) = (folder.path().join("reserved"), folder.path().join("range"));
        fs::write(&ephemeral, "1024\t65535\n").expect("written");
        fs::write(&reserved, "8080,9148-9150,62000\n").expect("written");
        let mut ours = BTreeSet::new();
        let mut reserve = || {
            let added = |added: &BTreeSet<u16>| ours.extend(added);
            reserve_at(&reserved, &ephemeral, 61_000..=65_535, added).expect("reserved")
        };
        assert!(reserve());
        let now = || fs::read_to_string(&reserved).expect("read");
        assert_eq!(now(), "8080,9148-9150,61000-65535\n");
        assert!(!reserve());
        assert!(!ours.contains(&62_000) && ours.len() == 4_535);
        release_at(&reserved, &ours).expect("released");
        assert_eq!(now(), "8080,9148-9150,62000\n");
        release_at(&reserved, &ours).expect("twice");
        assert_eq!(now(), "8080,9148-9150,62000\n");
    }

    #[test]
    fn nothing_is_reserved_that_the_kernel_does_not_hand_out() {
        let folder = tempfile::tempdir().expect("folder");
        let (reserved, ephemeral) = (folder.path().join("reserved"), folder.path().join("range"));
        fs::write(&ephemeral, "32768\t60999\n").expect("written");
        fs::write(&reserved, "\n").expect("written");
        assert!(!reserve_at(&reserved, &ephemeral, 61_000..=65_535, |_| {}).expect("read"));
        assert_eq!(fs::read_to_string(&reserved).expect("read"), "\n");
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for text in ["\n", "1\n", "1-3\n", "1,3,5-65535\n"] {
            assert_eq!(format(&parse(text)), text);
        }
        assert_eq!(format(&parse("5-6,x,4")), "4-6\n");
    }
}
