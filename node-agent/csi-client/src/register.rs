//! Registration of CSI drivers ([`plugins`](node_agent_plugins)): the agent publishes them in
//! the node's `CSINode`, its labels (topology) and its annotation.

use std::collections::BTreeMap;
use std::sync::Arc;

use control_client::{Client as Api, Discard, Metadata, Patch, Resource, resources};
use csi_api::{Capability, NodeGetCapabilitiesResponse, NodeGetInfoResponse};
use futures::future::BoxFuture;
use node_agent_cri::RuntimeClient as Socket;
use node_agent_plugins::api::{Empty, PluginInfo};
use node_agent_plugins::{PATIENCE, PluginHandlers, RegistrationError};
use serde_json::{Value, json};

use super::{CsiDriver, CsiDrivers};

const CSI_NODES: Resource = Resource::cluster("storage.k8s.io", "v1", "csinodes", "CSINode");

/// How often a write to `CSINode` that conflicts with another is tried.
const ATTEMPTS: usize = 5;
/// Annotation of the node: by driver, what it calls the node.
const NODE_ID: &str = "csi.volume.kubernetes.io/nodeid";

impl PluginHandlers for CsiDrivers {
    fn r#type(&self) -> &'static str {
        "CSIPlugin"
    }

    fn take<'a>(
        self: Arc<Self>,
        info: &'a PluginInfo,
        endpoint: &'a str,
    ) -> BoxFuture<'a, Result<(), RegistrationError>> {
        Box::pin(async move { take(&self, info, endpoint).await })
    }

    fn gone<'a>(self: Arc<Self>, name: &'a str, _endpoint: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.put(name, None);
            self.known.notify_one();
            if let Err(error) = forget(&self, name).await {
                tracing::warn!(
                    driver = name,
                    %error,
                    "failed to remove a CSI driver from CSINode"
                );
            }
        })
    }
}

