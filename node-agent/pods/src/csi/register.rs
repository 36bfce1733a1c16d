//! Drivers make themselves known by a socket in `plugins_registry`
//! (`pluginregistration`), and the agent tells the API of them: in the node's
//! `CSINode`, its labels (topology) and its annotation.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_client::{Client as Api, Discard, Metadata, Patch, Resource, resources};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::api::{
    Capability, Empty, NodeGetCapabilitiesResponse, NodeGetInfoResponse, PluginInfo,
    RegistrationStatus,
};
use super::{Driver, Drivers};
use crate::cri::Client as Socket;

/// How often the folder is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a registration that failed waits at first, and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(122)];

/// How long a plugin may take for one call.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

const CSI_NODES: Resource = Resource::cluster("storage.k8s.io", "v1", "csinodes", "CSINode");

/// Annotation of the node: by driver, what it calls the node.
const NODE_ID: &str = "csi.volume.kubernetes.io/nodeid";

/// A socket as it was seen: another file under the same name is another plugin.
type Seen = (u64, u64, i64);

enum State {
    /// Not through yet: when to try again, and how long to wait after that.
    Failed(Instant, Duration),
    /// Registered, as a driver of that name; none for plugins of other kinds.
    Known(Option<String>),
}

/// Keeps the drivers of the node known until `shutdown`.
pub async fn watch(drivers: Arc<Drivers>, shutdown: CancellationToken) {
    let folder = drivers.root.join("plugins_registry");
    if let Err(error) = std::fs::create_dir_all(&folder) {
        tracing::warn!(folder = %folder.display(), %error, "cannot make the folder of plugins");
    }
    let mut known: BTreeMap<PathBuf, (Seen, State)> = BTreeMap::new();
    loop {
        let found = sockets(&folder);
        let gone: Vec<PathBuf> = known
            .iter()
            .filter(|(path, (seen, _))| found.get(*path) != Some(seen))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            if let Some((_, State::Known(Some(name)))) = known.remove(&path) {
                tracing::info!(driver = name, "a CSI driver is gone");
                drivers.put(&name, None);
                if let Err(error) = forget(&drivers, &name).await {
                    tracing::warn!(
                        driver = name,
                        error,
                        "cannot tell that a CSI driver is gone"
                    );
                }
            }
        }
        for (path, seen) in found {
            let wait = match known.get(&path) {
                Some((_, State::Known(_))) => continue,
                Some((_, State::Failed(at, _))) if *at > Instant::now() => continue,
                Some((_, State::Failed(_, wait))) => *wait,
                None => RETRY[0],
            };
            let state = match register(&drivers, &path).await {
                Ok(name) => State::Known(name),
                Err(error) => {
                    let socket = path.display();
                    tracing::warn!(%socket, error, "cannot register a plugin");
                    State::Failed(Instant::now() + wait, (wait * 2).min(RETRY[1]))
                }
            };
            known.insert(path, (seen, state));
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// The sockets in a folder, and in the folders in it.
fn sockets(folder: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut found = BTreeMap::new();
    let mut look = |folder: &Path| -> Vec<PathBuf> {
        let mut more = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            let Ok(meta) = entry.metadata() else { continue };
            if hidden {
                continue;
            }
            if meta.file_type().is_socket() {
                found.insert(path, (meta.dev(), meta.ino(), meta.ctime_nsec()));
            } else if meta.is_dir() {
                more.push(path);
            }
        }
        more
    };
    for inner in look(folder) {
        look(&inner);
    }
    found
}

/// Asks a plugin what it is, makes use of it, and tells it so. The driver's
/// name, if it is one.
async fn register(drivers: &Drivers, path: &Path) -> Result<Option<String>, String> {
    let socket = Socket::new(&path.display().to_string());
    let info: PluginInfo = socket
        .unary(
            "pluginregistration.Registration/GetInfo",
            Empty {},
            PATIENCE,
        )
        .await
        .map_err(|e| e.to_string())?;
    if info.r#type != "CSIPlugin" {
        // somebody else's business; it is not told that it is registered
        tracing::warn!(
            kind = info.r#type,
            name = info.name,
            "plugins of this kind are not supported"
        );
        return Ok(None);
    }
    let taken = take(drivers, &info, path).await;
    let status = RegistrationStatus {
        plugin_registered: taken.is_ok(),
        error: taken.clone().err().unwrap_or_default(),
    };
    let told = socket
        .unary::<_, Empty>(
            "pluginregistration.Registration/NotifyRegistrationStatus",
            status,
            PATIENCE,
        )
        .await;
    taken?;
    if let Err(error) = told {
        tracing::debug!(driver = info.name, %error, "cannot tell a driver that it is registered");
    }
    tracing::info!(driver = info.name, "a CSI driver is registered");
    Ok(Some(info.name))
}

