//! The feature gates of allocation.

/// Optional parts of allocation, by Kubernetes' feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `DRAAdminAccess`
    pub admin_access: bool,
    /// `DRAPrioritizedList`
    pub prioritized_list: bool,
    /// `DRAPartitionableDevices`
    pub partitionable_devices: bool,
    /// `DRAConsumableCapacity`
    pub consumable_capacity: bool,
    /// `DRADeviceTaints`
    pub device_taints: bool,
    /// `DRADeviceTaintRules`
    pub device_taint_rules: bool,
    /// `DRADeviceBindingConditions` with `DRAResourceClaimDeviceStatus`
    pub binding_conditions: bool,
    /// `DRAExtendedResource`
    pub extended_resources: bool,
    /// `DRAListTypeAttributes`
    pub list_type_attributes: bool,
}

impl Default for Features {
    /// The defaults of Kubernetes 1.36.
    fn default() -> Self {
        Self {
            admin_access: true,
            prioritized_list: true,
            partitionable_devices: true,
            consumable_capacity: true,
            device_taints: true,
            device_taint_rules: false,
            binding_conditions: true,
            extended_resources: true,
            list_type_attributes: false,
        }
    }
}
