//! An API of a few maps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use control_client::Meta;
use futures::future::BoxFuture;
use jiff::Timestamp;
use node_agent_informers::Service;
use tokio::sync::Notify;

use crate::claim::{PersistentVolume, VolumeClaim};
use crate::follow::ObjectRef;
use crate::resource_claim::ResourceClaim;
use crate::source::{
    DataError, DataKind, ObjectData, ObjectReader, ReadError, ServiceAccountToken, TokenSpec,
};

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
        let is = |c: &&ResourceClaim| c.metadata.namespace == namespace && c.metadata.name == name;
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
