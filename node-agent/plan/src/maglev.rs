//! Tables of consistent hashing (Eisenbud et al., *Maglev: A Fast and Reliable
//! Software Network Load Balancer*, NSDI 2016, section 3.4).
//!
//! Each backend has a permutation of the table's places, seeded by its address
//! and port alone; backends take turns, each taking the next place of its
//! permutation that is free. All nodes that see the same backends so choose the
//! same backend for a connection, whatever the order of their slots, and where
//! a backend comes or goes, few places of the others change hands.

use ebpf_abi::{Backend, MAGLEV_CHUNK, MaglevChunk, MaglevKey};

/// Sizes of tables: primes, each with room for so many backends that each has
/// about a hundred places or more. Beyond the last, shares become uneven.
const SIZES: [(usize, u32); 3] = [(20, 2_039), (160, 16_381), (usize::MAX, 65_521)];

/// A place that no backend took yet.
const FREE: u16 = u16::MAX;

/// Most backends that a table tells apart.
pub(crate) const MOST_BACKENDS: usize = FREE as usize;

/// The size for so many backends; zero for none.
#[must_use]
pub(crate) fn size(backends: usize) -> u32 {
    if backends == 0 {
        return 0;
    }
    SIZES
        .iter()
        .find(|(most, _)| backends <= *most)
        .map_or(0, |(_, size)| *size)
}

/// A table of `size` places, a prime; each holds the slot of a backend. Takes
/// time in proportion to `size` times the logarithm of the backends' number.
#[must_use]
pub(crate) fn table(backends: &[Backend], size: u32) -> Vec<u16> {
    let mut table = vec![FREE; size as usize];
    if backends.is_empty() || backends.len() > MOST_BACKENDS || size < 2 {
        return table;
    }
    // Turns are by identity, not by slot: slots differ from node to node.
    let mut order: Vec<u16> = (0..)
        .zip(backends)
        .map(|(slot, _): (u16, _)| slot)
        .collect();
    order.sort_unstable_by_key(|slot| {
        let backend = &backends[usize::from(*slot)];
        (backend.address, backend.port.get())
    });
    let mut turns: Vec<(u16, u32, u32)> = order
        .into_iter()
        .map(|slot| {
            let seed = identity(&backends[usize::from(slot)]);
            let offset = below(mix(seed, 1), size);
            let skip = below(mix(seed, 2), size - 1) + 1;
            (slot, offset, skip)
        })
        .collect();
    let mut free = size;
    loop {
        for (slot, place, skip) in &mut turns {
            // The size is a prime, so that a backend meets every place; one is
            // free.
            while table[*place as usize] != FREE {
                *place = step(*place, *skip, size);
            }
            table[*place as usize] = *slot;
            *place = step(*place, *skip, size);
            free -= 1;
            if free == 0 {
                return table;
            }
        }
    }
}

/// Returns the table as values of `MAGLEV`; entries beyond its end are zero.
pub(crate) fn chunks(table: &[u16]) -> impl Iterator<Item = MaglevChunk> {
    table.chunks(MAGLEV_CHUNK as usize).map(|places| {
        let mut chunk = [0; MAGLEV_CHUNK as usize];
        for (to, from) in chunk.iter_mut().zip(places) {
            *to = *from;
        }
        MaglevChunk(chunk)
    })
}

/// The key of a table's part.
pub(crate) const fn key(set: u32, generation: u32, chunk: u32) -> MaglevKey {
    MaglevKey {
        set,
        generation,
        chunk,
        reserved: 0,
    }
}

const fn step(place: u32, skip: u32, size: u32) -> u32 {
    // Both are less than the size, which is less than 2^17.
    let next = place + skip;
    if next >= size { next - size } else { next }
}

fn identity(backend: &Backend) -> u64 {
    let [a, b, c, d] = backend
        .address
        .to_words()
        .map(|word| u64::from(u32::from_be(word)));
    let state = mix(a << 32 | b, 0x6f72_6c6f);
    let state = mix(state ^ (c << 32 | d), 0x7005_1ab5);
    mix(state ^ u64::from(backend.port.get()), 0x0b5e_55ed)
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): every bit of the
/// input moves about half of the output's. Part of what all nodes of a cluster
/// agree on: it is never to change.
const fn mix(state: u64, salt: u64) -> u64 {
    let z = state
        .wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `hash` scaled to `0..size`.
fn below(hash: u64, size: u32) -> u32 {
    ((u128::from(hash) * u128::from(size)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use ebpf_abi::{Address, BackendFlags, Port};
    use proptest::prelude::*;

    use super::*;

    fn backends(numbers: impl IntoIterator<Item = u16>) -> Vec<Backend> {
        numbers
            .into_iter()
            .map(|n| {
                let [a, b] = n.to_be_bytes();
                Backend::new(
                    Address::v4([10, 244, a, b]),
                    Port::new(8080),
                    BackendFlags::NONE,
                )
            })
            .collect()
    }

    /// Per place, who has it.
    fn owners(backends: &[Backend], size: u32) -> Vec<Backend> {
        table(backends, size)
            .iter()
            .map(|slot| backends[usize::from(*slot)])
            .collect()
    }

    #[test]
    fn sizes_are_primes_and_leave_room() {
        for (most, size) in SIZES {
            assert!(
                (2..size)
                    .take_while(|n| n * n <= size)
                    .all(|n| size % n != 0)
            );
            assert!(most == usize::MAX || most * 100 <= size as usize);
        }
        assert_eq!(size(0), 0);
        assert_eq!(size(1), 2_039);
    }

    #[test]
    fn table_is_what_it_was() {
        // Nodes of different versions share connections: a change of these
        // numbers breaks them.
        let table = table(&backends(1..=4), 2_039);
        assert_eq!(table[..16], FIRST_PLACES);
    }
    const FIRST_PLACES: [u16; 16] = [1, 3, 2, 2, 2, 1, 1, 0, 2, 3, 1, 2, 1, 3, 3, 1];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn order_of_slots_makes_no_difference(seed in any::<u64>(), count in 1_u16..60) {
            let sorted = backends(0..count);
            let mut shuffled = sorted.clone();
            shuffled.sort_by_key(|backend| mix(identity(backend), seed));
            prop_assert_eq!(owners(&sorted, 16_381), owners(&shuffled, 16_381));
        }

        #[test]
        fn shares_are_even(first in any::<u16>(), count in 1_u16..160) {
            let all = backends((0..count).map(|n| n.wrapping_add(first)));
            let table = table(&all, 16_381);
            let mut shares = vec![0_u32; all.len()];
            for slot in table {
                shares[usize::from(slot)] += 1;
            }
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{} {}", least, most);
        }

        /// The paper measures a few per cent beyond the share of the backend
        /// that went for tables of a hundred places a backend.
        #[test]
        fn removal_moves_little_more_than_the_share(first in any::<u16>(), count in 2_u16..160, gone in any::<prop::sample::Index>()) {
            let all = backends((0..count).map(|n| n.wrapping_add(first)));
            let gone = gone.index(all.len());
            let mut fewer = all.clone();
            let gone = fewer.remove(gone);
            let size = 16_381;
            let before = owners(&all, size);
            let after = owners(&fewer, size);
            let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count() as f64 / f64::from(size);
            let beside = before.iter().zip(&after).filter(|(a, b)| a != b && **a != gone).count() as f64 / f64::from(size);
            prop_assert!(moved <= 1.0 / f64::from(count) + 0.04, "{} of {} moved", moved, count);
            prop_assert!(beside <= 0.04, "{} of {} moved without need", beside, count);
        }
    }
}
