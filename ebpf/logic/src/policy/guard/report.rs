//! What people are told of a verdict at a pod's interface.

use ebpf_abi::policy::{PolicyFlow, cookies};
use ebpf_abi::{Counter, FlowRecord};

use super::Guard;

/// What is told of a verdict besides the flow.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub struct VerdictReason {
    /// What was counted: a [`Counter`] by its index.
    pub reason: u32,
    /// The rule, or one of [`cookies`].
    pub cookie: u32,
    /// The epoch of the rule; 0: policy was not asked.
    pub epoch: u32,
}

impl VerdictReason {
    /// What a rule says.
    #[inline(always)]
    #[must_use]
    pub const fn policy(reason: Counter, cookie: u32, epoch: u32) -> Self {
        Self {
            reason: reason.index(),
            cookie,
            epoch,
        }
    }

    /// Nothing that policy says.
    #[inline(always)]
    #[must_use]
    pub const fn not_policy(reason: Counter) -> Self {
        Self::policy(reason, cookies::DEFAULT, 0)
    }
}

/// Writes what is told of a verdict; when it was, and for how many it stands, is
/// left to the caller.
#[inline(always)]
pub fn describe(guard: &Guard, why: &VerdictReason, into: &mut FlowRecord) {
    let mut key = guard.key;
    // A flow that ended is told of as it began, whoever speaks.
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
