//! What nodes and pods use, and how it is answered.

use std::sync::Arc;

use arc_swap::ArcSwap;
use control_types::labels::Selector;
use control_types::status::Status;
use control_types::value::{Map, Value};
use control_types::{fields, meta, time, value};
use http::Method;
use jiff::Timestamp;
use rustc_hash::FxHashMap;

use crate::sample::{Sample, Usage};
use crate::shape::{self, API_VERSION, Kind};
use control_registry::reply::{self, Answer};
use control_registry::{Context, Storage};
use control_request::options::ListOptions;

/// The group.
pub const GROUP: &str = "metrics.k8s.io";
/// Its version.
pub const VERSION: &str = "v1beta1";

/// What nodes said last.
#[derive(Debug)]
pub struct NodeMetrics {
    pub(crate) storage: Arc<Storage>,
    pub(crate) nodes: ArcSwap<FxHashMap<String, Arc<Pair>>>,
}

/// The last two answers of a node.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) before: Arc<Sample>,
    pub(crate) last: Arc<Sample>,
}

/// What discovery says of the version, in the aggregated form.
#[must_use]
pub fn entry() -> Value {
    let resource = |plural: &str, kind: &str, scope: &str| {
        value!({
            "resource": plural,
            "responseKind": {"group": "", "version": "", "kind": kind},
            "scope": scope, "singularResource": "", "verbs": ["get", "list"]
        })
    };
    value!({
        "version": VERSION,
        "resources": [
            (resource("nodes", "NodeMetrics", "Cluster")),
            (resource("pods", "PodMetrics", "Namespaced"))
        ],
        "freshness": "Current"
    })
}

fn resource_list() -> Value {
    let row = |name: &str, kind: &str, namespaced: bool| {
        value!({
            "name": name, "singularName": "", "namespaced": namespaced, "kind": kind,
            "verbs": ["get", "list"]
        })
    };
    value!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION,
        "resources": [(row("nodes", "NodeMetrics", false)), (row("pods", "PodMetrics", true))]
    })
}

impl NodeMetrics {
    /// Knows nothing yet of the nodes and pods of `storage`.
    #[must_use]
    pub fn new(storage: Arc<Storage>) -> Self {
        Self {
            storage,
            nodes: ArcSwap::default(),
        }
    }

    /// Answers a request below the group's version.
    ///
    /// # Errors
    /// 404 for paths that are not served, and for nodes and pods that nothing is
    /// known of (yet); 405 for what is no reading; 400 for bad selectors.
    pub fn answer(&self, context: &Context) -> Answer {
        let info = &context.info;
        if context.parts.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        if !info.is_resource {
            return Ok(reply::json(200, reply::line(&resource_list().to_vec())));
        }
        let format = shape::format(&context.parts.headers, context.query())?;
        let kind = match (&*info.resource, info.namespace.is_empty()) {
            ("nodes", true) => Kind::Nodes,
            ("pods", _) => Kind::Pods,
            _ => return Err(Status::unknown_path()),
        };
        if !info.subresource.is_empty() || info.verb == "watch" {
            return Err(Status::method_not_allowed());
        }
        let known = self.nodes.load_full();
        if info.name_in_path {
            if kind == Kind::Pods && info.namespace.is_empty() {
                return Err(Status::unknown_path());
            }
            let found = self.rows(&known, kind, &info.namespace, |name, _| name == info.name)?;
            if found.is_empty() {
                return Err(Status::not_found(GROUP, &info.resource, &info.name));
            }
            return shape::answer(kind, found, false, format);
        }
        let options = ListOptions::parse(context.query())?;
        let bad = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
        let labels = Selector::parse(&options.label_selector).map_err(|error| bad(&error))?;
        let wanted =
            fields::FieldSelector::parse(&options.field_selector).map_err(|error| bad(&error))?;
        let name = wanted.exact("metadata.name").map(str::to_owned);
        let items = self.rows(&known, kind, &info.namespace, |known, object| {
            name.as_deref().is_none_or(|name| name == known) && labels.matches(object)
        })?;
        shape::answer(kind, items, true, format)
    }

    /// The rows of the objects that `wanted` takes, of which something is known.
    fn rows(
        &self,
        known: &FxHashMap<String, Arc<Pair>>,
        kind: Kind,
        namespace: &str,
        wanted: impl Fn(&str, &Value) -> bool,
    ) -> Result<Vec<Value>, Status> {
        let plural = match kind {
            Kind::Nodes => "nodes",
            Kind::Pods => "pods",
        };
        let state = self.storage.resource("", plural)?.cache()?.state();
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let mut found = Vec::new();
        for object in state.objects.prefixed(&prefix) {
            let object = object.value().map_err(Status::internal)?;
            if !wanted(meta::name(&object), &object) {
                continue;
            }
            let node = match kind {
                Kind::Nodes => meta::name(&object),
                Kind::Pods => object.str_at(&["spec", "nodeName"]).unwrap_or_default(),
            };
            let Some(pair) = known.get(node) else {
                continue;
            };
            found.extend(match kind {
                Kind::Nodes => node_row(&object, pair),
                Kind::Pods => pod_row(&object, pair),
            });
        }
        Ok(found)
    }
}

