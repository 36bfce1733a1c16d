//! Objects in protobuf, driven by the tables.
//!
//! Go clients send built-in kinds in protobuf: four magic bytes, then a
//! `runtime.Unknown` that holds `apiVersion`, `kind` and the object's own message.
//! The tree that comes out is what the object's JSON would parse to, but for zero
//! values, which Go writes in protobuf even where JSON leaves them out:
//! [`crate::coerce::coerce`] drops them.

mod duration;
mod encode;
mod plan;
mod wire;

use std::sync::LazyLock;

use base64::Engine as _;

pub use encode::{
    EncodeError, TAIL, envelope, field_length, message, push_bytes, push_envelope_head,
    sized_message,
};
pub use wire::push_varint;

use crate::registry;
use crate::schema::{Field, Shape, TypeId, TypeRef};
use crate::value::{Key, MAX_DEPTH, Map, Value};
use crate::{meta, time};

/// What every protobuf body of the API starts with.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// Why bytes are no object in protobuf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The magic bytes are missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")]
    Magic,
    /// The message ends within a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A field with another wire type than its type has.
    #[error("proto: wrong wireType = {0} for field")]
    WireType(u8),
    /// Text that is not UTF-8, embedded JSON that is none, a time out of range.
    #[error("proto: invalid value: {0}")]
    Value(String),
    /// Nested deeper than any object is.
    #[error("proto: exceeded max depth")]
    TooDeep,
    /// A kind that has no type here.
    #[error("no kind {kind:?} is registered for version {version:?} in scheme")]
    Kind {
        /// Its `apiVersion`.
        version: String,
        /// Its kind.
        kind: String,
    },
}

