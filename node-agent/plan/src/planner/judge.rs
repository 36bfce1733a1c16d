//! Finds requests of objects that are not in force.

use super::{Owner, Planner};
use crate::compile::{Key, Rank};
use crate::problem::{Front, Reason};
use crate::service::MOST_PROBLEMS;

impl Planner {
    /// Works out the problems of an object.
    pub(super) fn judge(&mut self, owner: Owner) {
        let (mut reasons, ids) = match &owner {
            Owner::Override => return,
            Owner::Service(key) => match self.services.get(key) {
                Some(known) => (known.problems.clone(), known.sets.as_slice()),
                None => (Vec::new(), [].as_slice()),
            },
            Owner::Pod(key) => match self.pods.get(key) {
                Some(known) => (known.state.problems.clone(), known.sets.as_slice()),
                None => (Vec::new(), [].as_slice()),
            },
        };
        for (id, set) in ids.iter().filter_map(|id| Some((*id, self.sets.get(id)?))) {
            if set.desired.missing > 0 {
                let needed = set.desired.missing;
                reasons.push(Reason::NoRoom { needed });
            }
            let keys = set.desired.keys.iter();
            for Key { key, rank, .. } in keys.filter(|key| Front::is_told(&key.key)) {
                let front = Front::from_key(key);
                match self.winner(key) {
                    Some((winner, _)) if winner == id => {
                        if self.keys.get(key).is_some_and(|it| it.written.is_none()) {
                            reasons.push(Reason::NoRoom { needed: 1 });
                        }
                        if *rank == Rank::ExternalIp
                            && self.node.addresses.contains_key(&key.address)
                        {
                            let address = key.address;
                            reasons.push(Reason::OwnAddress { address });
                        }
                    }
                    // An address that the node answers itself is served as intended.
                    Some((winner, _)) if *rank == Rank::ClusterIp && self.is_own(winner) => {}
                    Some((winner, _)) => {
                        let by = self.sets.get(&winner).map(|set| set.owner.to_string());
                        let by = by.unwrap_or_default().into();
                        reasons.push(Reason::Taken { front, by });
                    }
                    None => reasons.push(Reason::Reserved { front }),
                }
            }
        }
        reasons.sort_unstable();
        reasons.dedup();
        reasons.truncate(MOST_PROBLEMS);
        let former = if reasons.is_empty() {
            self.problems.remove(&owner).unwrap_or_default()
        } else {
            self.problems.get(&owner).cloned().unwrap_or_default()
        };
        if former != reasons {
            self.problems_version += 1;
            if !reasons.is_empty() {
                self.problems.insert(owner, reasons);
            }
        }
    }

    fn is_own(&self, id: u32) -> bool {
        let owner = self.sets.get(&id).map(|set| &set.owner);
        owner == Some(&Owner::Override)
    }
}
