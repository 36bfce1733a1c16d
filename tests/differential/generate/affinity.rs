//! Random affinity, to nodes and between pods.

use serde_json::{Value, json};

use super::label_selector;
use super::nodes::TOPOLOGIES;
use tests::random::Random;

/// Affinity to nodes.
pub fn of_nodes(random: &mut Random, nodes: &[String]) -> Value {
    let mut affinity = json!({});
    if random.chance(60) {
        let count = random.between(1, 2);
        let terms: Vec<Value> = (0..count).map(|_| term(random, nodes)).collect();
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if random.chance(60) {
        let count = random.between(1, 3);
        let terms: Vec<Value> = (0..count)
            .map(|_| json!({"weight": random.pick(&[1, 10, 100]), "preference": term(random, nodes)}))
            .collect();
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!(terms);
    }
    affinity
}

fn term(random: &mut Random, nodes: &[String]) -> Value {
    let mut term = json!({});
    if random.chance(85) {
        let count = random.between(1, 2);
        let expressions: Vec<Value> = (0..count).map(|_| expression(random)).collect();
        term["matchExpressions"] = json!(expressions);
    }
    if random.chance(20) {
        let count = random.between(1, 2);
        let fields = (0..count).map(|_| {
            let operator = random.pick(&["In", "NotIn"]);
            json!({"key": "metadata.name", "operator": operator, "values": [random.pick(nodes)]})
        });
        term["matchFields"] = fields.collect();
    }
    term
}

fn expression(random: &mut Random) -> Value {
    match random.below(6) {
        0 => json!({"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}),
        1 => json!({"key": "topology.kubernetes.io/zone", "operator": "NotIn",
            "values": [random.pick(&["z1", "z2", "z3"])]}),
        2 => json!({"key": random.pick(&["rack", "disk"]), "operator": "Exists"}),
        3 => json!({"key": random.pick(&["rack", "disk"]), "operator": "DoesNotExist"}),
        4 => json!({"key": "generation", "operator": "Gt", "values": [random.pick(&["1", "5"])]}),
        _ => json!({"key": "generation", "operator": "Lt", "values": [random.pick(&["7", "12"])]}),
    }
}

/// Affinity to pods, or anti-affinity.
pub fn of_pods(random: &mut Random) -> Value {
    let mut affinity = json!({});
    if random.chance(45) {
        let count = random.between(1, 2);
        let terms: Vec<Value> = (0..count).map(|_| pod_term(random)).collect();
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!(terms);
    }
    if random.chance(60) {
        let count = random.between(1, 2);
        let terms: Vec<Value> = (0..count)
            .map(|_| json!({"weight": random.pick(&[1, 10, 100]), "podAffinityTerm": pod_term(random)}))
            .collect();
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!(terms);
    }
    affinity
}

fn pod_term(random: &mut Random) -> Value {
    let mut term = json!({"topologyKey": random.pick(&TOPOLOGIES)});
    if random.chance(92) {
        term["labelSelector"] = label_selector(random);
        if random.chance(15) {
            term["matchLabelKeys"] = json!(["hash"]);
        } else if random.chance(15) {
            term["mismatchLabelKeys"] = json!(["hash"]);
        }
    }
    if random.chance(25) {
        term["namespaces"] = json!([random.pick(&["red", "green", "absent"])]);
    }
    if random.chance(25) {
        term["namespaceSelector"] = match random.below(3) {
            0 => json!({}),
            1 => json!({"matchLabels": {"team": random.pick(&["a", "b"])}}),
            _ => json!({"matchExpressions": [{"key": "env", "operator": "Exists"}]}),
        };
    }
    term
}
