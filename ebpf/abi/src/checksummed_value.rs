//! Map values with a checksum over key and value, by which a reader notices a torn write and an entry
//! that now belongs to another key.

use crate::Plain;

/// A value with a checksum over its key and itself.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct ChecksummedValue<V> {
    seal: u64,
    value: V,
}

// SAFETY: u64 and a value whose size is a multiple of eight: `seal` asserts
// it wherever one is made.
unsafe impl<V: Plain> Plain for ChecksummedValue<V> {}

impl<V: Plain> ChecksummedValue<V> {
    /// Seals a value under its key.
    #[inline(always)]
    #[must_use]
    pub fn new<K: Plain>(key: &K, value: V) -> Self {
        Self {
            seal: seal(key, &value),
            value,
        }
    }

    /// A value that no key opens, or hardly any: room for one to come.
    #[inline(always)]
    #[must_use]
    pub const fn broken(value: V) -> Self {
        Self { seal: 0, value }
    }

    /// The value, whether whole or not: for who has made it himself.
    #[inline(always)]
    #[must_use]
    pub const fn unchecked(&self) -> V {
        self.value
    }

    /// As [`unchecked`](Self::unchecked), in its place.
    #[inline(always)]
    #[must_use]
    pub const fn as_unchecked(&self) -> &V {
        &self.value
    }

    /// Returns the address of the sealed value, for reading a single word atomically in
    /// any state.
    #[inline(always)]
    #[must_use]
    pub const fn value_at(sealed: *const Self) -> *const V {
        sealed
            .cast::<u8>()
            .wrapping_add(core::mem::offset_of!(Self, value))
            .cast()
    }

    /// Returns whether the value is intact and belongs to the key.
    #[inline(always)]
    #[must_use]
    pub fn is_whole<K: Plain>(&self, key: &K) -> bool {
        self.seal == seal(key, &self.value)
    }

    /// The value, if it is whole and belongs to the key.
    #[inline(always)]
    #[must_use]
    pub fn open<K: Plain>(&self, key: &K) -> Option<V> {
        if self.seal == seal(key, &self.value) {
            Some(self.value)
        } else {
            None
        }
    }
}

/// Mixes the words of key and value: multiply and fold, one round per word.
/// This guards against races, not against an adversary: only this node's
/// agent and its own programs write these maps.
#[inline(always)]
fn seal<K: Plain, V: Plain>(key: &K, value: &V) -> u64 {
    fold(fold(0x6f72_6c6f_7001_0001, key), value)
}

#[inline(always)]
fn fold<T: Plain>(mut state: u64, data: &T) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() == 8) };
    let words = size_of::<T>() / 8;
    let base = core::ptr::from_ref(data).cast::<u64>();
    let mut i = 0;
    while i < words {
        // SAFETY: `T` is plain, aligned to eight bytes and `words` words long
        // (asserted above).
        let word = unsafe { base.add(i).read() };
        state = (state ^ word).wrapping_mul(PRIME);
        state ^= state >> 29;
        i += 1;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Port, Protocol, Service, ServiceFlags, ServiceKey};

    fn key(port: u16) -> ServiceKey {
        ServiceKey::internal(Address::v4([10, 96, 0, 1]), Port::new(port), Protocol::TCP)
    }

    fn service(generation: u32, count: u32) -> Service {
        Service {
            set: 1,
            generation,
            count,
            flags: ServiceFlags::NONE,
            affinity_seconds: 0,
            table: 0,
        }
    }

    #[test]
    fn sealed_value_opens_under_its_key_only() {
        let sealed = ChecksummedValue::new(&key(80), service(1, 2));
        assert_eq!(sealed.open(&key(80)), Some(service(1, 2)));
        assert_eq!(sealed.open(&key(81)), None);
    }

    #[test]
    fn mix_of_two_values_does_not_open() {
        let (old, new) = (
            ChecksummedValue::new(&key(80), service(1, 2)),
            ChecksummedValue::new(&key(80), service(2, 5)),
        );
        let torn = ChecksummedValue {
            seal: old.seal,
            value: Service {
                count: new.value.count,
                ..old.value
            },
        };
        assert_eq!(torn.open(&key(80)), None);
        let torn = ChecksummedValue {
            seal: new.seal,
            value: old.value,
        };
        assert_eq!(torn.open(&key(80)), None);
    }
}
