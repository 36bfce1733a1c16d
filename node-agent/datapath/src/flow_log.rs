//! A queue of flows that is too small for `FLOWS`, replaced by a larger one.
//!
//! Programs collect the flows whose keys are in `FLOW_LOG`, and a flow whose key is
//! missing there stays until its client comes again. So a larger queue is filled with the
//! keys of all flows before programs use it, and with what the former programs appended
//! to their queue until they were replaced. A key that is in the queue twice would only
//! take a place.

use std::path::Path;

use ebpf_abi::{FlowEntry, FlowFlags, FlowLogKey, Tuple, maps};
use rustc_hash::FxHashSet;

use crate::capacity::Capacity;
use crate::error::Error;
use crate::flows::ticks_now;
use crate::pins::next;
use crate::table::Table;

/// A larger queue beside the pinned one.
#[derive(Debug)]
pub(crate) struct LargerFlowLog {
    /// The keys it was filled with.
    queued: FxHashSet<Tuple>,
}

/// Returns how many keys the queue has to hold: one for each entry of `FLOWS`, which keeps
/// its size once it is made.
pub(crate) fn size(directory: &Path, capacity: &Capacity) -> Result<u32, Error> {
    if directory.join(maps::FLOWS).exists() {
        return Ok(Table::<Tuple, FlowEntry>::open(directory, maps::FLOWS)?.capacity());
    }
    Ok(capacity.flow_entries())
}

// === impl LargerFlowLog ===

impl LargerFlowLog {
    /// Fills the larger queue with the keys of all flows.
    pub(crate) fn fill(directory: &Path) -> Result<Self, Error> {
        let flows: Table<Tuple, FlowEntry> = Table::open(directory, maps::FLOWS)?;
        let mut queued = FxHashSet::default();
        flows.visit(&mut |entries| {
            // Only a client's entry is queued; the other one goes with it.
            let keys = entries.into_iter().filter_map(|(key, entry)| {
                let flags = entry.flow.as_unchecked().flags;
                (!flags.contains(FlowFlags::REPLY)).then_some(key)
            });
            queued.extend(keys);
            Ok(())
        })?;
        let now = ticks_now();
        let keys = queued.iter().map(|key| FlowLogKey::new(key, now));
        let entries = open_next(directory)?.push_all(keys)?;
        tracing::info!(
            map = maps::FLOW_LOG,
            entries,
            "replacing a map with one of another size"
        );
        Ok(Self { queued })
    }

    /// Moves the keys over that programs appended to the former queue meanwhile; none may
    /// use it any more.
    pub(crate) fn carry_over(self, directory: &Path) -> Result<(), Error> {
        let former: Table<(), FlowLogKey> = Table::open(directory, maps::FLOW_LOG)?;
        let mut late = Vec::new();
        for _ in 0..former.capacity() {
            let Some(logged) = former.pop()? else { break };
            if !self.queued.contains(&logged.key()) {
                late.push(logged);
            }
        }
        open_next(directory)?.push_all(late).map(drop)
    }
}

fn open_next(directory: &Path) -> Result<Table<(), FlowLogKey>, Error> {
    Table::open_at(&next(directory, maps::FLOW_LOG), maps::FLOW_LOG)
}
