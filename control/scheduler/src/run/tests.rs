//! Tests the loop against a fake API, in virtual time.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Mutex;

use bytes::Bytes;
use control_client::RequestBody;
use futures::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use tower::service_fn;

use serde_json::{Value, json};

use super::failure::unscheduled;
use super::*;

#[path = "gang_tests.rs"]
mod gangs;
#[path = "volume_tests.rs"]
mod volumes;

type FakeBody = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// The fake's response to a request that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    /// It is never answered.
    Hangs,
    /// It fails after a second.
    Fails,
}

/// An API server with a few objects, which sends scripted events to watchers.
#[derive(Default)]
struct Api {
    /// The initial objects of watches by plural.
    objects: Mutex<HashMap<&'static str, Vec<Value>>>,
    watchers: Mutex<HashMap<&'static str, mpsc::UnboundedSender<Bytes>>>,
    /// Names of the pods whose binding was requested, in order.
    bindings: Mutex<Vec<String>>,
    /// The nodes that they were bound to, in order.
    bound_to: Mutex<Vec<String>>,
    conditions: Mutex<Vec<(String, Value)>>,
    /// Names of the pods that were deleted.
    deletions: Mutex<Vec<String>>,
    nominations: Mutex<HashMap<String, Value>>,
    events: Mutex<Vec<Value>>,
    /// Whether PodGroups are served.
    serves_groups: Mutex<bool>,
    /// Conditions that were written of PodGroups, with their names.
    group_conditions: Mutex<Vec<(String, Value)>>,
    lease: Mutex<Option<Value>>,
    /// The response to bindings.
    binding_fate: Mutex<Option<Fate>>,
    /// The response to status writes.
    status_fate: Mutex<Option<Fate>>,
    /// Moves on when what hangs is to be done.
    released: tokio::sync::watch::Sender<bool>,
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": object})).into()
}

fn answer(code: u16, body: &Value) -> Response<FakeBody> {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder()
        .status(code)
        .body(body)
        .expect("an answer")
}

impl Api {
    fn with(objects: impl IntoIterator<Item = (&'static str, Vec<Value>)>) -> Arc<Self> {
        let api = Self::default();
        *api.objects.lock().unwrap() = objects.into_iter().collect();
        Arc::new(api)
    }

    /// Makes a change, and notifies watchers; later watchers find it made.
    fn tell(&self, plural: &'static str, kind: &str, object: &Value) {
        let mut objects = self.objects.lock().unwrap();
        let known = objects.entry(plural).or_default();
        known.retain(|it| it["metadata"]["name"] != object["metadata"]["name"]);
        if kind != "DELETED" {
            known.push(object.clone());
        }
        drop(objects);
        let watchers = self.watchers.lock().unwrap();
        let watcher = watchers.get(plural).expect("a watch");
        watcher.send(line(kind, object)).expect("a watcher");
    }

    fn watch(&self, path: &str) -> Response<FakeBody> {
        const PLURALS: [&str; 19] = [
            "podgroups",
            "nodes",
            "namespaces",
            "pods",
            "persistentvolumeclaims",
            "persistentvolumes",
            "storageclasses",
            "csinodes",
            "csidrivers",
            "csistoragecapacities",
            "volumeattachments",
            "resourceclaims",
            "resourceslices",
            "deviceclasses",
            "poddisruptionbudgets",
            "services",
            "replicationcontrollers",
            "replicasets",
            "statefulsets",
        ];
        let of_path = PLURALS
            .into_iter()
            .find(|plural| path.ends_with(&format!("/{plural}")));
        let plural = of_path.expect("a resource");
        let objects = self.objects.lock().unwrap();
        let known = objects.get(plural).cloned().unwrap_or_default();
        let (sender, receiver) = mpsc::unbounded_channel();
        self.watchers.lock().unwrap().insert(plural, sender);
        let end = json!({"metadata": {
            "resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"}
        }});
        let mut lines: Vec<Bytes> = known.iter().map(|object| line("ADDED", object)).collect();
        lines.push(line("BOOKMARK", &end));
        let more = stream::unfold(receiver, |mut receiver| async {
            let line = receiver.recv().await?;
            Some((line, receiver))
        });
        let lines = stream::iter(lines).chain(more).chain(stream::pending());
        let frames = lines.map(|line| Ok(http_body::Frame::data(line)));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    async fn suffer(&self, pod: &str, fate: Option<Fate>) -> Response<FakeBody> {
        match fate.unwrap_or(Fate::Done) {
            Fate::Done => {}
            Fate::Hangs => {
                let mut released = self.released.subscribe();
                let _ = released.wait_for(|released| *released).await;
            }
            Fate::Fails => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let status = json!({"kind": "Status", "code": 500, "message": "no"});
                return answer(500, &status);
            }
        }
        answer(201, &json!({"metadata": {"name": pod}}))
    }

