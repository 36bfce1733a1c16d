//! Tracks which pods are in which PodGroup, and which of them have a node.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::view::{GangKey, Pod, PodGroup, PodKey};

/// All PodGroups and their pods.
#[derive(Clone, Debug, Default)]
pub struct Gangs {
    is_enabled: bool,
    gangs: FxHashMap<GangKey, Gang>,
    /// The PodGroup of each pod.
    gang_of: FxHashMap<PodKey, GangKey>,
    arrivals: u64,
}

/// How many pods a PodGroup has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// All.
    pub all: usize,
    /// Those that are on a node, or assumed there.
    pub scheduled: usize,
}

#[derive(Clone, Debug, Default)]
struct Gang {
    group: Option<Arc<PodGroup>>,
    members: FxHashMap<PodKey, GangMember>,
    scheduled: usize,
}

#[derive(Clone, Debug)]
struct GangMember {
    pod: Arc<Pod>,
    arrival: u64,
    stage: MemberStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberStage {
    Unscheduled,
    Assumed,
    Assigned,
}

impl Gang {
    fn set_stage(&mut self, key: &PodKey, stage: MemberStage) {
        let Some(member) = self.members.get_mut(key) else {
            return;
        };
        let was = usize::from(member.stage != MemberStage::Unscheduled);
        let is = usize::from(stage != MemberStage::Unscheduled);
        member.stage = stage;
        self.scheduled = self.scheduled - was + is;
    }
}

impl Gangs {
    /// Whether pods are scheduled by their PodGroups at all.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Schedules pods by their PodGroups from now on.
    pub const fn enable(&mut self) {
        self.is_enabled = true;
    }

    /// A PodGroup was seen; whether none of its name was known.
    pub fn set_group(&mut self, group: &Arc<PodGroup>) -> bool {
        let meta = &group.metadata;
        let key = (meta.namespace.clone(), meta.name.clone());
        let known = self.gangs.entry(key).or_default();
        let before = known.group.replace(Arc::clone(group));
        before.is_none_or(|it| it.metadata.uid != meta.uid)
    }

    /// Removes a deleted PodGroup.
    pub fn remove_group(&mut self, key: &GangKey) {
        if let Some(gang) = self.gangs.get_mut(key) {
            gang.group = None;
        }
        self.drop_empty(key);
    }

    /// A PodGroup.
    #[must_use]
    pub fn group(&self, key: &GangKey) -> Option<&Arc<PodGroup>> {
        self.gangs.get(key)?.group.as_ref()
    }

    /// A pod was seen; whether it is a new member of a PodGroup.
    pub fn observe(&mut self, pod: &Arc<Pod>) -> bool {
        let Some(gang) = pod.gang().filter(|_| self.is_enabled) else {
            return false;
        };
        let key = pod.key();
        let members = self.gangs.get(&gang).map(|it| &it.members);
        let known = members.and_then(|it| it.get(&key));
        let known = known.filter(|it| it.pod.metadata.uid == pod.metadata.uid);
        let stage = match known {
            _ if !pod.node_name.is_empty() => MemberStage::Assigned,
            // The API does not show the decision yet.
            Some(known) => known.stage,
            None => MemberStage::Unscheduled,
        };
        let arrival = known.map(|it| it.arrival);
        let is_new = arrival.is_none();
        if is_new {
            self.remove(&key);
        }
        let arrival = arrival.unwrap_or_else(|| {
            self.arrivals += 1;
            self.arrivals
        });
        let entry = self.gangs.entry(gang.clone()).or_default();
        match entry.members.get_mut(&key) {
            Some(member) => member.pod = Arc::clone(pod),
            None => {
                let member = GangMember {
                    pod: Arc::clone(pod),
                    arrival,
                    stage: MemberStage::Unscheduled,
                };
                entry.members.insert(key.clone(), member);
                self.gang_of.insert(key.clone(), gang);
            }
        }
        entry.set_stage(&key, stage);
        is_new
    }

    /// Removes a deleted pod.
    pub fn remove(&mut self, key: &PodKey) {
        let Some(gang) = self.gang_of.remove(key) else {
            return;
        };
        if let Some(members) = self.gangs.get_mut(&gang) {
            members.set_stage(key, MemberStage::Unscheduled);
            members.members.remove(key);
        }
        self.drop_empty(&gang);
    }

    /// A pod is going to be bound.
    pub fn assume(&mut self, key: &PodKey) {
        self.set_stage(key, MemberStage::Assumed);
    }

    /// Forgets the node of a pod that will not be bound.
    pub fn forget(&mut self, key: &PodKey) {
        self.set_stage(key, MemberStage::Unscheduled);
    }

    /// How many pods a PodGroup has.
    #[must_use]
    pub fn counts(&self, key: &GangKey) -> MemberCounts {
        let gang = self.gangs.get(key);
        gang.map_or_else(MemberCounts::default, |gang| MemberCounts {
            all: gang.members.len(),
            scheduled: gang.scheduled,
        })
    }

    /// Returns the pods of a PodGroup that have no node, in order of arrival.
    #[must_use]
    pub fn unscheduled(&self, key: &GangKey) -> Vec<Arc<Pod>> {
        self.in_stage(key, MemberStage::Unscheduled)
    }

    /// Returns the pods of a PodGroup that are about to be bound, in order of arrival.
    #[must_use]
    pub fn assumed(&self, key: &GangKey) -> Vec<Arc<Pod>> {
        self.in_stage(key, MemberStage::Assumed)
    }

    fn in_stage(&self, key: &GangKey, stage: MemberStage) -> Vec<Arc<Pod>> {
        let members = self.gangs.get(key).into_iter();
        let members = members.flat_map(|it| it.members.values());
        let mut members: Vec<_> = members.filter(|it| it.stage == stage).collect();
        members.sort_by_key(|it| it.arrival);
        members.into_iter().map(|it| Arc::clone(&it.pod)).collect()
    }

    /// A pod that is on its node already stays there.
    fn set_stage(&mut self, key: &PodKey, stage: MemberStage) {
        let Some(gang) = self.gang_of.get(key) else {
            return;
        };
        let Some(gang) = self.gangs.get_mut(gang) else {
            return;
        };
        let member = gang.members.get(key);
        if member.is_some_and(|it| it.stage != MemberStage::Assigned) {
            gang.set_stage(key, stage);
        }
    }

    fn drop_empty(&mut self, key: &GangKey) {
        let gang = self.gangs.get(key);
        if gang.is_some_and(|it| it.group.is_none() && it.members.is_empty()) {
            self.gangs.remove(key);
        }
    }
}
