//! Objects that a cluster needs for the nodes' own volumes: their driver, the class
//! `local`, which is the default unless there is another, and the kinds and the class of
//! snapshots.

use std::time::Duration;

use control_client::{Client, Discard, Error, Metadata, Patch, Resource, Selection, resources};
use serde_json::{Value, json};

/// Under which name the driver is applied.
const MANAGER: &str = "orlop-server";
/// Name of the class.
const CLASS: &str = "local";
/// Marks the class of claims that name none.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// The label of definitions that this version may replace.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "orlop");
/// Classes of snapshots.
const SNAPSHOT_CLASSES: Resource = Resource::cluster(
    "snapshot.storage.k8s.io",
    "v1",
    "volumesnapshotclasses",
    "VolumeSnapshotClass",
);
/// The resource of each kind of definition.
static DEFINITIONS: [Resource; 3] = [
    Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    ),
    Resource::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
    ),
    Resource::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
    ),
];

/// Defines driver, classes and kinds. A class that exists is left as it is.
///
/// # Errors
/// What the API server says.
pub async fn define(client: &Client) -> Result<(), Error> {
    define_volumes(client).await?;
    define_snapshots(client).await
}

async fn define_snapshots(client: &Client) -> Result<(), Error> {
    for object in &snapshot_kinds() {
        let mut all = DEFINITIONS.iter();
        let resource = all.find(|it| object["kind"] == *it.kind);
        let Some((resource, name)) = resource.zip(object["metadata"]["name"].as_str()) else {
            continue;
        };
        match client.get::<Metadata>(resource, "", name).await {
            Ok(present) if present.metadata.labels.get(PART_OF.0) != Some(PART_OF.1) => {
                // Installed with a stock snapshot controller.
                continue;
            }
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        let apply = Patch::Apply {
            body: object,
            manager: MANAGER,
            force: true,
        };
        client
            .patch::<Discard>(resource, "", name, "", apply)
            .await?;
    }
    for _ in 0..100 {
        if client.serves(&SNAPSHOT_CLASSES).await? {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let class = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {
            "name": CLASS,
            "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"},
        },
        "driver": "csi.orlop.dev",
        "deletionPolicy": "Delete",
    });
    match client
        .create::<Discard>(&SNAPSHOT_CLASSES, "", &class)
        .await
    {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

fn snapshot_kinds() -> Vec<Value> {
    let all: Result<Vec<Value>, _> = serde_saphyr::from_multiple(node_agent::SNAPSHOT_KINDS);
    let mut all = all.unwrap_or_default();
    all.retain(Value::is_object);
    all
}

async fn define_volumes(client: &Client) -> Result<(), Error> {
    let driver = driver();
    let name = driver["metadata"]["name"].as_str().unwrap_or_default();
    let apply = Patch::Apply {
        body: &driver,
        manager: MANAGER,
        force: true,
    };
    client
        .patch::<Discard>(&resources::CSI_DRIVERS, "", name, "", apply)
        .await?;
    let classes = client
        .list::<Metadata>(&resources::STORAGE_CLASSES, &Selection::all())
        .await?;
    let Some(class) = class(&classes.items) else {
        return Ok(());
    };
    let created = client
        .create::<Discard>(&resources::STORAGE_CLASSES, "", &class)
        .await;
    match created {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

fn driver() -> Value {
    serde_saphyr::from_str(node_agent::VOLUME_DRIVER).unwrap_or_default()
}

/// Returns the class to create, unless it exists already.
fn class(existing: &[Metadata]) -> Option<Value> {
    if existing.iter().any(|it| it.metadata.name == CLASS) {
        return None;
    }
    let is_default = |it: &Metadata| it.metadata.annotations.get(DEFAULT) == Some("true");
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "csi.orlop.dev",
        // The node is chosen with the pod; the volume is made there.
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
        "reclaimPolicy": "Delete",
    });
    if !existing.iter().any(is_default) {
        class["metadata"]["annotations"] = json!({DEFAULT: "true"});
    }
    Some(class)
}

#[cfg(test)]
#[path = "local_volumes/tests.rs"]
mod cluster_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn existing(name: &str, is_default: bool) -> Metadata {
        let annotations = if is_default {
            json!({DEFAULT: "true"})
        } else {
            json!({})
        };
        let object = json!({"metadata": {"name": name, "annotations": annotations}});
        serde_json::from_value(object).expect("metadata")
    }

    #[test]
    fn the_class_is_the_default_unless_there_is_another_and_is_made_once() {
        let first = class(&[]).expect("a class");
        assert_eq!(first["metadata"]["annotations"][DEFAULT], "true");
        assert_eq!(first["volumeBindingMode"], "WaitForFirstConsumer");
        let beside = class(&[existing("fast", true)]).expect("a class");
        assert_eq!(beside["metadata"]["annotations"], Value::Null);
        let beside = class(&[existing("fast", false)]).expect("a class");
        assert_eq!(beside["metadata"]["annotations"][DEFAULT], "true");
        assert_eq!(class(&[existing(CLASS, false)]), None);
    }

    #[test]
    fn the_kinds_of_snapshots_are_understood_and_have_a_place() {
        let all = snapshot_kinds();
        assert_eq!(all.len(), 5, "each document is one object");
        for object in &all {
            let mut places = DEFINITIONS.iter();
            assert!(places.any(|it| object["kind"] == *it.kind), "{object}");
            let label = &object["metadata"]["labels"][PART_OF.0];
            assert_eq!(label, PART_OF.1, "{object}");
        }
    }

    #[test]
    fn the_driver_attaches_nothing_and_tells_its_capacity() {
        let driver = driver();
        assert_eq!(driver["metadata"]["name"], "csi.orlop.dev");
        assert_eq!(driver["spec"]["attachRequired"], false);
        assert_eq!(driver["spec"]["storageCapacity"], true);
    }

    /// An agent says that a volume is inline with what it says of the pod, and not else.
    #[test]
    fn a_driver_of_inline_volumes_hears_of_the_pod() {
        let spec = &driver()["spec"];
        let mut modes = spec["volumeLifecycleModes"].as_array().unwrap().iter();
        assert!(modes.any(|mode| mode == "Ephemeral"));
        assert_eq!(spec["podInfoOnMount"], true);
    }
}
