//! A case with the stock scheduler at work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control_client::{Selection, resources};
use serde_json::Value;

use crate::Error;
use crate::case::{Case, Step, key, text};
use crate::compare::{Difference, differences};
use crate::ours::Ours;
use crate::stage::{Stage, scheduled, with_kind};

/// How long the deletion of victims may take.
const PREEMPTION_WITHIN: Duration = Duration::from_secs(5);

/// What a scheduler decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod is bound to this node.
    Bound(String),
    /// The pod fits nowhere.
    Unschedulable {
        /// The reason of the condition `PodScheduled`.
        reason: String,
        /// The condition's message.
        message: String,
        /// The node on which room is made for it, with the pods that go.
        nominated: Option<(String, BTreeSet<String>)>,
    },
}

/// A decision of the stock scheduler, with what it logged about it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// What it decided.
    pub verdict: Verdict,
    /// How many nodes passed all filters, for a pod that was bound.
    pub feasible: Option<usize>,
    /// Nodes that passed all filters, with their scores; empty when there was only one.
    pub scores: BTreeMap<String, i64>,
    /// By node: the weighted score, by plugin.
    pub plugins: BTreeMap<String, BTreeMap<String, i64>>,
}

/// A pod about which both schedulers were asked.
pub struct Compared {
    /// Namespace and name.
    pub pod: String,
    /// In what they differ.
    pub differences: Vec<Difference>,
    /// The case that leads to this decision alone, when they differ.
    pub frozen: Option<Case>,
}

impl Stage {
    /// Runs a case: pod by pod, each is given to the stock scheduler and to ours.
    pub async fn run(&mut self, case: &Case) -> Result<Vec<Compared>, Error> {
        self.stock.forget();
        let compared = self.perform(case).await;
        let cleaned = self.clean(case).await;
        let compared = compared?;
        cleaned?;
        Ok(compared)
    }

    async fn perform(&mut self, case: &Case) -> Result<Vec<Compared>, Error> {
        let mut ours = Ours::default();
        self.create_objects(case, &mut ours).await?;
        let mut compared = Vec::new();
        for step in &case.steps {
            match step {
                Step::Bound(_) | Step::Terminating(_) => {
                    if let Some(pod) = self.create_bound(step).await? {
                        ours.put(&with_kind(pod, &resources::PODS))?;
                    }
                }
                Step::Schedule(pod) => {
                    compared.extend(self.schedule(case, pod, &mut ours).await?);
                }
            }
        }
        Ok(compared)
    }

    async fn schedule(
        &mut self,
        case: &Case,
        pod: &Value,
        ours: &mut Ours,
    ) -> Result<Option<Compared>, Error> {
        let placed = ours.placed();
        let Some(made) = self.create_pod(pod).await? else {
            return Ok(None);
        };
        let made = self.without_gates(made).await?;
        let key = key(&made);
        let judgement = ours.judge(&made)?;
        let after = self.decided(&made).await?;
        let attempt = self.attempt(&key, &after).await?;
        match &attempt.verdict {
            Verdict::Bound(_) => {
                self.observe_claims(&after, ours).await?;
                ours.put(&with_kind(after, &resources::PODS))?;
            }
            Verdict::Unschedulable { nominated, .. } => {
                let victims = nominated.iter().flat_map(|(_, victims)| victims);
                let gone: Vec<String> = victims.cloned().chain([key.clone()]).collect();
                for pod in &gone {
                    ours.remove_pod(pod);
                }
                self.remove_pods(&gone).await?;
            }
        }
        let differences = differences(&attempt, &judgement);
        let frozen = (!differences.is_empty()).then(|| case.frozen(&placed, pod));
        Ok(Some(Compared {
            pod: key,
            differences,
            frozen,
        }))
    }

    /// What the stock scheduler decided, and how it came to that.
    async fn attempt(&mut self, pod: &str, after: &Value) -> Result<Attempt, Error> {
        let node = text(after, "/spec/nodeName");
        let verdict = if node.is_empty() {
            let condition = scheduled(after).cloned().unwrap_or_default();
            let nominated = text(after, "/status/nominatedNodeName");
            Verdict::Unschedulable {
                reason: text(&condition, "/reason").to_owned(),
                message: text(&condition, "/message").to_owned(),
                nominated: match nominated {
                    "" => None,
                    node => Some((node.to_owned(), self.victims(pod).await?)),
                },
            }
        } else {
            self.stock
                .until("the binding", |seen| seen.bound.contains_key(pod))
                .await?;
            Verdict::Bound(node.to_owned())
        };
        let seen = &self.stock.seen;
        let of_pod = |it: &&(String, String)| it.0 == pod;
        let scores = seen.final_scores.iter().filter(|(it, _)| of_pod(it));
        let plugins = seen.plugin_scores.iter().filter(|(it, _)| of_pod(it));
        Ok(Attempt {
            verdict,
            feasible: seen.bound.get(pod).copied(),
            scores: scores.map(|(it, score)| (it.1.clone(), *score)).collect(),
            plugins: plugins
                .map(|(it, scores)| (it.1.clone(), scores.clone()))
                .collect(),
        })
    }

    /// Pods that are evicted to make room for a pod, without those that were going already.
    async fn victims(&mut self, preemptor: &str) -> Result<BTreeSet<String>, Error> {
        let is_done = self.stock.until("the end of a preemption", |seen| {
            seen.preempted.contains(preemptor)
        });
        // Nothing is logged when all victims are going already.
        if let Ok(done) = tokio::time::timeout(PREEMPTION_WITHIN, is_done).await {
            done?;
        }
        let pods = self
            .client
            .list::<Value>(&resources::PODS, &Selection::all())
            .await?;
        let is_victim = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter();
            let mut reasons = conditions.flatten().map(|it| &it["reason"]);
            reasons.any(|reason| reason == "PreemptionByScheduler")
        };
        Ok(pods.items.iter().filter(is_victim).map(key).collect())
    }
}
