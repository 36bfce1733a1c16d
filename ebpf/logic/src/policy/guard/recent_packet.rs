//! An entry of the table of packets that passed a moment ago.

use ebpf_abi::policy::{PolicyFlow, PolicyRoot};
use ebpf_abi::{Address, Tuple};

use crate::packet::headers::Headers;

/// The common properties of packets of one direction of a flow at a device while nothing
/// changes.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub struct Recent {
    /// The source and destination.
    pub tuple: Tuple,
    /// The pod's device; 0: one of the node's.
    pub device: u32,
    /// The [moment](super::PolicyFlows::moment), and below it [`PolicyFlow::INGRESS`] and
    /// [`PolicyFlow::RELAYED`].
    pub when: u32,
    /// Under which they pass. Epoch 0: nothing is to be kept.
    pub root: PolicyRoot,
    /// The hardware address of a sending pod; zero for packets that it receives.
    pub hardware: u64,
}

impl Recent {
    /// How many the table holds: 64 KiB a processor.
    pub const PLACES: u32 = 1 << Self::BITS;
    const BITS: u32 = 10;
    /// Bits of `when` below the moment.
    pub(super) const FLAGS: u32 = 2;

    /// The empty entry.
    pub const NOTHING: Self = Self {
        tuple: Headers::NOTHING.tuple,
        device: 0,
        when: 0,
        root: PolicyRoot {
            epoch: 0,
            generation: 0,
        },
        hardware: 0,
    };

    /// Returns its place in the table.
    #[inline(always)]
    #[must_use]
    pub const fn place(&self) -> u32 {
        let tuple = &self.tuple;
        // A pod's packet also passes the node's device.
        let ports = (tuple.source_port.0 as u64)
            | (tuple.destination_port.0 as u64) << 16
            | (tuple.protocol.0 as u64) << 32
            | (self.device as u64) << 40;
        // The upper bits of a product depend on all of its factors'. These were chosen for
        // how they spread neighbouring addresses and ports.
        let mixed = folded(tuple.source)
            .wrapping_mul(0xac15_3076_cdc9_8667)
            .wrapping_add(folded(tuple.destination).wrapping_mul(0xb2e2_3120_d5b2_0ccb))
            .wrapping_add(ports.wrapping_mul(0x29fa_1e24_5576_5abf));
        (mixed >> (u64::BITS - Self::BITS)) as u32
    }
}

const _: () = {
    assert!(size_of::<Recent>() == 64);
    assert!((PolicyFlow::INGRESS | PolicyFlow::RELAYED) >> Recent::FLAGS == 0);
};

#[inline(always)]
const fn folded(address: Address) -> u64 {
    let [a, b, c, d] = address.to_words();
    (b ^ d) as u64 | ((a ^ c) as u64) << 32
}
