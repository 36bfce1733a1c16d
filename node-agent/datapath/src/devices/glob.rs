//! Patterns of names: `eth*,!eth9`.

use std::fmt;
use std::str::FromStr;

/// A name with `*` for any run of characters and `?` for any one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

/// Patterns; those after `!` exclude. A name is chosen if any of the former and none of the
/// latter match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globs {
    include: Vec<Glob>,
    exclude: Vec<Glob>,
}

/// A pattern that no device name can match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no pattern of device names: write names with * and ?, a leading ! excludes")]
pub struct NotAPattern(String);

// === impl Glob ===

impl Glob {
    /// Does the whole name match? Linear in both but for stars, of which only
    /// the last one seen is ever tried again.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut seen) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while seen < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(b'?') => {
                    at += 1;
                    seen += 1;
                }
                Some(byte) if name.get(seen) == Some(byte) => {
                    at += 1;
                    seen += 1;
                }
                _ => match star {
                    // The star takes one more character.
                    Some((place, taken)) => {
                        star = Some((place, taken + 1));
                        at = place + 1;
                        seen = taken + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern.iter().skip(at).all(|byte| *byte == b'*')
    }

    fn is_name(&self) -> bool {
        !self.0.contains(['*', '?'])
    }
}

// === impl Globs ===

impl Globs {
    /// Patterns separated by commas; none at all choose nothing.
    ///
    /// # Errors
    ///
    /// [`NotAPattern`].
    pub fn new(text: &str) -> Result<Self, NotAPattern> {
        text.parse()
    }

    /// Is the name chosen?
    #[must_use]
    pub fn choose(&self, name: &str) -> bool {
        self.include.iter().any(|glob| glob.matches(name))
            && !self.exclude.iter().any(|glob| glob.matches(name))
    }

    /// Is it chosen by its name, without a wildcard?
    #[must_use]
    pub fn name(&self, name: &str) -> bool {
        self.include
            .iter()
            .any(|glob| glob.is_name() && glob.matches(name))
            && self.choose(name)
    }
}

impl FromStr for Globs {
    type Err = NotAPattern;

    fn from_str(text: &str) -> Result<Self, NotAPattern> {
        let mut globs = Self::default();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            let (list, pattern) = match word.strip_prefix('!') {
                Some(pattern) => (&mut globs.exclude, pattern),
                None => (&mut globs.include, word),
            };
            // The kernel's names are at most 15 bytes without these.
            if pattern.is_empty()
                || pattern.contains(|c: char| c.is_whitespace() || c == '/' || c == '!')
            {
                return Err(NotAPattern(word.to_owned()));
            }
            list.push(Glob(pattern.to_owned()));
        }
        // Exclusions alone mean all others.
        if globs.include.is_empty() && !globs.exclude.is_empty() {
            globs.include.push(Glob("*".to_owned()));
        }
        Ok(globs)
    }
}

impl fmt::Display for Globs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let include = self.include.iter().map(|glob| glob.0.clone());
        let exclude = self.exclude.iter().map(|glob| format!("!{}", glob.0));
        f.write_str(&include.chain(exclude).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_characters() {
        for (pattern, name, expected) in [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth*", "eth", true),
            ("eth*", "eth12", true),
            ("*", "", true),
            ("*0", "eth10", true),
            ("*0", "eth01", false),
            ("e*h*0", "eth00h0", true),
            ("eth?", "eth", false),
            ("eth?", "eth1", true),
            ("?*", "", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
        ] {
            assert_eq!(
                Glob(pattern.to_owned()).matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn exclusions_win_and_alone_choose_the_rest() {
        let globs = Globs::new("eth*, !eth9 ,ens?").unwrap();
        let chosen: Vec<_> = ["eth0", "eth9", "ens3", "wlan0"]
            .into_iter()
            .filter(|name| globs.choose(name))
            .collect();
        assert_eq!(chosen, ["eth0", "ens3"]);
        let globs = Globs::new("!docker*").unwrap();
        assert!(globs.choose("eth0") && !globs.choose("docker0"));
        assert!(!Globs::new("").unwrap().choose("eth0"));
        assert_eq!(globs.to_string(), "*,!docker*");
    }

    #[test]
    fn what_no_device_is_called_is_no_pattern() {
        for text in ["!", "eth 0", "a/b", "!!x"] {
            assert!(Globs::new(text).is_err(), "{text}");
        }
    }
}
