//! Accounts of the addresses that objects want.

use std::sync::Arc;

use ebpf_abi::ServiceKey;

use super::claims::Claimant;
use super::{Owner, Planner, Set, join};
use crate::account::{Account, FrontAccount};
use crate::compile::Rank;
use crate::slice::SliceState;

impl Planner {
    /// Returns the account of a Service's addresses and problems, without its endpoints,
    /// for which the plan does not keep enough.
    #[must_use]
    pub fn service_account(&self, namespace: &str, name: &str) -> Account {
        let key = join(namespace, name);
        let ids = self.services.get(&key).map(|known| known.sets.as_slice());
        self.account(&Owner::Service(key), ids.unwrap_or_default())
    }

    /// The EndpointSlices of a Service, in the order of their names.
    pub fn service_slices(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = &Arc<SliceState>> {
        let known = self.services.get(&join(namespace, name));
        let slices = known.into_iter().flat_map(|known| &known.slices);
        slices.map(|(_, slice)| slice)
    }

    /// Returns the accounts of this node's Pods with host ports, and of what the node
    /// answers itself.
    #[must_use]
    pub fn other_accounts(&self) -> Vec<Account> {
        let mut pods: Vec<&Arc<str>> = self.pods.keys().collect();
        pods.sort_unstable();
        let pods = pods.into_iter().map(|key| {
            let ids = self.pods.get(key).map(|known| known.sets.as_slice());
            self.account(&Owner::Pod(key.clone()), ids.unwrap_or_default())
        });
        let own = (!self.override_sets.is_empty())
            .then(|| self.account(&Owner::Override, &self.override_sets));
        own.into_iter().chain(pods).collect()
    }

    /// This node's zone, as endpoints are chosen by it.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.facts.zone.as_deref()
    }

    fn account(&self, owner: &Owner, ids: &[u32]) -> Account {
        let object = owner.object();
        let mut account = Account::new(object.kind, &object.namespace, &object.name);
        for (id, set) in ids.iter().filter_map(|id| Some((*id, self.sets.get(id)?))) {
            for wanted in &set.desired.keys {
                let flags = set.desired.flags.with(wanted.flags);
                let mut front =
                    FrontAccount::new(&set.desired.name, &wanted.key, flags, wanted.rank);
                front.why = self.why_not(id, &wanted.key);
                front.answered_by_node =
                    wanted.rank != Rank::Override && self.is_overridden(&wanted.key);
                account.fronts.push(front);
            }
        }
        account.fronts.sort_unstable();
        let problems = self.problems.get(owner).into_iter().flatten();
        account.problems = problems.map(ToString::to_string).collect();
        account
    }

    /// Whether the node itself answers at a key.
    fn is_overridden(&self, key: &ServiceKey) -> bool {
        let claim = self.keys.get(key);
        claim.is_some_and(|it| it.claimants.iter().any(|it| it.rank == Rank::Override))
    }

    /// Returns why a key does not lead to a set that wants it; `None` if it does.
    fn why_not(&self, id: u32, key: &ServiceKey) -> Option<String> {
        let Some((winner, _)) = self.winner(key) else {
            return Some("the node itself listens there".to_owned());
        };
        let claim = self.keys.get(key)?;
        if winner == id {
            return claim
                .written
                .is_none()
                .then(|| "the map has no room".to_owned());
        }
        let of = |set: u32| {
            let claimant = claim.claimants.iter().find(|it| it.set == set)?;
            Some((*claimant, self.sets.get(&set)?))
        };
        let (theirs, other) = of(winner)?;
        let (mine, own) = of(id)?;
        let by = because(&theirs, other, &mine, own);
        Some(format!("it belongs to {}{by}", other.owner))
    }
}

/// Returns the rule by which one set has the key and not the other, in the order of the
/// rules.
fn because(theirs: &Claimant, other: &Set, mine: &Claimant, own: &Set) -> String {
    if theirs.rank != mine.rank {
        let plural = |rank: Rank| match rank {
            Rank::Override => "what the node answers itself",
            Rank::ClusterIp => "cluster IPs",
            Rank::LoadBalancer => "load balancers' addresses",
            Rank::NodePort => "node ports",
            Rank::ExternalIp => "external IPs",
            Rank::HostPort => "host ports",
        };
        let (first, then) = (plural(theirs.rank), plural(mine.rank));
        return format!(": {first} go before {then}");
    }
    if other.created < own.created {
        ", which is older".to_owned()
    } else {
        ", whose name sorts first".to_owned()
    }
}
