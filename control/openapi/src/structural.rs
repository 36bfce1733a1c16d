//! The schema of a definition (`openAPIV3Schema`) as documents publish it.
//!
//! Version 3 shows it nearly as it was written; what a document must say beyond,
//! like the members that every object has, is put in. Version 2 cannot say all:
//! junctors and defaults go, and where a value may be null or hold anything, so do
//! its type and what is inside, since clients would refuse what they do not find.

use control_types::object;
use control_types::value::{Map, Value};

use super::schemas::{OpenApiVersion, reference};
use super::texts::Texts;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// A kind whose texts stand for those that all kinds have.
const EXAMPLE: &str = "io.k8s.api.core.v1.Pod";
const EXAMPLE_LIST: &str = "io.k8s.api.core.v1.PodList";

/// Publishes schemas in one form.
#[derive(Clone, Copy, Debug)]
pub struct Publisher<'a> {
    /// Which OpenAPI.
    pub form: OpenApiVersion,
    /// What is said of the members that every object has.
    pub texts: &'a Texts,
}

impl Publisher<'_> {
    /// The schema of whole objects; `None` for one that says nothing.
    #[must_use]
    pub fn whole(self, schema: Option<&Value>) -> Map {
        let anything = |schema: &Value| truth(schema, PRESERVE) && self.form == OpenApiVersion::V2;
        let Some(schema) = schema.filter(|schema| !anything(schema)) else {
            return object!({"type": "object"});
        };
        let mut out = self.structural(schema);
        let mut own = Map::new();
        for name in ["apiVersion", "kind"] {
            own.insert(name, self.text_member(EXAMPLE, name));
        }
        own.insert("metadata", self.metadata(EXAMPLE, "ObjectMeta"));
        add_properties(&mut out, own);
        out
    }

    /// The schema of a list: `item` is the name of the schema of its items.
    #[must_use]
    pub fn list(self, kind: &str, list_kind: &str, plural: &str, item: &str) -> Map {
        let mut items = object!({
            "description": (format!("List of {plural}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md")),
            "type": "array"
        });
        items.insert("items", reference(self.form, item));
        let properties = object!({
            "apiVersion": (self.text_member(EXAMPLE_LIST, "apiVersion")),
            "items": items,
            "kind": (self.text_member(EXAMPLE_LIST, "kind")),
            "metadata": (self.metadata(EXAMPLE_LIST, "ListMeta"))
        });
        object!({
            "description": (format!("{list_kind} is a list of {kind}")),
            "type": "object",
            "required": ["items"],
            "properties": properties
        })
    }

    /// `apiVersion` or `kind`.
    fn text_member(self, of: &str, name: &str) -> Map {
        let mut out = self.described(of, name);
        out.insert("type", "string");
        out
    }

    fn metadata(self, of: &str, kind: &str) -> Map {
        let mut out = self.described(of, "metadata");
        let reference = reference(self.form, &format!("{META}.{kind}"));
        match self.form {
            OpenApiVersion::V2 => out.extend(reference),
            // A reference with siblings is wrapped.
            OpenApiVersion::V3 => {
                out.insert("allOf", vec![reference]);
            }
        }
        out
    }

    fn described(self, of: &str, name: &str) -> Map {
        let text = self
            .texts
            .find_type(of)
            .and_then(|texts| texts.fields.get(name));
        let mut out = Map::new();
        if let Some(text) = text {
            out.insert("description", text.as_str());
        }
        out
    }

    /// A schema that says of what type a value is, and all within it.
    fn structural(self, schema: &Value) -> Map {
        let v2 = self.form == OpenApiVersion::V2;
        let preserve = truth(schema, PRESERVE);
        let nullable = v2 && truth(schema, "nullable");
        // What is inside would be taken for all that there may be.
        let opaque = v2 && (nullable || preserve);
        let properties = members(schema, "properties").filter(|_| !opaque);
        let items = schema.get("items").filter(|items| is_schema(items));
        let items = items.filter(|_| !opaque);
        let additional = schema.get("additionalProperties");
        let kind = match text(schema, "type") {
            _ if nullable => "",
            "array" if v2 && items.is_none() => "",
            "object" if v2 && preserve => "",
            kind => kind,
        };
        let mut out = generic(schema, kind, !v2);
        let mut required = required(schema);
        if v2 {
            let may_be_null = |name: &&str| {
                let property = properties.and_then(|all| all.get(name));
                property.is_some_and(|property| truth(property, "nullable"))
            };
            required.retain(|name| !may_be_null(name));
            if additional.is_some_and(|other| truth(other, "nullable")) {
                required.clear();
            }
        }
        validation(schema, required, &mut out);
        if let Some(items) = items {
            out.insert("items", self.structural(items));
        }
        if !v2 {
            junctors(schema, &mut out);
        }
        if let Some(properties) = properties {
            insert_sorted(properties, &mut out, |property| self.structural(property));
        }
        match additional {
            Some(Value::Bool(any)) => {
                out.insert("additionalProperties", *any);
            }
            Some(other @ Value::Object(_)) => {
                out.insert("additionalProperties", self.structural(other));
            }
            _ => {}
        }
        annotations(schema, &mut out);
        extensions(schema, self.form, &mut out);
        if truth(schema, EMBEDDED) && !(v2 && preserve) {
            self.embed(&mut out);
        }
        out
    }

    /// Adds what every object has to the schema of one within another.
    fn embed(self, out: &mut Map) {
        let more = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
        let version = format!(
            "apiVersion defines the versioned schema of this representation of an object. {more}#resources"
        );
        let kind = format!(
            "kind is a string value representing the type of this object. In CamelCase. {more}#types-kinds"
        );
        add_properties(
            out,
            object!({
                "apiVersion": {"description": version, "type": "string"},
                "kind": {"description": kind, "type": "string"},
                "metadata": (self.metadata(EXAMPLE, "ObjectMeta"))
            }),
        );
        let mut required: Vec<String> = out
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.to_owned());
            }
        }
        put(out, "required", required.into());
    }
}

