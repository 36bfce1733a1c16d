//! Changes of the maps as data.

use ebpf_abi::policy::{
    EndpointKey, EndpointPolicy, PeerEntry, PolicyRoot, PolicyVerdict, PortClasses, VerdictKey,
};
use ebpf_logic::policy::model::PolicyModel;

use crate::address::Prefix;

/// A change of one map entry. Each is idempotent; applied in order, the maps are sound after
/// every one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Removes entries that a former agent may have left under an epoch before its first
    /// write.
    Clear(u32),
    /// Names a rule, for people.
    PutRule(u32, Box<str>),
    /// Writes an entry that nothing refers to yet, or that does not change.
    PutVerdict(VerdictKey, PolicyVerdict),
    /// Says of ports in which classes they are; all rulesets know the classes.
    PutPorts(u32, PortClasses),
    /// Says of a prefix, under an epoch, who it is; all rulesets know the peer.
    PutPeer(u32, Prefix, PeerEntry),
    /// Says what applies to one side of a pod or node; the ruleset is complete.
    PutEndpoint(EndpointKey, EndpointPolicy),
    /// Looks up everything under this epoch from now on, and decides flows again.
    PutRoot(PolicyRoot),
    /// Removes a policy: a pod is then closed, a node open.
    DeleteEndpoint(EndpointKey),
    /// Forgets a prefix, under an epoch.
    DeletePeer(u32, Prefix),
    /// Removes an entry that nothing refers to any more.
    DeleteVerdict(VerdictKey),
    /// Forgets a rule's name.
    DeleteRule(u32),
    /// Removes all that is under other epochs than this.
    Prune(u32),
}

impl Action {
    /// Returns whether all programs that read a former root must have ended first: it
    /// removes or rewrites what that root may lead to.
    #[must_use]
    pub const fn waits(&self) -> bool {
        matches!(self, Self::Clear(_) | Self::Prune(_))
    }

    /// Applies it to a model of the maps as to the maps.
    pub fn apply(&self, model: &mut PolicyModel) {
        match self {
            Self::PutRule(..) | Self::DeleteRule(_) => {}
            Self::Clear(epoch) => {
                model.verdicts.retain(|key, _| key.epoch != *epoch);
                model.endpoints.retain(|key, _| key.epoch != *epoch);
                model.peers.retain(|(of, _, _), _| of != epoch);
                let half = (epoch & 1) * PortClasses::HALF;
                model
                    .ports
                    .retain(|element, _| !(half..half + PortClasses::HALF).contains(element));
            }
            Self::PutVerdict(key, verdict) => {
                model.verdicts.insert(*key, *verdict);
            }
            Self::PutPorts(element, classes) => {
                model.ports.insert(*element, *classes);
            }
            Self::PutPeer(epoch, prefix, entry) => {
                let key = (*epoch, prefix.bits(), prefix.address());
                model.peers.insert(key, *entry);
            }
            Self::PutEndpoint(key, endpoint) => {
                model.endpoints.insert(*key, *endpoint);
            }
            Self::PutRoot(root) => model.root = *root,
            Self::DeleteEndpoint(key) => {
                model.endpoints.remove(key);
            }
            Self::DeletePeer(epoch, prefix) => {
                model
                    .peers
                    .remove(&(*epoch, prefix.bits(), prefix.address()));
            }
            Self::DeleteVerdict(key) => {
                model.verdicts.remove(key);
            }
            Self::Prune(epoch) => {
                model.verdicts.retain(|key, _| key.epoch == *epoch);
                model.endpoints.retain(|key, _| key.epoch == *epoch);
                model.peers.retain(|(of, _, _), _| of == epoch);
                let half = (epoch & 1) * PortClasses::HALF;
                model
                    .ports
                    .retain(|element, _| (half..half + PortClasses::HALF).contains(element));
            }
        }
    }
}
