//! Publishes how much can be provisioned on this node, for the scheduler: one
//! CSIStorageCapacity for each class of the driver.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use control_client::{DeleteOptions, Discard, Metadata, Patch, Reflector, Selection, resources};
use csi_api as api;
use node_agent_informers::SharedView;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::driver::NAME;
use crate::driver::{NAMESPACE, NODE_KEY};
use crate::error::{Error, Result};
use crate::provision::{parameters, quantity, topology};
use crate::shared::LoopContext;
use crate::standby::Duty;
use crate::views::{STORAGE_CAPACITIES, StorageCapacity, StorageClass};

/// How often the driver is asked, besides after each change.
const EVERY: Duration = Duration::from_secs(60);

/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(500);

/// How long a failure waits.
const RETRY: Duration = Duration::from_secs(5);

/// Names the driver of an object.
const DRIVER_LABEL: &str = "csi.storage.k8s.io/drivername";
/// Names who keeps an object.
const MANAGER_LABEL: &str = "csi.storage.k8s.io/managed-by";

/// The free capacity of a storage class.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Capacity {
    class: String,
    bytes: i64,
    largest: Option<i64>,
}

/// A change of the published objects.
#[derive(Debug, PartialEq)]
enum Action {
    /// Creates the object.
    Create(Value),
    /// Writes the capacity of the object with this name.
    Update(String, Value),
    /// Deletes the object with this name.
    Delete(String),
}

/// Identity of the node in objects.
struct Owner<'a> {
    node: &'a str,
    uid: &'a str,
}

/// Returns the label value by which objects of a node are found: its name, or a hash of
/// names that are too long for a label.
fn manager(node: &str) -> String {
    let name = format!("orlop-{node}");
    if name.len() <= 63 {
        return name;
    }
    format!("orlop-{}", digest(&[node]))
}

fn digest(parts: &[&str]) -> String {
    let mut text = String::new();
    for byte in &Sha256::digest(parts.join("\0").as_bytes())[..10] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the changes that make the objects of a node say what is so.
fn decide(
    owner: &Owner<'_>,
    published: &[&StorageCapacity],
    capacities: &[Capacity],
) -> Vec<Action> {
    let mut actions = Vec::new();
    let name = |class: &str| format!("csisc-{}", digest(&[owner.node, class]));
    for capacity in capacities {
        let (bytes, largest) = (quantity(capacity.bytes), capacity.largest.map(quantity));
        let name = name(&capacity.class);
        let Some(present) = published.iter().find(|it| it.metadata.name == name) else {
            actions.push(Action::Create(object(owner, capacity, &name)));
            continue;
        };
        if present.capacity.as_ref() != Some(&bytes) || present.maximum_volume_size != largest {
            let change = json!({"capacity": bytes, "maximumVolumeSize": largest});
            actions.push(Action::Update(name, change));
        }
    }
    let is_wanted = |present: &StorageCapacity| {
        let mut classes = capacities.iter();
        classes.any(|it| name(&it.class) == present.metadata.name.as_str())
    };
    let stale = published.iter().filter(|present| !is_wanted(present));
    actions.extend(stale.map(|it| Action::Delete(it.metadata.name.to_string())));
    actions
}

fn object(owner: &Owner<'_>, capacity: &Capacity, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {DRIVER_LABEL: NAME, MANAGER_LABEL: manager(owner.node)},
            // It goes with its node.
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": owner.node, "uid": owner.uid}
            ],
        },
        "storageClassName": capacity.class,
        "nodeTopology": {"matchLabels": {NODE_KEY: owner.node}},
        "capacity": quantity(capacity.bytes),
    });
    if let Some(largest) = capacity.largest {
        object["maximumVolumeSize"] = json!(quantity(largest));
    }
    object
}

impl SharedView for StorageCapacity {
    fn selection(node: &str) -> Selection {
        let labels = format!("{MANAGER_LABEL}={}", manager(node));
        Selection::all().namespace(NAMESPACE).labels(labels)
    }
}

