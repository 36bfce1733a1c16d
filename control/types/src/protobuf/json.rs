//! Converts protobuf to JSON directly, for objects that are read from the store.
//!
//! No tree is built: each field is printed when it is read. The result is what Go prints
//! for the decoded object: members in the order of the struct, without the zero values
//! that `omitempty` drops, and with those that it keeps.
//!
//! This requires bytes in the form that Kubernetes' own marshallers write: fields by
//! number, list items together, map keys in order. Other writers may use anything that
//! protobuf allows; their bytes are rejected here ([`UnexpectedOrder`]) and are decoded
//! through a tree.

use base64::Engine as _;

use super::decode::decode_message;
use super::error::Error;
use super::plan::{Entry, Plan, plan};
use super::wire::{Wire, WireReader};
use crate::coerce;
use crate::duration;
use crate::schema::{MAX_MESSAGES, Shape, TypeId, TypeRef};
use crate::time;
use crate::value::{Map, Value, write_float, write_string};

/// Appends an object as JSON, with kind and version first.
///
/// # Errors
/// When the bytes are malformed.
pub fn to_json(
    raw: &[u8],
    of: TypeId,
    version: &str,
    kind: &str,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if direct(raw, of, version, kind, out) {
        return Ok(());
    }
    let mut object = decode_message(raw, of)?;
    coerce::coerce(&mut object, of).map_err(|error| Error::Value(error.to_string()))?;
    coerce::complete(&mut object, of);
    // Kind and version first.
    let mut all = Value::object();
    all.insert("kind", kind);
    all.insert("apiVersion", version);
    let members = object.as_object_mut().map(std::mem::take);
    for (name, value) in members.iter().flat_map(Map::iter) {
        all.insert(name, value);
    }
    all.write(out);
    Ok(())
}

/// Prints without a tree; `false`, and nothing appended, where that cannot be done.
pub(super) fn direct(raw: &[u8], of: TypeId, version: &str, kind: &str, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.extend_from_slice(b"{\"kind\":");
    write_string(kind, out);
    out.extend_from_slice(b",\"apiVersion\":");
    write_string(version, out);
    let mut printer = Printer {
        out: &mut *out,
        segments: Vec::new(),
        scratch: Vec::new(),
    };
    if printer.members(WireReader(raw), of, false, 0).is_ok() {
        out.push(b'}');
        return true;
    }
    out.truncate(start);
    false
}

/// Printing ended early because the bytes are malformed or not in the order in which
/// Kubernetes writes them. Decoding through a tree tells which.
struct UnexpectedOrder;

impl From<Error> for UnexpectedOrder {
    fn from(_: Error) -> Self {
        Self
    }
}

type PrintStep<T = ()> = Result<T, UnexpectedOrder>;

/// A member that was printed out of order.
struct PrintedSegment {
    index: usize,
    start: usize,
    end: usize,
}

struct Printer<'b> {
    out: &'b mut Vec<u8>,
    segments: Vec<PrintedSegment>,
    scratch: Vec<u8>,
}

/// The members of one object that are being printed.
struct PrintedMembers {
    plan: &'static Plan,
    /// The first member that may still come.
    next: usize,
    first: bool,
}

impl PrintedMembers {
    /// Prints the defaults of absent members up to `index`, and prepares for that member.
    fn advance(&mut self, index: usize, out: &mut Vec<u8>) -> PrintStep {
        if index < self.next {
            return Err(UnexpectedOrder);
        }
        self.absent(index, out);
        self.next = index + 1;
        self.comma(out);
        Ok(())
    }

    fn absent(&mut self, end: usize, out: &mut Vec<u8>) {
        for (index, text) in self.plan.absent() {
            if (self.next..end).contains(index) {
                self.comma(out);
                out.extend_from_slice(text);
            }
        }
    }

    fn comma(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.first, false) {
            out.push(b',');
        }
    }
}

