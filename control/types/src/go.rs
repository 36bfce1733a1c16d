//! Values as Go's `fmt` shows them within messages.

use crate::status::quote;
use crate::value::Value;

/// How numbers without fraction are held by the Go program whose message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// As `int64`.
    Ints,
    /// As `float64`, as its JSON decoder makes them of any number.
    Floats,
}

/// `%v`
#[must_use]
pub fn plain(value: &Value, numbers: Numbers) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => list(items, numbers),
        Value::Object(map) => {
            let members: Vec<_> = sorted(map)
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", plain(value, numbers)))
                .collect();
            format!("map[{}]", members.join(" "))
        }
        Value::Bool(truth) => truth.to_string(),
        Value::Int(whole) if numbers == Numbers::Ints => whole.to_string(),
        Value::Int(_) | Value::Float(_) => float(value.as_f64().unwrap_or_default()),
    }
}

/// `%v` of a list.
#[must_use]
pub fn list(items: &[Value], numbers: Numbers) -> String {
    let items: Vec<_> = items.iter().map(|item| plain(item, numbers)).collect();
    format!("[{}]", items.join(" "))
}

/// `%#v`
#[must_use]
pub fn syntax(value: &Value, numbers: Numbers) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| syntax(item, numbers)).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let members: Vec<_> = sorted(map)
                .into_iter()
                .map(|(key, value)| format!("{}:{}", quote(key), syntax(value, numbers)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => plain(other, numbers),
    }
}

/// `%s` of what should be a text.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".into(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => format!(
            "%!s({}={})",
            type_name(value, Numbers::Ints),
            plain(value, Numbers::Ints)
        ),
        other => plain(other, Numbers::Ints),
    }
}

/// `%T`
#[must_use]
pub const fn type_name(value: &Value, numbers: Numbers) -> &'static str {
    match (value, numbers) {
        (Value::Null, _) => "<nil>",
        (Value::Bool(_), _) => "bool",
        (Value::Int(_), Numbers::Ints) => "int64",
        (Value::Int(_) | Value::Float(_), _) => "float64",
        (Value::String(_), _) => "string",
        (Value::Array(_), _) => "[]interface {}",
        (Value::Object(_), _) => "map[string]interface {}",
    }
}

fn sorted(map: &crate::value::Map) -> Vec<(&crate::value::Key, &Value)> {
    let mut members: Vec<_> = map.iter().collect();
    members.sort_by_key(|(key, _)| *key);
    members
}

/// A float: the shortest text, with an exponent below 1e-4 and from a million on.
fn float(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-4..1e6).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(rest) => ('-', rest),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn values_look_as_in_go() {
        let value = value!({"b": [1, "x", null], "a": true});
        assert_eq!(plain(&value, Numbers::Ints), "map[a:true b:[1 x <nil>]]");
        assert_eq!(
            syntax(&value, Numbers::Floats),
            "map[string]interface {}{\"a\":true, \"b\":[]interface {}{1, \"x\", interface {}(nil)}}"
        );
        assert_eq!(plain(&Value::Float(1e21), Numbers::Ints), "1e+21");
        assert_eq!(plain(&Value::Float(0.5), Numbers::Ints), "0.5");
        let million = Value::Int(1_000_000);
        assert_eq!(plain(&million, Numbers::Floats), "1e+06");
        assert_eq!(plain(&million, Numbers::Ints), "1000000");
        assert_eq!(text(&Value::Int(1)), "%!s(int64=1)");
    }
}
