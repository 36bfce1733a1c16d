//! How many entries of maps a set takes.

use ebpf_abi::{MAGLEV_CHUNK, ServiceFlags};

use crate::compile::DesiredSet;
use crate::current::{is_large, members_by_address};

/// Whether programs look backends up in `MEMBERS` ([`has_members`](ebpf_abi::Service::has_members)).
pub(super) fn is_tracked(desired: &DesiredSet) -> bool {
    desired.flags.contains(ServiceFlags::AFFINITY) || is_large(&desired.backends)
}

/// How many entries of `MEMBERS` a set takes.
pub(super) fn members_of(desired: &DesiredSet) -> usize {
    let all = if is_tracked(desired) {
        desired.backends.len()
    } else {
        0
    };
    all + members_by_address(0, 0, &desired.backends).len()
}

/// Entries of `MAGLEV` that a table takes.
pub(super) const fn chunks_of(table: u32) -> usize {
    table.div_ceil(MAGLEV_CHUNK) as usize
}
