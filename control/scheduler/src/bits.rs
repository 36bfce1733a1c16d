//! Sets of nodes, one bit each.

/// A set of small numbers (places of nodes in the snapshot). It takes memory for the range
/// between its least and its greatest member only: a label that one node has costs one word.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    /// The number of the first word.
    start: usize,
    words: Vec<u64>,
}

impl Bits {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            start: 0,
            words: Vec::new(),
        }
    }

    /// Makes room for the words `from..to`.
    fn cover(&mut self, from: usize, to: usize) {
        if self.words.is_empty() {
            self.start = from;
        }
        if from < self.start {
            let missing = self.start - from;
            self.words.splice(0..0, std::iter::repeat_n(0, missing));
            self.start = from;
        }
        let end = to.saturating_sub(self.start);
        if end > self.words.len() {
            self.words.resize(end, 0);
        }
    }

    const fn end(&self) -> usize {
        self.start + self.words.len()
    }

    fn word(&self, number: usize) -> u64 {
        let at = number.checked_sub(self.start);
        at.and_then(|at| self.words.get(at)).copied().unwrap_or(0)
    }

    fn words_mut(&mut self) -> impl Iterator<Item = (usize, &mut u64)> {
        let start = self.start;
        let words = self.words.iter_mut().enumerate();
        words.map(move |(at, word)| (start + at, word))
    }

    /// Puts `at` in.
    pub fn insert(&mut self, at: usize) {
        let number = at / 64;
        self.cover(number, number + 1);
        if let Some(word) = self.words.get_mut(number - self.start) {
            *word |= 1 << (at % 64);
        }
    }

    /// Takes `at` out.
    pub fn remove(&mut self, at: usize) {
        let number = (at / 64).checked_sub(self.start);
        if let Some(word) = number.and_then(|number| self.words.get_mut(number)) {
            *word &= !(1 << (at % 64));
        }
    }

    /// Whether `at` is in.
    #[must_use]
    pub fn contains(&self, at: usize) -> bool {
        self.word(at / 64) >> (at % 64) & 1 == 1
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
        for (number, word) in self.words_mut() {
            *word &= other.word(number);
        }
    }

    /// Adds the members of `other`.
    pub fn union(&mut self, other: &Self) {
        if other.words.is_empty() {
            return;
        }
        self.cover(other.start, other.end());
        let offset = other.start - self.start;
        for (word, more) in self.words.iter_mut().skip(offset).zip(&other.words) {
            *word |= more;
        }
    }

    /// Removes the members of `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (number, word) in self.words_mut() {
            *word &= !other.word(number);
        }
    }

    /// Removes from `self` the members of `other`, and returns the removed ones.
    #[must_use]
    pub fn extract(&mut self, other: &Self) -> Self {
        let mut taken = self.clone();
        taken.intersect(other);
        self.subtract(other);
        taken
    }

    /// Removes from `self` everything that is not in `other`, and returns the removed
    /// members.
    #[must_use]
    pub fn retain(&mut self, other: &Self) -> Self {
        let mut taken = self.clone();
        taken.subtract(other);
        self.intersect(other);
        taken
    }

    /// All that are in, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(move |(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some((self.start + at) * 64 + bit)
            })
        })
    }
}

impl PartialEq for Bits {
    fn eq(&self, other: &Self) -> bool {
        let words = self.start.min(other.start)..self.end().max(other.end());
        words
            .into_iter()
            .all(|number| self.word(number) == other.word(number))
    }
}

impl Eq for Bits {}

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
            let reversed: Bits = a.iter().rev().copied().collect();
            prop_assert_eq!(&reversed, &of(&a));
            prop_assert_eq!(of(&a) == of(&b), a == b);
            either.remove(gone);
            prop_assert!(!either.contains(gone));
        }
    }
}
