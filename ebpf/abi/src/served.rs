//! The ports of services.
//!
//! Most packets are not addressed to services. Looking up a missing entry costs a hash of
//! the key and two or three accesses to cold memory; checking a bit of a small table
//! costs next to nothing.

use crate::{Plain, Port, Protocol, ServiceKey};

/// The kinds of entries of `SERVICES` that may exist under a port of a protocol: never
/// too few, but possibly entries that do not exist yet, or no longer.
///
/// `SERVED` contains 32 ports per word, the words of a protocol in a row.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct ServiceEntryKinds(pub u32);

/// The position of a port in `SERVED`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct ServedPlace {
    /// The word.
    pub word: u32,
    /// The lowest of the port's bits.
    pub bit: u32,
}

const PORTS_A_WORD: u32 = 32;
const WORDS_A_PROTOCOL: u32 = 65_536 / PORTS_A_WORD;
const BITS: u32 = 2;

impl ServiceEntryKinds {
    /// Words of `SERVED`.
    pub const WORDS: u32 = WORDS_A_PROTOCOL * Protocol::ROWS.len() as u32;

    /// No entry at all.
    pub const NONE: Self = Self(0);
    /// Entries of addresses.
    pub const ADDRESS: Self = Self(1);
    /// Entries of every address that serves node ports.
    pub const NODE: Self = Self(1 << 1);

    /// Returns the kind of an entry.
    #[inline(always)]
    #[must_use]
    pub fn from_key(key: &ServiceKey) -> Self {
        if key.address == key.address.wildcard() {
            Self::NODE
        } else {
            Self::ADDRESS
        }
    }

    /// Returns the position of a port; `None` for protocols that services do not support.
    #[inline(always)]
    #[must_use]
    pub const fn place(protocol: Protocol, port: Port) -> Option<ServedPlace> {
        let Some(number) = protocol.row() else {
            return None;
        };
        let port = port.get() as u32;
        Some(ServedPlace {
            word: number * WORDS_A_PROTOCOL + port / PORTS_A_WORD,
            bit: port % PORTS_A_WORD * BITS,
        })
    }
}

flags!(ServiceEntryKinds);

impl ServedPlace {
    /// Returns the bits of the port in a word.
    #[inline(always)]
    #[must_use]
    pub const fn read(self, word: u64) -> ServiceEntryKinds {
        ServiceEntryKinds((word >> self.bit) as u32 & ((1 << BITS) - 1))
    }

    /// Returns the word with the port's bits replaced.
    #[must_use]
    pub const fn write(self, word: u64, served: ServiceEntryKinds) -> u64 {
        let all = ((1 << BITS) - 1) << self.bit;
        (word & !all) | (((served.0 as u64) << self.bit) & all)
    }

    /// The ports of which a word says anything.
    #[cfg(feature = "user")]
    pub fn all(
        word: u32,
        content: u64,
    ) -> impl Iterator<Item = (Protocol, Port, ServiceEntryKinds)> {
        let protocol = Protocol::ROWS
            .get((word / WORDS_A_PROTOCOL) as usize)
            .copied();
        let first = word % WORDS_A_PROTOCOL * PORTS_A_WORD;
        (0..PORTS_A_WORD).filter_map(move |offset| {
            let bit = offset * BITS;
            let served = Self { word, bit }.read(content);
            let port = u16::try_from(first + offset).ok()?;
            (served != ServiceEntryKinds::NONE).then_some((protocol?, Port::new(port), served))
        })
    }
}

// SAFETY: one integer.
unsafe impl Plain for ServiceEntryKinds {}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::Address;

    #[test]
    fn each_port_has_bits_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for (protocol, port) in crate::testing::ports() {
            let place = ServiceEntryKinds::place(protocol, port).unwrap();
            assert!(place.word < ServiceEntryKinds::WORDS);
            assert!(seen.insert(place), "{protocol:?} {port:?}");
            for served in [
                ServiceEntryKinds::ADDRESS,
                ServiceEntryKinds::NODE,
                ServiceEntryKinds(3),
            ] {
                let word = place.write(0, served);
                assert_eq!(place.read(word), served);
                assert_eq!(place.write(word, ServiceEntryKinds::NONE), 0);
                assert_eq!(place.read(place.write(u64::MAX, served)), served);
                let all: std::vec::Vec<_> = ServedPlace::all(place.word, word).collect();
                assert_eq!(all, [(protocol, port, served)]);
            }
        }
        assert_eq!(ServiceEntryKinds::place(Protocol(1), Port::new(80)), None);
    }

    #[test]
    fn entry_without_an_address_is_the_nodes() {
        let key = |address| ServiceKey::internal(address, Port::new(80), Protocol::TCP);
        for any in [Address::UNSPECIFIED, Address::UNSPECIFIED_V4] {
            assert_eq!(
                ServiceEntryKinds::from_key(&key(any)),
                ServiceEntryKinds::NODE
            );
        }
        assert_eq!(
            ServiceEntryKinds::from_key(&key(Address::v4([10, 96, 0, 1]))),
            ServiceEntryKinds::ADDRESS
        );
    }
}
