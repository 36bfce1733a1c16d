//! Parses the pod security labels of a namespace.

use std::fmt;

use control_types::value::Value;

use crate::error::{ErrorKind, FieldError};

/// How much is forbidden, from nothing to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// No restrictions.
    Privileged,
    /// Prevents known privilege escalations.
    Baseline,
    /// All that hardening advises against.
    Restricted,
}

/// The minor release of the rules, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Those of `v1.<minor>`.
    Minor(u64),
    /// The newest known.
    Latest,
}

/// A level as it was in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LevelVersion {
    /// The level.
    pub level: Level,
    /// The version.
    pub version: Version,
}

/// The levels for the pods of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// Pods that break this are refused.
    pub enforce: LevelVersion,
    /// Pods that break this are noted in the audit log.
    pub audit: LevelVersion,
    /// Clients that make pods that break this are warned.
    pub warn: LevelVersion,
}

/// A label with an invalid value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelError<'a> {
    /// Its key.
    pub label: &'static str,
    /// Its value.
    pub value: &'a str,
    /// The requirement on it.
    pub must: &'static str,
}

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";
const AUDIT: &str = "pod-security.kubernetes.io/audit";
const AUDIT_VERSION: &str = "pod-security.kubernetes.io/audit-version";
const WARN: &str = "pod-security.kubernetes.io/warn";
const WARN_VERSION: &str = "pod-security.kubernetes.io/warn-version";

// === impl Level ===

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

impl Level {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

// === impl Version ===

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

impl Version {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").unwrap_or_default();
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits.len() == 1 || !digits.starts_with('0'));
        // It must fit what Go calls an int.
        let minor = digits
            .parse()
            .ok()
            .filter(|minor| i64::try_from(*minor).is_ok());
        match minor {
            Some(minor) if plain => Ok(Self::Minor(minor)),
            _ => Err("must be \"latest\" or \"v1.x\""),
        }
    }
}

// === impl LevelVersion ===

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

impl LevelVersion {
    /// The default policy.
    const OPEN: Self = Self {
        level: Level::Privileged,
        version: Version::Latest,
    };
}

// === impl Modes ===

impl Modes {
    /// The policy of a namespace without labels.
    pub const OPEN: Self = Self {
        enforce: LevelVersion::OPEN,
        audit: LevelVersion::OPEN,
        warn: LevelVersion::OPEN,
    };

    /// Parses the policy in labels; `label` returns the value of each. There is always a
    /// policy: an invalid enforcement label means the strictest one, and invalid warning
    /// labels cause no warnings.
    pub fn from_labels<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Self, Vec<LabelError<'a>>) {
        Self::OPEN.with(label)
    }

    /// As [`Modes::from_labels`], where this holds for what no label says.
    pub fn with<'a>(self, label: impl Fn(&str) -> Option<&'a str>) -> (Self, Vec<LabelError<'a>>) {
        let mut errors = Vec::new();
        let mut modes = self;
        let mut read = |label_level: &'static str,
                        label_version: &'static str,
                        mode: &mut LevelVersion,
                        otherwise: Level| {
            let mut named = None;
            if let Some(value) = label(label_level) {
                let level = Level::parse(value);
                named = Some(level.is_ok());
                mode.level = level.unwrap_or_else(|must| {
                    let label = label_level;
                    errors.push(LabelError { label, value, must });
                    otherwise
                });
            }
            let version = label(label_version);
            if let Some(value) = version {
                mode.version = Version::parse(value).unwrap_or_else(|must| {
                    let label = label_version;
                    errors.push(LabelError { label, value, must });
                    Version::Latest
                });
            }
            (named, version.is_some())
        };
        let Self {
            enforce,
            audit,
            warn,
        } = &mut modes;
        let (enforced, _) = read(ENFORCE, ENFORCE_VERSION, enforce, Level::Restricted);
        read(AUDIT, AUDIT_VERSION, audit, Level::Privileged);
        let (warned, warned_version) = read(WARN, WARN_VERSION, warn, Level::Privileged);
        // Enforcement on pods also warns about workload templates.
        if warned.is_none() && enforced == Some(true) && enforce.level > warn.level {
            warn.level = enforce.level;
            if !warned_version {
                warn.version = enforce.version;
            }
        }
        (modes, errors)
    }

    /// Whether nothing is forbidden in any mode.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let open = |mode: &LevelVersion| mode.level == Level::Privileged;
        open(&self.enforce) && open(&self.audit) && open(&self.warn)
    }

    /// Returns whether pods that were valid under `old` may violate what is enforced now.
    #[must_use]
    pub fn is_stricter_than(&self, old: &Self) -> bool {
        let (new, old) = (self.enforce, old.enforce);
        new != old
            && new.level != Level::Privileged
            && !(new.version == old.version && new.level <= old.level)
    }
}

// === impl LabelError ===

impl LabelError<'_> {
    /// The error of a namespace with this label.
    #[must_use]
    pub fn to_field_error(&self) -> FieldError {
        FieldError {
            kind: ErrorKind::Invalid,
            field: format!("metadata.labels[{}]", self.label),
            bad_value: Some(Value::from(self.value)),
            detail: self.must.to_owned(),
        }
    }
}
