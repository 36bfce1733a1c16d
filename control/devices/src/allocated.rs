//! Devices in use, as the allocations of all claims say.

use compact_str::CompactString;
use rustc_hash::FxHashMap;

use crate::api::{AllocatedDevice, AllocationResult};
use crate::capacity::{self, ConsumedCapacity};

/// A pool of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    /// The driver.
    pub driver: CompactString,
    /// The pool's name.
    pub pool: CompactString,
}

/// Devices in use.
///
/// Allocations are added and taken away as claims change, so that nothing needs to be
/// gathered from all claims for each pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocatedDevices {
    pools: FxHashMap<PoolId, PoolUse>,
}

/// Devices of one pool that are in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolUse {
    devices: FxHashMap<CompactString, DeviceUse>,
}

/// How a device is used.
#[derive(Clone, Debug, Default, PartialEq)]
struct DeviceUse {
    /// Claims that have it for themselves: one, unless something went wrong.
    dedicated: usize,
    /// Claims that share it.
    shares: usize,
    /// The capacity that those claims consume.
    consumed: Option<ConsumedCapacity>,
}

// === impl AllocatedDevices ===

impl AllocatedDevices {
    /// Devices in use of one pool; none is in use when this is absent.
    #[must_use]
    pub fn pool(&self, id: &PoolId) -> Option<&PoolUse> {
        self.pools.get(id)
    }

    /// A claim has this allocation.
    pub fn add(&mut self, allocation: &AllocationResult) {
        for result in in_use(allocation) {
            let pool = self.pools.entry(pool_of(result)).or_default();
            let device = pool.devices.entry(result.device.clone()).or_default();
            if result.share_id.is_none() {
                device.dedicated += 1;
                continue;
            }
            device.shares += 1;
            if !result.consumed_capacity.is_empty() {
                let consumed = device.consumed.get_or_insert_default();
                capacity::add(consumed, &result.consumed_capacity);
            }
        }
    }

    /// A claim no longer has this allocation, which was added.
    pub fn remove(&mut self, allocation: &AllocationResult) {
        for result in in_use(allocation) {
            let id = pool_of(result);
            let Some(pool) = self.pools.get_mut(&id) else {
                continue;
            };
            let Some(device) = pool.devices.get_mut(&result.device) else {
                continue;
            };
            if result.share_id.is_none() {
                device.dedicated = device.dedicated.saturating_sub(1);
            } else {
                device.shares = device.shares.saturating_sub(1);
                if let Some(consumed) = &mut device.consumed {
                    capacity::subtract(consumed, &result.consumed_capacity);
                    if capacity::is_nothing(consumed) {
                        device.consumed = None;
                    }
                }
            }
            if !device.is_in_use() {
                pool.devices.remove(&result.device);
            }
            if pool.devices.is_empty() {
                self.pools.remove(&id);
            }
        }
    }
}

// === impl PoolUse ===

impl PoolUse {
    /// Whether a claim has the device for itself.
    #[must_use]
    pub fn is_dedicated(&self, device: &str) -> bool {
        self.devices
            .get(device)
            .is_some_and(|device| device.dedicated > 0)
    }

    /// Whether any claim has the device.
    #[must_use]
    pub fn is_allocated(&self, device: &str) -> bool {
        self.devices.contains_key(device)
    }

    /// The capacity that claims which share the device consume.
    #[must_use]
    pub fn consumed(&self, device: &str) -> Option<&ConsumedCapacity> {
        self.devices.get(device)?.consumed.as_ref()
    }
}

// === impl DeviceUse ===

impl DeviceUse {
    fn is_in_use(&self) -> bool {
        self.dedicated > 0 || self.shares > 0 || self.consumed.is_some()
    }
}

/// Devices that an allocation keeps from others: not those for administration.
fn in_use(allocation: &AllocationResult) -> impl Iterator<Item = &AllocatedDevice> {
    let results = allocation.devices.results.iter();
    results.filter(|result| result.admin_access != Some(true))
}

fn pool_of(result: &AllocatedDevice) -> PoolId {
    PoolId {
        driver: result.driver.clone(),
        pool: result.pool.clone(),
    }
}