/// Reads an object of any known kind.
///
/// # Errors
/// When the bytes are malformed or the kind is unknown.
pub fn decode(bytes: &[u8]) -> Result<Value, Error> {
    let mut envelope = Reader(bytes.strip_prefix(MAGIC).ok_or(Error::Magic)?);
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    while let Some((number, wire)) = envelope.tag()? {
        match (number, wire) {
            (1, Wire::Bytes(inner)) => {
                let mut inner = Reader(inner);
                while let Some((number, wire)) = inner.tag()? {
                    match number {
                        1 => version = wire.text()?.to_owned(),
                        2 => kind = wire.text()?.to_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(inner)) => raw = inner,
            _ => {}
        }
    }
    let (group, short) = meta::split_api_version(&version);
    let Some(id) = registry::schema_of(group, short, &kind) else {
        return Err(Error::Kind { version, kind });
    };
    let mut map = Map::new();
    read_message(Reader(raw), id, &mut map, 0)?;
    let mut object = Value::Object(map);
    meta::set_type(&mut object, &version, &kind);
    Ok(object)
}

/// The type of a structural schema.
fn schema_props() -> Option<TypeId> {
    static PROPS: LazyLock<Option<TypeId>> = LazyLock::new(|| {
        TypeId::by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    });
    *PROPS
}

/// The value of a field as it stands on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(Error::WireType(other.number())),
        }
    }

    fn text(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|error| Error::Value(error.to_string()))
    }

    /// A signed number stands in two's complement.
    fn int(self) -> Result<i64, Error> {
        match self {
            Self::Varint(number) => Ok(number.cast_signed()),
            other => Err(Error::WireType(other.number())),
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64, Error> {
        let mut number = 0_u64;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(Error::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next field's number and value; nothing at the end.
    fn tag(&mut self) -> Result<Option<(u64, Wire<'a>)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(
                self.take(8)?
                    .iter()
                    .rev()
                    .fold(0, |n, b| n << 8 | u64::from(*b)),
            ),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Error::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            other => return Err(Error::WireType(other.to_le_bytes()[0])),
        };
        Ok(Some((tag >> 3, wire)))
    }
}

fn read_message(
    mut reader: Reader<'_>,
    id: TypeId,
    map: &mut Map,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH / 2 {
        return Err(Error::TooDeep);
    }
    let fields = id.get().declared();
    while let Some((number, wire)) = reader.tag()? {
        let field = fields
            .iter()
            .find(|field| u64::from(field.number()) == number && number != 0);
        if let Some(field) = field {
            member(field, wire, map, depth + 1)?;
        }
    }
    Ok(())
}

fn member(field: &Field, wire: Wire<'_>, map: &mut Map, depth: usize) -> Result<(), Error> {
    match field.type_ref() {
        TypeRef::Object(inner) if field.is_inline() => {
            read_message(Reader(wire.bytes()?), inner, map, depth)
        }
        TypeRef::List(inner) => {
            let list = map
                .get_or_insert_with(field.name(), || Value::Array(Vec::new()))
                .make_array();
            match (inner, wire) {
                // Numbers may stand packed in one field.
                (TypeRef::Int32 | TypeRef::Int64, Wire::Bytes(packed)) => {
                    let mut packed = Reader(packed);
                    while !packed.0.is_empty() {
                        list.push(scalar(inner, Wire::Varint(packed.varint()?), depth)?);
                    }
                }
                _ => list.push(scalar(inner, wire, depth)?),
            }
            Ok(())
        }
        TypeRef::Map(inner) => {
            let mut entry = Reader(wire.bytes()?);
            let (mut key, mut value) = (Key::new(""), None);
            while let Some((number, wire)) = entry.tag()? {
                match number {
                    1 => key = Key::new(wire.text()?),
                    2 => value = Some(scalar(inner, wire, depth)?),
                    _ => {}
                }
            }
            // A value that is absent is the zero value: what decoding nothing gives.
            let value = match value {
                Some(value) => value,
                None => empty(inner, depth)?,
            };
            map.object_mut(field.name()).insert(key, value);
            Ok(())
        }
        other => {
            map.insert(field.name(), scalar(&other, wire, depth)?);
            Ok(())
        }
    }
}

fn empty(of: &TypeRef, depth: usize) -> Result<Value, Error> {
    match of {
        TypeRef::Bool | TypeRef::Int32 | TypeRef::Int64 => scalar(of, Wire::Varint(0), depth),
        TypeRef::Float => scalar(of, Wire::Fixed64(0), depth),
        _ => scalar(of, Wire::Bytes(&[]), depth),
    }
}

fn scalar(of: &TypeRef, wire: Wire<'_>, depth: usize) -> Result<Value, Error> {
    Ok(match of {
        TypeRef::String => Value::from(wire.text()?),
        TypeRef::Int64 => Value::Int(wire.int()?),
        // Of a number with too many bits Go keeps the low ones.
        #[allow(clippy::cast_possible_truncation)]
        TypeRef::Int32 => Value::Int(i64::from(wire.int()? as i32)),
        TypeRef::Bool => Value::Bool(wire.int()? != 0),
        TypeRef::Float => match wire {
            Wire::Fixed64(bits) => Value::from(f64::from_bits(bits)),
            other => return Err(Error::WireType(other.number())),
        },
        TypeRef::Bytes => {
            Value::from(base64::engine::general_purpose::STANDARD.encode(wire.bytes()?))
        }
        TypeRef::Quantity => {
            let mut reader = Reader(wire.bytes()?);
            let mut text = "0";
            while let Some((number, wire)) = reader.tag()? {
                if number == 1 {
                    text = wire.text()?;
                }
            }
            Value::from(if text.is_empty() { "0" } else { text })
        }
        TypeRef::IntOrString => {
            let mut reader = Reader(wire.bytes()?);
            let (mut is_text, mut int, mut text) = (false, 0, "");
            while let Some((number, wire)) = reader.tag()? {
                match number {
                    1 => is_text = wire.int()? == 1,
                    2 => int = wire.int()?,
                    3 => text = wire.text()?,
                    _ => {}
                }
            }
            if is_text {
                Value::from(text)
            } else {
                Value::Int(int)
            }
        }
        TypeRef::Time | TypeRef::MicroTime | TypeRef::Duration => instant(of, wire)?,
        TypeRef::Any => Value::Null,
        TypeRef::Object(id) => named(*id, wire, depth)?,
        TypeRef::List(_) | TypeRef::Map(_) => {
            return Err(Error::Value("a list within a list".into()));
        }
    })
}

fn instant(of: &TypeRef, wire: Wire<'_>) -> Result<Value, Error> {
    let mut reader = Reader(wire.bytes()?);
    let (mut first, mut nanos) = (None, 0);
    while let Some((number, wire)) = reader.tag()? {
        match number {
            1 => first = Some(wire.int()?),
            2 => nanos = wire.int()?,
            _ => {}
        }
    }
    if *of == TypeRef::Duration {
        let nanos = first.unwrap_or(0);
        return Ok(Value::from(duration::format(nanos)));
    }
    // Nothing, or nothing but zeros, is Go's zero time: no value.
    let Some(seconds) = first.filter(|seconds| *seconds != 0 || nanos != 0) else {
        return Ok(Value::Null);
    };
    let at = i32::try_from(nanos)
        .ok()
        .and_then(|nanos| jiff::Timestamp::new(seconds, nanos).ok())
        .ok_or_else(|| Error::Value(format!("time {seconds}.{nanos}")))?;
    Ok(Value::String(if *of == TypeRef::MicroTime {
        time::format_micro(at)
    } else {
        time::format(at)
    }))
}

fn named(id: TypeId, wire: Wire<'_>, depth: usize) -> Result<Value, Error> {
    let one = id.get();
    let mut reader = Reader(wire.bytes()?);
    if one.shape == Shape::Struct {
        let mut map = Map::new();
        read_message(reader, id, &mut map, depth)?;
        return Ok(Value::Object(map));
    }
    let props = schema_props();
    let mut out = match one.shape {
        Shape::Texts => Value::Array(Vec::new()),
        Shape::SchemaOrBool => Value::Bool(false),
        _ => Value::Null,
    };
    while let Some((number, wire)) = reader.tag()? {
        match (one.shape, number) {
            (Shape::Any, 1) => {
                let raw = wire.bytes()?;
                if !raw.is_empty() {
                    out =
                        Value::from_slice(raw).map_err(|error| Error::Value(error.to_string()))?;
                }
            }
            (Shape::Texts, 1) | (Shape::SchemaOrTexts, 2) => {
                out.make_array().push(Value::from(wire.text()?));
            }
            (Shape::SchemaOrBool, 1) if !matches!(out, Value::Object(_)) => {
                out = Value::Bool(wire.int()? != 0);
            }
            (Shape::SchemaOrBool, 2) | (Shape::SchemaOrArray | Shape::SchemaOrTexts, 1) => {
                if let Some(props) = props {
                    out = named(props, wire, depth + 1)?;
                }
            }
            (Shape::SchemaOrArray, 2) => {
                if let Some(props) = props {
                    let item = named(props, wire, depth + 1)?;
                    out.make_array().push(item);
                }
            }
            _ => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
