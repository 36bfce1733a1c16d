//! Namespaces and the objects that each of them must contain.

use std::collections::BTreeMap;

use control_client::Meta;
use serde::Deserialize;

use super::common::{Condition, Text, list, null_as_default};

/// A namespace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Name, deletion timestamp.
    pub metadata: Meta,
    /// Its own finalizers.
    pub spec: NamespaceSpec,
    /// Phase and deletion conditions.
    pub status: NamespaceStatus,
}

/// A namespace's finalizers live in its spec, not in its metadata.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceSpec {
    /// Usually `kubernetes`.
    #[serde(deserialize_with = "list")]
    pub finalizers: Vec<Text>,
}

/// A namespace's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceStatus {
    /// `Active` or `Terminating`.
    pub phase: Text,
    /// Conditions that block its deletion.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<Condition>,
}

/// A service account: only that it exists.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ServiceAccount {
    /// Name and namespace.
    pub metadata: Meta,
}

/// A config map; the reflector selects `kube-root-ca.crt` only.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    /// Name and namespace.
    pub metadata: Meta,
    /// Its data.
    #[serde(deserialize_with = "null_as_default")]
    pub data: BTreeMap<String, String>,
}
