//! The order, as it is kept, and in the words of one link.

use std::collections::{BTreeMap, HashMap, HashSet};

/// The header of the order file.
const HEADER: &str = "\
# Functions of `orlop` in the order in which they lie: a hash of crate and name, and the size.
# Written by `cargo xtask layout merge`, see xtask/src/layout.rs.
";

/// A function that is linked, as the order knows functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedSymbols {
    /// The digest of its crate and name; the instances of a generic function share it.
    pub digest: String,
    /// Tells these apart.
    pub size: u64,
    /// As the linker knows it.
    pub name: String,
}

/// The order's text of functions that were called: each once, where it was first called.
/// Functions that the link does not know are left out.
pub fn written<'a>(linked: &[LinkedSymbols], called: impl Iterator<Item = &'a str>) -> String {
    let linked: HashMap<_, _> = linked.iter().map(|it| (it.name.as_str(), it)).collect();
    let mut seen = HashSet::new();
    let mut text = HEADER.to_owned();
    for it in called.filter_map(|name| linked.get(name)) {
        if seen.insert((&it.digest, it.size)) {
            text.push_str(&format!("{} {}\n", it.digest, it.size));
        }
    }
    text
}

/// Returns the names of linked functions in the order file's order: a function with a
/// unique name, whatever its size is now; of others, those of a recorded size.
pub fn names(text: &str, linked: &[LinkedSymbols]) -> Vec<String> {
    let mut places: HashMap<&str, BTreeMap<u64, usize>> = HashMap::new();
    let entries = text.lines().filter_map(|line| line.split_once(' '));
    for (place, (digest, size)) in entries.enumerate() {
        if let Ok(size) = size.parse() {
            places
                .entry(digest)
                .or_default()
                .entry(size)
                .or_insert(place);
        }
    }
    let mut alike: HashMap<&str, usize> = HashMap::new();
    for it in linked {
        *alike.entry(&it.digest).or_default() += 1;
    }
    let place = |it: &LinkedSymbols| {
        let sizes = places.get(it.digest.as_str())?;
        let first = || {
            sizes
                .values()
                .min()
                .filter(|_| alike[it.digest.as_str()] == 1)
        };
        sizes.get(&it.size).or_else(first).copied()
    };
    let mut placed: Vec<_> = linked
        .iter()
        .filter_map(|it| Some((place(it)?, &it.name)))
        .collect();
    placed.sort_unstable();
    placed.dedup();
    placed.into_iter().map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(digest: &str, size: u64, name: &str) -> LinkedSymbols {
        LinkedSymbols {
            digest: digest.to_owned(),
            size,
            name: name.to_owned(),
        }
    }

    #[test]
    fn functions_come_in_the_order_of_their_first_call() {
        let link = [
            linked("aa", 1, "one"),
            linked("bb", 2, "two"),
            linked("cc", 3, "three"),
        ];
        let text = written(&link, ["three", "one", "three", "gone"].into_iter());
        assert_eq!(text, format!("{HEADER}cc 3\naa 1\n"));
        assert_eq!(names(&text, &link), ["three", "one"]);
    }

    #[test]
    fn of_instances_those_of_a_size_that_was_called_are_taken() {
        let link = [
            linked("aa", 8, "small"),
            linked("aa", 9, "large"),
            linked("aa", 9, "too"),
        ];
        let text = written(&link, ["large"].into_iter());
        assert_eq!(names(&text, &link), ["large", "too"]);
    }

    #[test]
    fn a_function_alone_of_its_name_is_found_at_any_size() {
        let text = written(&[linked("aa", 8, "old")], ["old"].into_iter());
        assert_eq!(names(&text, &[linked("aa", 99, "new")]), ["new"]);
        let two = [linked("aa", 98, "new"), linked("aa", 99, "newer")];
        assert_eq!(names(&text, &two), Vec::<String>::new());
    }

    #[test]
    fn a_text_that_is_no_order_orders_nothing() {
        assert!(names("# aa 1\naa\naa x\n", &[linked("aa", 1, "one")]).is_empty());
    }
}
