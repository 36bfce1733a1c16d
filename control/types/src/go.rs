//! Values as Go's `fmt` shows them within messages.

use crate::status::quote;
use crate::value::Value;

/// `%v`
#[must_use]
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => list(items),
        Value::Object(map) => {
            let members: Vec<_> = sorted(map)
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", plain(value)))
                .collect();
            format!("map[{}]", members.join(" "))
        }
        Value::Bool(truth) => truth.to_string(),
        Value::Int(whole) => whole.to_string(),
        Value::Float(number) => float(*number),
    }
}

/// `%v` of a list.
#[must_use]
pub fn list(items: &[Value]) -> String {
    let items: Vec<_> = items.iter().map(plain).collect();
    format!("[{}]", items.join(" "))
}

/// `%#v`
#[must_use]
pub fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let members: Vec<_> = sorted(map)
                .into_iter()
                .map(|(key, value)| format!("{}:{}", quote(key), syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => plain(other),
    }
}

/// `%s` of what should be a text.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".into(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            format!("%!s({}={})", type_name(value), plain(value))
        }
        other => plain(other),
    }
}

/// `%T`
#[must_use]
pub const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
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
        assert_eq!(plain(&value), "map[a:true b:[1 x <nil>]]");
        assert_eq!(
            syntax(&value),
            "map[string]interface {}{\"a\":true, \"b\":[]interface {}{1, \"x\", interface {}(nil)}}"
        );
        assert_eq!(plain(&Value::Float(1e21)), "1e+21");
        assert_eq!(plain(&Value::Float(0.5)), "0.5");
        assert_eq!(plain(&Value::Float(1e6)), "1e+06");
        assert_eq!(plain(&Value::Int(1_000_000)), "1000000");
        assert_eq!(text(&Value::Int(1)), "%!s(int64=1)");
    }
}
