//! Identifiers of volumes and snapshots, derived from the names in requests: a request
//! that is repeated after a crash finds its result.

use sha2::{Digest, Sha256};

/// Longest name that the specification lets a caller send, in bytes.
pub const NAME_LIMIT: usize = 128;

/// Longest identifier that the specification lets a driver return, in bytes.
const ID_LIMIT: usize = 128;

/// Longest identifier that the driver makes, in bytes: a name in LVM and a file's name.
const LONGEST: usize = 63;

/// Stands between the identifier of a snapshot and the node that has it.
const AT_NODE: char = '@';

/// The prefix of hashed identifiers.
const HASHED: &str = "name-";

/// Returns the identifier for a name: the name itself if it is valid in file names and in
/// names of logical volumes, otherwise a hash.
#[must_use]
pub fn for_name(name: &str) -> String {
    if is_plain(name) {
        return name.to_owned();
    }
    let digest = Sha256::digest(name.as_bytes());
    let mut id = HASHED.to_owned();
    for byte in &digest[..20] {
        id.push_str(&format!("{byte:02x}"));
    }
    id
}

/// Returns the external identifier of a snapshot. It names the node, so that the
/// identifier alone suffices to find the snapshot; a volume's object has that in its
/// topology, but a snapshot that outlives its objects has none.
#[must_use]
pub fn snapshot_handle(id: &str, node: &str) -> String {
    let handle = format!("{id}{AT_NODE}{node}");
    if handle.len() > ID_LIMIT {
        return id.to_owned();
    }
    handle
}

/// Returns the driver's own identifier of a snapshot of `node`, of which callers may know
/// one without a node. That of another node is returned as it is and names no snapshot.
#[must_use]
pub fn of_snapshot_handle(handle: String, node: &str) -> String {
    match handle.rsplit_once(AT_NODE) {
        Some((id, named)) if named == node => id.to_owned(),
        _ => handle,
    }
}

/// Returns the node that a snapshot's external identifier names.
#[must_use]
pub fn node_of_snapshot(handle: &str) -> Option<&str> {
    let (_, node) = handle.rsplit_once(AT_NODE)?;
    Some(node)
}

/// Returns the driver's own identifier of a volume. Kubelets make the handles of inline
/// volumes, `csi-` and 64 digits, which are longer than any identifier.
#[must_use]
pub fn of_volume_handle(handle: String) -> String {
    if handle.len() <= LONGEST {
        return handle;
    }
    for_name(&handle)
}

/// Whether a name may be an identifier, distinct from every hash.
fn is_plain(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=LONGEST).contains(&bytes.len())
        && plain(bytes[0])
        && bytes.iter().all(|c| plain(*c) || *c == b'-')
        && !name.starts_with(HASHED)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_provisioners_are_kept() {
        for name in [
            "pvc-7e57f0a2-0000-4c1e-9d5b-5a3c6f1d2e3f",
            "snapshot-1",
            "csi-0a",
        ] {
            assert_eq!(for_name(name), name);
        }
    }

    #[test]
    fn a_name_that_looks_like_a_hash_is_hashed() {
        let hashed = for_name("../etc/passwd");
        assert!(hashed.starts_with(HASHED));
        assert_ne!(for_name(&hashed), hashed);
    }

    #[test]
    fn a_snapshot_is_known_by_its_own_identifier_and_by_the_one_that_names_its_node() {
        let node = "node-1.example.com";
        let handle = snapshot_handle("snapshot-1", node);
        assert_eq!(handle, "snapshot-1@node-1.example.com");
        for known in ["snapshot-1", &handle] {
            assert_eq!(of_snapshot_handle(known.to_owned(), node), "snapshot-1");
        }
        let elsewhere = of_snapshot_handle(handle.clone(), "node-2");
        assert_eq!(elsewhere, handle);
        assert_eq!(node_of_snapshot(&elsewhere), Some(node));
        assert_eq!(node_of_snapshot("snapshot-1"), None);
        assert_ne!(
            for_name(&handle),
            handle,
            "no snapshot has such an identifier"
        );
        let long = snapshot_handle("snapshot-1", &"n".repeat(200));
        assert_eq!(long, "snapshot-1", "no caller would take a longer one");
    }

    #[test]
    fn an_inline_volume_has_an_identifier_of_its_own_length() {
        // As kubelets write it (`makeVolumeHandle` of pkg/volume/csi).
        let handle = format!("csi-{}", "7f".repeat(32));
        let id = of_volume_handle(handle.clone());
        assert!(id.len() <= LONGEST && id == for_name(&handle));
        for own in ["pvc-1", "csi-1", &id] {
            assert_eq!(of_volume_handle(own.to_owned()), own);
        }
    }

    proptest! {
        #[test]
        fn every_name_becomes_a_file_name(name in any::<String>()) {
            let id = for_name(&name);
            prop_assert!((1..=63).contains(&id.len()));
            prop_assert!(id.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-'));
            prop_assert!(!id.starts_with('-'));
        }

        #[test]
        fn different_names_have_different_identifiers(a in "[a-z/]{1,5}", b in "[a-z/]{1,5}") {
            prop_assert_eq!(a == b, for_name(&a) == for_name(&b));
        }
    }
}
