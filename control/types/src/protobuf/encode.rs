//! Encodes objects in protobuf directly from their JSON.
//!
//! No tree is built: the cached and stored bytes are walked once, and each member is
//! written as its field. The result is, byte for byte, what the marshallers of
//! Kubernetes' Go types write: fields by number, map entries by key, and every field that
//! is no pointer, list or map even if it is zero.
//!
//! Three things make this more than a copy:
//!
//! - A message's length precedes it. One byte is reserved for it, and a longer length
//!   moves the message (see [`super::wire::end`]).
//! - JSON lists fields as Go declares them, which for some types is not by number. Their
//!   fields are written as they come and sorted at the end of the message.
//! - An inlined struct is a message of its own.
//!
//! JSON with members in another order takes a second path for all types, which costs
//! twice as much.

use std::borrow::Cow;

use base64::Engine as _;
use memchr::{memchr2, memchr3};
use smallvec::SmallVec;

use super::plan::{InlinedStruct, Plan, PlanMember, plan, schema_props, wire_type, zero_content};
use super::wire::{MAGIC, begin, end, push_varint, varint_length};
use crate::duration;
use crate::schema::{MAX_MESSAGES, Shape, TypeId, TypeRef};
use crate::time;

/// The type of embedded objects. Writers compare its bytes: the DaemonSet controller uses
/// them to find the revision of a template.
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// Escapes JSON as Go's `encoding/json` does in strings. JSON has none of these
/// characters outside of strings.
fn escape_as_go(json: &[u8]) -> Cow<'_, [u8]> {
    /// First bytes of the encodings of U+2028 and U+2029; the last byte differs.
    const SEPARATOR: [u8; 2] = [0xe2, 0x80];
    let is_plain = memchr3(b'<', b'>', b'&', json).is_none()
        && memchr::memmem::find(json, &SEPARATOR).is_none();
    if is_plain {
        return Cow::Borrowed(json);
    }
    let mut out = Vec::with_capacity(json.len() + 64);
    let mut rest = json;
    while let [first, tail @ ..] = rest {
        let (escape, tail): (&[u8], _) = match (first, tail) {
            (b'<', tail) => (b"\\u003c", tail),
            (b'>', tail) => (b"\\u003e", tail),
            (b'&', tail) => (b"\\u0026", tail),
            (0xe2, [0x80, 0xa8, tail @ ..]) => (b"\\u2028", tail),
            (0xe2, [0x80, 0xa9, tail @ ..]) => (b"\\u2029", tail),
            (_, tail) => (std::slice::from_ref(first), tail),
        };
        out.extend_from_slice(escape);
        rest = tail;
    }
    Cow::Owned(out)
}

/// Error for JSON that cannot be written as a message of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It is no JSON.
    #[error("invalid JSON at byte {0}")]
    Json(usize),
    /// A value that its field cannot hold.
    #[error("value at byte {at} is no {expected}")]
    Type {
        /// The offset of the value.
        at: usize,
        /// The type that would fit.
        expected: &'static str,
    },
    /// Nested deeper than any object is.
    #[error("nested too deep")]
    TooDeep,
}

/// Appends the message of an object's JSON, without envelope. `kind` and `apiVersion` are
/// not part of the message. Fields that the type does not have are left out.
///
/// # Errors
/// When the JSON does not fit the type; `out` is then unchanged.
pub fn message(json: &[u8], of: TypeId, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    for foreign in [false, true] {
        let mut encoder = Encoder {
            json,
            at: 0,
            out: &mut *out,
            segments: Vec::new(),
            scratch: Vec::new(),
            foreign,
        };
        let done = encoder.named(of, 0).and_then(|()| encoder.finish());
        match done {
            Ok(()) => return Ok(()),
            Err(stop) => {
                out.truncate(start);
                match stop {
                    Stop::Order if !foreign => {}
                    Stop::Order => return Err(EncodeError::Json(0)),
                    Stop::Error(error) => return Err(error),
                }
            }
        }
    }
    Err(EncodeError::Json(0))
}

/// Appends the message of an object's JSON behind its length.
///
/// # Errors
/// As [`message`].
pub fn sized_message(json: &[u8], of: TypeId, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    let start = begin(out);
    if let Err(error) = message(json, of, out) {
        out.truncate(before);
        return Err(error);
    }
    end(out, start);
    Ok(())
}

