//! Numbers and lengths as protobuf writes them.

/// Appends a number, seven bits a byte, the lowest first.
pub fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// How many bytes [`push_varint`] appends.
pub(super) const fn varint_length(number: u64) -> usize {
    (63 - (number | 1).leading_zeros() as usize) / 7 + 1
}

/// Begins a message whose length is not known yet: makes room for one byte of it
/// and answers where its content begins.
pub(super) fn begin(out: &mut Vec<u8>) -> usize {
    out.push(0);
    out.len()
}

/// Ends a message that [`begin`] began: writes its length, and makes room for more
/// bytes of it where one is not enough.
pub(super) fn end(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    if let Ok(short @ 0..0x80) = u8::try_from(length) {
        out[start - 1] = short;
        return;
    }
    let more = varint_length(length as u64) - 1;
    out.resize(out.len() + more, 0);
    out.copy_within(start..start + length, start + more);
    let mut rest = length as u64;
    for byte in &mut out[start - 1..start + more] {
        *byte = rest.to_le_bytes()[0] | 0x80;
        rest >>= 7;
    }
    out[start + more - 1] &= 0x7f;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        for length in [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_152] {
            let mut out = vec![7];
            let start = begin(&mut out);
            out.extend((0..length).map(|n: usize| n.to_le_bytes()[0]));
            end(&mut out, start);
            let mut expected = vec![7];
            push_varint(&mut expected, length as u64);
            assert_eq!(expected.len() - 1, varint_length(length as u64));
            expected.extend((0..length).map(|n: usize| n.to_le_bytes()[0]));
            assert_eq!(out, expected, "{length}");
        }
        assert_eq!(varint_length(u64::MAX), 10);
    }
}
