//! Kernel settings that the pod network needs.

use std::{fs, path::Path};

use ipnet::IpNet;

use crate::Error;

const ROOT: &str = "/proc/sys/net";

/// Writes the settings that differ: the node forwards between pods, and to and
/// from other nodes, in the IP versions that pods have.
///
/// # Errors
/// [`Error::File`] when a setting cannot be read or written.
pub fn apply(ranges: &[IpNet]) -> Result<(), Error> {
    apply_below(Path::new(ROOT), ranges)
}

fn apply_below(root: &Path, ranges: &[IpNet]) -> Result<(), Error> {
    if ranges.iter().any(|range| range.addr().is_ipv4()) {
        set(&root.join("ipv4/ip_forward"), "1")?;
    }
    if ranges.iter().any(|range| range.addr().is_ipv6()) {
        let interfaces = root.join("ipv6/conf");
        // A host that forwards ignores router advertisements, by which many get
        // their own default route, unless told 2 (ip-sysctl, `accept_ra`).
        let entries = fs::read_dir(&interfaces).map_err(Error::file("read", &interfaces))?;
        for entry in entries {
            let path = entry
                .map_err(Error::file("read", &interfaces))?
                .path()
                .join("accept_ra");
            if fs::read_to_string(&path).is_ok_and(|present| present.trim() == "1") {
                set(&path, "2")?;
            }
        }
        set(&interfaces.join("all/forwarding"), "1")?;
    }
    Ok(())
}

fn set(path: &Path, value: &str) -> Result<(), Error> {
    let present = fs::read_to_string(path).map_err(Error::file("read", path))?;
    if present.trim() == value {
        return Ok(());
    }
    fs::write(path, value).map_err(Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("temporary folder");
        for (path, value) in [
            ("ipv4/ip_forward", "0\n"),
            ("ipv6/conf/all/forwarding", "0\n"),
            ("ipv6/conf/all/accept_ra", "1\n"),
            ("ipv6/conf/eth0/accept_ra", "1\n"),
            ("ipv6/conf/eth1/accept_ra", "0\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("folder")).expect("folder");
            fs::write(path, value).expect("setting");
        }
        root
    }

    fn value(root: &Path, path: &str) -> String {
        let text = fs::read_to_string(root.join(path)).expect("setting");
        text.trim().to_owned()
    }

    #[test]
    fn only_the_ip_versions_of_the_ranges_are_forwarded() {
        let root = kernel();
        let root = root.path();
        apply_below(root, &["10.0.0.0/24".parse().expect("range")]).expect("applied");
        assert_eq!(value(root, "ipv4/ip_forward"), "1");
        assert_eq!(value(root, "ipv6/conf/all/forwarding"), "0");
    }

    #[test]
    fn advertised_routes_survive_forwarding() {
        let root = kernel();
        let root = root.path();
        apply_below(root, &["fd00::/64".parse().expect("range")]).expect("applied");
        assert_eq!(value(root, "ipv4/ip_forward"), "0");
        assert_eq!(value(root, "ipv6/conf/all/forwarding"), "1");
        assert_eq!(value(root, "ipv6/conf/eth0/accept_ra"), "2");
        assert_eq!(
            value(root, "ipv6/conf/eth1/accept_ra"),
            "0",
            "who did not accept them still does not"
        );
    }
}
