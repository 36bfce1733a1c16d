//! The schemas of types, from the tables and the texts, in either form.
//!
//! The forms differ: version 3 names defaults and wraps a reference that has
//! siblings in `allOf`; version 2 has neither, and calls a value of several
//! types a text.

use std::collections::BTreeMap;

use control_types::schema::{Field, Shape, TypeId, TypeRef};
use control_types::value::{Map, Value};
use control_types::{object, value};

use super::operations::{Answer, PathItem};
use super::texts::{Gvk, Texts, TypeTexts};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";

/// Which OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApiVersion {
    /// 2.0
    V2,
    /// 3.0
    V3,
}

impl OpenApiVersion {
    /// What stands before a type's name in references.
    #[must_use]
    pub const fn reference(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }
}

/// A reference to a type.
#[must_use]
pub fn reference(form: OpenApiVersion, name: &str) -> Map {
    object!({"$ref": (format!("{}{name}", form.reference()))})
}

/// Which kinds are named of a type that objects of many groups are decoded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// All.
    All,
    /// Those of a group's version, and of core.
    Of(&'static str, &'static str),
    /// Those that clients know: not those of the groups that servers keep among
    /// themselves.
    Client,
}

impl Kinds {
    fn has(self, one: &Gvk) -> bool {
        const APART: [&str; 4] = [
            "admission.k8s.io",
            "apiextensions.k8s.io",
            "apiregistration.k8s.io",
            "imagepolicy.k8s.io",
        ];
        match self {
            Self::All => true,
            Self::Of(group, version) => {
                one.group.is_empty() || (one.group == group && one.version == version)
            }
            Self::Client => !APART.contains(&one.group.as_str()),
        }
    }
}

/// The schemas of all types that paths refer to, and of `more`, ordered by name.
#[must_use]
pub fn of_paths(
    form: OpenApiVersion,
    kinds: Kinds,
    texts: &Texts,
    paths: &[PathItem],
    more: &[String],
) -> Map {
    let mut schemas = Schemas {
        form,
        kinds,
        texts,
        wanted: Vec::new(),
        built: BTreeMap::new(),
    };
    for operation in paths.iter().flat_map(|path| &path.operations) {
        if let Answer::Type(name) = &operation.answer {
            schemas.want_name(name);
        }
        if let Some((name, _)) = &operation.body {
            schemas.want_name(name);
        }
    }
    for name in more {
        schemas.want_name(name);
    }
    schemas.build()
}

struct Schemas<'a> {
    form: OpenApiVersion,
    kinds: Kinds,
    texts: &'a Texts,
    wanted: Vec<&'static str>,
    built: BTreeMap<&'static str, Value>,
}

/// What may follow a type: how its zero value is published.
#[derive(Clone, Copy)]
struct Zero(bool);