fn node_row(node: &Value, pair: &Pair) -> Option<Value> {
    let used = usage(pair, &pair.before.node, &pair.last.node)?;
    let mut row = row("NodeMetrics", node, pair);
    row.insert("usage", used);
    Some(Value::Object(row))
}

/// A pod of which at least one container is known.
fn pod_row(pod: &Value, pair: &Pair) -> Option<Value> {
    let key = (meta::namespace(pod).to_owned(), meta::name(pod).to_owned());
    let (before, last) = (pair.before.pods.get(&key)?, pair.last.pods.get(&key)?);
    let containers: Vec<Value> = pod
        .items_at(&["spec", "containers"])
        .iter()
        .filter_map(|container| {
            let name = container.str_at(&["name"])?;
            let used = usage(pair, before.get(name)?, last.get(name)?)?;
            Some(value!({"name": name, "usage": used}))
        })
        .collect();
    if containers.is_empty() {
        return None;
    }
    let mut row = row("PodMetrics", pod, pair);
    row.insert("containers", containers);
    Some(Value::Object(row))
}

fn row(kind: &'static str, object: &Value, pair: &Pair) -> Map {
    let mut metadata = Map::new();
    metadata.insert("name", meta::name(object));
    if !meta::namespace(object).is_empty() {
        metadata.insert("namespace", meta::namespace(object));
    }
    metadata.insert("creationTimestamp", time::format(Timestamp::now()).as_str());
    if let Some(labels) = object.path(&["metadata", "labels"]) {
        metadata.insert("labels", labels.clone());
    }
    let window = pair.last.at.duration_since(pair.before.at).as_millis();
    let window = i64::try_from(window).unwrap_or(i64::MAX);
    let mut row = Map::new();
    row.insert("kind", kind);
    row.insert("apiVersion", API_VERSION);
    row.insert("metadata", metadata);
    row.insert("timestamp", time::format(pair.last.at).as_str());
    row.insert("window", shape::span(window));
    row
}

/// What was used between two answers; nothing when the counter began anew.
fn usage(pair: &Pair, before: &Usage, last: &Usage) -> Option<Value> {
    let seconds = pair.last.at.duration_since(pair.before.at).as_secs_f64();
    let used = last.cpu_seconds? - before.cpu_seconds?;
    if seconds <= 0.0 || used < 0.0 {
        return None;
    }
    // Billionths of a core, which fit a double's 53 bits by far.
    let nano = (used / seconds * 1e9).round() as i64;
    let bytes = last.memory_bytes? as i64;
    Some(value!({"cpu": (shape::cores(nano)), "memory": (shape::bytes(bytes))}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(before: &str, last: &str, seconds: i64) -> Pair {
        let at = |second| Timestamp::from_second(1_700_000_000 + second).expect("in range");
        Pair {
            before: Arc::new(Sample::parse(before, at(0))),
            last: Arc::new(Sample::parse(last, at(seconds))),
        }
    }

    #[test]
    fn cpu_is_the_difference_of_two_answers_and_memory_the_last() {
        let pair = pair(
            "node_cpu_usage_seconds_total 100\nnode_memory_working_set_bytes 4096\n",
            "node_cpu_usage_seconds_total 103\nnode_memory_working_set_bytes 10240\n",
            15,
        );
        let node = value!({"metadata": {"name": "n", "labels": {"a": "b"}}});
        let row = node_row(&node, &pair).expect("a row");
        assert_eq!(
            row.get("usage"),
            Some(&value!({"cpu": "200m", "memory": "10Ki"}))
        );
        assert_eq!(row.str_at(&["window"]), Some("15s"));
        assert_eq!(row.str_at(&["timestamp"]), Some("2023-11-14T22:13:35Z"));
        assert_eq!(row.str_at(&["metadata", "labels", "a"]), Some("b"));
    }

    #[test]
    fn a_pod_has_the_containers_that_both_answers_know() {
        let line = |container: &str, cpu: f64| {
            format!(
                "container_cpu_usage_seconds_total{{container=\"{container}\",namespace=\"d\",pod=\"p\"}} {cpu}\n\
                 container_memory_working_set_bytes{{container=\"{container}\",namespace=\"d\",pod=\"p\"}} 2048\n"
            )
        };
        let pair = pair(
            &(line("a", 1.0) + &line("restarted", 50.0)),
            &(line("a", 2.5) + &line("restarted", 0.1) + &line("new", 1.0)),
            15,
        );
        let pod = value!({"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [
            {"name": "a"}, {"name": "new"}, {"name": "restarted"}
        ]}});
        let row = pod_row(&pod, &pair).expect("a row");
        assert_eq!(
            row.get("containers"),
            Some(&value!([{"name": "a", "usage": {"cpu": "100m", "memory": "2Ki"}}]))
        );
        let other = value!({"metadata": {"name": "q", "namespace": "d"}});
        assert_eq!(pod_row(&other, &pair), None);
    }
}
