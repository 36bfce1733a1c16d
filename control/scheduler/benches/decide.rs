//! How long one decision takes in large clusters, by what the pods ask for.
//!
//! Each line is one workload: pods come one after the other, and each sees those before it.
//! Prints the median, the 99th percentile and the longest decision, and decisions per second.
//!
//! ```text
//! cargo bench -p control-scheduler --bench decide [-- NODES …]     5000 and 50000 unless given
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_scheduler::view::{Node, Pod};
use control_scheduler::{Cluster, Decision, Placer};
use serde_json::{Value, json};

const SIZES: [usize; 2] = [5000, 50_000];
/// Pods per workload.
const PODS: usize = 2000;
/// Pods that are there before, on each node.
const BEFORE: usize = 1;

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// What pods of a workload ask for.
fn workloads() -> [(&'static str, Value); 6] {
    let selector = json!({"matchLabels": {"app": "web"}});
    let term = |key: &str| json!([{"topologyKey": key, "labelSelector": selector}]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = json!([{"weight": 10, "podAffinityTerm":
        {"topologyKey": ZONE, "labelSelector": selector}}]);
    [
        ("basic", json!({})),
        (
            "anti-affinity by host",
            json!({"affinity": {"podAntiAffinity": {required: term(HOST)}}}),
        ),
        (
            "affinity by zone",
            json!({"affinity": {"podAffinity": {required: term(ZONE)}}}),
        ),
        (
            "preferred affinity by zone",
            json!({"affinity": {"podAffinity":
                {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}),
        ),
        (
            "spread over zones and hosts",
            json!({"topologySpreadConstraints": [
                {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": selector},
                {"maxSkew": 3, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway",
                 "labelSelector": selector}]}),
        ),
        (
            "node affinity",
            json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [
                {"matchExpressions": [
                    {"key": ZONE, "operator": "In", "values": ["zone-1", "zone-2"]}]}]}}}}),
        ),
    ]
}

fn pod(name: &str, app: &str, spec: &Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..nodes {
        let name = format!("node-{number}");
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {
                HOST: name, ZONE: format!("zone-{}", number % 3)}},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}},
        }))
        .expect("a node");
        cluster.snapshot.set_node(&Arc::new(node));
        for pods in 0..BEFORE {
            let before = pod(&format!("{name}-{pods}"), "before", &json!({}));
            cluster.snapshot.put_pod(&before, &name);
        }
    }
    cluster
}

/// The time of each decision, in ascending order.
fn decisions(nodes: usize, spec: &Value) -> Vec<Duration> {
    let mut cluster = cluster(nodes);
    let mut placer = Placer::default();
    let mut times: Vec<Duration> = (0..PODS)
        .map(|number| {
            let pod = pod(&format!("web-{number}"), "web", spec);
            let began = Instant::now();
            let decision = placer.place(&mut cluster, &pod, number as u64);
            if let Decision::Place { node, .. } = decision {
                let node = cluster.snapshot.name(node).to_owned();
                cluster.snapshot.put_pod(&pod, &node);
            } else {
                panic!("pod {number} fits nowhere");
            }
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

fn main() {
    let named: Vec<usize> = std::env::args()
        .filter_map(|word| word.parse().ok())
        .collect();
    let sizes = if named.is_empty() {
        SIZES.to_vec()
    } else {
        named
    };
    println!(
        "{:<8} {:<28} {:>10} {:>10} {:>10} {:>10}",
        "nodes", "pods", "p50 us", "p99 us", "max us", "per s"
    );
    for nodes in sizes {
        for (name, spec) in workloads() {
            let times = decisions(nodes, &spec);
            let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
            let all: Duration = times.iter().sum();
            println!(
                "{nodes:<8} {name:<28} {:>10.1} {:>10.1} {:>10.1} {:>10.0}",
                at(50),
                at(99),
                at(100),
                times.len() as f64 / all.as_secs_f64()
            );
        }
    }
}
