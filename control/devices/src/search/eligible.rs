//! Finds the devices that may be chosen for a request.

use super::{Candidate, Position, Search, Stop};
use crate::capacity::{self, ConsumedCapacity};
use crate::error::AllocationError;
use crate::plan::AlternativePlan;
use crate::pools::is_on_node;

impl<'a> Search<'a> {
    /// Whether a candidate may be chosen, other than for constraints and counters.
    pub(super) fn is_eligible(
        &mut self,
        at: Position,
        plan: &'a AlternativePlan,
        candidate: usize,
    ) -> Result<bool, Stop> {
        if self.steps == 0 || self.effort.is_spent() {
            return Err(Stop::TimedOut);
        }
        self.steps -= 1;
        self.effort.steps -= 1;
        let is_taken = if plan.is_admin {
            self.is_chosen_for(candidate, at.claim)
        } else {
            self.is_in_use(candidate)
        };
        Ok(!is_taken
            && self.is_selectable(at, plan, candidate)?
            && self.has_capacity(at, candidate))
    }

    pub(super) fn is_dedicated(&self, candidate: &Candidate<'_>) -> bool {
        let in_use = self.in_use.get(candidate.pool).copied().flatten();
        in_use.is_some_and(|in_use| in_use.is_dedicated(&candidate.device.name))
    }

    pub(super) fn is_in_use(&self, candidate: usize) -> bool {
        let one = self.candidates.get(candidate);
        one.is_none_or(|one| self.is_dedicated(one))
            || self
                .chosen
                .get(&candidate)
                .is_some_and(|claims| !claims.is_empty())
    }

    pub(super) fn is_chosen_for(&self, candidate: usize, claim: usize) -> bool {
        let claims = self.chosen.get(&candidate);
        claims.is_some_and(|claims| claims.contains(&claim))
    }

    /// Whether a candidate satisfies the selectors of class and request, and is on the node.
    pub(super) fn is_selectable(
        &mut self,
        at: Position,
        plan: &'a AlternativePlan,
        candidate: usize,
    ) -> Result<bool, Stop> {
        let Some(one) = self.candidates.get(candidate) else {
            return Ok(false);
        };
        if !self.features.binding_conditions && !one.device.binding_conditions.is_empty() {
            return Ok(false);
        }
        let known = self
            .progress(at)
            .and_then(|progress| *progress.selectable.get(candidate)?);
        if let Some(known) = known {
            return Ok(known);
        }
        let selectable = self.selectors_match(at, plan, candidate)? && self.is_on_node(candidate);
        let candidates = self.candidates.len();
        if let Some(progress) = self.progress_mut(at) {
            progress.selectable.resize(candidates, None);
            if let Some(known) = progress.selectable.get_mut(candidate) {
                *known = Some(selectable);
            }
        }
        Ok(selectable)
    }

    pub(super) fn selectors_match(
        &mut self,
        at: Position,
        plan: &'a AlternativePlan,
        candidate: usize,
    ) -> Result<bool, Stop> {
        let Some(one) = self.candidates.get(candidate) else {
            return Ok(false);
        };
        let id = (
            one.slice.serial,
            u32::try_from(one.index).unwrap_or(u32::MAX),
        );
        let (driver, device) = (&one.slice.pool.driver, one.device);
        for (selectors, of_class) in [(&plan.class_selectors, true), (&plan.selectors, false)] {
            for (index, selector) in selectors.iter().enumerate() {
                if self.effort.cost == 0 {
                    return Err(Stop::TimedOut);
                }
                let matches = selector
                    .as_ref()
                    .map_err(Clone::clone)
                    .and_then(|selector| {
                        let (features, cost) = (&self.features, &mut self.effort.cost);
                        self.selectors
                            .matches(selector, id, driver, device, features, cost)
                    });
                match matches {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(error) if of_class => {
                        return Err(Stop::Error(AllocationError::ClassSelector {
                            class: plan.class_name.clone(),
                            index,
                            error,
                        }));
                    }
                    Err(error) => {
                        return Err(Stop::Error(AllocationError::ClaimSelector {
                            claim: self.reference(at.claim),
                            index,
                            error,
                        }));
                    }
                }
            }
        }
        Ok(true)
    }

    pub(super) fn is_on_node(&self, candidate: usize) -> bool {
        let Some(one) = self.candidates.get(candidate) else {
            return false;
        };
        !one.slice.selects_nodes_per_device()
            || is_on_node(
                self.node,
                one.device.node_name.as_deref(),
                one.device.all_nodes == Some(true),
                one.device.node_selector.as_ref(),
            )
    }

    /// Returns the consumption of a request on a candidate, if that much is left.
    pub(super) fn consumption(&self, at: Position, candidate: usize) -> Option<ConsumedCapacity> {
        let one = self.candidates.get(candidate)?;
        let in_use = self.in_use.get(one.pool).copied().flatten();
        let in_use = in_use.and_then(|in_use| in_use.consumed(&one.device.name));
        let requested = self.request(at)?.capacity.as_ref();
        let in_use = [in_use, self.shared.get(&candidate)];
        capacity::consume(&one.device.capacity, requested, in_use).ok()
    }

    pub(super) fn has_capacity(&self, at: Position, candidate: usize) -> bool {
        !self.features.consumable_capacity || self.consumption(at, candidate).is_some()
    }
}
