//! Reads the resource, custom and external metrics APIs.

use std::collections::BTreeMap;

use control_client::{Client, Discard, Error, Resource, Selection};
use control_types::{duration, labels::Selector, registry};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::decide::MetricsAnswer;
use super::error::{MetricError, ScaleError};
use super::replicas::{Sample, Samples};
use super::view::{CustomMetric, MetricSpec, ObjectRef, milli};
use crate::views::{LabelSelector, Text, null_as_default};

/// The window of metrics that do not say theirs.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
const POD_METRICS: Resource =
    Resource::namespaced("metrics.k8s.io", "v1beta1", "pods", "PodMetrics");
const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodMetrics {
    metadata: control_client::Meta,
    timestamp: Option<Timestamp>,
    window: String,
    #[serde(deserialize_with = "null_as_default")]
    containers: Vec<ContainerMetrics>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerMetrics {
    name: Text,
    #[serde(deserialize_with = "null_as_default")]
    usage: BTreeMap<Text, Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MetricValues {
    #[serde(deserialize_with = "null_as_default")]
    items: Vec<MetricValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetricValue {
    described_object: ObjectRef,
    timestamp: Option<Timestamp>,
    #[serde(alias = "window")]
    window_seconds: Option<i64>,
    value: Text,
}

/// Reads a metric of a target whose pods `selector` selects.
///
/// # Errors
/// The reason of the failure, in upstream's words.
pub(super) async fn fetch(
    client: &Client,
    namespace: &str,
    selector: &str,
    spec: &MetricSpec,
) -> Result<MetricsAnswer, MetricError> {
    match (
        spec.r#type.as_str(),
        &spec.resource,
        &spec.container_resource,
    ) {
        ("Resource", Some(metric), _) => {
            resource(client, namespace, selector, (&metric.name, "")).await
        }
        ("ContainerResource", _, Some(metric)) => {
            resource(
                client,
                namespace,
                selector,
                (&metric.name, &metric.container),
            )
            .await
        }
        _ => match (
            spec.r#type.as_str(),
            &spec.pods,
            &spec.object,
            &spec.external,
        ) {
            ("Pods", Some(metric), ..) => of_pods(client, namespace, selector, metric).await,
            ("Object", _, Some(metric), _) => of_object(client, namespace, metric).await,
            ("External", .., Some(metric)) => external(client, namespace, metric).await,
            _ => Err(MetricError::Source),
        },
    }
}

async fn resource(
    client: &Client,
    namespace: &str,
    selector: &str,
    (resource, container): (&str, &str),
) -> Result<MetricsAnswer, MetricError> {
    const API: &str = "resource metrics API";
    let selection = Selection::all().namespace(namespace).labels(selector);
    let metrics = client.list::<PodMetrics>(&POD_METRICS, &selection).await;
    let metrics = metrics.map_err(|error| unavailable(API, &error))?;
    if metrics.items.is_empty() {
        return Err(MetricError::Empty(API));
    }
    let mut samples = Samples::new();
    for pod in &metrics.items {
        let mut counted = pod
            .containers
            .iter()
            .filter(|one| container.is_empty() || one.name == container)
            .map(|one| one.usage.get(resource).and_then(|usage| milli(usage)))
            .peekable();
        if counted.peek().is_none() {
            continue;
        }
        // one container without the metric makes that of the pod unknown
        let value = counted.try_fold(0_i64, |sum, usage| Some(sum.saturating_add(usage?)));
        if let Some(value) = value {
            let window = duration::parse(&pod.window).map(SignedDuration::from_nanos);
            let sample = Sample {
                value,
                timestamp: pod.timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
                window: window.unwrap_or(SignedDuration::ZERO),
            };
            samples.insert(pod.metadata.name.clone(), sample);
        }
    }
    Ok(MetricsAnswer::Samples(samples))
}

async fn of_pods(
    client: &Client,
    namespace: &str,
    selector: &str,
    metric: &CustomMetric,
) -> Result<MetricsAnswer, MetricError> {
    let labels = query_of(metric.metric.selector.as_ref())?;
    let values = custom(client, |version| {
        let name = &metric.metric.name;
        let path = format!("/apis/{CUSTOM}/{version}/namespaces/{namespace}/pods/*/{name}");
        with_query(
            &path,
            &[
                ("labelSelector", selector),
                ("metricLabelSelector", &labels),
            ],
        )
    })
    .await?;
    if values.is_empty() {
        return Err(MetricError::Empty("custom metrics API"));
    }
    let sample = |value: &MetricValue| {
        let window = value.window_seconds.map(SignedDuration::from_secs);
        let sample = Sample {
            value: milli(&value.value).unwrap_or(0),
            timestamp: value.timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            window: window.unwrap_or(WINDOW),
        };
        (value.described_object.name.clone(), sample)
    };
    Ok(MetricsAnswer::Samples(values.iter().map(sample).collect()))
}

async fn of_object(
    client: &Client,
    namespace: &str,
    metric: &CustomMetric,
) -> Result<MetricsAnswer, MetricError> {
    let object = &metric.described_object;
    let (group, version) = group_version(&object.api_version);
    let is_namespace = object.kind == "Namespace" && group.is_empty();
    let resource = if is_namespace {
        String::new()
    } else {
        let found = scalable(client, (group, version, &object.kind)).await;
        let found = found.map_err(|error| MetricError::Mapping(error.to_string()))?;
        found.to_string()
    };
    let labels = query_of(metric.metric.selector.as_ref())?;
    let values = custom(client, |version| {
        let (name, of) = (&metric.metric.name, &object.name);
        let base = format!("/apis/{CUSTOM}/{version}/namespaces/{namespace}");
        let path = if is_namespace {
            format!("{base}/metrics/{name}")
        } else {
            format!("{base}/{resource}/{of}/{name}")
        };
        with_query(&path, &[("metricLabelSelector", &labels)])
    })
    .await?;
    match values.as_slice() {
        [one] => Ok(MetricsAnswer::Values(vec![milli(&one.value).unwrap_or(0)])),
        many => Err(MetricError::Count(many.len())),
    }
}

async fn external(
    client: &Client,
    namespace: &str,
    metric: &CustomMetric,
) -> Result<MetricsAnswer, MetricError> {
    const API: &str = "external metrics API";
    let path = format!("{EXTERNAL}/namespaces/{namespace}/{}", metric.metric.name);
    let labels = query_of(metric.metric.selector.as_ref())?;
    let path = with_query(&path, &[("labelSelector", &labels)]);
    let values: Result<MetricValues, Error> = client.request(Method::GET, &path, None::<&()>).await;
    let values = values.map_err(|error| unavailable(API, &error))?.items;
    if values.is_empty() {
        return Err(MetricError::Empty(API));
    }
    let values = values.iter().map(|one| milli(&one.value).unwrap_or(0));
    Ok(MetricsAnswer::Values(values.collect()))
}

/// Asks the custom metrics API in the newest version that it serves.
async fn custom(
    client: &Client,
    path: impl Fn(&str) -> String,
) -> Result<Vec<MetricValue>, MetricError> {
    let newest = ask(client, &path("v1beta2")).await;
    let answer = match newest {
        Err(error) if error.is_not_found() => {
            // either the version or the metric is not there
            let version = format!("/apis/{CUSTOM}/v1beta2");
            let served: Result<Discard, Error> =
                client.request(Method::GET, &version, None::<&()>).await;
            match served {
                Err(absent) if absent.is_not_found() => ask(client, &path("v1beta1")).await,
                _ => Err(error),
            }
        }
        other => other,
    };
    answer.map_err(|error| unavailable("custom metrics API", &error))
}

async fn ask(client: &Client, path: &str) -> Result<Vec<MetricValue>, Error> {
    let values: MetricValues = client.request(Method::GET, path, None::<&()>).await?;
    Ok(values.items)
}

fn unavailable(api: &'static str, error: &Error) -> MetricError {
    let absent = error
        .status()
        .is_some_and(|status| status.code == 404 && status.details.kind.is_empty());
    let why = if absent && api == "resource metrics API" {
        // The error that client-go creates for a response without a status.
        "the server could not find the requested resource (get pods.metrics.k8s.io)".to_owned()
    } else {
        error.chain()
    };
    MetricError::Unavailable { api, why }
}

/// The resource of a kind.
///
/// # Errors
/// When no server has such a kind, or does not answer.
pub(super) async fn scalable(
    client: &Client,
    (group, version, kind): (&str, &str, &str),
) -> Result<Resource, ScaleError> {
    #[derive(Deserialize)]
    struct Served {
        #[serde(default)]
        resources: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
        kind: String,
        #[serde(default)]
        namespaced: bool,
    }
    let resource = |plural: String, namespaced: bool| Resource {
        group: group.to_owned().into(),
        version: version.to_owned().into(),
        plural: plural.into(),
        kind: kind.to_owned().into(),
        namespaced,
    };
    if let Some(row) = registry::lookup_kind(group, version, kind) {
        return Ok(resource(row.plural.to_owned(), row.namespaced));
    }
    let base = if group.is_empty() {
        "/api".to_owned()
    } else {
        format!("/apis/{group}")
    };
    let path = format!("{base}/{version}");
    let served: Result<Served, Error> = client.request(Method::GET, &path, None::<&()>).await;
    let unknown = || ScaleError::NoMatch {
        kind: kind.to_owned(),
        group: group.to_owned(),
    };
    match served {
        Ok(served) => {
            let mut named = served.resources.into_iter();
            let found = named.find(|one| one.kind == kind && !one.name.contains('/'));
            found
                .map(|one| resource(one.name, one.namespaced))
                .ok_or_else(unknown)
        }
        Err(error) if error.is_not_found() => Err(unknown()),
        Err(error) => Err(ScaleError::Client(error)),
    }
}

/// Group and version of an `apiVersion`.
pub(super) fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// A selector as a query takes it; empty without one.
fn query_of(selector: Option<&LabelSelector>) -> Result<String, MetricError> {
    let selector = selector.map(Selector::try_from).transpose();
    let selector = selector.map_err(MetricError::Selector)?;
    Ok(selector.map(|it| it.to_string()).unwrap_or_default())
}

/// A path with the parts of a query that are not empty.
fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut whole = path.to_owned();
    let mut separator = '?';
    for (key, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        whole.push(separator);
        whole.push_str(key);
        whole.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                whole.push(char::from(byte));
            } else {
                whole.push_str(&format!("%{byte:02X}"));
            }
        }
        separator = '&';
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_become_queries() {
        let selector: LabelSelector = serde_json::from_value(serde_json::json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]},
                {"key": "f", "operator": "DoesNotExist"}]}))
        .unwrap();
        let text = query_of(Some(&selector)).unwrap();
        assert_eq!(text, "a=b,c in (d,e),!f");
        assert_eq!(
            with_query("/p", &[("x", ""), ("labelSelector", &text)]),
            "/p?labelSelector=a%3Db%2Cc%20in%20%28d%2Ce%29%2C%21f"
        );
        let unknown: LabelSelector = serde_json::from_value(serde_json::json!({
            "matchExpressions": [{"key": "a", "operator": "Near"}]}))
        .unwrap();
        let error = query_of(Some(&unknown)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"Near\" is not a valid label selector operator"
        );
    }
}
