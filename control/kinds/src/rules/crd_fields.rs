//! Paths into schemas, and schemas as messages show them.

use control_types::object;
use control_types::value::{Map, Value};

use crate::error::{Errors, Path};
use crate::tree::Read;

/// The members of a schema in the order of the API's own type: name in JSON, name there,
/// and whether it may be at the root of a schema with a status subresource.
const MEMBERS: &[(&str, &str, bool, ZeroValue)] = &[
    ("id", "ID", false, ZeroValue::Text),
    ("$schema", "Schema", false, ZeroValue::Text),
    ("$ref", "Ref", false, ZeroValue::Null),
    ("description", "Description", true, ZeroValue::Text),
    ("type", "Type", true, ZeroValue::Text),
    ("nullable", "Nullable", false, ZeroValue::False),
    ("format", "Format", true, ZeroValue::Text),
    ("title", "Title", true, ZeroValue::Text),
    ("default", "Default", false, ZeroValue::Null),
    ("maximum", "Maximum", true, ZeroValue::Null),
    (
        "exclusiveMaximum",
        "ExclusiveMaximum",
        true,
        ZeroValue::False,
    ),
    ("minimum", "Minimum", true, ZeroValue::Null),
    (
        "exclusiveMinimum",
        "ExclusiveMinimum",
        true,
        ZeroValue::False,
    ),
    ("maxLength", "MaxLength", true, ZeroValue::Null),
    ("minLength", "MinLength", true, ZeroValue::Null),
    ("pattern", "Pattern", true, ZeroValue::Text),
    ("maxItems", "MaxItems", true, ZeroValue::Null),
    ("minItems", "MinItems", true, ZeroValue::Null),
    ("uniqueItems", "UniqueItems", true, ZeroValue::False),
    ("multipleOf", "MultipleOf", true, ZeroValue::Null),
    ("enum", "Enum", false, ZeroValue::Null),
    ("maxProperties", "MaxProperties", false, ZeroValue::Null),
    ("minProperties", "MinProperties", false, ZeroValue::Null),
    ("required", "Required", true, ZeroValue::Null),
    ("items", "Items", true, ZeroValue::Schemas),
    ("allOf", "AllOf", false, ZeroValue::Schemas),
    ("oneOf", "OneOf", false, ZeroValue::Schemas),
    ("anyOf", "AnyOf", false, ZeroValue::Schemas),
    ("not", "Not", false, ZeroValue::Schemas),
    ("properties", "Properties", true, ZeroValue::Schemas),
    (
        "additionalProperties",
        "AdditionalProperties",
        false,
        ZeroValue::Schemas,
    ),
    (
        "patternProperties",
        "PatternProperties",
        false,
        ZeroValue::Schemas,
    ),
    ("dependencies", "Dependencies", false, ZeroValue::Null),
    (
        "additionalItems",
        "AdditionalItems",
        false,
        ZeroValue::Schemas,
    ),
    ("definitions", "Definitions", false, ZeroValue::Schemas),
    ("externalDocs", "ExternalDocs", true, ZeroValue::Docs),
    ("example", "Example", true, ZeroValue::Null),
    (
        "x-kubernetes-preserve-unknown-fields",
        "XPreserveUnknownFields",
        true,
        ZeroValue::Null,
    ),
    (
        "x-kubernetes-embedded-resource",
        "XEmbeddedResource",
        false,
        ZeroValue::False,
    ),
    (
        "x-kubernetes-int-or-string",
        "XIntOrString",
        false,
        ZeroValue::False,
    ),
    (
        "x-kubernetes-list-map-keys",
        "XListMapKeys",
        false,
        ZeroValue::Null,
    ),
    (
        "x-kubernetes-list-type",
        "XListType",
        false,
        ZeroValue::Null,
    ),
    ("x-kubernetes-map-type", "XMapType", false, ZeroValue::Null),
    (
        "x-kubernetes-validations",
        "XValidations",
        true,
        ZeroValue::Rules,
    ),
];

/// The zero value of a member in messages, and its nested type.
#[derive(Clone, Copy)]
enum ZeroValue {
    Null,
    Text,
    False,
    Schemas,
    Docs,
    Rules,
}

/// Checks what may be at the root when `status` is validated separately.
pub(crate) fn check_root(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (name, _, allowed, zero) in MEMBERS {
        let value = schema.at(name);
        let given = match (zero, value) {
            (_, Value::Null) | (ZeroValue::False, Value::Bool(false)) => false,
            (ZeroValue::Text, Value::String(text)) => !text.is_empty(),
            _ => true,
        };
        if !given {
            continue;
        }
        if *name == "type" {
            if value.as_text() != "object" {
                errors.invalid(
                    &at.child("type"),
                    value.clone(),
                    "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
                );
                return;
            }
        } else if !allowed {
            let names: Vec<&str> = MEMBERS
                .iter()
                .filter(|(_, _, allowed, _)| *allowed)
                .map(|(_, name, ..)| *name)
                .collect();
            let why = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                names.join(" ")
            );
            errors.invalid(at, shown(schema), why);
            return;
        }
    }
}

/// A schema as messages show it.
pub(crate) fn shown(schema: &Value) -> Value {
    let mut out = Map::with_capacity(MEMBERS.len());
    for (name, own, _, zero) in MEMBERS {
        let value = schema.at(name);
        let value = match (zero, value) {
            (ZeroValue::Text, Value::Null) => "".into(),
            (ZeroValue::False, Value::Null) => false.into(),
            (_, Value::Null) => Value::Null,
            (ZeroValue::Schemas, given) => nested(name, given),
            (ZeroValue::Docs, docs) => value_of(&[
                ("Description", docs.text("description")),
                ("URL", docs.text("url")),
            ]),
            (ZeroValue::Rules, Value::Array(rules)) => rules.iter().map(rule).collect(),
            (_, given) => given.clone(),
        };
        out.push_unchecked((*own).into(), value);
    }
    Value::Object(out)
}

