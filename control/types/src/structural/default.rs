//! Defaulting, and what becomes of `null`.

use super::Schema;
use crate::value::Value;

impl Schema {
    /// Drops members that are `null` if `null` is not allowed and there is no default to
    /// replace it.
    pub fn prune_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|key, value| match self.member(key) {
                    Some(of) if value.is_null() => of.is_nullable() || of.default.is_some(),
                    _ => true,
                });
                for (key, value) in map.iter_mut() {
                    if let Some(of) = self.member(key) {
                        of.prune_nulls(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(of) = self.items() {
                    items.iter_mut().for_each(|item| of.prune_nulls(item));
                }
            }
            _ => {}
        }
    }

    /// Gives members that are not there, or are `null` where that is no value,
    /// their defaults.
    pub fn fill_defaults(&self, value: &mut Value) {
        if self.flags & super::DEFAULTS == 0 {
            return;
        }
        match value {
            Value::Object(map) => {
                for (key, of) in &self.properties {
                    let Some(default) = of.default() else {
                        continue;
                    };
                    match map.get_mut(key) {
                        None => {
                            map.insert(key, default);
                        }
                        Some(present) if present.is_null() && !of.is_nullable() => {
                            present.clone_from(default);
                        }
                        Some(_) => {}
                    }
                }
                for (key, value) in map.iter_mut() {
                    if let Some(of) = self.property(key) {
                        of.fill_defaults(value);
                    } else if let Some(of) = self.additional_schema() {
                        of.replace_null(value);
                        of.fill_defaults(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(of) = self.items() {
                    for item in items {
                        of.replace_null(item);
                        of.fill_defaults(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn replace_null(&self, value: &mut Value) {
        if value.is_null()
            && !self.is_nullable()
            && let Some(default) = self.default()
        {
            value.clone_from(default);
        }
    }
}
