//! `meta.k8s.io/v1` shapes: tables and metadata alone.

use control_kinds::Column;
use control_types::value;
use control_types::value::Value;

use crate::ResourceStrategy;
use control_request::negotiate::{Format, Include};

/// The columns of a kind as a table defines them.
#[must_use]
pub fn column_definitions(columns: &[Column]) -> Value {
    columns
        .iter()
        .map(|column| {
            value!({
                "name": (column.name),
                "type": (column.r#type),
                "format": (column.format),
                "description": (column.description),
                "priority": (column.priority),
            })
        })
        .collect()
}

/// One row: the cells of an object, and what the client wants to have with it.
#[must_use]
pub fn row(kind: &ResourceStrategy, object: Value, format: Format) -> Value {
    let mut row = Value::object();
    row.insert(
        "cells",
        Value::Array(kind.row(&object, jiff::Timestamp::now())),
    );
    let conditions = (kind.facts().row_conditions)(&object);
    if !conditions.is_empty() {
        row.insert("conditions", Value::Array(conditions));
    }
    row.insert(
        "object",
        match format.include {
            Include::None => Value::Null,
            Include::Object => object,
            Include::Metadata => partial(object, kind, format),
        },
    );
    row
}

/// A table. `columns` is false for the later events of a watch.
#[must_use]
pub fn table(
    kind: &ResourceStrategy,
    rows: Vec<Value>,
    metadata: Value,
    columns: bool,
    format: Format,
) -> Value {
    let mut table = Value::object();
    table.insert("kind", "Table");
    table.insert(
        "apiVersion",
        format!("meta.k8s.io/{}", format.shape_version),
    );
    table.insert("metadata", metadata);
    table.insert(
        "columnDefinitions",
        if columns {
            column_definitions(kind.columns())
        } else {
            Value::Null
        },
    );
    table.insert("rows", Value::Array(rows));
    table
}

/// Drops annotations that carry fields of the object, see [`control_kinds::Kind::field_annotations`].
fn drop_field_annotations(object: &mut Value, kind: &ResourceStrategy) {
    let names = kind.facts().field_annotations;
    if names.is_empty() {
        return;
    }
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return;
    };
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|key, _| {
            !names.iter().any(|name| match name.strip_suffix('*') {
                Some(start) => key.starts_with(start),
                None => key == *name,
            })
        });
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// An object reduced to its metadata.
#[must_use]
pub fn partial(mut object: Value, kind: &ResourceStrategy, format: Format) -> Value {
    drop_field_annotations(&mut object, kind);
    let mut partial = Value::object();
    partial.insert("kind", "PartialObjectMetadata");
    partial.insert(
        "apiVersion",
        format!("meta.k8s.io/{}", format.shape_version),
    );
    partial.insert(
        "metadata",
        object.remove("metadata").unwrap_or_else(Value::object),
    );
    partial
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_carry_what_was_asked_for() {
        let kind = &ResourceStrategy::from(control_kinds::find_kind("", "ConfigMap"));
        let object = value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let format = Format {
            shape_version: "v1",
            ..Format::default()
        };
        assert_eq!(
            row(kind, object.clone(), format).get("object"),
            Some(
                &value!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}})
            )
        );
        assert_eq!(
            row(
                kind,
                object.clone(),
                Format {
                    include: Include::Object,
                    ..format
                }
            )
            .get("object"),
            Some(&object)
        );
        assert_eq!(
            row(
                kind,
                object,
                Format {
                    include: Include::None,
                    ..format
                }
            )
            .get("object"),
            Some(&Value::Null)
        );
    }

    #[test]
    fn cells_and_columns_are_equally_many() {
        for kind in control_kinds::all().chain([&control_kinds::GENERIC]) {
            let cells = (kind.row)(&value!({"metadata": {"name": "a"}}), jiff::Timestamp::now());
            // a stock server sends the age of an IPAddress without a column for it
            let more = usize::from(kind.kind == "IPAddress");
            assert_eq!(cells.len(), kind.columns.len() + more, "{}", kind.kind);
        }
    }
}
