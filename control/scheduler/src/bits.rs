//! Sets of nodes, one bit each.

/// A set of small numbers (places of nodes in the snapshot).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Puts `at` in.
    pub fn insert(&mut self, at: usize) {
        let word = at / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (at % 64);
        }
    }

    /// Takes `at` out.
    pub fn remove(&mut self, at: usize) {
        if let Some(word) = self.words.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    /// Whether `at` is in.
    #[must_use]
    pub fn contains(&self, at: usize) -> bool {
        self.words
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// How many are in.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether none is in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Keeps those that are also in `other`.
    pub fn intersect(&mut self, other: &Self) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(at).copied().unwrap_or(0);
        }
    }

    /// Adds those of `other`.
    pub fn union(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Takes those of `other` out.
    pub fn subtract(&mut self, other: &Self) {
        for (word, less) in self.words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
    }

    /// Takes out of `self` what is in `other`, and returns what was taken.
    #[must_use]
    pub fn extract(&mut self, other: &Self) -> Self {
        let mut taken = self.clone();
        taken.intersect(other);
        self.subtract(other);
        taken
    }

    /// Takes out of `self` what is not in `other`, and returns what was taken.
    #[must_use]
    pub fn retain(&mut self, other: &Self) -> Self {
        let mut taken = self.clone();
        taken.subtract(other);
        self.intersect(other);
        taken
    }

    /// All that are in, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(members: I) -> Self {
        let mut bits = Self::new();
        for at in members {
            bits.insert(at);
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_behave_as_a_set(
            a in prop::collection::btree_set(0usize..300, 0..60),
            b in prop::collection::btree_set(0usize..300, 0..60),
            gone in 0usize..300,
        ) {
            let of = |set: &BTreeSet<usize>| set.iter().copied().collect::<Bits>();
            let list = |bits: &Bits| bits.iter().collect::<Vec<_>>();
            prop_assert_eq!(list(&of(&a)), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(of(&a).count(), a.len());
            prop_assert_eq!(of(&a).is_empty(), a.is_empty());
            let mut both = of(&a);
            let taken = both.retain(&of(&b));
            prop_assert_eq!(list(&both), a.intersection(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(list(&taken), a.difference(&b).copied().collect::<Vec<_>>());
            let mut rest = of(&a);
            let taken = rest.extract(&of(&b));
            prop_assert_eq!(list(&rest), a.difference(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(list(&taken), a.intersection(&b).copied().collect::<Vec<_>>());
            let mut either = of(&a);
            either.union(&of(&b));
            prop_assert_eq!(list(&either), a.union(&b).copied().collect::<Vec<_>>());
            either.remove(gone);
            prop_assert!(!either.contains(gone));
        }
    }
}
