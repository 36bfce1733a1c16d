//! Compiles `JSONSchemaProps` to the compact form.

use super::{
    ATOMIC, Additional, DEFAULTS, EMBEDDED, INT_OR_STRING, LISTS, MAP, NULLABLE, PRESERVE, Pattern,
    RESOURCES, ROOT, Rules, SET, Schema, Types, UNIQUE, VALIDATIONS,
};
use crate::value::{Key, Value};

/// Formats of texts that are checked (`apiextensions.k8s.io/v1`); others mean
/// nothing. Written without dashes.
const FORMATS: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

impl Schema {
    /// Compiles the schema of whole objects: `openAPIV3Schema` of a version. A value that
    /// is not a schema prunes everything.
    #[must_use]
    pub fn compile(props: &Value) -> Self {
        let mut schema = of(props);
        schema.flags |= ROOT;
        schema
    }

    /// Compiles the schema of a value within objects.
    #[must_use]
    pub fn compile_part(props: &Value) -> Self {
        of(props)
    }
}

fn of(props: &Value) -> Schema {
    let text = |name: &str| props.str_at(&[name]).unwrap_or_default();
    let truth = |name: &str| props.bool_at(&[name]).unwrap_or_default();
    let mut flags = 0;
    let mut set = |flag: u16, given: bool| {
        if given {
            flags |= flag;
        }
    };
    set(NULLABLE, truth("nullable"));
    set(INT_OR_STRING, truth("x-kubernetes-int-or-string"));
    set(PRESERVE, truth("x-kubernetes-preserve-unknown-fields"));
    set(EMBEDDED, truth("x-kubernetes-embedded-resource"));
    set(UNIQUE, truth("uniqueItems"));
    set(SET, text("x-kubernetes-list-type") == "set");
    set(MAP, text("x-kubernetes-list-type") == "map");
    set(ATOMIC, text("x-kubernetes-map-type") == "atomic");
    let types = if flags & INT_OR_STRING == 0 {
        Types::named(text("type"))
    } else {
        Types(Types::INTEGER.0 | Types::STRING.0)
    };
    let mut properties: Vec<(Key, Schema)> = props
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(crate::value::Map::iter)
        .map(|(name, props)| (name.clone(), of(props)))
        .collect();
    properties.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    let additional = match props.get("additionalProperties") {
        Some(Value::Bool(true)) => Additional::Any,
        Some(Value::Bool(false)) => Additional::None,
        Some(props @ Value::Object(_)) => Additional::Of(Box::new(of(props))),
        _ => Additional::Unsaid,
    };
    let items = props
        .get("items")
        .filter(|items| items.as_object().is_some());
    let items = items.map(|props| Box::new(of(props)));
    let default = props.get("default").filter(|value| !value.is_null());
    let default = default.map(|value| Box::new(value.clone()));
    let rules = rules(props, types).map(Box::new);
    if default.is_some() {
        flags |= DEFAULTS;
    }
    if flags & (SET | MAP) != 0 {
        flags |= LISTS;
    }
    if flags & EMBEDDED != 0 {
        flags |= RESOURCES;
    }
    if rules
        .as_ref()
        .is_some_and(|rules| !rules.validations.is_empty())
    {
        flags |= VALIDATIONS;
    }
    let mut schema = Schema {
        types,
        flags,
        properties: properties.into(),
        additional,
        items,
        default,
        rules,
    };
    let below = schema
        .properties
        .iter()
        .map(|(_, below)| below)
        .chain(schema.items())
        .chain(schema.additional_schema())
        .fold(0, |flags, below| flags | below.flags);
    schema.flags |= below & (DEFAULTS | LISTS | RESOURCES | VALIDATIONS);
    schema
}

fn rules(props: &Value, types: Types) -> Option<Rules> {
    const NAMES: &[&str] = &[
        "enum",
        "format",
        "pattern",
        "maximum",
        "minimum",
        "multipleOf",
        "maxLength",
        "minLength",
        "maxItems",
        "minItems",
        "maxProperties",
        "minProperties",
        "required",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
    ];
    if !NAMES.iter().any(|name| props.get(name).is_some()) {
        return None;
    }
    let number = |name: &str| match props.get(name) {
        #[expect(clippy::cast_precision_loss, reason = "bounds are floats in the API")]
        Some(Value::Int(number)) => Some(*number as f64),
        Some(Value::Float(number)) => Some(*number),
        _ => None,
    };
    let count = |name: &str| props.i64_at(&[name]);
    let truth = |name: &str| props.bool_at(&[name]).unwrap_or_default();
    let schemas = |name: &str| props.items_at(&[name]).iter().map(of).collect();
    let format = props.str_at(&["format"]).unwrap_or_default();
    Some(Rules {
        r#enum: props.items_at(&["enum"]).into(),
        format: checked(format, types).into(),
        pattern: props
            .str_at(&["pattern"])
            .filter(|text| !text.is_empty())
            .map(Pattern::new),
        maximum: number("maximum"),
        exclusive_maximum: truth("exclusiveMaximum"),
        minimum: number("minimum"),
        exclusive_minimum: truth("exclusiveMinimum"),
        multiple_of: number("multipleOf"),
        max_length: count("maxLength"),
        min_length: count("minLength"),
        max_items: count("maxItems"),
        min_items: count("minItems"),
        max_properties: count("maxProperties"),
        min_properties: count("minProperties"),
        required: props
            .items_at(&["required"])
            .iter()
            .filter_map(Value::as_str)
            .map(Key::new)
            .collect(),
        all_of: schemas("allOf"),
        any_of: schemas("anyOf"),
        one_of: schemas("oneOf"),
        not: props
            .get("not")
            .filter(|not| not.as_object().is_some())
            .map(|props| Box::new(of(props))),
        list_map_keys: props
            .items_at(&["x-kubernetes-list-map-keys"])
            .iter()
            .filter_map(Value::as_str)
            .map(crate::intern::text)
            .collect(),
        validations: props.items_at(&["x-kubernetes-validations"]).into(),
    })
}

/// Whether a format means something for values of a type (`string`, empty: any).
#[must_use]
pub fn is_format(format: &str, of: &str) -> bool {
    !checked(format, Types::named(of)).is_empty()
}

/// A format, if it means something for the type.
fn checked(format: &str, types: Types) -> &str {
    let meant = match types.only() {
        None if !types.is_any() => false,
        Some(Types::INTEGER) => matches!(format, "int32" | "int64"),
        Some(Types::NUMBER) => matches!(format, "float" | "double"),
        None | Some(Types::STRING) => FORMATS.contains(&format.replace('-', "").as_str()),
        Some(_) => false,
    };
    if meant { format } else { "" }
}
