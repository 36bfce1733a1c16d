//! StorageVersions of API servers that no longer exist: removes their entries, and
//! deletes objects without entries (KEP-2339).

use std::collections::HashSet;
use std::sync::Arc;

use control_client::{
    Change, Client, DeleteOptions, Discard, Error, Meta, Metadata, Preconditions, Queue, Reflector,
    Resource, Selection, View, reflect_resource, resources, time,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::key::Key;
use crate::views::{Text, null_as_default};
use crate::work::{self, Outcome};
use crate::{Controller, optional};

/// StorageVersion, which is served behind its gate.
const VERSIONS: Resource = Resource::cluster(
    "internal.apiserver.k8s.io",
    "v1alpha1",
    "storageversions",
    "StorageVersion",
);

/// The namespace and the label of the leases by which API servers show that they live.
const NAMESPACE: &str = "kube-system";
const IDENTITY: &str = "apiserver.kubernetes.io/identity=kube-apiserver";

/// Removes the stored versions of servers that no longer exist.
pub const CONTROLLER: Controller = Controller {
    name: "storageversion-garbage-collector-controller",
    service_account: "storage-version-garbage-collector",
    start: |ctx| {
        let (client, reader) = (ctx.client.clone(), ctx.reader().clone());
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            let queue: Queue<Key> = work::queue();
            let (changed, stop) = (queue.clone(), shutdown.clone());
            let on_change = move |change: &Change<StorageVersion>| {
                if let Some(version) = &change.current {
                    changed.add(Key::from_meta(&version.metadata));
                }
            };
            let leases = reader.clone();
            let work = move |versions: Reflector<StorageVersion>, _| async move {
                let selection = Selection::all().namespace(NAMESPACE).labels(IDENTITY);
                let selection = selection.metadata_only();
                let servers: Reflector<Metadata> =
                    reflect_resource(&leases, resources::LEASES, selection);
                let this = Arc::new(VersionCollector {
                    client,
                    servers: servers.clone(),
                });
                let ended = queue.clone();
                let mut leases = servers.changes();
                let feed = async move {
                    while let Some(change) = leases.recv().await {
                        if change.current.is_none() {
                            for version in versions.cache().snapshot().iter() {
                                ended.add(Key::from_meta(&version.metadata));
                            }
                        }
                    }
                };
                let collect = async {
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = servers.synced() => {}
                    }
                    let work = work::call(&this, |this, key| async move { this.sync(key).await });
                    queue.run(QUEUE, 1, &stop, work).await;
                };
                let mut collect = std::pin::pin!(collect);
                tokio::select! {
                    () = &mut collect => return,
                    () = feed => {}
                }
                collect.await;
            };
            optional::follow(&reader, &[VERSIONS], &shutdown, on_change, work).await;
        })
    },
};

const QUEUE: &str = "storage_version_garbage_collector_storageversions";

/// A StorageVersion.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct StorageVersion {
    metadata: Meta,
    #[serde(deserialize_with = "null_as_default")]
    status: VersionStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VersionStatus {
    #[serde(deserialize_with = "null_as_default")]
    storage_versions: Vec<ServerVersion>,
}

/// The versions that one server stores.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ServerVersion {
    #[serde(rename = "apiServerID")]
    api_server_id: Text,
}

