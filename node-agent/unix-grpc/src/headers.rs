//! Header blocks (HPACK, RFC 7541, section 6), as far as needed to find one field.

use std::ops::Range;

/// Index of `:authority` in the static table.
const AUTHORITY: usize = 1;
/// `localhost` as a string that is not compressed.
const LOCALHOST: &[u8] = b"\x09localhost";

/// Returns the block with `localhost` in the place of each literal authority; nothing if it has
/// none or is not complete. Later requests of the connection refer to that value by its index.
pub(crate) fn with_local_authority(block: &[u8]) -> Option<Vec<u8>> {
    let mut changed = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(&first) = block.get(at) {
        if first & 0x80 != 0 {
            // A field by its index.
            (_, at) = integer(block, at, 7)?;
            continue;
        }
        if first & 0xe0 == 0x20 {
            // A new size of the table.
            (_, at) = integer(block, at, 5)?;
            continue;
        }
        let prefix = if first & 0x40 != 0 { 6 } else { 4 };
        let (name, mut next) = integer(block, at, prefix)?;
        if name == 0 {
            next = string(block, next)?.end;
        }
        let value = string(block, next)?;
        if name == AUTHORITY {
            changed.extend_from_slice(block.get(copied..next)?);
            changed.extend_from_slice(LOCALHOST);
            copied = value.end;
        }
        at = value.end;
    }
    if copied == 0 {
        return None;
    }
    changed.extend_from_slice(block.get(copied..)?);
    Some(changed)
}

/// Returns an integer with a prefix of so many bits (section 5.1), and where it ends.
fn integer(block: &[u8], at: usize, prefix: u32) -> Option<(usize, usize)> {
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(*block.get(at)?) & most;
    let mut at = at + 1;
    if value < most {
        return Some((value, at));
    }
    // Three bytes are more than any frame holds.
    for shift in [0, 7, 14] {
        let byte = usize::from(*block.get(at)?);
        at += 1;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    None
}

/// Returns where the bytes of a string are (section 5.2).
fn string(block: &[u8], at: usize) -> Option<Range<usize>> {
    let (length, begin) = integer(block, at, 7)?;
    let range = begin..begin + length;
    block.get(range.clone()).map(|_| range)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, appendix C.4.1: GET http://www.example.com/, Huffman coded.
    const FIRST: [u8; 17] = [
        0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90,
        0xf4, 0xff,
    ];
    /// Appendix C.4.2: the authority by its index, and `cache-control: no-cache`.
    const SECOND: [u8; 12] = [
        0x82, 0x86, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf,
    ];

    #[test]
    fn a_literal_authority_becomes_localhost() {
        let changed = with_local_authority(&FIRST).unwrap();
        assert_eq!(changed, b"\x82\x86\x84\x41\x09localhost");
        let fields_after = [&FIRST[..], &SECOND[4..]].concat();
        let changed = with_local_authority(&fields_after).unwrap();
        assert_eq!(changed[14..], SECOND[4..]);
    }

    #[test]
    fn other_blocks_stay_as_they_are() {
        assert_eq!(with_local_authority(&SECOND), None);
        assert_eq!(with_local_authority(&FIRST[..9]), None, "cut off");
        assert_eq!(with_local_authority(b""), None);
        // A new size of the table, and a literal name.
        assert_eq!(with_local_authority(b"\x3f\xe1\x1f\x00\x01a\x01b"), None);
    }
}
