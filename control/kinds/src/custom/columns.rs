//! `additionalPrinterColumns`: table columns besides the name.

use control_types::value::{Value, from_value};
use control_types::{go, intern, time};

use super::json_path::JsonPath;
use crate::tree::Read;
use crate::{Column, Timestamp, table};

/// The column of names.
pub(super) const NAME: Column = table::NAME;

/// A column that a definition states.
#[derive(Debug)]
pub(super) struct CustomColumn {
    pub heading: Column,
    path: JsonPath,
}

impl CustomColumn {
    pub(super) fn new(column: &Value) -> Self {
        let path = column.text("jsonPath");
        let description = match column.text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            text => text.to_owned(),
        };
        let priority = i32::try_from(column.num("priority")).unwrap_or_default();
        Self {
            heading: Column {
                name: intern::text(column.text("name")),
                r#type: intern::text(column.text("type")),
                format: intern::text(column.text("format")),
                description: intern::text(&description),
                priority,
            },
            path: JsonPath::parse(path),
        }
    }

    /// The only column of definitions that state none.
    pub(super) fn age() -> Self {
        Self {
            heading: Column {
                r#type: "date",
                ..table::AGE
            },
            path: JsonPath::parse(".metadata.creationTimestamp"),
        }
    }

    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.first(object) else {
            return Value::Null;
        };
        match (self.heading.r#type, value) {
            ("string", Value::Null) => "<no value>".into(),
            ("string", value) => text(value).into(),
            ("integer", Value::Int(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            #[expect(clippy::cast_possible_truncation, reason = "as Go converts it")]
            ("integer", Value::Float(number)) => Value::Int(*number as i64),
            ("number", Value::Int(_) | Value::Float(_)) => value.clone(),
            ("date", Value::String(stamp)) => match time::parse(stamp) {
                Some(_) => table::since(stamp, now).into(),
                None => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

/// A value as text: lists and maps in JSON, all else as Go prints it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => from_value::<serde_json::Value>(value)
            .map(|value| value.to_string())
            .unwrap_or_default(),
        other => go::plain(other),
    }
}
