//! A node's power is cut: every process ends at once, and comes back with the disk alone.

use tests::Failure;

use super::unreachable;
use crate::{Drill, VICTIM, bounds::Bounds, timeline::now, workload::Workload};

pub fn run(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let workload = Workload::start(drill)?;
    let fault = now();
    drill.cluster.host("kill", VICTIM)?;
    unreachable::is_noticed(&workload, bounds, fault);
    let returned = now();
    drill.cluster.host("start", VICTIM)?;
    unreachable::returns(&workload, bounds, returned, 20.0);
    let failed = workload.failed(returned, now());
    bounds.at_most("requests failed while it came back", failed, 0);
    Ok(())
}
