//! The maps of network policy as ordinary collections.

use std::collections::BTreeMap;

use ebpf_abi::policy::{
    EndpointKey, EndpointPolicy, PeerEntry, PolicyRoot, PolicyVerdict, PortClasses, VerdictKey,
};
use ebpf_abi::{Address, ChecksummedValue, Range};

use super::PolicyMaps;

/// Maps in memory; all public, so that tests may write anything.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct PolicyModel {
    /// `POLICY_ROOT`.
    pub root: PolicyRoot,
    /// `PEERS`: epoch, bits of the address (of 128) and the masked address.
    pub peers: BTreeMap<(u32, u8, Address), PeerEntry>,
    /// `ENDPOINTS`.
    pub endpoints: BTreeMap<EndpointKey, EndpointPolicy>,
    /// `PORTS`.
    pub ports: BTreeMap<u32, PortClasses>,
    /// `VERDICTS`.
    pub verdicts: BTreeMap<VerdictKey, PolicyVerdict>,
}

impl PolicyModel {
    /// The first bits of an address.
    #[must_use]
    pub fn masked(address: Address, bits: u8) -> Address {
        let mask = if bits == 0 {
            0
        } else {
            u128::MAX << (128 - u32::from(bits.min(128)))
        };
        Address::v6((u128::from_be_bytes(address.octets()) & mask).to_be_bytes())
    }
}

impl PolicyMaps for PolicyModel {
    fn policy_root(&self) -> PolicyRoot {
        self.root
    }

    fn peer(&self, range: &Range) -> Option<PeerEntry> {
        let address = Address::from_words(range.address);
        let mut bits = 128_u8;
        loop {
            // The entry itself, or that before it: of a shorter prefix, perhaps.
            let key = (range.number, bits, Self::masked(address, bits));
            let (found, entry) = self.peers.range(..=key).next_back()?;
            if *found == key {
                return Some(*entry);
            }
            if found.0 != range.number {
                return None;
            }
            bits = if found.1 < bits {
                found.1
            } else {
                bits.checked_sub(1)?
            };
        }
    }

    fn endpoint(&self, key: &EndpointKey) -> Option<ChecksummedValue<EndpointPolicy>> {
        self.endpoints
            .get(key)
            .map(|value| ChecksummedValue::new(key, *value))
    }

    fn ports(&self, element: u32) -> Option<PortClasses> {
        (element < PortClasses::ENTRIES)
            .then(|| self.ports.get(&element).copied().unwrap_or_default())
    }

    fn verdict(&self, key: &VerdictKey) -> Option<ChecksummedValue<PolicyVerdict>> {
        self.verdicts
            .get(key)
            .map(|value| ChecksummedValue::new(key, *value))
    }
}