impl Printer<'_> {
    fn object(&mut self, reader: WireReader<'_>, of: TypeId, depth: usize) -> PrintStep {
        self.out.push(b'{');
        self.members(reader, of, true, depth)?;
        self.out.push(b'}');
        Ok(())
    }

    /// Prints the members of a message. `first` tells whether nothing was printed yet
    /// within the braces.
    fn members(
        &mut self,
        mut reader: WireReader<'_>,
        of: TypeId,
        first: bool,
        depth: usize,
    ) -> PrintStep {
        if depth > MAX_MESSAGES {
            return Err(UnexpectedOrder);
        }
        let plan = plan(of);
        let mut members = PrintedMembers {
            plan,
            next: 0,
            first,
        };
        let (start, base) = (self.out.len(), self.segments.len());
        self.fields(&mut reader, plan, 0, &mut members, depth)?;
        if plan.shuffled {
            let segments = &mut self.segments[base..];
            segments.sort_unstable_by_key(|one| one.index);
            self.scratch.clear();
            for one in segments.iter() {
                members.advance(one.index, &mut self.scratch)?;
                self.scratch
                    .extend_from_slice(&self.out[one.start..one.end]);
            }
            self.segments.truncate(base);
            self.out.truncate(start);
            self.out.extend_from_slice(&self.scratch);
        }
        members.absent(plan.members.len(), self.out);
        Ok(())
    }

    /// The fields of a message, or of an inlined struct whose members begin at `base`.
    fn fields(
        &mut self,
        reader: &mut WireReader<'_>,
        of: &'static Plan,
        base: usize,
        members: &mut PrintedMembers,
        depth: usize,
    ) -> PrintStep {
        while let Some((number, wire)) = reader.field("")? {
            match of.by_number(number) {
                Entry::None => {}
                Entry::Group { of, at } => {
                    let mut inner = WireReader(wire.bytes()?);
                    self.fields(&mut inner, plan(of), base + at, members, depth)?;
                }
                Entry::Member(at) => {
                    self.member(reader, number, wire, base + at, members, depth)?;
                }
            }
        }
        Ok(())
    }

    fn member(
        &mut self,
        reader: &mut WireReader<'_>,
        number: u64,
        wire: Wire<'_>,
        index: usize,
        members: &mut PrintedMembers,
        depth: usize,
    ) -> PrintStep {
        let Some(member) = members.plan.members.get(index) else {
            return Err(UnexpectedOrder);
        };
        if member.omits_empty && wire.is_zero() && member.has_empty {
            return Ok(());
        }
        let before = (self.out.len(), members.next, members.first);
        if !members.plan.shuffled {
            members.advance(index, self.out)?;
        }
        let start = self.out.len();
        self.out.extend_from_slice(&member.quoted);
        let value = self.out.len();
        match member.of {
            TypeRef::List(inner) => {
                self.out.push(b'[');
                self.item(inner, wire, member.says, depth + 1)?;
                while let Some(next) = reader.next_of(number)? {
                    self.out.push(b',');
                    self.item(inner, next, member.says, depth + 1)?;
                }
                self.out.push(b']');
            }
            TypeRef::Map(inner) => {
                self.out.push(b'{');
                let mut last = self.entry(inner, wire, None, depth + 1)?;
                while let Some(next) = reader.next_of(number)? {
                    self.out.push(b',');
                    last = self.entry(inner, next, Some(last), depth + 1)?;
                }
                self.out.push(b'}');
            }
            ref other => self.value(other, wire, depth + 1)?,
        }
        if member.omits_zero && matches!(&self.out[value..], b"null" | b"{}") {
            self.out.truncate(before.0);
            (members.next, members.first) = (before.1, before.2);
        } else if members.plan.shuffled {
            self.segments.push(PrintedSegment {
                index,
                start,
                end: self.out.len(),
            });
        }
        Ok(())
    }

    /// An item of a list, beginning with what `says` holds.
    fn item(&mut self, of: &TypeRef, wire: Wire<'_>, says: &str, depth: usize) -> PrintStep {
        let start = self.out.len();
        self.value(of, wire, depth)?;
        if !says.is_empty() {
            let says = match &self.out[start..] {
                b"{}" => says.trim_end_matches(','),
                _ => says,
            };
            let at = start + 1;
            self.out.splice(at..at, says.bytes());
        }
        Ok(())
    }

    /// An entry of a map; answers its key.
    fn entry<'w>(
        &mut self,
        inner: &TypeRef,
        wire: Wire<'w>,
        last: Option<&'w str>,
        depth: usize,
    ) -> PrintStep<&'w str> {
        let mut entry = WireReader(wire.bytes()?);
        let (Some((1, key)), Some((2, value))) = (entry.field("")?, entry.field("")?) else {
            return Err(UnexpectedOrder);
        };
        let key = std::str::from_utf8(key.bytes()?).map_err(|_| UnexpectedOrder)?;
        if last.is_some_and(|last| last >= key) || !entry.0.is_empty() {
            return Err(UnexpectedOrder);
        }
        write_string(key, self.out);
        self.out.push(b':');
        self.value(inner, value, depth)?;
        Ok(key)
    }

    fn value(&mut self, of: &TypeRef, wire: Wire<'_>, depth: usize) -> PrintStep {
        match of {
            TypeRef::String => self.text(wire),
            TypeRef::Int32 => {
                self.int(i64::from(wire.int()? as i32));
                Ok(())
            }
            TypeRef::Int64 => {
                self.int(wire.int()?);
                Ok(())
            }
            TypeRef::Bool => {
                let truth: &[u8] = if wire.int()? == 0 { b"false" } else { b"true" };
                self.out.extend_from_slice(truth);
                Ok(())
            }
            TypeRef::Float => match wire {
                Wire::Fixed64(bits) if f64::from_bits(bits).is_finite() => {
                    write_float(f64::from_bits(bits), self.out);
                    Ok(())
                }
                _ => Err(UnexpectedOrder),
            },
            TypeRef::Bytes => {
                let bytes = wire.bytes()?;
                self.out.push(b'"');
                let start = self.out.len();
                let length = base64::encoded_len(bytes.len(), true).ok_or(UnexpectedOrder)?;
                self.out.resize(start + length, 0);
                base64::engine::general_purpose::STANDARD
                    .encode_slice(bytes, &mut self.out[start..])
                    .map_err(|_| UnexpectedOrder)?;
                self.out.push(b'"');
                Ok(())
            }
            TypeRef::Quantity => {
                let mut inner = WireReader(wire.bytes()?);
                match inner.field("")? {
                    Some((1, text)) if !text.is_zero() && inner.0.is_empty() => self.text(text),
                    _ => Err(UnexpectedOrder),
                }
            }
            TypeRef::IntOrString => {
                let mut inner = WireReader(wire.bytes()?);
                let (Some((1, kind)), Some((2, int)), Some((3, text))) =
                    (inner.field("")?, inner.field("")?, inner.field("")?)
                else {
                    return Err(UnexpectedOrder);
                };
                match kind.int()? {
                    0 => {
                        self.int(int.int()?);
                        Ok(())
                    }
                    1 => self.text(text),
                    _ => Err(UnexpectedOrder),
                }
            }
            TypeRef::Time | TypeRef::MicroTime => {
                let mut inner = WireReader(wire.bytes()?);
                let Some((1, seconds)) = inner.field("")? else {
                    // No bytes are Go's zero time.
                    self.out.extend_from_slice(b"null");
                    return Ok(());
                };
                let nanos = match inner.field("")? {
                    Some((2, nanos)) => nanos.int()?,
                    Some(_) => return Err(UnexpectedOrder),
                    None => 0,
                };
                let micros = (*of == TypeRef::MicroTime).then_some(nanos / 1000);
                time::write(seconds.int()?, micros, self.out).ok_or(UnexpectedOrder)
            }
            TypeRef::Duration => {
                let mut inner = WireReader(wire.bytes()?);
                let Some((1, nanos)) = inner.field("")? else {
                    return Err(UnexpectedOrder);
                };
                write_string(&duration::format(nanos.int()?), self.out);
                Ok(())
            }
            TypeRef::Object(id) => match id.get().shape {
                Shape::Struct => self.object(WireReader(wire.bytes()?), *id, depth),
                Shape::Any => {
                    let mut inner = WireReader(wire.bytes()?);
                    match inner.field("")? {
                        None => self.out.extend_from_slice(b"null"),
                        Some((1, raw)) => self.raw(raw.bytes()?)?,
                        Some(_) => return Err(UnexpectedOrder),
                    }
                    Ok(())
                }
                Shape::Texts => {
                    let mut inner = WireReader(wire.bytes()?);
                    self.out.push(b'[');
                    let mut first = true;
                    while let Some((_, text)) = inner.field("")? {
                        if !std::mem::replace(&mut first, false) {
                            self.out.push(b',');
                        }
                        self.text(text)?;
                    }
                    self.out.push(b']');
                    Ok(())
                }
                _ => Err(UnexpectedOrder),
            },
            TypeRef::Any | TypeRef::List(_) | TypeRef::Map(_) => Err(UnexpectedOrder),
        }
    }

    fn text(&mut self, wire: Wire<'_>) -> PrintStep {
        let text = std::str::from_utf8(wire.bytes()?).map_err(|_| UnexpectedOrder)?;
        write_string(text, self.out);
        Ok(())
    }

    fn int(&mut self, number: i64) {
        self.out
            .extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Prints embedded JSON. JSON that we or Go printed has no blanks between tokens;
    /// other JSON is reformatted.
    fn raw(&mut self, raw: &[u8]) -> PrintStep {
        if memchr::memchr3(b' ', b'\n', b'\t', raw).is_some() || raw.is_empty() {
            let value = Value::from_slice(raw).map_err(|_| UnexpectedOrder)?;
            value.write(self.out);
        } else {
            std::str::from_utf8(raw).map_err(|_| UnexpectedOrder)?;
            self.out.extend_from_slice(raw);
        }
        Ok(())
    }
}