/// Appends an object in the envelope in which clients and the store have it: magic
/// bytes, and a `runtime.Unknown` with kind, version and the message.
///
/// # Errors
/// As [`message`].
pub fn envelope(
    json: &[u8],
    version: &str,
    kind: &str,
    of: TypeId,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let before = out.len();
    push_head(version, kind, out);
    let start = begin(out);
    if let Err(error) = message(json, of, out) {
        out.truncate(before);
        return Err(error);
    }
    end(out, start);
    out.extend_from_slice(TAIL);
    Ok(())
}

/// Appends what precedes a message of `length` bytes in its envelope; [`TAIL`] follows
/// the message. For responses that are written in pieces.
pub fn push_envelope_head(version: &str, kind: &str, length: usize, out: &mut Vec<u8>) {
    push_head(version, kind, out);
    push_varint(out, length as u64);
}

/// The end of an envelope after the message: no encoding and no content type.
pub const TAIL: &[u8] = &[0x1a, 0, 0x22, 0];

fn push_head(version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    out.push(0x0a);
    let start = begin(out);
    push_bytes(0x0a, version.as_bytes(), out);
    push_bytes(0x12, kind.as_bytes(), out);
    end(out, start);
    out.push(0x12);
}

/// Appends a field of bytes.
pub fn push_bytes(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// How many bytes a field of so many bytes takes, with a tag of one byte.
#[must_use]
pub const fn field_length(content: usize) -> usize {
    1 + varint_length(content as u64) + content
}

/// The reason why the walk ended early.
enum Stop {
    /// Members are in another order than they are written in here.
    Order,
    Error(EncodeError),
}

impl From<EncodeError> for Stop {
    fn from(error: EncodeError) -> Self {
        Self::Error(error)
    }
}

type EncodeStep<T = ()> = Result<T, Stop>;

/// A field that was written out of order.
#[derive(Clone, Copy)]
struct EncodedSegment {
    member: &'static PlanMember,
    start: usize,
    end: usize,
}

struct Encoder<'a, 'b> {
    json: &'a [u8],
    at: usize,
    out: &'b mut Vec<u8>,
    segments: Vec<EncodedSegment>,
    scratch: Vec<u8>,
    /// Whether members may be in any order.
    foreign: bool,
}

impl<'a> Encoder<'a, '_> {
    fn error<T>(&self) -> EncodeStep<T> {
        Err(EncodeError::Json(self.at).into())
    }

    fn mismatch<T>(&self, expected: &'static str) -> EncodeStep<T> {
        Err(EncodeError::Type {
            at: self.at,
            expected,
        }
        .into())
    }

    fn finish(&mut self) -> EncodeStep {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.error(),
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.json.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Some(*byte),
            }
        }
        None
    }

    fn open(&mut self, bracket: u8, expected: &'static str) -> EncodeStep {
        if self.peek() != Some(bracket) {
            return self.mismatch(expected);
        }
        self.at += 1;
        Ok(())
    }

    /// Returns whether the list or object that was just opened is empty.
    fn closes(&mut self, bracket: u8) -> bool {
        let closes = self.peek() == Some(bracket);
        self.at += usize::from(closes);
        closes
    }

    /// Whether another item follows.
    fn more(&mut self, bracket: u8) -> EncodeStep<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == bracket => {
                self.at += 1;
                Ok(false)
            }
            _ => self.error(),
        }
    }

    fn take_null(&mut self) -> bool {
        let null = self.peek() == Some(b'n') && self.json[self.at..].starts_with(b"null");
        if null {
            self.at += 4;
        }
        null
    }

    // --- structs

    /// The content of a value of a named type.
    fn named(&mut self, id: TypeId, depth: usize) -> EncodeStep {
        if depth > MAX_MESSAGES {
            return Err(EncodeError::TooDeep.into());
        }
        match id.get().shape {
            Shape::Struct => self.object(id, depth),
            Shape::Any => {
                let raw = self.skip()?;
                if id.get().name == RAW_EXTENSION {
                    push_bytes(0x0a, &escape_as_go(raw), self.out);
                } else {
                    push_bytes(0x0a, raw, self.out);
                }
                Ok(())
            }
            Shape::Texts => self.texts(0x0a),
            shape => self.schema_or(shape, depth),
        }
    }

    fn object(&mut self, id: TypeId, depth: usize) -> EncodeStep {
        let plan = plan(id);
        let assemble = plan.shuffled || self.foreign;
        let (start, base) = (self.out.len(), self.segments.len());
        let mut fill = Fill::default();
        let mut guess = 0;
        self.open(b'{', "object")?;
        let mut more = !self.closes(b'}');
        while more {
            match self.member(plan, &mut guess)? {
                Some(member) if !member.tag.is_absent() => {
                    if self.take_null() {
                        // The zero value, which is written without being there.
                    } else if assemble {
                        let from = self.out.len();
                        self.field(member, depth)?;
                        self.segments.push(EncodedSegment {
                            member,
                            start: from,
                            end: self.out.len(),
                        });
                    } else {
                        fill.advance(self.out, plan, member)?;
                        self.field(member, depth)?;
                    }
                }
                _ => {
                    self.skip()?;
                }
            }
            more = self.more(b'}')?;
        }
        if assemble {
            self.assemble(plan, base, start)
        } else {
            fill.finish(self.out, plan);
            Ok(())
        }
    }

    /// Reads a name with its colon; returns `None` if the type has no such member.
    fn member(
        &mut self,
        plan: &'static Plan,
        guess: &mut usize,
    ) -> EncodeStep<Option<&'static PlanMember>> {
        if self.peek() != Some(b'"') {
            return self.error();
        }
        let rest = &self.json[self.at..];
        let first = rest.get(1);
        // Members come in our order: the wanted one is among the next.
        let (before, after) = plan.members.split_at(*guess);
        for (member, at) in after.iter().zip(*guess..).chain(before.iter().zip(0..)) {
            if member.quoted.get(1) == first && rest.starts_with(&member.quoted) {
                self.at += member.quoted.len();
                *guess = at + 1;
                return Ok(Some(member));
            }
        }
        let (name, escaped) = self.string()?;
        if self.peek() != Some(b':') {
            return self.error();
        }
        self.at += 1;
        // Our own encoder never escapes a name, but foreign writers may.
        if escaped {
            let mut plain = Vec::new();
            unescape(name, &mut plain);
            return Ok(plan.members.iter().find(|one| one.name.as_bytes() == plain));
        }
        Ok(plan.members.iter().find(|one| one.name.as_bytes() == name))
    }

    /// Puts the fields from `base` on, written from `start` on, into their order.
    fn assemble(&mut self, plan: &'static Plan, base: usize, start: usize) -> EncodeStep {
        let segments = &mut self.segments[base..];
        if !segments.is_sorted_by_key(|one| one.member.order) {
            segments.sort_by_key(|one| one.member.order);
        }
        self.scratch.clear();
        let mut fill = Fill::default();
        for (at, one) in segments.iter().enumerate() {
            // The last of several members with the same name counts.
            if segments
                .get(at + 1)
                .is_some_and(|next| next.member.order == one.member.order)
            {
                continue;
            }
            fill.advance(&mut self.scratch, plan, one.member)?;
            self.scratch
                .extend_from_slice(&self.out[one.start..one.end]);
        }
        fill.finish(&mut self.scratch, plan);
        self.segments.truncate(base);
        self.out.truncate(start);
        self.out.extend_from_slice(&self.scratch);
        Ok(())
    }

    // --- fields

    fn field(&mut self, member: &PlanMember, depth: usize) -> EncodeStep {
        let tag = member.tag.as_slice();
        match member.of {
            TypeRef::List(inner) => {
                self.open(b'[', "array")?;
                let mut more = !self.closes(b']');
                while more {
                    self.out.extend_from_slice(tag);
                    self.value(inner, depth + 1)?;
                    more = self.more(b']')?;
                }
                Ok(())
            }
            TypeRef::Map(inner) => self.map(tag, inner, depth + 1),
            ref other => {
                self.out.extend_from_slice(tag);
                self.value(other, depth + 1)
            }
        }
    }

    fn map(&mut self, tag: &[u8], inner: &TypeRef, depth: usize) -> EncodeStep {
        self.open(b'{', "object")?;
        let start = self.out.len();
        let mut entries: Vec<(Vec<u8>, usize, usize)> = Vec::new();
        let mut last: Option<&[u8]> = None;
        let mut more = !self.closes(b'}');
        while more {
            let (key, escaped) = self.string()?;
            if !self.foreign && (escaped || last.is_some_and(|last| last >= key)) {
                return Err(Stop::Order);
            }
            last = Some(key);
            if self.peek() != Some(b':') {
                return self.error();
            }
            self.at += 1;
            let from = self.out.len();
            self.out.extend_from_slice(tag);
            let entry = begin(self.out);
            self.out.push(0x0a);
            if escaped {
                let at = begin(self.out);
                unescape(key, self.out);
                end(self.out, at);
            } else {
                push_varint(self.out, key.len() as u64);
                self.out.extend_from_slice(key);
            }
            self.out.push(0x10 | wire_type(inner));
            self.value(inner, depth)?;
            end(self.out, entry);
            if self.foreign {
                let mut plain = Vec::new();
                unescape(key, &mut plain);
                entries.push((plain, from, self.out.len()));
            }
            more = self.more(b'}')?;
        }
        if entries.len() > 1 {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let written = self.out.split_off(start);
            for (at, (key, from, to)) in entries.iter().enumerate() {
                if entries.get(at + 1).is_none_or(|next| next.0 != *key) {
                    self.out
                        .extend_from_slice(&written[from - start..to - start]);
                }
            }
        }
        Ok(())
    }

    /// A value as it stands behind its tag: with its length, where it has one.
    fn value(&mut self, of: &TypeRef, depth: usize) -> EncodeStep {
        // A null among items is the zero value.
        if self.peek() == Some(b'n') && self.take_null() {
            let zero = zero_content(of);
            if wire_type(of) == 2 {
                push_varint(self.out, zero.len() as u64);
            }
            self.out.extend_from_slice(&zero);
            return Ok(());
        }
        match of {
            TypeRef::String => self.text(),
            TypeRef::Int32 | TypeRef::Int64 => {
                let number = self.int()?;
                push_varint(self.out, number.cast_unsigned());
                Ok(())
            }
            TypeRef::Bool => {
                let truth = match self.skip()? {
                    b"true" => 1,
                    b"false" => 0,
                    _ => return self.mismatch("bool"),
                };
                self.out.push(truth);
                Ok(())
            }
            TypeRef::Float => {
                let text = self.skip()?;
                let number = std::str::from_utf8(text)
                    .ok()
                    .and_then(|text| text.parse::<f64>().ok());
                let Some(number) = number else {
                    return self.mismatch("number");
                };
                self.out.extend_from_slice(&number.to_le_bytes());
                Ok(())
            }
            TypeRef::Bytes => {
                let (text, escaped) = self.string()?;
                let start = begin(self.out);
                let decoded = if escaped {
                    let mut plain = Vec::new();
                    unescape(text, &mut plain);
                    decode_base64(&plain, self.out)
                } else {
                    decode_base64(text, self.out)
                };
                if !decoded {
                    return self.mismatch("base64");
                }
                end(self.out, start);
                Ok(())
            }
            TypeRef::Quantity => {
                let start = begin(self.out);
                self.out.push(0x0a);
                if self.peek() == Some(b'"') {
                    self.text()?;
                } else {
                    let number = self.skip()?;
                    push_varint(self.out, number.len() as u64);
                    self.out.extend_from_slice(number);
                }
                end(self.out, start);
                Ok(())
            }
            TypeRef::IntOrString => {
                let start = begin(self.out);
                if self.peek() == Some(b'"') {
                    self.out.extend_from_slice(&[8, 1, 16, 0, 26]);
                    self.text()?;
                } else {
                    self.out.extend_from_slice(&[8, 0, 16]);
                    let number = self.int()?;
                    push_varint(self.out, number.cast_unsigned());
                    self.out.extend_from_slice(&[26, 0]);
                }
                end(self.out, start);
                Ok(())
            }
            TypeRef::Time | TypeRef::MicroTime => {
                let micro = *of == TypeRef::MicroTime;
                let (text, _) = self.string()?;
                let Some((seconds, nanos)) = time::seconds(text) else {
                    return self.mismatch("time");
                };
                let start = begin(self.out);
                // Go's zero time is no value.
                if seconds != time::ZERO || (micro && nanos != 0) {
                    self.out.push(8);
                    push_varint(self.out, seconds.cast_unsigned());
                    self.out.push(16);
                    let nanos = if micro { nanos - nanos % 1000 } else { 0 };
                    push_varint(self.out, u64::from(nanos));
                }
                end(self.out, start);
                Ok(())
            }
            TypeRef::Duration => {
                let (text, _) = self.string()?;
                let nanos = std::str::from_utf8(text).ok().and_then(duration::parse);
                let Some(nanos) = nanos else {
                    return self.mismatch("duration");
                };
                let start = begin(self.out);
                self.out.push(8);
                push_varint(self.out, nanos.cast_unsigned());
                end(self.out, start);
                Ok(())
            }
            TypeRef::Object(id) => {
                let start = begin(self.out);
                self.named(*id, depth)?;
                end(self.out, start);
                Ok(())
            }
            TypeRef::Any | TypeRef::List(_) | TypeRef::Map(_) => {
                self.mismatch("type that protobuf knows")
            }
        }
    }

    fn texts(&mut self, tag: u8) -> EncodeStep {
        self.open(b'[', "array")?;
        let mut more = !self.closes(b']');
        while more {
            self.out.push(tag);
            self.value(&TypeRef::String, 0)?;
            more = self.more(b']')?;
        }
        Ok(())
    }

    /// A schema, or an alternative to one.
    fn schema_or(&mut self, shape: Shape, depth: usize) -> EncodeStep {
        let Some(props) = schema_props() else {
            return self.mismatch("schema");
        };
        let schema = TypeRef::Object(props);
        match (shape, self.peek()) {
            (Shape::SchemaOrBool, Some(b'{')) => {
                self.out.extend_from_slice(&[8, 1, 0x12]);
                self.value(&schema, depth + 1)
            }
            (Shape::SchemaOrBool, _) => {
                self.out.push(8);
                self.value(&TypeRef::Bool, depth)
            }
            (_, Some(b'{')) => {
                self.out.push(0x0a);
                self.value(&schema, depth + 1)
            }
            (Shape::SchemaOrArray, Some(b'[')) => {
                self.open(b'[', "array")?;
                let mut more = !self.closes(b']');
                while more {
                    self.out.push(0x12);
                    self.value(&schema, depth + 1)?;
                    more = self.more(b']')?;
                }
                Ok(())
            }
            (Shape::SchemaOrTexts, Some(b'[')) => self.texts(0x12),
            _ => self.mismatch("schema"),
        }
    }

    // --- JSON

    /// A string without its quotes, and whether it holds escapes.
    fn string(&mut self) -> EncodeStep<(&'a [u8], bool)> {
        if self.peek() != Some(b'"') {
            return self.mismatch("string");
        }
        let start = self.at + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            let Some(found) = self
                .json
                .get(at..)
                .and_then(|rest| memchr2(b'"', b'\\', rest))
            else {
                return self.error();
            };
            at += found;
            if self.json[at] == b'"' {
                self.at = at + 1;
                return Ok((&self.json[start..at], escaped));
            }
            escaped = true;
            at += 2;
        }
    }

    /// A string with its length.
    fn text(&mut self) -> EncodeStep {
        let (text, escaped) = self.string()?;
        if escaped {
            let start = begin(self.out);
            unescape(text, self.out);
            end(self.out, start);
        } else {
            push_varint(self.out, text.len() as u64);
            self.out.extend_from_slice(text);
        }
        Ok(())
    }

    fn int(&mut self) -> EncodeStep<i64> {
        self.peek();
        let negative = self.json.get(self.at) == Some(&b'-');
        let from = self.at + usize::from(negative);
        let mut at = from;
        let mut number = 0_i64;
        while let Some(digit @ b'0'..=b'9') = self.json.get(at) {
            let next = number
                .checked_mul(10)
                .and_then(|number| number.checked_sub(i64::from(digit - b'0')));
            let Some(next) = next else {
                return self.mismatch("whole number of 64 bits");
            };
            number = next;
            at += 1;
        }
        if at == from || matches!(self.json.get(at), Some(b'.' | b'e' | b'E')) {
            return self.mismatch("whole number");
        }
        if !negative {
            let Some(positive) = number.checked_neg() else {
                return self.mismatch("whole number of 64 bits");
            };
            number = positive;
        }
        self.at = at;
        Ok(number)
    }

    /// Steps over a value of any type and answers its bytes.
    fn skip(&mut self) -> EncodeStep<&'a [u8]> {
        let Some(first) = self.peek() else {
            return self.error();
        };
        let start = self.at;
        match first {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' => {
                let mut depth = 0_usize;
                loop {
                    match self.json.get(self.at) {
                        Some(b'{' | b'[') => depth += 1,
                        Some(b'}' | b']') => depth -= 1,
                        Some(b'"') => {
                            self.string()?;
                            continue;
                        }
                        Some(_) => {}
                        None => return self.error(),
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                while self.json.get(self.at).is_some_and(|byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
                }) {
                    self.at += 1;
                }
                if self.at == start {
                    return self.error();
                }
            }
        }
        Ok(&self.json[start..self.at])
    }
}