    async fn serve(self: Arc<Self>, request: Request<RequestBody>) -> Response<FakeBody> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        if path.contains("/leases") {
            return self.leases(&parts.method, body).await;
        }
        let method = parts.method;
        let parts: Vec<&str> = path.split('/').collect();
        if let [
            ..,
            kind @ ("persistentvolumes" | "persistentvolumeclaims"),
            name,
        ] = *parts
        {
            let plural = match kind {
                "persistentvolumes" => "persistentvolumes",
                _ => "persistentvolumeclaims",
            };
            if method == Method::GET {
                return answer(200, &self.object(plural, name));
            }
            let bytes = body.collect().await.expect("a body").to_bytes();
            let patch = serde_json::from_slice(&bytes).expect("a patch");
            return self.patch(plural, name, &patch);
        }
        if method == Method::GET && path.ends_with("/v1alpha2") {
            return if *self.serves_groups.lock().unwrap() {
                answer(200, &json!({"resources": [{"name": "podgroups"}]}))
            } else {
                answer(
                    404,
                    &json!({"kind": "Status", "code": 404, "reason": "NotFound"}),
                )
            };
        }
        if method == Method::GET {
            return self.watch(path);
        }
        match parts.as_slice() {
            [.., "pods", name, "binding"] => {
                let bytes = body.collect().await.expect("a body").to_bytes();
                let binding: Value = serde_json::from_slice(&bytes).expect("a binding");
                let node = binding["target"]["name"].as_str().unwrap_or_default();
                self.bound_to.lock().unwrap().push(node.to_owned());
                self.bindings.lock().unwrap().push((*name).to_owned());
                let fate = *self.binding_fate.lock().unwrap();
                self.suffer(name, fate).await
            }
            [.., "pods", name, "status"] => {
                let bytes = body.collect().await.expect("a body").to_bytes();
                let patch: Value = serde_json::from_slice(&bytes).expect("a patch");
                let condition = patch["status"]["conditions"][0].clone();
                if !condition.is_null() {
                    let told = ((*name).to_owned(), condition);
                    self.conditions.lock().unwrap().push(told);
                }
                if let Some(node) = patch["status"].get("nominatedNodeName") {
                    let mut nominations = self.nominations.lock().unwrap();
                    nominations.insert((*name).to_owned(), node.clone());
                }
                let fate = *self.status_fate.lock().unwrap();
                self.suffer(name, fate).await
            }
            [.., "podgroups", name, "status"] => {
                let bytes = body.collect().await.expect("a body").to_bytes();
                let patch: Value = serde_json::from_slice(&bytes).expect("a patch");
                let told = ((*name).to_owned(), patch["status"]["conditions"][0].clone());
                self.group_conditions.lock().unwrap().push(told);
                answer(200, &json!({"metadata": {"name": name}}))
            }
            [.., "pods", name] if method == Method::DELETE => {
                self.deletions.lock().unwrap().push((*name).to_owned());
                answer(200, &json!({"metadata": {}}))
            }
            [.., "events"] => {
                let bytes = body.collect().await.expect("a body").to_bytes();
                let event = serde_json::from_slice(&bytes).expect("an event");
                self.events.lock().unwrap().push(event);
                answer(201, &json!({"metadata": {}}))
            }
            _ => answer(201, &json!({"metadata": {}})),
        }
    }

    async fn leases(&self, method: &Method, body: RequestBody) -> Response<FakeBody> {
        let bytes = body.collect().await.expect("a body").to_bytes();
        let mut lease = self.lease.lock().unwrap();
        if *method != Method::GET {
            *lease = Some(serde_json::from_slice(&bytes).expect("a lease"));
        }
        match &*lease {
            Some(lease) => answer(200, lease),
            None => answer(
                404,
                &json!({"kind": "Status", "code": 404, "reason": "NotFound"}),
            ),
        }
    }

    /// Gives the lease to another holder; an empty name means no holder.
    fn take_lease(&self, holder: &str) {
        *self.lease.lock().unwrap() = Some(json!({
            "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 3600},
        }));
    }

    /// The nominated node that was last written of a pod.
    fn nominated(&self, pod: &str) -> Value {
        let nominations = self.nominations.lock().unwrap();
        nominations.get(pod).cloned().unwrap_or_default()
    }

    fn client(self: &Arc<Self>) -> Client {
        let api = Arc::clone(self);
        let service = service_fn(move |request| {
            let api = Arc::clone(&api);
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        Client::in_process(service, ())
    }

    /// Runs the scheduler on it, and `look` concurrently.
    async fn scheduled<T>(self: &Arc<Self>, look: impl AsyncFnOnce() -> T) -> T {
        self.scheduled_by(Config::default(), look).await
    }

    /// Runs a scheduler with this configuration on it, and `look` concurrently.
    async fn scheduled_by<T>(self: &Arc<Self>, config: Config, look: impl AsyncFnOnce() -> T) -> T {
        let client = self.client();
        let shutdown = CancellationToken::new();
        let running = schedule(client, config, shutdown.clone());
        let running = tokio::spawn(running);
        let seen = look().await;
        shutdown.cancel();
        running.await.expect("an end in good order");
        seen
    }

    fn bound(&self) -> usize {
        self.bindings.lock().unwrap().len()
    }

    /// Returns the last written condition of a pod.
    fn condition(&self, pod: &str) -> Option<Value> {
        let conditions = self.conditions.lock().unwrap();
        let mut of_pod = conditions.iter().rev().filter(|(name, _)| name == pod);
        of_pod.next().map(|(_, condition)| condition.clone())
    }
}

/// Runs a test in virtual time, which stands still where a task never rests: such a test
/// fails after half a minute.
fn in_virtual_time<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let (ended, end) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(test());
        let _ = ended.send(());
    });
    let ended = end.recv_timeout(Duration::from_secs(30));
    if ended == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        panic!("a task never rests");
    }
    if let Err(failure) = thread.join() {
        std::panic::resume_unwind(failure);
    }
}

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "resourceVersion": "1", "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "1000"}}
    })
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "2"},
        "spec": spec
    });
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    pod
}

