//! One cached object: its bytes, encoded once, and what selectors look at.
//!
//! Objects are cached as JSON only. Most answers are JSON and are sent as they are in
//! memory; protobuf is written from the same bytes when a client asks for it
//! ([`control_strategy::protobuf`]). Caching both forms would nearly double the memory of a large
//! cluster.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use compact_str::CompactString;
use control_kinds::Kind;
use control_store::Revision;
use control_strategy::protobuf::push_item;
use control_types::protobuf::EncodeError;
use control_types::schema::TypeId;
use control_types::value::{Key, Map, Pick, Value};

use super::facts::{self, Facts};
use super::tree::TreeEntry;
use control_strategy::ResourceStrategy;

const ADDED: &[u8] = br#"{"type":"ADDED","object":"#;
const MODIFIED: &[u8] = br#"{"type":"MODIFIED","object":"#;
const DELETED: &[u8] = br#"{"type":"DELETED","object":"#;
const END: &[u8] = b"}\n";

/// What happened to an object, from the point of view of a watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It came to be, or came into the selection.
    Added,
    /// It changed.
    Modified,
    /// It is gone, or left the selection.
    Deleted,
}

/// An object as the cache holds it.
///
/// The bytes are one allocation, laid out as the watch frame that the object
/// is most likely to be sent in; the object itself is a slice of it:
///
/// ```text
/// {"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7",…}}\n
///                          ^json                          ^body                              ^end
/// ```
#[derive(Debug)]
pub struct CacheEntry {
    /// `namespace/name`, or `name` alone.
    key: CompactString,
    /// When the object was last changed.
    revision: Revision,
    /// The frame, and behind it what selectors look at ([`Facts`]).
    frame: Bytes,
    /// Where the name begins in `key`.
    name_at: u32,
    json_at: u32,
    body_at: u32,
    /// Where the frame ends and the labels begin.
    end: u32,
    /// Where the selectable fields begin.
    fields_at: u32,
    /// Length as an item of a list in protobuf; 0 until it is measured.
    protobuf_length: AtomicU32,
    change: Change,
}

/// An object ready to be cached, before the store assigns its revision.
#[derive(Debug)]
pub struct PreparedObject {
    json: Vec<u8>,
    facts: Facts,
}

/// Decodes the stored objects of a resource.
#[derive(Clone, Debug)]
pub struct Reading {
    strategy: ResourceStrategy,
    /// The parts that selectors look at, if nothing else needs decoding.
    selected: Option<Pick>,
}

impl Reading {
    /// Decodes objects of a kind.
    #[must_use]
    pub fn new(strategy: ResourceStrategy) -> Self {
        let selected = match &strategy {
            ResourceStrategy::BuiltIn(kind) => Some(kind.selected()),
            // What was stored may not have the present form of the kind yet.
            ResourceStrategy::Custom(..) => None,
        };
        Self { strategy, selected }
    }

    /// Returns the behaviour of the kind.
    #[must_use]
    #[inline]
    pub fn strategy(&self) -> &ResourceStrategy {
        &self.strategy
    }

    /// Prepares stored JSON; `printed` if this program made it of protobuf.
    fn prepare(&self, stored: &[u8], printed: bool) -> Result<PreparedObject, DecodeError> {
        if let Some(selected) = &self.selected
            && printed
            && metadata_at(stored).is_some()
        {
            let part = Value::pick(stored, selected).map_err(DecodeError::Json)?;
            return Ok(PreparedObject::new(&part, stored.to_vec(), &self.strategy));
        }
        let mut value = Value::from_slice(stored).map_err(DecodeError::Json)?;
        let json = if !self.strategy.upgrade_stored(&mut value) && metadata_at(stored).is_some() {
            stored.to_vec()
        } else {
            encode(&value)
        };
        Ok(PreparedObject::new(&value, json, &self.strategy))
    }
}

impl From<&'static Kind> for Reading {
    fn from(kind: &'static Kind) -> Self {
        Self::new(kind.into())
    }
}

impl PreparedObject {
    /// Prepares an object whose JSON was written by [`encode`].
    #[must_use]
    pub fn new(value: &Value, json: Vec<u8>, kind: &ResourceStrategy) -> Self {
        let facts = Facts::from_object(value, kind);
        Self { json, facts }
    }
}

