//! The maps of flows at a pod's interface.

use ebpf_abi::policy::PolicyFlowEntry;
use ebpf_abi::{ChecksummedValue, Config, Counter, Tuple};

use super::recent_packet::Recent;
use super::report::VerdictReason;
use super::state::Guard;
use crate::policy::decision::PolicyMaps;

/// The maps for flows at pods' interfaces besides those of policy.
pub trait PolicyFlows: PolicyMaps {
    /// A flow's entry in its map, for [`touch`](Self::touch).
    type Place: Copy;

    /// Copies a flow's entry to `into`.
    fn policy_flow(&self, key: &Tuple, into: &mut PolicyFlowEntry) -> Option<Self::Place>;
    /// Says when an entry was last used.
    fn touch(&self, place: Self::Place, used: u64);
    /// Adds or replaces an entry; returns false if there is no room.
    fn put_policy_flow(&self, key: &Tuple, entry: &PolicyFlowEntry) -> bool;
    /// Copies the node's configuration to `into`; returns false if there is none.
    fn read_node(&self, into: &mut ChecksummedValue<Config>) -> bool;
    /// Monotonic time in ticks of [`Life`](ebpf_abi::Life).
    fn clock(&self) -> u32;
    /// Returns a number that changes a few times per tick, and is cheaper than the clock.
    fn moment(&self) -> u32;
    /// Returns whether a packet certainly belongs to no service and to no flow of one.
    fn is_strange(&self, tuple: &Tuple) -> bool;
    /// Returns whether this processor's table of [recent](Recent) packets contains it.
    fn is_recent(&self, place: u32, recent: &Recent) -> bool;
    /// Puts it there.
    fn keep_recent(&self, place: u32, recent: &Recent);
    /// Counts.
    fn tally(&self, counter: Counter);
    /// Records a verdict for people, if enabled; never for packets of a continuing flow.
    fn report(&self, guard: &Guard, why: &VerdictReason);
}
