//! Indexes of an indexed Job as its status writes them: `0,2-4,7`.

use std::fmt;

/// A set of indexes, as ranges in order that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Parses the indexes in a status; ignores invalid parts and indexes from
    /// `completions` on.
    #[must_use]
    pub fn parse(text: &str, completions: i32) -> Self {
        let mut out = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else {
                continue;
            };
            if first >= completions {
                break;
            }
            out.push(first, last.min(completions - 1));
        }
        out
    }

    /// Appends a range that does not begin before those that are there.
    fn push(&mut self, first: i32, last: i32) {
        match self.0.last_mut() {
            Some(end) if first <= end.1.saturating_add(1) => end.1 = end.1.max(last),
            _ => self.0.push((first, last)),
        }
    }

    /// These and others.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let mut all: Vec<_> = self.0.iter().chain(&others.0).copied().collect();
        all.sort_unstable();
        let mut out = Self::default();
        for (first, last) in all {
            out.push(first, last);
        }
        out
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> i32 {
        let sizes = self.0.iter().map(|(first, last)| last - first + 1);
        sizes.sum()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an index is among them.
    #[must_use]
    pub fn has(&self, index: i32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// How many of these are among others.
    #[must_use]
    pub fn shared(&self, others: &Self) -> i32 {
        let overlap = |a: &(i32, i32), b: &(i32, i32)| (a.1.min(b.1) - a.0.max(b.0) + 1).max(0);
        let pairs = self
            .0
            .iter()
            .flat_map(|a| others.0.iter().map(move |b| overlap(a, b)));
        pairs.sum()
    }

    /// The lowest indexes below `completions` that are not among these, at most so many.
    #[must_use]
    pub fn missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let mut out = Vec::new();
        let mut next = 0;
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            let until = first.min(completions);
            let room = count - out.len();
            out.extend((next..until).take(room));
            next = next.max(last.saturating_add(1));
        }
        out
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Self {
        let mut all: Vec<i32> = indexes.into_iter().collect();
        all.sort_unstable();
        let mut out = Self::default();
        for index in all {
            out.push(index, index);
        }
        out
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                // Two are not worth a hyphen.
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_read_and_written_as_ranges() {
        for (text, completions, written) in [
            ("", 5, ""),
            ("0", 5, "0"),
            ("0,1", 5, "0,1"),
            ("0,1,2", 5, "0-2"),
            ("1-3,5,7-9", 9, "1-3,5,7,8"),
            ("1-3,x,5-y,7", 9, "1-3,7"),
            ("6-9", 5, ""),
        ] {
            assert_eq!(
                Indexes::parse(text, completions).to_string(),
                written,
                "{text}"
            );
        }
    }

    #[test]
    fn sets_are_joined_counted_and_searched() {
        let some: Indexes = [5, 1, 2].into_iter().collect();
        let all = some.with(&Indexes::parse("3,7-9", 10));
        assert_eq!(all.to_string(), "1-3,5,7-9");
        assert_eq!(all.count(), 7);
        assert!(all.has(1) && all.has(8) && !all.has(4) && !all.has(10));
        assert_eq!(all.shared(&Indexes::parse("0-5", 10)), 4);
        assert_eq!(all.missing(3, 10), [0, 4, 6]);
        assert_eq!(all.missing(9, 12), [0, 4, 6, 10, 11]);
        assert_eq!(Indexes::default().missing(2, 10), [0, 1]);
    }
}
