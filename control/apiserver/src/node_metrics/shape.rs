//! What is made of metrics before they are answered: as they are, or a table with
//! the columns of metrics-server's.

use control_types::duration;
use control_types::quantity::{Format as Notation, Quantity};
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use http::HeaderMap;

use super::{API_VERSION, Kind};
use crate::negotiate::{Format, Include, MEDIA_TYPES, Media, Shape};
use crate::reply::{self, Answer};

/// The format of an answer, as the client prefers. These have no encoding in protobuf and
/// no form of metadata alone, so that a client which takes anything else gets that.
///
/// # Errors
/// 406 when the client takes nothing else.
pub(super) fn format(headers: &HeaderMap, query: Option<&str>) -> Result<Format, Status> {
    let possible =
        |format: &Format| format.media != Media::Protobuf && format.shape != Shape::Metadata;
    Format::among(headers, query, possible).map_err(|status| match status.code {
        406 => Status::not_acceptable(&MEDIA_TYPES[..2]),
        _ => status,
    })
}

/// Answers one row, or a list of them.
pub(super) fn answer(kind: Kind, rows: Vec<Value>, list: bool, format: Format) -> Answer {
    let made = match (format.shape, list) {
        (Shape::Table, _) => table(kind, rows, format),
        (_, true) => value!({
            "kind": (kind.list()), "apiVersion": API_VERSION, "metadata": {}, "items": rows
        }),
        (_, false) => rows.into_iter().next().unwrap_or_default(),
    };
    Ok(reply::value(200, &made, format))
}

/// Without rows there are no columns: which there are is told by the first row.
fn table(kind: Kind, rows: Vec<Value>, format: Format) -> Value {
    let mut names: Vec<String> = Vec::new();
    let mut out = Vec::with_capacity(rows.len());
    for object in rows {
        let used = kind.used(&object);
        if names.is_empty() {
            names = used.iter().map(|(name, _)| name.clone()).collect();
        }
        let text = |path: &[&str]| object.str_at(path).unwrap_or_default().to_owned();
        let mut cells = vec![Value::from(text(&["metadata", "name"]))];
        for name in &names {
            let used = used.iter().find(|(known, _)| known == name);
            let sum = used.map_or(Quantity::ZERO.canonical(), |(_, sum)| sum.canonical());
            cells.push(Value::from(sum.as_str()));
        }
        cells.push(text(&["window"]).into());
        let shown = match format.include {
            Include::None => Value::Null,
            Include::Object => object,
            Include::Metadata => value!({
                "kind": "PartialObjectMetadata",
                "apiVersion": (format!("meta.k8s.io/{}", format.shape_version)),
                "metadata": (object.get("metadata").cloned().unwrap_or_default())
            }),
        };
        out.push(value!({"cells": cells, "object": shown}));
    }
    let column = |name: &str, form: &str, description: &str| {
        value!({
            "name": name, "type": "string", "format": form, "description": description,
            "priority": 0
        })
    };
    let columns = if names.is_empty() {
        Value::Null
    } else {
        let mut all = vec![column("Name", "name", "Name of the resource")];
        all.extend(names.iter().map(|name| column(name, "quantity", "")));
        all.push(column("Window", "duration", ""));
        Value::Array(all)
    };
    value!({
        "kind": "Table",
        "apiVersion": (format!("meta.k8s.io/{}", format.shape_version)),
        "metadata": {},
        "columnDefinitions": columns,
        "rows": out
    })
}

impl Kind {
    /// What a row says was used, by name; of a pod the sum of its containers.
    fn used(self, row: &Value) -> Vec<(String, Quantity)> {
        let each: Vec<&Value> = match self {
            Self::Nodes => vec![row],
            Self::Pods => row.items_at(&["containers"]).iter().collect(),
        };
        let mut sums: Vec<(String, Quantity)> = Vec::new();
        for usage in each.iter().filter_map(|one| one.get("usage")) {
            let Value::Object(usage) = usage else {
                continue;
            };
            for (name, used) in usage.iter() {
                let used = used.as_str().and_then(|text| Quantity::parse(text).ok());
                let Some(used) = used else {
                    continue;
                };
                match sums.iter_mut().find(|(known, _)| known == name.as_str()) {
                    Some((_, sum)) => sum.add(&used),
                    None => sums.push((name.as_str().to_owned(), used)),
                }
            }
        }
        sums.sort_by(|a, b| a.0.cmp(&b.0));
        sums
    }
}

