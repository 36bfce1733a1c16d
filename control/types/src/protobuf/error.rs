//! Errors of malformed protobuf.

/// Error for bytes that are not an object in protobuf; the message is that of Go's
/// generated code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is nothing at all, or nothing behind the magic bytes.
    #[error("empty {0}")]
    Empty(&'static str),
    /// The magic bytes are missing.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    Magic,
    /// The message ends within a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A number of more than ten bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length beyond 63 bits.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A group ends that did not begin.
    #[error("proto: unexpected end of group")]
    EndOfGroup,
    /// A group ends where a field should stand.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndGroup(&'static str),
    /// An unknown field has an undefined wire type.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// The field number is invalid.
    #[error("proto: {message}: illegal tag {number} (wire type {tag})")]
    IllegalTag {
        /// The message.
        message: &'static str,
        /// The field number.
        number: i32,
        /// The whole tag.
        tag: u64,
    },
    /// A field with another wire type than its type has.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType {
        /// The wire type.
        wire: u8,
        /// The field as Go calls it.
        field: String,
    },
    /// An embedded value is invalid: JSON, a quantity, or a time out of range.
    #[error("proto: invalid value: {0}")]
    Value(String),
    /// Nested deeper than any object is.
    #[error("proto: exceeded max depth")]
    TooDeep,
    /// The kind has no registered type.
    #[error("no kind {kind:?} is registered for version {version:?} in scheme")]
    Kind {
        /// Its `apiVersion`.
        version: String,
        /// Its kind.
        kind: String,
    },
}

impl Error {
    /// Says which field it was, by its name in Go.
    pub(super) fn with_field(self, name: &str) -> Self {
        match self {
            Self::WireType { wire, field } if field.is_empty() => Self::WireType {
                wire,
                field: name.to_owned(),
            },
            other => other,
        }
    }
}
