//! Encodes and decodes objects in protobuf, driven by generated tables.
//!
//! Go clients send built-in kinds in protobuf: four magic bytes, then a `runtime.Unknown`
//! that holds `apiVersion`, `kind` and the object's own message. The store holds objects
//! in the same form.

mod decode;
mod encode;
mod error;
mod json;
mod plan;
mod wire;

pub use decode::decode_message;
pub use encode::{
    EncodeError, TAIL, envelope, field_length, message, push_bytes, push_envelope_head,
    sized_message,
};
pub use error::Error;
pub use json::to_json;
pub use wire::{MAGIC, push_varint};

use crate::value::Value;
use crate::{meta, registry};
use wire::WireReader;

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
                    let mut inner =
                        WireReader(wire.bytes().map_err(|error| error.with_field("TypeMeta"))?);
                    while let Some((number, wire)) = inner.field("TypeMeta")? {
                        match number {
                            1 => out.version = plain(wire, "APIVersion")?,
                            2 => out.kind = plain(wire, "Kind")?,
                            _ => {}
                        }
                    }
                }
                2 => out.raw = wire.bytes().map_err(|error| error.with_field("Raw"))?,
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
    let bytes = wire.bytes().map_err(|error| error.with_field(field))?;
    std::str::from_utf8(bytes).map_err(|error| Error::Value(error.to_string()))
}

#[cfg(test)]
mod tests;
