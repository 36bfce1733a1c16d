//! Coerces an object into the shape that Go's decoder and encoder give it.
//!
//! A stock server decodes JSON into structs: it drops unknown fields (and reports them
//! when the client asks), treats `null` as absent, reports a string in the place of a
//! number with a specific message, and writes fields in the order of the struct, without
//! zero values. Clients rely on each of these. [`coerce`] does the same to a tree;
//! [`complete`] adds the zero values that Go writes regardless.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::generated::schema::REFS;
use crate::quantity::Quantity;
use crate::schema::{Field, MAX_NESTED, OrderedField, Shape, Type, TypeId, TypeRef};
use crate::status::quote;
use crate::time;
use crate::value::{Key, Map, Value};

/// Error for an object that does not fit its type; the message is that of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// The message of the 400 that answers it: `Pod in version "v1" cannot be handled as a Pod: …`.
    #[must_use]
    pub fn of_kind(&self, version: &str, kind: &str, expected: &str) -> String {
        cannot_be_handled(version, kind, expected, &self.0)
    }
}

/// The message of a 400 for an object that could not be decoded.
#[must_use]
pub fn cannot_be_handled(version: &str, kind: &str, expected: &str, why: &str) -> String {
    format!(
        "{kind} in version {} cannot be handled as a {expected}: {why}",
        quote(version)
    )
}

/// Returns the message of a strict decoding error that lists `findings`: `strict decoding
/// error: unknown field "spec.foo", duplicate field "spec.bar"`.
#[must_use]
pub fn strict_error(findings: &[String]) -> String {
    format!("strict decoding error: {}", findings.join(", "))
}

/// Returns what strict decoding reports for duplicate keys (see [`Value::parse`]).
#[must_use]
pub fn duplicate_findings(paths: &[String]) -> Vec<String> {
    paths
        .iter()
        .map(|path| format!("duplicate field {}", quote(path)))
        .collect()
}

/// Brings an object into the form that results from decoding it into its Go type and
/// encoding it again, except for zero values that must be written (see [`complete`]):
/// drops unknown fields, nulls and zero values, orders fields, and makes quantities
/// canonical. Returns the findings of strict field validation, such as `unknown field
/// "spec.foo"`; usually none.
///
/// # Errors
/// When a value has the wrong type. The object is then in an unspecified state.
pub fn coerce(value: &mut Value, of: TypeId) -> Result<Vec<String>, Error> {
    coerce_at(value, of, 0)
}

fn coerce_at(value: &mut Value, of: TypeId, depth: usize) -> Result<Vec<String>, Error> {
    let mut context = Context {
        findings: Vec::new(),
        saved: None,
        depth,
    };
    coerce_named(&mut context, value, of, None)?;
    match context.saved {
        Some(error) => Err(error),
        None => Ok(context.findings),
    }
}

struct Context {
    findings: Vec<String>,
    /// The first type error. Go continues after it and reports it at the end, whereas an
    /// error of a custom decoder (quantity, time) ends decoding immediately.
    saved: Option<Error>,
    /// How many structs are around.
    depth: usize,
}

/// The decoder's position in the object; built on the stack, read only for messages.
struct Frame<'a> {
    parent: Option<&'a Frame<'a>>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Field(&'static Type, &'static OrderedField),
    Item(usize),
    Key(&'a str),
}

impl Context {
    fn mismatch(&mut self, found: &str, expected: &str, frame: Option<&Frame<'_>>) {
        if self.saved.is_none() {
            self.saved = Some(mismatch(found, expected, frame));
        }
    }
}

fn mismatch(found: &str, expected: &str, frame: Option<&Frame<'_>>) -> Error {
    let mut names: Vec<(&str, &str)> = Vec::new();
    let mut owner = None;
    let mut at = frame;
    while let Some(frame) = at {
        if let PathStep::Field(one, member) = frame.step {
            owner.get_or_insert(one.go_name());
            names.push((&member.embedded, &member.key));
        }
        at = frame.parent;
    }
    Error(match owner {
        None => format!("json: cannot unmarshal {found} into Go value of type {expected}"),
        Some(owner) => {
            let path: String = names
                .iter()
                .rev()
                .map(|(embedded, name)| format!(".{embedded}{name}"))
                .collect();
            format!(
                "json: cannot unmarshal {found} into Go struct field {owner}{path} of type {expected}"
            )
        }
    })
}

