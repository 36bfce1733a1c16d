//! Removes pods that no other component removes: pods of deleted nodes, and terminated
//! pods beyond a limit.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_client::{Client, DeleteOptions, Discard, Error, Metadata, Patch, resources};
use serde_json::json;

use crate::Controller;
use crate::kind_cache::KindCache;
use crate::views::{Node, Pod, Text, seconds_now};
use crate::work;

/// How often is looked.
const PERIOD: Duration = Duration::from_secs(20);

/// The time between the deletion of a node and of its pods: a node of the same name may
/// come back.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Removes pods that no other component removes.
pub const CONTROLLER: Controller = Controller {
    name: "pod-garbage-collector-controller",
    service_account: "pod-garbage-collector",
    start: |ctx| {
        let collector = PodCollector {
            client: ctx.client.clone(),
            pods: ctx.pods(),
            nodes: ctx.nodes(),
            threshold: ctx.config.terminated_pod_threshold,
        };
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            collector.pods.ready().await;
            collector.nodes.ready().await;
            let mut gone = Vec::new();
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(PERIOD) => collector.round(&mut gone).await,
                }
            }
        })
    },
};

struct PodCollector {
    client: Client,
    pods: Arc<KindCache<Pod>>,
    nodes: Arc<KindCache<Node>>,
    threshold: usize,
}

/// The reason why a pod is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalReason {
    /// Its node was deleted.
    Orphaned,
    /// It was deleted before it was bound: no kubelet will end it.
    NeverBound,
    /// It ended, and too many have.
    Ended,
}

/// Chooses the pods to remove. `gone` holds permanently deleted nodes.
fn decide(
    pods: &[Arc<Pod>],
    gone: &HashSet<Text>,
    threshold: usize,
) -> Vec<(Arc<Pod>, RemovalReason)> {
    let mut chosen = Vec::new();
    let mut ended: Vec<&Arc<Pod>> = Vec::new();
    for pod in pods {
        let unbound = pod.spec.node_name.is_empty();
        if !unbound && gone.contains(&pod.spec.node_name) {
            chosen.push((Arc::clone(pod), RemovalReason::Orphaned));
        } else if unbound && pod.metadata.is_terminating() {
            chosen.push((Arc::clone(pod), RemovalReason::NeverBound));
        } else if pod.is_terminal() {
            ended.push(pod);
        }
    }
    if threshold > 0 && ended.len() > threshold {
        // evicted ones tell least, then the oldest
        ended.sort_by_key(|pod| {
            let evicted = pod.status.reason == "Evicted";
            (
                !evicted,
                pod.metadata.creation_timestamp,
                pod.metadata.name.clone(),
            )
        });
        let surplus = ended.len() - threshold;
        chosen.extend(
            ended
                .into_iter()
                .take(surplus)
                .map(|pod| (Arc::clone(pod), RemovalReason::Ended)),
        );
    }
    chosen
}

impl PodCollector {
    async fn round(&self, gone: &mut Vec<(Text, Instant)>) {
        let pods = self.pods.all();
        let used: HashSet<&Text> = pods
            .iter()
            .map(|pod| &pod.spec.node_name)
            .filter(|name| !name.is_empty() && self.nodes.get("", name).is_none())
            .collect();
        gone.retain(|(name, _)| used.contains(name));
        for name in used {
            if !gone.iter().any(|(known, _)| known == name) {
                gone.push((name.clone(), Instant::now()));
            }
        }
        let mut for_good = HashSet::new();
        for (name, since) in gone.iter() {
            // ask the server itself: the cache may be wrong, the pods would be lost
            if since.elapsed() >= QUARANTINE && self.is_gone(name).await {
                for_good.insert(name.clone());
            }
        }
        let chosen = decide(&pods, &for_good, self.threshold);
        let (removed, failure) =
            work::together(chosen.iter().map(|(pod, reason)| self.remove(pod, *reason))).await;
        if removed > 0 {
            tracing::info!(removed, "orphaned or terminated pods removed");
        }
        if let Some(error) = failure {
            tracing::warn!(error = %error.chain(), "failed to remove a pod, retrying later");
        }
    }

    async fn is_gone(&self, node: &str) -> bool {
        let found = self
            .client
            .get::<Metadata>(&resources::NODES, "", node)
            .await;
        matches!(found, Err(error) if error.is_not_found())
    }

    async fn remove(&self, pod: &Pod, reason: RemovalReason) -> Result<(), Error> {
        let meta = &pod.metadata;
        let pods = &resources::PODS;
        if reason == RemovalReason::Orphaned && !pod.is_terminal() {
            let patch = json!([
                {"op": "test", "path": "/metadata/uid", "value": meta.uid},
                {"op": "add", "path": "/status/phase", "value": "Failed"},
                {"op": "add", "path": "/status/conditions/-", "value": {
                    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists", "lastTransitionTime": seconds_now(),
                }},
            ]);
            let noted = self
                .client
                .patch_status::<Discard>(pods, &meta.namespace, &meta.name, Patch::Json(&patch))
                .await;
            if let Err(error) = noted {
                tracing::debug!(pod = %meta.name, error = %error.chain(), "failed to record the binding failure");
            }
        }
        let options = DeleteOptions::of_uid(meta.uid.as_str()).grace(0);
        let deleted = self
            .client
            .delete(pods, &meta.namespace, &meta.name, &options)
            .await;
        work::unless_gone(deleted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: serde_json::Value) -> Arc<Pod> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn orphans_and_never_bound_go_and_others_stay() {
        let pods = [
            pod(json!({"metadata":{"name":"orphan"},"spec":{"nodeName":"gone"}})),
            pod(json!({"metadata":{"name":"fine"},"spec":{"nodeName":"here"}})),
            pod(json!({"metadata":{"name":"waiting"}})),
            pod(json!({"metadata":{"name":"unbound","deletionTimestamp":"2026-01-01T00:00:00Z"}})),
        ];
        let chosen: Vec<_> = decide(&pods, &HashSet::from(["gone".into()]), 10)
            .into_iter()
            .map(|(pod, reason)| (pod.metadata.name.to_string(), reason))
            .collect();
        assert_eq!(
            chosen,
            [
                ("orphan".to_owned(), RemovalReason::Orphaned),
                ("unbound".to_owned(), RemovalReason::NeverBound)
            ]
        );
    }

    #[test]
    fn evicted_and_oldest_ended_pods_go_first() {
        let ended = |name: &str, second: u32, reason: &str| {
            pod(
                json!({"metadata":{"name":name,"creationTimestamp":format!("2026-01-01T00:00:{second:02}Z")},
                "status":{"phase":"Failed","reason":reason}}),
            )
        };
        let pods = [
            ended("new", 30, ""),
            ended("old", 10, ""),
            ended("evicted", 40, "Evicted"),
        ];
        let names = |threshold| -> Vec<String> {
            decide(&pods, &HashSet::new(), threshold)
                .into_iter()
                .map(|(pod, _)| pod.metadata.name.to_string())
                .collect()
        };
        assert_eq!(names(1), ["evicted", "old"]);
        assert!(names(3).is_empty());
        assert!(names(0).is_empty());
    }
}
