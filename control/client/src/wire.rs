//! Lists and watches on the wire: an object goes from bytes to its view in one pass.

use std::fmt;
use std::marker::PhantomData;

use compact_str::CompactString;
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::Status;
use crate::meta::StringMap;

/// One page of a list.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub struct Page<T> {
    #[serde(default)]
    pub metadata: PageMeta,
    #[serde(default, deserialize_with = "null_as_empty")]
    pub items: Vec<T>,
}

/// `metav1.ListMeta`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PageMeta {
    pub resource_version: CompactString,
    #[serde(rename = "continue")]
    pub continue_token: String,
}

fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// One line of a watch.
#[derive(Debug)]
pub enum Frame<V> {
    /// Added or modified: to a cache it is the same.
    Applied(V),
    /// Gone; the object as it was last, with the revision of the deletion.
    Deleted(V),
    /// A bookmark: no change up to this revision.
    Bookmark(Bookmark),
    /// The watch ends for this reason.
    Error(Status),
    /// A type that this version does not know: skipped.
    Unknown,
}

/// The object of a bookmark.
#[derive(Debug, Default, Deserialize)]
pub struct Bookmark {
    #[serde(default)]
    metadata: BookmarkMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BookmarkMeta {
    resource_version: CompactString,
    annotations: StringMap,
}

impl Bookmark {
    pub fn resource_version(&self) -> &CompactString {
        &self.metadata.resource_version
    }

    /// Whether all that existed when the watch began has been sent (KEP-3157).
    pub fn ends_initial_events(&self) -> bool {
        self.metadata.annotations.get("k8s.io/initial-events-end") == Some("true")
    }
}

// === impl Frame ===

impl<V: DeserializeOwned> Frame<V> {
    pub fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }
}

impl<'de, V: DeserializeOwned> Deserialize<'de> for Frame<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FrameVisitor(PhantomData))
    }
}

struct FrameVisitor<V>(PhantomData<V>);

impl<'de, V: DeserializeOwned> Visitor<'de> for FrameVisitor<V> {
    type Value = Frame<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a watch event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Frame<V>, A::Error> {
        use serde::de::Error;

        let mut kind: Option<CompactString> = None;
        let mut early: Option<Box<RawValue>> = None;
        let mut frame = None;
        while let Some(key) = map.next_key::<CompactString>()? {
            match (key.as_str(), &kind) {
                ("type", _) => kind = Some(map.next_value()?),
                // every server writes the type first; JSON does not promise it
                ("object", None) => early = Some(map.next_value()?),
                ("object", Some(kind)) => {
                    frame = Some(map.next_value_seed(ObjectOf(kind, PhantomData))?);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let kind = kind.ok_or_else(|| A::Error::missing_field("type"))?;
        match (frame, early) {
            (Some(frame), _) => Ok(frame),
            (None, Some(raw)) => ObjectOf(&kind, PhantomData)
                // As the rest: text as a source of its own would compile each view twice.
                .deserialize(&mut serde_json::Deserializer::from_slice(
                    raw.get().as_bytes(),
                ))
                .map_err(A::Error::custom),
            (None, None) => Err(A::Error::missing_field("object")),
        }
    }
}

/// Reads the object of an event of this type.
struct ObjectOf<'a, V>(&'a str, PhantomData<V>);

impl<'de, V: DeserializeOwned> DeserializeSeed<'de> for ObjectOf<'_, V> {
    type Value = Frame<V>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Frame<V>, D::Error> {
        Ok(match self.0 {
            "ADDED" | "MODIFIED" => Frame::Applied(V::deserialize(deserializer)?),
            "DELETED" => Frame::Deleted(V::deserialize(deserializer)?),
            "BOOKMARK" => Frame::Bookmark(Bookmark::deserialize(deserializer)?),
            "ERROR" => Frame::Error(Status::deserialize(deserializer)?),
            _ => {
                IgnoredAny::deserialize(deserializer)?;
                Frame::Unknown
            }
        })
    }
}

/// Cuts a stream of bytes into lines. Lines within one chunk are not copied.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
}

/// A line longer than this is no object of an API server (etcd's limit for a
/// whole object is 1.5 MiB by default).
const LONGEST_LINE: usize = 32 << 20;

/// A line grew beyond all measure.
#[derive(Debug)]
pub struct LineTooLong;

impl Lines {
    /// Calls `each` with every line that `chunk` completes.
    pub fn feed(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), LineTooLong> {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            let (head, tail) = chunk.split_at(end);
            chunk = tail.get(1..).unwrap_or_default();
            if self.partial.is_empty() {
                emit(head, &mut each);
            } else {
                self.partial.extend_from_slice(head);
                emit(&self.partial, &mut each);
                self.partial.clear();
            }
        }
        if self.partial.len() + chunk.len() > LONGEST_LINE {
            return Err(LineTooLong);
        }
        self.partial.extend_from_slice(chunk);
        // one huge object must not be paid for until the watch ends
        if self.partial.is_empty() && self.partial.capacity() > 64 << 10 {
            self.partial = Vec::new();
        }
        Ok(())
    }
}

fn emit(line: &[u8], each: &mut impl FnMut(&[u8])) {
    let line = line.trim_ascii();
    if !line.is_empty() {
        each(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Metadata;

    #[test]
    fn a_watch_event_is_read_whatever_the_order_of_its_fields() {
        let frames = [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
            r#"{"object":{"metadata":{"name":"a"}},"type":"MODIFIED","more":[1]}"#,
        ];
        for frame in frames {
            match Frame::<Metadata>::parse(frame.as_bytes()).unwrap() {
                Frame::Applied(object) => assert_eq!(object.metadata.name, "a"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn bookmarks_errors_and_unknown_types_are_told_apart() {
        let end = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7",
            "annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let Frame::Bookmark(bookmark) = Frame::<Metadata>::parse(end.as_bytes()).unwrap() else {
            panic!("no bookmark");
        };
        assert!(bookmark.ends_initial_events());
        assert_eq!(bookmark.resource_version(), "7");

        let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
        let Frame::Error(status) = Frame::<Metadata>::parse(gone.as_bytes()).unwrap() else {
            panic!("no error");
        };
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));

        assert!(matches!(
            Frame::<Metadata>::parse(br#"{"type":"NEWS","object":{}}"#),
            Ok(Frame::Unknown)
        ));
        assert!(Frame::<Metadata>::parse(br#"{"object":{}}"#).is_err());
        assert!(Frame::<Metadata>::parse(br#"{"type":"ADDED"}"#).is_err());
        assert!(Frame::<Metadata>::parse(b"garbage").is_err());
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_are_cut() {
        let text = b"one\ntwo\r\n\nthree\n";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            let (head, tail) = text.split_at(cut);
            for chunk in [head, tail] {
                lines.feed(chunk, |line| seen.push(line.to_vec())).unwrap();
            }
            assert_eq!(seen, [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
        }
    }
}
