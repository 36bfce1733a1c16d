//! Fragments whose first part was not seen.

use ebpf_abi::policy::{Direction, EndpointKey};
use ebpf_abi::{Address, Tuple};

use super::flows::PolicyFlows;
use super::outline::unreadable;
use super::state::{DeviceFacts, Guard, Ruling};

/// Decides on a fragment whose first part, with the ports, was not seen: only
/// a pod that no policy selects may have it, or, once that is [proven](super::prove), send
/// it.
#[inline(always)]
pub fn portless<M: PolicyFlows>(
    maps: &M,
    tuple: &Tuple,
    told: &DeviceFacts,
    guard: &mut Guard,
) -> Ruling {
    let own = if told.direction == Direction::INGRESS {
        tuple.destination
    } else {
        tuple.source
    };
    guard.unknown(told);
    guard.name(tuple, tuple);
    if is_free(maps, own, Direction::INGRESS) && is_free(maps, own, Direction::EGRESS) {
        return if guard.is_ingress() {
            Ruling::Pass
        } else {
            Ruling::Prove
        };
    }
    unreadable(maps, guard)
}

#[inline(always)]
pub(super) fn is_free<M: PolicyFlows>(maps: &M, own: Address, direction: Direction) -> bool {
    let key = EndpointKey {
        epoch: maps.policy_root().epoch,
        direction,
        address: own,
    };
    maps.endpoint(&key)
        .and_then(|sealed| sealed.open(&key))
        .is_some_and(|endpoint| endpoint.ruleset == 0)
}
