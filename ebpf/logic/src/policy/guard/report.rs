//! Records of verdicts at a pod's interface, for people.

use ebpf_abi::policy::{PolicyFlow, cookies};
use ebpf_abi::{Counter, FlowRecord};

use super::state::Guard;

/// The parts of a record besides the flow.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub struct VerdictReason {
    /// The index of a [`Counter`].
    pub reason: u32,
    /// The rule, or one of [`cookies`].
    pub cookie: u32,
    /// The epoch of the rule; 0: policy was not asked.
    pub epoch: u32,
}

impl VerdictReason {
    /// Returns the reason of a rule's verdict.
    #[inline(always)]
    #[must_use]
    pub const fn policy(reason: Counter, cookie: u32, epoch: u32) -> Self {
        Self {
            reason: reason.index(),
            cookie,
            epoch,
        }
    }

    /// Returns a reason outside of policy.
    #[inline(always)]
    #[must_use]
    pub const fn not_policy(reason: Counter) -> Self {
        Self::policy(reason, cookies::DEFAULT, 0)
    }
}

/// Writes the record of a verdict; the caller sets its time and weight.
#[inline(always)]
pub fn describe(guard: &Guard, why: &VerdictReason, into: &mut FlowRecord) {
    let mut key = guard.key;
    // A flow that ended is recorded from its opening side, whichever side sends.
    let ended = why.reason == Counter::DroppedEnded.index();
    let flow = if ended {
        guard.entry.flow.as_unchecked()
    } else {
        &guard.flow
    };
    if guard.about != 0 && !ended {
        key.protocol = guard.headers.tuple.protocol;
    }
    let ingress = flow.has(PolicyFlow::INGRESS);
    into.tuple = if ingress { key.reversed() } else { key };
    into.peer = flow.peer;
    into.peer_port = flow.peer_port;
    into.cookie = why.cookie;
    into.epoch = why.epoch;
    into.reason = why.reason;
    into.device = guard.flow.device;
    into.flags = if ingress {
        FlowRecord::INGRESS
    } else {
        FlowRecord::EGRESS
    };
}
