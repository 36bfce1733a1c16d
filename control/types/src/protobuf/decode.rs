//! Decodes protobuf objects into a tree.
//!
//! The result equals the tree of the object's JSON, except for zero values that Go writes
//! in protobuf but leaves out of JSON: [`crate::coerce::coerce`] drops them.

use base64::Engine as _;

use super::error::Error;
use super::plan::{Entry, PlanMember, plan, schema_props};
use super::wire::{Wire, WireReader};
use crate::duration;
use crate::schema::{MAX_MESSAGES, Shape, TypeId, TypeRef};
use crate::time;
use crate::value::{Key, Map, Value};

/// Reads a message of a known type.
///
/// # Errors
/// When the bytes are malformed.
pub fn decode_message(raw: &[u8], of: TypeId) -> Result<Value, Error> {
    let mut map = Map::new();
    read_message(WireReader(raw), of, of, 0, &mut map, 0)?;
    Ok(Value::Object(map))
}

/// Reads the fields of a message, or of a struct that is inlined in `outer`, whose
/// members begin there at `base`.
fn read_message(
    mut reader: WireReader<'_>,
    of: TypeId,
    outer: TypeId,
    base: usize,
    map: &mut Map,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_MESSAGES {
        return Err(Error::TooDeep);
    }
    let numbers = plan(of);
    while let Some((number, wire)) = reader.field(of.get().go_name())? {
        match numbers.by_number(number) {
            Entry::None => reader.skip(wire)?,
            Entry::Group { of: inner, at } => {
                let bytes = wire
                    .bytes()
                    .map_err(|e| e.with_field(inner.get().go_name()))?;
                read_message(WireReader(bytes), inner, outer, base + at, map, depth + 1)?;
            }
            Entry::Member(at) => {
                if let Some(member) = plan(outer).members.get(base + at) {
                    read_member(member, wire, map, depth + 1)
                        .map_err(|error| error.with_field(&go_name(member, of)))?;
                }
            }
        }
    }
    Ok(())
}

/// Returns Go's name of a field: its name in JSON with capitals.
fn go_name(member: &PlanMember, of: TypeId) -> String {
    const CAPITALS: [&str; 16] = [
        "api", "cidr", "csi", "dns", "fs", "gmsa", "http", "ip", "nfs", "pid", "rbd", "tcp", "tls",
        "ttl", "uid", "url",
    ];
    if member.name == "metadata" {
        let list = of.get().go_name().ends_with("List");
        return if list { "ListMeta" } else { "ObjectMeta" }.to_owned();
    }
    for word in CAPITALS {
        if let Some(rest) = member.name.strip_prefix(word)
            && !rest.starts_with(|c: char| c.is_ascii_lowercase() && c != 's')
        {
            return format!("{}{rest}", word.to_ascii_uppercase());
        }
    }
    let mut name = member.name.to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}

fn read_member(
    member: &PlanMember,
    wire: Wire<'_>,
    map: &mut Map,
    depth: usize,
) -> Result<(), Error> {
    match member.of {
        TypeRef::List(inner) => {
            let list = map
                .get_or_insert_with(&member.key, || Value::Array(Vec::new()))
                .make_array();
            match (inner, wire) {
                // Numbers may stand packed in one field.
                (TypeRef::Int32 | TypeRef::Int64, Wire::Bytes(packed)) => {
                    let mut packed = WireReader(packed);
                    while !packed.0.is_empty() {
                        list.push(scalar(inner, Wire::Varint(packed.varint()?), depth)?);
                    }
                }
                _ => list.push(scalar(inner, wire, depth)?),
            }
            Ok(())
        }
        TypeRef::Map(inner) => {
            let mut entry = WireReader(wire.bytes()?);
            let (mut key, mut value) = (Key::new(""), None);
            while let Some((number, wire)) = entry.field(member.name)? {
                match number {
                    1 => key = Key::new(&wire.text()?),
                    2 => value = Some(scalar(inner, wire, depth)?),
                    _ => entry.skip(wire)?,
                }
            }
            // A value that is absent is the zero value: what decoding nothing gives.
            let value = match value {
                Some(value) => value,
                None => empty(inner, depth)?,
            };
            map.object_mut(&member.key).insert(key, value);
            Ok(())
        }
        ref other => {
            map.insert(&member.key, scalar(other, wire, depth)?);
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
        TypeRef::String => Value::String(wire.text()?.into()),
        TypeRef::Int64 => Value::Int(wire.int()?),
        // Go keeps the low bits of a number that is too wide.
        TypeRef::Int32 => Value::Int(i64::from(wire.int()? as i32)),
        TypeRef::Bool => Value::Bool(wire.int()? != 0),
        TypeRef::Float => match wire {
            Wire::Fixed64(bits) => Value::from(f64::from_bits(bits)),
            other => return Err(other.wrong()),
        },
        TypeRef::Bytes => {
            Value::from(base64::engine::general_purpose::STANDARD.encode(wire.bytes()?))
        }
        TypeRef::Quantity => {
            let mut reader = WireReader(wire.bytes()?);
            let mut text = "0".into();
            while let Some((number, wire)) = reader.field("Quantity")? {
                match number {
                    1 => text = wire.text()?,
                    _ => reader.skip(wire)?,
                }
            }
            Value::String(if text.is_empty() {
                "0".into()
            } else {
                text.into()
            })
        }
        TypeRef::IntOrString => {
            let mut reader = WireReader(wire.bytes()?);
            let (mut is_text, mut int, mut text) = (false, 0, "".into());
            while let Some((number, wire)) = reader.field("IntOrString")? {
                match number {
                    1 => is_text = wire.int()? == 1,
                    2 => int = wire.int()?,
                    3 => text = wire.text()?,
                    _ => reader.skip(wire)?,
                }
            }
            if is_text {
                Value::String(text.into())
            } else {
                // Go keeps the low bits of a number that is too wide.
                Value::Int(i64::from(int as i32))
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
    let mut reader = WireReader(wire.bytes()?);
    let (mut first, mut nanos) = (None, 0);
    while let Some((number, wire)) = reader.field("Timestamp")? {
        match number {
            1 => first = Some(wire.int()?),
            2 => nanos = wire.int()?,
            _ => reader.skip(wire)?,
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
    let mut reader = WireReader(wire.bytes()?);
    if one.shape == Shape::Struct {
        let mut map = Map::new();
        read_message(reader, id, id, 0, &mut map, depth)?;
        return Ok(Value::Object(map));
    }
    let props = schema_props();
    let mut out = match one.shape {
        Shape::Texts => Value::Array(Vec::new()),
        Shape::SchemaOrBool => Value::Bool(false),
        _ => Value::Null,
    };
    while let Some((number, wire)) = reader.field(one.go_name())? {
        match (one.shape, number) {
            (Shape::Any, 1) => {
                let raw = wire.bytes()?;
                if !raw.is_empty() {
                    out =
                        Value::from_slice(raw).map_err(|error| Error::Value(error.to_string()))?;
                }
            }
            (Shape::Texts, 1) | (Shape::SchemaOrTexts, 2) => {
                out.make_array().push(Value::String(wire.text()?.into()));
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
