//! What the API server holds, followed by watches: when a case changed last, what it is now,
//! and which names and uids its objects had.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control_client::{
    Client, Meta, Reflector, Resource, Selection, View, reflect_resource, resources,
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::mpsc;

/// The resources that are compared.
pub fn compared() -> Vec<Resource> {
    vec![
        resources::PODS,
        resources::REPLICATION_CONTROLLERS,
        resources::SERVICES,
        resources::ENDPOINTS,
        resources::CONFIG_MAPS,
        resources::SERVICE_ACCOUNTS,
        resources::RESOURCE_QUOTAS,
        resources::PERSISTENT_VOLUME_CLAIMS,
        resources::PERSISTENT_VOLUMES,
        resources::NAMESPACES,
        resources::EVENTS,
        resources::DEPLOYMENTS,
        resources::REPLICA_SETS,
        resources::STATEFUL_SETS,
        resources::DAEMON_SETS,
        resources::CONTROLLER_REVISIONS,
        resources::JOBS,
        resources::CRON_JOBS,
        resources::ENDPOINT_SLICES,
        resources::POD_DISRUPTION_BUDGETS,
        AUTOSCALERS,
    ]
}

/// HorizontalPodAutoscaler.
pub const AUTOSCALERS: Resource = Resource::namespaced(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
);

/// An object as the API server shows it.
#[derive(Debug, Clone)]
pub struct Raw {
    meta: Meta,
    /// All of it.
    pub value: Value,
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let meta = Meta::deserialize(&value["metadata"]).map_err(serde::de::Error::custom)?;
        Ok(Self { meta, value })
    }
}

impl View for Raw {
    // Reflectors of these are told their resource.
    const RESOURCE: Resource = resources::PODS;
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// An object that a case had at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What the server made its name of, if it did.
    pub generate_name: Option<String>,
}

impl Known {
    fn of(resource: &Resource, meta: &Meta, object: &Value) -> Self {
        let generated = object["metadata"]["generateName"].as_str();
        Self {
            kind: resource.kind.to_string(),
            name: meta.name.to_string(),
            generate_name: generated.map(ToOwned::to_owned),
        }
    }
}

#[derive(Default)]
struct State {
    /// When something of a case changed last.
    changed: BTreeMap<String, Instant>,
    /// By case and uid.
    known: BTreeMap<String, BTreeMap<String, Known>>,
}

/// The mirror. Watches end when it is dropped.
pub struct Mirror {
    state: Arc<Mutex<State>>,
    reflectors: Vec<(Resource, Reflector<Raw>)>,
    _tasks: tokio::task::JoinSet<()>,
}

/// The case that an object belongs to: `case-N`.
pub fn case_of(namespace: &str, name: &str) -> Option<String> {
    let place = if namespace.is_empty() {
        name
    } else {
        namespace
    };
    let number = place.strip_prefix("case-")?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then(|| format!("case-{digits}"))
}

impl Mirror {
    /// Follows all compared resources; pods go to `pods`, too.
    pub async fn start(client: &Client, pods: mpsc::UnboundedSender<Arc<Raw>>) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let mut tasks = tokio::task::JoinSet::new();
        let mut reflectors = Vec::new();
        for resource in compared() {
            let reflector: Reflector<Raw> =
                reflect_resource(client, resource.clone(), Selection::all());
            let mut changes = reflector.changes();
            let (state, pods, kind) = (Arc::clone(&state), pods.clone(), resource.clone());
            tasks.spawn(async move {
                while let Some(change) = changes.recv().await {
                    let Some(object) = change.latest() else {
                        continue;
                    };
                    note(&state, &kind, object);
                    if kind == resources::PODS
                        && let Some(pod) = change.current
                    {
                        // The kubelet is gone only at the end of the run.
                        let _ = pods.send(pod);
                    }
                }
            });
            reflectors.push((resource, reflector));
        }
        for (_, reflector) in &reflectors {
            reflector.synced().await;
        }
        Self {
            state,
            reflectors,
            _tasks: tasks,
        }
    }

    /// For how long nothing happened in a case.
    pub fn calm(&self, case: &str) -> Duration {
        let changed = lock(&self.state).changed.get(case).copied();
        changed.map_or(Duration::MAX, |at| at.elapsed())
    }

    /// All objects that a case had, and has by `objects`, by their uids.
    pub fn known(&self, case: &str, objects: &[(Resource, Vec<Value>)]) -> BTreeMap<String, Known> {
        let mut known = lock(&self.state)
            .known
            .get(case)
            .cloned()
            .unwrap_or_default();
        for (resource, objects) in objects {
            for object in objects {
                if let Ok(meta) = Meta::deserialize(&object["metadata"]) {
                    let one = Known::of(resource, &meta, object);
                    known.entry(meta.uid.to_string()).or_insert(one);
                }
            }
        }
        known
    }

    /// The objects of a case, by resource.
    pub fn objects(&self, case: &str) -> Vec<(Resource, Vec<Value>)> {
        let of_case = |raw: &Arc<Raw>| {
            let found = case_of(&raw.meta.namespace, &raw.meta.name);
            (found.as_deref() == Some(case)).then(|| raw.value.clone())
        };
        let all = self.reflectors.iter().map(|(resource, reflector)| {
            let snapshot = reflector.cache().snapshot();
            (
                resource.clone(),
                snapshot.iter().filter_map(of_case).collect(),
            )
        });
        all.collect()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(state: &Mutex<State>, resource: &Resource, object: &Raw) {
    let meta = &object.meta;
    let Some(case) = case_of(&meta.namespace, &meta.name) else {
        return;
    };
    let mut state = lock(state);
    if *resource != resources::EVENTS {
        let known = Known::of(resource, meta, &object.value);
        let of_case = state.known.entry(case.clone()).or_default();
        of_case.insert(meta.uid.to_string(), known);
    }
    state.changed.insert(case, Instant::now());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_belong_to_the_case_of_their_namespace_or_name() {
        let case = |namespace, name| case_of(namespace, name);
        assert_eq!(case("case-12", "x").as_deref(), Some("case-12"));
        assert_eq!(case("case-12-other", "x").as_deref(), Some("case-12"));
        assert_eq!(case("", "case-7-volume").as_deref(), Some("case-7"));
        assert_eq!(case("kube-system", "case-7"), None);
        assert_eq!(case("case-x", "y"), None);
    }
}
