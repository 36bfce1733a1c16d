//! A cluster as it would be with other pods on a node. Afterwards it is as before.

use std::ops::Deref;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::snapshot::PodKey;
use crate::view::Pod;

/// Pods added to and removed from one node, for as long as this lives.
///
/// The snapshot itself is changed and restored, so that every plugin judges the hypothesis by
/// the code, and by the incremental counts, that it judges the cluster by.
pub struct Hypothesis<'a> {
    cluster: &'a mut Cluster,
    node: String,
    place: usize,
    order: Vec<PodKey>,
    undo: Vec<HypothesisStep>,
}

enum HypothesisStep {
    Added(PodKey),
    Removed(Arc<Pod>),
}

impl<'a> Hypothesis<'a> {
    /// About the node at `place`.
    pub fn new(cluster: &'a mut Cluster, place: usize) -> Self {
        Self {
            node: cluster.snapshot.name(place).to_owned(),
            order: cluster.snapshot.order_on(place).to_vec(),
            place,
            cluster,
            undo: Vec::new(),
        }
    }

    /// Adds a pod to the node. A pod of that name that is on a node already stays there.
    pub fn add(&mut self, pod: &Arc<Pod>) {
        let key = pod.key();
        if self.cluster.snapshot.pod(&key).is_none() {
            self.cluster.snapshot.put_pod(pod, &self.node);
            self.undo.push(HypothesisStep::Added(key));
        }
    }

    /// Removes a pod from the node.
    pub fn remove(&mut self, pod: &Arc<Pod>) {
        if self.cluster.snapshot.remove_pod(&pod.key()) {
            self.undo.push(HypothesisStep::Removed(Arc::clone(pod)));
        }
    }

    /// The hypothetical cluster, for another hypothesis about the same node.
    pub fn cluster(&mut self) -> &mut Cluster {
        self.cluster
    }
}

impl Deref for Hypothesis<'_> {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster
    }
}

impl Drop for Hypothesis<'_> {
    fn drop(&mut self) {
        if self.undo.is_empty() {
            return;
        }
        let snapshot = &mut self.cluster.snapshot;
        for step in self.undo.drain(..).rev() {
            match step {
                HypothesisStep::Added(key) => {
                    snapshot.remove_pod(&key);
                }
                HypothesisStep::Removed(pod) => snapshot.put_pod(&pod, &self.node),
            }
        }
        snapshot.restore_order(self.place, std::mem::take(&mut self.order));
    }
}
