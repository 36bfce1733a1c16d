//! Tables: columns, cells and how ages are written.

mod age;

use control_types::value::Value;

use crate::tree::Read;

pub(crate) use age::{age, duration, since};

/// The moment for which a table is printed.
pub type Now = jiff::Timestamp;

/// One column of a table (`metav1.TableColumnDefinition`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// `OpenAPI` type of the cells: string, integer, date, …
    pub r#type: &'static str,
    /// `OpenAPI` format; the column of names has `name`.
    pub format: &'static str,
    /// What the column shows.
    pub description: &'static str,
    /// 0: always shown; 1: in wide output only.
    pub priority: i32,
}

/// What the columns of most kinds say of the name and the age.
const NAME_TEXT: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED_TEXT: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// A column of text that is always shown.
pub(crate) const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, r#type: "string", format: "", description, priority: 0 }
}

/// A column of whole numbers.
pub(crate) const fn number(name: &'static str, description: &'static str) -> Column {
    Column { name, r#type: "integer", format: "", description, priority: 0 }
}

/// A column of another type.
pub(crate) const fn typed(name: &'static str, r#type: &'static str, description: &'static str) -> Column {
    Column { name, r#type, format: "", description, priority: 0 }
}

/// A column that only wide output shows.
pub(crate) const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, r#type: "string", format: "", description, priority: 1 }
}

/// The column of names.
pub(crate) const NAME: Column =
    Column { name: "Name", r#type: "string", format: "name", description: NAME_TEXT, priority: 0 };
/// The column of ages.
pub(crate) const AGE: Column = text("Age", CREATED_TEXT);
/// The column of creation times.
pub(crate) const CREATED_AT: Column = text("Created At", CREATED_TEXT);

/// Columns of kinds that state none.
pub(crate) const NAME_AGE: &[Column] = &[NAME, Column { name: "Created At", r#type: "date", ..AGE }];

/// Cells for [`NAME_AGE`].
pub(crate) fn name_age(object: &Value, _now: Now) -> Vec<Value> {
    let meta = object.at("metadata");
    vec![meta.text("name").into(), meta.text("creationTimestamp").into()]
}

/// The object's name as a cell.
pub(crate) fn name(object: &Value) -> Value {
    object.at("metadata").text("name").into()
}

/// Text, or `<none>` when it is empty.
pub(crate) fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// Text, or `<unset>` when it is empty.
pub(crate) fn or_unset(text: &str) -> Value {
    if text.is_empty() { "<unset>".into() } else { text.into() }
}
