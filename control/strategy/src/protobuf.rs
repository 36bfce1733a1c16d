//! Answers in protobuf, made from the JSON that is cached or was just written.

use bytes::Bytes;
use control_types::meta;
use control_types::protobuf::{self, EncodeError, TAIL, field_length, push_bytes};
use control_types::registry;
use control_types::schema::TypeId;
use control_types::status::Status;
use control_types::value::Value;

/// The tag of the items of every list: field 2, a message.
const ITEMS: u8 = 0x12;

/// An object that says its kind and version, in its envelope.
///
/// # Errors
/// 500 for kinds that have no type here.
pub fn object(json: &[u8]) -> Result<Vec<u8>, Status> {
    match head(json) {
        Some((kind, version)) => envelope(json, version, kind),
        None => {
            let object = Value::from_slice(json).map_err(Status::internal)?;
            envelope(json, meta::api_version(&object), meta::kind(&object))
        }
    }
}

/// A tree in its envelope.
///
/// # Errors
/// As [`object`].
pub fn tree(object: &Value) -> Result<Vec<u8>, Status> {
    envelope(
        &object.to_vec(),
        meta::api_version(object),
        meta::kind(object),
    )
}

fn envelope(json: &[u8], version: &str, kind: &str) -> Result<Vec<u8>, Status> {
    let schema = schema(version, kind)?;
    let mut out = Vec::with_capacity(json.len());
    protobuf::envelope(json, said(kind, version), kind, schema, &mut out)
        .map_err(Status::internal)?;
    Ok(out)
}

fn schema(version: &str, kind: &str) -> Result<TypeId, Status> {
    // Discovery of the core group says no version.
    let (group, short) = match version {
        "" => ("", "v1"),
        version => meta::split_api_version(version),
    };
    registry::schema_of(group, short, kind)
        .ok_or_else(|| Status::internal(format!("{version} {kind} has no form in protobuf")))
}

/// Kind and version of JSON that begins with them, in either order.
pub fn head(json: &[u8]) -> Option<(&str, &str)> {
    let (mut kind, mut version) = (None, None);
    let mut rest = json.strip_prefix(b"{")?;
    while kind.is_none() || version.is_none() {
        let (slot, after) = match rest.strip_prefix(b"\"kind\":\"") {
            Some(after) => (&mut kind, after),
            None => (&mut version, rest.strip_prefix(b"\"apiVersion\":\"")?),
        };
        let end = after.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        *slot = Some(std::str::from_utf8(&after[..end]).ok()?);
        rest = after.get(end..)?.strip_prefix(b"\"")?;
        rest = rest.strip_prefix(b",").unwrap_or(rest);
    }
    Some((kind?, version?))
}

/// The version that the envelope of an answer says: of two answers of discovery it
/// says none, as stock has it.
fn said<'a>(kind: &str, version: &'a str) -> &'a str {
    match kind {
        "APIResourceList" | "APIVersions" => "",
        _ => version,
    }
}

/// A frame of a watch: the length in four bytes, then a `WatchEvent` that holds the
/// object in its envelope.
///
/// # Errors
/// As [`object`].
pub fn frame(event: &str, json: &[u8]) -> Result<Bytes, Status> {
    let object = object(json)?;
    let raw = field_length(object.len());
    let length = field_length(event.len()) + field_length(raw);
    let mut out = Vec::with_capacity(4 + length);
    let short = u32::try_from(length).map_err(Status::internal)?;
    out.extend_from_slice(&short.to_be_bytes());
    push_bytes(0x0a, event.as_bytes(), &mut out);
    // The object is in a message of its own, a `RawExtension`.
    out.push(0x12);
    protobuf::push_varint(&mut out, raw as u64);
    push_bytes(0x0a, &object, &mut out);
    Ok(out.into())
}

/// What stands before the items of a list: its envelope and metadata. `items` is
/// how many bytes they take.
///
/// # Errors
/// When the metadata do not fit their type, which they do.
pub fn list_head(
    version: &str,
    kind: &str,
    metadata: &Value,
    items: usize,
) -> Result<Vec<u8>, Status> {
    let schema = schema("meta.k8s.io/v1", "ListMeta")?;
    let mut message = Vec::new();
    protobuf::message(&metadata.to_vec(), schema, &mut message).map_err(Status::internal)?;
    let mut out = Vec::with_capacity(message.len() + 128);
    let length = field_length(message.len()) + items;
    protobuf::push_envelope_head(version, kind, length, &mut out);
    push_bytes(0x0a, &message, &mut out);
    Ok(out)
}

/// What stands behind the items of a list.
pub const LIST_END: &[u8] = TAIL;

/// Appends an item of a list.
///
/// # Errors
/// When the JSON does not fit the type.
pub fn push_item(json: &[u8], schema: TypeId, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    out.push(ITEMS);
    protobuf::sized_message(json, schema, out)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn kind_and_version_are_found_in_either_order() {
        for json in [
            &br#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#[..],
            br#"{"apiVersion":"v1","kind":"Pod"}"#,
        ] {
            assert_eq!(head(json), Some(("Pod", "v1")));
        }
        for json in [
            &b"{}"[..],
            b"",
            br#"{"kind":"Po\u0064"}"#,
            br#"{"kind":"Pod"}"#,
        ] {
            assert_eq!(head(json), None);
        }
    }

    #[test]
    fn a_frame_is_a_length_and_an_event_around_the_enveloped_object() {
        let pod = value!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}});
        let frame = frame("ADDED", &pod.to_vec()).expect("a frame");
        let length = u32::from_be_bytes(frame[..4].try_into().expect("four bytes"));
        assert_eq!(length as usize, frame.len() - 4);
        assert_eq!(&frame[4..11], b"\x0a\x05ADDED");
        let object = tree(&pod).expect("an object");
        assert!(frame.ends_with(&object));
        let read = protobuf::decode(&object).expect("reads back");
        assert_eq!(read.str_at(&["metadata", "name"]), Some("web"));
    }

    #[test]
    fn a_list_reads_back_with_its_items() {
        let schema = registry::schema_of("", "v1", "Node").expect("known");
        let mut items = Vec::new();
        for name in ["a", "b"] {
            let node = value!({"metadata": {"name": name}});
            push_item(&node.to_vec(), schema, &mut items).expect("fits");
        }
        let metadata = value!({"resourceVersion": "7", "continue": "x"});
        let mut list = list_head("v1", "NodeList", &metadata, items.len()).expect("a head");
        list.extend_from_slice(&items);
        list.extend_from_slice(LIST_END);
        let read = protobuf::decode(&list).expect("reads back");
        assert_eq!(read.str_at(&["metadata", "continue"]), Some("x"));
        assert_eq!(read.str_at(&["items", "1", "metadata", "name"]), Some("b"));
    }
}
