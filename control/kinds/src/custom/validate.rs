//! Validation of a value by its schema, worded as in Kubernetes.
//!
//! An update ratchets (KEP-4008): an invalid value is allowed if the same value was there
//! before, as far as the old value can be identified.

use control_types::structural::{Additional, ListType, Rules, Schema, Types};
use control_types::value::Value;

use super::{correlate, formats};
use crate::error::{ErrorKind, Errors, FieldError, Path, quoted};

/// The state of validating a value.
#[derive(Debug, Default)]
struct ValidationState {
    errors: Vec<FieldError>,
    /// How many checks were made that did not fail: tells which of several
    /// alternatives the value comes nearest to.
    matches: u32,
}

/// Validates a value, whose name in messages is `name` (empty for the whole object);
/// errors are at `at`, or below it. `old` is the former value.
pub(super) fn check(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    at: Option<&str>,
    errors: &mut Errors,
) {
    let found = ratcheted(schema, value, old, "");
    errors.extend(found.errors.into_iter().map(|mut error| {
        error.field = match (at, error.field.as_str()) {
            (None, GENERAL) => "<nil>".into(),
            (Some(at), GENERAL | "") => at.into(),
            (Some(at), field) => format!("{at}.{field}"),
            (None, "") => "<nil>".into(),
            (None, _) => error.field,
        };
        error
    }));
}

/// The place of errors that have none.
const GENERAL: &str = "\0";

fn ratcheted(schema: &Schema, value: &Value, old: Option<&Value>, name: &str) -> ValidationState {
    let mut found = one(schema, value, old, name);
    if !found.errors.is_empty()
        && old.is_some_and(|old| correlate::is_same(Some(schema), value, old))
    {
        found.errors.clear();
    }
    found
}

impl ValidationState {
    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        for error in other.errors {
            self.add(error);
        }
    }

    /// Adds an error; equal ones are reported once.
    fn add(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn invalid(&mut self, name: &str, value: impl Into<Value>, detail: String) {
        self.add(error(ErrorKind::Invalid, name, Some(value.into()), detail));
    }

    fn general(&mut self, detail: String) {
        self.add(error(ErrorKind::Invalid, GENERAL, Some("".into()), detail));
    }
}

fn error(kind: ErrorKind, name: &str, value: Option<Value>, detail: String) -> FieldError {
    FieldError {
        kind,
        field: name.strip_prefix('.').unwrap_or(name).to_owned(),
        bad_value: value,
        detail,
    }
}

fn wrong_type(name: &str, wanted: &str, found: &str) -> FieldError {
    error(
        ErrorKind::TypeInvalid,
        name,
        Some(found.into()),
        format!("{name} in body must be of type {wanted}: {}", quoted(found)),
    )
}

/// Returns the error for a schema with an unknown `type`; no value can match it.
pub(crate) fn of_no_type(schema: &Value, value: &Value, name: &str) -> Option<FieldError> {
    const KNOWN: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let wanted = schema
        .str_at(&["type"])
        .filter(|wanted| !wanted.is_empty())?;
    let (_, found, _) = type_of(value);
    (!KNOWN.contains(&wanted)).then(|| wrong_type(name, wanted, found))
}

/// Looks at one value and all below it.
fn one(schema: &Schema, value: &Value, old: Option<&Value>, name: &str) -> ValidationState {
    let mut found = ValidationState::default();
    let none = Rules::default();
    let rules = schema.rules().unwrap_or(&none);
    let types = schema.types();
    if value.is_null() {
        if !types.is_any() && !schema.is_nullable() {
            found.add(wrong_type(name, types.name(), "null"));
        } else {
            found.matches += 1;
        }
        listed(rules, value, name, &mut found);
        return found;
    }
    if !types.is_any() || !rules.format.is_empty() {
        match type_error(schema, rules, value, name) {
            Some(error) => found.add(error),
            None => found.matches += 1,
        }
        found.matches += 1;
    }
    combined(rules, value, old, name, &mut found);
    found.matches += 2;
    match value {
        Value::String(text) => {
            string(rules, text, name, &mut found);
            found.matches += 1;
            if formats::is_known(&rules.format) {
                if !formats::fits(&rules.format, text) {
                    found.add(error(
                        ErrorKind::TypeInvalid,
                        name,
                        Some(text.into()),
                        format!(
                            "{name} in body must be of type {}: {}",
                            rules.format,
                            quoted(text)
                        ),
                    ));
                }
                found.matches += 1;
            }
        }
        Value::Int(_) | Value::Float(_) => {
            number(rules, types, value, name, &mut found);
            found.matches += 2;
        }
        Value::Array(items) => {
            array(schema, rules, items, old, name, &mut found);
            found.matches += 2;
        }
        _ => {}
    }
    listed(rules, value, name, &mut found);
    found.matches += 1;
    if let Value::Object(_) = value {
        object(schema, rules, value, old, name, &mut found);
        found.matches += 1;
    }
    found.matches += 1;
    found
}