/// A schema within a junctor: it validates, and says nothing of structure.
fn nested(schema: &Value) -> Map {
    let mut out = generic(schema, text(schema, "type"), true);
    validation(schema, required(schema), &mut out);
    if let Some(items) = schema.get("items").filter(|items| is_schema(items)) {
        out.insert("items", nested(items));
    }
    junctors(schema, &mut out);
    if let Some(properties) = members(schema, "properties") {
        insert_sorted(properties, &mut out, nested);
    }
    annotations(schema, &mut out);
    extensions(schema, OpenApiVersion::V3, &mut out);
    out
}

/// The members that say what a value is, in the order in which documents have them.
const GENERIC: &[&str] = &[
    "description",
    "type",
    "nullable",
    "format",
    "title",
    "default",
];

/// The members behind them, which say what the value may be.
const VALIDATING: &[&str] = &[
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
];

/// The rest.
const REST: &[&str] = &[
    "required",
    "items",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "properties",
    "additionalProperties",
    "externalDocs",
    "example",
];

/// Puts a member in its place.
fn put(out: &mut Map, name: &'static str, value: Value) {
    let place = |name: &str| {
        let mut order = [GENERIC, VALIDATING, REST].into_iter().flatten();
        order.position(|known| *known == name)
    };
    let at = place(name);
    let entries = out.entries_mut();
    if let Some((_, old)) = entries.iter_mut().find(|(key, _)| key.as_str() == name) {
        *old = value;
        return;
    }
    let behind = entries
        .iter()
        .position(|(key, _)| place(key.as_str()).unwrap_or(usize::MAX) > at.unwrap_or_default());
    entries.insert(behind.unwrap_or(entries.len()), (name.into(), value));
}

/// Adds properties, in the place of those of the same name.
fn add_properties(out: &mut Map, more: Map) {
    let mut all = match out.remove("properties") {
        Some(Value::Object(all)) => all,
        _ => Map::new(),
    };
    for (name, one) in more.iter() {
        all.insert(name.clone(), one.clone());
    }
    all.sort();
    put(out, "properties", all.into());
}

