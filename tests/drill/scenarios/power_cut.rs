//! A node's power is cut: every process ends at once, and comes back with the disk alone.

use tests::Failure;

use super::unreachable;
use crate::{Drill, VICTIM, bounds::Bounds, host::Outage, timeline::now, workload::Workload};

pub fn run(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let workload = Workload::start(drill)?;
    let fault = now();
    let outage = Outage::power(&drill.cluster, VICTIM)?;
    unreachable::is_noticed(&workload, bounds, fault);
    let returned = now();
    outage.end()?;
    unreachable::returns(&workload, bounds, returned, 20.0);
    workload.judge(bounds, "requests failed while it came back", returned);
    Ok(())
}