/// The type of a value as messages name it, and its format.
fn type_of(value: &Value) -> (Types, &'static str, &'static str) {
    match value {
        Value::Null => (Types::default(), "null", ""),
        Value::Bool(_) => (Types::BOOLEAN, "boolean", ""),
        Value::Int(_) => (Types::INTEGER, "integer", "int64"),
        Value::Float(_) => (Types::NUMBER, "number", "float64"),
        Value::String(_) => (Types::STRING, "string", ""),
        Value::Array(_) => (Types::ARRAY, "array", ""),
        Value::Object(_) => (Types::OBJECT, "object", ""),
    }
}

fn type_error(schema: &Schema, rules: &Rules, value: &Value, name: &str) -> Option<FieldError> {
    let types = schema.types();
    let (of, called, format) = type_of(value);
    let texts = matches!(value, Value::String(_) | Value::Array(_));
    // Beyond this a float may be another number than was written.
    const MOST: f64 = 9_007_199_254_740_991.0;
    let whole =
        matches!(value, Value::Float(number) if number.fract() == 0.0 && number.abs() <= MOST);
    let fits = types.has(of)
        || (whole && types.has(Types::INTEGER))
        || (of == Types::INTEGER && types.has(Types::NUMBER));
    if !rules.format.is_empty() {
        if !texts && !fits && *rules.format != *format {
            return Some(wrong_type(name, &rules.format, format));
        }
        let numeric = types.has(Types::NUMBER) || types.has(Types::INTEGER);
        if !numeric && texts {
            return None;
        }
    }
    (!fits).then(|| wrong_type(name, types.name(), called))
}

/// `anyOf`, `oneOf`, `allOf`, `not`.
fn combined(
    rules: &Rules,
    value: &Value,
    old: Option<&Value>,
    name: &str,
    found: &mut ValidationState,
) {
    let shown = quoted(name);
    if !rules.any_of.is_empty() {
        match nearest(&rules.any_of, value, old, name, 1) {
            (0, best) => {
                found.general(format!("{shown} must validate at least one schema (anyOf)"));
                found.merge(best);
            }
            (_, success) => found.merge(success),
        }
    }
    if !rules.one_of.is_empty() {
        match nearest(&rules.one_of, value, old, name, usize::MAX) {
            (1, success) => found.merge(success),
            (0, best) => {
                found.general(format!(
                    "{shown} must validate one and only one schema (oneOf). Found none valid"
                ));
                found.merge(best);
            }
            (many, _) => found.general(format!(
                "{shown} must validate one and only one schema (oneOf). Found {many} valid alternatives"
            )),
        }
    }
    if !rules.all_of.is_empty() {
        let mut valid = 0;
        for schema in &rules.all_of {
            let result = one(schema, value, old, name);
            valid += usize::from(result.errors.is_empty());
            found.merge(result);
        }
        if valid != rules.all_of.len() {
            let more = if valid == 0 { ". None validated" } else { "" };
            found.general(format!(
                "{shown} must validate all the schemas (allOf){more}"
            ));
        }
    }
    if let Some(not) = &rules.not
        && one(not, value, old, name).errors.is_empty()
    {
        found.general(format!("{shown} must not validate the schema (not)"));
    }
}

