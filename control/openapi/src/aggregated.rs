//! What another server's document of `OpenAPI` 2 says of the version that it serves
//! here: its paths, and the schemas and parameters that these need.

use std::collections::{BTreeMap, BTreeSet};

use control_types::value::{Map, Value};
use sha2::{Digest, Sha256};

/// A part of a document.
#[derive(Debug, PartialEq)]
pub struct Swagger {
    /// What the server calls this state of it, to be asked whether it is another.
    pub etag: String,
    /// By which the part is known again: its content's SHA-256.
    pub digest: [u8; 32],
    /// Paths.
    pub paths: BTreeMap<String, Value>,
    /// Schemas by name.
    pub definitions: BTreeMap<String, Value>,
    /// Parameters that many share, by name.
    pub parameters: BTreeMap<String, Value>,
}

/// Where references lead.
pub(crate) const DEFINITIONS: &str = "#/definitions/";
pub(crate) const PARAMETERS: &str = "#/parameters/";

impl Swagger {
    /// The part of a document that is below `root`.
    pub fn below(root: &str, document: &Value, etag: String) -> Self {
        let object = |key: &str| match document.get(key) {
            Some(Value::Object(members)) => Some(members),
            _ => None,
        };
        let is_below = |path: &str| {
            let rest = path.strip_prefix(root);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut part = Self {
            etag,
            digest: [0; 32],
            paths: BTreeMap::new(),
            definitions: BTreeMap::new(),
            parameters: BTreeMap::new(),
        };
        let paths = object("paths").into_iter().flat_map(Map::iter);
        for (path, item) in paths.filter(|(path, _)| is_below(path.as_str())) {
            part.paths.insert(path.as_str().to_owned(), item.clone());
        }
        let mut wanted = BTreeSet::new();
        for item in part.paths.values() {
            references(item, &mut wanted);
        }
        // Each is taken once, so that rings of references come to an end.
        while let Some(reference) = wanted.pop_first() {
            let (into, from, name) = match reference.strip_prefix(DEFINITIONS) {
                Some(name) => (&mut part.definitions, "definitions", name),
                None => match reference.strip_prefix(PARAMETERS) {
                    Some(name) => (&mut part.parameters, "parameters", name),
                    None => continue,
                },
            };
            let found = object(from).and_then(|all| all.get(name));
            if let Some(found) = found
                && !into.contains_key(name)
            {
                references(found, &mut wanted);
                into.insert(name.to_owned(), found.clone());
            }
        }
        let mut digest = Sha256::new();
        for all in [&part.paths, &part.definitions, &part.parameters] {
            for (name, one) in all {
                digest.update(name.as_bytes());
                digest.update([0]);
                digest.update(one.to_vec());
            }
        }
        part.digest = digest.finalize().into();
        part
    }
}

/// Gathers what a tree refers to.
fn references(tree: &Value, out: &mut BTreeSet<String>) {
    match tree {
        Value::Object(members) => {
            for (key, value) in members.iter() {
                match value {
                    Value::String(text) if key.as_str() == "$ref" => {
                        out.insert(text.to_string());
                    }
                    other => references(other, out),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, out)),
        _ => {}
    }
}

/// Leads references elsewhere.
pub(crate) fn redirect(tree: &mut Value, to: &BTreeMap<String, String>) {
    match tree {
        Value::Object(members) => {
            for (key, value) in members.iter_mut() {
                match value {
                    Value::String(text) if key.as_str() == "$ref" => {
                        if let Some(to) = to.get(text.as_str()) {
                            *text = to.as_str().into();
                        }
                    }
                    other => redirect(other, to),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redirect(item, to)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn only_what_a_version_needs_is_taken() {
        let document = value!({
            "paths": {
                "/apis/w.example/v1": {"get": {}},
                "/apis/w.example/v1/flunders": {
                    "parameters": [{"$ref": "#/parameters/pretty"}],
                    "get": {"schema": {"$ref": "#/definitions/List"}}
                },
                "/apis/w.example/v1beta1/flunders": {"get": {"schema": {"$ref": "#/definitions/Old"}}},
                "/apis/w.example/": {"get": {"schema": {"$ref": "#/definitions/Group"}}}
            },
            "definitions": {
                "List": {"items": {"$ref": "#/definitions/Flunder"}},
                "Flunder": {"properties": {"next": {"$ref": "#/definitions/Flunder"}, "gone": {"$ref": "#/definitions/Missing"}}},
                "Old": {}, "Group": {}
            },
            "parameters": {"pretty": {"in": "query"}, "other": {}}
        });
        let part = Swagger::below("/apis/w.example/v1", &document, "E".into());
        let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            names(&part.paths),
            ["/apis/w.example/v1", "/apis/w.example/v1/flunders"]
        );
        assert_eq!(names(&part.definitions), ["Flunder", "List"]);
        assert_eq!(names(&part.parameters), ["pretty"]);
        // The same again is known by its digest, whatever it is called.
        let again = Swagger::below("/apis/w.example/v1", &document, "F".into());
        assert_eq!(part.digest, again.digest);
        let other = Swagger::below("/apis/w.example/v1beta1", &document, "E".into());
        assert_ne!(part.digest, other.digest);
        assert_eq!(Swagger::below("/x", &Value::Null, "".into()).paths.len(), 0);
    }

    #[test]
    fn references_are_led_elsewhere() {
        let mut tree = value!({"a": [{"$ref": "#/definitions/X"}, {"$ref": "#/definitions/Y"}]});
        let to = BTreeMap::from([(
            "#/definitions/X".to_owned(),
            "#/definitions/X_v2".to_owned(),
        )]);
        redirect(&mut tree, &to);
        assert_eq!(
            tree,
            value!({"a": [{"$ref": "#/definitions/X_v2"}, {"$ref": "#/definitions/Y"}]})
        );
    }
}