/// Writes zero values between the fields that are present, and the frames of inlined
/// structs around their fields.
#[derive(Default)]
struct Fill {
    next: u16,
    /// The inlined structs that are being written, from the outside in.
    open: SmallVec<[OpenStruct; 2]>,
}

/// An inlined struct that is being written.
struct OpenStruct {
    group: InlinedStruct,
    start: usize,
    next: u16,
}

impl Fill {
    /// Writes all that comes before a field.
    fn advance(
        &mut self,
        out: &mut Vec<u8>,
        plan: &'static Plan,
        member: &PlanMember,
    ) -> EncodeStep {
        let shared = self
            .open
            .iter()
            .zip(&member.groups)
            .take_while(|(open, group)| open.group.rank == group.rank)
            .count();
        while self.open.len() > shared {
            self.close(out);
        }
        for level in shared..=member.groups.len() {
            let rank = member.order.get(level).copied().unwrap_or_default();
            let (plan, next) = match self.open.last_mut() {
                Some(open) => (super::plan::plan(open.group.of), &mut open.next),
                None => (plan, &mut self.next),
            };
            if rank < *next {
                return Err(Stop::Order);
            }
            out.extend_from_slice(plan.zeros(*next, rank));
            *next = rank + 1;
            if let Some(group) = member.groups.get(level) {
                out.extend_from_slice(group.tag.as_slice());
                self.open.push(OpenStruct {
                    group: *group,
                    start: begin(out),
                    next: 0,
                });
            }
        }
        Ok(())
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if let Some(open) = self.open.pop() {
            let inner = plan(open.group.of);
            out.extend_from_slice(inner.zeros(open.next, inner.ranks()));
            end(out, open.start);
        }
    }

