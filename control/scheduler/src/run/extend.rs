//! Decisions in which extenders take part.

use std::sync::Arc;

use control_client::resources;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::Scheduler;
use crate::bits::Bits;
use crate::extender::{Error, Extender, ExtenderFilterResult, VictimsByNode};
use crate::place::{Decision, Diagnosis, Extension};
use crate::preempt::{self, Candidate, NoPreemption, Preemption};
use crate::view::Pod;

impl Scheduler {
    /// Returns the extenders to call for a pod.
    fn interested(&self, pod: &Pod) -> Vec<Extender> {
        let extenders = self.extenders.iter();
        let interested = extenders.filter(|it| it.is_interested(pod));
        interested.cloned().collect()
    }

    /// Decides a pod; returns `None` if it no longer needs a node.
    pub(super) async fn decide(&mut self, pod: &Arc<Pod>) -> Result<Option<Decision>, Error> {
        let interested = self.interested(pod);
        let Some(placer) = self.placers.get_mut(&pod.scheduler_name) else {
            return Ok(None);
        };
        if interested.is_empty() {
            let decision = placer.place(&mut self.cluster, pod, rand::random());
            return Ok(Some(decision));
        }
        let whole = self.whole_pod(pod).await?;
        let nominated = self.cluster.nominations.node_of(&pod.key());
        let is_nominated = nominated.is_some() || !pod.nominated_node.is_empty();
        // The node that was emptied for the pod is tried first.
        for nomination in [true, false] {
            if nomination && !is_nominated {
                continue;
            }
            let Some(placer) = self.placers.get_mut(&pod.scheduler_name) else {
                return Ok(None);
            };
            let feasible = match placer.feasible(&mut self.cluster, pod, nomination) {
                Ok(feasible) => feasible,
                Err(decision) => return Ok(Some(decision)),
            };
            let names = feasible.iter().map(|at| self.cluster.snapshot.name(at));
            let names: Vec<String> = names.map(str::to_owned).collect();
            let mut extension = self.filter(&interested, &whole, names).await?;
            if extension.allowed.is_empty() && nomination {
                continue;
            }
            if extension.allowed.count() > 1 {
                self.prioritize(&interested, &whole, &mut extension).await;
            }
            let placer = self.placers.get_mut(&pod.scheduler_name);
            return Ok(placer.map(|placer| {
                placer.place_extended(&mut self.cluster, pod, rand::random(), &extension)
            }));
        }
        Ok(None)
    }

    async fn whole_pod(&self, pod: &Pod) -> Result<Value, Error> {
        let meta = &pod.metadata;
        let pods = &resources::PODS;
        let whole = self.client.get(pods, &meta.namespace, &meta.name).await;
        whole.map_err(Error::Pod)
    }

    fn whole_nodes(&self, names: &[String]) -> Vec<Value> {
        let Some(nodes) = &self.whole_nodes else {
            return Vec::new();
        };
        let nodes = nodes.cache();
        let found = names.iter().filter_map(|name| nodes.get("", name));
        found.map(|node| node.value.clone()).collect()
    }

