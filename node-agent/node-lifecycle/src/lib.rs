//! The node itself: its object, registered once and then kept true, what it does when it runs
//! short ([`guard`]), and what when it goes down ([`shutdown`]).

pub mod allocatable;
pub mod driver;
pub mod evict;
pub mod guard;
pub mod images;
pub mod machine;
pub mod shutdown;
pub mod startup;

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_client::time::seconds;
use control_client::{
    Backoff, Changes, Client, Discard, Error, Meta, Metadata, Patch, View, resources,
};
use jiff::Timestamp;
use node_agent_cri::{RelistRate, Runtime, RuntimeError, api};
use node_agent_csi_client::CsiDrivers;
use node_agent_informers::{Node, OwnNode};
use node_agent_resource_managers::devices::DeviceManager;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use self::machine::{CurrentPressure, Machine};
use self::shutdown::NodeShutdown;

/// How often the node looks at itself.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How often an unchanged status is written.
const WRITE_EVERY: Duration = Duration::from_secs(300);

/// How long the runtime may take to say how it is; the node is not ready then.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(30);

/// The fields of the Node object that do not change while the agent runs.
#[derive(Clone, Debug)]
pub struct NodeIdentity {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub ips: Vec<String>,
    /// Its host name.
    pub hostname: String,
    /// Labels beyond the usual.
    pub labels: Vec<(String, String)>,
    /// The port of its serving API.
    pub port: u16,
    /// What it runs on.
    pub machine: Machine,
    /// Most pods.
    pub most_pods: u32,
    /// What pods may ask for together.
    pub allocatable: Map<String, Value>,
    /// Taints to register with.
    pub taints: Vec<Value>,
    /// With an external cloud provider, the addresses that were configured, if any.
    pub external_cloud: Option<Vec<String>>,
    /// `containerd://1.6.20`.
    pub runtime: String,
}

/// The agent calls itself what clients compare versions with.
pub const KUBELET_VERSION: &str = "v1.36.3";

#[derive(Deserialize)]
struct NodeView {
    metadata: Meta,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    conditions: Vec<NodeCondition>,
}

/// The current value of a node condition.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeCondition {
    r#type: String,
    status: String,
    #[serde(default)]
    last_transition_time: Option<String>,
}

/// What a node's condition is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    kind: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

impl ConditionUpdate {
    /// Its status as the API has it.
    const fn value(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }

    /// Whether a Node's status has it.
    fn is_in(&self, status: &NodeStatus) -> bool {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| it.r#type == self.kind && it.status == self.value())
    }
}

/// Why the state of the container runtime is unknown.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeStatusError {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] RuntimeError),
    /// The call takes too long. In the kubelet's words.
    #[error("container runtime status check may not have completed yet")]
    Timeout,
}

/// The node's conditions, from the runtime's and the machine's state: pure.
#[must_use]
pub fn conditions(
    runtime: &Result<api::RuntimeStatus, RuntimeStatusError>,
    machine: &machine::Pressure,
    leaving: bool,
) -> Vec<ConditionUpdate> {
    let mut problems = Vec::new();
    match runtime {
        Err(error) => problems.push(format!("container runtime is down: {error}")),
        Ok(status) => {
            for (kind, words) in [
                ("RuntimeReady", "container runtime not ready"),
                ("NetworkReady", "container runtime network not ready"),
            ] {
                let found = status.conditions.iter().find(|c| c.r#type == kind);
                match found {
                    Some(condition) if condition.status => {}
                    Some(condition) => problems.push(format!(
                        "{words}: {kind}=false reason:{} message:{}",
                        condition.reason, condition.message
                    )),
                    None => problems.push(format!("{words}: {kind} is unknown")),
                }
            }
        }
    }
    if leaving {
        problems.push("node is shutting down".to_owned());
    }
    let pressure = |kind, on: bool, good: (&'static str, &str), bad: (&'static str, &str)| {
        let (reason, message) = if on { bad } else { good };
        ConditionUpdate {
            kind,
            status: on,
            reason,
            message: message.to_owned(),
        }
    };
    vec![
        pressure(
            "MemoryPressure",
            machine.memory,
            (
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            (
                "KubeletHasInsufficientMemory",
                "kubelet has insufficient memory available",
            ),
        ),
        pressure(
            "DiskPressure",
            machine.disk,
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ),
        pressure(
            "PIDPressure",
            machine.pids,
            (
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            (
                "KubeletHasInsufficientPID",
                "kubelet has insufficient PID available",
            ),
        ),
        if problems.is_empty() {
            ConditionUpdate {
                kind: "Ready",
                status: true,
                reason: "KubeletReady",
                message: "kubelet is posting ready status".to_owned(),
            }
        } else {
            ConditionUpdate {
                kind: "Ready",
                status: false,
                reason: "KubeletNotReady",
                message: problems.join(", "),
            }
        },
    ]
}

/// Makes the node known to the API, or finds it there.
///
/// # Errors
/// When the API refuses; a server that cannot be reached is waited for.
pub async fn register(
    client: &Client,
    identity: &NodeIdentity,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    let labels = labels(identity);
    let body = node(identity);
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        let refused = match client.create::<Discard>(&resources::NODES, "", &body).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_already_exists() => {
                let patch = json!({"metadata": {"labels": labels}});
                client
                    .patch::<Discard>(
                        &resources::NODES,
                        "",
                        &identity.name,
                        "",
                        Patch::Strategic(&patch),
                    )
                    .await
                    .err()
            }
            Err(error) => Some(error),
        };
        let Some(error) = refused else { return Ok(()) };
        if matches!(error, Error::Invalid(_) | Error::BadRequest(_)) {
            return Err(error);
        }
        tracing::warn!(
            node = identity.name,
            error = error.chain(),
            "failed to register the node"
        );
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(backoff.after(&error)) => {}
        }
    }
}

