//! How much of a device's capacity a request consumes (KEP 5075).

use control_types::quantity::{Format, Quantity};

use crate::api::{
    CapacityRequestPolicy, CapacityRequestPolicyRange, CapacityRequirements, DeviceCapacity,
    NamedObject,
};

/// Amounts consumed of one device, by the names of capacities.
pub type ConsumedCapacity = NamedObject<Quantity>;

/// The reason why a device cannot serve a capacity request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityShortage {
    /// The request names a capacity that the device does not have.
    Undefined,
    /// The amount is not one that requests can consume.
    PolicyViolated,
    /// Too little is left.
    Exceeded,
}

/// Returns the consumed amount of each capacity, if that much is left.
///
/// # Errors
/// The device cannot serve the request.
pub fn consume(
    capacity: &NamedObject<DeviceCapacity>,
    requested: Option<&CapacityRequirements>,
    in_use: [Option<&ConsumedCapacity>; 2],
) -> Result<ConsumedCapacity, CapacityShortage> {
    if let Some(requested) = requested
        && requested
            .requests
            .keys()
            .any(|name| !capacity.contains_key(name))
    {
        return Err(CapacityShortage::Undefined);
    }
    let mut consumed = ConsumedCapacity::new();
    for (name, capacity) in capacity {
        let asked = requested.and_then(|requested| requested.requests.get(name));
        let amount = consumed_amount(asked, capacity);
        if let Some(policy) = &capacity.request_policy
            && violates(&amount, policy)
        {
            return Err(CapacityShortage::PolicyViolated);
        }
        let mut total = amount.clone();
        for in_use in in_use.iter().flatten() {
            if let Some(in_use) = in_use.get(name) {
                total.add(in_use);
            }
        }
        if total > capacity.value {
            return Err(CapacityShortage::Exceeded);
        }
        consumed.insert(name.clone(), amount);
    }
    Ok(consumed)
}

/// Adds amounts to those that are consumed.
pub(crate) fn add(to: &mut ConsumedCapacity, more: &ConsumedCapacity) {
    for (name, amount) in more {
        match to.get_mut(name) {
            Some(known) => known.add(amount),
            None => {
                to.insert(name.clone(), amount.clone());
            }
        }
    }
}

/// Takes amounts from those that are consumed.
pub(crate) fn subtract(from: &mut ConsumedCapacity, less: &ConsumedCapacity) {
    for (name, amount) in less {
        if let Some(known) = from.get_mut(name) {
            known.sub(amount);
        }
    }
}

/// Whether nothing is consumed.
pub(crate) fn is_nothing(consumed: &ConsumedCapacity) -> bool {
    consumed.values().all(Quantity::is_zero)
}

fn consumed_amount(asked: Option<&Quantity>, capacity: &DeviceCapacity) -> Quantity {
    let policy = capacity.request_policy.as_ref();
    let Some(asked) = asked else {
        let default = policy.and_then(|policy| policy.default.as_ref());
        return default.unwrap_or(&capacity.value).clone();
    };
    let Some(policy) = policy else {
        return asked.clone();
    };
    if let Some(range) = &policy.valid_range
        && let Some(min) = &range.min
    {
        return round_up_to_step(asked, min, range);
    }
    match &policy.valid_values {
        Some(values) => {
            let fitting = values.iter().find(|value| asked <= *value);
            fitting.unwrap_or(asked).clone()
        }
        None => asked.clone(),
    }
}

/// Returns the smallest amount in the range that is at least the requested one.
fn round_up_to_step(
    asked: &Quantity,
    min: &Quantity,
    range: &CapacityRequestPolicyRange,
) -> Quantity {
    if asked < min {
        return min.clone();
    }
    let Some(step) = &range.step else {
        return asked.clone();
    };
    let (asked_units, min, step) = (asked.value(), min.value(), step.value());
    if step <= 0 {
        return asked.clone();
    }
    let steps = (i128::from(asked_units) - i128::from(min) + i128::from(step) - 1)
        .div_euclid(i128::from(step));
    let rounded = i128::from(min) + steps * i128::from(step);
    let rounded = i64::try_from(rounded).unwrap_or(i64::MAX);
    Quantity::new(rounded, Format::BinarySI)
}

fn violates(amount: &Quantity, policy: &CapacityRequestPolicy) -> bool {
    if policy.default.as_ref() == Some(amount) {
        return false;
    }
    if let Some(range) = &policy.valid_range {
        return range.max.as_ref().is_some_and(|max| amount > max)
            || range.step.as_ref().is_some_and(|step| {
                let min = range.min.as_ref().map_or(0, Quantity::value);
                let apart = i128::from(amount.value()) - i128::from(min);
                step.value() > 0 && apart % i128::from(step.value()) != 0
            });
    }
    match &policy.valid_values {
        Some(values) if !values.is_empty() => !values.contains(amount),
        _ => false,
    }
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
