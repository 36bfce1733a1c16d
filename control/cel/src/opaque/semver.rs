//! Versions as <https://semver.org> orders them.

use std::cmp::Ordering;

/// A version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    pub(crate) numbers: [u64; 3],
    before: Vec<VersionPart>,
    build: Vec<String>,
}

/// A part of what stands behind the hyphen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VersionPart {
    // numbers precede text
    Number(u64),
    Text(String),
}

/// Error for text that is not a version; the message is that of the library that Kubernetes
/// uses.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SemverError {
    #[error("Version string empty")]
    Empty,
    #[error("No Major.Minor.Patch elements found")]
    Elements,
    #[error("Build meta data is empty")]
    EmptyBuild,
    #[error("Invalid character(s) found in build meta data {0:?}")]
    Build(String),
    #[error("short version cannot contain PreRelease/Build meta data")]
    Short,
    #[error("Prerelease is empty")]
    EmptyPrerelease,
    #[error("Numeric PreRelease version must not contain leading zeroes {0:?}")]
    PrereleaseZeroes(String),
    #[error("value out of range")]
    PrereleaseRange,
    #[error("Invalid character(s) found in prerelease {0:?}")]
    Prerelease(String),
    #[error("Invalid character(s) found in {part} number {text:?}", part = .part.to_ascii_lowercase())]
    Number { part: &'static str, text: String },
    #[error("{part} number must not contain leading zeroes {text:?}")]
    NumberZeroes { part: &'static str, text: String },
    #[error("strconv.ParseUint: parsing {0:?}: value out of range")]
    NumberRange(String),
}

impl Semver {
    /// Compares two versions; build metadata is ignored.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let released = |version: &Self| version.before.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then(released(self).cmp(&released(other)))
            .then_with(|| self.before.cmp(&other.before))
    }

    /// Whether both are the same version.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }

    pub(crate) fn read(text: &str) -> Result<Self, SemverError> {
        if text.is_empty() {
            return Err(SemverError::Empty);
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(SemverError::Elements);
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, before) = match rest.split_once('-') {
            Some((patch, before)) => (patch, Some(before)),
            None => (rest, None),
        };
        let mut numbers = [0; 3];
        for (place, (name, text)) in
            numbers
                .iter_mut()
                .zip([("Major", major), ("Minor", minor), ("Patch", patch)])
        {
            *place = number(name, text)?;
        }
        let before = before.into_iter().flat_map(|text| text.split('.'));
        let build = build.into_iter().flat_map(|text| text.split('.'));
        Ok(Self {
            numbers,
            before: before.map(VersionPart::read).collect::<Result<_, _>>()?,
            build: build
                .map(|part| match part {
                    "" => Err(SemverError::EmptyBuild),
                    part if !is_word(part) => Err(SemverError::Build(part.to_owned())),
                    part => Ok(part.to_owned()),
                })
                .collect::<Result<_, _>>()?,
        })
    }

    /// Reads more: with a `v` before, without minor and patch, with zeros before numbers.
    pub(crate) fn read_loosely(text: &str) -> Result<Self, SemverError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| {
                if part.len() < 2 {
                    return part.to_owned();
                }
                let cut = part.trim_start_matches('0');
                if cut.starts_with(|c: char| c.is_ascii_digit()) {
                    cut.to_owned()
                } else {
                    format!("0{cut}")
                }
            })
            .collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(SemverError::Short);
            }
            parts.resize(3, "0".to_owned());
        }
        Self::read(&parts.join("."))
    }
}

impl VersionPart {
    pub(crate) fn read(text: &str) -> Result<Self, SemverError> {
        if text.is_empty() {
            return Err(SemverError::EmptyPrerelease);
        }
        if text.bytes().all(|c| c.is_ascii_digit()) {
            if text.len() > 1 && text.starts_with('0') {
                return Err(SemverError::PrereleaseZeroes(text.to_owned()));
            }
            return text
                .parse()
                .map(Self::Number)
                .map_err(|_| SemverError::PrereleaseRange);
        }
        if !is_word(text) {
            return Err(SemverError::Prerelease(text.to_owned()));
        }
        Ok(Self::Text(text.to_owned()))
    }
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
}

fn number(part: &'static str, text: &str) -> Result<u64, SemverError> {
    if text.is_empty() || !text.bytes().all(|c| c.is_ascii_digit()) {
        let text = text.to_owned();
        return Err(SemverError::Number { part, text });
    }
    if text.len() > 1 && text.starts_with('0') {
        let text = text.to_owned();
        return Err(SemverError::NumberZeroes { part, text });
    }
    text.parse()
        .map_err(|_| SemverError::NumberRange(text.to_owned()))
}