/// Error for stored bytes that are no object of the API.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not JSON.
    #[error("stored object is not JSON")]
    Json(#[source] control_types::value::Error),
    /// A member that every object has is missing.
    #[error("stored object has no `{0}`")]
    Missing(&'static str),
    /// The object is larger than any store accepts.
    #[error("object has {0} bytes")]
    TooLarge(usize),
}

impl TreeEntry for CacheEntry {
    #[inline]
    fn key(&self) -> &str {
        &self.key
    }
}

impl CacheEntry {
    /// Decodes stored bytes (see [`encode`]).
    ///
    /// # Errors
    /// When the bytes are not what [`encode`] writes or another program wrote
    /// in its place.
    pub fn new(
        key: &str,
        stored: &[u8],
        revision: Revision,
        change: Change,
        reading: &Reading,
    ) -> Result<Self, DecodeError> {
        Self::from_prepared(key, reading.prepare(stored, false)?, revision, change)
    }

    /// Decodes JSON that this program has just made of protobuf; it is not parsed as a whole,
    /// since it is known to be JSON.
    ///
    /// # Errors
    /// As [`CacheEntry::new`], for the part that selectors look at.
    pub fn printed(
        key: &str,
        json: &[u8],
        revision: Revision,
        change: Change,
        reading: &Reading,
    ) -> Result<Self, DecodeError> {
        Self::from_prepared(key, reading.prepare(json, true)?, revision, change)
    }

    /// Completes an object that a writer prepared.
    ///
    /// # Errors
    /// When the JSON is not what [`encode`] writes.
    pub fn from_prepared(
        key: &str,
        prepared: PreparedObject,
        revision: Revision,
        change: Change,
    ) -> Result<Self, DecodeError> {
        let PreparedObject { json, facts } = prepared;
        let (labels, fields) = facts.bytes.split_at(facts.fields_at);
        Self::assemble(key, &json, [labels, fields], revision, change)
    }

    fn assemble(
        key: &str,
        stored: &[u8],
        [labels, fields]: [&[u8]; 2],
        revision: Revision,
        change: Change,
    ) -> Result<Self, DecodeError> {
        let metadata = metadata_at(stored).ok_or(DecodeError::Missing("metadata"))?;
        let head = change.head();
        let mut digits = itoa::Buffer::new();
        let number = digits.format(revision);
        let comma = stored.get(metadata.inside) != Some(&b'}');
        let parts = [
            head,
            &stored[..metadata.inside],
            VERSION,
            number.as_bytes(),
            if comma { b"\"," } else { b"\"" },
            &stored[metadata.inside..],
            END,
        ];
        let end: usize = parts.iter().map(|part| part.len()).sum();
        // Exactly as long as it is: then the bytes are shared without a second
        // allocation.
        let mut frame = Vec::with_capacity(end + labels.len() + fields.len());
        for part in parts.into_iter().chain([labels, fields]) {
            frame.extend_from_slice(part);
        }
        let place = |at: usize| u32::try_from(at).map_err(|_| DecodeError::TooLarge(end));
        Ok(Self {
            key: key.into(),
            revision,
            name_at: place(key.rfind('/').map_or(0, |slash| slash + 1))?,
            json_at: place(head.len())?,
            body_at: place(head.len() + metadata.key)?,
            end: place(end)?,
            fields_at: place(end + labels.len())?,
            frame: frame.into(),
            protobuf_length: AtomicU32::new(0),
            change,
        })
    }

    /// Returns the object at another revision: watchers get the last state of a deleted
    /// object with the revision of its deletion.
    #[must_use]
    pub fn at_revision(&self, revision: Revision, change: Change) -> Self {
        // Our own bytes: the resource version stands first in the metadata and
        // is followed by a comma, or by the end of the metadata.
        let json = self.json();
        let inside = (self.body_at - self.json_at) as usize + METADATA.len();
        let rest = json.get(inside..).unwrap_or_default();
        let skip = rest
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'"')
            .nth(3)
            .map_or(0, |(at, _)| at + 1);
        let skip = if rest.get(skip) == Some(&b',') {
            skip + 1
        } else {
            skip
        };
        let mut stored = Vec::with_capacity(json.len());
        stored.extend_from_slice(&json[..inside]);
        stored.extend_from_slice(&rest[skip..]);
        Self::assemble(
            &self.key,
            &stored,
            [self.labels(), self.fields()],
            revision,
            change,
        )
        .unwrap_or_else(|_| Self {
            key: self.key.clone(),
            frame: self.frame.clone(),
            protobuf_length: AtomicU32::new(0),
            ..*self
        })
    }

    #[inline]
    fn labels(&self) -> &[u8] {
        &self.frame[self.end as usize..self.fields_at as usize]
    }

    #[inline]
    fn fields(&self) -> &[u8] {
        &self.frame[self.fields_at as usize..]
    }

    /// Where the object stands in the bytes.
    #[inline]
    fn place(&self) -> Range<usize> {
        self.json_at as usize..self.end as usize - END.len()
    }

    /// Returns the object's name.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &str {
        &self.key[self.name_at as usize..]
    }

    /// Returns the object's namespace; empty for cluster-scoped objects.
    #[must_use]
    #[inline]
    pub fn namespace(&self) -> &str {
        &self.key[..(self.name_at as usize).saturating_sub(1)]
    }

    /// Returns the revision of the last change.
    #[must_use]
    #[inline]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the value of a label.
    #[must_use]
    #[inline]
    pub fn label(&self, key: &str) -> Option<&str> {
        facts::find(self.labels(), key)
    }

    /// Returns the value of a selectable field; `None` if the kind has no such field.
    #[must_use]
    #[inline]
    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(self.name()),
            "metadata.namespace" => Some(self.namespace()),
            _ => facts::find(self.fields(), name),
        }
    }

    /// Returns the object as JSON.
    #[must_use]
    #[inline]
    pub fn json(&self) -> &[u8] {
        &self.frame[self.place()]
    }

    /// Returns the version in which the object is cached, as `group/version`.
    #[must_use]
    #[inline]
    pub fn api_version(&self) -> &str {
        const MEMBER: &str = "\"apiVersion\":\"";
        // What an object is stands before all else of it.
        let head = &self.json()[..(self.body_at - self.json_at) as usize];
        let head = std::str::from_utf8(head).unwrap_or_default();
        let found = head.split_once(MEMBER).map_or("", |(_, rest)| rest);
        found.split('"').next().unwrap_or_default()
    }

    /// Returns the object as JSON, sharing the cache's memory.
    #[must_use]
    #[inline]
    pub fn json_bytes(&self) -> Bytes {
        self.frame.slice(self.place())
    }

    /// Returns how many bytes the stored form of the object takes as an item of a list in
    /// protobuf. It is measured once.
    ///
    /// # Errors
    /// When the JSON does not fit the type.
    pub fn protobuf_item_length(
        &self,
        schema: TypeId,
        scratch: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        match self.protobuf_length.load(Ordering::Relaxed) {
            0 => {
                scratch.clear();
                push_item(self.json(), schema, scratch)?;
                if let Ok(short) = u32::try_from(scratch.len()) {
                    self.protobuf_length.store(short, Ordering::Relaxed);
                }
                Ok(scratch.len())
            }
            known => Ok(known as usize),
        }
    }

    /// Returns the members from `"metadata"` on, with the closing brace: an item of a list has
    /// neither kind nor version and is `{` followed by this.
    #[must_use]
    #[inline]
    pub fn item(&self) -> &[u8] {
        &self.frame[self.body_at as usize..self.place().end]
    }

    /// Parses the object.
    ///
    /// # Errors
    /// Never, unless memory was corrupted: the bytes were parsed before.
    pub fn value(&self) -> Result<Value, DecodeError> {
        Value::from_slice(self.json()).map_err(DecodeError::Json)
    }

    /// Parses part of the object.
    ///
    /// # Errors
    /// As [`CacheEntry::value`].
    pub fn pick(&self, pick: &Pick) -> Result<Value, DecodeError> {
        Value::pick(self.json(), pick).map_err(DecodeError::Json)
    }

    /// Returns the frame of a watch event about this object. It shares the cache's memory if
    /// the change is the object's own last one.
    #[must_use]
    #[inline]
    pub fn frame(&self, change: Change) -> Bytes {
        if change == self.change {
            self.frame.slice(..self.end as usize)
        } else {
            frame(change, self.json())
        }
    }
}

