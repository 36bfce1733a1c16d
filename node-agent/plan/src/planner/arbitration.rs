//! Decides which set gets a key that several want, and what is written there.

use ebpf_abi::{Service as Entry, ServiceKey};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::Planner;
use super::batch::Batch;
use super::claims::Claimant;
use super::owner::Owner;
use crate::compile::{Key, Rank};
use crate::current::Action;

impl Planner {
    pub(super) fn claim(&mut self, id: u32, keys: &[Key], batch: &mut Batch) {
        for Key { key, flags, rank } in keys.iter().copied() {
            let claim = self.keys.entry(key).or_default();
            let claimant = Claimant {
                set: id,
                flags,
                rank,
            };
            match claim.claimants.iter_mut().find(|it| it.set == id) {
                Some(mine) => *mine = claimant,
                None => claim.claimants.push(claimant),
            }
            batch.touched.push(key);
        }
    }

    /// Gives up keys of `former` that are not in `now`.
    pub(super) fn unclaim(&mut self, id: u32, former: &[Key], now: &[Key], batch: &mut Batch) {
        // Mostly they are the same, in the same order.
        let stays: Option<FxHashSet<ServiceKey>> = (former.len() > 16 && former.len() != now.len())
            .then(|| now.iter().map(|it| it.key).collect());
        for (place, Key { key, .. }) in former.iter().enumerate() {
            let same = now.get(place).is_some_and(|it| it.key == *key)
                || stays.as_ref().map_or_else(
                    || now.iter().any(|it| it.key == *key),
                    |stays| stays.contains(key),
                );
            if same {
                continue;
            }
            if let Some(claim) = self.keys.get_mut(key) {
                claim.claimants.retain(|it| it.set != id);
            }
            batch.touched.push(*key);
        }
    }

    /// Decides each touched key, orders the actions, and re-evaluates the problems of all
    /// objects concerned.
    pub(super) fn finish(&mut self, mut batch: Batch) -> Vec<Action> {
        if !self.started {
            return Vec::new();
        }
        let mut touched = std::mem::take(&mut batch.touched);
        touched.sort_unstable();
        touched.dedup();
        if self.used.services.saturating_add(touched.len()) > self.room.services {
            // Removals make room for additions.
            touched.sort_by_key(|key| self.winner(key).is_some());
        }
        for key in touched {
            batch.owners.extend(self.owners_of(&key));
            let winner = self.winner(&key);
            let entry = winner.map(|(_, entry)| entry);
            let full = self.used.services >= self.room.services;
            let Some(claim) = self.keys.get_mut(&key) else {
                continue;
            };
            if let (None, Some((id, _)), true) = (claim.written, winner, full) {
                let owner = self.sets.get(&id).map(|set| set.owner.clone());
                self.starved.extend(owner);
                continue;
            }
            if claim.written == entry {
                if claim.claimants.is_empty() {
                    self.keys.remove(&key);
                }
                continue;
            }
            match (claim.written, entry) {
                (None, Some(_)) => {
                    self.used.services += 1;
                    self.ports.enter(&key);
                }
                (Some(_), None) => {
                    self.used.services -= 1;
                    self.ports.withdraw(&key);
                }
                _ => {}
            }
            claim.written = entry;
            if let Some(entry) = entry {
                batch.enter(key, entry);
            } else {
                batch.withdraw(key);
                if claim.claimants.is_empty() {
                    self.keys.remove(&key);
                }
            }
        }
        self.ports.flush(&mut batch);
        for owner in std::mem::take(&mut batch.owners) {
            self.judge(owner);
        }
        batch.actions()
    }

    /// Returns the entry that a key should have, and its set.
    pub(super) fn winner(&self, key: &ServiceKey) -> Option<(u32, Entry)> {
        let reserved = self.node.reserves(key);
        let claimants = self.keys.get(key)?.claimants.iter();
        let (claimant, set) = claimants
            .filter(|it| it.rank == Rank::Override || !reserved)
            .filter_map(|it| Some((it, self.sets.get(&it.set)?)))
            .min_by(|(a, of_a), (b, of_b)| {
                let a = (a.rank, of_a.created, &of_a.desired.name);
                a.cmp(&(b.rank, of_b.created, &of_b.desired.name))
            })?;
        Some((claimant.set, set.entry(claimant.set, claimant.flags)))
    }

    pub(super) fn owners_of(&self, key: &ServiceKey) -> SmallVec<[Owner; 2]> {
        let claimants = self.keys.get(key).map(|claim| claim.claimants.as_slice());
        claimants
            .unwrap_or_default()
            .iter()
            .filter_map(|it| Some(self.sets.get(&it.set)?.owner.clone()))
            .collect()
    }
}
