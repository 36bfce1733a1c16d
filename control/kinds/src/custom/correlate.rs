//! Correlates values of an old and a new object, and finds unchanged ones (KEP-4008):
//! lists that are maps have no order.

use control_types::structural::{ListType, Schema};
use control_types::value::Value;

/// The item of an old list that has the same keys, if there is one only.
pub(super) fn item<'a>(keys: &[&str], old: &'a Value, item: &Value) -> Option<&'a Value> {
    let mut same = old
        .as_array()?
        .iter()
        .filter(|one| keys.iter().all(|key| one.get(key) == item.get(key)));
    same.next().filter(|_| same.next().is_none())
}

/// Returns whether a value equals the old one.
pub(super) fn is_same(schema: Option<&Schema>, value: &Value, old: &Value) -> bool {
    let Some(schema) = schema.filter(|schema| schema.has_lists()) else {
        return value == old;
    };
    match (value, old) {
        (Value::Object(map), Value::Object(before)) => {
            map.len() == before.len()
                && map.iter().all(|(key, value)| {
                    let of = schema.property(key).or_else(|| schema.additional_schema());
                    (before.get(key)).is_some_and(|old| is_same(of, value, old))
                })
        }
        (Value::Array(items), Value::Array(before)) => match schema.list_type() {
            ListType::Map(keys) => {
                items.len() == before.len()
                    && items.iter().all(|one| {
                        item(keys, old, one).is_some_and(|old| is_same(schema.items(), one, old))
                    })
            }
            _ => value == old,
        },
        _ => value == old,
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn schema() -> Schema {
        Schema::compile(&value!({"type": "object", "properties": {
            "m": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
            },
            "l": {"type": "array", "items": {"type": "string"}}
        }}))
    }

    #[test]
    fn only_lists_that_are_maps_have_no_order() {
        let (a, b) = (value!({"k": "a", "v": 1}), value!({"k": "b", "v": 2}));
        let same = |new: Value, old: Value| is_same(Some(&schema()), &new, &old);
        let list = |items: &[&Value]| -> Value { items.iter().map(|it| (*it).clone()).collect() };
        assert!(same(
            value!({"m": (list(&[&a, &b]))}),
            value!({"m": (list(&[&b, &a]))})
        ));
        assert!(!same(
            value!({"m": (list(&[&a]))}),
            value!({"m": (list(&[&b, &a]))})
        ));
        assert!(!same(
            value!({"m": (list(&[&a, &b]))}),
            value!({"m": (list(&[&a, &a]))})
        ));
        let other = value!({"k": "b", "v": 3});
        assert!(!same(
            value!({"m": (list(&[&a, &b]))}),
            value!({"m": (list(&[&other, &a]))})
        ));
        assert!(same(value!({"l": ["x", "y"]}), value!({"l": ["x", "y"]})));
        assert!(!same(value!({"l": ["x", "y"]}), value!({"l": ["y", "x"]})));
        assert!(!same(value!({"l": ["x"]}), value!({"l": ["x"], "m": []})));
    }
}