/// The path with indices, as strict findings have it.
fn path(frame: Option<&Frame<'_>>, last: &str) -> String {
    let mut steps = Vec::new();
    let mut at = frame;
    while let Some(frame) = at {
        steps.push(frame.step);
        at = frame.parent;
    }
    let mut out = String::new();
    for step in steps.into_iter().rev() {
        match step {
            PathStep::Field(_, member) => push_name(&mut out, &member.key),
            PathStep::Key(key) => push_name(&mut out, key),
            PathStep::Item(at) => out.push_str(&format!("[{at}]")),
        }
    }
    push_name(&mut out, last);
    out
}

fn push_name(out: &mut String, name: &str) {
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}

fn coerce_named(
    context: &mut Context,
    value: &mut Value,
    of: TypeId,
    frame: Option<&Frame<'_>>,
) -> Result<(), Error> {
    let one = of.get();
    match one.shape {
        Shape::Struct if context.depth >= MAX_NESTED => Err(Error("exceeded max depth".into())),
        Shape::Struct => {
            context.depth += 1;
            let done = coerce_struct(context, value, of, one, frame);
            context.depth -= 1;
            done
        }
        Shape::Any => Ok(()),
        Shape::Texts => coerce_list(context, value, &TypeRef::String, one.go, frame),
        Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrTexts => {
            coerce_schema_or(value, one.shape, context.depth)
        }
    }
}

fn coerce_struct(
    context: &mut Context,
    value: &mut Value,
    of: TypeId,
    one: &'static Type,
    frame: Option<&Frame<'_>>,
) -> Result<(), Error> {
    let Value::Object(map) = value else {
        context.mismatch(value.type_name(), one.go, frame);
        return Ok(());
    };
    let entries = map.entries_mut();
    // Find the order of the remaining fields; mark the others for removal.
    const GONE: u16 = u16::MAX;
    let mut orders: smallvec::SmallVec<[u16; 32]> =
        smallvec::SmallVec::with_capacity(entries.len());
    let (mut gone, mut sorted, mut last) = (false, true, 0);
    for (key, value) in entries.iter_mut() {
        let Some(member) = of.member(key) else {
            context
                .findings
                .push(format!("unknown field {}", quote(&path(frame, key))));
            orders.push(GONE);
            gone = true;
            continue;
        };
        let field = member.field;
        if !value.is_null() {
            let inner = Frame {
                parent: frame,
                step: PathStep::Field(one, member),
            };
            coerce_ref(
                context,
                value,
                &REFS[field.ref_number()],
                field.go_type(),
                Some(&inner),
            )?;
        }
        if value.is_null() || (field.omit_empty() && !field.is_pointer() && is_empty(value, field))
        {
            orders.push(GONE);
            gone = true;
        } else {
            orders.push(member.order);
            sorted &= last <= member.order;
            last = member.order;
        }
    }
    if gone {
        let mut at = 0;
        entries.retain(|_| {
            at += 1;
            orders[at - 1] != GONE
        });
        orders.retain(|order| *order != GONE);
    }
    if !sorted {
        let mut pairs: Vec<(u16, (Key, Value))> =
            orders.into_iter().zip(entries.drain(..)).collect();
        pairs.sort_unstable_by_key(|(order, _)| *order);
        entries.extend(pairs.into_iter().map(|(_, entry)| entry));
    }
    Ok(())
}

