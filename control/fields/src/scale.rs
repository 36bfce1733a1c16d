//! Maps the managers of an object's replicas to those of its `Scale`, and back.

use control_types::value::{Key, Value};

use crate::element::Element;
use crate::managed::{self, DecodeError, Entry};
use crate::set::Set;

const SCALE: &str = "autoscaling/v1";

/// Carries managers between an object and its scale.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The parent's managers, with the path of the replicas in their versions.
    entries: Vec<(Entry, Vec<Element>)>,
    /// The parent's version, and the path there.
    version: String,
    path: Vec<Element>,
}

fn own_path() -> [Element; 2] {
    [Element::field("spec"), Element::field("replicas")]
}

fn set_of(path: &[Element]) -> Set {
    let mut set = Set::new();
    set.insert(path);
    set
}

impl Scale {
    /// Reads the managers of the parent, `object`, which is in `version`.
    /// `replicas` tells where a version of the parent keeps its replicas;
    /// managers of versions that it does not know are dropped.
    ///
    /// # Errors
    /// When the managers cannot be read.
    pub fn from_parent<'p>(
        object: &Value,
        version: &str,
        replicas: impl Fn(&str) -> Option<&'p [&'p str]>,
    ) -> Result<Self, DecodeError> {
        let path_in = |version: &str| -> Option<Vec<Element>> {
            let fields = replicas(version)?.iter();
            Some(fields.map(|name| Element::Field(Key::new(name))).collect())
        };
        let entries = managed::decode(object.path(&["metadata", "managedFields"]))?
            .into_iter()
            .filter_map(|entry| {
                let path = path_in(&entry.api_version)?;
                Some((entry, path))
            })
            .collect();
        Ok(Self {
            entries,
            version: version.to_owned(),
            path: path_in(version).unwrap_or_default(),
        })
    }

    /// The managers of the scale.
    #[must_use]
    pub fn to_scale(&self) -> Option<Value> {
        let of_scale = self
            .entries
            .iter()
            .filter(|(entry, path)| entry.set().has(path))
            .map(|(entry, _)| {
                let mut entry = entry.clone();
                entry.api_version = SCALE.into();
                entry.set_set(set_of(&own_path()));
                entry
            })
            .collect();
        managed::encode(of_scale)
    }

    /// Returns the managers of the parent after those of the scale became `scale`.
    /// Updates of the replicas through either are different managers; applies through
    /// either are the same.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn to_parent(&self, scale: Option<&Value>) -> Result<Option<Value>, DecodeError> {
        let mut of_scale = managed::decode(scale)?;
        let mut entries: Vec<Entry> = Vec::with_capacity(self.entries.len() + 1);
        for (entry, path) in &self.entries {
            let mut entry = entry.clone();
            if entry.set().has(path) {
                let same = of_scale
                    .iter()
                    .position(|other| entry.is_applied() && other.is_same(&entry));
                if let Some(at) = same {
                    of_scale.remove(at);
                } else {
                    entry.set_set(entry.set().difference(&set_of(path)));
                    if entry.set().is_empty() {
                        continue;
                    }
                }
            }
            entries.push(entry);
        }
        for mut entry in of_scale {
            if !entry.set().has(&own_path()) {
                continue;
            }
            entry.api_version = self.version.as_str().into();
            entry.set_set(set_of(&self.path));
            // The time is the one at which the parent was written by the same
            // applier, if it was.
            entry.time = self
                .entries
                .iter()
                .find(|(known, _)| known.is_applied() && known.is_same(&entry))
                .and_then(|(known, _)| known.time.clone());
            entries.retain(|known| !(known.is_applied() && known.is_same(&entry)));
            entries.push(entry);
        }
        Ok(managed::encode(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control_types::value;

    fn entry(manager: &str, operation: &str, version: &str, fields: Value) -> Value {
        value!({"manager": manager, "operation": operation, "apiVersion": version, "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": (fields)})
    }

    fn scale(entries: Value) -> Scale {
        let object = value!({"metadata": {"managedFields": (entries)}});
        Scale::from_parent(&object, "apps/v1", |version| {
            (version == "apps/v1").then_some(&["spec", "replicas"])
        })
        .unwrap()
    }

    #[test]
    fn the_owner_of_the_replicas_owns_the_scale() {
        let scale = scale(value!([
            (entry(
                "a",
                "Apply",
                "apps/v1",
                value!({"f:spec": {"f:replicas": {}}})
            )),
            (entry(
                "b",
                "Update",
                "apps/v1",
                value!({"f:spec": {"f:paused": {}}})
            ))
        ]));
        let managers = scale.to_scale().unwrap();
        assert_eq!(managers.as_array().unwrap().len(), 1);
        assert_eq!(managers.str_at(&["0", "apiVersion"]), Some(SCALE));
    }

    #[test]
    fn a_writer_of_the_scale_takes_the_replicas_from_the_parent() {
        let scale = scale(value!([
            (entry(
                "a",
                "Update",
                "apps/v1",
                value!({"f:spec": {"f:replicas": {}, "f:paused": {}}})
            )),
            (entry(
                "old",
                "Update",
                "apps/v0",
                value!({"f:spec": {"f:replicas": {}}})
            ))
        ]));
        let mut written = entry("s", "Update", SCALE, value!({"f:spec": {"f:replicas": {}}}));
        written.insert("subresource", "scale");
        let parent = scale
            .to_parent(Some(&value!([(written)])))
            .unwrap()
            .unwrap();
        assert_eq!(parent.as_array().unwrap().len(), 2);
        assert_eq!(parent.str_at(&["0", "manager"]), Some("s"));
        assert_eq!(parent.str_at(&["0", "apiVersion"]), Some("apps/v1"));
        assert_eq!(
            parent.path(&["1", "fieldsV1"]),
            Some(&value!({"f:spec": {"f:paused": {}}}))
        );
    }
}
