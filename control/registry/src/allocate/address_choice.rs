//! Choice of the addresses of one Service.

use std::net::IpAddr;

use control_kinds::service::{AddressNeed, Family};
use control_types::status::{Cause, quote};
use ipnet::IpNet;

use super::allocation::Allocation;
use super::{objects, ranges, refusal};
use crate::storage::Storage;

/// How many addresses of a range are tried in turn.
const MOST: u64 = 1 << 20;

/// Where addresses are looked for.
pub struct AllocationScope<'a> {
    /// `None` where there is nobody else.
    pub storage: Option<&'a Storage>,
    pub dry_run: bool,
}

impl<'a> AllocationScope<'a> {
    pub fn new(storage: &'a Storage, dry_run: bool) -> Self {
        Self {
            storage: Some(storage),
            dry_run,
        }
    }

    pub fn ranges(&self, first: &[IpNet]) -> Vec<IpNet> {
        self.storage
            .map_or_else(|| first.to_vec(), |storage| ranges::ready(storage, first))
    }

    /// Reserves an address that nobody has.
    pub fn reserve(&self, address: IpAddr, allocation: &mut Allocation) -> bool {
        !self
            .storage
            .is_some_and(|storage| objects::is_taken(storage, address))
            && allocation.reserve(address)
    }
}

/// The address that a Service asks for, or a free one. `None` when the cluster
/// has no range of the family, which only headless Services may ask.
pub fn address(
    place: &AllocationScope<'_>,
    ranges: &[IpNet],
    need: &AddressNeed,
    allocation: &mut Allocation,
) -> Result<Option<IpAddr>, Cause> {
    let field = format!("spec.clusterIPs[{}]", need.index);
    let of_family: Vec<&IpNet> = ranges
        .iter()
        .filter(|range| family_of(range) == need.family)
        .collect();
    let Some(text) = &need.address else {
        if of_family.is_empty() {
            return Ok(None);
        }
        return of_family
            .iter()
            .find_map(|range| free_address(place, range, allocation))
            .map(Some)
            .ok_or_else(|| refusal::range_is_full(field, "serviceIP"));
    };
    let refuse = |why: &str| {
        let shown = format!("[{}]", quote(text));
        refusal::invalid_value(
            "spec.clusterIPs",
            format!("Invalid value: {shown}: failed to allocate IP {text}: {why}"),
        )
    };
    let address: IpAddr = text.parse().map_err(|_| refuse("not a valid IP"))?;
    if !of_family.iter().any(|range| ranges::has(range, address)) {
        return Err(refuse(
            "the provided network does not match the current range",
        ));
    }
    // A dry run takes nothing, and does not look either.
    if !place.dry_run && !place.reserve(address, allocation) {
        return Err(refuse("provided IP is already allocated"));
    }
    Ok(Some(address))
}

/// A free address: of the upper band as long as there is one, since the lower
/// is left to those who ask for a certain address (KEP-3070).
fn free_address(
    place: &AllocationScope<'_>,
    range: &IpNet,
    allocation: &mut Allocation,
) -> Option<IpAddr> {
    let size = ranges::size(range);
    let band = ranges::band(range).min(size);
    let upper = band + 1..size + 1;
    let random = (0..if upper.is_empty() { 0 } else { ranges::TRIES })
        .map(|_| rand::random_range(upper.clone()));
    // When random tries fail, the range is nearly full: its addresses are tried in order, up to
    // a limit for large IPv6 ranges.
    let all = (band + 1..=size.min(band + MOST)).chain(1..=band);
    random
        .chain(all)
        .filter_map(|at| ranges::nth(range, at))
        .find(|address| place.reserve(*address, allocation))
}

pub fn family_of(range: &IpNet) -> Family {
    if range.addr().is_ipv4() {
        Family::V4
    } else {
        Family::V6
    }
}
