//! Detects the contents of a device from its first bytes.

use super::FsType;

/// How many bytes are looked at.
pub const HEAD: usize = 128 << 10;

/// The contents of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// Only zeros.
    Blank,
    /// A file system that the driver makes.
    Filesystem(FsType),
    /// A LUKS container.
    Luks,
    /// Something else.
    Foreign,
}

const XFS: (usize, &[u8]) = (0, b"XFSB");
const LUKS: (usize, &[u8]) = (0, b"LUKS\xba\xbe");
const EXT: (usize, &[u8]) = (0x438, b"\x53\xef");
const BTRFS: (usize, &[u8]) = (0x1_0040, b"_BHRfS_M");

/// Recognises the first bytes of a device.
#[must_use]
pub fn recognise(head: &[u8]) -> Signature {
    let has = |(at, magic): (usize, &[u8])| head.get(at..at + magic.len()) == Some(magic);
    if has(LUKS) {
        Signature::Luks
    } else if has(XFS) {
        Signature::Filesystem(FsType::Xfs)
    } else if has(BTRFS) {
        Signature::Filesystem(FsType::Btrfs)
    } else if has(EXT) {
        Signature::Filesystem(FsType::Ext4)
    } else if head.iter().all(|byte| *byte == 0) {
        Signature::Blank
    } else {
        Signature::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signature_is_recognised_at_its_place() {
        for (place, wanted) in [
            (XFS, Signature::Filesystem(FsType::Xfs)),
            (EXT, Signature::Filesystem(FsType::Ext4)),
            (BTRFS, Signature::Filesystem(FsType::Btrfs)),
            (LUKS, Signature::Luks),
        ] {
            let mut head = vec![0; HEAD];
            head[place.0..place.0 + place.1.len()].copy_from_slice(place.1);
            assert_eq!(recognise(&head), wanted);
        }
    }

    #[test]
    fn short_devices_and_foreign_bytes_are_no_file_system() {
        assert_eq!(recognise(&[]), Signature::Blank);
        assert_eq!(recognise(&[0; 100]), Signature::Blank);
        assert_eq!(recognise(b"data of a former owner"), Signature::Foreign);
    }
}
