//! Choosing a device, and taking the choice back.

use std::sync::Arc;

use control_types::quantity::Quantity;

use super::{Position, Search, Stop, Undo};
use crate::api::Device;
use crate::capacity;
use crate::error::AllocationError;
use crate::plan::AlternativePlan;
use crate::result::FoundDevice;

impl<'a> Search<'a> {
    /// Chooses a candidate for the device at a position; `None` when it cannot be had.
    pub(super) fn choose(
        &mut self,
        at: Position,
        plan: &'a AlternativePlan,
        candidate: usize,
        must: bool,
    ) -> Result<Option<Undo>, Stop> {
        let Some((device, slice)) = self
            .candidates
            .get(candidate)
            .map(|one| (one.device, one.slice))
        else {
            return Ok(None);
        };
        let is_shared =
            self.features.consumable_capacity && device.allow_multiple_allocations == Some(true);
        if plan.is_admin {
            if !is_shared && self.is_chosen_for(candidate, at.claim) {
                return Ok(None);
            }
        } else if self.is_in_use(candidate) {
            return Ok(None);
        }
        let mut undo = Undo::default();
        if !device.consumes_counters.is_empty() {
            if !self.features.partitionable_devices {
                return Ok(None);
            }
            // the first who shares a device consumes its counters for all
            if !(is_shared && self.is_shared_already(candidate)) {
                if !self.consume_counters(candidate) {
                    return Ok(None);
                }
                undo.counters = true;
            }
        }
        if self.features.device_taints && self.is_tainted(at, device) {
            self.undo(at, candidate, undo);
            return Ok(None);
        }
        let name = self.request_name(at);
        let driver = &slice.pool.driver;
        let constraints = self.constraints.get_mut(at.claim).into_iter().flatten();
        let mut is_kept = true;
        for constraint in constraints {
            if !constraint.add(name, driver, device) {
                is_kept = false;
                break;
            }
            undo.constraints += 1;
        }
        if !is_kept {
            self.undo(at, candidate, undo);
            if must {
                return Err(Stop::Error(AllocationError::ConstraintNotSatisfied {
                    claim: self.reference(at.claim),
                    request: self.short_name(at).into(),
                    device: format!("{driver}/{}/{}", slice.pool.pool, device.name),
                }));
            }
            return Ok(None);
        }
        if !is_shared {
            self.chosen.entry(candidate).or_default().push(at.claim);
            undo.marked = true;
        }
        let mut share = None;
        if self.features.consumable_capacity {
            let Some(consumed) = self.consumption(at, candidate) else {
                self.undo(at, candidate, undo);
                return Ok(None);
            };
            if is_shared {
                let known = self.shared.contains_key(&candidate);
                capacity::add(self.shared.entry(candidate).or_default(), &consumed);
                undo.share = Some((consumed.clone(), known));
                share = Some(consumed);
            }
        }
        if let Some(found) = self.found.get_mut(at.claim) {
            found.devices.push(FoundDevice {
                slice: Arc::clone(slice),
                index: self.candidates.get(candidate).map_or(0, |one| one.index),
                request: at.request,
                alternative: at.alternative,
                share,
            });
            undo.result = true;
        }
        Ok(Some(undo))
    }

    /// Takes back what choosing a candidate changed.
    pub(super) fn undo(&mut self, at: Position, candidate: usize, undo: Undo) {
        if undo.result
            && let Some(found) = self.found.get_mut(at.claim)
        {
            found.devices.pop();
        }
        if let Some((consumed, known)) = undo.share
            && let Some(all) = self.shared.get_mut(&candidate)
        {
            capacity::subtract(all, &consumed);
            // an entry says that the device is shared, even if nothing is consumed
            if !known {
                self.shared.remove(&candidate);
            }
        }
        if undo.marked
            && let Some(claims) = self.chosen.get_mut(&candidate)
        {
            claims.pop();
        }
        let name = self.request_name(at);
        let constraints = self.constraints.get_mut(at.claim).into_iter().flatten();
        for constraint in constraints.take(undo.constraints) {
            constraint.remove(name);
        }
        if undo.counters {
            self.change_counters(candidate, Quantity::sub);
        }
    }

    pub(super) fn is_shared_already(&self, candidate: usize) -> bool {
        let in_use = self.candidates.get(candidate).and_then(|one| {
            let in_use = self.in_use.get(one.pool).copied().flatten()?;
            in_use.consumed(&one.device.name)
        });
        in_use.is_some() || self.shared.contains_key(&candidate)
    }

    pub(super) fn is_tainted(&self, at: Position, device: &Device) -> bool {
        let request = self.request(at);
        let tolerations = request.map_or(&[][..], |request| &request.tolerations);
        device.taints.iter().any(|taint| {
            let mut tolerations = tolerations.iter();
            taint.prevents_allocation() && !tolerations.any(|one| one.tolerates(taint))
        })
    }

    /// Takes the counters that a candidate consumes, if there is enough.
    pub(super) fn consume_counters(&mut self, candidate: usize) -> bool {
        self.change_counters(candidate, Quantity::add);
        let is_enough = self.are_counters_enough(candidate);
        if !is_enough {
            self.change_counters(candidate, Quantity::sub);
        }
        is_enough
    }

    pub(super) fn are_counters_enough(&self, candidate: usize) -> bool {
        let Some(one) = self.candidates.get(candidate) else {
            return false;
        };
        let (Some(pool), Some(Some(counters))) =
            (self.pools.get(one.pool), self.counters.get(one.pool))
        else {
            return false;
        };
        let numbers = pool
            .generation
            .counters
            .consumed(&one.device.consumes_counters);
        let mut numbers = numbers.map(|(number, _)| number);
        !counters.available.is_exceeded
            && numbers.all(|number| {
                counters.consumed.get(number) <= counters.available.values.get(number)
            })
    }

    pub(super) fn change_counters(
        &mut self,
        candidate: usize,
        change: fn(&mut Quantity, &Quantity),
    ) {
        let Some(one) = self.candidates.get(candidate) else {
            return;
        };
        let (Some(pool), Some(Some(counters))) =
            (self.pools.get(one.pool), self.counters.get_mut(one.pool))
        else {
            return;
        };
        let consumed = pool
            .generation
            .counters
            .consumed(&one.device.consumes_counters);
        for (number, amount) in consumed {
            if let Some(value) = counters.consumed.get_mut(number) {
                change(value, amount);
            }
        }
    }
}
