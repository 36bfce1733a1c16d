//! Random pods.

use serde_json::{Map, Value, json};

use super::nodes::{EFFECTS, IMAGES, TAINTS, TOPOLOGIES};
use super::{Constraint, Focus, NAMESPACES, PRIORITIES, affinity, label_selector};
use tests::random::Random;

/// Values of the label `app`.
pub const APPS: [&str; 3] = ["web", "db", "cache"];

/// Values of the label `tier`.
pub const TIERS: [&str; 2] = ["front", "back"];

/// A pod that may have any constraint.
pub fn pod(random: &mut Random, name: &str, nodes: &[String], focus: &Focus) -> Value {
    let namespace = random.pick(&NAMESPACES).0;
    let mut labels = Map::new();
    if random.chance(90) {
        labels.insert("app".into(), json!(random.pick(&APPS)));
    }
    if random.chance(50) {
        labels.insert("tier".into(), json!(random.pick(&TIERS)));
    }
    if random.chance(50) {
        labels.insert("hash".into(), json!(random.pick(&["h1", "h2"])));
    }
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 30,
        "containers": containers(random, focus),
    });
    if random.chance(15) {
        spec["initContainers"] = init_containers(random, focus);
    }
    if random.chance(focus.chance(Constraint::Resources) / 6) {
        whole_pod(random, &mut spec);
    }
    if random.chance(focus.chance(Constraint::Ports) / 5) {
        spec["hostNetwork"] = json!(true);
        host_network(&mut spec);
    }
    if random.chance(focus.chance(Constraint::Taints)) {
        spec["tolerations"] = tolerations(random);
    }
    if random.chance(focus.chance(Constraint::Nodes) / 3) {
        spec["nodeSelector"] = match random.below(3) {
            0 => json!({"disk": random.pick(&["ssd", "hdd"])}),
            1 => json!({"topology.kubernetes.io/zone": random.pick(&["z1", "z2"])}),
            _ => json!({"disk": "ssd", "rack": random.pick(&["k1", "k2"])}),
        };
    }
    let mut all = Map::new();
    if random.chance(focus.chance(Constraint::Nodes)) {
        all.insert("nodeAffinity".into(), affinity::of_nodes(random, nodes));
    }
    if random.chance(focus.chance(Constraint::Pods)) {
        all.insert("podAffinity".into(), affinity::of_pods(random));
    }
    if random.chance(focus.chance(Constraint::Pods)) {
        all.insert("podAntiAffinity".into(), affinity::of_pods(random));
    }
    if !all.is_empty() {
        spec["affinity"] = Value::Object(all);
    }
    if random.chance(focus.chance(Constraint::Spread)) {
        spec["topologySpreadConstraints"] = spread(random);
    }
    let with_priority = match focus.main {
        Constraint::Preemption => 80,
        _ => 10,
    };
    if random.chance(with_priority) {
        spec["priorityClassName"] = json!(random.pick(&PRIORITIES).0);
    }
    if random.chance(focus.chance(Constraint::Ports) / 6) {
        let image = random.pick(&IMAGES).0;
        spec["volumes"] = json!([{"name": "image", "image": {"reference": image}}]);
    }
    if random.chance(3) {
        spec["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": spec,
    })
}

fn requests(random: &mut Random, focus: &Focus) -> Value {
    let mut requests = Map::new();
    let chance = match focus.main {
        Constraint::Resources | Constraint::Preemption => 85,
        _ => 40,
    };
    let cpus: &[&str] = match focus.main {
        Constraint::Preemption => &["400m", "500m", "1", "1500m"],
        _ => &["0", "1m", "100m", "250m", "1", "2500m"],
    };
    if random.chance(chance) {
        requests.insert("cpu".into(), json!(random.pick(cpus)));
    }
    if random.chance(chance) {
        let memory = random.pick(&["0", "64Mi", "300M", "1Gi", "1100000001"]);
        requests.insert("memory".into(), json!(memory));
    }
    if random.chance(focus.chance(Constraint::Resources) / 5) {
        let storage = random.pick(&["100Mi", "5Gi"]);
        requests.insert("ephemeral-storage".into(), json!(storage));
    }
    Value::Object(requests)
}

