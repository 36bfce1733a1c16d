//! Where objects live in the store, and how their bytes are kept there.

mod definitions;
mod form;

use std::sync::Arc;

use bytes::Bytes;
use control_pki::SealingKey;
use control_types::protobuf::EncodeError;
use control_types::registry::Resource;

pub use form::{Error, is_protobuf};

/// What all keys begin with.
pub const ROOT: &[u8] = b"/registry/";

/// Whether a stored value is plain protobuf, of which opening it prints JSON.
#[must_use]
pub fn is_in_protobuf(stored: &[u8]) -> bool {
    stored.starts_with(control_types::protobuf::MAGIC)
}

/// What the keys of a resource begin with, laid out as kube-apiserver does:
/// the plural alone for built-in groups, with a handful of older names.
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

/// The prefix of a built-in resource; versions of one resource share it, and so
/// do the two groups of events.
#[must_use]
pub fn prefix_of(resource: &Resource) -> String {
    prefix(resource.storage.group, resource.plural)
}

/// Encryption of some values at rest: those of Secrets.
#[derive(Clone, Debug, Default)]
pub struct Transform {
    key: Option<Arc<SealingKey>>,
}

impl Transform {
    /// Encrypts Secrets with this key; without one all is stored plainly.
    #[must_use]
    pub fn new(key: Option<Arc<SealingKey>>) -> Self {
        Self { key }
    }

    /// The bytes to store under `key` for an object's JSON.
    ///
    /// # Errors
    /// When the JSON does not fit its type, or the system has no random numbers.
    pub fn seal(
        &self,
        key: &[u8],
        resource: &'static Resource,
        json: &[u8],
    ) -> Result<Bytes, SealError> {
        let value = form::encode(resource, json).map_err(SealError::Form)?;
        match &self.key {
            Some(sealing) if key.starts_with(b"/registry/secrets/") => sealing
                .seal(key, &value)
                .map(Bytes::from)
                .map_err(SealError::Key),
            _ => Ok(value.into()),
        }
    }

    /// The JSON of what is stored under `key`.
    ///
    /// # Errors
    /// When it cannot be decrypted, or is no object.
    pub fn open(&self, key: &[u8], stored: &Bytes) -> Result<Bytes, Error> {
        match &self.key {
            Some(sealing) if stored.starts_with(b"k8s:enc:") => {
                let opened = sealing.open(key, stored).map_err(Error::Sealed)?;
                form::decode(&opened.into())
            }
            _ => form::decode(stored),
        }
    }
}

/// Why an object cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// It does not fit its type.
    #[error("object does not fit its type")]
    Form(#[source] EncodeError),
    /// It cannot be encrypted.
    #[error("object cannot be encrypted")]
    Key(#[source] control_pki::Error),
}

#[cfg(test)]
mod tests {
    use control_types::registry;

    use super::*;

    #[test]
    fn secrets_are_sealed_and_other_kinds_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = SealingKey::load_or_create(&dir.path().join("key")).expect("a key");
        let transform = Transform::new(Some(Arc::new(key)));
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
