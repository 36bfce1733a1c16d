//! What is said of the ports of flows before programs run that ask.
//!
//! Of maps that were just made it is known that there are no flows; of others nothing is,
//! unless programs have said it all along. A port of which it was said stays so, so that
//! after years of clients with all kinds of ports every packet is looked up again, as if
//! nobody had said anything.

use std::collections::BTreeSet;
use std::path::Path;

use ebpf_abi::{FlowEntry, FlowFlags, FlowPorts, Tuple, maps};

use crate::error::Error;
use crate::table::Table;

/// Are there no flows because the maps are yet to be made?
pub(crate) fn is_new(directory: &Path) -> bool {
    !directory.join(maps::FLOWS).exists()
}

/// Says it. `new`: the maps were just made, and no program runs with them.
pub(crate) fn prepare(directory: &Path, new: bool) -> Result<(), Error> {
    let ports: Table<u32, FlowPorts> = Table::open(directory, maps::FLOW_PORTS)?;
    if new {
        let all: Vec<_> = (0..FlowPorts::ELEMENTS)
            .map(|element| (element, FlowPorts::NONE))
            .collect();
        return ports.write(&all);
    }
    // Programs of a former build made flows and did not say so. What others write
    // meanwhile is not to be overwritten by what was there before: whole elements are
    // given up.
    let flows: Table<Tuple, FlowEntry> = Table::open(directory, maps::FLOWS)?;
    let mut taken = BTreeSet::new();
    for (key, entry) in flows.entries()? {
        let reply = entry.flow.unchecked().flags.contains(FlowFlags::REPLY);
        let places = FlowPorts::for_flow(&key, reply);
        taken.extend(places.into_iter().flatten().map(|place| place.element));
    }
    let mut unsaid = Vec::new();
    for element in taken {
        if ports.get(&element)?.is_some_and(|it| it != FlowPorts(0)) {
            unsaid.push((element, FlowPorts(0)));
        }
    }
    ports.write(&unsaid)
}
