//! Objects from the API server: asked for when needed, shared for a moment.
//!
//! Many pods that start at the same time need the same few objects (the
//! cluster's certificate, a common configuration), so an answer is good for
//! two seconds; what a starting pod gets is never older.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control_client::{Cache, Client, Discard, Error, Meta, Metadata, Patch, Selection, resources};
use futures::future::BoxFuture;
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, OnceCell};

use super::claim::{Claim, PersistentVolume};
use super::follow::{Followed, Follows, Key, TRUST_BUNDLES};
use super::resource_claim::{RESOURCE_CLAIMS, ResourceClaim};
use super::source::{
    ConfigMap, Data, DataError, DataKind, Objects, Secret, Service, Token, TokenWish,
};

/// How long an answer is good for.
const GOOD_FOR: Duration = Duration::from_secs(2);

type Asked = (Instant, Arc<OnceCell<Result<Arc<Data>, DataError>>>);

/// The objects of an API server.
pub struct ApiObjects {
    client: Client,
    services: Cache<Service>,
    asked: Arc<Mutex<FxHashMap<Key, Asked>>>,
    follows: Follows,
}

impl ApiObjects {
    /// Over this client; `services` are all services of the cluster.
    #[must_use]
    pub fn new(client: Client, services: Cache<Service>) -> Self {
        let asked: Arc<Mutex<FxHashMap<Key, Asked>>> = Arc::default();
        let stale = asked.clone();
        let changed = Arc::new(move |key: &Key| {
            // what was asked before the change is no answer after it
            stale
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(key);
        });
        Self {
            follows: Follows::new(client.clone(), changed),
            client,
            services,
            asked,
        }
    }

    async fn fetch(
        &self,
        kind: DataKind,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Data>, DataError> {
        let found = match kind {
            DataKind::ConfigMap => self
                .client
                .get::<ConfigMap>(&resources::CONFIG_MAPS, namespace, name)
                .await
                .map(Data::from),
            DataKind::Secret => self
                .client
                .get::<Secret>(&resources::SECRETS, namespace, name)
                .await
                .map(Data::from),
        };
        found.map(Arc::new).map_err(|error| match error {
            Error::NotFound(_) => DataError::NotFound {
                kind,
                name: name.to_owned(),
            },
            error => DataError::Unavailable {
                kind,
                name: name.to_owned(),
                message: error.chain(),
            },
        })
    }
}

#[derive(Deserialize)]
struct TrustBundle {
    spec: TrustBundleSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrustBundleSpec {
    trust_bundle: String,
}

#[derive(Deserialize)]
struct TokenRequest {
    status: TokenStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenStatus {
    token: String,
    expiration_timestamp: Timestamp,
}

impl Objects for ApiObjects {
    fn data<'a>(
        &'a self,
        kind: DataKind,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Data>, DataError>> {
        Box::pin(async move {
            let cell = {
                let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
                asked.retain(|_, (at, _)| at.elapsed() < GOOD_FOR);
                let kind = Followed::Data(kind);
                let key = (kind, namespace.to_owned(), name.to_owned());
                asked
                    .entry(key)
                    .or_insert_with(|| (Instant::now(), Arc::default()))
                    .1
                    .clone()
            };
            cell.get_or_init(|| self.fetch(kind, namespace, name))
                .await
                .clone()
        })
    }

    fn token<'a>(&'a self, wish: TokenWish<'a>) -> BoxFuture<'a, Result<Token, String>> {
        Box::pin(async move {
            let audiences: Vec<&str> = Some(wish.audience)
                .filter(|a| !a.is_empty())
                .into_iter()
                .collect();
            let body = json!({
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": audiences,
                    "expirationSeconds": wish.seconds,
                    "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": wish.pod.0, "uid": wish.pod.1},
                },
            });
            let issued = Timestamp::now();
            self.client
                .create_subresource::<TokenRequest>(
                    &resources::SERVICE_ACCOUNTS,
                    wish.namespace,
                    wish.account,
                    "token",
                    &body,
                )
                .await
                .map(|answer| Token {
                    token: answer.status.token,
                    issued,
                    expires: answer.status.expiration_timestamp,
                })
                .map_err(|error| error.chain())
        })
    }

    fn service_account<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Meta, String>> {
        Box::pin(async move {
            self.client
                .get::<Metadata>(&resources::SERVICE_ACCOUNTS, namespace, name)
                .await
                .map(|account| account.metadata)
                .map_err(|e| format!("failed to get service account: {}", e.chain()))
        })
    }

    fn claim<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Claim, String>> {
        Box::pin(async move {
            self.client
                .get::<Claim>(&resources::PERSISTENT_VOLUME_CLAIMS, namespace, name)
                .await
                .map_err(|e| format!("failed to fetch PVC from API server: {}", e.chain()))
        })
    }

    fn patch_claim<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        patch: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            self.client
                .patch_status::<Discard>(
                    &resources::PERSISTENT_VOLUME_CLAIMS,
                    namespace,
                    name,
                    Patch::Merge(patch),
                )
                .await
                .map(|_| ())
                .map_err(|e| e.chain())
        })
    }

    fn persistent_volume<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<PersistentVolume, String>> {
        Box::pin(async move {
            self.client
                .get::<PersistentVolume>(&resources::PERSISTENT_VOLUMES, "", name)
                .await
                .map_err(|e| format!("failed to fetch PV {name} from API server: {}", e.chain()))
        })
    }

    fn resource_claim<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ResourceClaim, String>> {
        Box::pin(async move {
            self.client
                .get::<ResourceClaim>(&RESOURCE_CLAIMS, namespace, name)
                .await
                .map_err(|e| e.chain())
        })
    }

    fn trust_bundle<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move {
            let found = self
                .client
                .get::<TrustBundle>(&TRUST_BUNDLES, "", name)
                .await;
            match found {
                Ok(found) => Ok(Some(found.spec.trust_bundle)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(e) => Err(format!("while getting ClusterTrustBundle: {}", e.chain())),
            }
        })
    }

    fn trust_bundles<'a>(
        &'a self,
        signer: &'a str,
        labels: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async move {
            let selection = Selection {
                labels: Some(labels.to_owned()).filter(|labels| !labels.is_empty()),
                ..Selection::all().fields(format!("spec.signerName={signer}"))
            };
            let found = self
                .client
                .list::<TrustBundle>(&TRUST_BUNDLES, &selection)
                .await
                .map_err(|e| format!("while listing ClusterTrustBundles: {}", e.chain()))?;
            Ok(found
                .items
                .into_iter()
                .map(|b| b.spec.trust_bundle)
                .collect())
        })
    }

    fn follow(&self, uid: &str, keys: &BTreeSet<Key>, wake: &Arc<Notify>) {
        self.follows.set(uid, keys, wake);
    }

    fn services(&self, namespace: &str) -> Vec<Arc<Service>> {
        let snapshot = self.services.snapshot();
        let master = snapshot
            .get("default", "kubernetes")
            .filter(|_| namespace != "default");
        master
            .into_iter()
            .chain(snapshot.namespace(namespace))
            .cloned()
            .collect()
    }
}
