//! Amounts of what quotas limit, and how they are written.

use std::collections::BTreeMap;

use control_types::{
    quantity::{Format, Quantity},
    value::{Map, Value},
};

use crate::rules::quantity::{self, Nanos};

/// A quantity that remembers how it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Amount {
    nanos: Nanos,
    format: Format,
}

/// Amounts by resource name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Usage(BTreeMap<String, Amount>);

const ONE: Nanos = 1_000_000_000;

// === impl Amount ===

impl Amount {
    /// So many.
    #[must_use]
    pub fn number(count: i64) -> Self {
        Self {
            nanos: Nanos::from(count) * ONE,
            format: Format::DecimalSI,
        }
    }

    /// A field that holds a quantity.
    pub(super) fn from_value(value: &Value) -> Self {
        let text = value.as_str().unwrap_or_default();
        let format = if text.ends_with('i') {
            Format::BinarySI
        } else if text.contains(['e', 'E']) && !text.ends_with('E') {
            Format::DecimalExponent
        } else {
            Format::DecimalSI
        };
        Self {
            nanos: quantity::to_nanos(value),
            format,
        }
    }

    /// Whether it is more than nothing.
    pub(super) fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Rounded up to a whole number.
    pub(super) fn whole(self) -> Self {
        let rest = self.nanos.rem_euclid(ONE);
        let nanos = if rest == 0 {
            self.nanos
        } else {
            self.nanos - rest + ONE
        };
        Self { nanos, ..self }
    }

    /// The sum, written as the first part is unless that is nothing.
    fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 {
            other.format
        } else {
            self.format
        };
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            format,
        }
    }

    fn minus(self, other: Self) -> Self {
        let format = if self.nanos == 0 {
            other.format
        } else {
            self.format
        };
        Self {
            nanos: self.nanos.saturating_sub(other.nanos),
            format,
        }
    }

    /// The larger one; the first of equals.
    pub(super) fn max(self, other: Self) -> Self {
        if other.nanos > self.nanos {
            other
        } else {
            self
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Quantity::from_nanos(self.nanos, self.format))
    }
}

// === impl Usage ===

impl Usage {
    /// A list of quantities as objects hold it.
    pub(super) fn from_list(list: &Value) -> Self {
        let entries = list.as_object().into_iter().flat_map(Map::iter);
        Self(
            entries
                .map(|(name, amount)| (name.to_string(), Amount::from_value(amount)))
                .collect(),
        )
    }

    /// The list as objects hold it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (name, amount) in &self.0 {
            map.insert(name.as_str(), amount.to_string().as_str());
        }
        Value::Object(map)
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<Amount> {
        self.0.get(name).copied()
    }

    pub(super) fn set(&mut self, name: &str, amount: Amount) {
        self.0.insert(name.to_owned(), amount);
    }

    pub(super) fn add(&mut self, name: &str, amount: Amount) {
        match self.0.get_mut(name) {
            Some(there) => *there = there.plus(amount),
            None => self.set(name, amount),
        }
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.add(name, *amount);
        }
    }

    pub(super) fn replace_all(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.set(name, *amount);
        }
    }

    /// The larger amount of each name.
    pub(super) fn max_all(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let there = self.get(name);
            self.set(name, there.map_or(*amount, |there| there.max(*amount)));
        }
    }

    /// Returns the excess over `other`.
    pub(super) fn more_than(&self, other: &Self) -> Self {
        let mut more = self.clone();
        for (name, amount) in &mut more.0 {
            if let Some(other) = other.get(name) {
                *amount = amount.minus(other);
            }
        }
        more.0.retain(|_, amount| amount.nanos > 0);
        more
    }

    pub(super) fn without_zeros(mut self) -> Self {
        self.0.retain(|_, amount| amount.nanos != 0);
        self
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|name, _| keep(name));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Amount)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Returns the names of negative amounts.
    pub(super) fn negative(&self) -> Vec<&str> {
        let below = self.iter().filter(|(_, amount)| amount.nanos < 0);
        below.map(|(name, _)| name).collect()
    }

    /// Returns the names of amounts that exceed `limits`, among those in both.
    pub(super) fn beyond(&self, limits: &Self) -> Vec<String> {
        let beyond = |(name, amount): &(&str, Amount)| {
            limits
                .get(name)
                .is_some_and(|limit| amount.nanos > limit.nanos)
        };
        let names = self.iter().filter(beyond);
        names.map(|(name, _)| name.to_owned()).collect()
    }

    /// The amounts of these names, for people: `cpu=1,pods=2`.
    pub(super) fn show(&self, names: &[String]) -> String {
        let shown = names.iter().filter_map(|name| {
            let amount = self.get(name)?;
            Some(format!("{name}={amount}"))
        });
        shown.collect::<Vec<_>>().join(",")
    }
}
