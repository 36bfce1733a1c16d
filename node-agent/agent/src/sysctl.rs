//! Kernel settings that a node needs.

use std::{fs, path::Path};

use crate::Error;

/// Forwarding between pods, and to and from other nodes.
const NEEDED: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
];

/// Writes the settings that differ. A kernel without IPv6 lacks its settings,
/// and needs none.
///
/// # Errors
/// [`Error::File`] when a setting cannot be written.
pub fn apply() -> Result<(), Error> {
    for (key, value) in NEEDED {
        let path = Path::new("/proc/sys").join(key);
        match fs::read_to_string(&path) {
            Ok(present) if present.trim() == *value => {}
            Ok(_) => fs::write(&path, value).map_err(Error::file(&path))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file(&path)(error)),
        }
    }
    Ok(())
}