/// Publishes until `shutdown`.
pub async fn run(shared: Arc<LoopContext>, shutdown: CancellationToken) {
    let published = shared.informers.subscribe::<StorageCapacity>();
    shared.synced().await;
    published.synced().await;
    let mut classes = shared.classes.changes();
    let mut objects = published.changes();
    loop {
        // Changes until here are part of what is published now.
        while classes.try_recv().is_some() || objects.try_recv().is_some() {}
        let pause = match publish(&shared, &published).await {
            Ok(()) => EVERY,
            Err(error) => {
                tracing::debug!(error = error.chain(), "failed to publish storage capacity");
                RETRY
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => continue,
            _ = classes.recv() => {}
            _ = objects.recv() => {}
            () = shared.space_changed.notified() => {}
        }
        tokio::time::sleep(GATHER).await;
    }
}

async fn publish(shared: &LoopContext, published: &Reflector<StorageCapacity>) -> Result<()> {
    if !shared.standby.is_ours(Duty::Provision) {
        return Err(Error::Refused("a sidecar publishes it".to_owned()));
    }
    let node: Metadata = shared
        .client
        .get(&resources::NODES, "", &shared.node)
        .await
        .map_err(Error::api("read the Node"))?;
    let mut capacities = Vec::new();
    for class in shared.classes.cache().snapshot().iter() {
        if class.provisioner == NAME {
            capacities.extend(capacity(shared, class).await?);
        }
    }
    let owner = Owner {
        node: &shared.node,
        uid: &node.metadata.uid,
    };
    let snapshot = published.cache().snapshot();
    let present: BTreeMap<&str, &StorageCapacity> = snapshot
        .iter()
        .map(|it| (it.metadata.name.as_str(), it.as_ref()))
        .collect();
    let present: Vec<&StorageCapacity> = present.into_values().collect();
    for action in decide(&owner, &present, &capacities) {
        apply(shared, action).await?;
    }
    Ok(())
}

/// Asks the driver for the capacity of a class; none, when the node has no such class.
async fn capacity(shared: &LoopContext, class: &StorageClass) -> Result<Option<Capacity>> {
    let request = api::GetCapacityRequest {
        volume_capabilities: Vec::new(),
        parameters: parameters::of_driver(&class.parameters),
        accessible_topology: Some(topology(&shared.node)),
    };
    let answer = match shared.driver.capacity(request).await {
        Ok(answer) => answer,
        Err(error) if error.code == tonic::Code::InvalidArgument => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(Capacity {
        class: class.metadata.name.to_string(),
        bytes: answer.available_capacity,
        largest: answer.maximum_volume_size.map(|it| it.value),
    }))
}

async fn apply(shared: &LoopContext, action: Action) -> Result<()> {
    let (client, resource) = (&shared.client, &STORAGE_CAPACITIES);
    let (done, what) = match action {
        Action::Create(object) => {
            let created = client.create::<Discard>(resource, NAMESPACE, &object).await;
            (created.map(drop), "create the CSIStorageCapacity")
        }
        Action::Update(name, change) => {
            let patch = Patch::Merge(&change);
            let written = client
                .patch::<Discard>(resource, NAMESPACE, &name, "", patch)
                .await;
            (written.map(drop), "write the CSIStorageCapacity")
        }
        Action::Delete(name) => {
            let options = DeleteOptions::default();
            let deleted = client.delete(resource, NAMESPACE, &name, &options).await;
            (deleted, "delete the CSIStorageCapacity")
        }
    };
    match done {
        Err(error) if !error.is_not_found() && !error.is_already_exists() => {
            Err(Error::api(what)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(class: &str, bytes: i64) -> Capacity {
        Capacity {
            class: class.to_owned(),
            bytes,
            largest: Some(bytes / 2),
        }
    }

    const OWNER: Owner<'static> = Owner {
        node: "n1",
        uid: "u",
    };

    fn created(capacity: &Capacity) -> StorageCapacity {
        match decide(&OWNER, &[], std::slice::from_ref(capacity)).as_slice() {
            [Action::Create(object)] => serde_json::from_value(object.clone()).expect("an object"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_class_has_one_object_that_says_what_the_node_has() {
        let fast = created(&of("fast", 4 << 30));
        assert_eq!(fast.capacity.as_deref(), Some("4Gi"));
        assert_eq!(fast.maximum_volume_size.as_deref(), Some("2Gi"));
        assert_eq!(fast.node_topology["matchLabels"][NODE_KEY], "n1");
        assert_eq!(fast.metadata.owner_references[0].name, "n1");
        let slow = created(&of("slow", 1 << 30));
        assert_ne!(fast.metadata.name, slow.metadata.name);
        let both = [&fast, &slow];
        let same = [of("fast", 4 << 30), of("slow", 1 << 30)];
        assert!(decide(&OWNER, &both, &same).is_empty());
        let (changed, gone) = (
            fast.metadata.name.to_string(),
            slow.metadata.name.to_string(),
        );
        assert_eq!(
            decide(&OWNER, &both, &[of("fast", 2 << 30)]),
            [
                Action::Update(
                    changed,
                    json!({"capacity": "2Gi", "maximumVolumeSize": "1Gi"})
                ),
                Action::Delete(gone),
            ]
        );
    }

    #[test]
    fn the_label_of_a_node_with_a_long_name_is_valid() {
        let long = "n".repeat(253);
        assert!(manager(&long).len() <= 63);
        assert_ne!(manager(&long), manager(&format!("{}m", "n".repeat(252))));
        assert_eq!(manager("n1"), "orlop-n1");
    }
}
