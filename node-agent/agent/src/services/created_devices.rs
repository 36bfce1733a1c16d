//! Devices that this process made, and that a look at the kernel may not have seen yet:
//! a look that began before and ends after must not take programs off them.

use std::collections::BTreeMap;

use node_agent_datapath::Device;

/// Indexes of created devices, until they were listed or removed.
#[derive(Debug, Default)]
pub struct CreatedDevices {
    unseen: BTreeMap<u32, Device>,
}

impl CreatedDevices {
    /// These were made.
    pub fn add(&mut self, devices: Vec<Device>) {
        let by_index = devices.into_iter().map(|it| (it.index, it));
        self.unseen.extend(by_index);
    }

    /// Adds what is missing to what a look saw, sorted by index; `is_there` asks the
    /// kernel for a device alone.
    pub fn complete(&mut self, devices: &mut Vec<Device>, is_there: impl Fn(&Device) -> bool) {
        if self.unseen.is_empty() {
            return;
        }
        for device in devices.iter() {
            self.unseen.remove(&device.index);
        }
        self.unseen.retain(|_, device| is_there(device));
        devices.extend(self.unseen.values().cloned());
        devices.sort_by_key(|device| device.index);
    }
}

/// Does the kernel have it?
pub fn is_there(device: &Device) -> bool {
    nix::net::if_::if_nametoindex(device.name.as_str()).is_ok_and(|index| index == device.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: u32) -> Device {
        Device {
            index,
            name: format!("orl{index}"),
            ..Device::default()
        }
    }

    fn devices(indexes: &[u32]) -> Vec<Device> {
        indexes.iter().copied().map(device).collect()
    }

    #[test]
    fn a_device_is_there_until_a_look_has_seen_it_and_then_as_looks_say() {
        let mut made = CreatedDevices::default();
        made.add(devices(&[3, 5]));
        let mut look = |seen: &[u32], there: &[u32]| {
            let mut all = devices(seen);
            made.complete(&mut all, |it| there.contains(&it.index));
            all.iter().map(|it| it.index).collect::<Vec<_>>()
        };
        // One that began before they were made.
        assert_eq!(look(&[1, 4], &[1, 3, 4, 5]), [1, 3, 4, 5]);
        assert_eq!(look(&[1, 3, 4], &[1, 3, 4, 5]), [1, 3, 4, 5]);
        // Seen once it is as looks say; gone before that it is gone.
        assert_eq!(look(&[1, 4], &[1, 4]), [1, 4]);
        assert_eq!(look(&[1, 4], &[1, 3, 4, 5]), [1, 4]);
    }
}
