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

#[cfg(test)]
pub mod fake {
    //! An API of a few maps.

    use super::*;
    use std::sync::Mutex;

    type Key = (DataKind, String, String);

    /// Objects in memory.
    #[derive(Default)]
    pub struct FakeObjects {
        /// By kind, namespace and name.
        pub data: Mutex<Vec<(Key, Arc<ObjectData>)>>,
        /// All services.
        pub services: Mutex<Vec<Arc<Service>>>,
        /// How many tokens were made.
        pub tokens: std::sync::atomic::AtomicUsize,
        /// Claims, each with the volume that it is bound to.
        pub claims: Mutex<Vec<(VolumeClaim, PersistentVolume)>>,
        /// Whether config maps and secrets are never answered about.
        pub silent: std::sync::atomic::AtomicBool,
        /// Who is told when one of them changes.
        pub followers: Mutex<Vec<Arc<Notify>>>,
        /// Claims of devices.
        pub resource_claims: Mutex<Vec<ResourceClaim>>,
        /// By name: the annotations of service accounts; others have none.
        pub accounts: Mutex<BTreeMap<String, BTreeMap<String, String>>>,
        /// Name, signer and text of trust bundles.
        pub trust: Mutex<Vec<(String, String, String)>>,
    }

    /// The API server's answer for an object that it does not have.
    fn absent(message: &str) -> ReadError {
        let status = control_client::Status {
            message: message.to_owned(),
            ..control_client::Status::default()
        };
        ReadError::new(control_client::Error::NotFound(Box::new(status)))
    }

    impl FakeObjects {
        /// Gives a service account annotations.
        pub fn annotate(&self, name: &str, annotations: &[(&str, &str)]) {
            let all = annotations
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            self.accounts
                .lock()
                .unwrap()
                .insert(name.to_owned(), all.collect());
        }

        /// Has everybody look at what they follow.
        pub fn changed(&self) {
            for wake in self.followers.lock().unwrap().iter() {
                wake.notify_one();
            }
        }

        /// Puts an object in place of the one before.
        pub fn put(&self, kind: DataKind, name: &str, entries: &[(&str, &str)]) {
            let key = (kind, "default".to_owned(), name.to_owned());
            let data = ObjectData {
                entries: entries
                    .iter()
                    .map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec()))
                    .collect(),
                uid: format!("{name}-uid"),
                r#type: String::new(),
            };
            let mut all = self.data.lock().unwrap();
            all.retain(|(k, _)| *k != key);
            all.push((key, Arc::new(data)));
        }
    }

    impl ObjectReader for FakeObjects {
        fn data<'a>(
            &'a self,
            kind: DataKind,
            namespace: &'a str,
            name: &'a str,
        ) -> BoxFuture<'a, Result<Arc<ObjectData>, DataError>> {
            if self.silent.load(std::sync::atomic::Ordering::Relaxed) {
                return Box::pin(std::future::pending());
            }
            let all = self.data.lock().unwrap();
            let found = all
                .iter()
                .find(|((k, ns, n), _)| *k == kind && ns == namespace && n == name)
                .map(|(_, data)| data.clone())
                .ok_or_else(|| DataError::NotFound {
                    kind,
                    name: name.to_owned(),
                });
            Box::pin(std::future::ready(found))
        }

        fn token<'a>(
            &'a self,
            wish: TokenSpec<'a>,
        ) -> BoxFuture<'a, Result<ServiceAccountToken, ReadError>> {
            let number = self
                .tokens
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let issued = Timestamp::now();
            Box::pin(std::future::ready(Ok(ServiceAccountToken {
                token: format!("token-{number}-{}", wish.account),
                issued,
                expires: issued + jiff::SignedDuration::from_secs(wish.seconds),
            })))
        }

        fn service_account<'a>(
            &'a self,
            namespace: &'a str,
            name: &'a str,
        ) -> BoxFuture<'a, Result<Meta, ReadError>> {
            let accounts = self.accounts.lock().unwrap();
            let found = serde_json::from_value(serde_json::json!({
                "name": name, "namespace": namespace, "uid": format!("{name}-uid"),
                "annotations": accounts.get(name).cloned().unwrap_or_default()}));
            Box::pin(std::future::ready(
                found.map_err(|e| absent(&e.to_string())),
            ))
        }

        fn claim<'a>(
            &'a self,
            namespace: &'a str,
            name: &'a str,
        ) -> BoxFuture<'a, Result<VolumeClaim, ReadError>> {
            let all = self.claims.lock().unwrap();
            let found = all
                .iter()
                .find(|(c, _)| c.metadata.namespace == namespace && c.metadata.name == name)
                .map(|(claim, _)| claim.clone());
            Box::pin(std::future::ready(found.ok_or_else(|| absent("no claim"))))
        }

        fn patch_claim<'a>(
            &'a self,
            namespace: &'a str,
            name: &'a str,
            patch: &'a serde_json::Value,
        ) -> BoxFuture<'a, Result<(), ReadError>> {
            let mut all = self.claims.lock().unwrap();
            for (claim, _) in all.iter_mut() {
                if claim.metadata.namespace == namespace && claim.metadata.name == name {
                    let size = patch["status"]["capacity"]["storage"].as_str();
                    let size = size.unwrap_or_default().to_owned();
                    claim.status.capacity.insert("storage".to_owned(), size);
                }
            }
            Box::pin(std::future::ready(Ok(())))
        }

        fn persistent_volume<'a>(
            &'a self,
            name: &'a str,
        ) -> BoxFuture<'a, Result<PersistentVolume, ReadError>> {
            let all = self.claims.lock().unwrap();
            let found = all
                .iter()
                .find(|(_, v)| v.metadata.name == name)
                .map(|(_, volume)| volume.clone());
            Box::pin(std::future::ready(found.ok_or_else(|| absent("no volume"))))
        }

        fn resource_claim<'a>(
            &'a self,
            namespace: &'a str,
            name: &'a str,
        ) -> BoxFuture<'a, Result<ResourceClaim, ReadError>> {
            let all = self.resource_claims.lock().unwrap();
            let is =
                |c: &&ResourceClaim| c.metadata.namespace == namespace && c.metadata.name == name;
            let found = all.iter().find(is).cloned();
            Box::pin(std::future::ready(
                found.ok_or_else(|| absent("no such claim")),
            ))
        }

        fn trust_bundle<'a>(
            &'a self,
            name: &'a str,
        ) -> BoxFuture<'a, Result<Option<String>, ReadError>> {
            let all = self.trust.lock().unwrap();
            let found = all.iter().find(|(n, ..)| n == name);
            Box::pin(std::future::ready(Ok(found.map(|(.., text)| text.clone()))))
        }

        fn trust_bundles<'a>(
            &'a self,
            signer: &'a str,
            _labels: &'a str,
        ) -> BoxFuture<'a, Result<Vec<String>, ReadError>> {
            let all = self.trust.lock().unwrap();
            let found = all.iter().filter(|(_, s, _)| s == signer);
            let found = found.map(|(.., text)| text.clone()).collect();
            Box::pin(std::future::ready(Ok(found)))
        }

        fn follow(&self, _: &str, _: &BTreeSet<ObjectRef>, wake: &Arc<Notify>) {
            self.followers.lock().unwrap().push(wake.clone());
        }

        fn services(&self, _namespace: &str) -> Vec<Arc<Service>> {
            self.services.lock().unwrap().clone()
        }
    }
}
