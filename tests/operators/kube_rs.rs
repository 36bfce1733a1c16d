//! An operator as one writes it with kube-rs: a controller over watches, a
//! finalizer, server-side apply of what it owns, the status through its subresource.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

const NAME: &str = "kube-rs-mills";
const FINALIZER: &str = "example.com/kube-rs";

/// What went wrong with one mill.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The finalizer or what it guards.
    #[error("the finalizer cannot be kept")]
    Finalizer(#[source] Box<kube::runtime::finalizer::Error<kube::Error>>),
}

/// The kind that the operator looks after.
pub fn mill() -> ApiResource {
    ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Mill".into(),
        plural: "mills".into(),
    }
}

/// Runs the operator in a namespace until the task is dropped.
pub async fn run(client: Client, namespace: String) {
    let mills: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &mill());
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let config = watcher::Config::default();
    Controller::new_with(mills, config.clone(), mill())
        .owns(deployments, config.clone())
        .owns(maps, config)
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(500)),
            Arc::new(client),
        )
        .for_each(|result| async {
            if let Err(error) = result {
                println!("    kube-rs: {error}");
            }
        })
        .await;
}

async fn reconcile(mill: Arc<DynamicObject>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = mill.namespace().unwrap_or_default();
    let mills: Api<DynamicObject> =
        Api::namespaced_with(Client::clone(&client), &namespace, &self::mill());
    finalizer(&mills, FINALIZER, mill, |event| async {
        match event {
            Event::Apply(mill) => make(&client, &mills, &mill).await,
            Event::Cleanup(mill) => farewell(&client, &mill).await,
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

async fn make(
    client: &Client,
    mills: &Api<DynamicObject>,
    mill: &DynamicObject,
) -> Result<Action, kube::Error> {
    let (name, namespace) = (mill.name_any(), mill.namespace().unwrap_or_default());
    let params = PatchParams::apply(NAME).force();
    let metadata = json!({
        "name": name,
        "ownerReferences": [{
            "apiVersion": "example.com/v1", "kind": "Mill", "name": name,
            "uid": mill.uid(), "controller": true, "blockOwnerDeletion": true
        }]
    });
    let labels = json!({"mill": name});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {
            "replicas": mill.data["spec"]["stones"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [
                {"name": "stone", "image": "example.com/stone:1"}
            ]}}
        }
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"grain": mill.data["spec"]["grain"]}
    });
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    deployments
        .patch(&name, &params, &Patch::Apply(deployment))
        .await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    maps.patch(&name, &params, &Patch::Apply(map)).await?;
    let seen = mill.metadata.generation;
    let said = |member: &str| mill.data["status"][member].clone();
    if said("phase") != "Grinding" || said("observedGeneration") != json!(seen) {
        let status: Value = json!({"status": {"phase": "Grinding", "observedGeneration": seen}});
        mills
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    Ok(Action::await_change())
}

/// Before a mill goes, what it ground is noted.
async fn farewell(client: &Client, mill: &DynamicObject) -> Result<Action, kube::Error> {
    let namespace = mill.namespace().unwrap_or_default();
    let name = format!("{}-ended", mill.name_any());
    let note = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    maps.patch(&name, &PatchParams::apply(NAME), &Patch::Apply(note))
        .await?;
    Ok(Action::await_change())
}
