//! What is made of metrics before they are answered: as they are, or a table with
//! the columns of metrics-server's.

use control_types::quantity::{Format as Notation, Quantity};
use control_types::status::Status;
use control_types::value::Value;
use control_types::{duration, value};
use http::HeaderMap;

use control_registry::reply::{self, Answer};
use control_request::negotiate::{Format, Include, Shape};

/// Group and version.
pub(crate) const API_VERSION: &str = "metrics.k8s.io/v1beta1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Nodes,
    Pods,
}

/// Returns the response format that the client prefers. Metrics have no metadata-only form,
/// so it is passed over for the next accepted one.
///
/// # Errors
/// 406 when the client accepts no other format.
pub(super) fn format(headers: &HeaderMap, query: Option<&str>) -> Result<Format, Status> {
    Format::among(headers, query, |format| format.shape != Shape::Metadata)
}

/// Returns the response for one row, or for a list of them.
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

/// Builds a table. The first row determines the columns, so a table without rows has none.
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
    fn list(self) -> &'static str {
        match self {
            Self::Nodes => "NodeMetricsList",
            Self::Pods => "PodMetricsList",
        }
    }

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
    use control_types::protobuf;
    use http::HeaderValue;
    use http::header::ACCEPT;
    use http_body_util::BodyExt as _;

    use super::*;
    use control_request::negotiate::Media;

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
    fn a_client_gets_the_first_form_that_it_takes() {
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            let format = format(&headers, None);
            format
                .map(|format| format.media)
                .map_err(|status| status.code)
        };
        for accept in [
            "application/vnd.kubernetes.protobuf, */*",
            "application/vnd.kubernetes.protobuf",
            "application/vnd.kubernetes.protobuf,application/json",
        ] {
            assert_eq!(of(accept), Ok(Media::Protobuf), "{accept}");
        }
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        for accept in ["application/json", "*/*", "", partial] {
            assert_eq!(of(accept), Ok(Media::Json), "{accept}");
        }
        assert_eq!(of("application/yaml"), Ok(Media::Yaml));
        assert_eq!(of("text/html"), Err(406));
    }

    /// The bytes that the Go types of `k8s.io/metrics` v0.36.3 give for a NodeMetrics and
    /// for a PodMetricsList of one pod, as their serializer writes them.
    const NODE: &str = "6b3873000a250a166d6574726963732e6b38732e696f2f76316265746131120b4e6f64654d657472\
        696373125c0a210a016e12001a0022002a00320038004208088fe2cfaa0610005a060a0161120162\
        1208088fe2cfaa0610001a060880acc7f03722130a03637075120c0a0a3134303639303132346e22\
        100a066d656d6f727912060a0431304b691a002200";
    const PODS: &str = "6b3873000a280a166d6574726963732e6b38732e696f2f76316265746131120e506f644d65747269\
        63734c6973741281010a060a0012001a0012770a1a0a017012001a016422002a0032003800420808\
        8fe2cfaa0610001208088fe2cfaa0610001a070880c1ffa9980222230a0161120d0a036370751206\
        0a043130306d120f0a066d656d6f727912050a03324b6922210a0162120a0a0363707512030a0132\
        12100a066d656d6f727912060a04313032351a002200";

    async fn in_protobuf(kind: Kind, rows: Vec<Value>, list: bool) -> Vec<u8> {
        let format = Format {
            media: Media::Protobuf,
            ..Format::default()
        };
        let answer = answer(kind, rows, list, format).expect("an answer");
        assert_eq!(
            answer.headers()[http::header::CONTENT_TYPE],
            "application/vnd.kubernetes.protobuf"
        );
        let body = answer.into_body().collect().await.expect("a body");
        body.to_bytes().to_vec()
    }

    #[tokio::test]
    async fn the_protobuf_form_is_that_of_the_go_types() {
        let bytes = |hex: &str| -> Vec<u8> {
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
            (0..hex.len()).step_by(2).map(byte).collect()
        };
        let at = "2023-11-14T22:13:35Z";
        let node = value!({
            "kind": "NodeMetrics", "apiVersion": API_VERSION,
            "metadata": {"name": "n", "creationTimestamp": at, "labels": {"a": "b"}},
            "timestamp": at, "window": "15s",
            "usage": {"cpu": "140690124n", "memory": "10Ki"}
        });
        let made = in_protobuf(Kind::Nodes, vec![node.clone()], false).await;
        assert_eq!(made, bytes(NODE));
        let read = protobuf::decode(&made).expect("an object");
        for key in ["kind", "apiVersion", "timestamp", "window", "usage"] {
            assert_eq!(read.get(key), node.get(key), "{key}");
        }

        let pod = value!({
            "kind": "PodMetrics", "apiVersion": API_VERSION,
            "metadata": {"name": "p", "namespace": "d", "creationTimestamp": at},
            "timestamp": at, "window": "1m15.25s",
            "containers": [
                {"name": "a", "usage": {"cpu": "100m", "memory": "2Ki"}},
                {"name": "b", "usage": {"cpu": "2", "memory": "1025"}}
            ]
        });
        let made = in_protobuf(Kind::Pods, vec![pod], true).await;
        assert_eq!(made, bytes(PODS));
        let read = protobuf::decode(&made).expect("a list");
        assert_eq!(read.str_at(&["kind"]), Some("PodMetricsList"));
        let items = read.items_at(&["items"]);
        assert_eq!(items[0].str_at(&["window"]), Some("1m15.25s"));
        assert_eq!(
            items[0].items_at(&["containers"])[1].str_at(&["usage", "memory"]),
            Some("1025")
        );
    }
}
