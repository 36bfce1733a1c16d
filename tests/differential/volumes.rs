//! What controllers do for claims: no controller is there, so that nothing else changes
//! objects while two schedulers are compared.

use control_client::{Client, DeleteOptions, Patch, Selection, resources};
use serde_json::{Value, json};

use crate::Error;
use crate::case::{Case, key, text};
use crate::ours::Ours;
use crate::stage::{Stage, with_kind};

/// The annotation by which a scheduler asks for a volume on a node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Kinds that finalizers protect from deletion.
const PROTECTED: [control_client::Resource; 3] = [
    resources::PERSISTENT_VOLUME_CLAIMS,
    resources::PERSISTENT_VOLUMES,
    resources::RESOURCE_CLAIMS,
];

/// Names of the claims to volumes of a pod.
pub fn claims_of(pod: &Value) -> Vec<String> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes
        .filter_map(|it| it["persistentVolumeClaim"]["claimName"].as_str())
        .map(str::to_owned)
        .collect()
}

impl Stage {
    /// Binds claims as the volume controller does: to the volume that the scheduler reserved,
    /// or to a new one where it selected a node.
    pub async fn bind_claims(&self, namespace: &str, claims: &[String]) -> Result<(), Error> {
        for name in claims {
            let claim = self
                .client
                .get::<Value>(&resources::PERSISTENT_VOLUME_CLAIMS, namespace, name)
                .await;
            let claim = match claim {
                Ok(claim) => claim,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            if text(&claim, "/status/phase") != "Pending" {
                continue;
            }
            let volumes = self
                .client
                .list::<Value>(&resources::PERSISTENT_VOLUMES, &Selection::all())
                .await?;
            let is_reserved = |volume: &&Value| {
                let of = &volume["spec"]["claimRef"];
                of["namespace"] == namespace && of["name"] == **name
            };
            let volume = match volumes.items.iter().find(is_reserved) {
                Some(volume) => volume.clone(),
                None if claim["metadata"]["annotations"][SELECTED_NODE].is_null() => continue,
                None => provision(&self.client, &claim).await?,
            };
            bind(&self.client, &claim, &volume).await?;
        }
        Ok(())
    }

    /// Tells ours what became of a pod's claims.
    pub async fn observe_claims(&self, pod: &Value, ours: &mut Ours) -> Result<(), Error> {
        if pod["spec"]["volumes"].is_null() && pod["spec"]["resourceClaims"].is_null() {
            return Ok(());
        }
        for resource in &PROTECTED {
            let list = self
                .client
                .list::<Value>(resource, &Selection::all())
                .await?;
            for object in list.items {
                ours.put(&with_kind(object, resource))?;
            }
        }
        Ok(())
    }

    /// Deletes all volumes and claims of a case, whatever protects them.
    pub async fn release_protected(&self, case: &Case) -> Result<(), Error> {
        for resource in &PROTECTED {
            if !case.objects.iter().any(|it| it.kind() == resource.kind) {
                continue;
            }
            let list = self
                .client
                .list::<Value>(resource, &Selection::all())
                .await?;
            for object in list.items {
                let namespace = text(&object, "/metadata/namespace");
                let name = text(&object, "/metadata/name");
                let patch = json!({"metadata": {"finalizers": null}});
                let now = DeleteOptions::default().grace(0);
                let freed = self
                    .client
                    .patch::<Value>(resource, namespace, name, "", Patch::Merge(&patch))
                    .await;
                let deleted = match freed {
                    Ok(_) => self.client.delete(resource, namespace, name, &now).await,
                    Err(error) => Err(error),
                };
                match deleted {
                    Err(error) if !error.is_not_found() => return Err(error.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Creates the volume that a claim asks for.
async fn provision(client: &Client, claim: &Value) -> Result<Value, Error> {
    let name = format!("made-{}", key(claim).replace('/', "-"));
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "claimRef": reference(claim),
        },
    });
    Ok(client
        .create(&resources::PERSISTENT_VOLUMES, "", &volume)
        .await?)
}

fn reference(claim: &Value) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1",
        "namespace": claim["metadata"]["namespace"], "name": claim["metadata"]["name"],
        "uid": claim["metadata"]["uid"],
    })
}

/// Binds a claim and a volume to each other.
async fn bind(client: &Client, claim: &Value, volume: &Value) -> Result<(), Error> {
    let (namespace, name) = (
        text(claim, "/metadata/namespace"),
        text(claim, "/metadata/name"),
    );
    let volume_name = text(volume, "/metadata/name");
    let resource = &resources::PERSISTENT_VOLUMES;
    let patch = json!({"spec": {"claimRef": reference(claim)}});
    client
        .patch::<Value>(resource, "", volume_name, "", Patch::Merge(&patch))
        .await?;
    let phase = json!({"status": {"phase": "Bound"}});
    client
        .patch_status::<Value>(resource, "", volume_name, Patch::Merge(&phase))
        .await?;
    let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
    let patch = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume_name},
    });
    client
        .patch::<Value>(resource, namespace, name, "", Patch::Merge(&patch))
        .await?;
    let status = json!({"status": {
        "phase": "Bound", "accessModes": volume["spec"]["accessModes"],
        "capacity": volume["spec"]["capacity"],
    }});
    client
        .patch_status::<Value>(resource, namespace, name, Patch::Merge(&status))
        .await?;
    Ok(())
}
