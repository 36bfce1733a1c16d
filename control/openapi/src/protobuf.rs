//! Documents in protobuf, as `openapiv2/OpenAPIv2.proto` and
//! `openapiv3/OpenAPIv3.proto` of gnostic-models lay them out.
//!
//! The messages mirror the JSON documents: what is a member there is a field
//! here, a map is a list of name and value, and what may be one of several things
//! is a message that holds one of them. What gnostic does not know (extensions)
//! and what may be any JSON (values of enumerations) is a text of YAML. The
//! tables below hold the fields that documents of this server use.

use control_types::value::{Map, Value};

/// The protobuf of a document of OpenAPI 2.
#[must_use]
pub fn v2(document: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 << 20);
    message(&v2::DOCUMENT, document, &mut out);
    out
}

/// The protobuf of a document of OpenAPI 3.
#[must_use]
pub fn v3(document: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 20);
    message(&v3::DOCUMENT, document, &mut out);
    out
}

/// A message: fields in the order of their numbers, and the number of the field
/// for members that begin with `x-` (0: there is none).
struct Message {
    fields: &'static [Field],
    extensions: u8,
}

struct Field {
    member: &'static str,
    number: u8,
    kind: Kind,
}

/// How a member is written.
enum Kind {
    Text,
    Bool,
    /// A number of any kind.
    Double,
    /// A whole number.
    Int,
    /// Any value, as YAML.
    Any,
    /// A list of texts.
    Texts,
    /// A list of any values, each as YAML.
    AnyList,
    /// One message.
    One(&'static ValueEncoding),
    /// A list of messages.
    Many(&'static ValueEncoding),
    /// A map: a message whose field of this number has the entries, each a
    /// message of name and value.
    Map(u8, &'static ValueEncoding),
    /// A message whose only field is a list, of one text.
    OneText,
    /// A number, a truth value or a text: field 1, 2 or 3 of a message.
    Default,
    /// A list of maps to lists of texts.
    Requirements,
}

/// What a value is written as.
enum ValueEncoding {
    /// The message itself.
    Plain(&'static Message),
    /// A message with the value in its field of this number.
    Within(u8, &'static ValueEncoding),
    /// Field 2 of a choice for a reference; else as the other form says.
    OrReference(&'static ValueEncoding, &'static Message),
    /// The field of this number of a choice, for a truth value.
    Truth(u8),
    /// As the value itself tells.
    By(fn(&Value) -> &'static ValueEncoding),
}

const fn f(member: &'static str, number: u8, kind: Kind) -> Field {
    Field {
        member,
        number,
        kind,
    }
}

// === writing ===

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number as u8) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn tag(number: u8, wire: u8, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | u64::from(wire), out);
}

fn bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    tag(number, 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A field that holds a message, written by `inner`.
fn nested(number: u8, out: &mut Vec<u8>, inner: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    inner(&mut body);
    bytes(number, &body, out);
}

fn message(what: &Message, value: &Value, out: &mut Vec<u8>) {
    let Some(map) = value.as_object() else {
        return;
    };
    for field in what.fields {
        if let Some(value) = map.get(field.member) {
            member(field, value, out);
        }
    }
    if what.extensions > 0 {
        for (name, value) in map {
            if name.as_str().starts_with("x-") {
                nested(what.extensions, out, |out| {
                    bytes(1, name.as_str().as_bytes(), out);
                    nested(2, out, |out| any(value, out));
                });
            }
        }
    }
}

/// The message `Any`: a text of YAML.
fn any(value: &Value, out: &mut Vec<u8>) {
    let mut text = String::new();
    yaml(value, 0, &mut text);
    bytes(2, text.as_bytes(), out);
}

fn member(field: &Field, value: &Value, out: &mut Vec<u8>) {
    let number = field.number;
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    match field.kind {
        Kind::Text => {
            if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
                bytes(number, text.as_bytes(), out);
            }
        }
        Kind::Bool => {
            if *value == Value::Bool(true) {
                tag(number, 0, out);
                out.push(1);
            }
        }
        Kind::Double => {
            if let Some(value) = double(value) {
                tag(number, 1, out);
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
        Kind::Int => {
            if let Value::Int(value) = value {
                tag(number, 0, out);
                varint(*value as u64, out);
            }
        }
        Kind::Any => nested(number, out, |out| any(value, out)),
        Kind::Texts => {
            for item in items {
                bytes(number, item.as_str().unwrap_or_default().as_bytes(), out);
            }
        }
        Kind::AnyList => {
            for item in items {
                nested(number, out, |out| any(item, out));
            }
        }
        Kind::One(form) => nested(number, out, |out| formed(form, value, out)),
        Kind::Many(form) => {
            for item in items {
                nested(number, out, |out| formed(form, item, out));
            }
        }
        Kind::Map(entries, form) => nested(number, out, |out| {
            for (name, value) in value.as_object().into_iter().flat_map(Map::iter) {
                nested(entries, out, |out| {
                    bytes(1, name.as_str().as_bytes(), out);
                    nested(2, out, |out| formed(form, value, out));
                });
            }
        }),
        Kind::OneText => nested(number, out, |out| {
            bytes(1, value.as_str().unwrap_or_default().as_bytes(), out);
        }),
        Kind::Default => nested(number, out, |out| match value {
            Value::Int(_) | Value::Float(_) => {
                tag(1, 1, out);
                out.extend_from_slice(&double(value).unwrap_or_default().to_le_bytes());
            }
            Value::Bool(truth) => {
                tag(2, 0, out);
                out.push(u8::from(*truth));
            }
            Value::String(text) => bytes(3, text.as_bytes(), out),
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }),
        Kind::Requirements => {
            for item in items {
                nested(number, out, |out| {
                    for (name, list) in item.as_object().into_iter().flat_map(Map::iter) {
                        nested(1, out, |out| {
                            bytes(1, name.as_str().as_bytes(), out);
                            nested(2, out, |out| {
                                for text in list.as_array().into_iter().flatten() {
                                    bytes(1, text.as_str().unwrap_or_default().as_bytes(), out);
                                }
                            });
                        });
                    }
                });
            }
        }
    }
}

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn formed(form: &ValueEncoding, value: &Value, out: &mut Vec<u8>) {
    match form {
        ValueEncoding::Plain(what) => message(what, value, out),
        ValueEncoding::Within(number, inner) => {
            nested(*number, out, |out| formed(inner, value, out));
        }
        ValueEncoding::OrReference(_, reference) if value.get("$ref").is_some() => {
            nested(2, out, |out| message(reference, value, out));
        }
        ValueEncoding::OrReference(form, _) => formed(form, value, out),
        ValueEncoding::By(choose) => formed(choose(value), value, out),
        ValueEncoding::Truth(number) => {
            tag(*number, 0, out);
            out.push(u8::from(*value == Value::Bool(true)));
        }
    }
}

/// A value in block style, as far as extensions and enumerations need it.
fn yaml(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.extend(std::iter::repeat_n("  ", depth));
                }
                scalar(key.as_str(), out);
                out.push(':');
                if is_block(value) {
                    out.push('\n');
                    out.extend(std::iter::repeat_n("  ", depth + 1));
                    yaml(value, depth + 1, out);
                } else {
                    out.push(' ');
                    yaml(value, depth + 1, out);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.extend(std::iter::repeat_n("  ", depth));
                }
                out.push_str("- ");
                yaml(item, depth + 1, out);
            }
        }
        Value::String(text) => {
            scalar(text, out);
            out.push('\n');
        }
        // What is left is written as in JSON, which is YAML too.
        other => {
            out.push_str(&other.to_string());
            out.push('\n');
        }
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

/// A text, quoted where it would be read as something else.
fn scalar(text: &str, out: &mut String) {
    let plain = text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || " ._-+/,".contains(letter))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if plain {
        out.push_str(text);
    } else if text.is_empty() {
        out.push_str("\"\"");
    } else if text.chars().any(char::is_control) {
        out.push_str(&Value::from(text).to_string());
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

mod v2 {
    use super::Kind::{
        Any, AnyList, Bool, Double, Int, Many, Map, One, OneText, Requirements, Text, Texts,
    };
    use super::ValueEncoding::{By, OrReference, Plain, Truth, Within};
    use super::{Message, Value, ValueEncoding, f};

    pub static DOCUMENT: Message = Message {
        fields: &[
            f("swagger", 1, Text),
            f("info", 2, One(&Plain(&INFO))),
            f("paths", 8, Map(2, &Plain(&PATH_ITEM))),
            f("definitions", 9, Map(1, &Plain(&SCHEMA))),
            f("parameters", 10, Map(1, &By(parameter))),
            f("security", 12, Requirements),
            f(
                "securityDefinitions",
                13,
                Map(1, &Within(2, &Plain(&API_KEY))),
            ),
        ],
        extensions: 16,
    };
    static INFO: Message = Message {
        fields: &[f("title", 1, Text), f("version", 2, Text)],
        extensions: 7,
    };
    static PATH_ITEM: Message = Message {
        fields: &[
            f("get", 2, One(&Plain(&OPERATION))),
            f("put", 3, One(&Plain(&OPERATION))),
            f("post", 4, One(&Plain(&OPERATION))),
            f("delete", 5, One(&Plain(&OPERATION))),
            f("options", 6, One(&Plain(&OPERATION))),
            f("head", 7, One(&Plain(&OPERATION))),
            f("patch", 8, One(&Plain(&OPERATION))),
            f("parameters", 9, Many(&PARAMETERS_ITEM)),
        ],
        extensions: 10,
    };
    static PARAMETERS_ITEM: ValueEncoding = OrReference(&Within(1, &By(parameter)), &REFERENCE);
    static REFERENCE: Message = Message {
        fields: &[f("$ref", 1, Text), f("description", 2, Text)],
        extensions: 0,
    };
    static OPERATION: Message = Message {
        fields: &[
            f("tags", 1, Texts),
            f("description", 3, Text),
            f("operationId", 5, Text),
            f("produces", 6, Texts),
            f("consumes", 7, Texts),
            f("parameters", 8, Many(&PARAMETERS_ITEM)),
            f("responses", 9, Map(1, &Within(1, &Plain(&RESPONSE)))),
            f("schemes", 10, Texts),
        ],
        extensions: 13,
    };
    static RESPONSE: Message = Message {
        fields: &[
            f("description", 1, Text),
            f("schema", 2, One(&Within(1, &Plain(&SCHEMA)))),
        ],
        extensions: 5,
    };

    fn parameter(value: &Value) -> &'static ValueEncoding {
        static IN_BODY: ValueEncoding = Within(1, &Plain(&BODY));
        static IN_PATH: ValueEncoding = Within(2, &Within(4, &Plain(&PATH_PARAMETER)));
        static IN_QUERY: ValueEncoding = Within(2, &Within(3, &Plain(&QUERY_PARAMETER)));
        match value.str_at(&["in"]) {
            Some("body") => &IN_BODY,
            Some("path") => &IN_PATH,
            _ => &IN_QUERY,
        }
    }

    static BODY: Message = Message {
        fields: &[
            f("description", 1, Text),
            f("name", 2, Text),
            f("in", 3, Text),
            f("required", 4, Bool),
            f("schema", 5, One(&Plain(&SCHEMA))),
        ],
        extensions: 6,
    };
    static QUERY_PARAMETER: Message = Message {
        fields: &[
            f("required", 1, Bool),
            f("in", 2, Text),
            f("description", 3, Text),
            f("name", 4, Text),
            f("type", 6, Text),
            f("format", 7, Text),
            f("uniqueItems", 20, Bool),
        ],
        extensions: 23,
    };
    static PATH_PARAMETER: Message = Message {
        fields: &[
            f("required", 1, Bool),
            f("in", 2, Text),
            f("description", 3, Text),
            f("name", 4, Text),
            f("type", 5, Text),
            f("format", 6, Text),
            f("uniqueItems", 19, Bool),
        ],
        extensions: 22,
    };
    static EXTERNAL_DOCS: Message = Message {
        fields: &[f("description", 1, Text), f("url", 2, Text)],
        extensions: 3,
    };

    fn additional(value: &Value) -> &'static ValueEncoding {
        static SCHEMA_ITEM: ValueEncoding = Within(1, &Plain(&SCHEMA));
        static BOOLEAN: ValueEncoding = Truth(2);
        match value {
            Value::Bool(_) => &BOOLEAN,
            _ => &SCHEMA_ITEM,
        }
    }

    static API_KEY: Message = Message {
        fields: &[
            f("type", 1, Text),
            f("name", 2, Text),
            f("in", 3, Text),
            f("description", 4, Text),
        ],
        extensions: 5,
    };
    static SCHEMA: Message = Message {
        fields: &[
            f("$ref", 1, Text),
            f("format", 2, Text),
            f("title", 3, Text),
            f("description", 4, Text),
            f("multipleOf", 6, Double),
            f("maximum", 7, Double),
            f("exclusiveMaximum", 8, Bool),
            f("minimum", 9, Double),
            f("exclusiveMinimum", 10, Bool),
            f("maxLength", 11, Int),
            f("minLength", 12, Int),
            f("pattern", 13, Text),
            f("maxItems", 14, Int),
            f("minItems", 15, Int),
            f("uniqueItems", 16, Bool),
            f("maxProperties", 17, Int),
            f("minProperties", 18, Int),
            f("required", 19, Texts),
            f("enum", 20, AnyList),
            f("additionalProperties", 21, One(&By(additional))),
            f("type", 22, OneText),
            f("items", 23, One(&Within(1, &Plain(&SCHEMA)))),
            f("properties", 25, Map(1, &Plain(&SCHEMA))),
            f("externalDocs", 29, One(&Plain(&EXTERNAL_DOCS))),
            f("example", 30, Any),
        ],
        extensions: 31,
    };
}

mod v3 {
    use super::Kind::{Any, AnyList, Bool, Default, Double, Int, Many, Map, One, Text, Texts};
    use super::ValueEncoding::{By, OrReference, Plain, Truth, Within};
    use super::{Message, Value, ValueEncoding, f};

    pub static DOCUMENT: Message = Message {
        fields: &[
            f("openapi", 1, Text),
            f("info", 2, One(&Plain(&INFO))),
            f("paths", 4, Map(1, &Plain(&PATH_ITEM))),
            f("components", 5, One(&Plain(&COMPONENTS))),
        ],
        extensions: 9,
    };
    static INFO: Message = Message {
        fields: &[f("title", 1, Text), f("version", 6, Text)],
        extensions: 7,
    };
    static COMPONENTS: Message = Message {
        fields: &[
            f("schemas", 1, Map(1, &SCHEMA_OR_REFERENCE)),
            f(
                "securitySchemes",
                7,
                Map(1, &Within(1, &Plain(&SECURITY_SCHEME))),
            ),
        ],
        extensions: 10,
    };
    static SECURITY_SCHEME: Message = Message {
        fields: &[
            f("type", 1, Text),
            f("description", 2, Text),
            f("name", 3, Text),
            f("in", 4, Text),
        ],
        extensions: 9,
    };
    static PATH_ITEM: Message = Message {
        fields: &[
            f("get", 4, One(&Plain(&OPERATION))),
            f("put", 5, One(&Plain(&OPERATION))),
            f("post", 6, One(&Plain(&OPERATION))),
            f("delete", 7, One(&Plain(&OPERATION))),
            f("options", 8, One(&Plain(&OPERATION))),
            f("head", 9, One(&Plain(&OPERATION))),
            f("patch", 10, One(&Plain(&OPERATION))),
            f("parameters", 13, Many(&Within(1, &Plain(&PARAMETER)))),
        ],
        extensions: 14,
    };
    static OPERATION: Message = Message {
        fields: &[
            f("tags", 1, Texts),
            f("description", 3, Text),
            f("operationId", 5, Text),
            f("parameters", 6, Many(&Within(1, &Plain(&PARAMETER)))),
            f("requestBody", 7, One(&Within(1, &Plain(&REQUEST_BODY)))),
            f("responses", 8, Map(2, &Within(1, &Plain(&RESPONSE)))),
        ],
        extensions: 13,
    };
    static PARAMETER: Message = Message {
        fields: &[
            f("name", 1, Text),
            f("in", 2, Text),
            f("description", 3, Text),
            f("required", 4, Bool),
            f("schema", 10, One(&SCHEMA_OR_REFERENCE)),
        ],
        extensions: 14,
    };
    static REQUEST_BODY: Message = Message {
        fields: &[
            f("description", 1, Text),
            f("content", 2, Map(1, &Plain(&MEDIA_TYPE))),
            f("required", 3, Bool),
        ],
        extensions: 4,
    };
    static RESPONSE: Message = Message {
        fields: &[
            f("description", 1, Text),
            f("content", 3, Map(1, &Plain(&MEDIA_TYPE))),
        ],
        extensions: 5,
    };
    static MEDIA_TYPE: Message = Message {
        fields: &[f("schema", 1, One(&SCHEMA_OR_REFERENCE))],
        extensions: 5,
    };
    static SCHEMA_OR_REFERENCE: ValueEncoding =
        OrReference(&Within(1, &Plain(&SCHEMA)), &REFERENCE);
    static REFERENCE: Message = Message {
        fields: &[f("$ref", 1, Text)],
        extensions: 0,
    };
    static EXTERNAL_DOCS: Message = Message {
        fields: &[f("description", 1, Text), f("url", 2, Text)],
        extensions: 3,
    };

    fn additional(value: &Value) -> &'static ValueEncoding {
        static BOOLEAN: ValueEncoding = Truth(2);
        static SCHEMA_ITEM: ValueEncoding = Within(1, &SCHEMA_OR_REFERENCE);
        match value {
            Value::Bool(_) => &BOOLEAN,
            _ => &SCHEMA_ITEM,
        }
    }

    static SCHEMA: Message = Message {
        fields: &[
            f("nullable", 1, Bool),
            f("externalDocs", 6, One(&Plain(&EXTERNAL_DOCS))),
            f("example", 7, Any),
            f("title", 9, Text),
            f("multipleOf", 10, Double),
            f("maximum", 11, Double),
            f("exclusiveMaximum", 12, Bool),
            f("minimum", 13, Double),
            f("exclusiveMinimum", 14, Bool),
            f("maxLength", 15, Int),
            f("minLength", 16, Int),
            f("pattern", 17, Text),
            f("maxItems", 18, Int),
            f("minItems", 19, Int),
            f("uniqueItems", 20, Bool),
            f("maxProperties", 21, Int),
            f("minProperties", 22, Int),
            f("required", 23, Texts),
            f("enum", 24, AnyList),
            f("type", 25, Text),
            f("allOf", 26, Many(&SCHEMA_OR_REFERENCE)),
            f("oneOf", 27, Many(&SCHEMA_OR_REFERENCE)),
            f("anyOf", 28, Many(&SCHEMA_OR_REFERENCE)),
            f("not", 29, One(&Plain(&SCHEMA))),
            f("items", 30, One(&Within(1, &SCHEMA_OR_REFERENCE))),
            f("properties", 31, Map(1, &SCHEMA_OR_REFERENCE)),
            f("additionalProperties", 32, One(&By(additional))),
            f("default", 33, Default),
            f("description", 34, Text),
            f("format", 35, Text),
        ],
        extensions: 36,
    };
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn extensions_are_yaml() {
        let text = |value: &Value| {
            let mut out = String::new();
            yaml(value, 0, &mut out);
            out
        };
        assert_eq!(text(&value!("atomic")), "atomic\n");
        assert_eq!(text(&value!("*")), "'*'\n");
        assert_eq!(text(&value!("")), "\"\"\n");
        assert_eq!(text(&value!(["a", "b"])), "- a\n- b\n");
        assert_eq!(
            text(&value!([{"discriminator": "type", "fields": {"a": "A"}}, {"b": "no"}])),
            "- discriminator: type\n  fields:\n    a: A\n- b: 'no'\n"
        );
    }

    #[test]
    fn messages_are_laid_out_as_the_definitions_say() {
        let document = value!({
            "swagger": "2.0",
            "info": {"title": "K"},
            "parameters": {"a-1": {"name": "a", "in": "path", "required": true}}
        });
        let parameter = [0x08, 1, 0x12, 4, b'p', b'a', b't', b'h', 0x22, 1, b'a'];
        let mut expected = vec![0x0a, 3, b'2', b'.', b'0', 0x12, 3, 0x0a, 1, b'K', 0x52];
        // Entry, name, value: choice 2, choice 4.
        expected.extend([
            24, 0x0a, 22, 0x0a, 3, b'a', b'-', b'1', 0x12, 15, 0x12, 13, 0x22, 11,
        ]);
        expected.extend(parameter);
        assert_eq!(v2(&document), expected);
    }
}