async fn take(drivers: &Drivers, info: &PluginInfo, path: &Path) -> Result<(), String> {
    let fits = |version: &String| {
        let version = version.trim_start_matches('v');
        version == "1" || version.starts_with("1.")
    };
    if !info.supported_versions.iter().any(fits) {
        return Err(format!(
            "CSI driver {} speaks {:?}, and none of them is version 1",
            info.name, info.supported_versions
        ));
    }
    let endpoint = if info.endpoint.is_empty() {
        path.display().to_string()
    } else {
        info.endpoint.clone()
    };
    let socket = Socket::new(&endpoint);
    let node: NodeGetInfoResponse = socket
        .unary("csi.v1.Node/NodeGetInfo", Empty {}, PATIENCE)
        .await
        .map_err(|e| e.to_string())?;
    if node.node_id.is_empty() {
        return Err(format!("CSI driver {} has no id for this node", info.name));
    }
    let can: NodeGetCapabilitiesResponse = socket
        .unary("csi.v1.Node/NodeGetCapabilities", Empty {}, PATIENCE)
        .await
        .map_err(|e| e.to_string())?;
    let can: Arc<[Capability]> = can
        .capabilities
        .iter()
        .filter_map(|c| c.rpc.map(|rpc| rpc.r#type()))
        .collect();
    tell(drivers, &info.name, &node).await?;
    drivers.put(&info.name, Some(Driver { socket, can }));
    Ok(())
}

/// Tells the API of the driver.
async fn tell(drivers: &Drivers, name: &str, info: &NodeGetInfoResponse) -> Result<(), String> {
    let api = drivers.api.as_ref().ok_or("there is no API server")?;
    let node: Metadata = api
        .get(&resources::NODES, "", &drivers.node)
        .await
        .map_err(|e| e.chain())?;
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
    .map_err(|e| e.chain())?;
    change(api, &drivers.node, &node.metadata.uid, |all| {
        add(all, name, info)
    })
    .await
}

async fn forget(drivers: &Drivers, name: &str) -> Result<(), String> {
    let api = drivers.api.as_ref().ok_or("there is no API server")?;
    let node: Metadata = api
        .get(&resources::NODES, "", &drivers.node)
        .await
        .map_err(|e| e.chain())?;
    change(api, &drivers.node, &node.metadata.uid, |all| {
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
    .map_err(|e| e.chain())
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
    if info.max_volumes_per_node > 0 {
        own["allocatable"] = json!({"count": info.max_volumes_per_node});
    }
    all.retain(|one| one["name"] != name);
    all.push(own);
    all
}

fn remove(mut all: Vec<Value>, name: &str) -> Vec<Value> {
    all.retain(|one| one["name"] != name);
    all
}

/// Changes the drivers of the node's `CSINode`, which is made when it is not
/// there.
async fn change(
    api: &Api,
    node: &str,
    uid: &str,
    with: impl Fn(Vec<Value>) -> Vec<Value>,
) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..5 {
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
            Err(error) if error.is_not_found() => {
                let object = json!({
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": {"name": node, "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]},
                    "spec": {"drivers": with(Vec::new())},
                });
                api.create::<Discard>(&CSI_NODES, "", &object).await
            }
            Err(error) => return Err(error.chain()),
        };
        match written {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() || error.is_already_exists() => {
                last = error.chain();
            }
            Err(error) => return Err(error.chain()),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_in_the_nodes_list_once_as_it_is_now() {
        let info = |id: &str, most| NodeGetInfoResponse {
            node_id: id.to_owned(),
            max_volumes_per_node: most,
            accessible_topology: Some(super::super::api::Topology {
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
