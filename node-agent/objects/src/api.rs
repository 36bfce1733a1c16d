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
use node_agent_informers::Service;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, OnceCell};

use super::claim::{PersistentVolume, VolumeClaim};
use super::follow::{FollowedKind, ObjectRef, ObjectWatches, TRUST_BUNDLES};
use super::resource_claim::{RESOURCE_CLAIMS, ResourceClaim};
use super::source::{
    ConfigMap, DataError, DataKind, ObjectData, ObjectReader, ReadError, Secret,
    ServiceAccountToken, TokenSpec,
};

/// How long an answer is good for.
const GOOD_FOR: Duration = Duration::from_secs(2);

type ApiFuture = (Instant, Arc<OnceCell<Result<Arc<ObjectData>, DataError>>>);

/// The objects of an API server.
pub struct ApiObjects {
    client: Client,
    services: Cache<Service>,
    asked: Arc<Mutex<FxHashMap<ObjectRef, ApiFuture>>>,
    follows: ObjectWatches,
}

impl ApiObjects {
    /// Over this client; `services` are all services of the cluster.
    #[must_use]
    pub fn new(client: Client, services: Cache<Service>) -> Self {
        let asked: Arc<Mutex<FxHashMap<ObjectRef, ApiFuture>>> = Arc::default();
        let stale = asked.clone();
        let changed = Arc::new(move |key: &ObjectRef| {
            // what was asked before the change is no answer after it
            stale
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(key);
        });
        Self {
            follows: ObjectWatches::new(client.clone(), changed),
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
    ) -> Result<Arc<ObjectData>, DataError> {
        let found = match kind {
            DataKind::ConfigMap => self
                .client
                .get::<ConfigMap>(&resources::CONFIG_MAPS, namespace, name)
                .await
                .map(ObjectData::from),
            DataKind::Secret => self
                .client
                .get::<Secret>(&resources::SECRETS, namespace, name)
                .await
                .map(ObjectData::from),
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
struct TokenRequestObject {
    status: TokenRequestStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenRequestStatus {
    token: String,
    expiration_timestamp: Timestamp,
}

impl ObjectReader for ApiObjects {
    fn data<'a>(
        &'a self,
        kind: DataKind,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<ObjectData>, DataError>> {
        Box::pin(async move {
            let cell = {
                let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
                asked.retain(|_, (at, _)| at.elapsed() < GOOD_FOR);
                let kind = FollowedKind::Data(kind);
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

    fn token<'a>(
        &'a self,
        wish: TokenSpec<'a>,
    ) -> BoxFuture<'a, Result<ServiceAccountToken, ReadError>> {
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
                .create_subresource::<TokenRequestObject>(
                    &resources::SERVICE_ACCOUNTS,
                    wish.namespace,
                    wish.account,
                    "token",
                    &body,
                )
                .await
                .map(|answer| ServiceAccountToken {
                    token: answer.status.token,
                    issued,
                    expires: answer.status.expiration_timestamp,
                })
                .map_err(ReadError::new)
        })
    }

    fn service_account<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Meta, ReadError>> {
        Box::pin(async move {
            self.client
                .get::<Metadata>(&resources::SERVICE_ACCOUNTS, namespace, name)
                .await
                .map(|account| account.metadata)
                .map_err(|e| ReadError::with_context("failed to get service account", e))
        })
    }

    fn claim<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<VolumeClaim, ReadError>> {
        Box::pin(async move {
            self.client
                .get::<VolumeClaim>(&resources::PERSISTENT_VOLUME_CLAIMS, namespace, name)
                .await
                .map_err(|e| ReadError::with_context("failed to fetch PVC from API server", e))
        })
    }

    fn patch_claim<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        patch: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<(), ReadError>> {
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
                .map_err(ReadError::new)
        })
    }

    fn persistent_volume<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<PersistentVolume, ReadError>> {
        Box::pin(async move {
            self.client
                .get::<PersistentVolume>(&resources::PERSISTENT_VOLUMES, "", name)
                .await
                .map_err(|e| {
                    ReadError::with_context(format!("failed to fetch PV {name} from API server"), e)
                })
        })
    }

    fn resource_claim<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ResourceClaim, ReadError>> {
        Box::pin(async move {
            self.client
                .get::<ResourceClaim>(&RESOURCE_CLAIMS, namespace, name)
                .await
                .map_err(ReadError::new)
        })
    }

    fn trust_bundle<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, ReadError>> {
        Box::pin(async move {
            let found = self
                .client
                .get::<TrustBundle>(&TRUST_BUNDLES, "", name)
                .await;
            match found {
                Ok(found) => Ok(Some(found.spec.trust_bundle)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(e) => Err(ReadError::with_context(
                    "while getting ClusterTrustBundle",
                    e,
                )),
            }
        })
    }

    fn trust_bundles<'a>(
        &'a self,
        signer: &'a str,
        labels: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, ReadError>> {
        Box::pin(async move {
            let selection = Selection {
                labels: Some(labels.to_owned()).filter(|labels| !labels.is_empty()),
                ..Selection::all().fields(format!("spec.signerName={signer}"))
            };
            let found = self
                .client
                .list::<TrustBundle>(&TRUST_BUNDLES, &selection)
                .await
                .map_err(|e| ReadError::with_context("while listing ClusterTrustBundles", e))?;
            Ok(found
                .items
                .into_iter()
                .map(|b| b.spec.trust_bundle)
                .collect())
        })
    }

    fn follow(&self, uid: &str, keys: &BTreeSet<ObjectRef>, wake: &Arc<Notify>) {
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