    /// One extender after the other takes nodes away.
    async fn filter(
        &self,
        extenders: &[Extender],
        pod: &Value,
        names: Vec<String>,
    ) -> Result<Extension, Error> {
        let mut extension = Extension::default();
        let mut left = names;
        for extender in extenders {
            if left.is_empty() {
                break;
            }
            let asked = left.clone();
            let filtered = extender.filter(pod, asked, |names| self.whole_nodes(names));
            let ExtenderFilterResult {
                left: remaining,
                failed,
                unresolvable,
            } = match filtered.await {
                Ok(filtered) => filtered,
                Err(error) if extender.is_ignorable() => {
                    tracing::info!(
                        extender = extender.url(), error = %error,
                        "skipping an extender that failed and may be ignored"
                    );
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (nodes, resolvable) in [(failed, true), (unresolvable, false)] {
                for (node, why) in nodes {
                    let place = self.cluster.snapshot.place_of(&node);
                    let nodes: Bits = place.into_iter().collect();
                    extension.rejected.add(&nodes, why, resolvable);
                }
            }
            left = remaining;
        }
        let places = left.iter();
        let places = places.filter_map(|name| self.cluster.snapshot.place_of(name));
        extension.allowed = places.collect();
        Ok(extension)
    }

    /// Calls extenders for scores. One that fails is ignored.
    async fn prioritize(&self, extenders: &[Extender], pod: &Value, extension: &mut Extension) {
        let snapshot = &self.cluster.snapshot;
        let names = extension.allowed.iter().map(|at| snapshot.name(at));
        let names: Vec<String> = names.map(str::to_owned).collect();
        for extender in extenders {
            let scores = extender.prioritize(pod, &names, |names| self.whole_nodes(names));
            match scores.await {
                Ok(scores) => {
                    let scores = scores.into_iter();
                    let scores =
                        scores.filter_map(|(node, score)| Some((snapshot.place_of(&node)?, score)));
                    extension.scores.extend(scores);
                }
                Err(error) => {
                    tracing::debug!(extender = extender.url(), error = %error, "no scores");
                }
            }
        }
    }

    /// Chooses pods to evict for a pod; extenders may exclude some.
    pub(super) async fn preempt(
        &mut self,
        pod: &Arc<Pod>,
        diagnosis: &Diagnosis,
    ) -> Result<Preemption, NoPreemption> {
        let random = rand::random();
        let none = |message: String| NoPreemption {
            message: format!("preemption: {message}"),
            clears_nomination: false,
        };
        let Some(placer) = self.placers.get_mut(&pod.scheduler_name) else {
            return Err(none("no candidate node for preemption".to_owned()));
        };
        let mut candidates = placer.candidates(&mut self.cluster, pod, diagnosis, random)?;
        let mut interested = self.interested(pod);
        interested.retain(Extender::judges_preemption);
        if !interested.is_empty() {
            let judged = self.judge(&interested, pod, candidates).await;
            candidates = judged.map_err(|error| none(error.to_string()))?;
        }
        preempt::best(&self.cluster, candidates, random)
            .ok_or_else(|| none("no candidate node for preemption".to_owned()))
    }

    async fn judge(
        &self,
        extenders: &[Extender],
        pod: &Pod,
        candidates: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, Error> {
        let whole = self.whole_pod(pod).await?;
        let snapshot = &self.cluster.snapshot;
        let by_node = candidates.iter().map(|candidate| {
            let uids = candidate
                .victims
                .iter()
                .map(|it| it.metadata.uid.to_string());
            let violations = i64::try_from(candidate.violations).unwrap_or(i64::MAX);
            let node = snapshot.name(candidate.place).to_owned();
            (node, (uids.collect(), violations))
        });
        let mut victims: VictimsByNode = by_node.collect();
        for extender in extenders {
            match extender.preempt(&whole, &victims).await {
                Ok(agreed) => victims = agreed,
                Err(error) if extender.is_ignorable() => {
                    tracing::info!(
                        extender = extender.url(), error = %error,
                        "skipping an extender that failed and may be ignored"
                    );
                }
                Err(error) => return Err(error),
            }
            if victims.is_empty() {
                break;
            }
        }
        let mut agreed = Vec::new();
        for (node, (uids, violations)) in victims {
            let place = snapshot.place_of(&node);
            let place = place.ok_or_else(|| Error::Victims(format!("node {node:?} not found")))?;
            let here: FxHashMap<&str, &Arc<Pod>> = snapshot
                .pods_on(place)
                .map(|pod| (pod.metadata.uid.as_str(), pod))
                .collect();
            let victims = uids.iter().map(|uid| {
                let found = here.get(uid.as_str()).map(|pod| Arc::clone(pod));
                found.ok_or_else(|| {
                    Error::Victims(format!(
                        "extender claims to preempt pod (UID: {uid}) on node: {node}, but the pod is not found on that node"
                    ))
                })
            });
            agreed.push(Candidate {
                place,
                victims: victims.collect::<Result<_, _>>()?,
                violations: usize::try_from(violations).unwrap_or(0),
            });
        }
        Ok(agreed)
    }
}
