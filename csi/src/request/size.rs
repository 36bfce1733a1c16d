//! Arithmetic of capacities.

use csi_api::CapacityRange;

use crate::error::{Error, Result};
use crate::filesystem::FsType;

/// Size of a volume whose request names none.
pub const DEFAULT_BYTES: u64 = 1 << 30;

/// Largest size: what fits into the protocol, rounded down to granules.
const MAXIMUM: u64 = (1 << 62) - 1;

/// Sizes that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Smallest size in bytes.
    pub minimum: u64,
    /// Sizes are multiples of this number of bytes.
    pub granule: u64,
}

/// A checked range of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// At least so many bytes; zero is as many as one likes.
    pub required: u64,
    /// At most so many bytes; zero is without limit.
    pub limit: u64,
}

impl Range {
    /// Checks a range of a request.
    ///
    /// # Errors
    /// When a bound is negative or the limit is below the requirement.
    pub fn parse(id: &str, range: Option<CapacityRange>) -> Result<Self> {
        let range = range.unwrap_or_default();
        let bytes = |field: &str, value: i64| {
            let wrong = || Error::invalid(field, value.to_string(), "must not be negative");
            u64::try_from(value).map_err(|_| wrong())
        };
        let required = bytes("capacity_range.required_bytes", range.required_bytes)?;
        let limit = bytes("capacity_range.limit_bytes", range.limit_bytes)?;
        if limit != 0 && limit < required {
            return Err(Error::OutOfRange {
                id: id.to_owned(),
                reason: format!("the limit {limit} is below the required {required} bytes"),
            });
        }
        Ok(Self { required, limit })
    }

    /// Whether a volume of that size meets the range.
    #[must_use]
    pub fn contains(&self, bytes: u64) -> bool {
        bytes >= self.required && (self.limit == 0 || bytes <= self.limit)
    }

    /// Chooses a size: the required one, or the default, at least `floor`, rounded up to
    /// granules.
    ///
    /// # Errors
    /// When no such size is within the limit.
    pub fn choose(&self, id: &str, bounds: Bounds, floor: u64) -> Result<u64> {
        let refuse = |reason| {
            Err(Error::OutOfRange {
                id: id.to_owned(),
                reason,
            })
        };
        let wanted = match (self.required, self.limit) {
            (0, _) if floor > 0 => floor,
            (0, 0) => DEFAULT_BYTES,
            (0, limit) => DEFAULT_BYTES.min(limit),
            (required, _) => required.max(floor),
        };
        let wanted = wanted.max(bounds.minimum);
        if wanted > MAXIMUM {
            return refuse(format!("{wanted} bytes are more than a volume can have"));
        }
        let granule = bounds.granule.max(1);
        let rounded = wanted.div_ceil(granule) * granule;
        if self.limit == 0 || rounded <= self.limit {
            return Ok(rounded);
        }
        // A limit without a requirement leaves room below.
        let below = self.limit / granule * granule;
        if below >= self.required.max(floor).max(bounds.minimum) {
            return Ok(below);
        }
        refuse(format!(
            "the limit {} is below the smallest possible size of {rounded} bytes",
            self.limit
        ))
    }
}

/// Returns the smallest size for a file system, in bytes.
#[must_use]
pub fn filesystem_minimum(fs_type: Option<FsType>) -> u64 {
    match fs_type {
        None => 4096,
        // Smaller ones have no journal.
        Some(FsType::Ext4) => 8 << 20,
        Some(FsType::Btrfs) => 128 << 20,
        Some(FsType::Xfs) => 300 << 20,
    }
}

/// Returns how many more bytes can be promised, if volumes are allocated on write.
///
/// `free` is the file system's free space, `total` its size; `promised` bytes were
/// promised to volumes, of which `allocated` bytes are already used.
#[must_use]
pub fn available(free: u64, total: u64, promised: u64, allocated: u64, overcommit: f64) -> u64 {
    let outstanding = promised.saturating_sub(allocated);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate, and the factor is at least one"
    )]
    let extra = (total as f64 * (overcommit - 1.0)).max(0.0) as u64;
    free.saturating_add(extra).saturating_sub(outstanding)
}

/// Converts a size to the protocol's type.
#[must_use]
pub fn to_wire(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        minimum: 1 << 20,
        granule: 4096,
    };

    fn choose(required: u64, limit: u64) -> Result<u64> {
        Range { required, limit }.choose("v", BOUNDS, 0)
    }

    #[test]
    fn sizes_are_rounded_up_within_the_limit() {
        assert_eq!(choose(5 << 20, 0).unwrap(), 5 << 20);
        assert_eq!(choose((5 << 20) + 1, 0).unwrap(), (5 << 20) + 4096);
        assert_eq!(choose(0, 0).unwrap(), DEFAULT_BYTES);
        assert_eq!(choose(0, 5 << 20).unwrap(), 5 << 20);
        assert_eq!(choose(1, 0).unwrap(), 1 << 20);
        assert!(choose((5 << 20) + 1, (5 << 20) + 2).is_err());
        assert!(choose(1, 4096).is_err());
    }

    #[test]
    fn a_copy_is_at_least_as_large_as_its_source() {
        let range = Range::default();
        assert_eq!(range.choose("v", BOUNDS, 9 << 20).unwrap(), 9 << 20);
        let small = Range {
            required: 1 << 20,
            limit: 2 << 20,
        };
        assert!(small.choose("v", BOUNDS, 9 << 20).is_err());
    }

    #[test]
    fn ranges_that_cannot_be_are_refused() {
        let range = |required_bytes, limit_bytes| {
            let range = CapacityRange {
                required_bytes,
                limit_bytes,
            };
            Range::parse("v", Some(range))
        };
        assert!(range(-1, 0).is_err());
        assert!(range(0, -1).is_err());
        assert!(range(2, 1).is_err());
        assert!(range(1, 2).is_ok());
        assert!(choose(u64::MAX, 0).is_err());
    }

    #[test]
    fn what_is_promised_and_not_yet_written_is_not_available() {
        assert_eq!(available(100, 200, 80, 30, 1.0), 50);
        assert_eq!(available(100, 200, 300, 30, 1.0), 0);
        assert_eq!(available(100, 200, 80, 30, 1.5), 150);
        assert_eq!(available(100, 200, 10, 30, 1.0), 100);
    }

    proptest! {
        #[test]
        fn a_chosen_size_meets_its_range(required in 0..1u64 << 40, limit in 0..1u64 << 40, floor in 0..1u64 << 36) {
            prop_assume!(limit == 0 || limit >= required);
            let range = Range { required, limit };
            if let Ok(bytes) = range.choose("v", BOUNDS, floor) {
                prop_assert!(range.contains(bytes));
                prop_assert!(bytes >= floor && bytes >= BOUNDS.minimum);
                prop_assert_eq!(bytes % BOUNDS.granule, 0);
            }
        }
    }
}