/// Whether Go's `omitempty` leaves the value out. Structs are never empty to it.
fn is_empty(value: &Value, field: &Field) -> bool {
    match value {
        Value::Null => true,
        // Values that are kept as sent are never empty.
        _ if matches!(field.type_ref(), TypeRef::Any) => false,
        Value::Bool(truth) => !truth,
        // A quantity or port is a struct in Go, whatever it looks like.
        Value::Int(number) => *number == 0 && !field.type_ref().is_go_struct(),
        Value::Float(number) => *number == 0.0,
        Value::String(text) => text.is_empty() && !field.type_ref().is_go_struct(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && matches!(field.type_ref(), TypeRef::Map(_)),
    }
}

/// The Go type of an item, from that of its list or map.
fn item_type(go: &'static str) -> &'static str {
    go.strip_prefix("[]")
        .or_else(|| {
            go.strip_prefix("map[")
                .and_then(|rest| Some(rest.split_once(']')?.1))
        })
        .unwrap_or("string")
}

fn coerce_ref(
    context: &mut Context,
    value: &mut Value,
    of: &'static TypeRef,
    go: &'static str,
    frame: Option<&Frame<'_>>,
) -> Result<(), Error> {
    match (of, &mut *value) {
        (TypeRef::String, Value::String(_))
        | (TypeRef::Bool, Value::Bool(_))
        | (TypeRef::Int64, Value::Int(_))
        | (TypeRef::Float, Value::Float(_) | Value::Int(_))
        | (TypeRef::Any, _) => Ok(()),
        (TypeRef::Int32, Value::Int(number)) => {
            if i32::try_from(*number).is_err() {
                let found = format!("number {number}");
                context.mismatch(&found, go, frame);
            }
            Ok(())
        }
        (TypeRef::Int32 | TypeRef::Int64, Value::Float(_)) => {
            let found = number_or_type(value);
            context.mismatch(&found, go, frame);
            Ok(())
        }
        (TypeRef::Object(inner), _) => coerce_named(context, value, *inner, frame),
        (TypeRef::List(inner), _) => coerce_list(context, value, inner, go, frame),
        (TypeRef::Map(inner), Value::Object(map)) => coerce_map(context, map, inner, go, frame),
        (TypeRef::Bytes, Value::String(text)) => {
            if let Err(at) = check_base64(text) {
                context
                    .saved
                    .get_or_insert(Error(format!("illegal base64 data at input byte {at}")));
            } else if text.contains(['\r', '\n']) {
                text.retain(|character| character != '\r' && character != '\n');
            }
            Ok(())
        }
        (TypeRef::Bytes, Value::Array(items)) => {
            // Go decodes a list of small numbers as bytes as well.
            let mut bytes = Vec::with_capacity(items.len());
            for item in items.iter() {
                match item {
                    Value::Null => bytes.push(0),
                    Value::Int(number) => match u8::try_from(*number) {
                        Ok(byte) => bytes.push(byte),
                        Err(_) => {
                            context.mismatch(&format!("number {number}"), "uint8", frame);
                            return Ok(());
                        }
                    },
                    other => {
                        let found = number_or_type(other);
                        context.mismatch(&found, "uint8", frame);
                        return Ok(());
                    }
                }
            }
            *value = Value::String(BASE64.encode(bytes).into());
            Ok(())
        }
        (TypeRef::Quantity, _) => coerce_quantity(value),
        (TypeRef::IntOrString, _) => coerce_int_or_string(value, frame),
        (TypeRef::Time | TypeRef::MicroTime | TypeRef::Duration, _) => {
            coerce_time(value, of, frame)
        }
        (_, found) => {
            let found = found.type_name();
            context.mismatch(found, go, frame);
            Ok(())
        }
    }
}

/// Describes a value as messages do.
fn number_or_type(value: &Value) -> String {
    // Whole numbers beyond 64 bits are quoted as they were written; exponents are rare.
    const WHOLE: std::ops::Range<f64> = 9.2e18..1e21;
    match value {
        Value::Int(number) => format!("number {number}"),
        Value::Float(number) if WHOLE.contains(&number.abs()) => format!("number {number:.0}"),
        Value::Float(number) => format!("number {number:?}"),
        other => other.type_name().to_owned(),
    }
}

fn coerce_list(
    context: &mut Context,
    value: &mut Value,
    inner: &'static TypeRef,
    go: &'static str,
    frame: Option<&Frame<'_>>,
) -> Result<(), Error> {
    let Value::Array(items) = value else {
        context.mismatch(value.type_name(), go, frame);
        return Ok(());
    };
    let item_go = item_type(go);
    for (at, item) in items.iter_mut().enumerate() {
        if item.is_null() {
            // A null item is the zero value, except in a list of pointers.
            if !item_go.starts_with('*') {
                *item = zero(inner);
            }
            continue;
        }
        let step = Frame {
            parent: frame,
            step: PathStep::Item(at),
        };
        coerce_ref(context, item, inner, item_go, Some(&step))?;
    }
    Ok(())
}

fn coerce_map(
    context: &mut Context,
    map: &mut Map,
    inner: &'static TypeRef,
    go: &'static str,
    frame: Option<&Frame<'_>>,
) -> Result<(), Error> {
    let item_go = item_type(go);
    for (key, item) in map.entries_mut() {
        if item.is_null() {
            *item = zero(inner);
            continue;
        }
        let step = Frame {
            parent: frame,
            step: PathStep::Key(key),
        };
        coerce_ref(context, item, inner, item_go, Some(&step))?;
    }
    map.sort();
    Ok(())
}

/// Go's zero value of a type, as its encoder writes it.
fn zero(of: &TypeRef) -> Value {
    match of {
        TypeRef::String | TypeRef::Bytes => Value::from(""),
        TypeRef::Int32 | TypeRef::Int64 | TypeRef::Float | TypeRef::IntOrString => Value::Int(0),
        TypeRef::Bool => Value::Bool(false),
        TypeRef::Quantity => Value::from("0"),
        TypeRef::Duration => Value::from("0s"),
        TypeRef::Object(inner) if inner.get().shape == Shape::Struct => Value::object(),
        TypeRef::Time
        | TypeRef::MicroTime
        | TypeRef::Any
        | TypeRef::Object(_)
        | TypeRef::List(_)
        | TypeRef::Map(_) => Value::Null,
    }
}

fn coerce_quantity(value: &mut Value) -> Result<(), Error> {
    let text = match value {
        Value::String(text) => text.trim().into(),
        ref other => compact_str::CompactString::from(other.to_string()),
    };
    let quantity = Quantity::parse(&text).map_err(|error| Error(error.to_string()))?;
    let canonical = quantity.canonical();
    if value.as_str() != Some(canonical.as_str()) {
        *value = Value::String(canonical);
    }
    Ok(())
}

fn coerce_int_or_string(value: &Value, frame: Option<&Frame<'_>>) -> Result<(), Error> {
    let found = match value {
        Value::String(_) => return Ok(()),
        Value::Int(number) if i32::try_from(*number).is_ok() => return Ok(()),
        other => number_or_type(other),
    };
    Err(mismatch(&found, "int32", frame))
}

fn coerce_time(value: &mut Value, of: &TypeRef, frame: Option<&Frame<'_>>) -> Result<(), Error> {
    let Value::String(text) = value else {
        return Err(mismatch(value.type_name(), "string", frame));
    };
    let micro = match of {
        TypeRef::Duration => return Ok(()),
        TypeRef::MicroTime => true,
        _ => false,
    };
    let parsed = time::parse_as_go(text, micro).map_err(|error| Error(error.to_string()))?;
    let canonical = if micro {
        time::format_micro(parsed)
    } else {
        time::format(parsed)
    };
    if *text != canonical {
        *text = canonical;
    }
    Ok(())
}

/// The offset that Go's decoder reports for a text that is no padded base64.
fn check_base64(text: &str) -> Result<(), usize> {
    let bytes = text.as_bytes();
    let (mut count, mut at) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\r' | b'\n' => {}
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => count += 1,
            b'=' => {
                // Padding is the third or fourth character of the last group.
                let place = count % 4;
                if place < 2 {
                    return Err(at);
                }
                let blank =
                    |from: usize| (from..bytes.len()).find(|i| !matches!(bytes[*i], b'\r' | b'\n'));
                let mut end = at + 1;
                if place == 2 {
                    match blank(end) {
                        Some(next) if bytes[next] == b'=' => end = next + 1,
                        Some(next) => return Err(next - 1 + usize::from(next == end)),
                        None => return Err(bytes.len()),
                    }
                }
                return blank(end).map_or(Ok(()), Err);
            }
            _ => return Err(at),
        }
        at += 1;
    }
    // An unfinished group is reported where it starts.
    if count % 4 == 0 {
        Ok(())
    } else {
        Err(at - count % 4)
    }
}

