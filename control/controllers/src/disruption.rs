//! PodDisruptionBudgets: how many pods are healthy, how many must be, and how
//! many may be evicted now.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Error, Meta, OwnerReference, Queue, resources};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{
    Deployment, IntOrString, LabelSelector, Pod, PodDisruptionBudget, ReplicaSet,
    ReplicationController, StatefulSet, Text,
};
use crate::work::{self, Outcome};

/// An eviction that was granted and not seen by then did not happen.
const FORGOTTEN: Duration = Duration::from_secs(120);
const CONDITION: &str = "DisruptionAllowed";

/// Keeps the statuses of budgets.
pub const CONTROLLER: Controller = Controller {
    name: "disruption-controller",
    service_account: "disruption-controller",
    start: |ctx| {
        let this = Arc::new(Disruption {
            client: ctx.client.clone(),
            recorder: ctx.recorder("controllermanager"),
            budgets: ctx.budgets(),
            pods: ctx.pods(),
            owners: ScaleOwners {
                deployments: ctx.deployments(),
                replica_sets: ctx.replica_sets(),
                controllers: ctx.replication_controllers(),
                stateful_sets: ctx.stateful_sets(),
            },
            queue: work::queue(),
        });
        this.budgets.queue_present(&this.queue);
        let listener = Arc::clone(&this);
        this.pods.on_change(move |change| {
            for pod in [&change.previous, &change.current].into_iter().flatten() {
                listener.of_pod(pod);
            }
        });
        // How many pods there should be is their owners' to say.
        let listener = Arc::clone(&this);
        let namespace = move |name: &str| {
            for budget in listener.budgets.namespace(name) {
                listener.queue.add(Key::from_meta(&budget.metadata));
            }
        };
        let (one, two, three) = (namespace.clone(), namespace.clone(), namespace.clone());
        this.owners.deployments.on_change(move |change| {
            if let Some(object) = &change.current {
                namespace(&object.metadata.namespace);
            }
        });
        this.owners.replica_sets.on_change(move |change| {
            if let Some(object) = &change.current {
                one(&object.metadata.namespace);
            }
        });
        this.owners.controllers.on_change(move |change| {
            if let Some(object) = &change.current {
                two(&object.0.metadata.namespace);
            }
        });
        this.owners.stateful_sets.on_change(move |change| {
            if let Some(object) = &change.current {
                three(&object.metadata.namespace);
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.budgets.ready().await;
            this.pods.ready().await;
            this.owners.deployments.ready().await;
            this.owners.replica_sets.ready().await;
            this.owners.controllers.ready().await;
            this.owners.stateful_sets.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("disruption", 2, &shutdown, work).await;
        })
    },
};

/// The objects that determine how many pods are expected.
struct ScaleOwners {
    deployments: Arc<KindCache<Deployment>>,
    replica_sets: Arc<KindCache<ReplicaSet>>,
    controllers: Arc<KindCache<ReplicationController>>,
    stateful_sets: Arc<KindCache<StatefulSet>>,
}

struct Disruption {
    client: Client,
    recorder: Recorder,
    budgets: Arc<KindCache<PodDisruptionBudget>>,
    pods: Arc<KindCache<Pod>>,
    owners: ScaleOwners,
    queue: Queue<Key>,
}

impl ScaleOwners {
    /// The uid and replica count of the workload that scales the pods with this controller.
    /// An object with the same name but another uid or kind does not count.
    fn scale(&self, namespace: &str, owner: &OwnerReference) -> Option<(Text, i32)> {
        let of_meta = |meta: &Meta, replicas: Option<i32>| {
            (meta.uid == owner.uid).then(|| (meta.uid.clone(), replicas.unwrap_or(1)))
        };
        match (group(owner), owner.kind.as_str()) {
            ("apps" | "extensions", "ReplicaSet") => {
                let set = self.replica_sets.get(namespace, &owner.name)?;
                let own = of_meta(&set.metadata, set.spec.replicas)?;
                let above = set.metadata.controller();
                let above = above.and_then(|above| self.deployment(namespace, above));
                Some(above.unwrap_or(own))
            }
            ("", "ReplicationController") => {
                let found = self.controllers.get(namespace, &owner.name)?;
                of_meta(&found.0.metadata, found.0.spec.replicas)
            }
            ("apps", "StatefulSet") => {
                let found = self.stateful_sets.get(namespace, &owner.name)?;
                of_meta(&found.metadata, found.spec.replicas)
            }
            _ => None,
        }
    }

    /// The uid and replica count of the Deployment that controls a ReplicaSet.
    fn deployment(&self, namespace: &str, above: &OwnerReference) -> Option<(Text, i32)> {
        let is_one = matches!(group(above), "apps" | "extensions") && above.kind == "Deployment";
        let found = self.deployments.get(namespace, &above.name);
        found
            .filter(|found| is_one && found.metadata.uid == above.uid)
            .map(|found| {
                let replicas = found.spec.replicas.unwrap_or(1);
                (found.metadata.uid.clone(), replicas)
            })
    }
}

/// The group of an owner.
fn group(owner: &OwnerReference) -> &str {
    owner
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group)
}

