//! Decides all waiting pods of a PodGroup together: a pure function of the cluster.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::place::{Decision, Diagnosis, Placer};
use crate::plugins::Permission;
use crate::preempt::Search;
use crate::reserve::Reservation;
use crate::snapshot::PodKey;
use crate::view::Pod;

/// The decision about one pod, as if the preceding ones were already running.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// It is placed on a node.
    Placed {
        /// The node's name.
        node: String,
        /// Its reservations besides the node.
        reservation: Reservation,
    },
    /// It fits nowhere.
    Nowhere {
        /// The reason.
        diagnosis: Box<Diagnosis>,
        /// Whether preemption could make room for it.
        search: Search,
    },
    /// It cannot be decided.
    Failed(String),
}

/// A pod with its decision.
#[derive(Clone, Debug)]
pub struct Member {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The decision; `None` if the decision about an earlier pod failed.
    pub attempt: Option<Attempt>,
    /// Why it would have to wait for others, if it has a node or would get one by
    /// preemption.
    pub waits: Option<String>,
}

/// The outcome for a PodGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pods that have a node are bound.
    Scheduled,
    /// No pod is bound.
    Unschedulable,
    /// No pod is bound now; all that the group needs will fit once others made room.
    WaitsForPreemption,
    /// It cannot be decided.
    Failed(String),
}

/// The outcome for a PodGroup and its waiting pods.
#[derive(Clone, Debug)]
pub struct GangDecision {
    /// The group.
    pub verdict: Verdict,
    /// The pods, in the order of the decision.
    pub members: Vec<Member>,
}

/// A decision in progress. The cluster contains the pods that were placed so far, as if
/// they were running, until [`Trial::finish`].
#[must_use = "the cluster is as it was only after `finish`"]
pub struct Trial {
    members: Vec<Member>,
    verdict: Verdict,
    preempts: bool,
    steps: Vec<TrialStep>,
}

/// A pod that is treated as running.
struct TrialStep {
    pod: Arc<Pod>,
    reservation: Reservation,
    nomination: Option<String>,
}

impl Verdict {
    /// Status, reason and message of the condition `PodGroupScheduled`.
    #[must_use]
    pub fn condition(&self) -> (&'static str, &'static str, &str) {
        match self {
            Self::Scheduled => ("True", "Scheduled", ""),
            Self::Unschedulable => ("False", "Unschedulable", UNSCHEDULABLE),
            Self::WaitsForPreemption => ("False", "Unschedulable", WAITS_FOR_PREEMPTION),
            Self::Failed(message) => ("False", "SchedulerError", message),
        }
    }
}

const UNSCHEDULABLE: &str = "pod group is unschedulable";
const WAITS_FOR_PREEMPTION: &str =
    "pod group is unschedulable, pod group is waiting for preemption to complete";

impl Member {
    /// Returns whether it gets a node by preemption.
    #[must_use]
    pub const fn preempts(&self) -> bool {
        match &self.attempt {
            Some(Attempt::Nowhere { search, .. }) => search.preemption.is_some(),
            _ => false,
        }
    }

    /// Returns the message for a pod that has a node, or would get one by preemption, in
    /// a group that is not scheduled.
    #[must_use]
    pub fn group_message(&self, verdict: &Verdict) -> String {
        match (verdict, &self.waits) {
            (Verdict::WaitsForPreemption, _) => WAITS_FOR_PREEMPTION.to_owned(),
            (_, Some(waits)) => format!("{UNSCHEDULABLE}, {waits}"),
            (_, None) => UNSCHEDULABLE.to_owned(),
        }
    }
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            verdict: Verdict::Unschedulable,
            preempts: false,
            steps: Vec::new(),
        }
    }
}

