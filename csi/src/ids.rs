//! Identifiers of volumes and snapshots, which derive from the names in
//! requests: a request that is repeated after a crash finds what it made.

use sha2::{Digest, Sha256};

/// Longest name that the specification lets a caller send, in bytes.
pub const NAME_LIMIT: usize = 128;

/// What begins identifiers that are made of a hash.
const HASHED: &str = "name-";

/// Returns the identifier for a name: the name itself where it can stand in
/// file names and in names of logical volumes, otherwise a hash.
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

/// Whether a name may be an identifier, distinct from every hash.
fn is_plain(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
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