/// The status computed for a budget.
#[derive(Debug, PartialEq, Eq)]
struct BudgetVerdict {
    allowed: i32,
    healthy: i32,
    wanted: i32,
    expected: i32,
    disrupted: BTreeMap<Text, Timestamp>,
    /// When a granted eviction is forgotten next.
    look_again: Option<Duration>,
}

/// Reason why a budget cannot be evaluated; the message is kube-controller-manager's.
#[derive(Debug, thiserror::Error)]
enum BudgetError {
    #[error("invalid value for IntOrString: {0:?}")]
    Value(IntOrString),
    #[error("found no controllers for pod {0:?}")]
    NoController(Text),
}

/// Evaluates a budget for its pods. `scales` holds, for each owner of the pods (by uid),
/// the expected number of pods.
///
/// # Errors
/// [`BudgetError`].
fn decide(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    scales: &HashMap<Text, i32>,
    now: Timestamp,
) -> Result<BudgetVerdict, BudgetError> {
    let count = i32::try_from(pods.len()).unwrap_or(i32::MAX);
    let scale = || {
        scales
            .values()
            .fold(0_i32, |sum, one| sum.saturating_add(*one))
    };
    let (expected, wanted) = match (&budget.spec.max_unavailable, &budget.spec.min_available) {
        (Some(most), _) => {
            let scale = scale();
            let most = scaled(most, scale)?;
            (scale, scale.saturating_sub(most).max(0))
        }
        (None, Some(IntOrString::Int(least))) => (count, *least),
        (None, Some(least)) => {
            let scale = scale();
            (scale, scaled(least, scale)?)
        }
        (None, None) => (count, 0),
    };
    let mut disrupted = BTreeMap::new();
    let mut look_again: Option<Duration> = None;
    for (name, granted) in &budget.status.disrupted_pods {
        let waits = pods
            .iter()
            .any(|pod| pod.metadata.name == *name && pod.metadata.deletion_timestamp.is_none());
        let passed = Duration::try_from(now.duration_since(*granted)).unwrap_or_default();
        if let Some(left) = FORGOTTEN.checked_sub(passed)
            && waits
            && !left.is_zero()
        {
            disrupted.insert(name.clone(), *granted);
            look_again = Some(look_again.map_or(left, |known| known.min(left)));
        }
    }
    let healthy = pods
        .iter()
        .filter(|pod| {
            pod.metadata.deletion_timestamp.is_none()
                && !disrupted.contains_key(&pod.metadata.name)
                && pod.is_ready()
        })
        .count();
    let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
    let allowed = if expected <= 0 {
        0
    } else {
        healthy.saturating_sub(wanted).max(0)
    };
    Ok(BudgetVerdict {
        allowed,
        healthy,
        wanted,
        expected,
        disrupted,
        look_again,
    })
}

/// The message for budgets that need the scale of pods which nothing scales; worded as
/// kube-controller-manager words it.
fn unmanaged_pods(selector: &LabelSelector) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be \
         unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may \
         result in undefined behavior. To account for these pods please set \
         \".spec.minAvailable\" field of the PDB to an integer value."
    )
}

/// A number, or a percentage of `whole`, rounded up.
fn scaled(value: &IntOrString, whole: i32) -> Result<i32, BudgetError> {
    value
        .scaled(whole, true)
        .ok_or_else(|| BudgetError::Value(value.clone()))
}