/// Returns how many alternatives match, up to `enough`, and the errors of the first, or
/// of the closest one.
fn nearest(
    schemas: &[Schema],
    value: &Value,
    old: Option<&Value>,
    name: &str,
    enough: usize,
) -> (usize, ValidationState) {
    let mut valid = 0;
    let mut success: Option<ValidationState> = None;
    let mut best: Option<ValidationState> = None;
    for schema in schemas {
        let result = one(schema, value, old, name);
        if result.errors.is_empty() {
            valid += 1;
            success.get_or_insert(result);
            if valid >= enough {
                break;
            }
        } else if best
            .as_ref()
            .is_none_or(|best| result.matches > best.matches)
        {
            best = Some(result);
        }
    }
    (valid, success.or(best).unwrap_or_default())
}

/// The first thing that is wrong with a text.
fn string(rules: &Rules, text: &str, name: &str, found: &mut ValidationState) {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = rules.max_length
        && length() > max
    {
        let unit = if max == 1 { "byte" } else { "bytes" };
        found.add(error(
            ErrorKind::TooLong,
            name,
            None,
            format!("may not be more than {max} {unit}"),
        ));
    } else if let Some(min) = rules.min_length
        && length() < min
    {
        let detail = format!("{name} in body should be at least {min} chars long");
        found.invalid(name, text, detail);
    } else if let Some(pattern) = &rules.pattern
        && pattern.matches(text) != Some(true)
    {
        let shown = pattern.as_str();
        let detail = format!("{name} in body should match '{shown}'");
        found.invalid(name, text, detail);
    }
}

/// A number as Go prints a float.
fn shown(number: f64) -> String {
    control_types::go::plain(&Value::Float(number))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "numbers are converted as the API converts them"
)]
fn number(rules: &Rules, types: Types, value: &Value, name: &str, found: &mut ValidationState) {
    let as_float = match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => return,
    };
    // Formats count for types that are one.
    let integer = types == Types::INTEGER;
    let narrow = integer && *rules.format == *"int32";
    // An integer is one whose digits, as a float is written, are.
    let in_range = |number: f64| {
        if narrow {
            number.to_string().parse::<i32>().is_ok()
        } else if integer {
            number.to_string().parse::<i64>().is_ok()
        } else if types == Types::NUMBER && *rules.format == *"float" {
            number.abs() <= f64::from(f32::MAX)
        } else {
            true
        }
    };
    let range = |what: &str| {
        let kind = if integer { "integer" } else { "number" };
        if rules.format.is_empty() {
            format!("{what} value must be of type {kind} (default format) in {name}")
        } else {
            let format = &rules.format;
            format!("{what} value must be of type {kind} with format {format} in {name}")
        }
    };
    let fits = match value {
        Value::Int(number) if integer => !narrow || i32::try_from(*number).is_ok(),
        _ => in_range(as_float),
    };
    if !fits {
        found.general(range("Checked"));
    }
    if let Some(factor) = rules.multiple_of {
        let native = in_range(factor);
        if !native {
            found.general(range("MultipleOf"));
        }
        let (ok, text) = match value {
            Value::Int(number) if native => {
                let whole = factor as i64;
                if whole <= 0 {
                    found.invalid(
                        name,
                        whole,
                        format!("factor MultipleOf declared for {name} must be positive: {whole}"),
                    );
                    (true, String::new())
                } else {
                    (number % whole == 0, whole.to_string())
                }
            }
            _ => {
                let times = if factor < 1.0 {
                    1.0 / factor * as_float
                } else {
                    as_float / factor
                };
                let near = (times - times.round()).abs() < 1e-9 * times.abs().max(1.0);
                (near, shown(factor))
            }
        };
        if !ok {
            found.invalid(
                name,
                value,
                format!("{name} in body should be a multiple of {text}"),
            );
        }
    }
    let mut bound = |bound: Option<f64>, exclusive: bool, upper: bool| {
        let Some(limit) = bound else { return };
        let what = if upper {
            "Maximum boundary"
        } else {
            "Minimum boundary"
        };
        let native = in_range(limit);
        if !native {
            found.general(range(what));
        }
        let (order, text) = match value {
            Value::Int(number) if native => {
                let limit = limit as i64;
                (number.cmp(&limit), limit.to_string())
            }
            _ => (as_float.total_cmp(&limit), shown(limit)),
        };
        let order = if upper { order } else { order.reverse() };
        if order.is_gt() || (exclusive && order.is_eq()) {
            let words = match (upper, exclusive) {
                (true, false) => "less than or equal to",
                (true, true) => "less than",
                (false, false) => "greater than or equal to",
                (false, true) => "greater than",
            };
            let detail = format!("{name} in body should be {words} {text}");
            found.invalid(name, value, detail);
        }
    };
    bound(rules.minimum, rules.exclusive_minimum, false);
    bound(rules.maximum, rules.exclusive_maximum, true);
}

