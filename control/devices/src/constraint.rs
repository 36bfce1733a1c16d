//! Constraints on the devices of a claim.

use compact_str::CompactString;

use crate::api::{Attribute, Device, DeviceConstraint};

/// A constraint, and the devices chosen so far that it is about.
///
/// Devices are taken away in the opposite order in which they were added.
#[derive(Clone, Debug)]
pub(crate) struct Constraint<'a> {
    requests: &'a [CompactString],
    attribute: &'a str,
    distinct: bool,
    values: Vec<&'a Attribute>,
}

/// The request that a device is chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestName<'a> {
    pub request: &'a str,
    /// The alternative, with a prioritized list.
    pub alternative: Option<&'a str>,
}

impl<'a> Constraint<'a> {
    /// `None` for a constraint of an unknown kind.
    pub(crate) fn new(constraint: &'a DeviceConstraint) -> Option<Self> {
        let (attribute, distinct) = match constraint {
            DeviceConstraint {
                match_attribute: Some(attribute),
                ..
            } => (attribute, false),
            DeviceConstraint {
                distinct_attribute: Some(attribute),
                ..
            } => (attribute, true),
            _ => return None,
        };
        Some(Self {
            requests: &constraint.requests,
            attribute,
            distinct,
            values: Vec::new(),
        })
    }

    /// Adds a device, if that keeps the constraint.
    pub(crate) fn add(&mut self, of: RequestName<'_>, driver: &str, device: &'a Device) -> bool {
        let is_allowed = self.allows(of, driver, device);
        if is_allowed
            && self.concerns(of)
            && let Some(value) = lookup(device, driver, self.attribute)
        {
            self.values.push(value);
        }
        is_allowed
    }

    /// Whether adding a device keeps the constraint.
    pub(crate) fn allows(&self, of: RequestName<'_>, driver: &str, device: &Device) -> bool {
        if !self.concerns(of) {
            return true;
        }
        let Some(value) = lookup(device, driver, self.attribute) else {
            return false;
        };
        match (self.values.as_slice(), self.distinct) {
            ([], _) => true,
            ([first, ..], false) => is_scalar(value) && *first == value,
            (values, true) => is_scalar(value) && !values.contains(&value),
        }
    }

    /// Takes the device away that was added last.
    pub(crate) fn remove(&mut self, of: RequestName<'_>) {
        if self.concerns(of) {
            self.values.pop();
        }
    }

    fn concerns(&self, of: RequestName<'_>) -> bool {
        self.requests.is_empty()
            || self.requests.iter().any(|name| {
                name == of.request
                    || of.alternative.is_some_and(|alternative| {
                        name.split_once('/') == Some((of.request, alternative))
                    })
            })
    }
}

/// The value of a fully qualified attribute.
pub(crate) fn lookup<'a>(device: &'a Device, driver: &str, name: &str) -> Option<&'a Attribute> {
    device.attributes.get(name).or_else(|| {
        let (domain, name) = name.split_once('/')?;
        if domain != driver {
            return None;
        }
        device.attributes.get(name)
    })
}

/// Lists and values of unknown kinds cannot be compared.
fn is_scalar(attribute: &Attribute) -> bool {
    matches!(
        attribute,
        Attribute::Int(_) | Attribute::Bool(_) | Attribute::Text(_) | Attribute::Version(_)
    )
}