/// Returns the watch frame of an object.
#[must_use]
pub fn frame(change: Change, object: &[u8]) -> Bytes {
    let head = change.head();
    let mut frame = Vec::with_capacity(head.len() + object.len() + END.len());
    frame.extend_from_slice(head);
    frame.extend_from_slice(object);
    frame.extend_from_slice(END);
    frame.into()
}

impl Change {
    /// Returns the name of the change in a watch event.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    fn head(self) -> &'static [u8] {
        match self {
            Self::Added => ADDED,
            Self::Modified => MODIFIED,
            Self::Deleted => DELETED,
        }
    }
}

const METADATA: &[u8] = br#""metadata":{"#;
const VERSION: &[u8] = br#""resourceVersion":""#;

struct MetadataAt {
    /// Where the member `"metadata"` begins.
    key: usize,
    /// Where its members begin.
    inside: usize,
}

/// Finds the metadata of bytes that [`encode`] wrote; `None` for other bytes.
fn metadata_at(stored: &[u8]) -> Option<MetadataAt> {
    let after_kind = skip_string_member(stored, 1, b"\"kind\":\"")?;
    let key = skip_string_member(stored, after_kind, b"\"apiVersion\":\"")?;
    stored
        .get(key..)?
        .starts_with(METADATA)
        .then_some(MetadataAt {
            key,
            inside: key + METADATA.len(),
        })
}

