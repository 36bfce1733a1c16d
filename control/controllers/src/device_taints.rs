//! Eviction of pods whose devices have `NoExecute` taints that their claims do not
//! tolerate.
//!
//! Taints of DeviceTaintRules are not read: their feature gate is off by default.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, DeleteOptions, Discard, Patch, Queue, resources};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::node::tolerates;
use crate::resource_claim::claims_in_use;
use crate::views::{Pod, ResourceClaim, ResourceSlice, Taint, Text, seconds_now};
use crate::work::{self, Outcome};

/// Evicts pods from tainted devices.
pub const CONTROLLER: Controller = Controller {
    name: "device-taint-eviction-controller",
    service_account: "device-taint-eviction-controller",
    start,
};

const REASON: &str = "DeviceTaintManagerEviction";

/// The `NoExecute` taints of devices, by driver, pool and name.
type DeviceTaints = HashMap<(Text, Text, Text), Vec<Taint>>;

/// The taints of all devices. Of a pool only the slices of the newest generation count.
fn device_taints(slices: &[Arc<ResourceSlice>]) -> DeviceTaints {
    let mut newest: HashMap<(&Text, &Text), i64> = HashMap::new();
    for slice in slices {
        let pool = &slice.spec.pool;
        let generation = newest.entry((&slice.spec.driver, &pool.name)).or_default();
        *generation = pool.generation.max(*generation);
    }
    let mut found = DeviceTaints::new();
    for slice in slices {
        let (driver, pool) = (&slice.spec.driver, &slice.spec.pool);
        if newest.get(&(driver, &pool.name)) != Some(&pool.generation) {
            continue;
        }
        for device in &slice.spec.devices {
            let mut taints = device.taints.clone();
            taints.retain(|taint| taint.effect == "NoExecute");
            if !taints.is_empty() {
                let key = (driver.clone(), pool.name.clone(), device.name.clone());
                found.insert(key, taints);
            }
        }
    }
    found
}

/// When the users of a claim have to go: after the shortest toleration of each taint.
fn eviction_time(claim: &ResourceClaim, taints: &DeviceTaints) -> Option<Timestamp> {
    let allocation = claim.status.allocation.as_ref()?;
    let times = allocation.devices.results.iter().flat_map(|device| {
        let key = (
            device.driver.clone(),
            device.pool.clone(),
            device.device.clone(),
        );
        let taints = taints.get(&key).into_iter().flatten();
        taints.filter_map(|taint| {
            let since = taint.time_added.unwrap_or(Timestamp::UNIX_EPOCH);
            let fitting = device.tolerations.iter();
            let mut fitting = fitting
                .filter(|toleration| {
                    toleration.effect == "NoExecute" && tolerates(toleration, taint)
                })
                .peekable();
            if fitting.peek().is_none() {
                return Some(since);
            }
            let mut shortest: Option<i64> = None;
            for toleration in fitting {
                let seconds = toleration.toleration_seconds?.max(0);
                shortest = Some(shortest.map_or(seconds, |other| other.min(seconds)));
            }
            let wait = SignedDuration::from_secs(shortest.unwrap_or(0));
            Some(since.checked_add(wait).unwrap_or(Timestamp::MAX))
        })
    });
    times.min()
}

/// When a pod has to go, by the claims that it uses.
fn pod_eviction_time(
    pod: &Pod,
    claims: &[Arc<ResourceClaim>],
    taints: &DeviceTaints,
) -> Option<Timestamp> {
    let uid = &pod.metadata.uid;
    let reserved = claims.iter().filter(|claim| {
        let mut users = claim.status.reserved_for.iter();
        users.any(|user| user.is_pod() && user.uid == *uid)
    });
    let times = reserved.filter_map(|claim| eviction_time(claim, taints));
    times.min().filter(|_| !pod.spec.node_name.is_empty())
}

struct TaintEvictions {
    client: Client,
    recorder: Recorder,
    pods: Arc<KindCache<Pod>>,
    claims: Arc<KindCache<ResourceClaim>>,
    slices: Arc<KindCache<ResourceSlice>>,
    taints: Mutex<Arc<DeviceTaints>>,
    /// Pods that will be evicted, by their uids.
    scheduled: Mutex<HashSet<Text>>,
    queue: Queue<Key>,
}

