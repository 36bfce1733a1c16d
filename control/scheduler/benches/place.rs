//! Placements per second with 1000 nodes.

use std::hint::black_box;
use std::sync::Arc;

use control_scheduler::view::{Node, Pod};
use control_scheduler::{Cluster, Decision, Placer, place};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;

const NODES: usize = 1000;

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..NODES {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": format!("node-{number}"), "labels": {
                "kubernetes.io/hostname": format!("node-{number}"),
                "topology.kubernetes.io/zone": format!("zone-{}", number % 3)}},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}},
        }))
        .expect("a node");
        cluster.snapshot.set_node(&Arc::new(node));
    }
    cluster
}

fn pod(number: usize, cpu: &str) -> Arc<Pod> {
    let pod = json!({
        "metadata": {"name": format!("web-{number}"), "namespace": "default", "uid": number.to_string()},
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]},
    });
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

fn placements(c: &mut Criterion) {
    let mut group = c.benchmark_group("1000 nodes");
    group.sample_size(10);
    let pods: Vec<Arc<Pod>> = (0..1000).map(|number| pod(number, "100m")).collect();
    group.throughput(Throughput::Elements(1000));
    group.bench_function("place 1000 equal pods, each seen by the next", |b| {
        b.iter_batched(
            || (cluster(), Placer::default()),
            |(mut cluster, mut placer)| {
                for (tie, pod) in (0u64..).zip(&pods) {
                    if let Decision::Place { node, .. } = placer.place(&mut cluster, pod, tie) {
                        let node = cluster.snapshot.name(node).to_owned();
                        cluster.snapshot.put_pod(pod, &node);
                    }
                }
                cluster
            },
            BatchSize::LargeInput,
        );
    });
    group.throughput(Throughput::Elements(1));
    let mut cluster = cluster();
    let one = pod(0, "250m");
    group.bench_function("place a pod like no other", |b| {
        b.iter(|| black_box(place(&mut cluster, &one, 0)));
    });
    group.finish();
}

criterion_group!(benches, placements);
criterion_main!(benches);
