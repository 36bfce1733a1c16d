//! Gathers the facts for an upgrade: both binaries, the disk, and the cluster.

use std::collections::BTreeMap;
use std::path::Path;

use control_client::{Client, Selection, resources};
use serde_json::Value;

use super::plan::{DeprecatedApi, UpgradeFacts, UpgradePart};
use super::{Machine, binary};
use crate::error::Error;
use crate::status::{Answer, cluster};
use crate::stores::STORE;

/// Space that a restart needs beside the store and the binaries.
const RESERVE: u64 = 64 << 20;

/// Queries both binaries, the disk and the cluster.
///
/// # Errors
/// A binary that cannot be queried.
pub async fn gather(
    machine: &Machine,
    binary: &Path,
    to: &Path,
    client: Option<&Client>,
) -> Result<UpgradeFacts, Error> {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let store = size(&machine.data_dir.join(STORE));
    let folder = binary.parent().unwrap_or(binary);
    let free = nix::sys::statvfs::statvfs(folder)
        .map(|disk| disk.blocks_available() * disk.fragment_size());
    let nodes = match client {
        Some(client) => nodes(client).await.ok(),
        None => None,
    };
    let deprecated = match client {
        Some(client) => match cluster::text(client, "/metrics").await {
            Answer::Known(text) => Some(deprecated(&text)),
            _ => None,
        },
        None => None,
    };
    Ok(UpgradeFacts {
        current: binary::query_version(binary)?,
        new: binary::query_version(to)?,
        nodes,
        deprecated,
        disk: (free.unwrap_or(0), 2 * size(to) + store + RESERVE),
        part: UpgradePart::Server {
            makes_backup: false,
        },
        serves: match client {
            Some(client) => version(client).await,
            None => None,
        },
    })
}

/// Nodes with the versions of their kubelets.
pub async fn nodes(client: &Client) -> Result<Vec<(String, String)>, Error> {
    let list = client
        .list::<Value>(&resources::NODES, &Selection::all())
        .await
        .map_err(Error::Client)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let node = |node: &Value| {
        let version = &node["status"]["nodeInfo"]["kubeletVersion"];
        (text(&node["metadata"]["name"]), text(version))
    };
    Ok(list.items.iter().map(node).collect())
}

/// The deprecated APIs of a page of metrics.
fn deprecated(metrics: &str) -> Vec<DeprecatedApi> {
    let lines = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("apiserver_requested_deprecated_apis{"));
    lines
        .map(|labels| {
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!("{name}=\""))?;
                rest.split('"').next().map(str::to_owned)
            };
            let value = |name| label(name).unwrap_or_default();
            let name = format!(
                "{}.{}.{}",
                value("resource"),
                value("version"),
                value("group")
            );
            DeprecatedApi {
                name: name.trim_end_matches('.').to_owned(),
                removed_in: value("removed_release"),
            }
        })
        .collect()
}

/// The version of Kubernetes whose API the server that answers serves.
pub async fn version(client: &Client) -> Option<String> {
    match cluster::get(client, "/version").await {
        Answer::Known(version) => Some(version["gitVersion"].as_str()?.to_owned()),
        _ => None,
    }
}

/// How the server stores each resource: hashes of discovery by `GROUP/VERSION/RESOURCE`.
///
/// # Errors
/// A cluster that does not answer.
pub async fn stored_as(client: &Client) -> Result<BTreeMap<String, String>, Error> {
    let mut found = BTreeMap::new();
    for path in versions(client).await? {
        let list = client.request::<Value>(http::Method::GET, &path, None::<&()>);
        match list.await {
            Ok(list) => take_hashes(&list, &mut found),
            // An extension API server that cannot be reached stores its objects elsewhere.
            Err(error) => tracing::debug!(path, error = %error.chain(), "not asked"),
        }
    }
    Ok(found)
}

/// The paths of all versions of groups.
async fn versions(client: &Client) -> Result<Vec<String>, Error> {
    let groups: Value = client
        .request(http::Method::GET, "/apis", None::<&()>)
        .await
        .map_err(Error::Client)?;
    let groups = groups["groups"].as_array().into_iter().flatten();
    let versions = groups.flat_map(|group| group["versions"].as_array().into_iter().flatten());
    let paths =
        versions.filter_map(|version| Some(format!("/apis/{}", version["groupVersion"].as_str()?)));
    Ok(std::iter::once("/api/v1".to_owned()).chain(paths).collect())
}

fn take_hashes(list: &Value, found: &mut BTreeMap<String, String>) {
    let version = list["groupVersion"].as_str().unwrap_or_default();
    for resource in list["resources"].as_array().into_iter().flatten() {
        let (name, hash) = (&resource["name"], &resource["storageVersionHash"]);
        if let (Some(name), Some(hash)) = (name.as_str(), hash.as_str()) {
            found.insert(format!("{version}/{name}"), hash.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deprecated_apis_are_read_from_metrics() {
        let page = "# TYPE apiserver_requested_deprecated_apis gauge\n\
            apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"endpoints\",subresource=\"\",version=\"v1\"} 1\n\
            apiserver_requested_deprecated_apis{group=\"flowcontrol.apiserver.k8s.io\",removed_release=\"1.32\",resource=\"flowschemas\",subresource=\"\",version=\"v1beta3\"} 1\n";
        let found = deprecated(page);
        assert_eq!(found[0].name, "endpoints.v1");
        assert_eq!(
            found[1].name,
            "flowschemas.v1beta3.flowcontrol.apiserver.k8s.io"
        );
        assert_eq!(found[1].removed_in, "1.32");
    }

    #[test]
    fn hashes_are_those_of_resources_and_not_of_subresources() {
        let list = serde_json::json!({
            "groupVersion": "apps/v1",
            "resources": [
                {"name": "deployments", "storageVersionHash": "8aSe+NMegvE="},
                {"name": "deployments/scale"},
            ],
        });
        let mut found = BTreeMap::new();
        take_hashes(&list, &mut found);
        assert_eq!(
            found,
            BTreeMap::from([("apps/v1/deployments".to_owned(), "8aSe+NMegvE=".to_owned())])
        );
    }
}
