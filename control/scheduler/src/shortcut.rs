//! Fast preemption for pods that need only resources: a sum per node instead of a trial
//! per victim.
//!
//! It applies if every filter states that the pods on a node do not influence it, or do
//! so only by their requests.

use std::sync::Arc;

use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::place::{Diagnosis, Placer};
use crate::plugins::{Cycle, Influence, RejectedNodes};
use crate::preempt::{Candidate, DryRun, sort_by_importance, split_by_budgets};
use crate::view::Pod;

/// State of all nodes before any victim is chosen.
pub(crate) struct Shortcut {
    /// Nodes on which the pod fits regardless of pods.
    open: Bits,
    /// The reasons of the other nodes.
    rejected: RejectedNodes,
    /// Resources that the pod needs, and how much of each. Empty: resources are not checked.
    needs: Vec<(String, i64)>,
}

/// A resource of one node.
struct Account<'a> {
    name: &'a str,
    needed: i64,
    /// The free amount.
    free: i64,
}

impl Account<'_> {
    /// A pod comes to the node (1) or leaves it (-1).
    fn count(&mut self, pod: &Pod, sign: i64) {
        let requested = match self.name {
            "pods" => 1,
            name => pod.shape.requests.get(name),
        };
        self.free -= sign * requested;
    }

    const fn fits(&self) -> bool {
        self.needed <= self.free
    }

    fn reason(&self) -> String {
        match self.name {
            "pods" => "Too many pods".to_owned(),
            name => format!("Insufficient {name}"),
        }
    }
}

impl Placer {
    /// The shortcut for a pod, if there is one.
    pub(crate) fn shortcut(
        &mut self,
        cluster: &Cluster,
        pod: &Pod,
        diagnosis: &Diagnosis,
    ) -> Option<Shortcut> {
        let mut relations = std::mem::take(&mut self.relations);
        let args = &self.profile().args;
        let cycle = Cycle::prepare(cluster, pod, &mut relations, args, false);
        let shortcut = cycle.ok().and_then(|cycle| self.judge(&cycle, diagnosis));
        self.relations = relations;
        shortcut
    }

    fn judge(&self, cycle: &Cycle<'_>, diagnosis: &Diagnosis) -> Option<Shortcut> {
        let (snapshot, pod) = (cycle.snapshot, cycle.pod);
        let mut open = diagnosis.resolvable(snapshot);
        let mut rejected = RejectedNodes::default();
        let mut needs = Vec::new();
        for (index, enabled) in self.profile().plugins.iter().enumerate() {
            if !enabled.filters {
                continue;
            }
            match enabled.plugin.influence(cycle) {
                Influence::Any => return None,
                Influence::Resources(wanted) => needs.extend(wanted),
                Influence::None => {
                    let mut by_plugin = RejectedNodes::default();
                    enabled
                        .plugin
                        .filter(snapshot, pod, &mut open, &mut by_plugin);
                    enabled
                        .plugin
                        .filter_cycle(cycle, &mut open, &mut by_plugin);
                    rejected.absorb(index, by_plugin);
                }
            }
        }
        Some(Shortcut {
            open,
            rejected,
            needs,
        })
    }
}

impl Shortcut {
    /// The fewest, least important pods to evict from a node, or why that does not help;
    /// `None`: this node must be tried.
    pub(crate) fn select_victims(
        &self,
        cluster: &Cluster,
        run: &DryRun<'_>,
        place: usize,
    ) -> Option<Result<Candidate, Vec<String>>> {
        let snapshot = &cluster.snapshot;
        let on_node = snapshot.pods_on(place);
        let mut potential: Vec<Arc<Pod>> = on_node
            .filter(|other| other.priority < run.pod.priority)
            .cloned()
            .collect();
        if potential.is_empty() {
            let reason = "No preemption victims found for incoming pod";
            return Some(Err(vec![reason.to_owned()]));
        }
        let node = snapshot.name(place);
        let nominated = cluster.nominations.relevant(node, run.pod);
        let nominated: Vec<&Arc<Pod>> = nominated
            .filter(|other| snapshot.pod(&other.key()).is_none())
            .collect();
        if nominated
            .iter()
            .any(|it| !it.shape.anti_affinity.is_empty())
        {
            return None;
        }
        if !self.open.contains(place) {
            let rejections = self.rejected.rejections.iter();
            let here = rejections.filter(|it| it.nodes.contains(place));
            return Some(Err(here.map(|it| it.reason.clone().into_owned()).collect()));
        }
        let mut accounts = self.accounts(cluster, place);
        let mut count = |pod: &Pod, sign: i64| {
            for account in &mut accounts {
                account.count(pod, sign);
            }
            accounts.iter().all(Account::fits)
        };
        for other in &nominated {
            count(other, 1);
        }
        let mut fits = false;
        for victim in &potential {
            fits = count(victim, -1);
        }
        if !fits {
            let lacking = accounts.iter().filter(|account| !account.fits());
            return Some(Err(lacking.map(Account::reason).collect()));
        }
        sort_by_importance(&mut potential);
        let (violating, others) = split_by_budgets(potential, run.budgets);
        let is_mixed = !violating.is_empty() && !others.is_empty();
        let first_other = violating.len();
        let (mut victims, mut violations) = (Vec::new(), 0);
        for (at, pod) in violating.into_iter().chain(others).enumerate() {
            if !count(&pod, 1) {
                count(&pod, -1);
                violations += usize::from(at < first_other);
                victims.push(pod);
            }
        }
        if is_mixed {
            sort_by_importance(&mut victims);
        }
        // Without victims the pod would have fitted: the trial says why it did not.
        (!victims.is_empty()).then_some(Ok(Candidate {
            place,
            victims,
            violations,
        }))
    }

    fn accounts(&self, cluster: &Cluster, place: usize) -> Vec<Account<'_>> {
        let snapshot = &cluster.snapshot;
        let at = |column: &[i64]| column.get(place).copied().unwrap_or(0);
        let mut accounts = Vec::with_capacity(self.needs.len());
        for (name, needed) in &self.needs {
            let (has, used) = match name.as_str() {
                "pods" => {
                    let (has, used) = (&snapshot.allocatable.pods, &snapshot.requested.pods);
                    (at(has), at(used))
                }
                name => {
                    let columns = snapshot.resource(name, false);
                    columns.map_or((0, 0), |(has, used)| (at(has), at(used)))
                }
            };
            if has == 0 && snapshot.is_device_resource(name) {
                continue;
            }
            accounts.push(Account {
                name,
                needed: *needed,
                free: has - used,
            });
        }
        accounts
    }
}