    fn finish(mut self, out: &mut Vec<u8>, plan: &Plan) {
        while !self.open.is_empty() {
            self.close(out);
        }
        out.extend_from_slice(plan.zeros(self.next, plan.ranks()));
    }
}

fn decode_base64(text: &[u8], out: &mut Vec<u8>) -> bool {
    let engine = &base64::engine::general_purpose::STANDARD;
    engine.decode_vec(text, out).is_ok()
}

/// Appends the decoded form of an escaped string; half a surrogate pair becomes U+FFFD.
fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let Some((letter, behind)) = rest.split_first() else {
            return;
        };
        rest = behind;
        let plain = match letter {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut unit = hex4(rest);
                rest = rest.get(4..).unwrap_or_default();
                if (0xd800..0xdc00).contains(&unit)
                    && let Some(behind) = rest.strip_prefix(b"\\u")
                    && let low @ 0xdc00..0xe000 = hex4(behind)
                {
                    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    rest = behind.get(4..).unwrap_or_default();
                }
                let character = char::from_u32(unit).unwrap_or('\u{fffd}');
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            other => *other,
        };
        out.push(plain);
    }
    out.extend_from_slice(rest);
}

/// Parses four hexadecimal digits; returns U+FFFD if they are not.
fn hex4(text: &[u8]) -> u32 {
    text.get(..4)
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .unwrap_or(0xfffd)
}
