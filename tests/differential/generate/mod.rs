//! Random clusters and pods. Words are few, so that selectors, labels and ports meet often.

use serde_json::{Value, json};

use crate::case::{Case, Object, Step};
use tests::random::Random;

mod affinity;
mod devices;
mod nodes;
mod pods;
mod volumes;

/// Namespaces of all cases, with their labels.
pub const NAMESPACES: [(&str, &[(&str, &str)]); 3] = [
    ("red", &[("team", "a"), ("env", "prod")]),
    ("green", &[("team", "a"), ("env", "test")]),
    ("blue", &[("team", "b")]),
];

/// Priority classes of all cases: name, value, and whether its pods preempt others.
pub const PRIORITIES: [(&str, i64, bool); 5] = [
    ("lowest", -10, true),
    ("low", 10, true),
    ("high", 100, true),
    ("highest", 1000, true),
    ("patient", 100, false),
];

/// Which kinds of constraints a case exercises.
#[derive(Clone, Debug)]
pub struct Focus {
    /// Chance, in a hundred, of what is not in the case's focus.
    pub other: usize,
    /// The constraint that most pods of the case have.
    pub main: Constraint,
    /// Constraints that no pod of the case has.
    pub without: Vec<Constraint>,
}

/// What constrains a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Constraint {
    /// Requests of all kinds.
    Resources,
    /// Taints, cordons and tolerations.
    Taints,
    /// Node selectors and node affinity.
    Nodes,
    /// Host ports and images.
    Ports,
    /// Affinity and anti-affinity between pods.
    Pods,
    /// Topology spread constraints.
    Spread,
    /// Priorities, in a cluster that is full.
    Preemption,
    /// Volumes and claims to them.
    Volumes,
    /// Claims to devices.
    Devices,
    /// A little of everything.
    Mixed,
}

const ALL: [Constraint; 10] = [
    Constraint::Resources,
    Constraint::Taints,
    Constraint::Nodes,
    Constraint::Ports,
    Constraint::Pods,
    Constraint::Spread,
    Constraint::Preemption,
    Constraint::Volumes,
    Constraint::Devices,
    Constraint::Mixed,
];

impl Focus {
    /// The chance, in a hundred, that a pod has this constraint.
    pub fn chance(&self, constraint: Constraint) -> usize {
        if self.without.contains(&constraint) {
            0
        } else if self.main == constraint {
            85
        } else {
            self.other
        }
    }
}

/// The case of a seed, about a constraint that is given or drawn, without some.
pub fn case(seed: u64, about: Option<Constraint>, without: &[Constraint]) -> Case {
    let mut random = Random::new(seed);
    let drawn = match *random.pick(&ALL) {
        drawn if without.contains(&drawn) => Constraint::Mixed,
        drawn => drawn,
    };
    let main = about.unwrap_or(drawn);
    let other = match main {
        Constraint::Mixed => 35,
        _ => *random.pick(&[0, 8, 15]),
    };
    let focus = Focus {
        other,
        main,
        without: without.to_vec(),
    };
    let mut objects = nodes::nodes(&mut random, seed, &focus);
    let names: Vec<String> = objects.iter().map(|it| it.name().to_owned()).collect();
    let with_volumes = random.chance(focus.chance(Constraint::Volumes));
    if with_volumes {
        let volumes = volumes::objects(&mut random, seed, &objects);
        objects.extend(volumes);
    }
    let with_devices = random.chance(focus.chance(Constraint::Devices));
    if with_devices {
        let of_nodes = objects.iter().filter(|it| it.kind() == "Node");
        let of_nodes: Vec<Object> = of_nodes.cloned().collect();
        objects.extend(devices::objects(&mut random, seed, &of_nodes));
    }
    objects.extend(services(&mut random));
    if random.chance(focus.chance(Constraint::Preemption)) {
        objects.extend(budgets(&mut random));
    }
    let sets: Vec<Object> = objects
        .iter()
        .filter(|it| it.kind() == "ReplicaSet")
        .cloned()
        .collect();
    let count = random.between(8, 16);
    let steps = (0..count).map(|at| {
        let mut pod = pods::pod(&mut random, &format!("p{at}"), &names, &focus);
        adopt(&mut pod, &sets);
        if with_volumes && random.chance(focus.chance(Constraint::Volumes)) {
            volumes::add_to(&mut random, &mut pod);
        }
        if with_devices && random.chance(focus.chance(Constraint::Devices)) {
            devices::add_to(&mut random, &mut pod);
        }
        if random.chance(12) {
            pod["spec"]["nodeName"] = json!(random.pick(&names));
            if let Some(spec) = pod["spec"].as_object_mut() {
                // A pod that names its node may have no gates.
                spec.remove("schedulingGates");
            }
            if random.chance(30) {
                Step::Terminating(pod)
            } else {
                Step::Bound(pod)
            }
        } else {
            Step::Schedule(pod)
        }
    });
    Case {
        seed,
        steps: steps.collect(),
        objects,
    }
}

/// Gives a pod to the replica set of its namespace that selects it.
fn adopt(pod: &mut Value, sets: &[Object]) {
    let set = sets.iter().find(|set| {
        set.value["metadata"]["namespace"] == pod["metadata"]["namespace"]
            && set.value["spec"]["selector"]["matchLabels"]["app"]
                == pod["metadata"]["labels"]["app"]
    });
    if let Some(set) = set {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set.name(), "uid": "of-a-case",
            "controller": true,
        }]);
    }
}

/// Services and replica sets, whose pods have the cluster's default spread constraints.
fn services(random: &mut Random) -> Vec<Object> {
    let mut services = Vec::new();
    for (namespace, _) in NAMESPACES {
        if random.chance(25) {
            let app = random.pick(&pods::APPS);
            services.push(Object::new(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"namespace": namespace, "name": format!("s-{app}")},
                "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
            })));
        }
        if random.chance(20) {
            let app = random.pick(&pods::APPS);
            let template = json!({"metadata": {"labels": {"app": app}}, "spec": {
                "containers": [{"name": "c", "image": "absent"}]}});
            services.push(Object::new(json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"namespace": namespace, "name": format!("r-{app}")},
                "spec": {"replicas": 0, "selector": {"matchLabels": {"app": app}},
                    "template": template},
            })));
        }
    }
    services
}

/// Disruption budgets. What they allow stands in their status, which no controller writes.
fn budgets(random: &mut Random) -> Vec<Object> {
    let mut budgets = Vec::new();
    for (namespace, _) in NAMESPACES {
        for app in random.some(&pods::APPS, 35) {
            budgets.push(Object::new(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"namespace": namespace, "name": format!("b-{app}")},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
                "status": {
                    "disruptionsAllowed": random.below(3), "currentHealthy": 2,
                    "desiredHealthy": 1, "expectedPods": 2,
                },
            })));
        }
    }
    budgets
}

/// A label selector over the labels that pods have.
fn label_selector(random: &mut Random) -> Value {
    match random.below(10) {
        0 => json!({}),
        1 => json!({"matchExpressions": [
            {"key": "app", "operator": "In", "values": [random.pick(&pods::APPS), "other"]},
        ]}),
        2 => json!({"matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": [random.pick(&pods::TIERS)]},
        ]}),
        3 => json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        4 => json!({"matchLabels": {"app": random.pick(&pods::APPS)}, "matchExpressions": [
            {"key": "tier", "operator": "DoesNotExist"},
        ]}),
        _ => json!({"matchLabels": {"app": random.pick(&pods::APPS)}}),
    }
}
