//! Scale, rolling update, undo.

use tests::{Cluster, Failure, ensure, eventually};

use super::IMAGE;

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl(&format!(
        "create deployment roll --image={IMAGE} --replicas=3"
    ))?;
    cluster.kubectl("rollout status deployment/roll --timeout=60s")?;
    cluster.kubectl("scale deployment/roll --replicas=5")?;
    cluster.kubectl("rollout status deployment/roll --timeout=60s")?;
    let pods = cluster.get("pods -l app=roll")?;
    let nodes: std::collections::BTreeSet<_> = pods["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|pod| pod["spec"]["nodeName"].as_str())
        .collect();
    ensure(
        nodes.len() == 2,
        format!("five pods are on both nodes, not on {nodes:?}"),
    )?;

    // A new template: new pods replace the old, without a moment below 4 of 5.
    cluster.kubectl("set env deployment/roll VERSION=2")?;
    let mut least = u64::MAX;
    eventually("the update", 60, || {
        let roll = cluster.get("deployment roll")?;
        least = least.min(roll["status"]["availableReplicas"].as_u64().unwrap_or(0));
        let done = roll["status"]["updatedReplicas"] == 5
            && roll["status"]["replicas"] == 5
            && roll["status"]["availableReplicas"] == 5;
        ensure(done, roll["status"].to_string())
    })?;
    ensure(
        least >= 4,
        format!("{least} of 5 were available during the update"),
    )?;
    let history = cluster.kubectl("rollout history deployment/roll")?;
    ensure(
        history
            .lines()
            .filter(|line| line.starts_with(['1', '2']))
            .count()
            == 2,
        format!("history: {history}"),
    )?;

    cluster.kubectl("rollout undo deployment/roll")?;
    cluster.kubectl("rollout status deployment/roll --timeout=60s")?;
    let roll = cluster.get("deployment roll")?;
    ensure(
        roll["spec"]["template"]["spec"]["containers"][0]["env"].is_null(),
        "undo takes the old template",
    )?;
    cluster.kubectl("scale deployment/roll --replicas=0")?;
    eventually("no pods", 60, || {
        let pods = cluster.get("pods -l app=roll")?;
        ensure(pods["items"] == serde_json::json!([]), "pods are left")
    })?;
    cluster.kubectl("delete deployment roll").map(drop)
}
