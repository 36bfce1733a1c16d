//! Lower and upper bounds of sizes and costs, and the limits on them.

/// The least and the most of something: a size or a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// At least.
    pub min: u64,
    /// At most; [`u64::MAX`] when nothing bounds it.
    pub max: u64,
}

/// The most that a rule of a custom resource may be estimated to cost.
pub const RULE_LIMIT: u64 = 10_000_000;
/// The most that all rules of one `CustomResourceDefinition` may be.
pub const CRD_LIMIT: u64 = 100_000_000;

/// Returns the message for users when `what` (such as `estimated rule cost`) exceeds its
/// limit.
#[must_use]
pub fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // never `1.0x`
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

impl Estimate {
    pub(crate) const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    pub(crate) const fn fixed(size: u64) -> Self {
        Self {
            min: size,
            max: size,
        }
    }

    pub(crate) const fn add(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(crate) const fn multiply(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// Times a factor, rounded up.
    pub(crate) fn times(self, factor: f64) -> Self {
        // from 2^64 on the cast stays at the largest number
        let one = |size: u64| (size as f64 * factor).ceil() as u64;
        Self {
            min: one(self.min),
            max: one(self.max),
        }
    }

    /// A look over text: a tenth.
    pub(crate) fn looked(self) -> Self {
        self.times(0.1)
    }
}
