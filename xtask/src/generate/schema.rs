//! Types and fields: struct tags joined with OpenAPI.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::golang::{Body, Field, GoType, Name, Packages};
use super::resources::Resources;
use super::{PublishedApi, failed};
use crate::error::Error;

const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";

/// Kinds without a stored resource: those of every group, those of webhooks, and metrics.
const MORE: [(&str, &[&str]); 6] = [
    (
        META,
        &[
            "APIGroup",
            "APIGroupList",
            "APIResourceList",
            "APIVersions",
            "CreateOptions",
            "DeleteOptions",
            "GetOptions",
            "List",
            "ListOptions",
            "PartialObjectMetadata",
            "PartialObjectMetadataList",
            "PatchOptions",
            "Patch",
            "Status",
            "Table",
            "UpdateOptions",
            "WatchEvent",
        ],
    ),
    ("k8s.io/apimachinery/pkg/version", &["Info"]),
    ("k8s.io/api/apidiscovery/v2", &["APIGroupDiscoveryList"]),
    ("k8s.io/api/core/v1", &["SerializedReference"]),
    ("k8s.io/api/admission/v1", &["AdmissionReview"]),
    (
        "k8s.io/metrics/pkg/apis/metrics/v1beta1",
        &[
            "NodeMetrics",
            "NodeMetricsList",
            "PodMetrics",
            "PodMetricsList",
        ],
    ),
];

