//! How far answers agree, part by part, and the least that they must: a committed
//! file whose numbers only rise. There is none for all parts together: it would fall
//! whenever questions are added.

use std::collections::{BTreeMap, BTreeSet};
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

/// Fails when a part agrees less than the file demands, or when a part of the file was
/// not asked at all. With `raise`, writes what is higher and adds new parts; it never
/// lowers or removes a line, and it keeps the comments.
pub fn check(path: &Path, tally: &Tally, raise: bool) -> Result<(), Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    let floors = parse(&text).ok_or_else(|| Error::file(path, "a line is not `part 99.9 99.9`"))?;
    let below = below(&floors, tally);
    if !below.is_empty() {
        return Err(Error::BelowFloor(below.join("; ")));
    }
    let next = raised(&text, tally);
    if raise && next != text {
        std::fs::write(path, next).map_err(|error| Error::file(path, error))?;
    }
    Ok(())
}

/// Describes each part that is below its floor or missing from the tally.
fn below(floors: &BTreeMap<&str, (f64, f64)>, tally: &Tally) -> Vec<String> {
    floors
        .iter()
        .filter_map(|(part, (least_agree, least_exact))| {
            let Some(count) = tally.parts.get(*part) else {
                return Some(format!("{part} has no questions any more"));
            };
            let (agree, exact) = count.percent();
            (agree < *least_agree || exact < *least_exact).then(|| {
                format!("{part} {agree:.2} {exact:.2}, not {least_agree:.2} {least_exact:.2}")
            })
        })
        .collect()
}

/// The text of the file with the higher of each pair of numbers; parts that the file does
/// not list are appended.
fn raised(text: &str, tally: &Tally) -> String {
    // Rounded down, so that the same answers reach the floor again.
    let floor = |number: f64| (number * 100.0).floor() / 100.0;
    let line = |part: &str, count: Count, (agree, exact): (f64, f64)| {
        let (now_agree, now_exact) = count.percent();
        format!(
            "{part} {:.2} {:.2}\n",
            floor(now_agree).max(agree),
            floor(now_exact).max(exact)
        )
    };
    let mut listed = BTreeSet::new();
    let mut next = String::new();
    for old in text.lines() {
        match floor_of(old).and_then(|(part, least)| Some((part, least, tally.parts.get(part)?))) {
            Some((part, least, count)) => {
                listed.insert(part);
                next.push_str(&line(part, *count, least));
            }
            None => {
                next.push_str(old);
                next.push('\n');
            }
        }
    }
    for (part, count) in tally.rows().filter(|(part, _)| !listed.contains(part)) {
        next.push_str(&line(part, count, (0.0, 0.0)));
    }
    next
}

fn parse(text: &str) -> Option<BTreeMap<&str, (f64, f64)>> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(floor_of)
        .collect()
}

/// Reads a line `part agree exact`; comments and other lines give nothing.
fn floor_of(line: &str) -> Option<(&str, (f64, f64))> {
    let mut words = line.split_whitespace();
    let part = words.next().filter(|part| !part.starts_with('#'))?;
    Some((
        part,
        (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
    ))
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
        assert!(check(&path, &tally(5, 3, 2), false).is_err());
        check(&path, &tally(2, 1, 0), true).unwrap();
        let raised = std::fs::read_to_string(&path).unwrap();
        assert!(raised.ends_with("core 100.00 66.66\n"), "{raised}");
        check(&path, &tally(2, 1, 0), false).unwrap();
        assert!(check(&path, &tally(3, 2, 0), false).is_err());
    }
    #[test]
    fn a_part_that_is_asked_no_more_fails_and_stays_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floors");
        let listed = "core 90 50\nwatches 90 90\n";
        std::fs::write(&path, listed).unwrap();
        for raise in [false, true] {
            let error = check(&path, &tally(10, 0, 0), raise).unwrap_err();
            assert!(error.to_string().contains("watches"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), listed);
    }

    #[test]
    fn raising_never_lowers_and_keeps_comments_and_order() {
        let text = "# Why.\nzeta 50.00 50.00\n# Exception.\ncore 99.00 10.00\n";
        let mut tally = tally(1, 1, 0);
        tally.count("zeta", &Verdict::Exact);
        tally.count("added", &Verdict::Exact);
        assert_eq!(
            raised(text, &tally),
            "# Why.\nzeta 100.00 100.00\n# Exception.\ncore 100.00 50.00\nadded 100.00 100.00\n"
        );
        let lower = self::tally(0, 1, 1);
        assert!(raised(text, &lower).contains("core 99.00 10.00"));
    }

    #[test]
    fn committed_floors_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle");
        for corpus in ["", "kinds", "policies", "edges"] {
            let path = folder.join(corpus).join("floors");
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                parse(&text).is_some_and(|parts| !parts.is_empty()),
                "{path:?}"
            );
        }
    }
}
