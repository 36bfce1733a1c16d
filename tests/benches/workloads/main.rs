//! Measures how fast the controllers of a control plane create the pods of a StatefulSet and of a
//! DaemonSet and add ready pods to EndpointSlices, and the costs of the control plane with many
//! nodes and pods while nothing changes.
//!
//! It measures any cluster without nodes of its own, Orlop's or a stock one:
//!
//! ```text
//! cargo bench -p tests --bench workloads -- --kubeconfig FILE --pid controllers=123
//! ```
//!
//! The nodes are objects without machines and are removed afterwards, so the pods never start: a
//! time ends when a watch shows the last pod.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Parser;
use control_client::{Client, Selection, resources};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tests::{Failure, ensure};

mod cost;
mod slices;

#[derive(Parser)]
struct Options {
    /// The cluster's administrator.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// A process whose processor time and memory are measured: NAME=PID. Repeatable.
    #[arg(long, value_name = "NAME=PID", value_parser = cost::process)]
    pid: Vec<cost::Process>,
    /// Replicas of the StatefulSet.
    #[arg(long, default_value_t = 100)]
    replicas: usize,
    /// Nodes of the DaemonSet.
    #[arg(long, default_value_t = 500)]
    nodes: usize,
    /// How often each workload is made.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Nodes in the cluster while it is idle; 0 measures no idleness.
    #[arg(long, default_value_t = 0)]
    idle_nodes: usize,
    /// Pods for each of those nodes.
    #[arg(long, default_value_t = 10)]
    idle_pods: usize,
    /// Seconds of idleness.
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Requests at the same time while objects are made.
const CONCURRENCY: usize = 32;
/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(300);
/// How long the control plane may still work on what was made before it counts as idle.
const SETTLE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let client = Client::from_kubeconfig(&options.kubeconfig).await?;
    let namespace = json!({"metadata": {"generateName": "workloads-"}});
    let made: Value = client
        .create(&resources::NAMESPACES, "", &namespace)
        .await?;
    let namespace = made["metadata"]["name"].as_str().unwrap_or_default();
    let measured = measure(&client, namespace, &options).await;
    remove(&client, namespace).await?;
    measured
}

async fn measure(client: &Client, namespace: &str, options: &Options) -> Result<(), Failure> {
    let mut times = Vec::new();
    for _ in 0..options.rounds {
        let set = stateful_set(options.replicas);
        times.push(
            made(
                client,
                namespace,
                &resources::STATEFUL_SETS,
                &set,
                options.replicas,
            )
            .await?,
        );
    }
    say("StatefulSet", options.replicas, times, &options.pid);

    make_nodes(client, 0..options.nodes).await?;
    let mut times = Vec::new();
    for _ in 0..options.rounds {
        times.push(
            made(
                client,
                namespace,
                &resources::DAEMON_SETS,
                &daemon_set(),
                options.nodes,
            )
            .await?,
        );
    }
    say("DaemonSet", options.nodes, times, &options.pid);

    slices::storm(client, namespace, options.rounds).await?;

    if options.idle_nodes > 0 {
        make_nodes(client, options.nodes..options.idle_nodes).await?;
        make_pods(client, namespace, options).await?;
        tokio::time::sleep(SETTLE).await;
        cost::idle(&options.pid, Duration::from_secs(options.idle)).await;
    }
    Ok(())
}

fn say(what: &str, pods: usize, mut times: Vec<Duration>, processes: &[cost::Process]) {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!("{what} of {pods}: median {median:.3?} of {times:.3?}");
    for process in processes {
        println!("  {process}");
    }
}

/// Makes a workload, waits for its pods, and removes all.
async fn made(
    client: &Client,
    namespace: &str,
    resource: &control_client::Resource,
    object: &Value,
    count: usize,
) -> Result<Duration, Failure> {
    let pods: Api<Pod> = Api::namespaced(client.kube().clone(), namespace);
    let all = Selection::all().namespace(namespace);
    let list = client.list::<Value>(&resources::PODS, &all).await?;
    ensure(list.items.is_empty(), "pods are left of before")?;
    let watch = pods
        .watch_metadata(&WatchParams::default(), &list.resource_version)
        .await?;
    let mut watch = watch.boxed();
    let began = Instant::now();
    let created: Value = client.create(resource, namespace, object).await?;
    follow(&mut watch, count, true).await?;
    let took = began.elapsed();
    let name = created["metadata"]["name"].as_str().unwrap_or_default();
    client
        .delete(resource, namespace, name, &Default::default())
        .await?;
    follow(&mut watch, count, false).await?;
    Ok(took)
}

/// Waits until so many pods came or went.
async fn follow<K>(
    watch: &mut (impl futures::Stream<Item = kube::Result<WatchEvent<K>>> + Unpin),
    count: usize,
    comes: bool,
) -> Result<(), Failure> {
    let mut left = count;
    let waited = tokio::time::timeout(LIMIT, async {
        while left > 0 {
            match watch.try_next().await? {
                Some(WatchEvent::Added(_)) if comes => left -= 1,
                Some(WatchEvent::Deleted(_)) if !comes => left -= 1,
                Some(_) => {}
                None => return Err("the watch ended".into()),
            }
        }
        Ok::<_, Failure>(())
    });
    match waited.await {
        Ok(done) => done,
        Err(_) => Err(format!("{left} of {count} pods are missing after {LIMIT:?}").into()),
    }
}

fn template(name: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "none.example/none:1"}],
        },
    })
}

fn stateful_set(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"generateName": "set-"},
        "spec": {
            "replicas": replicas, "podManagementPolicy": "Parallel", "serviceName": "set",
            "selector": {"matchLabels": {"app": "set"}}, "template": template("set"),
        },
    })
}

fn daemon_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"generateName": "daemon-"},
        "spec": {"selector": {"matchLabels": {"app": "daemon"}}, "template": template("daemon")},
    })
}

fn node_name(number: usize) -> String {
    format!("workloads-{number}")
}

async fn make_nodes(client: &Client, numbers: std::ops::Range<usize>) -> Result<(), Failure> {
    let one = |number| async move {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node_name(number), "labels": {"workloads": "true"}},
            "status": {
                "capacity": {"cpu": "4", "memory": "32Gi", "pods": "110"},
                "allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        client
            .create::<Value>(&resources::NODES, "", &node)
            .await
            .map(drop)
    };
    let all = stream::iter(numbers.map(one));
    Ok(all.buffer_unordered(CONCURRENCY).try_collect().await?)
}

/// Pods that are bound to the nodes by who makes them.
async fn make_pods(client: &Client, namespace: &str, options: &Options) -> Result<(), Failure> {
    let count = options.idle_nodes * options.idle_pods;
    let one = |number: usize| async move {
        let mut pod = template("idle");
        pod["metadata"]["name"] = format!("idle-{number}").into();
        pod["spec"]["nodeName"] = node_name(number % options.idle_nodes).into();
        client
            .create::<Value>(&resources::PODS, namespace, &pod)
            .await
            .map(drop)
    };
    let all = stream::iter((0..count).map(one));
    Ok(all.buffer_unordered(CONCURRENCY).try_collect().await?)
}

async fn remove(client: &Client, namespace: &str) -> Result<(), Failure> {
    client
        .delete(&resources::NAMESPACES, "", namespace, &Default::default())
        .await?;
    let nodes = Selection::all().labels("workloads=true");
    client
        .delete_collection(&resources::NODES, &nodes, &Default::default())
        .await?;
    Ok(())
}
