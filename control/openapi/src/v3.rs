//! Documents of OpenAPI 3.0: one for each group and version.

use control_types::value::{Map, Value};
use control_types::{object, value};

use super::operations::{Answer, METHODS, Operation, Parameter, PathItem};
use super::schemas::{self, Kinds, OpenApiVersion, reference};
use super::texts::Texts;

/// The document of some paths, of a version if they are of one.
#[must_use]
pub fn document(
    own: Option<(&'static str, &'static str)>,
    paths: &[PathItem],
    texts: &Texts,
) -> Value {
    let kinds = own.map_or(Kinds::All, |(group, version)| Kinds::Of(group, version));
    let schemas = schemas::of_paths(OpenApiVersion::V3, kinds, texts, paths, &[]);
    let mut components = Map::new();
    if !schemas.is_empty() {
        components.insert("schemas", schemas);
    }
    components.insert(
        "securitySchemes",
        value!({"BearerToken": {
            "type": "apiKey",
            "description": "Bearer Token authentication",
            "name": "authorization",
            "in": "header"
        }}),
    );
    value!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": (super::document::VERSION)},
        "paths": (path_items(paths)),
        "components": components
    })
}

/// The paths, by name.
#[must_use]
pub fn path_items(paths: &[PathItem]) -> Map {
    let mut items = Map::with_capacity(paths.len());
    for item in paths {
        items.push_unchecked(item.path.as_str().into(), path_item(item).into());
    }
    items
}

fn path_item(item: &PathItem) -> Map {
    let mut out = Map::new();
    for method in METHODS {
        if let Some(one) = item.operations.iter().find(|one| one.method == method) {
            out.insert(method, operation(one));
        }
    }
    if !item.parameters.is_empty() {
        out.insert("parameters", parameters(&item.parameters));
    }
    out
}

fn parameters(list: &[Parameter]) -> Value {
    list.iter()
        .map(|one| {
            let mut out = object!({
                "name": (one.name.as_str()),
                "in": (if one.in_path { "path" } else { "query" }),
                "description": (one.description.as_str())
            });
            if one.in_path {
                out.insert("required", true);
            }
            let kind = one.kind.as_str();
            out.insert("schema", value!({"type": kind, "uniqueItems": true}));
            out
        })
        .collect()
}

fn content(types: &[&'static str], schema: &Map) -> Map {
    let mut types = types.to_vec();
    types.sort_unstable();
    types
        .into_iter()
        .map(|media| (media, object!({"schema": (schema.clone())})))
        .collect()
}

fn operation(one: &Operation) -> Map {
    let mut out = object!({
        "tags": [(one.tag.as_str())],
        "description": (one.description.as_str()),
        "operationId": (one.id.as_str())
    });
    if !one.parameters.is_empty() {
        out.insert("parameters", parameters(&one.parameters));
    }
    if let Some((name, required)) = &one.body {
        let mut body = object!({
            "content": (content(one.consumes, &reference(OpenApiVersion::V3, name)))
        });
        if *required {
            body.insert("required", true);
        }
        out.insert("requestBody", body);
    }
    let schema = match &one.answer {
        Answer::Text => object!({"type": "string"}),
        Answer::Type(name) => reference(OpenApiVersion::V3, name),
    };
    let mut responses = Map::new();
    for code in one.codes {
        let content = content(one.produces, &schema);
        responses.insert(
            code.to_string(),
            object!({"description": (super::document::meaning(*code)), "content": content}),
        );
    }
    responses.insert("401", object!({"description": "Unauthorized"}));
    out.insert("responses", responses);
    if let Some((action, [group, version, kind])) = &one.action {
        out.insert("x-kubernetes-action", *action);
        out.insert(
            "x-kubernetes-group-version-kind",
            object!({"group": (group.as_str()), "version": (version.as_str()), "kind": (kind.as_str())}),
        );
    }
    out
}
