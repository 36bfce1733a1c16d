//! Encodes and decodes objects in protobuf, driven by generated tables.
//!
//! Go clients send built-in kinds in protobuf: four magic bytes, then a `runtime.Unknown`
//! that holds `apiVersion`, `kind` and the object's own message. The store holds objects
//! in the same form.

mod decode;
mod encode;
mod json;
mod plan;
mod wire;

use std::sync::LazyLock;

pub use decode::decode_message;
pub use encode::{
    EncodeError, TAIL, envelope, field_length, message, push_bytes, push_envelope_head,
    sized_message,
};
pub use json::to_json;
pub use wire::push_varint;

use crate::schema::TypeId;
use crate::value::Value;
use crate::{meta, registry};
use wire::WireReader;

/// The first bytes of every protobuf body of the API.
pub const MAGIC: &[u8; 4] = b"k8s\0";

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
    fn of(self, name: &str) -> Self {
        match self {
            Self::WireType { wire, field } if field.is_empty() => Self::WireType {
                wire,
                field: name.to_owned(),
            },
            other => other,
        }
    }
}

/// An object in its envelope, not decoded yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Its `apiVersion`; may be empty.
    pub version: &'a str,
    /// Its kind; may be empty.
    pub kind: &'a str,
    /// Its message.
    pub raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Opens the envelope of an object.
    ///
    /// # Errors
    /// When the bytes are malformed.
    pub fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Err(Error::Empty("data"));
        }
        let mut reader = WireReader(bytes.strip_prefix(MAGIC).ok_or(Error::Magic)?);
        if reader.0.is_empty() {
            return Err(Error::Empty("body"));
        }
        let mut out = Self::default();
        while let Some((number, wire)) = reader.field("Unknown")? {
            match number {
                1 => {
                    let mut inner = WireReader(wire.bytes().map_err(|error| error.of("TypeMeta"))?);
                    while let Some((number, wire)) = inner.field("TypeMeta")? {
                        match number {
                            1 => out.version = plain(wire, "APIVersion")?,
                            2 => out.kind = plain(wire, "Kind")?,
                            _ => {}
                        }
                    }
                }
                2 => out.raw = wire.bytes().map_err(|error| error.of("Raw"))?,
                _ => {}
            }
        }
        Ok(out)
    }
}

/// The fields of a message that hold bytes, with their numbers, in their order; for
/// messages that no table describes.
///
/// # Errors
/// When the message is malformed.
pub fn fields_of_bytes(message: &[u8]) -> Result<Vec<(u64, &[u8])>, Error> {
    let mut reader = WireReader(message);
    let mut fields = Vec::new();
    while let Some((number, wire)) = reader.field("message")? {
        if let wire::Wire::Bytes(bytes) = wire {
            fields.push((number, bytes));
        } else {
            reader.skip(wire)?;
        }
    }
    Ok(fields)
}

/// Reads an object of any known kind.
///
/// # Errors
/// When the bytes are malformed or the kind is unknown.
pub fn decode(bytes: &[u8]) -> Result<Value, Error> {
    let Envelope { version, kind, raw } = Envelope::open(bytes)?;
    let (group, short) = meta::split_api_version(version);
    let Some(id) = registry::schema_of(group, short, kind) else {
        return Err(Error::Kind {
            version: version.into(),
            kind: kind.into(),
        });
    };
    let mut object = decode_message(raw, id)?;
    meta::set_type(&mut object, version, kind);
    Ok(object)
}

fn plain<'a>(wire: wire::Wire<'a>, field: &str) -> Result<&'a str, Error> {
    let bytes = wire.bytes().map_err(|error| error.of(field))?;
    std::str::from_utf8(bytes).map_err(|error| Error::Value(error.to_string()))
}

/// The type of a structural schema.
fn schema_props() -> Option<TypeId> {
    static PROPS: LazyLock<Option<TypeId>> = LazyLock::new(|| {
        TypeId::by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    });
    *PROPS
}

#[cfg(test)]
mod tests;
