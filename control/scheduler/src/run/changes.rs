//! Applies changes of the cluster to snapshot, nominations and queue.

use std::sync::Arc;

use control_client::Change;

use super::bind::AssumedPod;
use super::{Scheduler, now};
use crate::catalog::CatalogEvent;
use crate::event::{Event, Subject};
use crate::snapshot::{PodKey, Wake};
use crate::view::{Namespace, Node, Pod};

impl Scheduler {
    pub(super) fn object(&mut self, event: &CatalogEvent) {
        self.cluster.observe(event);
        self.wake(&Event {
            wake: event.wake(),
            subject: Subject::Object(event),
        });
    }

    /// Something happened that may help waiting pods.
    pub(super) fn wake(&mut self, event: &Event<'_>) {
        let (placers, cluster) = (&self.placers, &self.cluster);
        self.queue.wake(event, now(), |pod, rejecters| {
            let placer = placers.get(&pod.scheduler_name);
            placer.is_none_or(|it| it.is_worth(cluster, pod, rejecters, event))
        });
    }

    pub(super) fn node(&mut self, change: &Change<Node>) {
        let wake = match (&change.current, &change.previous) {
            (Some(node), _) => self.cluster.snapshot.set_node(node),
            (None, Some(gone)) => {
                self.cluster.snapshot.remove_node(&gone.metadata.name);
                Wake::NODE_REMOVED
            }
            (None, None) => Wake::NONE,
        };
        let (old, new) = (change.previous.as_deref(), change.current.as_deref());
        self.wake(&Event::node(wake, old, new));
    }

    pub(super) fn namespace(&mut self, change: &Change<Namespace>) {
        let wake = match (&change.current, &change.previous) {
            (Some(namespace), _) => {
                let meta = &namespace.metadata;
                let snapshot = &mut self.cluster.snapshot;
                snapshot.set_namespace(&meta.name, Some(&meta.labels))
            }
            (None, Some(gone)) => {
                let snapshot = &mut self.cluster.snapshot;
                snapshot.set_namespace(&gone.metadata.name, None)
            }
            (None, None) => Wake::NONE,
        };
        self.wake(&Event {
            wake,
            subject: Subject::Other,
        });
    }

    pub(super) fn pod(&mut self, change: &Change<Pod>) {
        let gone = match (&change.previous, &change.current) {
            (Some(previous), Some(current)) => previous.metadata.uid != current.metadata.uid,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if gone && let Some(previous) = &change.previous {
            self.forget(&previous.key());
        }
        let Some(pod) = &change.current else { return };
        let key = pod.key();
        if !pod.finished && (!pod.node_name.is_empty() || self.is_placed_here(pod)) {
            self.observe_member(pod);
        }
        if pod.finished {
            self.forget(&key);
        } else if !pod.node_name.is_empty() {
            self.queue.remove(&key);
            let was_assumed = self.conclude_assumption(&key, &pod.node_name);
            self.cluster.nominations.remove(&key);
            let known = self.cluster.snapshot.pod(&key).cloned();
            self.cluster.snapshot.put_pod(pod, &pod.node_name);
            match known {
                None => self.wake(&Event::pod_added(pod)),
                Some(_) if was_assumed => {}
                Some(known) => self.wake(&Event::pod_changed(&known, pod)),
            }
        } else if self.assumed.contains_key(&key) {
            if pod.metadata.is_terminating() {
                // It will never run; its resources are free.
                self.forget(&key);
            }
            // else an event from before its binding
        } else {
            self.waiting_pod(change.previous.as_deref(), pod);
        }
    }

    /// A pod that is on no node was seen.
    pub(super) fn waiting_pod(&mut self, previous: Option<&Pod>, pod: &Arc<Pod>) {
        let key = pod.key();
        if !self.is_placed_here(pod) {
            self.queue.remove(&key);
            return;
        }
        if pod.gated {
            self.cluster.nominations.remove(&key);
        } else {
            self.cluster.nominations.observe(previous, pod);
        }
        if let Some(previous) = previous
            && !previous.nominated_node.is_empty()
            && previous.nominated_node != pod.nominated_node
        {
            self.wake(&Event::pod_removed(previous));
        }
        if pod.metadata.is_terminating() {
            self.queue.remove(&key);
            return;
        }
        let (placers, cluster) = (&self.placers, &self.cluster);
        self.queue.put(pod, now(), |event, rejecters| {
            let placer = placers.get(&pod.scheduler_name);
            placer.is_none_or(|it| it.is_worth(cluster, pod, rejecters, event))
        });
    }

    /// Whether this scheduler places such pods.
    fn is_placed_here(&self, pod: &Pod) -> bool {
        self.placers.contains_key(&pod.scheduler_name)
    }

    pub(super) fn is_ours(&self, pod: &Pod) -> bool {
        !pod.metadata.is_terminating() && self.is_placed_here(pod)
    }

    /// A pod neither waits nor runs any more.
    pub(super) fn forget(&mut self, key: &PodKey) {
        self.queue.remove(key);
        self.cluster.gangs.remove(key);
        self.conclude_assumption(key, "");
        let nominated = self.cluster.nominations.remove(key);
        let known = self.cluster.snapshot.pod(key).cloned();
        self.cluster.snapshot.remove_pod(key);
        if let Some(gone) = known.or(nominated) {
            self.wake(&Event::pod_removed(&gone));
        }
    }

    /// Handles an assumed pod that was seen on a node, or deleted (an empty name). Its
    /// reservation on that node stays until the caches show it; any other is reverted.
    /// Returns whether it was assumed there.
    pub(super) fn conclude_assumption(&mut self, key: &PodKey, node: &str) -> bool {
        let Some(assumption) = self.assumed.remove(key) else {
            return false;
        };
        if assumption.node != node {
            assumption.refuse("removed");
            let AssumedPod {
                pod, reservation, ..
            } = &*assumption;
            self.cluster.assumed.unreserve(pod, reservation);
            return false;
        }
        true
    }
}