impl Schemas<'_> {
    fn want_name(&mut self, name: &str) {
        if let Some(id) = TypeId::by_name(name) {
            self.wanted.push(id.get().name);
        }
    }

    fn build(mut self) -> Map {
        while let Some(name) = self.wanted.pop() {
            if !self.built.contains_key(name) {
                self.built.insert(name, Value::Null);
                let schema = self.definition(name);
                self.built.insert(name, schema.into());
            }
        }
        let mut out = Map::with_capacity(self.built.len());
        for (name, schema) in self.built {
            out.push_unchecked(name.into(), schema);
        }
        out
    }

    fn definition(&mut self, name: &'static str) -> Map {
        let silent = TypeTexts::default();
        let texts = self.texts.find_type(name).unwrap_or(&silent);
        let mut out = Map::new();
        if !texts.description.is_empty() {
            out.insert("description", texts.description.as_str());
        }
        match (name, self.form) {
            (QUANTITY, OpenApiVersion::V3) => {
                out.insert("oneOf", value!([{"type": "string"}, {"type": "number"}]));
                return out;
            }
            (QUANTITY, OpenApiVersion::V2) => {
                out.insert("type", "string");
                return out;
            }
            (INT_OR_STRING, OpenApiVersion::V3) => {
                out.insert("format", "int-or-string");
                out.insert("oneOf", value!([{"type": "integer"}, {"type": "string"}]));
                return out;
            }
            (INT_OR_STRING, OpenApiVersion::V2) => {
                out.insert("type", "string");
                out.insert("format", "int-or-string");
                return out;
            }
            (TIME | MICRO_TIME, _) => {
                out.insert("type", "string");
                out.insert("format", "date-time");
                return out;
            }
            _ => {}
        }
        let Some(id) = TypeId::by_name(name) else {
            return out;
        };
        match id.get().shape {
            Shape::Struct => {}
            Shape::Any if id.get().go_name() == "JSON" => return out,
            Shape::Any => {
                out.insert("type", "object");
                return out;
            }
            Shape::Texts => {
                out.extend(self.shape(TypeRef::List(&TypeRef::String), Zero(false), None));
                return out;
            }
            Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrTexts => return out,
        }
        out.insert("type", "object");
        let mut fields: Vec<&'static Field> =
            id.fields().filter(|field| field.is_published()).collect();
        let required: Vec<&str> = fields
            .iter()
            .filter(|field| field.is_required())
            .map(|field| field.name())
            .collect();
        if !required.is_empty() {
            out.insert("required", required);
        }
        fields.sort_by_key(|field| field.name());
        let mut properties = Map::with_capacity(fields.len());
        for field in fields {
            let property = self.property(field, texts);
            properties.push_unchecked(field.name().into(), property.into());
        }
        if !properties.is_empty() {
            out.insert("properties", properties);
        }
        if !texts.kinds.is_empty() {
            let many = texts.kinds.len() > 1;
            let named = |one: &&Gvk| !many || self.kinds.has(one);
            let kinds = texts.kinds.iter().filter(named).map(gvk).collect::<Value>();
            out.insert("x-kubernetes-group-version-kind", kinds);
        }
        if id.get().atomic {
            out.insert("x-kubernetes-map-type", "atomic");
        }
        if !texts.unions.is_null()
            && let Ok(unions) = value::to_value(&texts.unions)
        {
            out.insert("x-kubernetes-unions", unions);
        }
        out
    }

    fn property(&mut self, field: &'static Field, texts: &TypeTexts) -> Map {
        let mut out = Map::new();
        if let Some(text) = texts.fields.get(field.name()) {
            out.insert("description", text.as_str());
        }
        let values = texts.enumerations.get(field.name());
        let items_zero = Zero(!field.has_pointer_items());
        let mut shape = match field.type_ref() {
            TypeRef::List(inner) => {
                object!({"type": "array", "items": (self.shape(*inner, items_zero, values))})
            }
            other => self.shape(other, Zero(false), values),
        };
        if self.form == OpenApiVersion::V3 {
            let default = Some(field.default())
                .filter(|text| !text.is_empty())
                .and_then(|text| Value::from_slice(text.as_bytes()).ok());
            // A reference with siblings is wrapped.
            if (default.is_some() || !out.is_empty())
                && let Some(reference) = shape.remove("$ref")
            {
                if let Some(default) = default {
                    out.insert("default", default);
                }
                shape.insert("allOf", value!([{"$ref": reference}]));
            } else if let Some(default) = default {
                // Behind type and format, before what is inside.
                let mut ordered = Map::new();
                for key in ["type", "format"] {
                    if let Some(value) = shape.remove(key) {
                        ordered.insert(key, value);
                    }
                }
                ordered.insert("default", default);
                ordered.extend(shape);
                shape = ordered;
            }
        }
        out.extend(shape);
        let merge = field.merge();
        if !merge.list_map_keys.is_empty() {
            out.insert("x-kubernetes-list-map-keys", merge.list_map_keys);
        }
        for (name, text) in [
            ("x-kubernetes-list-type", merge.list_type),
            ("x-kubernetes-map-type", merge.map_type),
            ("x-kubernetes-patch-merge-key", merge.patch_merge_key),
            ("x-kubernetes-patch-strategy", merge.patch_strategy),
        ] {
            if !text.is_empty() {
                out.insert(name, text);
            }
        }
        out
    }

    /// The schema of what a field, an item or a map's value holds. `zero` asks for
    /// the default that items have.
    fn shape(&mut self, of: TypeRef, zero: Zero, values: Option<&Vec<serde_json::Value>>) -> Map {
        let zero_value =
            |value: Value| (zero.0 && self.form == OpenApiVersion::V3).then_some(value);
        let plain = |kind: &str, format: &str, default: Option<Value>| {
            let mut out = object!({"type": kind});
            if !format.is_empty() {
                out.insert("format", format);
            }
            if let Some(default) = default {
                out.insert("default", default);
            }
            if let Some(values) = values
                && let Ok(values) = value::to_value(values)
            {
                out.insert("enum", values);
            }
            out
        };
        match of {
            TypeRef::String | TypeRef::Duration => plain("string", "", zero_value("".into())),
            TypeRef::Int32 => plain("integer", "int32", zero_value(0.into())),
            TypeRef::Int64 => plain("integer", "int64", zero_value(0.into())),
            TypeRef::Bool => plain("boolean", "", zero_value(false.into())),
            TypeRef::Float => plain("number", "double", zero_value(0.into())),
            TypeRef::Bytes => plain("string", "byte", None),
            TypeRef::Time => self.refer(TIME, Zero(false)),
            TypeRef::MicroTime => self.refer(MICRO_TIME, Zero(false)),
            TypeRef::Quantity => self.refer(QUANTITY, Zero(false)),
            TypeRef::IntOrString => self.refer(INT_OR_STRING, Zero(false)),
            TypeRef::Any => object!({"type": "object"}),
            TypeRef::Object(id) if id.get().shape == Shape::Texts => {
                self.shape(TypeRef::List(&TypeRef::String), zero, values)
            }
            TypeRef::Object(id) => {
                let struct_zero = matches!(id.get().shape, Shape::Struct);
                self.refer(id.get().name, Zero(zero.0 && struct_zero))
            }
            TypeRef::List(inner) => {
                object!({"type": "array", "items": (self.shape(*inner, Zero(true), values))})
            }
            TypeRef::Map(inner) => {
                let inner = self.shape(*inner, Zero(true), values);
                object!({"type": "object", "additionalProperties": inner})
            }
        }
    }

    fn refer(&mut self, name: &'static str, zero: Zero) -> Map {
        self.wanted.push(name);
        let reference = reference(self.form, name);
        if zero.0 && self.form == OpenApiVersion::V3 {
            object!({"default": {}, "allOf": [reference]})
        } else {
            reference
        }
    }
}

fn gvk(one: &Gvk) -> Map {
    object!({
        "group": (one.group.as_str()),
        "kind": (one.kind.as_str()),
        "version": (one.version.as_str())
    })
}