impl Disruption {
    /// Looks at the budgets that a pod counts for.
    fn of_pod(&self, pod: &Pod) {
        for budget in self.budgets.namespace(&pod.metadata.namespace) {
            let selector = budget.spec.selector.as_ref();
            if selector.is_some_and(|selector| selector.matches(|key| pod.metadata.labels.get(key)))
            {
                self.queue.add(Key::from_meta(&budget.metadata));
            }
        }
    }

    /// How many pods the owners of these want, by the owners' uids.
    fn scales(&self, pods: &[Arc<Pod>]) -> Result<HashMap<Text, i32>, BudgetError> {
        let mut scales = HashMap::new();
        for pod in pods {
            let Some(owner) = pod.metadata.controller() else {
                continue;
            };
            let found = self.owners.scale(&pod.metadata.namespace, owner);
            let Some((uid, replicas)) = found else {
                return Err(BudgetError::NoController(pod.metadata.name.clone()));
            };
            scales.insert(uid, replicas);
        }
        Ok(scales)
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(budget) = self.budgets.by_key(&key) else {
            return Ok(None);
        };
        let pods: Vec<Arc<Pod>> = match &budget.spec.selector {
            Some(selector) => self
                .pods
                .namespace(&key.namespace)
                .into_iter()
                .filter(|pod| selector.matches(|key| pod.metadata.labels.get(key)))
                .collect(),
            None => Vec::new(),
        };
        if pods.is_empty() {
            let about =
                ObjectReference::to_object(&resources::POD_DISRUPTION_BUDGETS, &budget.metadata);
            self.recorder
                .normal(&about, "NoPods", "No matching pods found");
        }
        let needs_scale = budget.spec.max_unavailable.is_some()
            || matches!(budget.spec.min_available, Some(IntOrString::Text(_)));
        let scales = if needs_scale {
            self.scales(&pods)
        } else {
            Ok(HashMap::new())
        };
        let now = Timestamp::now();
        let verdict = scales.and_then(|scales| decide(&budget, &pods, &scales, now));
        if let Some(selector) = &budget.spec.selector
            && needs_scale
            && verdict.is_ok()
            && pods.iter().any(|pod| pod.metadata.controller().is_none())
        {
            // The expected number of such pods is unknown.
            let about =
                ObjectReference::to_object(&resources::POD_DISRUPTION_BUDGETS, &budget.metadata);
            self.recorder
                .warning(&about, "UnmanagedPods", unmanaged_pods(selector));
        }
        // The whole object is replaced, since the role grants that alone.
        let resource = &resources::POD_DISRUPTION_BUDGETS;
        let fresh = self
            .client
            .get::<Value>(resource, &key.namespace, &key.name)
            .await;
        let mut fresh = match fresh {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        if fresh
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str)
            != Some(&budget.metadata.resource_version)
        {
            // The cache will report the change.
            return Ok(None);
        }
        let look_again = verdict.as_ref().ok().and_then(|verdict| verdict.look_again);
        if !write(&mut fresh, &verdict, now) {
            return Ok(look_again);
        }
        let done: Result<Value, Error> = self
            .client
            .update_status(resource, &key.namespace, &key.name, &fresh)
            .await;
        match done {
            Err(error) if error.is_not_found() => Ok(None),
            other => other.map(|_| look_again),
        }
    }
}