fn too_many(name: &str, size: i64, max: i64) -> FieldError {
    let unit = if max == 1 { "item" } else { "items" };
    error(
        ErrorKind::TooMany,
        name,
        Some(size.into()),
        format!("must have at most {max} {unit}"),
    )
}

fn array(
    schema: &Schema,
    rules: &Rules,
    items: &[Value],
    old: Option<&Value>,
    name: &str,
    found: &mut ValidationState,
) {
    if let Some(of) = schema.items() {
        for (at, item) in items.iter().enumerate() {
            let before = match schema.list_type() {
                ListType::Map(keys) => old.and_then(|old| correlate::item(keys, old, item)),
                _ => None,
            };
            found.merge(ratcheted(of, item, before, &format!("{name}[{at}]")));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = rules.min_items
        && size < min
    {
        let detail = format!("{name} in body should have at least {min} items");
        found.invalid(name, size, detail);
    }
    if let Some(max) = rules.max_items
        && size > max
    {
        found.add(too_many(name, size, max));
    }
    let twice = |(at, item): (usize, &Value)| items[..at].contains(item);
    if schema.has_unique_items() && items.iter().enumerate().any(twice) {
        let detail = format!("{name} in body shouldn't contain duplicates");
        found.invalid(name, "", detail);
    }
}

fn object(
    schema: &Schema,
    rules: &Rules,
    value: &Value,
    old: Option<&Value>,
    name: &str,
    found: &mut ValidationState,
) {
    let Value::Object(map) = value else { return };
    let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
    if let Some(min) = rules.min_properties
        && size < min
    {
        let detail = format!("{name} in body should have at least {min} properties");
        found.invalid(name, size, detail);
    }
    if let Some(max) = rules.max_properties
        && size > max
    {
        found.add(too_many(name, size, max));
    }
    for (key, value) in map.iter() {
        if schema.property(key).is_some() {
            continue;
        }
        match schema.additional() {
            Additional::Of(of) => {
                let before = old.and_then(|old| old.get(key));
                found.merge(ratcheted(of, value, before, &format!("{name}.{key}")));
            }
            Additional::None => found.invalid(
                name,
                key.as_str(),
                format!("{name}.{} in body is a forbidden property", key.as_str()),
            ),
            Additional::Any | Additional::Unsaid => {}
        }
    }
    for (key, of) in schema.properties() {
        let Some(value) = map.get(key) else { continue };
        let before = old.and_then(|old| old.get(key));
        let place;
        let path = if name.is_empty() {
            key.as_str()
        } else {
            place = format!("{name}.{}", key.as_str());
            &place
        };
        found.merge(ratcheted(of, value, before, path));
    }
    for key in &rules.required {
        if !map.contains_key(key) {
            let path = format!("{name}.{}", key.as_str());
            found.add(error(ErrorKind::Required, &path, None, String::new()));
        }
    }
}

/// `enum`
fn listed(rules: &Rules, value: &Value, name: &str, found: &mut ValidationState) {
    if rules.r#enum.is_empty() || rules.r#enum.iter().any(|one| same(one, value)) {
        return;
    }
    let texts: Vec<String> = rules
        .r#enum
        .iter()
        .map(|one| match one {
            Value::String(text) => text.to_string(),
            other => other.to_string(),
        })
        .collect();
    let known: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut errors = Errors::new();
    let place = name.strip_prefix('.').unwrap_or(name);
    errors.not_supported(&Path::new(place), value, &known);
    errors
        .into_vec()
        .into_iter()
        .for_each(|error| found.add(error));
}

/// Whether a value is one of an enumeration: numbers are converted to its type.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "numbers are converted as the API converts them"
)]
fn same(listed: &Value, value: &Value) -> bool {
    match (listed, value) {
        (Value::Null, _) => false,
        (Value::Int(listed), Value::Float(value)) => *listed == *value as i64,
        (Value::Float(listed), Value::Int(value)) => *listed == *value as f64,
        (listed, value) => listed == value,
    }
}