async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn the_loop_rests_while_all_bindings_wait_and_a_timer_is_due() {
    in_virtual_time(|| async {
        let mut pods = vec![pod("misfit", json!({"nodeSelector": {"disk": "ssd"}}))];
        pods.extend((0..300).map(|at| pod(&format!("p{at}"), json!({}))));
        let api = Api::with([("nodes", vec![node("a")]), ("pods", pods)]);
        *api.binding_fate.lock().unwrap() = Some(Fate::Hangs);
        api.scheduled(async || {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(api.bound(), UNDER_WAY);
            // It backs off, and its time comes while all bindings wait.
            let mut fitting = node("a");
            fitting["metadata"]["resourceVersion"] = json!("11");
            fitting["metadata"]["labels"]["disk"] = json!("ssd");
            api.tell("nodes", "MODIFIED", &fitting);
            after(20).await;
            assert_eq!(api.bound(), UNDER_WAY);
            api.released.send_replace(true);
            after(20).await;
            let bindings = api.bindings.lock().unwrap();
            assert_eq!(bindings.len(), 301);
            assert!(bindings.iter().any(|name| name == "misfit"));
        })
        .await;
    });
}

#[test]
fn the_loop_goes_on_when_as_many_status_writes_as_may_be_under_way_fail() {
    in_virtual_time(|| async {
        let nowhere = json!({"nodeSelector": {"no": "such"}});
        let pods = (0..300).map(|at| pod(&format!("p{at}"), nowhere.clone()));
        let api = Api::with([("nodes", vec![node("a")]), ("pods", pods.collect())]);
        *api.status_fate.lock().unwrap() = Some(Fate::Fails);
        api.scheduled(async || {
            after(30).await;
            let conditions = api.conditions.lock().unwrap();
            let told: std::collections::HashSet<_> =
                conditions.iter().map(|(name, _)| name).collect();
            assert_eq!(told.len(), 300);
        })
        .await;
    });
}