/// A type, before it gets its number.
pub struct Type {
    pub go: String,
    pub shape: &'static str,
    pub atomic: bool,
    pub published: bool,
    pub fields: Vec<FieldRow>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ref {
    Plain(&'static str),
    Object(String),
    List(Box<Ref>),
    Map(Box<Ref>),
}

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Merge {
    pub list_type: String,
    pub list_map_keys: Vec<String>,
    pub map_type: String,
    pub patch_strategy: String,
    pub patch_merge_key: String,
}

pub struct FieldRow {
    pub name: String,
    pub number: u32,
    pub flags: u32,
    pub type_ref: Ref,
    pub merge: Merge,
    pub default: String,
    pub go: String,
    /// Its name in Go.
    pub go_name: String,
}

impl FieldRow {
    /// Whether the name in Go follows from the name in JSON, or of an inlined struct from
    /// its type.
    pub fn has_regular_name(&self) -> bool {
        let regular = if self.name.is_empty() {
            self.go.rsplit('.').next().unwrap_or_default().to_owned()
        } else {
            capitalized(&self.name)
        };
        self.go_name == regular
    }
}

fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

// The bits of `control_types::schema`.
const OMITEMPTY: u32 = 1;
const POINTER: u32 = 2;
const INLINE: u32 = 4;
const REQUIRED: u32 = 8;
const OMITZERO: u32 = 16;
const ITEM_POINTER: u32 = 32;
const HIDDEN: u32 = 64;

/// The Go package of a group's version.
pub fn package_of(group: &str, version: &str) -> String {
    match group {
        "" => format!("k8s.io/api/core/{version}"),
        "apiextensions.k8s.io" => {
            format!("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/{version}")
        }
        "apiregistration.k8s.io" => {
            format!("k8s.io/kube-aggregator/pkg/apis/apiregistration/{version}")
        }
        _ => format!(
            "k8s.io/api/{}/{version}",
            group.split('.').next().unwrap_or(group)
        ),
    }
}

/// All types that the resources reach, by OpenAPI name.
pub fn collect(
    api: &PublishedApi,
    go: &mut Packages<'_>,
    resources: &Resources,
) -> Result<BTreeMap<String, Type>, Error> {
    let mut queue: VecDeque<Name> = VecDeque::new();
    let mut want = |package: String, name: &str| {
        queue.push_back(Name {
            package,
            name: name.to_owned(),
        });
    };
    for one in &resources.resources {
        let package = package_of(&one.group, &one.version);
        want(package.clone(), &one.kind);
        if one.verbs.iter().any(|verb| verb == "list") {
            want(package, &format!("{}List", one.kind));
        }
        for sub in &one.subresources {
            want(package_of(&sub.group, &sub.version), &sub.kind);
        }
    }
    for (package, kinds) in MORE {
        for kind in kinds {
            want(package.to_owned(), kind);
        }
    }
    let mut types = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut holders = Holders::new();
    while let Some(name) = queue.pop_front() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let one = collect_type(api, go, &name, &mut queue, &mut holders)?;
        types.insert(name.openapi(), one);
    }
    for (name, one) in &types {
        compare(name, one, &types, api)?;
    }
    Ok(types)
}

/// Types whose JSON is written by hand in Go.
fn special(name: &Name) -> Option<Special> {
    use Special::{Plain, Shape};
    Some(
        match (
            name.package.rsplit('/').next().unwrap_or(""),
            name.name.as_str(),
        ) {
            ("resource", "Quantity") => Plain("Quantity"),
            ("intstr", "IntOrString") => Plain("IntOrString"),
            ("v1", "Time") if name.package == META => Plain("Time"),
            ("v1", "MicroTime") if name.package == META => Plain("MicroTime"),
            ("v1", "Duration") if name.package == META => Plain("Duration"),
            ("runtime", "Object") => Plain("Any"),
            ("runtime", "RawExtension") => Shape("Any"),
            ("v1", "FieldsV1") if name.package == META => Shape("Any"),
            ("v1", "Patch") if name.package == META => Shape("Any"),
            ("v1", "JSON") => Shape("Any"),
            ("v1", "JSONSchemaPropsOrBool") => Shape("SchemaOrBool"),
            ("v1", "JSONSchemaPropsOrArray") => Shape("SchemaOrArray"),
            ("v1", "JSONSchemaPropsOrStringArray") => Shape("SchemaOrTexts"),
            _ => return None,
        },
    )
}

enum Special {
    Plain(&'static str),
    Shape(&'static str),
}

/// Types that are only published inside another one: its name by theirs.
type Holders = BTreeMap<String, String>;

fn collect_type(
    api: &PublishedApi,
    go: &mut Packages<'_>,
    name: &Name,
    queue: &mut VecDeque<Name>,
    holders: &mut Holders,
) -> Result<Type, Error> {
    let openapi = name.openapi();
    let schema = api.schemas.get(&openapi);
    let facts = schema.or_else(|| api.schemas.get(holders.get(&openapi)?));
    let mut one = Type {
        go: name.short(),
        shape: "Struct",
        atomic: schema.is_some_and(|schema| schema["x-kubernetes-map-type"] == "atomic"),
        published: schema.is_some(),
        fields: Vec::new(),
    };
    if let Some(Special::Shape(shape)) = special(name) {
        one.shape = shape;
        if shape.starts_with("Schema") {
            queue.push_back(Name {
                package: name.package.clone(),
                name: "JSONSchemaProps".into(),
            });
        }
        return Ok(one);
    }
    let declaration = go
        .find(name)?
        .ok_or_else(|| failed(format!("`{}` has no type `{}`", name.package, name.name)))?;
    let fields = match declaration.body {
        Body::Struct(fields) => fields,
        Body::Of(GoType::List(_)) => {
            one.shape = "Texts";
            return Ok(one);
        }
        Body::Of(other) => {
            return Err(failed(format!(
                "`{openapi}` is neither struct nor list: {other:?}"
            )));
        }
    };
    for field in &fields {
        let row = collect_field(go, facts, &openapi, field, queue)?;
        if let Some(row) = &row
            && row.flags & INLINE != 0
            && let Ref::Object(inner) = &row.type_ref
            && !api.schemas.contains_key(inner)
        {
            let holder = holders.get(&openapi).unwrap_or(&openapi).clone();
            holders.entry(inner.clone()).or_insert(holder);
        }
        one.fields.extend(row);
    }
    Ok(one)
}

fn collect_field(
    go: &mut Packages<'_>,
    schema: Option<&Value>,
    owner: &str,
    field: &Field,
    queue: &mut VecDeque<Name>,
) -> Result<Option<FieldRow>, Error> {
    let (json, options) = field.json();
    if json == "-" {
        return Ok(None);
    }
    let inline = json.is_empty() && field.embedded;
    if json.is_empty() && !inline {
        return Err(failed(format!(
            "`{owner}` has a field without a name in JSON"
        )));
    }
    let mut flags = 0;
    if inline {
        flags |= INLINE;
    }
    if options.contains(&"omitempty") {
        flags |= OMITEMPTY;
    }
    if options.contains(&"omitzero") {
        flags |= OMITZERO;
    }
    let mut go_type = field.go_type.clone();
    if let GoType::Pointer(inner) = go_type {
        flags |= POINTER;
        go_type = *inner;
        if inline {
            return Err(failed(format!("`{owner}` inlines a pointer")));
        }
    }
    if let GoType::List(inner) = &go_type
        && matches!(**inner, GoType::Pointer(_))
    {
        flags |= ITEM_POINTER;
    }
    let type_ref = resolve(go, &go_type, queue)?;
    let mut merge = Merge::default();
    let mut default = String::new();
    if !inline && let Some(schema) = schema {
        let property = &schema["properties"][json];
        let text = |key: &str| property[key].as_str().unwrap_or("").to_owned();
        if property.is_null() {
            flags |= HIDDEN;
        }
        if schema["required"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one == json))
        {
            flags |= REQUIRED;
        }
        merge.list_type = text("x-kubernetes-list-type");
        merge.map_type = text("x-kubernetes-map-type");
        let keys = property["x-kubernetes-list-map-keys"].as_array();
        merge.list_map_keys = keys
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if let Some(value) = property.get("default") {
            default = value.to_string();
        }
    }
    merge.patch_strategy = field.tag("patchStrategy").to_owned();
    merge.patch_merge_key = field.tag("patchMergeKey").to_owned();
    Ok(Some(FieldRow {
        name: json.to_owned(),
        number: field.number(),
        flags,
        type_ref,
        merge,
        default,
        go: go_type.text(),
        go_name: field.name.clone(),
    }))
}

fn resolve(
    go: &mut Packages<'_>,
    go_type: &GoType,
    queue: &mut VecDeque<Name>,
) -> Result<Ref, Error> {
    Ok(match go_type {
        GoType::Builtin(name) => Ref::Plain(match name.as_str() {
            "string" => "String",
            "bool" => "Bool",
            "int8" | "int16" | "int32" | "uint8" => "Int32",
            "int" | "int64" | "uint32" | "uint64" => "Int64",
            "float64" | "float32" => "Float",
            other => return Err(failed(format!("no rule for the Go type `{other}`"))),
        }),
        GoType::Interface => Ref::Plain("Any"),
        GoType::Pointer(inner) => resolve(go, inner, queue)?,
        GoType::List(inner) if matches!(&**inner, GoType::Builtin(name) if name == "byte") => {
            Ref::Plain("Bytes")
        }
        GoType::List(inner) => Ref::List(Box::new(resolve(go, inner, queue)?)),
        GoType::Map(_, value) => Ref::Map(Box::new(resolve(go, value, queue)?)),
        GoType::Named(name) => {
            if let Some(Special::Plain(plain)) = special(name) {
                return Ok(Ref::Plain(plain));
            }
            if special(name).is_none() {
                let declaration = go.find(name)?.ok_or_else(|| {
                    failed(format!("`{}` has no type `{}`", name.package, name.name))
                })?;
                if let Body::Of(inner) = &declaration.body {
                    // A list that protobuf wraps in a message carries this marker.
                    let wrapped = declaration
                        .markers
                        .iter()
                        .any(|m| m == "protobuf.nullable=true");
                    if !wrapped {
                        return resolve(go, inner, queue);
                    }
                }
            }
            queue.push_back(name.clone());
            Ref::Object(name.openapi())
        }
    })
}

/// OpenAPI and structs must name the same fields, or one of them was misread.
fn compare(
    name: &str,
    one: &Type,
    types: &BTreeMap<String, Type>,
    api: &PublishedApi,
) -> Result<(), Error> {
    fn names<'a>(one: &'a Type, types: &'a BTreeMap<String, Type>, out: &mut BTreeSet<&'a str>) {
        for field in &one.fields {
            match &field.type_ref {
                Ref::Object(inner) if field.flags & INLINE != 0 => {
                    if let Some(inner) = types.get(inner) {
                        names(inner, types, out);
                    }
                }
                _ => {
                    out.insert(&field.name);
                }
            }
        }
    }
    let Some(properties) = api
        .schemas
        .get(name)
        .and_then(|one| one["properties"].as_object())
    else {
        return Ok(());
    };
    let mut declared = BTreeSet::new();
    names(one, types, &mut declared);
    match properties
        .keys()
        .find(|key| !declared.contains(key.as_str()))
    {
        Some(missing) => Err(failed(format!(
            "OpenAPI has `{name}.{missing}`, the struct has not"
        ))),
        None => Ok(()),
    }
}
