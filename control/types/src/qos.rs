//! The quality-of-service class of a pod.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A class (`status.qosClass`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum QosClass {
    /// Each container has limits of CPU and memory, and requests them.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// No container has requests or limits.
    BestEffort,
}

/// Requests and limits of one container, or of a pod as a whole, for the resources that
/// decide the class: CPU and memory, in units of the caller's choice. Zero counts as
/// absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compute {
    /// Requests of CPU and memory.
    pub requests: [i128; 2],
    /// Limits of CPU and memory.
    pub limits: [i128; 2],
}

impl QosClass {
    /// Returns the class of a pod with these containers, including init containers; a pod
    /// with pod-level resources counts as one container.
    #[must_use]
    pub fn from_containers(containers: impl IntoIterator<Item = Compute>) -> Self {
        let mut sums = Compute::default();
        let mut all_limited = true;
        for one in containers {
            for at in 0..2 {
                let (request, limit) = (one.requests[at].max(0), one.limits[at].max(0));
                sums.requests[at] = sums.requests[at].saturating_add(request);
                sums.limits[at] = sums.limits[at].saturating_add(limit);
                all_limited &= limit > 0;
            }
        }
        if sums == Compute::default() {
            Self::BestEffort
        } else if all_limited && sums.requests == sums.limits {
            Self::Guaranteed
        } else {
            Self::Burstable
        }
    }

    /// Returns the class as the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_follows_from_requests_and_limits() {
        let one = |requests, limits| Compute { requests, limits };
        let full = one([1, 2], [1, 2]);
        for (containers, expected) in [
            (vec![], QosClass::BestEffort),
            (vec![one([0, 0], [0, 0])], QosClass::BestEffort),
            (vec![one([1, 0], [0, 0])], QosClass::Burstable),
            (vec![one([0, 0], [1, 2])], QosClass::Burstable),
            (vec![full], QosClass::Guaranteed),
            (vec![full, one([3, 4], [3, 4])], QosClass::Guaranteed),
            (vec![full, one([0, 0], [0, 0])], QosClass::Burstable),
            (vec![full, one([1, 1], [1, 2])], QosClass::Burstable),
            (vec![one([1, 0], [1, 0])], QosClass::Burstable),
        ] {
            assert_eq!(
                QosClass::from_containers(containers.clone()),
                expected,
                "{containers:?}"
            );
        }
    }
}
