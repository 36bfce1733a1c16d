//! Names of sets, which identify a set in the maps after a restart.

use ebpf_abi::SetName;

/// The length of the hexadecimal hash and its separator.
const MARK: usize = 1 + 16;

/// Shortens the name to the limit of `NAMES`. A longer one ends in a hash of the full
/// name: truncation alone would lose its identity, and two names might become equal.
pub(crate) fn fit(name: String) -> Box<str> {
    if name.len() <= SetName::LEN {
        return name.into();
    }
    let mut end = SetName::LEN - MARK;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let start = name.get(..end).unwrap_or_default();
    format!("{start}~{:016x}", hash(name.as_bytes())).into()
}

/// FNV-1a: the same in every build, since names outlive the process.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_stay_apart() {
        let long = "n".repeat(SetName::LEN);
        assert_eq!(*fit(long.clone()), *long);
        let (a, b) = (fit(format!("{long}a")), fit(format!("{long}b")));
        assert_ne!(a, b);
        for name in [a, b, fit("ü".repeat(SetName::LEN))] {
            assert!(name.len() <= SetName::LEN, "{name}");
            assert_eq!(SetName::new(&name).as_str(), &*name, "it is found again");
        }
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