#[test]
fn a_gated_pod_waits_in_silence_until_its_gates_are_gone() {
    in_virtual_time(|| async {
        let gated = pod(
            "gated",
            json!({"schedulingGates": [{"name": "example.com/quota"}]}),
        );
        let api = Api::with([("nodes", vec![node("a")]), ("pods", vec![gated])]);
        api.scheduled(async || {
            after(5).await;
            assert_eq!((api.bound(), api.condition("gated")), (0, None));
            let mut free = pod("gated", json!({"schedulingGates": []}));
            free["metadata"]["resourceVersion"] = json!("11");
            api.tell("pods", "MODIFIED", &free);
            after(5).await;
            assert_eq!(api.bound(), 1);
        })
        .await;
    });
}

#[test]
fn a_pod_waits_for_its_claim_and_goes_where_the_volume_is() {
    in_virtual_time(|| async {
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]);
        let waiting = pod("waiting", json!({"volumes": volumes}));
        let volume = json!({
            "metadata": {"name": "v", "resourceVersion": "3"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}
            ]}]}}}
        });
        let api = Api::with([
            ("nodes", vec![node("a"), node("b")]),
            ("pods", vec![waiting]),
            ("persistentvolumes", vec![volume]),
        ]);
        let message = || {
            let condition = api.condition("waiting").expect("a condition");
            assert_eq!(condition["reason"], "Unschedulable");
            condition["message"].as_str().expect("a message").to_owned()
        };
        // As upstream: a later plugin misses the state that an earlier one did not
        // prepare.
        let preemption = "not found";
        api.scheduled(async || {
            after(5).await;
            assert_eq!(
                message(),
                format!("0/2 nodes are available: persistentvolumeclaim \"x\" not found. {preemption}")
            );
            let mut claim = json!({
                "metadata": {"name": "x", "namespace": "default", "resourceVersion": "11"},
                "status": {"phase": "Pending"}
            });
            api.tell("persistentvolumeclaims", "ADDED", &claim);
            after(5).await;
            assert_eq!(
                message(),
                format!("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. {preemption}")
            );
            assert_eq!(api.bound(), 0);
            claim["metadata"]["resourceVersion"] = json!("12");
            claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
            claim["spec"] = json!({"volumeName": "v"});
            claim["status"] = json!({"phase": "Bound"});
            api.tell("persistentvolumeclaims", "MODIFIED", &claim);
            after(15).await;
            assert_eq!(api.bound(), 1);
        })
        .await;
    });
}

#[test]
fn a_pod_that_wants_to_be_near_another_waits_for_it() {
    in_virtual_time(|| async {
        let near = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": {"matchLabels": {"team": "x"}},
            "labelSelector": {"matchLabels": {"app": "db"}}
        }]}});
        let waiting = pod("web", json!({"affinity": near}));
        let mut other = pod("db", json!({"nodeName": "b"}));
        other["metadata"]["labels"] = json!({"app": "db"});
        let api = Api::with([
            ("nodes", vec![node("a"), node("b")]),
            ("pods", vec![waiting, other]),
        ]);
        api.scheduled(async || {
            after(5).await;
            let condition = api.condition("web").expect("a condition");
            assert_eq!(
                condition["message"],
                "0/2 nodes are available: 2 node(s) didn't match pod affinity rules. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
            );
            assert_eq!(api.bound(), 0);
            let namespace = json!({"metadata": {
                "name": "default", "resourceVersion": "11", "labels": {"team": "x"}
            }});
            api.tell("namespaces", "ADDED", &namespace);
            after(15).await;
            assert_eq!(*api.bindings.lock().unwrap(), ["web"]);
        })
        .await;
    });
}

