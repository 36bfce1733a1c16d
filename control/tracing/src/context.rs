//! W3C Trace Context: how traces are told from one server to the next.

use http::HeaderValue;

/// The header.
pub(super) const TRACEPARENT: &str = "traceparent";

/// Another span, of which this one is a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    pub sampled: bool,
}

impl Parent {
    /// Reads `traceparent` (3.2).
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = bytes::<1>(parts.next()?)?;
        let trace = bytes::<16>(parts.next()?)?;
        let span = bytes::<8>(parts.next()?)?;
        let flags = bytes::<1>(parts.next()?)?;
        // Later versions may say more.
        let is_whole = version != [0] || parts.next().is_none();
        let parent = Self {
            trace,
            span,
            sampled: flags[0] & 1 == 1,
        };
        (is_whole && version != [0xff] && trace != [0; 16] && span != [0; 8]).then_some(parent)
    }

    /// Writes it.
    pub fn header(&self) -> Option<HeaderValue> {
        let mut text = String::with_capacity(55);
        text.push_str("00-");
        hex(&self.trace, &mut text);
        text.push('-');
        hex(&self.span, &mut text);
        text.push_str(if self.sampled { "-01" } else { "-00" });
        HeaderValue::try_from(text).ok()
    }
}

fn hex(bytes: &[u8], out: &mut String) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Lower-case hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |letter: u8| match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_and_written_as_w3c_writes_it() {
        let parent = Parent::parse(THEIRS).expect("right");
        assert!(parent.sampled && parent.trace[0] == 0x0a && parent.span[7] == 0x31);
        assert_eq!(parent.header().expect("a header"), THEIRS);
        let unsampled = Parent::parse(&THEIRS.replace("-01", "-02")).expect("right");
        assert!(!unsampled.sampled);
        assert_eq!(
            unsampled.header().expect("a header"),
            &THEIRS.replace("-01", "-00")
        );
        let later = THEIRS.replacen("00-", "cc-", 1).replace("-01", "-01-more");
        assert!(Parent::parse(&later).is_some());
        for wrong in [
            "",
            "00",
            &THEIRS.to_uppercase(),
            &format!("{THEIRS}-more"),
            &THEIRS.replacen("00-", "ff-", 1),
            &THEIRS.replace("b7ad6b7169203331", "0000000000000000"),
            &THEIRS.replace(
                "0af7651916cd43dd8448eb211c80319c",
                "00000000000000000000000000000000",
            ),
            &THEIRS.replace("-b7", "-é"),
        ] {
            assert_eq!(Parent::parse(wrong), None, "{wrong}");
        }
    }
}
