//! Tables: columns, cells and how ages are written.

mod age;
pub(crate) mod cells;
pub(crate) mod columns;

use control_types::value::Value;

use crate::tree::Read;

pub(crate) use age::{age, duration, since};

/// The moment for which a table is printed.
pub type Timestamp = jiff::Timestamp;

/// One column of a table (`metav1.TableColumnDefinition`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// `OpenAPI` type of the cells: string, integer, date, …
    pub r#type: &'static str,
    /// `OpenAPI` format; the column of names has `name`.
    pub format: &'static str,
    /// The description of the column.
    pub description: &'static str,
    /// 0: always shown; 1: in wide output only.
    pub priority: i32,
}

/// The descriptions of name and age in most tables.
const NAME_TEXT: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED_TEXT: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The column of names.
pub(crate) const NAME: Column = Column {
    name: "Name",
    r#type: "string",
    format: "name",
    description: NAME_TEXT,
    priority: 0,
};
/// The column of ages.
pub(crate) const AGE: Column = Column {
    name: "Age",
    r#type: "string",
    format: "",
    description: CREATED_TEXT,
    priority: 0,
};
/// Columns of kinds that state none.
pub(crate) const NAME_AGE: &[Column] = &[
    NAME,
    Column {
        name: "Created At",
        r#type: "date",
        ..AGE
    },
];

impl Column {
    /// Whether these are the columns of kinds that state none.
    #[must_use]
    pub fn are_default(columns: &[Self]) -> bool {
        columns.len() == NAME_AGE.len() && columns.iter().any(|it| it.name == "Created At")
    }
}

/// Cells for [`NAME_AGE`].
pub(crate) fn name_age(object: &Value, _now: Timestamp) -> Vec<Value> {
    let meta = object.at("metadata");
    vec![
        meta.text("name").into(),
        meta.text("creationTimestamp").into(),
    ]
}

/// The object's name as a cell.
pub(crate) fn name(object: &Value) -> Value {
    object.at("metadata").text("name").into()
}

/// Text, or `<none>` when it is empty.
pub(crate) fn or_none(text: &str) -> Value {
    if text.is_empty() {
        "<none>".into()
    } else {
        text.into()
    }
}

/// Text, or `<unset>` when it is empty.
pub(crate) fn or_unset(text: &str) -> Value {
    if text.is_empty() {
        "<unset>".into()
    } else {
        text.into()
    }
}
