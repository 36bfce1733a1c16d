//! What the API says of itself in words: descriptions of types, fields and
//! parameters, and facts that only the published documents state (the values of
//! an enumeration, unions, the kinds that a type is decoded for).
//!
//! All of it is one JSON document, deflated behind a few lines that tell where it
//! comes from:
//!
//! ```text
//! {
//!   "types": {"<name>": {
//!     "d": "<description>",
//!     "f": {"<field>": "<description>"},
//!     "e": {"<field>": ["<value>", …]},
//!     "k": [{"group": …, "kind": …, "version": …}],
//!     "u": [<x-kubernetes-unions>]
//!   }},
//!   "parameters": {"<options>": {"<name>": ["<type>", "<description>"]}}
//! }
//! ```
//!
//! Members that would be empty are left out.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Map, Value, json};

use super::golang::Name;
use super::{KUBERNETES, Modules, PublishedApi, failed};
use crate::error::Error;

/// Packages whose generated Go definitions name the values of enumerations.
const DEFINITIONS: [&str; 2] = [
    "k8s.io/kubernetes/pkg/generated/openapi",
    "k8s.io/apiextensions-apiserver/pkg/generated/openapi",
];

/// The location of parameters in the published document of the core group: name of the
/// options, path, method (empty: those of the path).
const OPTIONS: [(&str, &str, &str); 12] = [
    ("ListOptions", "configmaps", "get"),
    ("CreateOptions", "configmaps", "post"),
    ("DeleteOptions", "configmaps/{name}", "delete"),
    ("PatchOptions", "configmaps/{name}", "patch"),
    ("UpdateOptions", "configmaps/{name}", "put"),
    ("PodLogOptions", "pods/{name}/log", ""),
    ("PodAttachOptions", "pods/{name}/attach", ""),
    ("PodExecOptions", "pods/{name}/exec", ""),
    ("PodPortForwardOptions", "pods/{name}/portforward", ""),
    ("PodProxyOptions", "pods/{name}/proxy", ""),
    ("ServiceProxyOptions", "services/{name}/proxy", ""),
    ("path", "pods/{name}/proxy/{path}", ""),
];

/// The file: its head and the deflated document.
pub fn file<'a>(
    api: &PublishedApi,
    modules: &Modules,
    types: impl Iterator<Item = &'a String>,
) -> Result<Vec<u8>, Error> {
    let mut enumerations = BTreeMap::new();
    for package in DEFINITIONS {
        let path = modules
            .package(package)
            .ok_or_else(|| failed(format!("package `{package}` is in none of the modules")))?
            .join("zz_generated.openapi.go");
        let text = fs::read_to_string(&path)
            .map_err(|error| failed(format!("cannot read `{}`: {error}", path.display())))?;
        read_enumerations(&text, &mut enumerations);
    }
    // Types in the tables, and those that represent plain values there.
    let plain = [
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    ];
    let names = types.map(String::as_str).chain(plain);
    let published: BTreeMap<&str, &Value> = names
        .filter_map(|name| Some((name, api.schemas.get(name)?)))
        .collect();
    let mut out = Map::new();
    for (name, schema) in published {
        out.insert(name.to_owned(), one_type(api, name, schema, &enumerations));
    }
    let document = json!({"types": out, "parameters": parameters(&api.core)?});
    let mut file = format!(
        "Written by `cargo xtask generate` from the published Kubernetes API {KUBERNETES}; do not edit.\n\
         The texts are those of Kubernetes. Copyright The Kubernetes Authors.\n\
         Licensed under the Apache License, Version 2.0: http://www.apache.org/licenses/LICENSE-2.0\n\n"
    )
    .into_bytes();
    let mut encoder = ZlibEncoder::new(&mut file, Compression::best());
    encoder
        .write_all(document.to_string().as_bytes())
        .and_then(|()| encoder.finish().map(|_| ()))
        .map_err(|error| failed(format!("cannot deflate the texts: {error}")))?;
    Ok(file)
}

/// Values and description of a field, as the Go definitions have them.
type Enumeration = (Vec<Value>, Value);

fn one_type(
    api: &PublishedApi,
    name: &str,
    schema: &Value,
    enumerations: &BTreeMap<String, BTreeMap<String, Enumeration>>,
) -> Value {
    let enumerations = enumerations.get(name);
    let mut out = Map::new();
    if let Some(text) = schema["description"]
        .as_str()
        .filter(|text| !text.is_empty())
    {
        out.insert("d".into(), text.into());
    }
    let mut fields = Map::new();
    let mut values = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let enumeration = enumerations.and_then(|all| all.get(name));
        let text = enumeration
            .map(|(_, text)| text)
            .filter(|text| !text.is_null())
            .unwrap_or(&property["description"]);
        if text.as_str().is_some_and(|text| !text.is_empty()) {
            fields.insert(name.clone(), text.clone());
        }
        if let Some((list, _)) = enumeration {
            values.insert(name.clone(), list.clone().into());
        }
    }
    for (key, map) in [("f", fields), ("e", values)] {
        if !map.is_empty() {
            out.insert(key.into(), map.into());
        }
    }
    let unions = schema.get("x-kubernetes-unions");
    for (key, value) in [("k", api.kinds.get(name)), ("u", unions)] {
        if let Some(value) = value {
            out.insert(key.into(), value.clone());
        }
    }
    out.into()
}

