//! A node without pods while its agent is replaced.

use std::time::{Duration, Instant};

use control_client::{Client, Error as ClientError, Patch, resources};
use serde_json::{Value, json};

use super::ready::LOOK;
use crate::error::Error;

/// The annotation of a pod that comes from a file of its node.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A cordoned node without the pods that can run elsewhere.
pub struct DrainOutcome<'a> {
    client: &'a Client,
    node: &'a str,
    /// Whether it took no new pods before, which stays so.
    was_cordoned: bool,
}

/// A pod that has to leave.
#[derive(Debug, PartialEq, Eq)]
struct EvictedPod {
    namespace: String,
    name: String,
    uid: String,
}

/// The pods that a drained node must not have: not those that have ended, that a DaemonSet would
/// put there again, or that come from files.
fn leaving(pods: &Value) -> Vec<EvictedPod> {
    let stays = |pod: &Value| {
        let owners = pod["metadata"]["ownerReferences"].as_array();
        let is_daemon = owners
            .into_iter()
            .flatten()
            .any(|owner| owner["controller"] == true && owner["kind"] == "DaemonSet");
        let has_ended = ["Succeeded", "Failed"].map(Some);
        is_daemon
            || !pod["metadata"]["annotations"][MIRROR].is_null()
            || has_ended.contains(&pod["status"]["phase"].as_str())
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = pods["items"].as_array().into_iter().flatten();
    pods.filter(|pod| !stays(pod))
        .map(|pod| EvictedPod {
            namespace: text(&pod["metadata"]["namespace"]),
            name: text(&pod["metadata"]["name"]),
            uid: text(&pod["metadata"]["uid"]),
        })
        .collect()
}

// === impl Drained ===

impl<'a> DrainOutcome<'a> {
    /// Cordons the node and evicts its pods; waits for PodDisruptionBudgets.
    ///
    /// # Errors
    /// The API's error, or pods that remain in the end; the node is then uncordoned.
    pub async fn begin(
        client: &'a Client,
        node: &'a str,
        patience: Duration,
    ) -> Result<Self, Error> {
        let found: Value = client
            .get(&resources::NODES, "", node)
            .await
            .map_err(Error::Client)?;
        let drained = Self {
            client,
            node,
            was_cordoned: found["spec"]["unschedulable"] == true,
        };
        drained.cordon(true).await?;
        match drained.evict(patience).await {
            Ok(()) => Ok(drained),
            Err(error) => {
                drained.end().await?;
                Err(error)
            }
        }
    }

    /// Uncordons the node, unless it was cordoned before.
    ///
    /// # Errors
    /// The API's error.
    pub async fn end(self) -> Result<(), Error> {
        if self.was_cordoned {
            return Ok(());
        }
        self.cordon(false).await
    }

    async fn cordon(&self, unschedulable: bool) -> Result<(), Error> {
        let body = json!({"spec": {"unschedulable": unschedulable}});
        self.client
            .patch::<Value>(&resources::NODES, "", self.node, "", Patch::Merge(&body))
            .await
            .map(drop)
            .map_err(Error::Client)
    }

    async fn evict(&self, patience: Duration) -> Result<(), Error> {
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", self.node);
        let began = Instant::now();
        loop {
            let pods: Value = self
                .client
                .request(http::Method::GET, &path, None::<&()>)
                .await
                .map_err(Error::Client)?;
            let left = leaving(&pods);
            if left.is_empty() {
                return Ok(());
            }
            let mut reason = "they have not ended".to_owned();
            for pod in &left {
                if let Some(refused) = self.evict_one(pod).await? {
                    reason = refused;
                }
            }
            if began.elapsed() > patience {
                let names: Vec<&str> = left.iter().map(|pod| &*pod.name).collect();
                return Err(Error::Program {
                    command: format!("drain {}", self.node),
                    detail: format!("left after {patience:?}: {}: {reason}", names.join(", ")),
                });
            }
            tokio::time::sleep(4 * LOOK).await;
        }
    }

    /// Asks for the eviction of a pod; returns why it is not yet allowed.
    async fn evict_one(&self, pod: &EvictedPod) -> Result<Option<String>, Error> {
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        });
        let asked: Result<Value, _> = self
            .client
            .create_subresource(
                &resources::PODS,
                &pod.namespace,
                &pod.name,
                "eviction",
                &body,
            )
            .await;
        match asked {
            Ok(_) => Ok(None),
            // It went, or another took its place.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(None),
            Err(error) if is_later(&error) => Ok(Some(error.chain())),
            Err(error) => Err(Error::Client(error)),
        }
    }
}

/// Whether a budget does not allow it now.
fn is_later(error: &ClientError) -> bool {
    error.status().is_some_and(|status| status.code == 429)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_leave_that_would_not_be_there_again() {
        let pod = |name: &str, owner: &str, more: Value| {
            let mut pod = json!({
                "metadata": {
                    "namespace": "default",
                    "name": name,
                    "uid": "u",
                    "ownerReferences": [{"kind": owner, "controller": true}],
                },
                "status": {"phase": "Running"},
            });
            for (key, value) in more.as_object().into_iter().flatten() {
                pod[key] = value.clone();
            }
            pod
        };
        let none = json!({});
        let mut mirror = pod("mirror", "Node", none.clone());
        mirror["metadata"]["annotations"] = json!({MIRROR: "x"});
        let ended = json!({"status": {"phase": "Succeeded"}});
        let pods = json!({"items": [
            pod("web", "ReplicaSet", none.clone()),
            pod("log", "DaemonSet", none.clone()),
            pod("done", "Job", ended),
            pod("waiting", "StatefulSet", json!({"status": {"phase": "Pending"}})),
            mirror,
        ]});
        let left = leaving(&pods);
        let names: Vec<&str> = left.iter().map(|pod| &*pod.name).collect();
        assert_eq!(names, ["web", "waiting"]);
    }
}
