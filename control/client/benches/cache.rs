//! Measures a cache of 50 000 objects: a write, a snapshot, a lookup, and reading a watch
//! event.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use control_client::{Cache, Client, Meta, Resource, Selection, View, reflect, resources};
use criterion::{Criterion, criterion_group, criterion_main};
use futures::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use serde::Deserialize;
use serde_json::json;

const PODS: usize = 50_000;

/// Roughly what a scheduler reads of a pod.
#[derive(Deserialize)]
struct Pod {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: String,
}

impl View for Pod {
    const RESOURCE: Resource = resources::PODS;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// A pod with the bulk of a real one (about 4 KB).
fn pod(number: usize, version: usize) -> String {
    json!({"type": "MODIFIED", "object": {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-7d4b9c6f5d-{number:05}"), "namespace": format!("ns-{}", number % 50),
            "uid": format!("00000000-0000-0000-0000-{number:012}"),
            "resourceVersion": version.to_string(),
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:conditions": vec![json!({"k:{}": {".": {}}}); 20]}}}],
        },
        "spec": {"nodeName": format!("node-{}", number % 1000), "containers": vec![json!({
            "name": "web", "image": "registry.example/web:1", "env": vec![json!({"name": "A", "value": "b"}); 10],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}); 2]},
        "status": {"phase": "Running", "podIP": "10.244.1.2", "conditions": vec![
            json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}); 5]},
    }})
    .to_string()
        + "\n"
}

fn cost(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (feed, receiver) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
    let receiver = std::sync::Mutex::new(Some(receiver));
    let service = tower::service_fn(move |_: Request<control_client::RequestBody>| {
        let receiver = receiver.lock().unwrap().take();
        async move {
            let receiver = receiver.expect("one watch is enough");
            let chunks = futures::stream::unfold(receiver, |mut receiver| async move {
                receiver.recv().await.map(|chunk| (chunk, receiver))
            });
            let body = StreamBody::new(chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk))));
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    let _guard = runtime.enter();
    let client = Client::in_process(service, ());
    let reflector = reflect::<Pod>(&client, Selection::all());
    let cache: Cache<Pod> = reflector.cache();
    for number in 0..PODS {
        feed.send(Bytes::from(pod(number, number + 1))).unwrap();
    }
    feed.send(Bytes::from_static(
        b"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"50001\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n",
    ))
    .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), reflector.synced())
            .await
            .unwrap();
    });
    assert_eq!(cache.len(), PODS);

    let mut group = c.benchmark_group("cache of 50000");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(3));
    group.bench_function("snapshot", |b| b.iter(|| black_box(cache.snapshot())));
    let mut number = 0;
    group.bench_function("get", |b| {
        b.iter(|| {
            number = (number + 7919) % PODS;
            black_box(cache.get(
                &format!("ns-{}", number % 50),
                &format!("web-7d4b9c6f5d-{number:05}"),
            ))
        });
    });
    group.bench_function("iterate", |b| {
        b.iter(|| {
            let snapshot = cache.snapshot();
            black_box(
                snapshot
                    .iter()
                    .filter(|pod| pod.spec.node_name == "node-7")
                    .count(),
            )
        });
    });
    let before = reflector.stats();
    let mut changes = reflector.changes();
    while changes.try_recv().is_some() {}
    let mut version = PODS + 2;
    group.bench_function("event, from bytes to change received", |b| {
        b.iter_custom(|times| {
            let events: Vec<Bytes> = (0..times)
                .map(|_| {
                    version += 1;
                    Bytes::from(pod(version * 7919 % PODS, version))
                })
                .collect();
            let began = std::time::Instant::now();
            runtime.block_on(async {
                for event in events {
                    feed.send(event).unwrap();
                    changes.recv().await.unwrap();
                }
            });
            began.elapsed()
        });
    });
    group.finish();
    let after = reflector.stats();
    let batches = after.batches - before.batches;
    println!(
        "event received to visible in the cache: {} ns on average of {batches}",
        (after.latency_nanos - before.latency_nanos) / batches.max(1)
    );
}

criterion_group!(benches, cost);
criterion_main!(benches);
