//! How far answers agree, part by part, and the least that they must: a committed
//! file whose numbers only rise. There is none for all parts together: it would fall
//! whenever questions are added.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::Error;
use crate::verdict::Verdict;

/// Answers counted: exact, agreeing (exact ones included), all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    exact: u32,
    agree: u32,
    all: u32,
}

impl Count {
    /// Percentages of agreeing and exact ones.
    fn percent(self) -> (f64, f64) {
        let of = |count: u32| f64::from(count) * 100.0 / f64::from(self.all.max(1));
        (of(self.agree), of(self.exact))
    }
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Tally {
    parts: BTreeMap<String, Count>,
    all: Count,
}

impl Tally {
    /// Counts an answer of a part.
    pub fn count(&mut self, part: &str, verdict: &Verdict) {
        let part = self.parts.entry(part.to_owned()).or_default();
        for count in [part, &mut self.all] {
            count.all += 1;
            count.agree += u32::from(!matches!(verdict, Verdict::Differ(_)));
            count.exact += u32::from(*verdict == Verdict::Exact);
        }
    }

    fn rows(&self) -> impl Iterator<Item = (&str, Count)> {
        self.parts
            .iter()
            .map(|(part, count)| (part.as_str(), *count))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (part, count) in self.rows() {
            let (agree, exact) = count.percent();
            writeln!(
                f,
                "{part:<12} agree {agree:6.2} %  exact {exact:6.2} %  of {}",
                count.all
            )?;
        }
        let (agree, exact) = self.all.percent();
        write!(
            f,
            "agree {agree:.2} %  exact {exact:.2} %  of {}",
            self.all.all
        )
    }
}

const HEAD: &str = "# The least that `cargo xtask oracle` must reach: part, agreeing and exact\n\
                    # answers in percent. Numbers only rise: `cargo xtask oracle --raise`.\n";

/// Fails where less agrees than the file says; with `raise`, writes what is more.
pub fn hold(path: &Path, tally: &Tally, raise: bool) -> Result<(), Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    let floors = parse(&text).ok_or_else(|| Error::file(path, "a line is not `part 99.9 99.9`"))?;
    let mut fell = Vec::new();
    let mut next = String::from(HEAD);
    for (part, count) in tally.rows() {
        let (agree, exact) = count.percent();
        let (least_agree, least_exact) = floors.get(part).copied().unwrap_or_default();
        if agree < least_agree || exact < least_exact {
            fell.push(format!(
                "{part} {agree:.2} {exact:.2}, not {least_agree:.2} {least_exact:.2}"
            ));
        }
        // Rounded down, so that the same answers reach it again.
        let floor = |number: f64| (number * 100.0).floor() / 100.0;
        next.push_str(&format!(
            "{part} {:.2} {:.2}\n",
            floor(agree).max(least_agree),
            floor(exact).max(least_exact)
        ));
    }
    if !fell.is_empty() {
        return Err(Error::Fell(fell.join("; ")));
    }
    if raise && next != text {
        std::fs::write(path, next).map_err(|error| Error::file(path, error))?;
    }
    Ok(())
}

fn parse(text: &str) -> Option<BTreeMap<&str, (f64, f64)>> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut words = line.split_whitespace();
            let part = words.next()?;
            Some((
                part,
                (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(exact: u32, agree: u32, differ: u32) -> Tally {
        let mut tally = Tally::default();
        for (count, verdict) in [
            (exact, Verdict::Exact),
            (agree, Verdict::Agree),
            (differ, Verdict::Differ(String::new())),
        ] {
            (0..count).for_each(|_| tally.count("core", &verdict));
        }
        tally
    }

    #[test]
    fn less_than_the_floor_fails_and_more_raises_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floors");
        std::fs::write(&path, "core 90 50\n").unwrap();
        assert!(hold(&path, &tally(5, 3, 2), false).is_err());
        hold(&path, &tally(2, 1, 0), true).unwrap();
        let raised = std::fs::read_to_string(&path).unwrap();
        assert!(raised.ends_with("core 100.00 66.66\n"), "{raised}");
        hold(&path, &tally(2, 1, 0), false).unwrap();
        assert!(hold(&path, &tally(3, 2, 0), false).is_err());
    }
}
