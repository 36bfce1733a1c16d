//! Reading and defaulting fields of an object tree.
//!
//! An absent field reads as its Go zero value, because the API's own decoder does so:
//! validation and defaulting are defined on those values.

use control_types::value::{Map, Value};

static NULL: Value = Value::Null;

/// Reads fields; whatever is absent or of another type reads as zero.
pub(crate) trait Read {
    /// The field, or null.
    fn at(&self, key: &str) -> &Value;
    /// The field as text, or "".
    fn text(&self, key: &str) -> &str;
    /// The field as an integer, if it is there.
    fn int(&self, key: &str) -> Option<i64>;
    /// The field as an integer, or 0.
    fn num(&self, key: &str) -> i64;
    /// The field as a truth value, if it is there.
    fn truth(&self, key: &str) -> Option<bool>;
    /// The field as a truth value, or false.
    fn flag(&self, key: &str) -> bool;
    /// The items of a list field, or none.
    fn items(&self, key: &str) -> &[Value];
    /// The entries of a map field, or none.
    fn entries(&self, key: &str) -> impl Iterator<Item = (&str, &Value)>;
    /// How many entries a map field has.
    fn size(&self, key: &str) -> usize;
    /// Whether the field is there and not null.
    fn has(&self, key: &str) -> bool;
    /// The value itself as text, or "".
    fn as_text(&self) -> &str;
    /// The field below fields, or null.
    fn dig(&self, keys: &[&str]) -> &Value;
}

impl Read for Value {
    fn at(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }

    fn text(&self, key: &str) -> &str {
        self.at(key).as_text()
    }

    fn int(&self, key: &str) -> Option<i64> {
        self.at(key).as_i64()
    }

    fn num(&self, key: &str) -> i64 {
        self.int(key).unwrap_or(0)
    }

    fn truth(&self, key: &str) -> Option<bool> {
        self.at(key).as_bool()
    }

    fn flag(&self, key: &str) -> bool {
        self.truth(key).unwrap_or(false)
    }

    fn items(&self, key: &str) -> &[Value] {
        match self.at(key) {
            Value::Array(items) => items,
            _ => &[],
        }
    }

    fn entries(&self, key: &str) -> impl Iterator<Item = (&str, &Value)> {
        let map = match self.at(key) {
            Value::Object(map) => Some(map),
            _ => None,
        };
        map.into_iter()
            .flat_map(|map| map.iter().map(|(k, v)| (&**k, v)))
    }

    fn size(&self, key: &str) -> usize {
        match self.at(key) {
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    fn has(&self, key: &str) -> bool {
        !matches!(self.at(key), Value::Null)
    }

    fn as_text(&self) -> &str {
        match self {
            Value::String(text) => text,
            _ => "",
        }
    }

    fn dig(&self, keys: &[&str]) -> &Value {
        keys.iter().fold(self, |at, key| at.at(key))
    }
}

/// Sets fields; on anything but an object it does nothing.
pub(crate) trait Write {
    /// Sets the field when it is absent: the default of a pointer.
    fn absent(&mut self, key: &str, value: impl Into<Value>);
    /// Sets the field when it is absent or "": the default of a string.
    fn blank(&mut self, key: &str, value: &str);
    /// Sets the field when it is absent or 0: the default of an integer.
    fn zero(&mut self, key: &str, value: i64);
    /// Sets the field.
    fn put(&mut self, key: &str, value: impl Into<Value>);
    /// Removes the field.
    fn drop_field(&mut self, key: &str);
    /// The field as an object, made when it is absent.
    fn make(&mut self, key: &str) -> &mut Value;
    /// The field, when it is there and not null.
    fn there(&mut self, key: &str) -> Option<&mut Value>;
    /// The items of a list field, or none.
    fn items_mut(&mut self, key: &str) -> &mut [Value];
    /// Takes the field from `other`: set as there, removed when absent there.
    fn take_from(&mut self, other: &Value, key: &str);
}

impl Write for Value {
    fn absent(&mut self, key: &str, value: impl Into<Value>) {
        if !self.has(key) {
            self.put(key, value);
        }
    }

    fn blank(&mut self, key: &str, value: &str) {
        if self.text(key).is_empty() {
            self.put(key, value);
        }
    }

    fn zero(&mut self, key: &str, value: i64) {
        if self.num(key) == 0 {
            self.put(key, value);
        }
    }

    fn put(&mut self, key: &str, value: impl Into<Value>) {
        if let Value::Object(map) = self {
            map.insert(key, value.into());
        }
    }

    fn drop_field(&mut self, key: &str) {
        if let Value::Object(map) = self {
            map.remove(key);
        }
    }

    fn make(&mut self, key: &str) -> &mut Value {
        if !matches!(self, Value::Object(_)) {
            *self = Value::Object(Map::new());
        }
        if !matches!(self.at(key), Value::Object(_)) {
            self.put(key, Value::Object(Map::new()));
        }
        match self.get_mut(key) {
            Some(value) => value,
            None => unreachable!("the field was put just now"),
        }
    }

    fn there(&mut self, key: &str) -> Option<&mut Value> {
        self.get_mut(key)
            .filter(|value| !matches!(value, Value::Null))
    }

    fn items_mut(&mut self, key: &str) -> &mut [Value] {
        match self.get_mut(key) {
            Some(Value::Array(items)) => items,
            _ => &mut [],
        }
    }

    fn take_from(&mut self, other: &Value, key: &str) {
        match other.get(key) {
            Some(value) => self.put(key, value.clone()),
            None => self.drop_field(key),
        }
    }
}

/// Whether two trees mean the same. Null and an empty list equal absence, as
/// Go's semantic equality sees them; everything else must be equal.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            x.iter().all(|(k, v)| same(v, y.get(k).unwrap_or(&NULL)))
                && y.iter().all(|(k, v)| x.get(k).is_some() || same(v, &NULL))
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(v, w)| same(v, w))
        }
        (Value::Null, Value::Array(x)) | (Value::Array(x), Value::Null) => x.is_empty(),
        (x, y) => x == y,
    }
}