fn containers(random: &mut Random, focus: &Focus) -> Value {
    let count = random.between(1, 2);
    let containers = (0..count).map(|at| {
        let mut requests = requests(random, focus);
        let mut limits = json!({});
        if random.chance(focus.chance(Constraint::Resources) / 4) {
            let gpus = json!(random.pick(&["1", "2"]));
            requests["example.com/gpu"] = gpus.clone();
            limits["example.com/gpu"] = gpus;
        }
        let image = match random.below(3) {
            0 => random.pick(&[
                "registry.example/web",
                "cache",
                "registry.example:5000/tool",
                "absent",
            ]),
            _ => &random.pick(&IMAGES).0,
        };
        let mut container = json!({
            "name": format!("c{at}"), "image": image,
            "resources": {"requests": requests, "limits": limits},
        });
        if random.chance(focus.chance(Constraint::Ports)) {
            let number = *random.pick(&[8080, 8180, 9000]) + at;
            let mut port = json!({
                "containerPort": number, "hostPort": number,
                "protocol": random.pick(&["TCP", "TCP", "UDP"]),
            });
            if random.chance(40) {
                port["hostIP"] = json!(random.pick(&["127.0.0.1", "192.0.2.1", "0.0.0.0"]));
            }
            container["ports"] = json!([port]);
        }
        container
    });
    containers.collect()
}

fn init_containers(random: &mut Random, focus: &Focus) -> Value {
    let count = random.between(1, 3);
    let containers = (0..count).map(|at| {
        let mut container = json!({
            "name": format!("i{at}"), "image": random.pick(&IMAGES).0,
            "resources": {"requests": requests(random, focus)},
        });
        if random.chance(40) {
            container["restartPolicy"] = json!("Always");
            if random.chance(focus.chance(Constraint::Ports)) {
                container["ports"] = json!([{"containerPort": 9100 + at, "hostPort": 9100 + at}]);
            }
        }
        container
    });
    containers.collect()
}

/// Requests of the pod as a whole, which must not be less than those of its containers.
fn whole_pod(random: &mut Random, spec: &mut Value) {
    for containers in ["containers", "initContainers"] {
        let all = spec.get_mut(containers).and_then(Value::as_array_mut);
        for container in all.into_iter().flatten() {
            let requests = &mut container["resources"]["requests"];
            requests["cpu"] = json!(random.pick(&["0", "100m", "200m"]));
            requests["memory"] = json!(random.pick(&["0", "64Mi"]));
        }
    }
    let mut requests = json!({});
    if random.chance(80) {
        requests["cpu"] = json!(random.pick(&["1", "1200m"]));
    }
    if random.chance(80) {
        requests["memory"] = json!(random.pick(&["320Mi", "1500Mi"]));
    }
    spec["resources"] = json!({"requests": requests});
}

/// With the host's network, a port of the host is that of the container.
fn host_network(spec: &mut Value) {
    for containers in ["containers", "initContainers"] {
        let all = spec.get_mut(containers).and_then(Value::as_array_mut);
        for container in all.into_iter().flatten() {
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                port["hostPort"] = port["containerPort"].clone();
            }
        }
    }
}

fn tolerations(random: &mut Random) -> Value {
    let count = random.between(1, 3);
    let tolerations = (0..count).map(|_| {
        let (key, value) = random.pick(&TAINTS);
        let mut toleration = match random.below(5) {
            0 => json!({"operator": "Exists"}),
            1 => json!({"key": key, "operator": "Exists"}),
            2 => json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}),
            _ => json!({"key": key, "operator": "Equal", "value": value}),
        };
        if random.chance(60) {
            toleration["effect"] = json!(random.pick(&EFFECTS));
        }
        toleration
    });
    tolerations.collect()
}

fn spread(random: &mut Random) -> Value {
    let count = random.between(1, 3);
    let mut constraints: Vec<Value> = Vec::new();
    for _ in 0..count {
        let key = random.pick(&TOPOLOGIES);
        let hard = random.chance(50);
        let when = if hard {
            "DoNotSchedule"
        } else {
            "ScheduleAnyway"
        };
        let known = constraints
            .iter()
            .any(|it| it["topologyKey"] == *key && it["whenUnsatisfiable"] == when);
        if known {
            continue;
        }
        let mut constraint = json!({
            "topologyKey": key, "whenUnsatisfiable": when, "maxSkew": random.between(1, 3),
        });
        if random.chance(95) {
            constraint["labelSelector"] = label_selector(random);
            if random.chance(25) {
                constraint["matchLabelKeys"] = json!(["hash"]);
            }
        }
        if hard && random.chance(30) {
            constraint["minDomains"] = json!(random.between(1, 4));
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if random.chance(40) {
                constraint[policy] = json!(random.pick(&["Honor", "Ignore"]));
            }
        }
        constraints.push(constraint);
    }
    json!(constraints)
}
