//! Suggestions for misspelled names.

/// The name that a key was probably meant to be: at most a third of its letters
/// are others.
#[must_use]
pub fn nearest<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (distance(key, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().max(key.len()).div_ceil(3))
        .map(|(_, name)| name)
}

/// How many letters must be added, dropped or changed (Levenshtein), whatever
/// their case.
fn distance(left: &str, right: &str) -> usize {
    let (left, right) = (left.to_lowercase(), right.to_lowercase());
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (place, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_few_other_letters_is_meant() {
        assert_eq!(distance("kitten", "sitting"), 3);
        let names = ["dataDir", "securePort"];
        assert_eq!(nearest("datadir", names.into_iter()), Some("dataDir"));
        assert_eq!(nearest("somethingElse", names.into_iter()), None);
    }
}