/// `JSONSchemaPropsOr…`: Go decodes the inner value separately and never strictly.
fn coerce_schema_or(value: &mut Value, shape: Shape, depth: usize) -> Result<(), Error> {
    let Some(props) =
        TypeId::by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    else {
        return Ok(());
    };
    match (shape, value) {
        (_, value @ Value::Object(_)) => coerce_at(value, props, depth).map(|_| ()),
        (Shape::SchemaOrBool, Value::Bool(_)) => Ok(()),
        (Shape::SchemaOrBool, _) => Err(Error("boolean or JSON schema expected".into())),
        (Shape::SchemaOrArray, Value::Array(items)) => items
            .iter_mut()
            .try_for_each(|item| coerce_at(item, props, depth).map(|_| ())),
        (Shape::SchemaOrTexts, Value::Array(items)) => {
            match items
                .iter()
                .find(|item| !matches!(item, Value::String(_) | Value::Null))
            {
                Some(item) => Err(mismatch(item.type_name(), "string", None)),
                None => Ok(()),
            }
        }
        (_, other) => {
            *other = Value::Null;
            Ok(())
        }
    }
}

/// Adds what Go's encoder writes although it is zero: structs (`status: {}`),
/// fields without `omitempty` (`"rules": null`), quantities and ports. For an
/// object that [`coerce`] has seen, just before it is encoded. Lists and maps that
/// are written although empty are `null`: stored as protobuf, none and no entries
/// are one.
pub fn complete(value: &mut Value, of: TypeId) {
    add_zeros(value, of, true);
}