impl View for StorageVersion {
    const RESOURCE: Resource = VERSIONS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The action to take on a StorageVersion.
#[derive(Debug, PartialEq)]
enum VersionAction {
    Delete,
    /// The new status.
    Update(Value),
}

/// Removes the entries of servers that no longer exist from a stored StorageVersion.
fn decide(object: &Value, gone: &HashSet<Text>, now: &str) -> Option<VersionAction> {
    let all = object["status"]["storageVersions"].as_array()?;
    let lives = |entry: &&Value| {
        let server = entry["apiServerID"].as_str().unwrap_or_default();
        !gone.contains(server)
    };
    let left: Vec<Value> = all.iter().filter(lives).cloned().collect();
    if left.len() == all.len() {
        return None;
    }
    let Some(first) = left.first() else {
        return Some(VersionAction::Delete);
    };
    let encoding = &first["encodingVersion"];
    let agreed = left.iter().all(|it| it["encodingVersion"] == *encoding);
    let mut status = object["status"].clone();
    let before = status["commonEncodingVersion"].clone();
    if agreed {
        status["commonEncodingVersion"] = encoding.clone();
    } else if let Some(status) = status.as_object_mut() {
        status.remove("commonEncodingVersion");
    }
    let (holds, reason, message) = if agreed {
        (
            "True",
            "CommonEncodingVersionSet",
            "Common encoding version set",
        )
    } else {
        (
            "False",
            "CommonEncodingVersionUnset",
            "Common encoding version unset",
        )
    };
    let mut condition = json!({"type": CONDITION, "status": holds, "reason": reason,
        "message": message, "lastTransitionTime": now,
        "observedGeneration": object["metadata"]["generation"].as_i64().unwrap_or_default()});
    let replaced = agreed && !before.is_null() && before != *encoding;
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    match conditions.iter_mut().find(|it| it["type"] == CONDITION) {
        Some(known) => {
            if known["status"] == holds && !replaced {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
    status["conditions"] = conditions.into();
    status["storageVersions"] = left.into();
    Some(VersionAction::Update(status))
}

const CONDITION: &str = "AllEncodingVersionsEqual";

struct VersionCollector {
    client: Client,
    servers: Reflector<Metadata>,
}

impl VersionCollector {
    async fn sync(&self, key: Key) -> Outcome {
        let fresh = self.client.get::<Value>(&VERSIONS, "", &key.name).await;
        let mut object = match fresh {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let version: VersionStatus =
            serde_json::from_value(object["status"].clone()).unwrap_or_default();
        let mut gone = HashSet::new();
        for entry in version.storage_versions {
            let id = entry.api_server_id;
            if !gone.contains(&id) && self.is_gone(&id).await? {
                gone.insert(id);
            }
        }
        let now = time::seconds(Timestamp::now());
        match decide(&object, &gone, &now) {
            None => Ok(None),
            Some(VersionAction::Delete) => {
                let meta = &object["metadata"];
                let text = |field: &str| meta[field].as_str().map(ToOwned::to_owned);
                let options = DeleteOptions {
                    preconditions: Some(Preconditions {
                        uid: text("uid"),
                        resource_version: text("resourceVersion"),
                    }),
                    ..DeleteOptions::default()
                };
                let deleted = self.client.delete(&VERSIONS, "", &key.name, &options).await;
                work::unless_gone(deleted).map(|()| None)
            }
            Some(VersionAction::Update(status)) => {
                object["status"] = status;
                let written = self
                    .client
                    .update_status::<Discard>(&VERSIONS, "", &key.name, &object)
                    .await;
                work::unless_gone(written).map(|()| None)
            }
        }
    }

    /// Returns whether a server has no lease, according to the cache and to the API
    /// server.
    async fn is_gone(&self, id: &str) -> Result<bool, Error> {
        if self.servers.cache().get(NAMESPACE, id).is_some() {
            return Ok(false);
        }
        let lease = self
            .client
            .get::<Metadata>(&resources::LEASES, NAMESPACE, id)
            .await;
        match lease {
            Ok(lease) => {
                let (label, value) = IDENTITY.split_once('=').unwrap_or_default();
                Ok(lease.metadata.labels.get(label) != Some(value))
            }
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fake_api::FakeApi;

    fn version(entries: &[(&str, &str)]) -> Value {
        let entries: Vec<Value> = entries
            .iter()
            .map(|(id, encoding)| json!({"apiServerID": id, "encodingVersion": encoding}))
            .collect();
        json!({"status": {"storageVersions": entries}})
    }

    fn after(entries: &[(&str, &str)], gone: &[&str]) -> Option<VersionAction> {
        let gone = gone.iter().map(|id| Text::from(*id)).collect();
        decide(&version(entries), &gone, "2026-01-01T00:00:00Z")
    }

    #[test]
    fn entries_of_servers_that_are_gone_are_removed() {
        assert_eq!(after(&[("a", "v1")], &["b"]), None);
        assert_eq!(after(&[("a", "v1")], &["a"]), Some(VersionAction::Delete));
        let Some(VersionAction::Update(status)) = after(&[("a", "v1"), ("b", "v2")], &["a"]) else {
            panic!("an update");
        };
        assert_eq!(status["commonEncodingVersion"], "v2");
        assert_eq!(status["conditions"][0]["status"], "True");
        let three = [("a", "v1"), ("b", "v2"), ("c", "v1")];
        let Some(VersionAction::Update(status)) = after(&three, &["a"]) else {
            panic!("an update");
        };
        assert_eq!(status["commonEncodingVersion"], Value::Null);
        assert_eq!(
            status["conditions"][0]["reason"],
            "CommonEncodingVersionUnset"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_ends_takes_its_entries_with_it() {
        const PODS: &str = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions/core.pods";
        let lease =
            |id: &str| format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{id}");
        let api = FakeApi::new();
        api.answer_with(|request| {
            (request.path == "/apis/internal.apiserver.k8s.io/v1alpha1")
                .then(|| (200, json!({"resources": [{"name": "storageversions"}]})))
        });
        for id in ["a", "b"] {
            let labels = json!({"apiserver.kubernetes.io/identity": "kube-apiserver"});
            api.put(&lease(id), json!({"metadata": {"labels": labels}}));
        }
        api.put(PODS, version(&[("a", "v1"), ("b", "v1")]));
        let _running = api.run(&CONTROLLER, crate::Config::default());
        let second = Duration::from_secs(1);
        tokio::time::sleep(second).await;
        let entries = |api: &FakeApi| {
            let object = api.object(PODS)?;
            object["status"]["storageVersions"].as_array().map(Vec::len)
        };
        assert_eq!(entries(&api), Some(2));
        api.remove(&lease("a"));
        tokio::time::sleep(second).await;
        assert_eq!(entries(&api), Some(1));
        api.remove(&lease("b"));
        tokio::time::sleep(second).await;
        assert!(api.object(PODS).is_none());
    }
}
