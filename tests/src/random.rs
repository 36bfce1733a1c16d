//! Random choices that a seed repeats on every machine and with every toolchain.

/// The SplitMix64 generator (Steele, Lea and Flood, 2014).
pub struct Random(u64);

impl Random {
    /// A generator for this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x6f72_6c6f_7020_3232)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when `bound` is.
    pub fn below(&mut self, bound: usize) -> usize {
        let drawn = self.next() % u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(drawn).unwrap_or(0)
    }

    /// A number in `from..=to`.
    pub fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// Whether something happens that happens `percent` times in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `values`, which must not be empty.
    pub fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.below(values.len())]
    }

    /// Each of `values` with a chance of `percent` in a hundred.
    pub fn some<'a, T>(&mut self, values: &'a [T], percent: usize) -> Vec<&'a T> {
        let mut chosen = Vec::new();
        for value in values {
            if self.chance(percent) {
                chosen.push(value);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_choices() {
        let drawn = |seed| {
            let mut random = Random::new(seed);
            (0..8).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        assert_eq!(Random::new(1).below(0), 0);
    }
}