/// What says what a value is, before what it may be.
fn generic(schema: &Value, kind: &str, with_v3: bool) -> Map {
    let mut out = Map::new();
    let texts = |out: &mut Map, name: &'static str, text: &str| {
        if !text.is_empty() {
            out.insert(name, text);
        }
    };
    texts(&mut out, "description", text(schema, "description"));
    texts(&mut out, "type", kind);
    if with_v3 && truth(schema, "nullable") {
        out.insert("nullable", true);
    }
    texts(&mut out, "format", text(schema, "format"));
    texts(&mut out, "title", text(schema, "title"));
    if with_v3 && let Some(default) = schema.get("default").filter(|value| !value.is_null()) {
        out.insert("default", sorted(default));
    }
    out
}

/// What validates a value, but for junctors.
fn validation(schema: &Value, required: Vec<&str>, out: &mut Map) {
    let copy = |name: &'static str, out: &mut Map| {
        let given = schema.get(name).filter(|value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        });
        if let Some(value) = given {
            out.insert(name, sorted(value));
        }
    };
    for name in VALIDATING.iter().copied() {
        copy(name, out);
    }
    if !required.is_empty() {
        out.insert("required", required);
    }
}

fn required(schema: &Value) -> Vec<&str> {
    let all = schema.items_at(&["required"]);
    all.iter().filter_map(Value::as_str).collect()
}

fn junctors(schema: &Value, out: &mut Map) {
    let list = |name: &str| -> Vec<Map> {
        let all = schema.items_at(&[name]);
        all.iter().map(nested).collect()
    };
    let (mut all, one, mut any) = (list("allOf"), list("oneOf"), list("anyOf"));
    if truth(schema, INT_OR_STRING) && !is_either(&any) && !is_first(&all) {
        let either = vec![object!({"type": "integer"}), object!({"type": "string"})];
        if any.is_empty() {
            any = either;
        } else {
            all.insert(0, object!({"anyOf": either}));
        }
    }
    for (name, list) in [("allOf", all), ("oneOf", one), ("anyOf", any)] {
        if !list.is_empty() {
            out.insert(name, list);
        }
    }
    if let Some(not) = schema.get("not").filter(|not| is_schema(not)) {
        out.insert("not", nested(not));
    }
}

/// Whether the clauses are those of a number or a text, and no more.
fn is_either(any: &[Map]) -> bool {
    let is = |clause: &Map, kind: &str| {
        clause.len() == 1 && clause.get("type").and_then(Value::as_str) == Some(kind)
    };
    matches!(any, [first, second] if is(first, "integer") && is(second, "string"))
}

/// Whether the first clause is that of a number or a text.
fn is_first(all: &[Map]) -> bool {
    let Some(Value::Array(any)) = all.first().and_then(|first| first.get("anyOf")) else {
        return false;
    };
    let any: Vec<Map> = any
        .iter()
        .filter_map(|one| one.as_object().cloned())
        .collect();
    is_either(&any)
}

fn annotations(schema: &Value, out: &mut Map) {
    if let Some(docs) = schema.get("externalDocs").filter(|docs| is_schema(docs)) {
        let mut written = Map::new();
        for name in ["description", "url"] {
            let text = text(docs, name);
            if !text.is_empty() {
                written.insert(name, text);
            }
        }
        out.insert("externalDocs", written);
    }
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if let Some(example) = schema.get("example").filter(|value| !empty(value)) {
        out.insert("example", sorted(example));
    }
}

/// The extensions, in order of the alphabet.
fn extensions(schema: &Value, form: OpenApiVersion, out: &mut Map) {
    for name in [EMBEDDED, INT_OR_STRING] {
        if truth(schema, name) {
            out.insert(name, true);
        }
    }
    let keys = schema.items_at(&["x-kubernetes-list-map-keys"]);
    if !keys.is_empty() {
        out.insert("x-kubernetes-list-map-keys", keys);
    }
    for name in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if let Some(text) = schema.str_at(&[name]) {
            out.insert(name, text);
        }
    }
    if truth(schema, PRESERVE) {
        out.insert(PRESERVE, true);
    }
    let rules = schema.items_at(&["x-kubernetes-validations"]);
    if !rules.is_empty() {
        let rules: Value = rules.iter().map(|one| rule(one, form)).collect();
        out.insert("x-kubernetes-validations", rules);
    }
}