fn start(ctx: &Context) -> BoxFuture<'static, ()> {
    let this = Arc::new(TaintEvictions {
        client: ctx.client.clone(),
        recorder: ctx.recorder("device-taint-eviction-controller"),
        pods: ctx.pods(),
        claims: ctx.resource_claims(),
        slices: ctx.resource_slices(),
        taints: Mutex::default(),
        scheduled: Mutex::default(),
        queue: work::queue(),
    });
    let listener = Arc::clone(&this);
    this.slices.on_change(move |change| {
        let has_taints = |slice: &&Arc<ResourceSlice>| !slice.spec.devices.is_empty();
        let slices = [change.previous.as_ref(), change.current.as_ref()];
        let pool = |slice: &Arc<ResourceSlice>| slice.spec.pool.clone();
        let replaced = change.previous.as_ref().map(pool) != change.current.as_ref().map(pool);
        if replaced || slices.into_iter().flatten().any(|slice| has_taints(&slice)) {
            listener.slices_changed();
        }
    });
    let listener = Arc::clone(&this);
    this.claims.on_change(move |change| {
        for claim in change.previous.iter().chain(change.current.iter()) {
            listener.queue_users(claim);
        }
    });
    let listener = Arc::clone(&this);
    this.pods.on_change(move |change| {
        listener.pod_changed(change.previous.as_deref(), change.current.as_deref());
    });
    let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
    Box::pin(async move {
        this.slices.ready().await;
        this.claims.ready().await;
        this.pods.ready().await;
        let work = work::call(&this, |this, key| async move { this.sync(key).await });
        let name = "device-taint-eviction-controller";
        this.queue.run(name, workers, &shutdown, work).await;
    })
}

impl TaintEvictions {
    fn taints(&self) -> MutexGuard<'_, Arc<DeviceTaints>> {
        self.taints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scheduled(&self) -> MutexGuard<'_, HashSet<Text>> {
        self.scheduled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn slices_changed(&self) {
        let taints = device_taints(&self.slices.all());
        if **self.taints() == taints {
            return;
        }
        *self.taints() = Arc::new(taints);
        for claim in self.claims.all() {
            self.queue_users(&claim);
        }
    }

    fn queue_users(&self, claim: &ResourceClaim) {
        if claim.status.allocation.is_some() {
            for user in claim
                .status
                .reserved_for
                .iter()
                .filter(|user| user.is_pod())
            {
                let key = Key::new(claim.metadata.namespace.clone(), user.name.clone());
                self.queue.add(key);
            }
        }
    }

    fn pod_changed(&self, previous: Option<&Pod>, current: Option<&Pod>) {
        let Some(pod) = current else {
            if let Some(gone) = previous {
                self.scheduled().remove(&gone.metadata.uid);
            }
            return;
        };
        let same = previous.is_some_and(|previous| {
            previous.spec.node_name == pod.spec.node_name
                && previous.status.resource_claim_statuses == pod.status.resource_claim_statuses
        });
        if !same && !pod.spec.resource_claims.is_empty() {
            self.queue.add(Key::from_meta(&pod.metadata));
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(pod) = self.pods.by_key(&key).filter(|pod| pod.is_active()) else {
            return Ok(None);
        };
        let claims: Vec<Arc<ResourceClaim>> = claims_in_use(&pod)
            .filter_map(|name| self.claims.get(&key.namespace, &name))
            .collect();
        let (meta, now) = (&pod.metadata, Timestamp::now());
        let about = ObjectReference::to_object(&resources::PODS, meta);
        let taints = Arc::clone(&self.taints());
        let Some(at) = pod_eviction_time(&pod, &claims, &taints) else {
            if self.scheduled().remove(&meta.uid) {
                self.recorder.normal(&about, REASON, "Cancelling deletion");
            }
            return Ok(None);
        };
        self.scheduled().insert(meta.uid.clone());
        if at > now {
            let left = at.as_millisecond() - now.as_millisecond();
            return Ok(Some(Duration::from_millis(left.unsigned_abs() + 10)));
        }
        self.recorder.normal(&about, REASON, "Marking for deletion");
        if pod.condition("DisruptionTarget").is_none() && !pod.status.conditions.is_empty() {
            let condition = json!([
                {"op": "test", "path": "/metadata/uid", "value": meta.uid},
                {"op": "add", "path": "/status/conditions/-", "value": {
                    "type": "DisruptionTarget", "status": "True",
                    "reason": "DeletionByDeviceTaintManager",
                    "message": "Device Taint manager: deleting due to NoExecute taint",
                    "lastTransitionTime": seconds_now(),
                }},
            ]);
            let patch = Patch::Json(&condition);
            let noted = self
                .client
                .patch_status::<Discard>(&resources::PODS, &meta.namespace, &meta.name, patch)
                .await;
            work::unless_gone(noted)?;
        }
        let options = DeleteOptions::of_uid(meta.uid.as_str());
        let deleted = self
            .client
            .delete(&resources::PODS, &meta.namespace, &meta.name, &options)
            .await;
        work::unless_gone(deleted).map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fake_api::FakeApi;

    fn slice(generation: i64, taints: Value) -> Arc<ResourceSlice> {
        let slice = json!({"spec": {"driver": "d", "pool": {"name": "n", "generation": generation},
            "devices": [{"name": "gpu", "taints": taints}, {"name": "other"}]}});
        Arc::new(serde_json::from_value(slice).unwrap())
    }

    fn taint(effect: &str) -> Value {
        json!([{"key": "broken", "value": "yes", "effect": effect,
            "timeAdded": "2026-01-01T00:00:00Z"}])
    }

    fn claim(tolerations: Value) -> Value {
        json!({"metadata": {"name": "c"}, "status": {
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}],
            "allocation": {"devices": {"results": [{"driver": "d", "pool": "n",
                "device": "gpu", "tolerations": tolerations}]}}}})
    }

