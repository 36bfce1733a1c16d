//! Where objects live in the store, and how their bytes are kept there.

use std::sync::Arc;

use bytes::Bytes;
use control_pki::SealingKey;
use control_types::registry::Resource;

/// What all keys begin with.
pub const ROOT: &[u8] = b"/registry/";

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

    /// The bytes to store under `key`.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn seal(&self, key: &[u8], value: Vec<u8>) -> Result<Bytes, control_pki::Error> {
        match &self.key {
            Some(sealing) if key.starts_with(b"/registry/secrets/") => {
                sealing.seal(key, &value).map(Bytes::from)
            }
            _ => Ok(value.into()),
        }
    }

    /// The bytes that [`Transform::seal`] was given.
    ///
    /// # Errors
    /// When they cannot be decrypted.
    pub fn open(&self, key: &[u8], stored: &Bytes) -> Result<Bytes, control_pki::Error> {
        match &self.key {
            Some(sealing) if stored.starts_with(b"k8s:enc:") => {
                sealing.open(key, stored).map(Bytes::from)
            }
            _ => Ok(stored.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_sealed_and_other_kinds_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = SealingKey::load_or_create(&dir.path().join("key")).expect("a key");
        let transform = Transform::new(Some(Arc::new(key)));
        let name = b"/registry/secrets/a/b";
        let stored = transform
            .seal(name, b"{\"password\":1}".to_vec())
            .expect("sealed");
        assert!(!stored.windows(8).any(|window| window == b"password"));
        assert_eq!(
            &transform.open(name, &stored).expect("opened")[..],
            b"{\"password\":1}"
        );
        assert!(transform.open(b"/registry/secrets/a/c", &stored).is_err());
        let plain = transform
            .seal(b"/registry/pods/a/b", b"{}".to_vec())
            .expect("not sealed");
        assert_eq!(&plain[..], b"{}");
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
