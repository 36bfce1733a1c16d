//! The outcome for a pod, including preemption, as one value.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::place::{Decision, Placer};
use crate::preempt::Preemption;
use crate::reserve::Reservation;
use crate::view::Pod;

/// The outcome of scheduling a pod.
#[derive(Clone, Debug)]
pub enum PodOutcome {
    /// It is placed on a node.
    Placed {
        /// The node's name.
        node: String,
        /// Its reservations besides the node.
        reservation: Reservation,
        /// Names of all nodes that are as good, in order.
        equals: Vec<String>,
    },
    /// It fits nowhere.
    Nowhere {
        /// The message of its condition `PodScheduled`.
        message: String,
        /// The pods that are evicted so that it fits somewhere.
        preemption: Option<Preemption>,
    },
    /// It cannot be decided: an object that the pod refers to is invalid.
    Failed {
        /// The message of its condition `PodScheduled`.
        message: String,
    },
}

impl Placer {
    /// Decides `pod` with [`Placer::place`], and with [`Placer::preempt`] if it fits
    /// nowhere. `random` breaks ties.
    pub fn outcome(&mut self, cluster: &mut Cluster, pod: &Arc<Pod>, random: u64) -> PodOutcome {
        let diagnosis = match self.place(cluster, pod, random) {
            Decision::Place {
                node,
                equals,
                reservation,
                ..
            } => {
                let name = |at| cluster.snapshot.name(at).to_owned();
                let mut equals: Vec<String> = equals.iter().map(name).collect();
                equals.sort();
                return PodOutcome::Placed {
                    node: name(node),
                    reservation,
                    equals,
                };
            }
            Decision::Unschedulable(diagnosis) => diagnosis,
            Decision::Failed(message) => return PodOutcome::Failed { message },
        };
        let search = self.search(cluster, pod, &diagnosis, random);
        PodOutcome::Nowhere {
            message: diagnosis.full_message(&search.message),
            preemption: search.preemption,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::{ObjectSet, view};

    fn pod(name: &str, priority: i32, node: &str) -> serde_json::Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n", "name": name},
            "spec": {"priority": priority, "nodeName": node, "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}})
    }

    #[test]
    fn a_pod_that_fits_nowhere_comes_with_the_pods_that_make_room() {
        let mut objects = ObjectSet::default();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "status": {"allocatable": {"cpu": "1", "memory": "4Gi", "pods": "9"}}});
        for object in [node, pod("small", 0, "a")] {
            objects.put(object).unwrap();
        }
        let mut cluster = objects.cluster().unwrap();
        let mut placer = Placer::default();
        let important: Pod = view(&pod("important", 5, "")).unwrap();
        match placer.outcome(&mut cluster, &Arc::new(important), 0) {
            PodOutcome::Nowhere {
                preemption: Some(preemption),
                message,
            } => {
                assert_eq!(preemption.victims[0].metadata.name, "small");
                assert_eq!(message, "0/1 nodes are available: 1 Insufficient cpu.");
            }
            other => panic!("{other:?}"),
        }
        let equal: Pod = view(&pod("equal", 0, "")).unwrap();
        match placer.outcome(&mut cluster, &Arc::new(equal), 0) {
            PodOutcome::Nowhere {
                preemption: None,
                message,
            } => assert!(message.contains("No preemption victims found"), "{message}"),
            other => panic!("{other:?}"),
        }
    }
}
