//! Our scheduler's decisions, asked of its library on the objects that the API server has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control_client::resources;
use control_scheduler::catalog::Catalog;
use control_scheduler::objects::{ObjectSet, view};
use control_scheduler::preempt::Preemption;
use control_scheduler::view::{Namespace, Node, Pod};
use control_scheduler::{Cluster, Explanation, Placer, PodOutcome};
use serde_json::Value;

use crate::Error;
use crate::case::{key, text};

/// What our scheduler decides about a pod.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Nodes that the pod fits, with their scores.
    pub scores: BTreeMap<String, i64>,
    /// By node: the weighted score, by plugin.
    pub plugins: BTreeMap<String, BTreeMap<String, i64>>,
    /// Nodes with the best score.
    pub best: BTreeSet<String>,
    /// Of a pod that goes nowhere, the condition's message.
    pub message: Option<String>,
    /// Whether it goes nowhere because that cannot be decided.
    pub failed: bool,
    /// Nodes on which room would be made, with the pods that would go; one of them is taken.
    pub preemptions: BTreeMap<String, BTreeSet<String>>,
    /// Why each node that the pod does not fit is rejected.
    pub rejections: BTreeMap<String, String>,
    /// How the same decision on a snapshot that was kept up to date differs.
    pub drift: Option<String>,
}

/// The cluster as the API server has it, and our scheduler's state.
#[derive(Default)]
pub struct Ours {
    objects: ObjectSet,
    /// What is kept between decisions, as the scheduler keeps it.
    kept: Cluster,
    placer: Placer,
}

impl Ours {
    /// An object is there, or changed.
    pub fn put(&mut self, object: &Value) -> Result<(), Error> {
        self.objects.put(object.clone())?;
        match text(object, "/kind") {
            "Node" => {
                let node: Node = view(object)?;
                self.kept.snapshot.set_node(&Arc::new(node));
            }
            "Namespace" => {
                let namespace: Namespace = view(object)?;
                let meta = &namespace.metadata;
                let labels = Some(&meta.labels);
                self.kept.snapshot.set_namespace(&meta.name, labels);
            }
            "Pod" => {
                let pod: Pod = view(object)?;
                let node = pod.node_name.clone();
                self.kept.snapshot.put_pod(&Arc::new(pod), &node);
            }
            _ => {}
        }
        Ok(())
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, pod: &str) {
        if let Some((namespace, name)) = pod.split_once('/') {
            self.objects.remove(&resources::PODS, namespace, name);
            let key = (namespace.into(), name.into());
            self.kept.snapshot.remove_pod(&key);
        }
    }

    /// Pods on nodes: namespace and name, and the node.
    pub fn placed(&self) -> Vec<(String, String)> {
        let pods = self.objects.all(&resources::PODS);
        pods.map(|pod| (key(pod), text(pod, "/spec/nodeName").to_owned()))
            .collect()
    }

    /// What is to become of a pod.
    pub fn judge(&mut self, pod: &Value) -> Result<Judgement, Error> {
        let pod: Arc<Pod> = Arc::new(view(pod)?);
        let mut cluster = self.objects.cluster()?;
        let explanation = Placer::default().explain(&mut cluster, &pod);
        let mut judgement = Judgement::of(&explanation);
        let mut placer = Placer::default();
        match placer.outcome(&mut cluster, &pod, 0) {
            PodOutcome::Placed { equals, .. } => judgement.check_best(equals),
            PodOutcome::Failed { message } => {
                judgement.message = Some(message);
                judgement.failed = true;
            }
            PodOutcome::Nowhere {
                message,
                preemption,
            } => {
                judgement.message = Some(message);
                let nodes =
                    preemption.map_or(0, |it| it.equals.count() * cluster.snapshot.places());
                // The number decides where the search begins, and which of equals is taken.
                for random in 0..u64::try_from(nodes).unwrap_or(0) {
                    if let PodOutcome::Nowhere {
                        preemption: Some(found),
                        ..
                    } = placer.outcome(&mut cluster, &pod, random)
                    {
                        let (node, victims) = named(found);
                        judgement.preemptions.insert(node, victims);
                    }
                }
            }
        }
        self.kept
            .replace_catalog(Catalog::from_objects(&self.objects)?);
        judgement.drift = self.drift(&pod, &judgement);
        Ok(judgement)
    }

    /// How the decision on the kept snapshot differs.
    fn drift(&mut self, pod: &Arc<Pod>, judgement: &Judgement) -> Option<String> {
        match self.placer.outcome(&mut self.kept, pod, 0) {
            PodOutcome::Failed { message } => {
                let same = judgement.failed && judgement.message.as_ref() == Some(&message);
                (!same).then(|| format!("fails: {message}"))
            }
            PodOutcome::Placed { equals, .. } => {
                let best: BTreeSet<String> = equals.into_iter().collect();
                (best != judgement.best).then(|| format!("best nodes {best:?}"))
            }
            PodOutcome::Nowhere {
                message,
                preemption,
            } => {
                let found = preemption.map(named);
                let known = found.as_ref().is_none_or(|(node, victims)| {
                    judgement
                        .preemptions
                        .get(node)
                        .is_some_and(|it| it == victims)
                });
                let same =
                    !judgement.failed && judgement.message.as_ref() == Some(&message) && known;
                (!same).then(|| format!("{message} {found:?}"))
            }
        }
    }
}

/// The node of a preemption, and the pods that are evicted, without those that were going
/// already.
fn named(preemption: Preemption) -> (String, BTreeSet<String>) {
    let victims = preemption.victims.iter();
    let victims = victims.filter(|it| !it.metadata.is_terminating());
    let victims = victims.map(|it| format!("{}/{}", it.metadata.namespace, it.metadata.name));
    (preemption.node, victims.collect())
}

impl Judgement {
    /// The reason of the condition `PodScheduled` of a pod that goes nowhere.
    pub const fn reason(&self) -> &'static str {
        if self.failed {
            "SchedulerError"
        } else {
            "Unschedulable"
        }
    }

    /// Explanation and decision must be one.
    fn check_best(&mut self, equals: Vec<String>) {
        let equals: BTreeSet<String> = equals.into_iter().collect();
        if equals != self.best {
            self.best = equals;
            self.scores.clear();
        }
    }

    fn of(explanation: &Explanation) -> Self {
        let mut judgement = Self {
            best: explanation.best.iter().cloned().collect(),
            ..Self::default()
        };
        for node in &explanation.nodes {
            match (&node.rejected, &explanation.unmet) {
                (Some(rejecter), _) | (None, Some(rejecter)) => {
                    let why = format!("{}: {}", rejecter.plugin, rejecter.reasons.join(", "));
                    judgement.rejections.insert(node.name.clone(), why);
                }
                (None, None) => {
                    judgement.scores.insert(node.name.clone(), node.score);
                    let scores = node.scores.iter();
                    let scores = scores.map(|it| (it.plugin.clone(), it.weighted));
                    judgement
                        .plugins
                        .insert(node.name.clone(), scores.collect());
                }
            }
        }
        judgement
    }
}
