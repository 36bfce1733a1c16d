//! OpenAPI v3, made from the tables: enough for `kubectl apply`, `explain` and
//! clients that validate. Without descriptions, since the tables hold facts only.
//!
//! Documents are made when first asked for, one per group and version, and their
//! addresses carry their hash, so that clients keep them for ever.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use control_types::object;
use control_types::registry::{self, Resource, Subresource};
use control_types::schema::{Field, Shape, TypeId, TypeRef};
use control_types::value;
use control_types::value::{Map, Value};

use crate::discovery::Document;

const JSON: &str = "application/json";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const REF: &str = "#/components/schemas/";

/// The document at a path: `/openapi/v3`, `/openapi/v3/api/v1`,
/// `/openapi/v3/apis/<group>/<version>`.
#[must_use]
pub fn document(path: &str) -> Option<&'static Document> {
    match path.trim_end_matches('/').strip_prefix("/openapi/v3")? {
        "" => Some(&INDEX),
        rest => {
            let (place, made) = DOCUMENTS.get(rest.strip_prefix('/')?)?;
            Some(made.get_or_init(|| Document::json(&build(place.0, place.1), JSON)))
        }
    }
}

type Place = (&'static str, &'static str);

static DOCUMENTS: LazyLock<BTreeMap<String, (Place, OnceLock<Document>)>> = LazyLock::new(|| {
    let mut out = BTreeMap::new();
    for group in registry::groups() {
        for version in group.versions {
            out.insert(
                prefix(group.name, version),
                ((group.name, *version), OnceLock::new()),
            );
        }
    }
    out
});

static INDEX: LazyLock<Document> = LazyLock::new(|| {
    let mut paths = Map::new();
    for name in DOCUMENTS.keys() {
        if let Some(one) = document(&format!("/openapi/v3/{name}")) {
            let hash = one.etag.trim_matches('"');
            let url = format!("/openapi/v3/{name}?hash={hash}");
            paths.insert(name, object!({"serverRelativeURL": url}));
        }
    }
    Document::json(&value!({"paths": paths}), JSON)
});

/// `api/v1`, `apis/apps/v1`
fn prefix(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn build(group: &'static str, version: &'static str) -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for one in registry::resources_of(group, version) {
        resource_paths(one, &mut paths, &mut schemas);
    }
    for kind in ["DeleteOptions", "Status", "WatchEvent", "Patch"] {
        schemas.want(TypeId::by_name(&format!("{META}.{kind}")));
    }
    value!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": paths,
        "components": {"schemas": (schemas.build())}
    })
}

/// Types that a document refers to.
#[derive(Default)]
struct Schemas {
    wanted: Vec<TypeId>,
    built: BTreeMap<&'static str, Value>,
}

impl Schemas {
    fn want(&mut self, id: Option<TypeId>) {
        self.wanted.extend(id);
    }

    fn build(mut self) -> Map {
        while let Some(id) = self.wanted.pop() {
            let name = id.get().name;
            if !self.built.contains_key(name) {
                self.built.insert(name, Value::Null);
                let schema = self.schema(id);
                self.built.insert(name, schema);
            }
        }
        self.built.into_iter().collect()
    }

    fn schema(&mut self, id: TypeId) -> Value {
        let one = id.get();
        match one.shape {
            Shape::Struct => {}
            Shape::Any if one.go_name() == "JSON" => return Value::object(),
            Shape::Any => return value!({"type": "object"}),
            Shape::Texts => {
                return value!({"type": "array", "items": {"type": "string", "default": ""}});
            }
            Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrTexts => {
                let props = one.name.split("Or").next().unwrap_or_default();
                self.want(TypeId::by_name(props));
                return Value::object();
            }
        }
        let mut properties = Map::new();
        let mut required: Vec<&str> = Vec::new();
        let mut fields: Vec<&'static Field> = id.fields().collect();
        fields.sort_by_key(|field| field.name());
        for field in fields {
            properties.insert(field.name(), self.property(field));
            if field.is_required() {
                required.push(field.name());
            }
        }
        let mut out = object!({"type": "object"});
        if !properties.is_empty() {
            out.insert("properties", properties);
        }
        if !required.is_empty() {
            out.insert("required", required);
        }
        if one.atomic {
            out.insert("x-kubernetes-map-type", "atomic");
        }
        let kinds = kinds_of(id);
        if !kinds.is_empty() {
            out.insert("x-kubernetes-group-version-kind", kinds);
        }
        Value::Object(out)
    }

