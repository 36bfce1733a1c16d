//! Certificates and certificate requests, in PEM within base64, as far as they can be
//! checked without cryptography.

/// One block of PEM.
struct Block {
    label: String,
    has_headers: bool,
    der: Vec<u8>,
}

/// Decodes base64; line breaks are skipped. `None` when it is none.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padding) = (0_u32, 0, 0);
    for byte in text.bytes().filter(|b| !b.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = bits << 6 | u32::from(value);
        count += 1;
        if count == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    match (count, padding) {
        (0, 0) => {}
        (2, 2) => out.push(u8::try_from(bits >> 4 & 0xff).ok()?),
        (3, 1) => out.extend_from_slice(&(bits >> 2 & 0xffff).to_be_bytes()[2..]),
        _ => return None,
    }
    Some(out)
}

/// The blocks of a text.
fn blocks(text: &str) -> Vec<Block> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let Some((label, after)) = after.split_once("-----") else {
            break;
        };
        let Some((body, after)) = after.split_once(&format!("-----END {label}-----")) else {
            rest = after;
            continue;
        };
        rest = after;
        let lines: Vec<&str> = body.lines().map(str::trim).collect();
        let has_headers = lines.iter().any(|line| line.contains(':'));
        let data: String = lines
            .into_iter()
            .filter(|line| !line.contains(':'))
            .collect();
        if let Some(der) = base64(&data) {
            out.push(Block {
                label: label.to_owned(),
                has_headers,
                der,
            });
        }
    }
    out
}

/// Whether the bytes are one sequence of DER, whole and without a rest.
fn is_sequence(der: &[u8]) -> bool {
    let [0x30, first, rest @ ..] = der else {
        return false;
    };
    if *first < 0x80 {
        return rest.len() == usize::from(*first);
    }
    let size = usize::from(first & 0x7f);
    let (Some(length), true) = (rest.get(..size), (1..=4).contains(&size)) else {
        return false;
    };
    let length = length.iter().fold(0_usize, |n, b| n << 8 | usize::from(*b));
    rest.len() - size == length
}

/// Error for text that is not the expected PEM; the message is kube-apiserver's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PemError {
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NoRequest,
    #[error("asn1: structure error: the request is not one DER sequence")]
    Request,
    #[error("must contain at least one CERTIFICATE PEM block")]
    NoCertificate,
    #[error("only CERTIFICATE PEM blocks are allowed, found {0}")]
    Label(String),
    #[error("no PEM block headers are permitted")]
    Headers,
    #[error("x509: malformed certificate")]
    Certificate,
}

/// Checks a certificate request (PKCS #10).
///
/// # Errors
/// [`PemError`].
pub(crate) fn certificate_request(encoded: &str) -> Result<(), PemError> {
    let text = base64(encoded).and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or(PemError::NoRequest)?;
    let all = blocks(&text);
    let block = all
        .first()
        .filter(|block| block.label == "CERTIFICATE REQUEST");
    let block = block.ok_or(PemError::NoRequest)?;
    if is_sequence(&block.der) {
        Ok(())
    } else {
        Err(PemError::Request)
    }
}

/// Checks certificates, if there are any.
///
/// # Errors
/// [`PemError`].
pub(crate) fn certificates(encoded: &str) -> Result<(), PemError> {
    if encoded.is_empty() {
        return Ok(());
    }
    let text = base64(encoded).and_then(|bytes| String::from_utf8(bytes).ok());
    let all = blocks(&text.unwrap_or_default());
    if all.is_empty() {
        return Err(PemError::NoCertificate);
    }
    for block in all {
        if block.label != "CERTIFICATE" {
            return Err(PemError::Label(crate::error::quoted(&block.label)));
        }
        if block.has_headers {
            return Err(PemError::Headers);
        }
        if !is_sequence(&block.der) {
            return Err(PemError::Certificate);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_its_padding() {
        assert_eq!(base64("aGk=").as_deref(), Some(b"hi".as_slice()));
        assert_eq!(base64("aA==").as_deref(), Some(b"h".as_slice()));
        assert_eq!(base64("aGkh").as_deref(), Some(b"hi!".as_slice()));
        assert_eq!(base64("a"), None);
        assert_eq!(base64("a=bc"), None);
    }

    #[test]
    fn only_whole_sequences_are_certificates() {
        assert!(is_sequence(&[0x30, 0]));
        assert!(is_sequence(&[0x30, 0x81, 1, 5]));
        for wrong in [
            &[][..],
            &[0x30],
            &[0x30, 1],
            &[0x31, 0],
            &[0x30, 0x84, 0xff],
        ] {
            assert!(!is_sequence(wrong), "{wrong:?}");
        }
        // "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
        let one =
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
        assert_eq!(certificates(one), Ok(()));
        assert!(certificate_request(one).is_err());
        assert!(certificates("!").is_err());
    }
}