/// The place after `"name":"value",` at `at`. Kinds and versions hold no
/// escapes; a value that does is not ours.
fn skip_string_member(bytes: &[u8], at: usize, opening: &[u8]) -> Option<usize> {
    let rest = bytes.get(at..)?.strip_prefix(opening)?;
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    (rest.get(end..end + 2)? == b"\",").then_some(at + opening.len() + end + 2)
}

/// Encodes an object as it is stored: kind, version and metadata first, and no resource
/// version, which only the store knows.
#[must_use]
pub fn encode(object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let Some(members) = object.as_object() else {
        return object.to_vec();
    };
    let write = |out: &mut Vec<u8>, name: &str| match members.get(name) {
        Some(value) => value.write(out),
        None => out.extend_from_slice(b"null"),
    };
    out.extend_from_slice(b"{\"kind\":");
    write(&mut out, "kind");
    out.extend_from_slice(b",\"apiVersion\":");
    write(&mut out, "apiVersion");
    out.extend_from_slice(b",\"metadata\":{");
    let mut member = |name: &Key, value: &Value| {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        Value::write_string(name, &mut out);
        out.push(b':');
        value.write(&mut out);
    };
    let metadata = members.get("metadata").and_then(Value::as_object);
    for (name, value) in metadata.into_iter().flat_map(Map::iter) {
        if name != "resourceVersion" {
            member(name, value);
        }
    }
    out.push(b'}');
    for (name, value) in members.iter() {
        if matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
            continue;
        }
        out.push(b',');
        Value::write_string(name, &mut out);
        out.push(b':');
        value.write(&mut out);
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn cached(object: Value) -> CacheEntry {
        CacheEntry::new(
            "a/web",
            &encode(&object),
            7,
            Change::Added,
            &control_kinds::find_kind("", "Pod").into(),
        )
        .expect("a valid object")
    }

    #[test]
    fn resource_version_is_put_into_the_bytes() {
        let object = cached(
            value!({"apiVersion": "v1", "metadata": {"name": "web", "resourceVersion": "3"}, "kind": "Pod", "spec": {}}),
        );
        let json = String::from_utf8(object.json().to_vec()).expect("utf-8");
        assert_eq!(
            json,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","name":"web"},"spec":{}}"#
        );
        assert_eq!(
            object.item(),
            br#""metadata":{"resourceVersion":"7","name":"web"},"spec":{}}"#
        );
        assert_eq!(
            &object.frame(Change::Added)[..],
            format!("{{\"type\":\"ADDED\",\"object\":{json}}}\n").as_bytes()
        );
        assert_eq!(
            &object.frame(Change::Deleted)[..],
            format!("{{\"type\":\"DELETED\",\"object\":{json}}}\n").as_bytes()
        );
    }

    #[test]
    fn last_state_can_be_told_at_another_revision() {
        for metadata in [value!({"name": "web", "labels": {"a": "b"}}), value!({})] {
            let object =
                cached(value!({"kind": "Pod", "apiVersion": "v1", "metadata": (metadata.clone())}));
            let later = object
                .at_revision(12, Change::Deleted)
                .value()
                .expect("valid");
            let mut expected = metadata;
            expected.insert("resourceVersion", "12");
            assert_eq!(later.get("metadata"), Some(&expected));
        }
    }

    #[test]
    fn foreign_order_of_members_is_brought_into_ours() {
        let object = CacheEntry::new(
            "web",
            br#"{"spec":{},"metadata":{"name":"web"},"apiVersion":"v1","kind":"Node"}"#,
            9,
            Change::Added,
            &control_kinds::find_kind("", "Node").into(),
        );
        let json = object.expect("valid").json_bytes();
        assert_eq!(&json[..], br#"{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"9","name":"web"},"spec":{}}"#);
    }

    #[test]
    fn bytes_that_are_no_object_are_refused() {
        for bytes in [&b"{"[..], b"[]", b"{}", b"\xff"] {
            let made = CacheEntry::new(
                "web",
                bytes,
                9,
                Change::Added,
                &control_kinds::find_kind("", "Node").into(),
            );
            assert!(
                made.is_err() || made.is_ok_and(|object| object.value().is_ok()),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn labels_and_name_are_found() {
        let object = cached(
            value!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "labels": {"z": "1", "a": "2"}}}),
        );
        assert_eq!(
            (
                object.namespace(),
                object.name(),
                object.label("z"),
                object.label("b")
            ),
            ("a", "web", Some("1"), None)
        );
        assert_eq!(object.field("metadata.name"), Some("web"));
    }
}