    fn property(&mut self, field: &Field) -> Map {
        let mut out = self.type_of(field.type_ref(), true);
        if !field.default().is_empty()
            && let Ok(default) = Value::from_slice(field.default().as_bytes())
        {
            out.insert("default", default);
        }
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

    /// The schema of a type; a property's reference may get siblings and is
    /// therefore wrapped in `allOf`.
    fn type_of(&mut self, of: TypeRef, property: bool) -> Map {
        match of {
            TypeRef::String | TypeRef::Duration => object!({"type": "string"}),
            TypeRef::Int32 => object!({"type": "integer", "format": "int32"}),
            TypeRef::Int64 => object!({"type": "integer", "format": "int64"}),
            TypeRef::Bool => object!({"type": "boolean"}),
            TypeRef::Float => object!({"type": "number", "format": "double"}),
            TypeRef::Bytes => object!({"type": "string", "format": "byte"}),
            TypeRef::Time | TypeRef::MicroTime => {
                object!({"type": "string", "format": "date-time"})
            }
            TypeRef::Quantity => object!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            TypeRef::IntOrString => {
                object!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            TypeRef::Any => Map::new(),
            TypeRef::Object(id) => {
                self.want(Some(id));
                let reference = object!({"$ref": (format!("{REF}{}", id.get().name))});
                if property {
                    object!({"allOf": [reference]})
                } else {
                    reference
                }
            }
            TypeRef::List(inner) => {
                object!({"type": "array", "items": (self.type_of(*inner, false))})
            }
            TypeRef::Map(inner) => {
                object!({"type": "object", "additionalProperties": (self.type_of(*inner, false))})
            }
        }
    }
}

fn gvk(group: &str, version: &str, kind: &str) -> Map {
    object!({"group": group, "kind": kind, "version": version})
}

/// The kinds that a type is decoded for.
fn kinds_of(id: TypeId) -> Vec<Map> {
    let mut out = Vec::new();
    for one in registry::resources() {
        if one.schema == id {
            out.push(gvk(one.group, one.version, one.kind));
        } else if one.list_schema == Some(id) {
            out.push(gvk(one.group, one.version, &one.list_kind()));
        }
        for sub in one.subresources {
            let kind = gvk(sub.group, sub.version, sub.kind);
            if sub.schema == id && !out.contains(&kind) {
                out.push(kind);
            }
        }
    }
    let name = id
        .get()
        .name
        .strip_prefix(META)
        .and_then(|rest| rest.strip_prefix('.'));
    match name {
        Some("Status") => out.push(gvk("", "v1", "Status")),
        Some(kind @ ("DeleteOptions" | "WatchEvent")) => {
            for group in registry::groups() {
                out.extend(
                    group
                        .versions
                        .iter()
                        .map(|version| gvk(group.name, version, kind)),
                );
            }
        }
        _ => {}
    }
    out
}

fn resource_paths(one: &'static Resource, paths: &mut Map, schemas: &mut Schemas) {
    schemas.want(Some(one.schema));
    schemas.want(one.list_schema);
    let base = format!("/{}", prefix(one.group, one.version));
    let scope = if one.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let collection = format!("{base}{scope}/{}", one.plural);
    let own = (one.group, one.version, one.kind);
    let list = one.list_schema.unwrap_or(one.schema);

    let mut operations = Vec::new();
    if one.has_verb("list") {
        operations.push(operation("get", "list", own, list, None));
    }
    if one.has_verb("create") {
        operations.push(operation("post", "post", own, one.schema, Some(one.schema)));
    }
    if one.has_verb("deletecollection") {
        operations.push(operation("delete", "deletecollection", own, status(), None));
    }
    paths.insert(
        collection.clone(),
        path_item(operations, one.namespaced, false),
    );
    if one.namespaced && one.has_verb("list") {
        let all = vec![operation("get", "list", own, list, None)];
        paths.insert(
            format!("{base}/{}", one.plural),
            path_item(all, false, false),
        );
    }
    let mut operations = Vec::new();
    for (verb, method, action) in [
        ("get", "get", "get"),
        ("update", "put", "put"),
        ("patch", "patch", "patch"),
    ] {
        if one.has_verb(verb) {
            let body = (method == "put").then_some(one.schema);
            operations.push(operation(method, action, own, one.schema, body));
        }
    }
    if one.has_verb("delete") {
        operations.push(operation("delete", "delete", own, status(), None));
    }
    if !operations.is_empty() {
        paths.insert(
            format!("{collection}/{{name}}"),
            path_item(operations, one.namespaced, true),
        );
    }
    for sub in one.subresources {
        schemas.want(Some(sub.schema));
        let path = format!("{collection}/{{name}}/{}", sub.name);
        paths.insert(path, path_item(subresource(sub), one.namespaced, true));
    }
}

fn subresource(sub: &'static Subresource) -> Vec<(&'static str, Map)> {
    let own = (sub.group, sub.version, sub.kind);
    sub.verbs
        .iter()
        .filter_map(|verb| {
            Some(match *verb {
                "get" => operation("get", "get", own, sub.schema, None),
                "update" => operation("put", "put", own, sub.schema, Some(sub.schema)),
                "patch" => operation("patch", "patch", own, sub.schema, None),
                "create" => operation("post", "post", own, sub.schema, Some(sub.schema)),
                "delete" => operation("delete", "delete", own, status(), None),
                _ => return None,
            })
        })
        .collect()
}

fn status() -> TypeId {
    TypeId::by_name(&format!("{META}.Status")).unwrap_or(TypeId(0))
}

fn parameter(place: &str, name: &str, kind: &str) -> Map {
    let mut out = object!({
        "name": name,
        "in": place,
        "schema": {"type": kind, "uniqueItems": true}
    });
    if place == "path" {
        out.insert("required", true);
    }
    out
}

fn path_item(operations: Vec<(&'static str, Map)>, namespaced: bool, named: bool) -> Map {
    let mut out: Map = operations.into_iter().collect();
    let mut parameters = Vec::new();
    if named {
        parameters.push(parameter("path", "name", "string"));
    }
    if namespaced {
        parameters.push(parameter("path", "namespace", "string"));
    }
    parameters.push(parameter("query", "pretty", "string"));
    out.insert("parameters", parameters);
    out
}

fn content(types: &[&str], id: TypeId) -> Map {
    let schema = object!({"$ref": (format!("{REF}{}", id.get().name))});
    types
        .iter()
        .map(|media| (*media, object!({"schema": (schema.clone())})))
        .collect()
}

fn operation(
    method: &'static str,
    action: &str,
    (group, version, kind): (&str, &str, &str),
    answer: TypeId,
    body: Option<TypeId>,
) -> (&'static str, Map) {
    let query: &[(&str, &str)] = match action {
        "list" => &[
            ("allowWatchBookmarks", "boolean"),
            ("continue", "string"),
            ("fieldSelector", "string"),
            ("labelSelector", "string"),
            ("limit", "integer"),
            ("resourceVersion", "string"),
            ("resourceVersionMatch", "string"),
            ("sendInitialEvents", "boolean"),
            ("timeoutSeconds", "integer"),
            ("watch", "boolean"),
        ],
        "post" | "put" => &[
            ("dryRun", "string"),
            ("fieldManager", "string"),
            ("fieldValidation", "string"),
        ],
        "patch" => &[
            ("dryRun", "string"),
            ("fieldManager", "string"),
            ("fieldValidation", "string"),
            ("force", "boolean"),
        ],
        "delete" | "deletecollection" => &[
            ("dryRun", "string"),
            ("gracePeriodSeconds", "integer"),
            ("orphanDependents", "boolean"),
            ("propagationPolicy", "string"),
        ],
        _ => &[],
    };
    let mut out = object!({
        "tags": [(prefix(group, version).trim_start_matches("apis/").replace('/', "_"))],
        "responses": {"200": {"description": "OK", "content": (content(&[JSON, "application/yaml"], answer))}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": (gvk(group, version, kind))
    });
    if !query.is_empty() {
        let parameters = query
            .iter()
            .map(|(name, kind)| parameter("query", name, kind));
        out.insert("parameters", parameters.collect::<Value>());
    }
    let patch = TypeId::by_name(&format!("{META}.Patch"));
    match (body, patch) {
        (Some(body), _) => {
            out.insert(
                "requestBody",
                object!({"content": (content(&["*/*"], body)), "required": true}),
            );
        }
        (None, Some(patch)) if method == "patch" => {
            let types = [
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ];
            out.insert(
                "requestBody",
                object!({"content": (content(&types, patch)), "required": true}),
            );
        }
        _ => {}
    }
    (method, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Value {
        Value::from_slice(&document(path).unwrap().body).unwrap()
    }

    #[test]
    fn the_index_names_every_group_and_version_with_its_hash() {
        let index = read("/openapi/v3");
        let paths = index.path(&["paths"]).and_then(Value::as_object).unwrap();
        let count: usize = registry::groups()
            .iter()
            .map(|group| group.versions.len())
            .sum();
        assert_eq!(paths.len(), count);
        let url = index
            .str_at(&["paths", "apis/apps/v1", "serverRelativeURL"])
            .unwrap();
        let etag = &document("/openapi/v3/apis/apps/v1").unwrap().etag;
        assert!(url.ends_with(etag.trim_matches('"')), "{url}");
    }

    #[test]
    fn what_kubectl_looks_for_before_it_applies_is_there() {
        let apps = read("/openapi/v3/apis/apps/v1");
        let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
        let patch = apps.path(&["paths", path, "patch"]).unwrap();
        assert_eq!(
            patch.path(&["x-kubernetes-group-version-kind"]),
            Some(&value!({"group": "apps", "version": "v1", "kind": "Deployment"}))
        );
        let names: Vec<_> = patch
            .items_at(&["parameters"])
            .iter()
            .filter_map(|one| one.str_at(&["name"]))
            .collect();
        assert!(names.contains(&"fieldValidation") && names.contains(&"dryRun"));
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn walk<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
            match value {
                Value::Object(map) => {
                    for (key, value) in map {
                        match value.as_str() {
                            Some(text) if key.as_str() == "$ref" => out.push(text),
                            _ => walk(value, out),
                        }
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| walk(item, out)),
                _ => {}
            }
        }
        for name in DOCUMENTS.keys() {
            let document = read(&format!("/openapi/v3/{name}"));
            let mut references = Vec::new();
            walk(&document, &mut references);
            assert!(!references.is_empty(), "{name}");
            for reference in references {
                let name = reference.strip_prefix(REF).unwrap();
                assert!(
                    document.path(&["components", "schemas", name]).is_some(),
                    "{reference}"
                );
            }
        }
    }

    #[test]
    fn merge_facts_are_published() {
        let core = read("/openapi/v3/api/v1");
        let ports = [
            "components",
            "schemas",
            "io.k8s.api.core.v1.Container",
            "properties",
            "ports",
        ];
        let ports = core.path(&ports).unwrap();
        assert_eq!(
            ports.str_at(&["x-kubernetes-patch-merge-key"]),
            Some("containerPort")
        );
        assert_eq!(ports.str_at(&["x-kubernetes-list-type"]), Some("map"));
        assert!(document("/openapi/v3/apis/nope/v1").is_none());
    }
}
