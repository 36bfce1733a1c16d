//! The state of plugins for one decision.

use super::affinity_state::AffinityState;
use super::args::CycleArgs;
use super::spread_state::SpreadState;
use crate::cluster::Cluster;
use crate::devices::DeviceState;
use crate::eligible_nodes::check_terms;
use crate::relations::Relations;
use crate::reserve::Reservation;
use crate::snapshot::Snapshot;
use crate::unmet::UnmetReason;
use crate::view::Pod;
use crate::volumes::VolumeState;

/// Prepared state of plugins that depend on more than the pod and one node, for one
/// decision.
pub struct Cycle<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// The pod that is to be placed.
    pub pod: &'a Pod,
    /// Counts of pods, up to date for the pod.
    pub relations: &'a Relations,
    /// The pod's topology spread constraints.
    pub spread: SpreadState,
    /// The pod's affinity terms, and those of placed pods that match it.
    pub affinity: AffinityState,
    /// The volumes of its claims.
    pub volumes: VolumeState,
    /// The devices of its claims.
    pub devices: DeviceState<'a>,
}

impl<'a> Cycle<'a> {
    /// Prepares the state of all plugins for a pod: for filters, and with `scores` also
    /// for scores.
    ///
    /// # Errors
    /// The requirement that no node can satisfy.
    pub fn prepare(
        cluster: &'a Cluster,
        pod: &'a Pod,
        relations: &'a mut Relations,
        args: &CycleArgs,
        scores: bool,
    ) -> Result<Self, UnmetReason> {
        let Cluster {
            snapshot,
            catalog,
            assumed,
            ..
        } = cluster;
        check_terms(pod)?;
        let volumes = VolumeState::prepare(snapshot, pod, catalog, &assumed.volumes)?;
        let devices = DeviceState::prepare(snapshot, pod, catalog, &assumed.devices)?;
        relations.trim(snapshot);
        let spread = SpreadState::prepare(snapshot, pod, catalog, relations, args, scores);
        let affinity = AffinityState::prepare(snapshot, pod, relations, args, scores);
        Ok(Self {
            snapshot,
            pod,
            relations,
            spread,
            affinity,
            volumes,
            devices,
        })
    }

    /// Returns the reservation for the node at `place`.
    #[must_use]
    pub fn reserve(&self, place: usize) -> Reservation {
        Reservation {
            volumes: self.volumes.reserve(self.snapshot, place),
            devices: self.devices.reserve(self.snapshot, place),
        }
    }
}
