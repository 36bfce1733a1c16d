//! Where config maps, secrets, tokens and services come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use control_client::{Meta, Resource, View, resources};
use futures::future::BoxFuture;
use jiff::Timestamp;
use node_agent_informers::Service;
use serde::Deserialize;
use tokio::sync::Notify;

use super::claim::{PersistentVolume, VolumeClaim};
use super::follow::ObjectRef;
use super::resource_claim::ResourceClaim;

/// The data of a ConfigMap or a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectData {
    /// By key, decoded.
    pub entries: BTreeMap<String, Vec<u8>>,
    /// Of secrets: their identity.
    pub uid: String,
    /// Of secrets: what they are for.
    pub r#type: String,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataKind {
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` Secret.
    Secret,
}

impl DataKind {
    /// As messages name it: `configmap`, `secret`.
    #[must_use]
    pub fn lower(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }

    /// The kind's name.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// Why data could not be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DataError {
    /// There is no such object.
    #[error("{} \"{name}\" not found", .kind.lower())]
    NotFound {
        /// Which kind.
        kind: DataKind,
        /// Its name.
        name: String,
    },
    /// It could not be asked for.
    #[error("failed to fetch {} \"{name}\": {message}", .kind.lower())]
    Unavailable {
        /// Which kind.
        kind: DataKind,
        /// Its name.
        name: String,
        /// What the API server or the connection said.
        message: String,
    },
}

/// A bound service account token.
#[derive(Clone)]
pub struct ServiceAccountToken {
    /// The token.
    pub token: String,
    /// When it was asked for.
    pub issued: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
}

impl ServiceAccountToken {
    /// When to ask for a new one: at 80 % of its life, or after a day.
    #[must_use]
    pub fn refresh_at(&self) -> Timestamp {
        let life = self.expires.duration_since(self.issued).as_secs();
        let at = (life * 8 / 10).min(24 * 3600);
        self.issued
            .checked_add(jiff::SignedDuration::from_secs(at))
            .unwrap_or(self.expires)
    }
}

/// The audience, lifetime and binding of a requested token.
#[derive(Clone, Copy, Debug)]
pub struct TokenSpec<'a> {
    /// Namespace of the account and of the pod.
    pub namespace: &'a str,
    /// The account.
    pub account: &'a str,
    /// The pod that the token shall die with: name and uid.
    pub pod: (&'a str, &'a str),
    /// Who shall accept it; empty for the API server.
    pub audience: &'a str,
    /// How long it shall live.
    pub seconds: i64,
}

/// A request of an [`ObjectReader`] that failed.
///
/// Its message ends with the API server's answer, as events and statuses of the kubelet
/// show it; therefore it has no source.
#[derive(Debug)]
pub struct ReadError {
    context: Option<String>,
    cause: control_client::Error,
}

impl ReadError {
    /// An error whose message is the API server's answer.
    #[must_use]
    pub const fn new(cause: control_client::Error) -> Self {
        Self {
            context: None,
            cause,
        }
    }

    /// An error whose message begins with `context`.
    #[must_use]
    pub fn with_context(context: impl Into<String>, cause: control_client::Error) -> Self {
        Self {
            context: Some(context.into()),
            cause,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(context) = &self.context {
            write!(f, "{context}: ")?;
        }
        f.write_str(&self.cause.chain())
    }
}

impl std::error::Error for ReadError {}

/// Reads the API objects that volumes and environment variables need.
pub trait ObjectReader: Send + Sync + 'static {
    /// Reads a config map or secret.
    fn data<'a>(
        &'a self,
        kind: DataKind,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<ObjectData>, DataError>>;

    /// Requests a new token.
    fn token<'a>(
        &'a self,
        wish: TokenSpec<'a>,
    ) -> BoxFuture<'a, Result<ServiceAccountToken, ReadError>>;

    /// Reads a service account.
    fn service_account<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Meta, ReadError>>;

    /// Reads a claim.
    fn claim<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<VolumeClaim, ReadError>>;

    /// Merges a patch into a claim's status.
    fn patch_claim<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        patch: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<(), ReadError>>;

    /// Reads a persistent volume.
    fn persistent_volume<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<PersistentVolume, ReadError>>;

    /// Reads a resource claim.
    fn resource_claim<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ResourceClaim, ReadError>>;

    /// Reads the text of a cluster trust bundle; `None` if there is none of that name.
    fn trust_bundle<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, ReadError>>;

    /// Reads the texts of a signer's trust bundles that a label selector selects.
    fn trust_bundles<'a>(
        &'a self,
        signer: &'a str,
        labels: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, ReadError>>;

    /// Returns the services whose variables a pod of the namespace gets.
    fn services(&self, namespace: &str) -> Vec<Arc<Service>>;

    /// Has `wake` notified whenever one of the objects `keys` has changed,
    /// instead of those that the pod `uid` followed before.
    fn follow(&self, uid: &str, keys: &BTreeSet<ObjectRef>, wake: &Arc<Notify>) {
        let _ = (uid, keys, wake);
    }
}

// --- views

/// `v1` ConfigMap.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMap {
    /// The object's metadata.
    pub metadata: Meta,
    /// Text by key.
    pub data: BTreeMap<String, String>,
    /// Bytes by key, in base64.
    pub binary_data: BTreeMap<String, String>,
}

/// `v1` Secret.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// The object's metadata.
    pub metadata: Meta,
    /// Bytes by key, in base64.
    pub data: BTreeMap<String, String>,
    /// What it is for.
    pub r#type: String,
}

macro_rules! view {
    ($type:ty, $resource:ident) => {
        impl View for $type {
            const RESOURCE: Resource = resources::$resource;

            fn meta(&self) -> &Meta {
                &self.metadata
            }
        }
    };
}

view!(ConfigMap, CONFIG_MAPS);
view!(Secret, SECRETS);

impl From<ConfigMap> for ObjectData {
    fn from(map: ConfigMap) -> Self {
        let mut entries: BTreeMap<String, Vec<u8>> = map
            .data
            .into_iter()
            .map(|(key, value)| (key, value.into_bytes()))
            .collect();
        entries.extend(decode(map.binary_data));
        Self {
            entries,
            uid: String::new(),
            r#type: String::new(),
        }
    }
}

impl From<Secret> for ObjectData {
    fn from(secret: Secret) -> Self {
        Self {
            uid: secret.metadata.uid.to_string(),
            entries: decode(secret.data).collect(),
            r#type: secret.r#type,
        }
    }
}

/// What is no base64 cannot come from an API server, and is left out.
fn decode(data: BTreeMap<String, String>) -> impl Iterator<Item = (String, Vec<u8>)> {
    data.into_iter().filter_map(|(key, value)| {
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(value)
            .ok()?;
        Some((key, bytes))
    })
}