    fn time(claim: &Value, slices: &[Arc<ResourceSlice>]) -> Option<String> {
        let claim = serde_json::from_value(claim.clone()).unwrap();
        eviction_time(&claim, &device_taints(slices)).map(|at| at.to_string())
    }

    #[test]
    fn taint_evicts_after_the_shortest_toleration() {
        let tainted = [slice(1, taint("NoExecute"))];
        let at = |tolerations: Value| time(&claim(tolerations), &tainted);
        let exists = |seconds: Value| json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        let start = Some("2026-01-01T00:00:00Z".to_owned());
        assert_eq!(at(json!([])), start);
        assert_eq!(
            at(json!([exists(json!(60)), exists(json!(30))])),
            Some("2026-01-01T00:00:30Z".to_owned())
        );
        assert_eq!(at(json!([exists(json!(-5))])), start);
        assert_eq!(at(json!([exists(json!(30)), exists(Value::Null)])), None);
        let other = json!([{"key": "broken", "value": "no", "effect": "NoExecute"}]);
        assert_eq!(at(other), start);
        // of all effects only this one counts
        assert_eq!(at(json!([{"operator": "Exists"}])), start);
    }

    #[test]
    fn only_no_execute_taints_of_the_newest_generation_evict() {
        let claim = claim(json!([]));
        assert_eq!(time(&claim, &[slice(1, taint("NoSchedule"))]), None);
        let replaced = [slice(1, taint("NoExecute")), slice(2, json!([]))];
        assert_eq!(time(&claim, &replaced), None);
        assert_eq!(time(&claim, &[slice(1, json!([]))]), None);
    }

    #[test]
    fn pod_goes_only_if_the_claim_is_reserved_for_it() {
        let taints = device_taints(&[slice(1, taint("NoExecute"))]);
        let claim: ResourceClaim = serde_json::from_value(claim(json!([]))).unwrap();
        let claims = [Arc::new(claim)];
        let evicted = |uid: &str, node: &str| {
            let pod = json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            pod_eviction_time(&pod, &claims, &taints).is_some()
        };
        assert!(evicted("1", "a"));
        assert!(!evicted("2", "a"));
        assert!(!evicted("1", ""));
    }

    #[tokio::test(start_paused = true)]
    async fn pod_of_a_tainted_device_is_marked_and_deleted() {
        const POD: &str = "/api/v1/namespaces/n/pods/p";
        let api = FakeApi::new();
        api.put(
            POD,
            json!({"metadata": {"uid": "1", "finalizers": ["test"]}, "spec": {"nodeName": "a",
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready"}]}}),
        );
        api.put(
            "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/c",
            claim(json!([])),
        );
        let _running = api.run(&CONTROLLER, crate::Config::default());
        let second = Duration::from_secs(1);
        tokio::time::sleep(second).await;
        assert!(api.object(POD).unwrap()["metadata"]["deletionTimestamp"].is_null());
        api.put(
            "/apis/resource.k8s.io/v1/resourceslices/s",
            json!({"spec": {"driver": "d", "pool": {"name": "n", "generation": 1},
                "devices": [{"name": "gpu", "taints": taint("NoExecute")}]}}),
        );
        tokio::time::sleep(second).await;
        let pod = api.object(POD).unwrap();
        assert!(!pod["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(
            pod["status"]["conditions"][1]["reason"],
            "DeletionByDeviceTaintManager"
        );
    }
}
