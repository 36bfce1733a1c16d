//! Searches for victims per second with 1000 nodes of four less important pods each.

use std::hint::black_box;
use std::sync::Arc;

use control_scheduler::view::{Node, Pod};
use control_scheduler::{Cluster, Decision, Placer};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

const NODES: usize = 1000;

fn pod(name: &str, priority: i32, cpu: u32, more: &Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"priority": priority, "containers": [
            {"resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]},
        "status": {"startTime": "2026-01-01T00:00:00Z"},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..NODES {
        let name = format!("node-{number}");
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": format!("zone-{}", number % 3)}},
            "status": {"allocatable": {"cpu": "4", "memory": "256Gi", "pods": "110"}},
        }))
        .expect("a node");
        cluster.snapshot.set_node(&Arc::new(node));
        for victim in 0..4 {
            let victim = pod(&format!("{name}-{victim}"), 0, 1, &json!({}));
            cluster.snapshot.put_pod(&victim, &name);
        }
    }
    cluster
}

fn preemptions(c: &mut Criterion) {
    let mut group = c.benchmark_group("1000 nodes, 4 victims each");
    group.sample_size(10);
    group.throughput(Throughput::Elements(1));
    let away = json!({"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
    for (name, spec) in [
        ("find victims for a large pod", json!({})),
        ("find victims for a pod that shuns them", away),
    ] {
        let mut cluster = cluster();
        let mut placer = Placer::default();
        let large = pod("large", 10, 3, &spec);
        let mut random = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                let Decision::Unschedulable(diagnosis) = placer.place(&mut cluster, &large, 0)
                else {
                    return;
                };
                random += 1;
                let found = placer.preempt(&mut cluster, &large, &diagnosis, random);
                black_box(found.is_ok());
            });
        });
    }
    group.finish();
}

criterion_group!(benches, preemptions);
criterion_main!(benches);