/// The node's object as it registers with it.
fn node(identity: &NodeIdentity) -> Value {
    let mut taints = identity.taints.clone();
    let mut annotations = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
    let mut status = facts(identity);
    match &identity.external_cloud {
        None => status["addresses"] = addresses(identity, &identity.ips),
        Some(ips) => {
            // No pod runs here before the cloud controller manager has initialized the node.
            taints.push(json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}));
            if !ips.is_empty() {
                annotations[PROVIDED_ADDRESS] = ips.join(",").into();
            }
            status["addresses"] = addresses(identity, ips);
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": identity.name,
            "labels": labels(identity),
            "annotations": annotations,
        },
        "spec": if taints.is_empty() { json!({}) } else { json!({"taints": taints}) },
        "status": status,
    })
}

/// The taint of a node that its cloud controller manager has not initialized.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The annotation by which a cloud controller manager learns the configured addresses.
const PROVIDED_ADDRESS: &str = "alpha.kubernetes.io/provided-node-ip";

/// `status.addresses` with these.
fn addresses(identity: &NodeIdentity, ips: &[String]) -> Value {
    let ips = ips.iter();
    let mut all: Vec<Value> = ips
        .map(|ip| json!({"type": "InternalIP", "address": ip}))
        .collect();
    all.push(json!({"type": "Hostname", "address": identity.hostname}));
    all.into()
}

fn labels(identity: &NodeIdentity) -> Map<String, Value> {
    let mut labels = Map::new();
    for prefix in ["kubernetes.io", "beta.kubernetes.io"] {
        labels.insert(format!("{prefix}/arch"), machine::architecture().into());
        labels.insert(format!("{prefix}/os"), "linux".into());
    }
    labels.insert(
        "kubernetes.io/hostname".to_owned(),
        identity.name.clone().into(),
    );
    for (key, value) in &identity.labels {
        labels.insert(key.clone(), value.clone().into());
    }
    labels
}