fn rule(rule: &Value, form: OpenApiVersion) -> Map {
    const MEMBERS: [&str; 6] = [
        "rule",
        "message",
        "messageExpression",
        "reason",
        "fieldPath",
        "optionalOldSelf",
    ];
    let mut out = Map::new();
    for name in MEMBERS {
        let empty = |value: &&Value| value.is_null() || value.as_str() == Some("");
        match rule.get(name) {
            // The rule itself is never left out.
            None if name == "rule" => {
                out.insert(name, "");
            }
            Some(value) if name == "rule" || !empty(&value) => {
                out.insert(name, value.clone());
            }
            _ => {}
        }
    }
    // Documents of version 2 are merged as maps, which orders members.
    if form == OpenApiVersion::V2 {
        out.sort();
    }
    out
}

/// Any JSON, its members in the order in which Go prints a map.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut map: Map = map
                .iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect();
            map.sort();
            Value::Object(map)
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

fn insert_sorted(properties: &Map, out: &mut Map, one: impl Fn(&Value) -> Map) {
    let mut all = Map::with_capacity(properties.len());
    for (name, property) in properties.iter() {
        all.push_unchecked(name.clone(), one(property).into());
    }
    all.sort();
    if !all.is_empty() {
        out.insert("properties", all);
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.str_at(&[name]).unwrap_or_default()
}

fn truth(schema: &Value, name: &str) -> bool {
    schema.bool_at(&[name]) == Some(true)
}

fn is_schema(value: &Value) -> bool {
    value.as_object().is_some()
}

fn members<'a>(schema: &'a Value, name: &str) -> Option<&'a Map> {
    schema.get(name).and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn written(form: OpenApiVersion, schema: &Value) -> String {
        let texts = Texts::default();
        let publisher = Publisher {
            form,
            texts: &texts,
        };
        Value::Object(publisher.structural(schema)).to_string()
    }

    #[test]
    fn version_3_says_all_that_a_schema_says() {
        let schema = value!({
            "type": "object", "required": ["a"], "nullable": true,
            "default": {"z": 1, "a": {}},
            "properties": {
                "port": {"x-kubernetes-int-or-string": true},
                "a": {"type": "integer", "minimum": 0, "maximum": 1.5, "exclusiveMinimum": false}
            },
            "x-kubernetes-validations": [{"message": "m", "rule": "self.a > 0"}]
        });
        assert_eq!(
            written(OpenApiVersion::V3, &schema),
            r#"{"type":"object","nullable":true,"default":{"a":{},"z":1},"required":["a"],"properties":{"a":{"type":"integer","maximum":1.5,"minimum":0},"port":{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}},"x-kubernetes-validations":[{"rule":"self.a > 0","message":"m"}]}"#
        );
    }

    #[test]
    fn version_2_leaves_out_what_clients_of_it_would_misread() {
        for (schema, wanted) in [
            (
                value!({"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}}),
                "{}",
            ),
            (
                value!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                r#"{"x-kubernetes-preserve-unknown-fields":true}"#,
            ),
            (value!({"type": "array"}), "{}"),
            (
                value!({"type": "object", "required": ["a", "b"], "default": {}, "properties": {
                    "a": {"type": "string", "nullable": true}, "b": {"type": "string"}
                }}),
                r#"{"type":"object","required":["b"],"properties":{"a":{},"b":{"type":"string"}}}"#,
            ),
            (
                value!({"type": "string", "anyOf": [{"minLength": 1}], "not": {"maxLength": 3}}),
                r#"{"type":"string"}"#,
            ),
            (
                value!({"type": "object", "required": ["q"], "additionalProperties": {"type": "string", "nullable": true}}),
                r#"{"type":"object","additionalProperties":{}}"#,
            ),
        ] {
            assert_eq!(written(OpenApiVersion::V2, &schema), wanted, "{schema}");
        }
    }

    #[test]
    fn embedded_objects_have_what_every_object_has() {
        let schema = value!({
            "type": "object", "x-kubernetes-embedded-resource": true, "required": ["spec"],
            "properties": {"spec": {"type": "object"}}
        });
        let out = written(OpenApiVersion::V3, &schema);
        assert!(out.starts_with(
            r#"{"type":"object","required":["spec","kind","apiVersion"],"properties":{"apiVersion":"#
        ), "{out}");
    }
}
