//! Keys and values of objects in the store.

mod definitions;
mod form;

use std::sync::LazyLock;

use bytes::Bytes;
use control_encryption::Encryption;
use control_types::protobuf::EncodeError;
use control_types::registry::{self, Resource};
use rustc_hash::FxHashMap;

pub use form::{Error, is_protobuf};

/// The prefix of all keys.
pub const ROOT: &[u8] = b"/registry/";

/// Whether a stored value is unencrypted protobuf.
#[must_use]
pub fn is_in_protobuf(stored: &[u8]) -> bool {
    stored.starts_with(control_types::protobuf::MAGIC)
}

/// Returns the prefix of a resource's keys, as in kube-apiserver: the plural alone for built-in
/// groups, with a handful of older names.
#[must_use]
pub fn prefix(group: &str, plural: &str) -> String {
    match (group, plural) {
        ("", "nodes") => "/registry/minions/".into(),
        ("", "services") => "/registry/services/specs/".into(),
        ("", "endpoints") => "/registry/services/endpoints/".into(),
        ("", "replicationcontrollers") => "/registry/controllers/".into(),
        ("networking.k8s.io", "ingresses") => "/registry/ingress/".into(),
        ("apiregistration.k8s.io" | "apiextensions.k8s.io", _) => {
            format!("/registry/{group}/{plural}/")
        }
        ("" | "apps" | "batch" | "autoscaling" | "policy", _) => format!("/registry/{plural}/"),
        (built_in, _) if built_in.ends_with(".k8s.io") => format!("/registry/{plural}/"),
        _ => format!("/registry/{group}/{plural}/"),
    }
}

/// Returns the prefix of a built-in resource. Versions of a resource share it, and so do the
/// two groups of events.
#[must_use]
pub fn prefix_of(resource: &Resource) -> String {
    prefix(resource.storage.group, resource.plural)
}

/// Encodes and encrypts objects for the store.
#[derive(Clone, Debug, Default)]
pub struct Transform {
    encryption: Encryption,
}

impl Transform {
    /// Creates a transform that encrypts as configured.
    #[must_use]
    pub fn new(encryption: Encryption) -> Self {
        Self { encryption }
    }

    /// Returns the bytes to store under `key` for an object's JSON.
    ///
    /// # Errors
    /// When the JSON does not fit its type, or it cannot be encrypted.
    pub fn seal(
        &self,
        key: &[u8],
        resource: &'static Resource,
        json: &[u8],
    ) -> Result<Bytes, SealError> {
        let value = form::encode(resource, json).map_err(SealError::Form)?;
        let of = (resource.storage.group, resource.plural);
        let sealed = self.encryption.seal(of, key, &value);
        Ok(sealed.map_err(SealError::Key)?.unwrap_or(value).into())
    }

    /// Returns the JSON of the bytes stored under `key`.
    ///
    /// # Errors
    /// When it cannot be decrypted, or is no object.
    pub fn open(&self, key: &[u8], stored: &Bytes) -> Result<Bytes, Error> {
        if !stored.starts_with(control_encryption::ANY_PREFIX) {
            return form::decode(stored);
        }
        let (group, plural) = resource_of(key);
        let opened = self.encryption.open((group, plural), key, stored);
        match opened.map_err(Error::Sealed)? {
            Some(value) => form::decode(&value.into()),
            None => form::decode(stored),
        }
    }

    /// Whether the encryption configuration covers a resource.
    #[must_use]
    pub fn covers(&self, resource: &Resource) -> bool {
        let table = self.encryption.now();
        table.covers(resource.storage.group, resource.plural)
    }

    /// Whether stored bytes would be encrypted differently now. Bytes that cannot be decrypted
    /// count as current.
    #[must_use]
    pub fn is_stale(&self, key: &[u8], stored: &[u8]) -> bool {
        let (group, plural) = resource_of(key);
        let opened = self.encryption.now().open(group, plural, key, stored);
        opened.is_ok_and(|opened| opened.stale)
    }
}

/// Returns group and plural of the resource that a key belongs to.
pub(crate) fn resource_of(key: &[u8]) -> (&str, &str) {
    static KNOWN: LazyLock<FxHashMap<String, (&str, &str)>> = LazyLock::new(|| {
        registry::resources()
            .iter()
            .map(|one| (prefix_of(one), (one.storage.group, one.plural)))
            .collect()
    });
    let text = std::str::from_utf8(key).unwrap_or_default();
    let mut slashes = text.match_indices('/').map(|(at, _)| at + 1).skip(2);
    let (short, long) = (slashes.next().unwrap_or(0), slashes.next().unwrap_or(0));
    for end in [long, short] {
        if let Some(known) = text.get(..end).and_then(|prefix| KNOWN.get(prefix)) {
            return *known;
        }
    }
    // Custom resources: `/registry/<group>/<plural>/`.
    let mut parts = text.split('/').skip(2);
    (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    )
}

/// Error for an object that cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The object does not fit its type.
    #[error("object does not fit its type")]
    Form(#[source] EncodeError),
    /// The object cannot be encrypted.
    #[error("object cannot be encrypted")]
    Key(#[source] control_encryption::Error),
}

#[cfg(test)]
mod tests {
    use control_types::registry;

    use super::*;

    #[test]
    fn secrets_are_sealed_and_other_kinds_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let encryption = Encryption::own(&dir.path().join("key")).expect("a key");
        let transform = Transform::new(encryption);
        let resource = |plural| registry::lookup("", "v1", plural).expect("known");
        let json =
            br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"b"},"type":"password"}"#;
        let name = b"/registry/secrets/a/b";
        let stored = transform
            .seal(name, resource("secrets"), json)
            .expect("sealed");
        assert!(!stored.windows(8).any(|window| window == b"password"));
        assert_eq!(&transform.open(name, &stored).expect("opened")[..], json);
        assert!(transform.open(b"/registry/secrets/a/c", &stored).is_err());
        let plain = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"password"}}"#;
        let stored = transform
            .seal(b"/registry/configmaps/a/b", resource("configmaps"), plain)
            .expect("not sealed");
        assert!(stored.windows(8).any(|window| window == b"password"));
    }

    #[test]
    fn a_key_tells_its_resource() {
        for resource in registry::resources() {
            let key = format!("{}a/b", prefix_of(resource));
            let (group, plural) = resource_of(key.as_bytes());
            assert_eq!(prefix(group, plural), prefix_of(resource));
        }
        assert_eq!(
            resource_of(b"/registry/example.com/things/a/b"),
            ("example.com", "things")
        );
        assert_eq!(resource_of(b"/registry/"), ("", ""));
    }

    #[test]
    fn keys_are_laid_out_as_kube_apiserver_does() {
        assert_eq!(prefix("", "pods"), "/registry/pods/");
        assert_eq!(prefix("", "nodes"), "/registry/minions/");
        assert_eq!(prefix("apps", "deployments"), "/registry/deployments/");
        assert_eq!(
            prefix("discovery.k8s.io", "endpointslices"),
            "/registry/endpointslices/"
        );
        assert_eq!(
            prefix("example.com", "things"),
            "/registry/example.com/things/"
        );
    }
}