/// What does not change while the agent runs, without the addresses.
fn facts(identity: &NodeIdentity) -> Value {
    let machine = &identity.machine;
    let mut facts = json!({
        "capacity": machine.capacity(identity.most_pods),
        "allocatable": identity.allocatable,
        // what pods may need of a node (KEP-5328): sorted
        "declaredFeatures": [
            "ExtendWebSocketsToKubelet",
            "InPlacePodLevelResourcesVerticalScaling",
            "InPlacePodVerticalScalingInitContainers",
            "RestartAllContainersOnContainerExits",
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": identity.port}},
        "nodeInfo": {
            "architecture": machine::architecture(),
            "bootID": machine.boot_id,
            "containerRuntimeVersion": identity.runtime,
            "kernelVersion": machine.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": machine.machine_id,
            "operatingSystem": "linux",
            "osImage": machine.os_image,
            "systemUUID": machine.system_uuid,
        },
    });
    if machine.swap > 0 {
        facts["nodeInfo"]["swap"] = json!({"capacity": machine.swap});
    }
    facts
}

/// The status as it was last written.
struct LastWrite {
    at: Instant,
    status: Value,
    conditions: Vec<ConditionUpdate>,
    /// The revision of the Node that is known to have these conditions.
    revision: Option<u64>,
}

/// What the node's status is made of, and where it is written.
#[derive(Clone)]
pub struct StatusSources {
    /// The API.
    pub client: Client,
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Where it is noted whether the runtime's network is ready.
    pub attention: Arc<RelistRate>,
    /// What the node is short of.
    pub pressure: CurrentPressure,
    /// Whether the machine is going down.
    pub leaving: Arc<NodeShutdown>,
    /// Drivers of volumes.
    pub csi: Arc<CsiDrivers>,
    /// Devices of plugins.
    pub devices: Arc<DeviceManager>,
    /// How many images the status names.
    pub most_images: usize,
}

/// Keeps the node's status true until `shutdown`.
///
/// `own` follows the node's object, since others write its conditions, too: the node lifecycle
/// controller sets them to `Unknown` while the node cannot reach the API server.
pub async fn keep(
    sources: StatusSources,
    identity: NodeIdentity,
    own: OwnNode,
    shutdown: CancellationToken,
) {
    let mut changes = own.changes();
    let mut last: Option<LastWrite> = None;
    let mut told_ready = None;
    let mut backoff = Backoff::new(Duration::from_millis(300), LOOK_EVERY);
    loop {
        let (answer, images) =
            asked(&*sources.runtime, sources.most_images, RUNTIME_PATIENCE).await;
        let told = answer.as_ref().map(runtime_facts).unwrap_or_default();
        let runtime = answer.map(|answer| answer.status.unwrap_or_default());
        let network = runtime.as_ref().is_ok_and(|s| {
            s.conditions
                .iter()
                .any(|c| c.r#type == "NetworkReady" && c.status)
        });
        sources.attention.set_network_ready(network);
        let found = conditions(&runtime, &sources.pressure.get(), sources.leaving.is_now());
        let ready = found.iter().any(|c| c.kind == "Ready" && c.status);
        let mut status = facts(&identity);
        // An external cloud provider keeps the addresses.
        if identity.external_cloud.is_none() {
            status["addresses"] = addresses(&identity, &identity.ips);
        }
        if let Some(map) = status.as_object_mut() {
            if let Some(images) = images {
                map.insert("images".to_owned(), images);
            }
            // what is listed here is not detached
            map.insert("volumesInUse".to_owned(), sources.csi.in_use().into());
            map.extend(told);
            add_devices(map, &sources.devices.counts());
        }
        let due = last.as_ref().is_none_or(|last| {
            last.at.elapsed() >= WRITE_EVERY || last.status != status || last.conditions != found
        });
        // what is about to become ready is looked at more often
        let mut pause = if ready {
            LOOK_EVERY
        } else {
            Duration::from_millis(300)
        };
        let known = last.as_ref().and_then(|last| last.revision);
        let node = own.cache().get("", &identity.name);
        let changed = node.and_then(|node| node.meta().revision()) > known;
        if due || changed {
            match write(&sources.client, &identity.name, &status, &found, due).await {
                Ok((revision, is_written)) => {
                    backoff.reset();
                    let at = match &last {
                        Some(last) if !is_written => last.at,
                        _ => Instant::now(),
                    };
                    last = Some(LastWrite {
                        at,
                        status,
                        conditions: found,
                        revision,
                    });
                }
                Err(error) if error.is_not_found() => {
                    // somebody deleted it; this machine is still here
                    let _ = register(&sources.client, &identity, &shutdown).await;
                }
                Err(error) => {
                    tracing::warn!(
                        node = identity.name,
                        error = error.chain(),
                        "failed to update node status"
                    );
                    pause = pause.min(backoff.after(&error));
                }
            }
            if told_ready != Some(ready) {
                told_ready = Some(ready);
                tracing::info!(node = identity.name, ready, "node");
            }
        }
        if last.is_none() {
            pause = pause.min(Duration::from_millis(300));
        }
        let known = last.as_ref().and_then(|last| last.revision);
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sources.leaving.changed() => {}
            () = newer(&mut changes, known) => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Waits until the object has a later revision than this one.
async fn newer(changes: &mut Changes<Node>, known: Option<u64>) {
    while let Some(change) = changes.recv().await {
        let current = change.current.as_ref();
        if current.and_then(|node| node.meta().revision()) > known {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Adds the devices of plugins to what the node has.
fn add_devices(
    status: &mut Map<String, Value>,
    counts: &std::collections::BTreeMap<String, (usize, usize)>,
) {
    for (name, (all, healthy)) in counts {
        for (key, count) in [("capacity", all), ("allocatable", healthy)] {
            if let Some(list) = status.get_mut(key).and_then(Value::as_object_mut) {
                list.insert(name.clone(), count.to_string().into());
            }
        }
    }
}

/// What the runtime can, as the node's status tells it.
fn runtime_facts(answer: &api::StatusResponse) -> Map<String, Value> {
    let mut facts = Map::new();
    let handlers: Vec<Value> = answer
        .runtime_handlers
        .iter()
        .map(|handler| {
            let features = handler.features.clone().unwrap_or_default();
            json!({
                "name": handler.name,
                "features": {
                    "recursiveReadOnlyMounts": features.recursive_read_only_mounts,
                    "userNamespaces": features.user_namespaces,
                },
            })
        })
        .collect();
    if !handlers.is_empty() {
        facts.insert("runtimeHandlers".to_owned(), handlers.into());
    }
    if let Some(features) = answer.features {
        facts.insert(
            "features".to_owned(),
            json!({"supplementalGroupsPolicy": features.supplemental_groups_policy}),
        );
    }
    facts
}

/// What the runtime says of itself, and its images. Whoever leaves the one question
/// without an answer is not asked the other: nobody is to wait twice before the node is
/// told not to be ready.
async fn asked(
    runtime: &dyn Runtime,
    most: usize,
    patience: Duration,
) -> (
    Result<api::StatusResponse, RuntimeStatusError>,
    Option<Value>,
) {
    let answer = runtime_status(runtime, patience).await;
    let images = match answer {
        Ok(_) => images(runtime, most, patience).await,
        Err(_) => None,
    };
    (answer, images)
}

async fn runtime_status(
    runtime: &dyn Runtime,
    patience: Duration,
) -> Result<api::StatusResponse, RuntimeStatusError> {
    let asked = runtime.status(api::StatusRequest { verbose: false });
    match tokio::time::timeout(patience, asked).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(RuntimeStatusError::Timeout),
    }
}

async fn images(runtime: &dyn Runtime, most: usize, patience: Duration) -> Option<Value> {
    let asked = runtime.list_images(api::ListImagesRequest { filter: None });
    let answer = tokio::time::timeout(patience, asked).await.ok()?;
    let mut all = answer.ok()?.images;
    all.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
    let list: Vec<Value> = all
        .into_iter()
        .filter_map(|image| {
            let mut names: Vec<String> = image.repo_digests;
            names.extend(image.repo_tags);
            names.truncate(5);
            (!names.is_empty()).then(|| json!({"names": names, "sizeBytes": image.size}))
        })
        .take(most)
        .collect();
    Some(Value::Array(list))
}

/// Writes the node's status: when it is `due`, or when the node has other conditions. Returns
/// the revision that has these conditions, and whether anything was written.
async fn write(
    client: &Client,
    name: &str,
    status: &Value,
    found: &[ConditionUpdate],
    due: bool,
) -> Result<(Option<u64>, bool), Error> {
    let node: NodeView = client.get(&resources::NODES, "", name).await?;
    if !due && found.iter().all(|condition| condition.is_in(&node.status)) {
        return Ok((node.metadata.revision(), false));
    }
    let now = seconds(Timestamp::now());
    let list: Vec<Value> = found
        .iter()
        .map(|condition| {
            let value = condition.value();
            let since = node
                .status
                .conditions
                .iter()
                .find(|c| c.r#type == condition.kind && c.status == value)
                .and_then(|c| c.last_transition_time.clone())
                .unwrap_or_else(|| now.clone());
            json!({
                "type": condition.kind,
                "status": value,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since,
                "reason": condition.reason,
                "message": condition.message,
            })
        })
        .collect();
    let mut status = status.clone();
    if let Some(map) = status.as_object_mut() {
        map.insert("conditions".to_owned(), Value::Array(list));
        if let Some(Value::Array(addresses)) = map.get_mut("addresses") {
            // merged by type otherwise, and old addresses would stay
            addresses.insert(0, json!({"$patch": "replace"}));
        }
    }
    let patch = json!({"metadata": {"uid": node.metadata.uid}, "status": status});
    let written: Metadata = client
        .patch_status(&resources::NODES, "", name, Patch::Strategic(&patch))
        .await?;
    Ok((written.metadata.revision(), true))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use bytes::Bytes;
    use control_client::RequestBody;
    use futures::{StreamExt, stream};
    use http::{Request, Response};
    use http_body_util::combinators::UnsyncBoxBody;
    use http_body_util::{BodyExt, Full, StreamBody};
    use hyper::body::Frame;
    use node_agent_informers::{Informers, NodeScope};
    use tokio::sync::broadcast;

    use super::*;
    use node_agent_cri::fake::Fake;

    fn status(runtime: bool, network: bool) -> Result<api::RuntimeStatus, RuntimeStatusError> {
        let condition = |kind: &str, status| api::RuntimeCondition {
            r#type: kind.to_owned(),
            status,
            reason: "Why".to_owned(),
            message: "because".to_owned(),
        };
        Ok(api::RuntimeStatus {
            conditions: vec![
                condition("RuntimeReady", runtime),
                condition("NetworkReady", network),
            ],
        })
    }

    /// An API server with one Node, whose conditions anybody may write.
    #[derive(Clone)]
    struct Server {
        node: Arc<Mutex<Value>>,
        watchers: broadcast::Sender<Bytes>,
    }

    impl Server {
        fn new() -> Self {
            let node = json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}});
            Self {
                node: Arc::new(Mutex::new(node)),
                watchers: broadcast::channel(100).0,
            }
        }

        /// Sets the status of a condition as another client would.
        fn set(&self, kind: &str, value: &str) {
            let condition = json!([{"type": kind, "status": value}]);
            self.merge(&json!({"status": {"conditions": condition}}));
        }

        fn ready(&self) -> String {
            let node = self.node.lock().unwrap();
            let conditions = node["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let ready = conditions.find(|it| it["type"] == "Ready");
            ready.map_or_else(String::new, |it| it["status"].as_str().unwrap().to_owned())
        }

        fn merge(&self, patch: &Value) -> Value {
            let mut node = self.node.lock().unwrap();
            let revision: u64 = node["metadata"]["resourceVersion"]
                .as_str()
                .and_then(|text| text.parse().ok())
                .unwrap();
            node["metadata"]["resourceVersion"] = (revision + 1).to_string().into();
            node["status"] = patch["status"].clone();
            let event = json!({"type": "MODIFIED", "object": *node});
            let _ = self.watchers.send(format!("{event}\n").into());
            node.clone()
        }

        fn client(&self) -> Client {
            let server = self.clone();
            let service = tower::service_fn(move |request: Request<RequestBody>| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(server.answer(request).await) }
            });
            Client::in_process(service, ())
        }

        async fn answer(
            &self,
            request: Request<RequestBody>,
        ) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
            let (head, body) = request.into_parts();
            if head
                .uri
                .query()
                .is_some_and(|query| query.contains("watch=true"))
            {
                let later = self.watchers.subscribe();
                let node = self.node.lock().unwrap().clone();
                let mut end = json!({"metadata": {"resourceVersion": "1"}});
                end["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
                let first = [
                    json!({"type": "ADDED", "object": node}),
                    json!({"type": "BOOKMARK", "object": end}),
                ];
                let first = first.map(|event| Bytes::from(format!("{event}\n")));
                let later = stream::unfold(later, async |mut later| {
                    let event = later.recv().await.ok()?;
                    Some((event, later))
                });
                let events = stream::iter(first).chain(later);
                let frames = events.map(|event| Ok(Frame::data(event)));
                return Response::new(StreamBody::new(frames).boxed_unsync());
            }
            let body = body.collect().await.unwrap().to_bytes();
            let node = match serde_json::from_slice::<Value>(&body) {
                Ok(patch) => self.merge(&patch),
                Err(_) => self.node.lock().unwrap().clone(),
            };
            Response::new(Full::new(Bytes::from(node.to_string())).boxed_unsync())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_was_marked_unknown_says_at_once_that_it_is_ready() {
        let (folder, server) = (tempfile::tempdir().unwrap(), Server::new());
        let (runtime, shutdown) = (Fake::default(), CancellationToken::new());
        let sources = StatusSources {
            client: server.client(),
            runtime: Arc::new(runtime.clone()),
            attention: Arc::default(),
            pressure: CurrentPressure::default(),
            leaving: Arc::default(),
            csi: Arc::default(),
            devices: Arc::new(DeviceManager::new(folder.path())),
            most_images: 50,
        };
        let identity = NodeIdentity {
            name: "n".to_owned(),
            ips: vec!["10.1.0.1".to_owned()],
            hostname: "n".to_owned(),
            labels: Vec::new(),
            port: 10250,
            machine: Machine::default(),
            most_pods: 110,
            allocatable: Map::new(),
            taints: Vec::new(),
            external_cloud: None,
            runtime: "fake".to_owned(),
        };
        let own = Informers::new(server.client(), "n", NodeScope::Own).own_node();
        let kept = tokio::spawn(keep(sources, identity, own, shutdown.clone()));
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(server.ready(), "True");
        // as the node lifecycle controller does
        server.set("Ready", "Unknown");
        assert_eq!(server.ready(), "Unknown");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(server.ready(), "True");
        // what others change beside does not make the node write
        let before = server.node.lock().unwrap().clone();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(*server.node.lock().unwrap(), before);
        shutdown.cancel();
        kept.await.unwrap();
    }

    #[test]
    fn node_of_an_external_cloud_waits_for_it_with_the_addresses_that_were_configured() {
        let identity = |external_cloud: Option<Vec<String>>| NodeIdentity {
            name: "n".to_owned(),
            ips: vec!["10.1.0.1".to_owned()],
            hostname: "n".to_owned(),
            labels: Vec::new(),
            port: 10250,
            machine: Machine::default(),
            most_pods: 110,
            allocatable: Map::new(),
            taints: Vec::new(),
            external_cloud,
            runtime: "fake".to_owned(),
        };
        let types = |node: &Value| {
            let all = node["status"]["addresses"].as_array().unwrap().iter();
            all.map(|one| one["type"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let own = node(&identity(None));
        assert_eq!(types(&own), ["InternalIP", "Hostname"]);
        assert_eq!(own["spec"], json!({}));
        assert!(
            own["metadata"]["annotations"]
                .get(PROVIDED_ADDRESS)
                .is_none()
        );
        let cloud = node(&identity(Some(Vec::new())));
        assert_eq!(types(&cloud), ["Hostname"]);
        let taint = json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"});
        assert_eq!(cloud["spec"]["taints"], json!([taint]));
        let given = node(&identity(Some(vec!["10.1.0.1".to_owned()])));
        assert_eq!(types(&given), ["InternalIP", "Hostname"]);
        assert_eq!(
            given["metadata"]["annotations"][PROVIDED_ADDRESS],
            "10.1.0.1"
        );
    }

    #[tokio::test]
    async fn a_runtime_that_hangs_is_down_and_keeps_nobody_waiting() {
        use node_agent_cri::fake::{Fake, Fault};
        let (runtime, patience) = (Fake::default(), Duration::from_millis(100));
        runtime.fail("Status", Fault::Hang);
        runtime.fail("ListImages", Fault::Hang);
        let (hangs, list) = asked(&runtime, 50, patience).await;
        assert_eq!(list, None);
        let hangs = hangs.map(|answer| answer.status.unwrap_or_default());
        let found = conditions(&hangs, &machine::Pressure::default(), false);
        let ready = found.iter().find(|c| c.kind == "Ready").unwrap();
        assert!(!ready.status && ready.message.contains("may not have completed"));
        // each fault happens once: this was not asked for before
        assert_eq!(images(&runtime, 50, patience).await, None);
        let (well, list) = asked(&runtime, 50, RUNTIME_PATIENCE).await;
        assert!(well.is_ok() && list.is_some());
    }

    #[test]
    fn node_is_ready_only_with_runtime_and_network() {
        let none = machine::Pressure::default();
        let ready = |runtime: &Result<_, RuntimeStatusError>| {
            let all = conditions(runtime, &none, false);
            let ready = all.iter().find(|c| c.kind == "Ready").unwrap().clone();
            (ready.status, ready.message)
        };
        assert!(ready(&status(true, true)).0);
        let (is_ready, message) = ready(&status(true, false));
        assert!(!is_ready);
        assert_eq!(
            message,
            "container runtime network not ready: NetworkReady=false reason:Why message:because"
        );
        assert!(!ready(&status(false, true)).0);
        assert!(!ready(&Err(RuntimeStatusError::Timeout)).0);
        let leaving = conditions(&status(true, true), &none, true);
        let ready = leaving.iter().find(|c| c.kind == "Ready").unwrap();
        assert!(!ready.status);
        assert_eq!(ready.message, "node is shutting down");
    }
}