async fn take(
    drivers: &CsiDrivers,
    info: &PluginInfo,
    endpoint: &str,
) -> Result<(), RegistrationError> {
    let fits = |version: &String| {
        let version = version.trim_start_matches('v');
        version == "1" || version.starts_with("1.")
    };
    if !info.supported_versions.iter().any(fits) {
        return Err(RegistrationError::CsiVersions {
            driver: info.name.clone(),
            versions: info.supported_versions.clone(),
        });
    }
    let socket = Socket::new(endpoint);
    let node: NodeGetInfoResponse = socket
        .unary("csi.v1.Node/NodeGetInfo", Empty {}, PATIENCE)
        .await
        .map_err(RegistrationError::Plugin)?;
    if node.node_id.is_empty() {
        return Err(RegistrationError::NoNodeId(info.name.clone()));
    }
    let can: NodeGetCapabilitiesResponse = socket
        .unary("csi.v1.Node/NodeGetCapabilities", Empty {}, PATIENCE)
        .await
        .map_err(RegistrationError::Plugin)?;
    let can: Arc<[Capability]> = can
        .capabilities
        .iter()
        .filter_map(|c| c.rpc.map(|rpc| rpc.r#type()))
        .collect();
    publish(drivers, &info.name, &node).await?;
    drivers.put(&info.name, Some(CsiDriver { socket, can }));
    drivers.known.notify_one();
    Ok(())
}

/// Publishes the driver in the Node's annotation and labels, and in `CSINode`.
async fn publish(
    drivers: &CsiDrivers,
    name: &str,
    info: &NodeGetInfoResponse,
) -> Result<(), RegistrationError> {
    let api = drivers.api.as_ref().ok_or(RegistrationError::NoApiServer)?;
    let node: Metadata = api
        .get(&resources::NODES, "", &drivers.node)
        .await
        .map_err(RegistrationError::Api)?;
    let segments = info.accessible_topology.as_ref().map(|t| &t.segments);
    let labels = segments.cloned().unwrap_or_default();
    let ids = with_id(
        node.metadata.annotations.get(NODE_ID),
        name,
        Some(&info.node_id),
    );
    let patch = json!({"metadata": {"labels": labels, "annotations": {NODE_ID: ids}}});
    api.patch::<Discard>(
        &resources::NODES,
        "",
        &drivers.node,
        "",
        Patch::Strategic(&patch),
    )
    .await
    .map_err(RegistrationError::Api)?;
    change(api, &drivers.node, Some(&node.metadata.uid), |all| {
        add(all, name, info)
    })
    .await
}

/// Removes the driver from `CSINode` and the Node's annotation.
async fn forget(drivers: &CsiDrivers, name: &str) -> Result<(), RegistrationError> {
    let api = drivers.api.as_ref().ok_or(RegistrationError::NoApiServer)?;
    let node: Metadata = api
        .get(&resources::NODES, "", &drivers.node)
        .await
        .map_err(RegistrationError::Api)?;
    change(api, &drivers.node, Some(&node.metadata.uid), |all| {
        remove(all, name)
    })
    .await?;
    let ids = with_id(node.metadata.annotations.get(NODE_ID), name, None);
    let patch = json!({"metadata": {"annotations": {NODE_ID: ids}}});
    api.patch::<Discard>(
        &resources::NODES,
        "",
        &drivers.node,
        "",
        Patch::Strategic(&patch),
    )
    .await
    .map(|_| ())
    .map_err(RegistrationError::Api)
}

/// The annotation with or without a driver; none when it holds nothing.
fn with_id(text: Option<&str>, driver: &str, id: Option<&str>) -> Option<String> {
    let mut ids: BTreeMap<String, String> = text
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    match id {
        Some(id) => ids.insert(driver.to_owned(), id.to_owned()),
        None => ids.remove(driver),
    };
    let some = !ids.is_empty();
    some.then(|| serde_json::to_string(&ids).unwrap_or_default())
}

/// The drivers of a `CSINode` with this one as it is.
fn add(mut all: Vec<Value>, name: &str, info: &NodeGetInfoResponse) -> Vec<Value> {
    let segments = info.accessible_topology.as_ref().map(|t| &t.segments);
    let keys: Vec<&String> = segments.into_iter().flatten().map(|(key, _)| key).collect();
    let mut own = json!({"name": name, "nodeID": info.node_id, "topologyKeys": keys});
    if let Some(allocatable) = allocatable(info.max_volumes_per_node) {
        own["allocatable"] = allocatable;
    }
    all.retain(|one| one["name"] != name);
    all.push(own);
    all
}

fn remove(mut all: Vec<Value>, name: &str) -> Vec<Value> {
    all.retain(|one| one["name"] != name);
    all
}

/// `VolumeNodeResources` of a node that can hold `most` volumes of a driver; none for
/// one that does not say. The API counts in 32 bits.
pub(super) fn allocatable(most: i64) -> Option<Value> {
    (most > 0).then(|| json!({"count": most.min(i64::from(i32::MAX))}))
}

/// Changes the drivers of the node's `CSINode`. A missing one is created if the `uid` of the
/// node is given.
pub(super) async fn change(
    api: &Api,
    node: &str,
    uid: Option<&str>,
    with: impl Fn(Vec<Value>) -> Vec<Value>,
) -> Result<(), RegistrationError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let found = api.get::<Value>(&CSI_NODES, "", node).await;
        let written = match found {
            Ok(mut object) => {
                let all = object["spec"]["drivers"].as_array().cloned();
                let before = all.unwrap_or_default();
                let after = with(before.clone());
                if before == after {
                    return Ok(());
                }
                object["spec"]["drivers"] = after.into();
                api.update::<Discard>(&CSI_NODES, "", node, &object).await
            }
            Err(error) if error.is_not_found() && uid.is_some() => {
                let object = json!({
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": {"name": node, "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]},
                    "spec": {"drivers": with(Vec::new())},
                });
                api.create::<Discard>(&CSI_NODES, "", &object).await
            }
            Err(error) => return Err(RegistrationError::Api(error)),
        };
        match written {
            Ok(_) => return Ok(()),
            Err(error) => {
                let is_race = error.is_conflict() || error.is_already_exists();
                if !is_race || attempts == ATTEMPTS {
                    return Err(RegistrationError::Api(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_in_the_nodes_list_once_as_it_is_now() {
        let info = |id: &str, most| NodeGetInfoResponse {
            node_id: id.to_owned(),
            max_volumes_per_node: most,
            accessible_topology: Some(csi_api::Topology {
                segments: [("zone".to_owned(), "a".to_owned())].into(),
            }),
        };
        let all = add(vec![json!({"name": "other"})], "d", &info("n", 0));
        let all = add(all, "d", &info("n2", 9));
        assert_eq!(
            all,
            [
                json!({"name": "other"}),
                json!({"name": "d", "nodeID": "n2", "topologyKeys": ["zone"], "allocatable": {"count": 9}})
            ]
        );
        assert_eq!(remove(all, "d"), [json!({"name": "other"})]);
    }

    #[test]
    fn the_nodes_annotation_names_each_driver_and_goes_with_the_last() {
        let one = with_id(None, "d", Some("n")).unwrap();
        assert_eq!(one, r#"{"d":"n"}"#);
        let two = with_id(Some(&one), "e", Some("m")).unwrap();
        assert_eq!(two, r#"{"d":"n","e":"m"}"#);
        assert_eq!(with_id(Some(&two), "d", None).unwrap(), r#"{"e":"m"}"#);
        assert_eq!(with_id(Some(&one), "d", None), None);
    }
}
