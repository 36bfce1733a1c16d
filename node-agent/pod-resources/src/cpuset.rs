//! Sets of CPUs and of NUMA nodes, written as the kernel writes lists: `0-3,7`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A set of CPUs, by their numbers.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet(BTreeSet<u32>);

/// The largest number of a CPU that is read: what the kernel can be built for.
const MOST: u32 = 8192;

/// A text that is not a CPU list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no list of CPUs, such as `0-3,7`")]
pub struct InvalidCpuList(String);

impl CpuSet {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is there.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// All, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Those of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    /// Those of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// Those that the other lacks.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// Whether none is in both.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }

    /// Whether all are in the other.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl Extend<u32> for CpuSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, more: I) {
        self.0.extend(more);
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter() {
            match runs.last_mut() {
                Some((_, end)) if end.checked_add(1) == Some(cpu) => *end = cpu,
                _ => runs.push((cpu, cpu)),
            }
        }
        for (at, (start, end)) in runs.into_iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if start == end {
                write!(f, "{comma}{start}")?;
            } else {
                write!(f, "{comma}{start}-{end}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl FromStr for CpuSet {
    type Err = InvalidCpuList;

    fn from_str(text: &str) -> Result<Self, InvalidCpuList> {
        let text = text.trim();
        let mut all = BTreeSet::new();
        if text.is_empty() {
            return Ok(Self(all));
        }
        let wrong = || InvalidCpuList(text.to_owned());
        let number = |text: &str| -> Result<u32, InvalidCpuList> {
            let number: u32 = text.parse().map_err(|_| wrong())?;
            (number < MOST).then_some(number).ok_or_else(wrong)
        };
        for part in text.split(',') {
            let (start, end) = part.split_once('-').unwrap_or((part, part));
            let (start, end) = (number(start)?, number(end)?);
            if start > end {
                return Err(wrong());
            }
            all.extend(start..=end);
        }
        Ok(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        let read = |text: &str| text.parse::<CpuSet>().map(|s| s.iter().collect::<Vec<_>>());
        assert_eq!(read("0-2,7\n"), Ok(vec![0, 1, 2, 7]));
        assert_eq!(read(""), Ok(vec![]));
        for wrong in ["a", "1-", "3-1", "0,,1", "0-99999999", "-1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_is_read_again(all in prop::collection::btree_set(0..200_u32, 0..40)) {
            let set: CpuSet = all.into_iter().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set));
        }
    }
}