impl Trial {
    /// Records the decision about the next pod: it counts as placed for the following
    /// ones, also if preemption has to make room for it. Returns `Break` if the decision
    /// failed.
    pub fn take(
        &mut self,
        placer: &Placer,
        cluster: &mut Cluster,
        pod: &Arc<Pod>,
        attempt: Attempt,
    ) -> ControlFlow<()> {
        let mut member = Member {
            pod: Arc::clone(pod),
            attempt: None,
            waits: None,
        };
        let assumed = match &attempt {
            Attempt::Placed { node, reservation } => Some((node.clone(), reservation.clone())),
            Attempt::Nowhere { search, .. } => {
                let preemption = search.preemption.as_ref();
                preemption.map(|it| (it.node.clone(), Reservation::default()))
            }
            Attempt::Failed(_) => None,
        };
        let preempts = matches!(attempt, Attempt::Nowhere { .. });
        let mut failure = match &attempt {
            Attempt::Failed(message) => Some(message.clone()),
            _ => None,
        };
        member.attempt = Some(attempt);
        if let Some((node, reservation)) = assumed {
            self.assume(cluster, pod, &node, reservation);
            match placer.permit(cluster, pod) {
                Permission::Failed(message) => {
                    member.attempt = Some(Attempt::Failed(message.clone()));
                    failure = Some(message);
                }
                Permission::Wait { message, .. } => {
                    self.preempts |= preempts;
                    member.waits = Some(format!(
                        "{message}, one or more plugins asked to wait and no plugin rejected pod"
                    ));
                }
                Permission::Allowed => {
                    self.preempts |= preempts;
                    self.verdict = if self.preempts {
                        Verdict::WaitsForPreemption
                    } else {
                        Verdict::Scheduled
                    };
                }
            }
        }
        self.members.push(member);
        let Some(failure) = failure else {
            return ControlFlow::Continue(());
        };
        self.verdict = Verdict::Failed(format!(
            "failed to schedule other pod from a pod group: {failure}"
        ));
        ControlFlow::Break(())
    }

    fn assume(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<Pod>,
        node: &str,
        reservation: Reservation,
    ) {
        let key = pod.key();
        let nomination = cluster.nominations.node_of(&key).map(str::to_owned);
        cluster.nominations.remove(&key);
        cluster.snapshot.put_pod(pod, node);
        cluster.assumed.reserve(pod, &reservation);
        cluster.gangs.assume(&key);
        self.steps.push(TrialStep {
            pod: Arc::clone(pod),
            reservation,
            nomination,
        });
    }

    /// Restores the cluster. `pods` are all pods of the decision.
    pub fn finish(mut self, cluster: &mut Cluster, pods: &[Arc<Pod>]) -> GangDecision {
        for step in self.steps.into_iter().rev() {
            let key: PodKey = step.pod.key();
            cluster.gangs.forget(&key);
            cluster.assumed.unreserve(&step.pod, &step.reservation);
            cluster.snapshot.remove_pod(&key);
            if let Some(node) = step.nomination {
                cluster.nominations.set(&step.pod, &node);
            }
        }
        let undecided = pods.iter().skip(self.members.len());
        self.members.extend(undecided.map(|pod| Member {
            pod: Arc::clone(pod),
            attempt: None,
            waits: None,
        }));
        GangDecision {
            verdict: self.verdict,
            members: self.members,
        }
    }
}

impl Placer {
    /// Decides a PodGroup whose waiting pods are `pods`: all on one state of the cluster,
    /// which is unchanged afterwards, in order of priority. `random` breaks ties.
    pub fn place_gang(
        &mut self,
        cluster: &mut Cluster,
        pods: &[Arc<Pod>],
        random: u64,
    ) -> GangDecision {
        let mut pods = pods.to_vec();
        pods.sort_by_key(|pod| Reverse(pod.priority));
        let mut trial = Trial::default();
        for pod in &pods {
            let attempt = match self.place(cluster, pod, random) {
                Decision::Place {
                    node, reservation, ..
                } => Attempt::Placed {
                    node: cluster.snapshot.name(node).to_owned(),
                    reservation,
                },
                Decision::Unschedulable(diagnosis) => Attempt::Nowhere {
                    search: self.search(cluster, pod, &diagnosis, random),
                    diagnosis: Box::new(diagnosis),
                },
                Decision::Failed(message) => Attempt::Failed(message),
            };
            if trial.take(self, cluster, pod, attempt).is_break() {
                break;
            }
        }
        trial.finish(cluster, &pods)
    }
}

impl GangDecision {
    /// The nodes of the pods that are bound, by pod.
    pub fn bound(&self) -> impl Iterator<Item = (&Arc<Pod>, &str)> {
        let is_scheduled = self.verdict == Verdict::Scheduled;
        let members = self.members.iter().filter(move |_| is_scheduled);
        members.filter_map(|member| match &member.attempt {
            Some(Attempt::Placed { node, .. }) => Some((&member.pod, node.as_str())),
            _ => None,
        })
    }
}