/// Billionths of a core, as quantities are written.
pub(super) fn cores(nano: i64) -> String {
    // The suffix is that of a text, which is then brought into its shortest form.
    let text = format!("{nano}n");
    Quantity::parse(&text).map_or(text, |one| one.canonical().into())
}

/// Bytes, as quantities are written.
pub(super) fn bytes(count: i64) -> String {
    Quantity::new(count, Notation::BinarySI).canonical().into()
}

/// A span of so many milliseconds as Go writes it.
pub(super) fn span(milliseconds: i64) -> String {
    duration::format(milliseconds.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::ACCEPT;

    use super::*;

    #[test]
    fn numbers_are_written_as_metrics_server_writes_them() {
        assert_eq!(cores(140_690_124), "140690124n");
        assert_eq!(cores(200_000_000), "200m");
        assert_eq!(cores(3_000_000_000), "3");
        assert_eq!(cores(0), "0");
        assert_eq!(bytes(1024 * 1024), "1Mi");
        assert_eq!(bytes(985_344 * 1024), "985344Ki");
        assert_eq!(bytes(1025), "1025");
        assert_eq!(span(15_000), "15s");
        assert_eq!(span(75_250), "1m15.25s");
    }

    fn cells(kind: Kind, rows: Vec<Value>) -> (Value, Value) {
        let format = Format {
            shape: Shape::Table,
            shape_version: "v1",
            ..Format::default()
        };
        let table = table(kind, rows, format);
        let names = table.items_at(&["columnDefinitions"]).iter();
        let names = names.map(|one| Value::from(one.str_at(&["name"]).unwrap_or_default()));
        let rows = table.items_at(&["rows"]).iter();
        let cells = rows.map(|row| row.get("cells").cloned().unwrap_or_default());
        (names.collect(), cells.collect())
    }

    #[test]
    fn a_table_has_a_column_for_what_is_used_and_sums_containers() {
        let pod = value!({
            "metadata": {"name": "p"}, "window": "15s",
            "containers": [
                {"name": "a", "usage": {"cpu": "250m", "memory": "1Mi"}},
                {"name": "b", "usage": {"cpu": "1750m", "memory": "512Ki"}}
            ]
        });
        assert_eq!(
            cells(Kind::Pods, vec![pod]),
            (
                value!(["Name", "cpu", "memory", "Window"]),
                value!([["p", "2", "1536Ki", "15s"]])
            )
        );
        let node = value!({"metadata": {"name": "n"}, "window": "1m0s", "usage": {"memory": "2Gi", "cpu": "7n"}});
        assert_eq!(
            cells(Kind::Nodes, vec![node]).1,
            value!([["n", "7n", "2Gi", "1m0s"]])
        );
        assert_eq!(cells(Kind::Nodes, vec![]), (value!([]), value!([])));
    }

    #[test]
    fn a_client_that_prefers_protobuf_gets_what_else_it_takes() {
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            let format = format(&headers, None);
            format
                .map(|format| format.media)
                .map_err(|status| status.code)
        };
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        for accept in [
            "application/vnd.kubernetes.protobuf, */*",
            "*/*",
            "",
            partial,
        ] {
            assert_eq!(of(accept), Ok(Media::Json), "{accept}");
        }
        assert_eq!(
            of("application/vnd.kubernetes.protobuf, application/yaml"),
            Ok(Media::Yaml)
        );
        for accept in ["application/vnd.kubernetes.protobuf", "text/html"] {
            assert_eq!(of(accept), Err(406), "{accept}");
        }
    }
}
