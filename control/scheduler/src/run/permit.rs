//! Permit: pods that have a node and wait for others before they are bound.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Scheduler;
use super::bind::AssumedPod;
use crate::gangs::GangKey;
use crate::metrics;
use crate::plugins::Permission;
use crate::view::Pod;

/// Reason why a pod may not be bound; the message is kube-scheduler's.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum PermitError {
    #[error("{0}")]
    Refused(String),
    #[error("rejected due to timeout after waiting {within} at plugin {plugin}")]
    Timeout {
        within: String,
        plugin: &'static str,
    },
    #[error("{0}")]
    Failed(String),
}

/// The wait of a pod that has a node.
pub(super) struct PermitWait {
    plugin: &'static str,
    within: Duration,
    began: Instant,
    verdict: watch::Sender<Option<Result<(), PermitError>>>,
}

impl PermitWait {
    fn new(plugin: &'static str, within: Duration) -> Self {
        Self {
            plugin,
            within,
            began: Instant::now(),
            verdict: watch::Sender::new(None),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.verdict.borrow().is_some()
    }

    pub(super) fn allow(&self) {
        self.end(Ok(()));
    }

    pub(super) fn refuse(&self, why: &str) {
        self.end(Err(PermitError::Refused(why.to_owned())));
    }

    /// The first verdict counts.
    fn end(&self, verdict: Result<(), PermitError>) {
        self.verdict.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                *known = Some(verdict);
            }
            is_first
        });
    }

    /// Waits until the binding is permitted; `Err`: it is not, or it takes too long.
    pub(super) async fn permitted(&self) -> Result<(), PermitError> {
        let mut verdicts = self.verdict.subscribe();
        let verdict = tokio::time::timeout(self.within, verdicts.wait_for(Option::is_some)).await;
        let verdict = match verdict {
            Ok(Ok(verdict)) => verdict.clone(),
            // The sender is here.
            Ok(Err(_)) => None,
            Err(_) => {
                let within = i64::try_from(self.within.as_nanos()).unwrap_or(i64::MAX);
                let within = control_types::duration::format(within);
                self.end(Err(PermitError::Timeout {
                    within: within.clone(),
                    plugin: self.plugin,
                }));
                self.verdict.borrow().clone()
            }
        };
        let verdict = verdict.unwrap_or(Ok(()));
        let result = if verdict.is_ok() {
            "Success"
        } else {
            "Unschedulable"
        };
        metrics::permit_wait(result, self.began.elapsed());
        verdict
    }
}

impl Scheduler {
    /// Decides whether a pod, which is already assumed on its node, may be bound; returns
    /// the wait if it has to. This may let other waiting pods be bound.
    ///
    /// # Errors
    /// [`PermitError::Failed`].
    pub(super) fn permit(&mut self, pod: &Pod) -> Result<Option<PermitWait>, PermitError> {
        let Some(placer) = self.placers.get(&pod.scheduler_name) else {
            return Ok(None);
        };
        let began = Instant::now();
        let permission = placer.permit(&self.cluster, pod);
        let gang = pod.gang().filter(|_| self.cluster.gangs.is_enabled());
        let (status, answer) = match permission {
            Permission::Allowed => {
                if let Some(gang) = &gang {
                    self.allow_waiting(gang);
                }
                ("Success", Ok(None))
            }
            Permission::Wait { plugin, within, .. } => {
                for other in gang
                    .iter()
                    .flat_map(|it| self.cluster.gangs.unscheduled(it))
                {
                    // With it there may be enough.
                    self.queue.force(&other.key(), super::now());
                }
                ("Wait", Ok(Some(PermitWait::new(plugin, within))))
            }
            Permission::Failed(message) => ("Error", Err(PermitError::Failed(message))),
        };
        if gang.is_some() {
            metrics::point("Permit", &pod.scheduler_name, status, began.elapsed());
        }
        answer
    }

    /// Permits waiting pods of a PodGroup, as far as possible.
    fn allow_waiting(&self, gang: &GangKey) {
        for pod in self.cluster.gangs.assumed(gang) {
            let waiting = self.assumed.get(&pod.key());
            let waiting: Option<&Arc<AssumedPod>> = waiting.filter(|it| it.waits());
            let placer = self.placers.get(&pod.scheduler_name);
            if let (Some(waiting), Some(placer)) = (waiting, placer)
                && placer.permit(&self.cluster, &pod) == Permission::Allowed
            {
                waiting.allow();
            }
        }
    }
}
