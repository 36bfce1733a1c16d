//! Places pods one after the other, in the order in which the scheduler takes them.

use std::sync::Arc;

use control_client::resources;
use control_scheduler::objects::{ObjectSet, view};
use control_scheduler::view::Pod;
use control_scheduler::{Placer, PodOutcome};
use serde::Serialize;
use serde_json::Value;

use super::change::DrainedNode;
use super::workloads::IncomingPods;
use crate::error::Error;

/// The outcome for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", untagged)]
pub enum Fate {
    /// It is, or goes, on this node.
    On {
        /// The node.
        node: String,
    },
    /// It fits nowhere.
    Nowhere {
        /// The message of its condition.
        message: String,
    },
    /// It is not recreated.
    Gone {
        /// The reason.
        gone: String,
    },
}

impl Fate {
    /// The node; `-` for none.
    pub fn node(&self) -> &str {
        match self {
            Self::On { node } => node,
            _ => "-",
        }
    }

    /// Returns why there is no node.
    pub fn why(&self) -> &str {
        match self {
            Self::On { .. } => "",
            Self::Nowhere { message } => message,
            Self::Gone { gone } => gone,
        }
    }

    /// Whether it has a node.
    pub const fn is_placed(&self) -> bool {
        matches!(self, Self::On { .. })
    }
}

/// A pod that is to be placed.
struct WaitingPod {
    pod: Pod,
    /// Whether it is meant for one particular node, which may reject it.
    of_daemon_set: bool,
}

/// Places pods that are pending, that left drained nodes, and that are new; by priority,
/// those that are there already first.
///
/// # Errors
/// Objects that cannot be read.
pub fn place_all(
    mut objects: ObjectSet,
    incoming: &[IncomingPods],
    drained: &[DrainedNode],
) -> Result<Vec<(String, Fate)>, Error> {
    let read = |pod: &Value| view::<Pod>(pod).map_err(Error::Objects);
    let mut waiting = Vec::new();
    for pod in pending(&objects) {
        let pod = read(&pod)?;
        if !pod.gated && !pod.finished && !pod.metadata.is_terminating() {
            waiting.push(WaitingPod {
                pod,
                of_daemon_set: false,
            });
        }
    }
    let mut fates = Vec::new();
    for one in drained {
        if one.comes_back {
            waiting.push(WaitingPod {
                pod: read(&one.object)?,
                of_daemon_set: false,
            });
        } else {
            let gone = "no controller would create it again".to_owned();
            fates.push((one.pod.clone(), Fate::Gone { gone }));
        }
    }
    for one in incoming {
        for pod in one.pods(&objects) {
            let pod = read(&pod)?;
            objects.remove(
                &resources::PODS,
                &pod.metadata.namespace,
                &pod.metadata.name,
            );
            waiting.push(WaitingPod {
                pod,
                of_daemon_set: one.is_daemon_set(),
            });
        }
    }
    waiting.sort_by_key(|it| std::cmp::Reverse(it.pod.priority));
    let mut cluster = objects.cluster().map_err(Error::Objects)?;
    let mut placer = Placer::default();
    for WaitingPod { pod, of_daemon_set } in waiting {
        let pod = Arc::new(pod);
        let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        match placer.outcome(&mut cluster, &pod, 0) {
            PodOutcome::Placed {
                node, reservation, ..
            } => {
                cluster.assumed.reserve(&pod, &reservation);
                cluster.snapshot.put_pod(&pod, &node);
                fates.push((name, Fate::On { node }));
            }
            PodOutcome::Nowhere { .. } | PodOutcome::Failed { .. }
                if of_daemon_set && !is_meant_for_a_node(&mut placer, &mut cluster, &pod) => {}
            PodOutcome::Nowhere {
                preemption: Some(preemption),
                ..
            } => {
                for victim in &preemption.victims {
                    cluster.snapshot.remove_pod(&victim.key());
                    let victim = format!("{}/{}", victim.metadata.namespace, victim.metadata.name);
                    fates.retain(|(other, _)| *other != victim);
                    let gone = format!("evicted for {name}");
                    fates.push((victim, Fate::Gone { gone }));
                }
                cluster.snapshot.put_pod(&pod, &preemption.node);
                let node = preemption.node;
                fates.push((name, Fate::On { node }));
            }
            PodOutcome::Nowhere { message, .. } | PodOutcome::Failed { message } => {
                fates.push((name, Fate::Nowhere { message }));
            }
        }
    }
    Ok(fates)
}

/// Whether the controller of daemon sets would create a pod: it creates none for nodes that
/// the pod's affinity excludes, or whose taints it does not tolerate.
fn is_meant_for_a_node(
    placer: &mut Placer,
    cluster: &mut control_scheduler::Cluster,
    pod: &Pod,
) -> bool {
    let explanation = placer.explain(cluster, pod);
    explanation.nodes.iter().any(|node| {
        let rejecter = node.rejected.as_ref();
        !rejecter.is_some_and(|it| matches!(&*it.plugin, "NodeAffinity" | "TaintToleration"))
    })
}

/// Pods on no node, the oldest first.
fn pending(objects: &ObjectSet) -> Vec<Value> {
    let pods = objects.all(&resources::PODS);
    let mut pending: Vec<Value> = pods
        .filter(|pod| pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty))
        .cloned()
        .collect();
    let born = |pod: &Value| {
        let at = pod["metadata"]["creationTimestamp"].as_str();
        at.unwrap_or_default().to_owned()
    };
    pending.sort_by_key(born);
    pending
}
