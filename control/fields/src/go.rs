//! Values as Go's `fmt` shows them within messages.

use control_types::status::quote;
use control_types::value::Value;

/// `%v`
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            let members: Vec<_> = members
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", plain(value)))
                .collect();
            format!("map[{}]", members.join(" "))
        }
        Value::Bool(truth) => truth.to_string(),
        Value::Int(_) | Value::Float(_) => number(value.as_f64().unwrap_or_default()),
    }
}

/// `%#v`
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            let members: Vec<_> = members
                .into_iter()
                .map(|(key, value)| format!("{}:{}", quote(key), syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => plain(other),
    }
}

/// `%T`
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A float as `%v` shows it: shortest, with an exponent from a million on.
fn number(number: f64) -> String {
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
    use control_types::value;

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
        assert_eq!(plain(&Value::Int(1_000_000)), "1e+06");
    }
}
