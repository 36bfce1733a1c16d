//! The node's own object: registered once, then kept true.

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
use control_client::{Client, Discard, Error, Meta, Patch, resources};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use self::machine::Machine;
use crate::cri::{Runtime, api};
use crate::shared::Shared;

/// How often the node looks at itself.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How often an unchanged status is written.
const WRITE_EVERY: Duration = Duration::from_secs(300);

/// How long the runtime may take to say how it is; the node is not ready then.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(30);

/// What the node says of itself.
#[derive(Clone, Debug)]
pub struct Identity {
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
pub struct Condition {
    kind: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

/// The node's conditions, from the runtime's and the machine's state: pure.
#[must_use]
pub fn conditions(
    runtime: &Result<api::RuntimeStatus, String>,
    machine: &machine::Pressure,
    leaving: bool,
) -> Vec<Condition> {
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
        Condition {
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
            Condition {
                kind: "Ready",
                status: true,
                reason: "KubeletReady",
                message: "kubelet is posting ready status".to_owned(),
            }
        } else {
            Condition {
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
    identity: &Identity,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    let labels = labels(identity);
    let body = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": identity.name,
            "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": if identity.taints.is_empty() { json!({}) } else { json!({"taints": identity.taints}) },
        "status": facts(identity),
    });
    let mut pause = Duration::from_millis(200);
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
            "cannot register the node"
        );
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

fn labels(identity: &Identity) -> Map<String, Value> {
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

/// What does not change while the agent runs.
fn facts(identity: &Identity) -> Value {
    let machine = &identity.machine;
    let mut addresses: Vec<Value> = identity
        .ips
        .iter()
        .map(|ip| json!({"type": "InternalIP", "address": ip}))
        .collect();
    addresses.push(json!({"type": "Hostname", "address": identity.hostname}));
    let mut facts = json!({
        "addresses": addresses,
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

/// Keeps the node's status true until `shutdown`.
pub async fn keep(shared: Arc<Shared>, identity: Identity, shutdown: CancellationToken) {
    let mut written: Option<(Instant, Value, Vec<Condition>)> = None;
    let mut told_ready = None;
    loop {
        let most = shared.settings.status_images;
        let (answer, images) = asked(&*shared.runtime, most, RUNTIME_PATIENCE).await;
        let told = answer.as_ref().map(runtime_facts).unwrap_or_default();
        let runtime = answer.map(|answer| answer.status.unwrap_or_default());
        let network = runtime.as_ref().is_ok_and(|s| {
            s.conditions
                .iter()
                .any(|c| c.r#type == "NetworkReady" && c.status)
        });
        shared.attention.set_network_ready(network);
        let found = conditions(&runtime, &shared.pressure(), shared.leaving.is_now());
        let ready = found.iter().any(|c| c.kind == "Ready" && c.status);
        let mut status = facts(&identity);
        if let Some(map) = status.as_object_mut() {
            if let Some(images) = images {
                map.insert("images".to_owned(), images);
            }
            // what is listed here is not detached
            map.insert("volumesInUse".to_owned(), shared.csi.in_use().into());
            map.extend(told);
            add_devices(map, &shared.devices.counts());
        }
        let due = written.as_ref().is_none_or(|(at, body, conditions)| {
            at.elapsed() >= WRITE_EVERY || *body != status || *conditions != found
        });
        if due {
            match write(&shared.client, &identity.name, &status, &found).await {
                Ok(()) => written = Some((Instant::now(), status, found)),
                Err(error) if error.is_not_found() => {
                    // somebody deleted it; this machine is still here
                    let _ = register(&shared.client, &identity, &shutdown).await;
                }
                Err(error) => {
                    tracing::warn!(
                        node = identity.name,
                        error = error.chain(),
                        "cannot write the node's status"
                    );
                }
            }
            if told_ready != Some(ready) {
                told_ready = Some(ready);
                tracing::info!(node = identity.name, ready, "node");
            }
        }
        // what is about to become ready is looked at more often
        let pause = if ready && written.is_some() {
            LOOK_EVERY
        } else {
            Duration::from_millis(300)
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = shared.leaving.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
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
) -> (Result<api::StatusResponse, String>, Option<Value>) {
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
) -> Result<api::StatusResponse, String> {
    let asked = runtime.status(api::StatusRequest { verbose: false });
    match tokio::time::timeout(patience, asked).await {
        Ok(answer) => answer.map_err(|e| e.to_string()),
        Err(_) => Err("container runtime status check may not have completed yet".to_owned()),
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

async fn write(
    client: &Client,
    name: &str,
    status: &Value,
    found: &[Condition],
) -> Result<(), Error> {
    let node: NodeView = client.get(&resources::NODES, "", name).await?;
    let now = seconds(Timestamp::now());
    let list: Vec<Value> = found
        .iter()
        .map(|condition| {
            let value = if condition.status { "True" } else { "False" };
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
    client
        .patch_status::<Discard>(&resources::NODES, "", name, Patch::Strategic(&patch))
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(runtime: bool, network: bool) -> Result<api::RuntimeStatus, String> {
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

    #[tokio::test]
    async fn a_runtime_that_hangs_is_down_and_keeps_nobody_waiting() {
        use crate::cri::fake::{Fake, Fault};
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
        let ready = |runtime: &Result<_, String>| {
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
        assert!(!ready(&Err("gone".to_owned())).0);
        let leaving = conditions(&status(true, true), &none, true);
        let ready = leaving.iter().find(|c| c.kind == "Ready").unwrap();
        assert!(!ready.status);
        assert_eq!(ready.message, "node is shutting down");
    }
}
