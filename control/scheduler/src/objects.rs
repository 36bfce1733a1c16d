//! Objects as JSON, of which clusters are made, for decisions away from the loop: explanations,
//! simulations, comparisons.

use std::collections::BTreeMap;

use control_client::{Resource, View};
use serde_json::Value;

/// Error for objects that do not form a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value without `apiVersion`, `kind` or name.
    #[error("an object has no `{missing}`: {start}")]
    Nameless {
        /// The missing field.
        missing: &'static str,
        /// How the object begins.
        start: String,
    },
    /// An object whose fields have other types than its kind says.
    #[error("{kind} `{name}` cannot be read")]
    Unreadable {
        /// Its kind.
        kind: String,
        /// Its namespace, if it has one, and name.
        name: String,
        /// The field and its fault.
        #[source]
        source: serde_json::Error,
    },
}

/// Objects of any kinds, one of each name.
#[derive(Clone, Debug, Default)]
pub struct ObjectSet {
    /// Objects by group and kind, by namespace and name.
    objects: BTreeMap<(String, String), BTreeMap<(String, String), Value>>,
}

/// How much of an object an error shows.
const SHOWN: usize = 80;

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn key(object: &Value) -> (String, String) {
    let namespace = text(object, "/metadata/namespace");
    (
        namespace.to_owned(),
        text(object, "/metadata/name").to_owned(),
    )
}

impl ObjectSet {
    /// Adds an object, or all objects of a list. It replaces the one of its kind and name.
    ///
    /// # Errors
    /// [`Error::Nameless`].
    pub fn put(&mut self, object: Value) -> Result<(), Error> {
        let nameless = |missing, object: &Value| {
            let start = object.to_string().chars().take(SHOWN).collect();
            Error::Nameless { missing, start }
        };
        let kind = text(&object, "/kind").to_owned();
        if kind.is_empty() {
            return Err(nameless("kind", &object));
        }
        let version = text(&object, "/apiVersion").to_owned();
        if let Value::Object(mut fields) = object {
            if kind.ends_with("List")
                && let Some(Value::Array(items)) = fields.remove("items")
            {
                let item_kind = kind.trim_end_matches("List");
                for mut item in items {
                    // Items of a typed list do not repeat their type.
                    if item["kind"].is_null() && !item_kind.is_empty() {
                        item["kind"] = item_kind.into();
                        item["apiVersion"] = version.clone().into();
                    }
                    self.put(item)?;
                }
                return Ok(());
            }
            let object = Value::Object(fields);
            let group = version.rsplit_once('/').map_or("", |(group, _)| group);
            let key = key(&object);
            if key.1.is_empty() {
                return Err(nameless("metadata.name", &object));
            }
            let of_kind = self.objects.entry((group.to_owned(), kind)).or_default();
            of_kind.insert(key, object);
        }
        Ok(())
    }

    /// Removes an object.
    pub fn remove(&mut self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        let key = (namespace.to_owned(), name.to_owned());
        self.objects.get_mut(&of(resource))?.remove(&key)
    }

    /// An object; `namespace` is empty for objects of the cluster.
    #[must_use]
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<&Value> {
        let key = (namespace.to_owned(), name.to_owned());
        self.objects.get(&of(resource))?.get(&key)
    }

    /// All objects of a resource, by namespace and name.
    pub fn all<'a>(&'a self, resource: &Resource) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.objects
            .get(&of(resource))
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// All objects of a view's resource.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn views<V: View>(&self) -> Result<Vec<V>, Error> {
        self.all(&V::RESOURCE).map(view).collect()
    }
}

fn of(resource: &Resource) -> (String, String) {
    (resource.group.to_string(), resource.kind.to_string())
}

/// Reads an object as decisions see it.
///
/// # Errors
/// [`Error::Unreadable`].
pub fn view<V: View>(object: &Value) -> Result<V, Error> {
    V::deserialize(object).map_err(|source| {
        let (namespace, name) = key(object);
        let name = match namespace.as_str() {
            "" => name,
            namespace => format!("{namespace}/{name}"),
        };
        Error::Unreadable {
            kind: text(object, "/kind").to_owned(),
            name,
            source,
        }
    })
}

#[cfg(test)]
mod tests {
    use control_client::resources;
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_opened_and_make_a_cluster() {
        let mut objects = ObjectSet::default();
        let node = |name: &str| json!({"metadata": {"name": name}});
        objects
            .put(json!({"apiVersion": "v1", "kind": "NodeList", "items": [node("a"), node("b")]}))
            .unwrap();
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "n", "name": "p"}, "spec": {"nodeName": "b"}});
        objects
            .put(json!({"apiVersion": "v1", "kind": "List", "items": [pod]}))
            .unwrap();
        let cluster = objects.cluster().unwrap();
        assert_eq!(cluster.snapshot.live().count(), 2);
        let on = cluster.snapshot.node_of(&("n".into(), "p".into()));
        assert_eq!(on, Some("b"));
        assert!(objects.remove(&resources::NODES, "", "a").is_some());
        assert_eq!(objects.all(&resources::NODES).count(), 1);
    }

    #[test]
    fn errors_name_the_object() {
        let mut objects = ObjectSet::default();
        let error = objects.put(json!({"metadata": {"name": "a"}})).unwrap_err();
        assert!(error.to_string().contains("no `kind`"), "{error}");
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "n", "name": "p"}, "spec": {"nodeName": 7}});
        objects.put(pod).unwrap();
        let error = objects.cluster().err().unwrap();
        assert_eq!(error.to_string(), "Pod `n/p` cannot be read");
    }
}
