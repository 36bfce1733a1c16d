//! The form in which objects are kept: built-in kinds in protobuf, in the envelope
//! and the version in which kube-apiserver keeps them; definitions of custom
//! resources and API services in JSON, as it does.
//!
//! Whatever a store holds can be read: JSON of built-in kinds, which this server
//! wrote once, and older versions. At the next write they get the present form.

use bytes::Bytes;
use control_types::protobuf::{self, Envelope, MAGIC};
use control_types::registry::{self, Resource};
use control_types::value::Value;
use control_types::{coerce, meta};

use super::definitions;
use control_strategy::convert;

/// Error for stored bytes that are no object of the API.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes cannot be decrypted.
    #[error("stored object cannot be decrypted")]
    Sealed(#[source] control_encryption::Error),
    /// The bytes are neither JSON nor protobuf.
    #[error("stored object is not JSON")]
    Json(#[source] control_types::value::Error),
    /// The protobuf is no object.
    #[error("stored object is no protobuf that can be read")]
    Protobuf(#[source] protobuf::Error),
    /// The object does not fit its type.
    #[error("stored object does not fit its type")]
    Type(#[source] coerce::Error),
    /// The kind is unknown.
    #[error("stored object is of unknown kind {kind} in {version}")]
    Kind {
        /// Its `apiVersion`.
        version: String,
        /// Its kind.
        kind: String,
    },
}

/// Whether objects of a resource are stored in protobuf.
#[must_use]
pub fn is_protobuf(resource: &Resource) -> bool {
    !resource.is_custom()
        && !matches!(
            resource.storage.group,
            "apiextensions.k8s.io" | "apiregistration.k8s.io"
        )
}

/// The bytes to keep for an object's JSON, which is in the version in which this
/// server holds it (see [`Resource::storage`]) and says its kind.
///
/// # Errors
/// When the JSON does not fit its type: nothing is stored then that could not be read.
pub fn encode(resource: &'static Resource, json: &[u8]) -> Result<Vec<u8>, protobuf::EncodeError> {
    if !is_protobuf(resource) {
        let mut out = match Value::from_slice(json) {
            Ok(mut definition) if resource.kind == definitions::KIND => {
                definitions::to_storage(&mut definition);
                definition.to_vec()
            }
            _ => json.to_vec(),
        };
        out.push(b'\n');
        return Ok(out);
    }
    let mut out = Vec::with_capacity(json.len());
    let version = meta::join_api_version(resource.storage.group, resource.storage.version);
    let schema = held_as(resource).schema;
    protobuf::envelope(json, &version, resource.kind, schema, &mut out)?;
    Ok(out)
}

/// The JSON of what was kept, in the version in which this server holds it.
///
/// # Errors
/// When it is no object.
pub fn decode(stored: &Bytes) -> Result<Bytes, Error> {
    if stored.starts_with(MAGIC) {
        let envelope = Envelope::open(stored).map_err(Error::Protobuf)?;
        return of_protobuf(envelope).map(Bytes::from);
    }
    of_json(stored)
}

fn of_protobuf(envelope: Envelope<'_>) -> Result<Vec<u8>, Error> {
    let Envelope { version, kind, raw } = envelope;
    let (resource, known) = resource(version, kind)?;
    let held = held_as(resource);
    let mut out = Vec::with_capacity(raw.len() * 2);
    let present = held.api_version();
    if !known || std::ptr::eq(held, resource) {
        // Versions that are no longer known had the present one's fields.
        protobuf::to_json(raw, held.schema, &present, kind, &mut out).map_err(Error::Protobuf)?;
        return Ok(out);
    }
    protobuf::to_json(raw, resource.schema, version, kind, &mut out).map_err(Error::Protobuf)?;
    let object = Value::from_slice(&out).map_err(Error::Json)?;
    Ok(converted(object, resource).to_vec())
}

/// JSON is answered as it is unless it is of another version, which its beginning
/// tells where we or Kubernetes wrote it.
fn of_json(stored: &Bytes) -> Result<Bytes, Error> {
    let mut object = None;
    let head = match control_strategy::protobuf::head(stored) {
        Some((kind, version)) => (kind.to_owned(), version.to_owned()),
        None => {
            let tree = object.insert(Value::from_slice(stored).map_err(Error::Json)?);
            (
                meta::kind(tree).to_owned(),
                meta::api_version(tree).to_owned(),
            )
        }
    };
    let (kind, version) = head;
    let (resource, known) = match resource(&version, &kind) {
        Ok(found) => found,
        // A custom resource, whose definition knows its form.
        Err(_) if version.contains('.') && version.contains('/') && !kind.is_empty() => {
            let end = stored.iter().rposition(|byte| *byte == b'}');
            return Ok(stored.slice(..end.map_or(0, |end| end + 1)));
        }
        Err(error) => return Err(error),
    };
    let held = held_as(resource);
    if known && std::ptr::eq(held, resource) {
        let end = stored.iter().rposition(|byte| *byte == b'}');
        return Ok(stored.slice(..end.map_or(0, |end| end + 1)));
    }
    let mut object = match object {
        Some(object) => object,
        None => Value::from_slice(stored).map_err(Error::Json)?,
    };
    if kind == definitions::KIND {
        definitions::from_storage(&mut object);
    }
    if known {
        object = converted(object, resource);
    } else {
        meta::set_type(&mut object, &held.api_version(), &kind);
    }
    coerce::coerce(&mut object, held.schema).map_err(Error::Type)?;
    coerce::complete(&mut object, held.schema);
    Ok(object.to_vec().into())
}

fn converted(mut object: Value, from: &Resource) -> Value {
    convert::to_stored(&mut object, from);
    object
}

/// The resource of a kind, and whether the version is known, too; where it is not, the
/// resource in another version.
fn resource(version: &str, kind: &str) -> Result<(&'static Resource, bool), Error> {
    let (group, short) = meta::split_api_version(version);
    if let Some(resource) = registry::lookup_kind(group, short, kind) {
        return Ok((resource, true));
    }
    registry::resources()
        .iter()
        .find(|one| one.kind == kind && one.group == group)
        .map(|resource| (resource, false))
        .ok_or_else(|| Error::Kind {
            version: version.to_owned(),
            kind: kind.to_owned(),
        })
}

/// The resource in the version in which its objects are held.
fn held_as(resource: &'static Resource) -> &'static Resource {
    let storage = &resource.storage;
    if (storage.group, storage.version) == (resource.group, resource.version) {
        return resource;
    }
    registry::lookup(storage.group, storage.version, resource.plural).unwrap_or(resource)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn of(group: &str, version: &str, plural: &str) -> &'static Resource {
        registry::lookup(group, version, plural).expect("a known resource")
    }

    fn read(stored: Vec<u8>) -> Value {
        Value::from_slice(&decode(&stored.into()).expect("readable")).expect("JSON")
    }

    #[test]
    fn built_in_kinds_are_kept_in_protobuf_and_read_back() {
        let object = value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let stored = encode(of("", "v1", "configmaps"), &object.to_vec()).expect("fits");
        assert!(stored.starts_with(MAGIC));
        assert_eq!(read(stored), object);
    }

    #[test]
    fn definitions_and_services_of_the_api_are_kept_in_json() {
        let object = value!({"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1", "metadata": {"name": "v1."}, "spec": {"groupPriorityMinimum": 1, "versionPriority": 1}});
        let resource = of("apiregistration.k8s.io", "v1", "apiservices");
        let stored = encode(resource, &object.to_vec()).expect("fits");
        assert!(stored.starts_with(b"{\"kind\"") && stored.ends_with(b"}\n"));
        assert_eq!(read(stored), object);
    }

    #[test]
    fn json_and_older_versions_are_read() {
        let json = value!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}});
        assert_eq!(read(json.to_vec()), json);
        let older = value!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1beta1", "metadata": {"name": "a"}, "spec": {"minAvailable": 1, "gone": true}});
        let now = read(older.to_vec());
        assert_eq!(meta::api_version(&now), "policy/v1");
        assert_eq!(now.i64_at(&["spec", "minAvailable"]), Some(1));
        assert_eq!(now.path(&["spec", "gone"]), None);
        let mut wire = Vec::new();
        let schema = of("policy", "v1", "poddisruptionbudgets").schema;
        protobuf::envelope(
            &older.to_vec(),
            "policy/v1beta1",
            "PodDisruptionBudget",
            schema,
            &mut wire,
        )
        .expect("fits");
        assert_eq!(read(wire), now);
    }

    #[test]
    fn one_of_two_versions_is_read_as_the_one_that_is_held() {
        let schema = of("events.k8s.io", "v1", "events").schema;
        let event = value!({"metadata": {"name": "a"}, "note": "text", "reason": "R"});
        let mut wire = Vec::new();
        protobuf::envelope(
            &event.to_vec(),
            "events.k8s.io/v1",
            "Event",
            schema,
            &mut wire,
        )
        .expect("fits");
        let now = read(wire);
        assert_eq!(meta::api_version(&now), "v1");
        assert_eq!(now.str_at(&["message"]), Some("text"));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for stored in [&b""[..], b"k8s\0", b"k8s\0\x0a\xff", b"[", b"{}", b"null"] {
            assert!(decode(&Bytes::from_static(stored)).is_err(), "{stored:?}");
        }
    }
}