/// Writes a verdict into the status; `false` if that changes nothing.
fn write(budget: &mut Value, verdict: &Result<BudgetVerdict, BudgetError>, now: Timestamp) -> bool {
    let generation = budget
        .pointer("/metadata/generation")
        .cloned()
        .unwrap_or_default();
    let before = budget.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut status = before.clone();
    let (state, reason, message) = match verdict {
        Ok(verdict) if verdict.allowed > 0 => ("True", "SufficientPods", String::new()),
        Ok(_) => ("False", "InsufficientPods", String::new()),
        Err(error) => ("False", "SyncFailed", error.to_string()),
    };
    match verdict {
        Ok(verdict) => {
            status["observedGeneration"] = generation.clone();
            status["disruptionsAllowed"] = verdict.allowed.into();
            status["currentHealthy"] = verdict.healthy.into();
            status["desiredHealthy"] = verdict.wanted.into();
            status["expectedPods"] = verdict.expected.into();
            if verdict.disrupted.is_empty() {
                if let Some(members) = status.as_object_mut() {
                    members.remove("disruptedPods");
                }
            } else {
                let map: serde_json::Map<String, Value> = verdict
                    .disrupted
                    .iter()
                    .map(|(name, at)| (name.to_string(), at.to_string().into()))
                    .collect();
                status["disruptedPods"] = map.into();
            }
        }
        // Until it can be judged nothing is allowed.
        Err(_) => status["disruptionsAllowed"] = 0.into(),
    }
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let old = conditions
        .iter()
        .position(|condition| condition["type"] == CONDITION);
    let since = old
        .map(|at| &conditions[at])
        .filter(|old| old["status"] == state)
        .map_or_else(
            || now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into(),
            |old| old["lastTransitionTime"].clone(),
        );
    let condition = json!({
        "type": CONDITION,
        "status": state,
        "observedGeneration": generation,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message
    });
    match old {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    status["conditions"] = conditions.into();
    let changed = status != before;
    budget["status"] = status;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::FakeApi;

    fn budget(spec: Value, disrupted: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": {"name": "b", "generation": 1},
            "spec": spec,
            "status": {"disruptedPods": disrupted}
        }))
        .expect("a budget")
    }

    fn pods(count: usize) -> Vec<Arc<Pod>> {
        (0..count)
            .map(|at| {
                Arc::new(
                    serde_json::from_value(json!({
                        "metadata": {"name": format!("p{at}")},
                        "status": {"conditions": [{"type": "Ready", "status": "True"}]}
                    }))
                    .expect("a pod"),
                )
            })
            .collect()
    }

    fn judged(spec: Value, count: usize, scale: i32) -> (i32, i32, i32) {
        let scales = HashMap::from([(Text::from("u"), scale)]);
        let now = Timestamp::UNIX_EPOCH;
        let verdict = decide(&budget(spec, json!({})), &pods(count), &scales, now);
        let verdict = verdict.expect("can be read");
        (verdict.allowed, verdict.wanted, verdict.expected)
    }

    #[test]
    fn what_may_go_is_what_is_more_than_wanted() {
        assert_eq!(judged(json!({"minAvailable": 2}), 3, 9), (1, 2, 3));
        assert_eq!(judged(json!({"minAvailable": 5}), 3, 9), (0, 5, 3));
        assert_eq!(judged(json!({"minAvailable": "50%"}), 3, 3), (1, 2, 3));
        assert_eq!(judged(json!({"maxUnavailable": 1}), 3, 3), (1, 2, 3));
        assert_eq!(judged(json!({"maxUnavailable": "34%"}), 3, 3), (2, 1, 3));
        assert_eq!(judged(json!({"maxUnavailable": 1}), 0, 0), (0, 0, 0));
    }

    #[test]
    fn granted_evictions_count_until_they_are_forgotten() {
        let now: Timestamp = "2026-01-01T00:02:00Z".parse().expect("a time");
        let granted = json!({"p0": "2026-01-01T00:01:00Z", "p1": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:01:59Z"});
        let budget = budget(json!({"minAvailable": 1}), granted);
        let verdict = decide(&budget, &pods(3), &HashMap::new(), now).expect("can be read");
        assert_eq!(verdict.disrupted.keys().collect::<Vec<_>>(), ["p0"]);
        assert_eq!((verdict.healthy, verdict.allowed), (2, 1));
        assert_eq!(verdict.look_again, Some(Duration::from_secs(60)));
    }

    #[test]
    fn a_status_that_says_the_same_is_not_written() {
        let mut object = json!({"metadata": {"generation": 1}});
        let verdict = decide(
            &budget(json!({"minAvailable": 1}), json!({})),
            &pods(2),
            &HashMap::new(),
            Timestamp::UNIX_EPOCH,
        );
        assert!(write(&mut object, &verdict, Timestamp::UNIX_EPOCH));
        assert_eq!(
            object["status"]["conditions"][0]["reason"],
            "SufficientPods"
        );
        assert!(!write(&mut object, &verdict, Timestamp::now()));
        let error = BudgetError::NoController("p".into());
        assert!(write(&mut object, &Err(error), Timestamp::now()));
        assert_eq!(object["status"]["disruptionsAllowed"], 0);
    }

    /// How many pods a budget expects of a ReplicaSet of three, beside a Deployment
    /// of seven, when the set has this controller.
    async fn expected_below(controller: Value) -> Value {
        const BUDGET: &str = "/apis/policy/v1/namespaces/d/poddisruptionbudgets/b";
        let api = FakeApi::new();
        let apps = "/apis/apps/v1/namespaces/d";
        api.put(
            &format!("{apps}/deployments/web"),
            json!({"metadata": {"uid": "deployment"}, "spec": {"replicas": 7}}),
        );
        api.put(
            &format!("{apps}/replicasets/web-1"),
            json!({"metadata": {"uid": "set", "ownerReferences": [controller]},
                "spec": {"replicas": 3}}),
        );
        api.put(
            "/api/v1/namespaces/d/pods/p",
            json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "set",
                    "controller": true}]}}),
        );
        api.put(
            BUDGET,
            json!({"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
        );
        let _running = api.run(&CONTROLLER, crate::Config::default());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let status = api.object(BUDGET).expect("stored")["status"].clone();
        status["expectedPods"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn set_counts_for_a_deployment_only_when_that_deployment_is_its_controller() {
        let reference = |api_version: &str, kind: &str, uid: &str| {
            json!({"apiVersion": api_version, "kind": kind, "name": "web", "uid": uid,
                "controller": true})
        };
        for (controller, expected) in [
            (reference("apps/v1", "Deployment", "deployment"), 7),
            (reference("argoproj.io/v1alpha1", "Rollout", "rollout"), 3),
            (reference("example.com/v1", "Deployment", "deployment"), 3),
            (reference("apps/v1", "Deployment", "one before"), 3),
        ] {
            let found = expected_below(controller.clone()).await;
            assert_eq!(found, expected, "{controller}");
        }
    }

    /// The UnmanagedPods events about a budget for two pods, one of which has no controller.
    async fn unmanaged_events(spec: Value) -> Vec<String> {
        let api = FakeApi::new();
        api.put(
            "/apis/apps/v1/namespaces/d/replicasets/web",
            json!({"metadata": {"uid": "set"}, "spec": {"replicas": 3}}),
        );
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": "set", "controller": true}]);
        for (name, owners) in [("managed", owner), ("bare", json!([]))] {
            api.put(
                &format!("/api/v1/namespaces/d/pods/{name}"),
                json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": owners}}),
            );
        }
        api.put(
            "/apis/policy/v1/namespaces/d/poddisruptionbudgets/b",
            json!({"spec": spec}),
        );
        let _running = api.run(&CONTROLLER, crate::Config::default());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let requests = api.requests();
        let events = requests.iter().filter(|it| it.path.ends_with("/events"));
        let unmanaged = events.filter(|it| it.body["reason"] == "UnmanagedPods");
        unmanaged
            .inspect(|it| assert_eq!(it.body["type"], "Warning"))
            .map(|it| it.body["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn unmanaged_pods_are_told_of_when_a_budget_needs_their_scale() {
        let selector = json!({"matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]});
        for needs_scale in [
            json!({"maxUnavailable": 1, "selector": selector}),
            json!({"minAvailable": "50%", "selector": selector}),
        ] {
            let events = unmanaged_events(needs_scale).await;
            assert!(!events.is_empty());
            for message in events {
                assert_eq!(
                    message,
                    "Pods selected by this PodDisruptionBudget (selector: \
                     &LabelSelector{MatchLabels:map[string]string{app: web,},\
                     MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{\
                     Key:app,Operator:In,Values:[web db],},},}) were found to be unmanaged. As a \
                     result, the status of the PDB cannot be calculated correctly, which may \
                     result in undefined behavior. To account for these pods please set \
                     \".spec.minAvailable\" field of the PDB to an integer value."
                );
            }
        }
        let counts_pods = json!({"minAvailable": 1, "selector": selector});
        assert_eq!(unmanaged_events(counts_pods).await, [""; 0]);
        let matches_none = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}});
        assert_eq!(unmanaged_events(matches_none).await, [""; 0]);
    }

    #[test]
    fn group_of_an_owner_is_what_stands_before_the_version() {
        let owner = |api_version: &str| OwnerReference {
            api_version: api_version.into(),
            ..OwnerReference::default()
        };
        assert_eq!(group(&owner("apps/v1")), "apps");
        assert_eq!(group(&owner("v1")), "");
    }
}