fn value_of(members: &[(&'static str, &str)]) -> Value {
    Value::Object(members.iter().copied().collect())
}

fn nested(name: &str, given: &Value) -> Value {
    match (name, given) {
        ("items", Value::Array(all)) => {
            let all: Value = all.iter().map(shown).collect();
            Value::Object(object!({"Schema": null, "JSONSchemas": all}))
        }
        ("items", one) => Value::Object(object!({"Schema": (shown(one)), "JSONSchemas": null})),
        ("additionalProperties" | "additionalItems", Value::Bool(allows)) => {
            Value::Object(object!({"Allows": (*allows), "Schema": null}))
        }
        ("additionalProperties" | "additionalItems", one) => {
            Value::Object(object!({"Allows": true, "Schema": (shown(one))}))
        }
        ("not", one) => shown(one),
        (_, Value::Array(all)) => all.iter().map(shown).collect(),
        (_, Value::Object(all)) => {
            let mut out: Map = all
                .iter()
                .map(|(key, one)| (key.clone(), shown(one)))
                .collect();
            out.sort();
            Value::Object(out)
        }
        (_, other) => other.clone(),
    }
}

fn rule(rule: &Value) -> Value {
    Value::Object(object!({
        "Rule": (rule.text("rule")),
        "Message": (rule.text("message")),
        "MessageExpression": (rule.text("messageExpression")),
        "Reason": (rule.at("reason").clone()),
        "FieldPath": (rule.text("fieldPath")),
        "OptionalOldSelf": (rule.at("optionalOldSelf").clone())
    }))
}

/// Error for a path that leads to no field; the message is kube-apiserver's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    #[error("array notation is not allowed")]
    Array,
    #[error("unexpected end of JSON path")]
    End,
    #[error("expected single quoted string but got {0}")]
    NoString(String),
    #[error("expected ] but got {0}")]
    NoBracket(String),
    #[error("expected [ or . but got: {0}")]
    NoDelimiter(String),
    #[error("does not refer to a valid field")]
    NoField,
}

/// Returns the names and the schema that a path (`.spec.color`) leads to; `arrays`:
/// whether names may be in brackets.
///
/// # Errors
/// [`PathError`].
pub(crate) fn field<'s>(
    path: &str,
    schema: &'s Value,
    arrays: bool,
) -> Result<(Vec<String>, Option<&'s Value>), PathError> {
    let mut names = Vec::new();
    let mut of = Some(schema);
    let mut rest = path;
    while let Some(token) = next_token(&mut rest) {
        let name = match token {
            "[" => {
                if !arrays {
                    return Err(PathError::Array);
                }
                let token = next_token(&mut rest).ok_or(PathError::End)?;
                let quoted = token
                    .strip_prefix('\'')
                    .and_then(|token| token.strip_suffix('\''));
                let name = quoted
                    .ok_or_else(|| PathError::NoString(token.to_owned()))?
                    .replace("\\'", "'");
                of = Some(step(of, &name)?);
                match next_token(&mut rest) {
                    None => return Err(PathError::End),
                    Some("]") => {}
                    Some(other) => return Err(PathError::NoBracket(other.to_owned())),
                }
                names.push(name);
                continue;
            }
            "." => next_token(&mut rest).ok_or(PathError::End)?,
            other => return Err(PathError::NoDelimiter(other.to_owned())),
        };
        of = Some(step(of, name)?);
        names.push(name.to_owned());
    }
    Ok((names, of.filter(|of| of.as_object().is_some())))
}

fn step<'s>(of: Option<&'s Value>, name: &str) -> Result<&'s Value, PathError> {
    let of = of.ok_or(PathError::NoField)?;
    if of.size("properties") > 0 {
        let found = of.at("properties").get(name);
        return found.ok_or(PathError::NoField);
    }
    if of.has("additionalProperties") {
        return Ok(of.at("additionalProperties"));
    }
    Err(PathError::NoField)
}

/// The next delimiter, quoted name or plain name.
fn next_token<'p>(rest: &mut &'p str) -> Option<&'p str> {
    let text = *rest;
    let first = text.chars().next()?;
    let end = match first {
        '.' | '[' | ']' => 1,
        '\'' => {
            let mut end = text.len();
            let mut escaped = false;
            for (at, letter) in text.char_indices().skip(1) {
                if letter == '\'' && !escaped {
                    end = at + 1;
                    break;
                }
                escaped = letter == '\\';
            }
            end
        }
        _ => text.find(['.', '[', ']']).unwrap_or(text.len()),
    };
    let (token, left) = text.split_at(end);
    *rest = left;
    Some(token)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn paths_lead_along_properties_and_maps() {
        let schema = value!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"a": {"type": "string"}}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}}
        }});
        let of = |path: &str, arrays| {
            field(path, &schema, arrays).map(|(names, of)| {
                (
                    names.join("/"),
                    of.map_or("", |of| of.text("type")).to_owned(),
                )
            })
        };
        assert_eq!(of(".spec.a", false), Ok(("spec/a".into(), "string".into())));
        assert_eq!(
            of("['map']['x.y']", true),
            Ok(("map/x.y".into(), "integer".into()))
        );
        for (path, why) in [
            (".spec.b", "does not refer to a valid field"),
            (".spec..a", "does not refer to a valid field"),
            ("spec", "expected [ or . but got: spec"),
            (".", "unexpected end of JSON path"),
            (".map['x']", "array notation is not allowed"),
        ] {
            let error = of(path, false).map_err(|error| error.to_string());
            assert_eq!(error, Err(why.to_owned()), "{path}");
        }
    }
}
