//! Numbers, lengths and fields as they stand on the wire.

use std::borrow::Cow;

use super::error::Error;

/// The first bytes of every protobuf body of the API.
pub const MAGIC: &[u8; 4] = b"k8s\0";

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

/// Begins a message of unknown length: reserves one byte for the length and returns the
/// offset of the content.
pub(super) fn begin(out: &mut Vec<u8>) -> usize {
    out.push(0);
    out.len()
}

/// Ends a message that [`begin`] began: writes its length, and moves the content if one
/// byte is not enough.
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

/// The value of a field as it stands on the wire.
#[derive(Clone, Copy)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
    /// A group or an undefined wire type; not read yet.
    Other(u8),
}

impl<'a> Wire<'a> {
    pub fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(other.wrong()),
        }
    }

    /// Returns text, with invalid UTF-8 replaced, as Go's JSON encoder does later.
    pub fn text(self) -> Result<Cow<'a, str>, Error> {
        self.bytes().map(String::from_utf8_lossy)
    }

    /// Returns a signed number, which is encoded in two's complement.
    pub fn int(self) -> Result<i64, Error> {
        match self {
            Self::Varint(number) => Ok(number.cast_signed()),
            other => Err(other.wrong()),
        }
    }

    /// Returns the error for a value of the wrong wire type.
    pub const fn wrong(self) -> Error {
        let wire = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
            Self::Other(wire) => wire,
        };
        Error::WireType {
            wire,
            field: String::new(),
        }
    }

    /// Whether it is the zero value of its type.
    pub const fn is_zero(self) -> bool {
        match self {
            Self::Varint(number) | Self::Fixed64(number) => number == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Fixed32 | Self::Other(_) => false,
        }
    }
}

/// The rest of a message.
#[derive(Clone, Copy)]
pub(super) struct WireReader<'a>(pub &'a [u8]);

impl<'a> WireReader<'a> {
    pub fn varint(&mut self) -> Result<u64, Error> {
        if let Some((byte @ 0..0x80, rest)) = self.0.split_first() {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        let mut number = 0_u64;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(if self.0.len() < 10 {
            Error::Truncated
        } else {
            Error::Overflow
        })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next field's number and value; nothing at the end. `message` is what Go
    /// calls the message.
    pub fn field(&mut self, message: &'static str) -> Result<Option<(u64, Wire<'a>)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = tag.to_le_bytes()[0] & 7;
        if wire == 4 {
            return Err(Error::EndGroup(message));
        }
        #[allow(clippy::cast_possible_truncation, reason = "Go keeps the low 32 bits")]
        let number = (tag >> 3) as i32;
        let Some(positive) = u64::try_from(number).ok().filter(|number| *number > 0) else {
            return Err(Error::IllegalTag {
                message,
                number,
                tag,
            });
        };
        Ok(Some((positive, self.value(wire)?)))
    }

    /// The value of the next field, if it has the same number as the last.
    pub fn next_of(&mut self, number: u64) -> Result<Option<Wire<'a>>, Error> {
        let mut ahead = *self;
        match ahead.field("")? {
            Some((next, wire)) if next == number => {
                *self = ahead;
                Ok(Some(wire))
            }
            _ => Ok(None),
        }
    }

    fn value(&mut self, wire: u8) -> Result<Wire<'a>, Error> {
        Ok(match wire {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.iter().rev();
                Wire::Fixed64(bytes.fold(0, |n, b| n << 8 | u64::from(*b)))
            }
            2 => {
                let length = self.varint()?;
                if length > i64::MAX as u64 {
                    return Err(Error::NegativeLength);
                }
                let length = usize::try_from(length).map_err(|_| Error::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            other => Wire::Other(other),
        })
    }

    /// Skips the rest of an unknown field, including the fields of a group.
    pub fn skip(&mut self, wire: Wire<'_>) -> Result<(), Error> {
        let Wire::Other(kind) = wire else {
            return Ok(());
        };
        if kind != 3 {
            return Err(Error::IllegalWireType(kind));
        }
        let mut depth = 1_usize;
        while depth > 0 {
            if self.0.is_empty() {
                return Err(Error::Truncated);
            }
            match self.varint()?.to_le_bytes()[0] & 7 {
                3 => depth += 1,
                4 => depth -= 1,
                wire => {
                    if let Wire::Other(wire) = self.value(wire)? {
                        return Err(Error::IllegalWireType(wire));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_stepped_over_and_what_is_malformed_is_told_as_go_tells_it() {
        // Field 1 is a group that holds a number, a group and a text.
        let group = [0x0b, 0x10, 5, 0x1b, 0x1c, 0x22, 1, b'x', 0x0c, 0x28, 7];
        let mut reader = WireReader(&group);
        let Ok(Some((1, wire))) = reader.field("A") else {
            panic!("no group");
        };
        reader.skip(wire).unwrap();
        assert!(matches!(reader.field("A"), Ok(Some((5, Wire::Varint(7))))));
        let error = |bytes: &[u8]| {
            let mut reader = WireReader(bytes);
            let read = reader.field("A").and_then(|field| match field {
                Some((_, wire)) => reader.skip(wire),
                None => Ok(()),
            });
            read.unwrap_err().to_string()
        };
        assert_eq!(error(&[0x02, 0]), "proto: A: illegal tag 0 (wire type 2)");
        assert_eq!(error(&[0x0c]), "proto: A: wiretype end group for non-group");
        assert_eq!(error(&[0x0f]), "proto: illegal wireType 7");
        assert_eq!(error(&[0x0b, 0x08]), "unexpected EOF");
        assert_eq!(error(&[0xff; 11]), "proto: integer overflow");
        let negative = [&[0x0a][..], &[0xff; 9], &[1]].concat();
        assert_eq!(
            error(&negative),
            "proto: negative length found during unmarshaling"
        );
    }

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
