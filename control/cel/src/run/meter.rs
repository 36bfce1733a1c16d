//! The limits of an evaluation.

use super::error::Error;

/// The context of a function, which charges for what it allocates.
#[derive(Debug)]
pub(crate) struct Meter {
    pub cost: u64,
    pub limit: u64,
    /// Items and bytes made and looked at, which the costs of the language do
    /// not count: bounds memory and time.
    work: u64,
}

impl Meter {
    pub const fn new(limit: u64) -> Self {
        Self {
            cost: 0,
            limit,
            work: 0,
        }
    }

    pub const fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(Error::CostLimit);
        }
        Ok(())
    }

    /// Counts `amount` items or bytes that are about to be made.
    pub const fn work(&mut self, amount: usize) -> Result<(), Error> {
        self.work = self.work.saturating_add(amount as u64);
        if self.work > MOST_WORK {
            return Err(Error::CostLimit);
        }
        Ok(())
    }
}

/// The work limit, far beyond what the cost limits allow to expressions that are charged
/// in full: some 64 million items or bytes in one evaluation.
const MOST_WORK: u64 = 64 << 20;