fn parameters(core: &Value) -> Result<Value, Error> {
    let mut out = Map::new();
    let mut read = |options: &str, list: &Value| {
        let list = list.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| failed(format!("no parameters of `{options}`")))?;
        let mut one = Map::new();
        for parameter in list {
            let name = parameter["name"].as_str().unwrap_or_default();
            let own = match options {
                "path" => parameter["in"] == "path" && name != "name",
                "pretty" => name == "pretty",
                _ => parameter["in"] == "query" && name != "pretty",
            };
            if own {
                let facts = json!([parameter["schema"]["type"], parameter["description"]]);
                one.insert(name.to_owned(), facts);
            }
        }
        out.insert(options.to_owned(), one.into());
        Ok::<(), Error>(())
    };
    let paths = &core["paths"];
    for (options, path, method) in OPTIONS {
        let path = &paths[format!("/api/v1/namespaces/{{namespace}}/{path}")];
        let place = if method.is_empty() {
            path
        } else {
            &path[method]
        };
        read(options, &place["parameters"])?;
    }
    read(
        "NodeProxyOptions",
        &paths["/api/v1/nodes/{name}/proxy"]["parameters"],
    )?;
    read("pretty", &paths["/api/v1/nodes/{name}"]["parameters"])?;
    Ok(out.into())
}

/// Reads the fields that have an enumeration out of Go's generated definitions,
/// which are laid out by one program, line by line: a function a type, a member
/// of `Properties` a field.
fn read_enumerations(text: &str, out: &mut BTreeMap<String, BTreeMap<String, Enumeration>>) {
    let mut imports: BTreeMap<&str, &str> = BTreeMap::new();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let (mut owner, mut field, mut description) = (None, "", Value::Null);
    for line in text.lines() {
        let trimmed = line.trim_start_matches('\t');
        let depth = line.len() - trimmed.len();
        if let Some((alias, path)) = trimmed.split_once(" \"")
            && depth == 1
            && path.ends_with('"')
        {
            imports.insert(alias, path.trim_end_matches('"'));
        } else if let Some((name, function)) = trimmed.split_once("{}.OpenAPIModelName():") {
            if let Some((alias, name)) = name.split_once('.')
                && let Some(package) = imports.get(alias)
            {
                let function = function.trim().split('(').next().unwrap_or_default();
                let name = Name {
                    package: (*package).to_owned(),
                    name: name.to_owned(),
                };
                names.insert(function, name.openapi());
            }
        } else if let Some(rest) = line.strip_prefix("func ") {
            owner = rest
                .split('(')
                .next()
                .and_then(|name| names.get(name).cloned());
        } else if let Some(name) = trimmed.strip_suffix("\": {")
            && depth == 5
        {
            field = name.trim_start_matches('"');
            description = Value::Null;
        } else if let Some(text) = trimmed.strip_prefix("Description:")
            && depth == 7
        {
            // Go's escapes within these texts are those of JSON.
            let text = text.trim().trim_end_matches(',');
            description = serde_json::from_str(text).unwrap_or_default();
        } else if let Some(list) = trimmed.strip_prefix("Enum:")
            && let Some(owner) = &owner
        {
            let list = list
                .trim()
                .trim_start_matches("[]interface{}{")
                .trim_end_matches("},");
            if let Ok(values) = serde_json::from_str(&format!("[{list}]")) {
                out.entry(owner.clone())
                    .or_default()
                    .insert(field.to_owned(), (values, description.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumerations_are_read_with_the_description_that_names_them() {
        let text = "import (\n\tcorev1 \"k8s.io/api/core/v1\"\n)\n\
            \t\tcorev1.Thing{}.OpenAPIModelName():   schema_core_v1_Thing(ref),\n\
            func schema_core_v1_Thing(ref common.ReferenceCallback) common.OpenAPIDefinition {\n\
            \t\t\t\t\t\"plain\": {\n\t\t\t\t\t\t\tDescription: \"nothing\",\n\t\t\t\t\t},\n\
            \t\t\t\t\t\"modes\": {\n\t\t\t\t\t\t\tDescription: \"which\\n\\nof \\\"a\\\"\",\n\
            \t\t\t\t\t\t\t\t\t\tEnum:    []interface{}{\"a\", \"b\"},\n\t\t\t\t\t},\n}\n";
        let mut out = BTreeMap::new();
        read_enumerations(text, &mut out);
        let thing = &out["io.k8s.api.core.v1.Thing"];
        assert_eq!(thing.len(), 1);
        assert_eq!(
            thing["modes"],
            (vec![json!("a"), json!("b")], json!("which\n\nof \"a\""))
        );
    }
}
