//! Limits of the work for one pod.

/// How much may still be done for one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Devices tried and requests looked at on one node.
    pub steps_per_node: u64,
    /// The same on all nodes together.
    pub steps: u64,
    /// Cost of selectors, as the Common Expression Language counts it.
    pub cost: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            steps_per_node: 200_000,
            steps: 4_000_000,
            cost: 10_000_000,
        }
    }
}

impl Effort {
    /// Whether nothing more may be done.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.steps == 0 || self.cost == 0
    }
}