/// As [`complete`], but lists and maps that are written although empty stay as
/// they are: so Go holds an object before it was stored.
pub fn fill(value: &mut Value, of: TypeId) {
    add_zeros(value, of, false);
}

fn add_zeros(value: &mut Value, of: TypeId, settle: bool) {
    let one = of.get();
    let Value::Object(map) = value else { return };
    if one.shape != Shape::Struct {
        // The shapes around a schema hold only fields with `omitempty`.
        return;
    }
    for (key, inner) in map.entries_mut() {
        if let Some(member) = of.member(key) {
            zeros_below(inner, &REFS[member.field.ref_number()], settle);
            let empty = match inner {
                _ if !settle => false,
                Value::Array(items) => items.is_empty(),
                Value::Object(map) => {
                    map.is_empty() && matches!(member.field.type_ref(), TypeRef::Map(_))
                }
                _ => false,
            };
            if empty {
                *inner = Value::Null;
            }
        }
    }
    let members = &of.members().ordered;
    let mut at = 0;
    for member in members {
        let field = member.field;
        if map
            .as_slice()
            .get(at)
            .is_some_and(|(key, _)| *key == member.key)
        {
            at += 1;
            continue;
        }
        let written = if field.is_pointer() {
            !field.omit_empty()
        } else if field.type_ref().is_go_struct() {
            !field.omit_zero()
        } else {
            !field.omit_empty()
        };
        // The envelope's encoder writes the type's own name.
        if !written || map.contains_key(&member.key) {
            continue;
        }
        let mut fresh = if field.is_pointer() {
            Value::Null
        } else {
            zero(&field.type_ref())
        };
        zeros_below(&mut fresh, &REFS[field.ref_number()], settle);
        let place = at.min(map.len());
        map.entries_mut().insert(place, (member.key.clone(), fresh));
        at += 1;
    }
}

/// Whether a member that holds nothing is left out. A time that is no pointer is not:
/// to Go it is a struct, which prints itself as `null`.
fn omits_null(field: &Field) -> bool {
    if field.is_pointer() || !field.type_ref().is_go_struct() {
        field.omit_empty()
    } else {
        field.omit_zero()
    }
}

/// Brings an object that was changed since it was decoded into the form in which it is
/// held: members in the order of Go's struct, maps by key. With `drop_empty` also into
/// the form that writing it in protobuf and reading it back would give, where an empty
/// list or map is none.
pub fn arrange(value: &mut Value, of: TypeId, drop_empty: bool) {
    let Value::Object(map) = value else { return };
    if of.get().shape != Shape::Struct {
        return;
    }
    let (mut gone, mut sorted, mut last) = (false, true, 0);
    for (key, inner) in map.entries_mut() {
        let Some(member) = of.member(key) else {
            continue;
        };
        sorted &= last <= member.order;
        last = member.order;
        let field = member.field;
        match (&REFS[field.ref_number()], &mut *inner) {
            (TypeRef::Object(id), inner) => arrange(inner, *id, drop_empty),
            (TypeRef::List(_), Value::Array(items)) if items.is_empty() && drop_empty => {
                *inner = Value::Null;
            }
            (TypeRef::Map(_), Value::Object(map)) if map.is_empty() && drop_empty => {
                *inner = Value::Null;
            }
            (TypeRef::List(TypeRef::Object(id)), Value::Array(items)) => {
                let items = items.iter_mut();
                items.for_each(|item| arrange(item, *id, drop_empty));
            }
            (TypeRef::Map(inner), Value::Object(map)) => {
                map.sort();
                if let TypeRef::Object(id) = inner {
                    let items = map.values_mut();
                    items.for_each(|item| arrange(item, *id, drop_empty));
                }
            }
            _ => {}
        }
        gone |= inner.is_null() && omits_null(field);
    }
    if gone {
        map.retain(|key, value| {
            !value.is_null() || of.member(key).is_none_or(|one| !omits_null(one.field))
        });
    }
    if !sorted {
        map.entries_mut()
            .sort_by_key(|(key, _)| of.member(key).map_or(u16::MAX, |member| member.order));
    }
}

fn zeros_below(value: &mut Value, of: &'static TypeRef, settle: bool) {
    match (of, value) {
        (TypeRef::Object(inner), value) => add_zeros(value, *inner, settle),
        (TypeRef::List(inner), Value::Array(items)) if inner.holds_structs() => {
            items
                .iter_mut()
                .for_each(|item| zeros_below(item, inner, settle));
        }
        (TypeRef::Map(inner), Value::Object(map)) if inner.holds_structs() => {
            map.values_mut()
                .for_each(|item| zeros_below(item, inner, settle));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
