//! The document of OpenAPI 2.0: one for the whole API.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use control_types::value::{Map, Value};
use control_types::{object, value};
use std::collections::BTreeMap;

use super::operations::{Answer, METHODS, Operation, Parameter, PathItem};
use super::schemas::{self, Kinds, OpenApiVersion, reference};
use super::texts::Texts;

/// The document of all paths.
#[must_use]
pub fn document(paths: &[PathItem], texts: &Texts) -> Value {
    let definitions = schemas::of_paths(OpenApiVersion::V2, Kinds::All, texts, paths, &[]);
    let mut shared = BTreeMap::new();
    let mut items = Map::with_capacity(paths.len());
    for item in paths {
        let written = path_item(item, &mut shared);
        items.push_unchecked(item.path.as_str().into(), written.into());
    }
    let shared: Map = shared
        .into_iter()
        .map(|(name, one)| (name, Value::from(one)))
        .collect();
    value!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": (super::document::VERSION)},
        "paths": items,
        "definitions": definitions,
        "parameters": shared,
        "securityDefinitions": {"BearerToken": {
            "description": "Bearer Token authentication",
            "type": "apiKey",
            "name": "authorization",
            "in": "header"
        }},
        "security": [{"BearerToken": []}]
    })
}

/// Parameters that operations share, by name.
pub type SharedParameters = BTreeMap<String, Map>;

/// A path; what it shares with others goes to `shared`.
pub fn path_item(item: &PathItem, shared: &mut SharedParameters) -> Map {
    let mut out = Map::new();
    for method in METHODS {
        if let Some(one) = item.operations.iter().find(|one| one.method == method) {
            out.insert(method, operation(one, shared));
        }
    }
    let parameters = parameters(&item.parameters, shared);
    if !parameters.is_empty() {
        out.insert("parameters", parameters);
    }
    out
}

fn parameters(list: &[Parameter], shared: &mut SharedParameters) -> Vec<Value> {
    list.iter()
        .map(|one| {
            let mut out = object!({
                "uniqueItems": true,
                "type": (one.kind.as_str()),
                "description": (one.description.as_str()),
                "name": (one.name.as_str()),
                "in": (if one.in_path { "path" } else { "query" })
            });
            if one.in_path {
                out.insert("required", true);
            }
            // Written in place: what differs from kind to kind, and what kubectl
            // looks for there before it relies on it.
            if matches!(one.name.as_str(), "name" | "fieldValidation" | "dryRun") {
                out.into()
            } else {
                share(&one.name, out, shared)
            }
        })
        .collect()
}

/// Puts a parameter among those that all operations share and refers to it.
fn share(name: &str, parameter: Map, shared: &mut SharedParameters) -> Value {
    let json = super::document::go_json(&Value::from(parameter.clone()));
    let key = format!("{name}-{}", short_hash(&json));
    let reference = value!({"$ref": (format!("#/parameters/{key}"))});
    shared.entry(key).or_insert(parameter);
    reference
}

/// Eight letters of the 64-bit FNV-1 hash.
fn short_hash(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte)
    });
    URL_SAFE.encode(&hash.to_be_bytes()[..6])
}

fn operation(one: &Operation, shared: &mut SharedParameters) -> Map {
    let mut out = object!({"description": (one.description.as_str())});
    if !one.consumes.is_empty() {
        out.insert("consumes", one.consumes);
    }
    out.insert("produces", one.produces);
    out.insert("schemes", value!(["https"]));
    out.insert("tags", value!([(one.tag.as_str())]));
    out.insert("operationId", one.id.as_str());
    let mut list = Vec::new();
    if let Some((name, required)) = &one.body {
        let mut body = object!({"name": "body", "in": "body"});
        if *required {
            body.insert("required", true);
        }
        body.insert("schema", reference(OpenApiVersion::V2, name));
        // Bodies of a kind of their own are written in place.
        list.push(if name.starts_with("io.k8s.apimachinery") {
            share("body", body, shared)
        } else {
            body.into()
        });
    }
    list.extend(parameters(&one.parameters, shared));
    if !list.is_empty() {
        // Bodies stand among the others by name.
        let name = |value: &Value| {
            let name = value.str_at(&["name"]).or_else(|| {
                let reference = value.str_at(&["$ref"])?;
                let (name, _) = reference.strip_prefix("#/parameters/")?.split_once('-')?;
                Some(name)
            });
            name.unwrap_or_default().to_owned()
        };
        list.sort_by_key(name);
        out.insert("parameters", list);
    }
    let mut responses = Map::new();
    for code in one.codes {
        let schema = match &one.answer {
            Answer::Text => object!({"type": "string"}),
            Answer::Type(name) => reference(OpenApiVersion::V2, name),
        };
        responses.insert(
            code.to_string(),
            object!({"description": (super::document::meaning(*code)), "schema": schema}),
        );
    }
    responses.insert("401", object!({"description": "Unauthorized"}));
    out.insert("responses", responses);
    if let Some((action, [group, version, kind])) = &one.action {
        out.insert("x-kubernetes-action", *action);
        // Stock servers pass all groups through maps, which orders members, but the
        // one that their outermost layer serves itself. With the same order the
        // document has the same hash.
        let kind = if group == "apiregistration.k8s.io" {
            object!({"group": (group.as_str()), "version": (version.as_str()), "kind": (kind.as_str())})
        } else {
            object!({"group": (group.as_str()), "kind": (kind.as_str()), "version": (version.as_str())})
        };
        out.insert("x-kubernetes-group-version-kind", kind);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_parameters_have_the_names_that_they_have_everywhere() {
        // Names of published documents.
        let texts = Texts::read();
        for (options, name, published) in [
            ("ListOptions", "limit", "limit-1NfNmdNH"),
            ("PatchOptions", "fieldManager", "fieldManager-7c6nTn1T"),
            ("CreateOptions", "fieldManager", "fieldManager-Qy4HdaTW"),
            ("ListOptions", "shardSelector", "shardSelector-Kgyki_3_"),
        ] {
            let text = texts.parameter(options, name).unwrap();
            let list = [Parameter {
                name: name.into(),
                in_path: false,
                kind: text.0.clone(),
                description: text.1.clone(),
            }];
            let mut shared = SharedParameters::new();
            parameters(&list, &mut shared);
            assert_eq!(shared.keys().collect::<Vec<_>>(), [published]);
        }
    }
}
