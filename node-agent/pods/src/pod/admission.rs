//! Whether the node takes the pod, with what it asks for, and with what it asks
//! for later ([`admit`](super::admit) and [`resize`](node_agent_pod_resources::resize) decide).

use std::sync::Arc;
use std::time::Instant;

use node_agent_pod_registry::{PodEntry, TerminationCause};
use node_agent_pod_resources::resize;
use node_agent_pod_resources::resize::{PendingResize, ResizeGrant};
use node_agent_resource_managers::AdmissionFailure;

use super::state::PodState;
use super::{admit, limits};

impl PodState {
    /// Refuses a pod that the node cannot run, before anything of it is made.
    pub(super) fn admit(&mut self) {
        let known = !self.observed.sandboxes.is_empty() || !self.observed.containers.is_empty();
        if known || self.gone || self.pod.is_deleting() || self.pod.status.is_terminal() {
            return;
        }
        let shared = self.shared.clone();
        let _turn = shared.grants.lock();
        let others = shared.pods.beside(self.pod.uid());
        let own = shared.node_object.get("", &shared.node.name);
        let node = admit::NodeSnapshot {
            name: &shared.node.name,
            label: &|key| Some(own.as_ref()?.label(key)?.to_owned()),
            allocatable: &shared.node.allocatable,
            sysctls: &shared.settings.sysctls,
            pressure: shared.pressure.get(),
            leaving: shared.leaving.is_now(),
        };
        self.sentence = admit::refusal(&self.pod, node, &others);
        match &self.sentence {
            Some(sentence) => {
                let said = sentence.message.trim_start_matches("Pod was rejected: ");
                shared
                    .events
                    .warning(&self.pod, None, &sentence.reason, said);
            }
            None => shared.pods.put(PodEntry {
                pod: self.pod.clone(),
                observed: self.observed.clone(),
                status: self.live.status(),
                places: self.volumes.places(),
            }),
        }
    }

    /// Gives a pod that was admitted the devices, CPUs and memory of
    /// its own that it asks for; one that
    /// cannot have them is refused.
    pub(super) async fn take_resources(&mut self) {
        let known = !self.observed.sandboxes.is_empty() || !self.observed.containers.is_empty();
        let ends = self.gone || self.pod.is_deleting() || self.pod.status.is_terminal();
        if known || ends || self.sentence.is_some() {
            return;
        }
        let shared = self.shared.clone();
        let given = shared.managers.admit(&self.pod, &shared.devices).await;
        if let Err(AdmissionFailure { reason, message }) = given {
            shared
                .events
                .warning(&self.pod, None, reason, message.clone());
            self.sentence = Some(TerminationCause {
                reason: reason.to_owned(),
                message: format!("Pod was rejected: {message}"),
                disruption: false,
            });
        }
    }

    /// Grants the pod what it asks for, if the node has it; the pod is what
    /// the API has, with what it was granted.
    pub(super) fn allocate(&mut self) {
        self.tried = Instant::now();
        let wanted = self.wanted.clone();
        if self.grant.covers(&wanted.spec) {
            self.pending = None;
            self.pod = wanted;
            return;
        }
        let granted = self.grant.applied(&wanted);
        let ends = self.gone || wanted.is_deleting() || wanted.status.is_terminal();
        if ends {
            self.pending = None;
            self.pod = Arc::new(granted);
            return;
        }
        // one at a time, or two pods would be granted the same room
        let shared = self.shared.clone();
        let _turn = shared.grants.lock();
        let others = shared.pods.room(wanted.uid());
        let rules = &shared.node.rules;
        let bound = limits::forbids_resize(&granted, &wanted, rules)
            .or_else(|| shared.managers.forbids_resize(&granted.spec, &wanted.spec));
        let admitted = match bound {
            Some(message) => Err(PendingResize {
                reason: "Infeasible",
                message,
            }),
            None => resize::admit(&wanted.spec, &granted.spec, others, shared.node.room),
        };
        match admitted {
            Ok(()) => {
                self.grant = ResizeGrant::from_spec(&wanted.spec);
                self.pending = None;
                self.memory.resize_error = None;
                self.memory.resize_retry = None;
                let generation = wanted.metadata.generation;
                self.memory.resizing = Some(generation);
                let summary = resize::summary(&wanted, generation, "");
                let message = format!("Pod resize started: {summary}");
                shared
                    .events
                    .normal(&wanted, None, "ResizeStarted", message);
                self.pod = wanted;
                shared.pods.put(PodEntry {
                    pod: self.pod.clone(),
                    observed: self.observed.clone(),
                    status: self.live.status(),
                    places: self.volumes.places(),
                });
            }
            Err(pending) => {
                if self.pending.as_ref() != Some(&pending) {
                    let message = format!(
                        "Pod resize {}: {}",
                        pending.reason,
                        resize::summary(&wanted, wanted.metadata.generation, &pending.message)
                    );
                    let event = format!("Resize{}", pending.reason);
                    shared.events.warning(&wanted, None, &event, message);
                }
                self.pending = Some(pending);
                self.pod = Arc::new(granted);
            }
        }
    }
}