#[test]
fn a_pod_that_was_not_placed_is_told_so_with_its_generation() {
    let pod = |more: Value| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 3},
            "status": more
        }))
        .expect("a pod")
    };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let new = unscheduled(&pod(json!({})), "Unschedulable", "no room", now);
    assert_eq!(
        new,
        json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "no room", "observedGeneration": 3,
            "lastTransitionTime": "1970-01-01T00:00:00Z"
        })
    );
    let told = json!({"conditions": [{"type": "PodScheduled", "status": "False"}]});
    let again = unscheduled(&pod(told), "Unschedulable", "no room", now);
    assert_eq!(again.get("lastTransitionTime"), None);
    assert_eq!(again["observedGeneration"], 3);
}

#[test]
fn pods_are_evicted_for_a_more_important_one_which_then_takes_their_place() {
    in_virtual_time(|| async {
        let asking = |priority: i32, cpu: u32| {
            json!({"priority": priority, "containers": [
                {"resources": {"requests": {"cpu": cpu}}}]})
        };
        let mut low = pod("low", asking(0, 64));
        low["spec"]["nodeName"] = json!("a");
        let high = pod("high", asking(10, 2));
        let api = Api::with([
            ("nodes", vec![node("a")]),
            ("pods", vec![low.clone(), high]),
        ]);
        api.scheduled(async || {
            after(1).await;
            assert_eq!(*api.deletions.lock().unwrap(), ["low"]);
            let marked = api.condition("low").expect("a condition");
            assert_eq!(marked["type"], "DisruptionTarget");
            assert_eq!(marked["reason"], "PreemptionByScheduler");
            assert_eq!(
                marked["message"],
                "default-scheduler: preempting to accommodate a higher priority pod"
            );
            let waiting = api.condition("high").expect("a condition");
            assert_eq!(
                waiting["message"],
                "0/1 nodes are available: 1 Insufficient cpu."
            );
            assert_eq!(api.nominated("high"), json!("a"));
            let events = api.events.lock().unwrap().clone();
            let preempted = events.iter().find(|event| event["reason"] == "Preempted");
            let preempted = preempted.expect("an event");
            assert_eq!(preempted["note"], "Preempted by pod high on node a");
            assert_eq!(preempted["action"], "Preempting");
            assert_eq!(preempted["related"]["name"], "high");
            assert_eq!(preempted["regarding"]["name"], "low");
            assert_eq!(api.bound(), 0);
            low["metadata"]["resourceVersion"] = json!("20");
            api.tell("pods", "DELETED", &low);
            after(5).await;
            assert_eq!(*api.bindings.lock().unwrap(), ["high"]);
        })
        .await;
    });
}

#[test]
fn a_scheduler_that_loses_its_lease_pauses_and_resumes() {
    in_virtual_time(|| async {
        let api = Api::with([
            ("nodes", vec![node("a")]),
            ("pods", vec![pod("one", json!({}))]),
        ]);
        let config = Config::default().elected_as("me");
        let (client, shutdown) = (api.client(), CancellationToken::new());
        let running = tokio::spawn(run(client, config, shutdown.clone()));
        after(3).await;
        assert_eq!(*api.bindings.lock().unwrap(), ["one"]);
        // Another takes the lease, and releases it later.
        api.take_lease("another");
        after(20).await;
        let mut two = pod("two", json!({}));
        two["metadata"]["resourceVersion"] = json!("30");
        api.objects.lock().unwrap().insert("pods", vec![two]);
        after(5).await;
        assert_eq!(api.bound(), 1);
        api.take_lease("");
        after(60).await;
        assert_eq!(*api.bindings.lock().unwrap(), ["one", "two"]);
        shutdown.cancel();
        running.await.expect("an end in good order");
    });
}
