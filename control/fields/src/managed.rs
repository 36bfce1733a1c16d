//! `metadata.managedFields`: the managers of an object and their fields.

use std::cell::OnceCell;

use compact_str::CompactString;
use control_types::value::{Map, Value};

use crate::encoding::{self, FormatError};
use crate::set::Set;

/// The operation by which a manager owns its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It applied them.
    Apply,
    /// It wrote them by another verb.
    Update,
}

impl Operation {
    /// The word within an entry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// A manager with its fields.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub manager: CompactString,
    /// The operation by which it owns its fields.
    pub operation: Operation,
    /// The version in which the fields are named.
    pub api_version: CompactString,
    /// The subresource through which it wrote; empty for the main one.
    pub subresource: CompactString,
    /// When its fields last changed, RFC 3339.
    pub time: Option<CompactString>,
    fields: ManagedFieldSet,
}

/// The fields of a manager, parsed on demand: most writes leave most managers unchanged.
#[derive(Clone, Debug, Default)]
struct ManagedFieldSet {
    set: OnceCell<Set>,
    /// The `fieldsV1` of `set`, until that changes.
    written: Option<Value>,
}

/// Error for unreadable `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    Version,
    /// No type of the fields.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoType(usize),
    /// Another type than `FieldsV1`.
    #[error("invalid fieldsType {kind:?} in managed fields entry {at}")]
    Type {
        /// The type.
        kind: String,
        /// The index of the entry.
        at: usize,
    },
    /// The trie is malformed.
    #[error("error decoding versioned set: error decoding set: {0}")]
    Fields(#[source] FormatError),
}

impl Entry {
    /// A manager that owns nothing yet.
    #[must_use]
    pub fn new(manager: &str, operation: Operation, version: &str, subresource: &str) -> Self {
        Self {
            manager: manager.into(),
            operation,
            api_version: version.into(),
            subresource: subresource.into(),
            time: None,
            fields: ManagedFieldSet::default(),
        }
    }

    /// Returns its fields.
    #[must_use]
    pub fn set(&self) -> &Set {
        self.fields.set.get_or_init(|| {
            // Stored entries were validated before.
            let written = self.fields.written.as_ref();
            written
                .and_then(|fields| Set::from_fields(fields).ok())
                .unwrap_or_default()
        })
    }

    /// Replaces its fields.
    pub fn set_set(&mut self, set: Set) {
        if *self.set() != set {
            self.fields = ManagedFieldSet {
                set: set.into(),
                written: None,
            };
        }
    }

    /// Returns whether its fields were parsed.
    pub(crate) fn is_read(&self) -> bool {
        self.fields.set.get().is_some()
    }

    /// Whether it owns a path of the set.
    pub(crate) fn overlaps(&self, set: &Set) -> bool {
        match (self.fields.set.get(), &self.fields.written) {
            (Some(own), _) => own.overlaps(set),
            (None, Some(Value::Object(written))) => encoding::overlaps(written, set),
            (None, _) => false,
        }
    }

    /// Whether it owns nothing.
    pub(crate) fn is_empty(&self) -> bool {
        match (self.fields.set.get(), &self.fields.written) {
            (None, Some(Value::Object(written))) if !written.is_empty() => false,
            _ => self.set().is_empty(),
        }
    }

    /// Whether it applied its fields.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        self.operation == Operation::Apply
    }

    /// Whether two entries are of one manager. One that applies is the same in
    /// all versions.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.is_applied() || self.api_version == other.api_version)
    }

    /// Returns the entry without its fields.
    #[must_use]
    pub fn identity(&self) -> Self {
        Self {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: self.api_version.clone(),
            subresource: self.subresource.clone(),
            time: None,
            fields: ManagedFieldSet::default(),
        }
    }

    /// The manager as errors name it: `"kubectl" with subresource "status" using v1`.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut text = control_types::status::quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&control_types::status::quote(&self.subresource));
        }
        if !self.is_applied() {
            text.push_str(" using ");
            text.push_str(&self.api_version);
        }
        text
    }

    /// The order in which errors list managers: that of the identities' JSON.
    pub(crate) fn identity_json(&self) -> String {
        let mut map = Map::new();
        if !self.manager.is_empty() {
            map.insert("manager", &self.manager);
        }
        map.insert("operation", self.operation.as_str());
        if !self.is_applied() {
            map.insert("apiVersion", &self.api_version);
        }
        if !self.subresource.is_empty() {
            map.insert("subresource", &self.subresource);
        }
        Value::Object(map).to_string()
    }

    fn into_value(self) -> Value {
        let mut map = Map::with_capacity(7);
        if !self.manager.is_empty() {
            map.push_unchecked("manager".into(), self.manager.into());
        }
        map.push_unchecked("operation".into(), self.operation.as_str().into());
        map.push_unchecked("apiVersion".into(), self.api_version.into());
        if let Some(time) = self.time {
            map.push_unchecked("time".into(), time.into());
        }
        map.push_unchecked("fieldsType".into(), "FieldsV1".into());
        let fields = self.fields;
        let written = fields
            .written
            .unwrap_or_else(|| fields.set.into_inner().unwrap_or_default().to_fields());
        map.push_unchecked("fieldsV1".into(), written);
        if !self.subresource.is_empty() {
            map.push_unchecked("subresource".into(), self.subresource.into());
        }
        Value::Object(map)
    }
}

