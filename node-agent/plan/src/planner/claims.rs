//! The sets that want a key.

use ebpf_abi::{Service as Entry, ServiceFlags};
use smallvec::SmallVec;

use crate::compile::Rank;

/// The sets that want a key, and its present entry.
#[derive(Debug, Default)]
pub(super) struct Claim {
    pub(super) claimants: SmallVec<[Claimant; 1]>,
    pub(super) written: Option<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claimant {
    pub(super) set: u32,
    pub(super) flags: ServiceFlags,
    pub(super) rank: Rank,
}
