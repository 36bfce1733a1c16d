//! Dead ends, which are looked for once a search takes long.

use super::{Position, Search, Stop};
use crate::plan::AlternativePlan;

impl<'a> Search<'a> {
    /// Returns whether some request needs more devices than exist for it, whatever is
    /// chosen for others.
    pub(super) fn is_hopeless(&mut self) -> Result<bool, Stop> {
        for (claim, plan) in self.plans.iter().enumerate() {
            for (request, plan) in plan.requests.iter().enumerate() {
                let mut is_hopeless = true;
                for (number, alternative) in plan.alternatives.iter().enumerate() {
                    let at = Position {
                        claim,
                        request,
                        alternative: number,
                        ..Position::default()
                    };
                    is_hopeless &= self.lacks_devices(at, alternative)?;
                }
                if is_hopeless {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    pub(super) fn lacks_devices(
        &mut self,
        at: Position,
        plan: &'a AlternativePlan,
    ) -> Result<bool, Stop> {
        let count = self.progress(at).map_or(0, |progress| progress.count);
        if plan.count.is_none() {
            return Ok(count == 0);
        }
        let mut possible = 0;
        for candidate in 0..self.candidates.len() {
            if possible >= count {
                break;
            }
            let one = self.candidates.get(candidate);
            if !plan.is_admin && one.is_none_or(|one| self.is_dedicated(one)) {
                continue;
            }
            match self.is_selectable(at, plan, candidate) {
                Ok(false) => {}
                // where upstream comes across the error, so does the search
                Ok(true) | Err(Stop::Error(_)) => possible += 1,
                Err(stop) => return Err(stop),
            }
        }
        Ok(possible < count)
    }

    /// Whether as many devices are left for a request as it still needs.
    pub(super) fn has_enough(&self, at: Position, plan: &AlternativePlan, needed: usize) -> bool {
        let name = self.request_name(at);
        let constraints = self
            .constraints
            .get(at.claim)
            .map_or(&[][..], Vec::as_slice);
        let selectable = self.progress(at).map(|progress| &progress.selectable);
        let left = self.candidates.iter().enumerate().skip(at.start);
        let possible = left.filter(|(number, one)| {
            let known = selectable.and_then(|selectable| *selectable.get(*number)?);
            let driver = &one.slice.pool.driver;
            known != Some(false)
                && (plan.is_admin || !self.is_in_use(*number))
                && constraints
                    .iter()
                    .all(|constraint| constraint.allows(name, driver, one.device))
        });
        possible.take(needed).count() >= needed
    }
}
