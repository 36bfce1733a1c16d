//! Measures how soon pods that become ready at the same time are ready in their EndpointSlice.
//!
//! The time of a pod starts with the answer to the write of its status and ends with the event of
//! its slice. One watch delivers all slices, so that the measurement takes little of the control
//! plane's processors.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use control_client::{Client, resources};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tests::{Failure, ensure};
use tokio::sync::Notify;

use crate::{CONCURRENCY, LIMIT, node_name, template};

/// Services; each has so many pods as makes [`PODS`].
const SERVICES: usize = 20;
/// Pods that become ready, or unready, at once.
const PODS: usize = 400;

/// When an address last changed, and to what.
type Seen = HashMap<String, (bool, Instant)>;

/// Makes Services with pods, turns all pods `rounds` times, and prints what it took.
pub async fn storm(client: &Client, namespace: &str, rounds: usize) -> Result<(), Failure> {
    let service = |number: usize| async move {
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("storm-{number}")},
            "spec": {"selector": {"storm": number.to_string()}, "ports": [{"port": 80}]},
        });
        client
            .create::<Value>(&resources::SERVICES, namespace, &service)
            .await
            .map(drop)
    };
    let all = stream::iter((0..SERVICES).map(service));
    let () = all.buffer_unordered(CONCURRENCY).try_collect().await?;
    let pod = |number: usize| async move {
        let mut pod = template("storm");
        pod["metadata"]["name"] = name(number).into();
        pod["metadata"]["labels"]["storm"] = (number % SERVICES).to_string().into();
        pod["spec"]["nodeName"] = node_name(0).into();
        client
            .create::<Value>(&resources::PODS, namespace, &pod)
            .await?;
        turn(client, namespace, number, false).await.map(drop)
    };
    let all = stream::iter((0..PODS).map(pod));
    let () = all.buffer_unordered(CONCURRENCY).try_collect().await?;

    let seen = Arc::new(std::sync::Mutex::new(Seen::new()));
    let changed = Arc::new(Notify::new());
    let watching = tokio::spawn(watch(
        client.clone(),
        namespace.to_owned(),
        seen.clone(),
        changed.clone(),
    ));
    let outcome = turn_all(client, namespace, rounds, &seen, &changed).await;
    watching.abort();
    outcome
}

async fn turn_all(
    client: &Client,
    namespace: &str,
    rounds: usize,
    seen: &std::sync::Mutex<Seen>,
    changed: &Notify,
) -> Result<(), Failure> {
    until(seen, changed, false).await?;
    for round in 0..rounds {
        let ready = round % 2 == 0;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let began = Instant::now();
        let turned = stream::iter((0..PODS).map(|it| turn(client, namespace, it, ready)));
        let answered: Vec<(String, Instant)> = turned.buffer_unordered(PODS).try_collect().await?;
        let written = began.elapsed();
        until(seen, changed, ready).await?;
        let seen = seen.lock().map_err(|error| error.to_string())?;
        // An event may come before the answer.
        let mut times: Vec<Duration> = answered
            .iter()
            .filter_map(|(address, at)| Some(seen.get(address)?.1.saturating_duration_since(*at)))
            .collect();
        let all = seen.values().map(|(_, at)| at.duration_since(began)).max();
        drop(seen);
        ensure(times.len() == PODS, "an address is missing")?;
        times.sort_unstable();
        println!(
            "EndpointSlices of {SERVICES} Services, {PODS} pods at once: p50 {:.1?}, p99 {:.1?}, \
             all written after {written:.0?}, all seen after {:.0?}",
            times[PODS / 2],
            times[PODS * 99 / 100],
            all.unwrap_or_default(),
        );
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("storm-{number}")
}

fn address(number: usize) -> String {
    format!("10.1.{}.{}", number % SERVICES, number / SERVICES + 1)
}

/// Writes that a pod is ready, or is not; gives its address and when the answer came.
async fn turn(
    client: &Client,
    namespace: &str,
    number: usize,
    ready: bool,
) -> Result<(String, Instant), control_client::Error> {
    let address = address(number);
    let status = if ready { "True" } else { "False" };
    let patch = json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": status}],
    }});
    client
        .patch_status::<Value>(
            &resources::PODS,
            namespace,
            &name(number),
            control_client::Patch::Merge(&patch),
        )
        .await?;
    Ok((address, Instant::now()))
}

/// Waits until all addresses were seen ready, or not ready.
async fn until(
    seen: &std::sync::Mutex<Seen>,
    changed: &Notify,
    ready: bool,
) -> Result<(), Failure> {
    let all = || -> Result<bool, Failure> {
        let seen = seen.lock().map_err(|error| error.to_string())?;
        Ok(seen.values().filter(|(is, _)| *is == ready).count() == PODS)
    };
    let waited = tokio::time::timeout(LIMIT, async {
        while !all()? {
            changed.notified().await;
        }
        Ok::<_, Failure>(())
    });
    waited
        .await
        .map_err(|_| format!("not all of {PODS} addresses turned within {LIMIT:?}"))?
}

async fn watch(
    client: Client,
    namespace: String,
    seen: Arc<std::sync::Mutex<Seen>>,
    changed: Arc<Notify>,
) -> Result<(), kube::Error> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.kube().clone(), &namespace);
    let list = slices.list(&ListParams::default()).await?;
    let note = |slice: &EndpointSlice| {
        let now = Instant::now();
        let Ok(mut seen) = seen.lock() else { return };
        for endpoint in slice.endpoints.iter().flatten() {
            let ready = endpoint.conditions.as_ref().and_then(|it| it.ready) == Some(true);
            for address in &endpoint.addresses {
                match seen.get(address) {
                    Some((was, _)) if *was == ready => {}
                    _ => drop(seen.insert(address.clone(), (ready, now))),
                }
            }
        }
        drop(seen);
        changed.notify_one();
    };
    list.items.iter().for_each(note);
    let revision = list.metadata.resource_version.unwrap_or_default();
    let events = slices.watch(&WatchParams::default(), &revision).await?;
    let mut events = events.boxed();
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(slice) | WatchEvent::Modified(slice) = event {
            note(&slice);
        }
    }
    Ok(())
}