// === impl Entry ===

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.api_version == other.api_version
            && self.time == other.time
            && self.is_same(other)
            && self.set() == other.set()
    }
}

/// The text of a field.
fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or("")
}

/// Returns whether a client requests with this list to reset ownership: it is empty, or
/// has one empty entry.
#[must_use]
pub fn is_reset(list: Option<&Value>) -> bool {
    match list {
        Some(Value::Array(items)) => match items.as_slice() {
            [] => true,
            [one] => one.as_object().is_some_and(|entry| {
                entry
                    .iter()
                    .all(|(_, value)| value.is_null() || value.as_str() == Some(""))
            }),
            _ => false,
        },
        _ => false,
    }
}

/// Reads a list of managers. Of two entries of one manager the later counts.
///
/// # Errors
/// When an entry is malformed.
pub fn decode(list: Option<&Value>) -> Result<Vec<Entry>, DecodeError> {
    let mut entries = decode_stored(list.cloned())?;
    for entry in &mut entries {
        // Re-encoding gives it the standard order and form.
        if let Some(written) = entry.fields.written.take() {
            let set = Set::from_fields(&written).map_err(DecodeError::Fields)?;
            entry.fields.set = set.into();
        }
    }
    Ok(entries)
}

/// As [`decode`], for a stored list, which was validated before: the managers' fields are
/// parsed on demand.
///
/// # Errors
/// When an entry is malformed.
pub fn decode_stored(list: Option<Value>) -> Result<Vec<Entry>, DecodeError> {
    let Some(Value::Array(items)) = list else {
        return Ok(Vec::new());
    };
    let mut entries: Vec<Entry> = Vec::with_capacity(items.len() + 1);
    for (at, mut item) in items.into_iter().enumerate() {
        let operation = match text(&item, "operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(DecodeError::Operation),
        };
        let version = text(&item, "apiVersion");
        if version.is_empty() {
            return Err(DecodeError::Version);
        }
        match text(&item, "fieldsType") {
            "FieldsV1" => {}
            "" => return Err(DecodeError::NoType(at)),
            other => {
                return Err(DecodeError::Type {
                    kind: other.to_owned(),
                    at,
                });
            }
        }
        let mut entry = Entry::new(
            text(&item, "manager"),
            operation,
            version,
            text(&item, "subresource"),
        );
        entry.time = item.get("time").and_then(Value::as_str).map(Into::into);
        entry.fields.written = item.remove("fieldsV1");
        match entries.iter_mut().find(|known| known.is_same(&entry)) {
            Some(known) => *known = entry,
            None => entries.push(entry),
        }
    }
    Ok(entries)
}

/// Encodes a list of managers in its order: those that apply first, then by time, name,
/// version and subresource. Returns `None` for no managers.
#[must_use]
pub fn encode(mut entries: Vec<Entry>) -> Option<Value> {
    if entries.is_empty() {
        return None;
    }
    fn key(entry: &Entry) -> (Operation, &str, &str, &str, &str) {
        (
            entry.operation,
            entry.time.as_deref().unwrap_or_default(),
            &entry.manager,
            &entry.api_version,
            &entry.subresource,
        )
    }
    entries.sort_by(|a, b| key(a).cmp(&key(b)));
    Some(Value::Array(
        entries.into_iter().map(Entry::into_value).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use control_types::value;

    #[test]
    fn entries_are_read_and_written_in_their_order() {
        let list = value!([
            {"manager": "b", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:02Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}},
            {"manager": "a", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:02Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}, "subresource": "status"},
            {"manager": "z", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:03Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}
        ]);
        let written = encode(decode(Some(&list)).unwrap()).unwrap();
        let order: Vec<_> = written
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| text(entry, "manager"))
            .collect();
        assert_eq!(order, ["z", "a", "b"]);
        assert_eq!(decode(Some(&written)).unwrap()[2].shown(), "\"b\" using v1");
        assert_eq!(
            decode(Some(&written)).unwrap()[1].shown(),
            "\"a\" with subresource \"status\" using v1"
        );
        assert_eq!(encode(Vec::new()), None);
    }

    #[test]
    fn malformed_entries_are_refused() {
        let good = value!({"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"});
        assert!(decode(Some(&value!([(good.clone())]))).is_ok());
        for (field, bad) in [
            ("operation", value!("Steal")),
            ("apiVersion", value!("")),
            ("fieldsType", value!("")),
            ("fieldsType", value!("FieldsV2")),
            ("fieldsV1", value!({"x": {}})),
        ] {
            let mut entry = good.clone();
            entry.insert(field, bad);
            assert!(decode(Some(&value!([(entry)]))).is_err(), "{field}");
        }
    }

    #[test]
    fn a_reset_is_an_empty_list_or_an_empty_entry() {
        assert!(is_reset(Some(&value!([]))));
        assert!(is_reset(Some(&value!([{}]))));
        assert!(!is_reset(Some(&value!([{"manager": "a"}]))));
        assert!(!is_reset(None));
        assert!(!is_reset(Some(&Value::Null)));
    }
}
