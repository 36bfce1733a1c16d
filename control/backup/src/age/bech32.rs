//! Bech32 (BIP 173), in which age writes keys.

const CHARSET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const CHECKSUM: usize = 6;

/// The text of 32 bytes, in lower case.
pub(super) fn encode(prefix: &str, key: &[u8; 32]) -> String {
    let mut data = regroup(key, 8, 5, true).unwrap_or_default();
    let checksum = checksum(prefix, &data);
    data.extend(checksum);
    let mut text = format!("{prefix}1");
    text.extend(
        data.iter()
            .map(|five| char::from(CHARSET[usize::from(*five)])),
    );
    text
}

/// The 32 bytes of a text with a prefix in lower case; `None` if it is none.
pub(super) fn decode(prefix: &str, text: &str) -> Option<[u8; 32]> {
    let is_mixed = text.bytes().any(|byte| byte.is_ascii_lowercase())
        && text.bytes().any(|byte| byte.is_ascii_uppercase());
    if is_mixed {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (found, data) = lower.rsplit_once('1')?;
    if found != prefix {
        return None;
    }
    let values: Vec<u8> = data
        .bytes()
        .map(|byte| {
            let at = CHARSET.iter().position(|known| *known == byte)?;
            u8::try_from(at).ok()
        })
        .collect::<Option<_>>()?;
    let (key, sum) = values.split_at_checked(values.len().checked_sub(CHECKSUM)?)?;
    if checksum(prefix, key) != sum {
        return None;
    }
    regroup(key, 5, 8, false)?.try_into().ok()
}

/// Regroups groups of `from` bits to groups of `to` bits. The remainder must be zero
/// unless it is padded.
fn regroup(data: &[u8], from: u32, to: u32, pad: bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    let mask = (1 << to) - 1;
    for value in data {
        bits = (bits << from | u32::from(*value)) & 0xffff;
        count += from;
        while count >= to {
            count -= to;
            out.push(u8::try_from(bits >> count & mask).ok()?);
        }
    }
    let rest = bits & ((1 << count) - 1);
    if pad && count > 0 {
        out.push(u8::try_from(rest << (to - count) & mask).ok()?);
    } else if !pad && (count >= from || rest != 0) {
        return None;
    }
    Some(out)
}

fn checksum(prefix: &str, data: &[u8]) -> [u8; CHECKSUM] {
    let high = prefix.bytes().map(|byte| byte >> 5);
    let low = prefix.bytes().map(|byte| byte & 31);
    let values = high
        .chain([0])
        .chain(low)
        .chain(data.iter().copied())
        .chain([0; CHECKSUM]);
    let sum = polymod(values) ^ 1;
    let mut shift = 30;
    [(); CHECKSUM].map(|()| {
        shift -= 5;
        u8::try_from(sum >> shift & 31).unwrap_or_default()
    })
}

fn polymod(values: impl Iterator<Item = u8>) -> u32 {
    const GENERATOR: [u32; 5] = [
        0x3b6a_57b2,
        0x2650_8e6d,
        0x1ea1_19fa,
        0x3d42_33dd,
        0x2a14_62b3,
    ];
    values.fold(1, |sum: u32, value| {
        let top = sum >> 25;
        let sum = (sum & 0x01ff_ffff) << 5 ^ u32::from(value);
        (0..5).fold(sum, |sum, bit| match top >> bit & 1 {
            1 => sum ^ GENERATOR[bit],
            _ => sum,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_text_and_a_typo_is_found() {
        let key: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 7).unwrap_or(255));
        let text = encode("age", &key);
        assert_eq!(decode("age", &text), Some(key));
        assert_eq!(decode("age", &text.to_uppercase()), Some(key));
        assert_eq!(decode("agf", &text), None);
        for at in 4..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'q' { b'p' } else { b'q' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert_eq!(decode("age", &wrong), None, "{wrong}");
        }
        for bad in ["", "age", "age1", "age1qqqqqqq", "age1Qq"] {
            assert_eq!(decode("age", bad), None, "{bad}");
        }
    }
}
