//! Random cases, one file for each group of controllers.

mod batch;
mod cluster;
mod services;
mod volumes;
mod workloads;

use serde_json::{Value, json};

use super::scenario::{Action, Case, Step};
use ::tests::random::Random;

/// Makes the steps of a case.
type Family = (&'static str, fn(&mut Random, &str) -> Vec<Step>);

/// All families, of which each case is one.
const FAMILIES: &[Family] = &[
    ("deployment", workloads::deployment),
    ("statefulset", workloads::stateful_set),
    ("job", batch::job),
    ("daemonset", workloads::daemon_set),
    ("service", services::service),
    ("replicaset", workloads::replica_set),
    ("budget", services::budget),
    ("quota", cluster::quota),
    ("garbage", cluster::garbage),
    ("volumes", volumes::volumes),
    ("namespace", cluster::namespace),
    ("deployment", workloads::deployment),
    ("statefulset", workloads::stateful_set),
    ("job", batch::job),
    ("cronjob", batch::cron_job),
    ("autoscaler", services::autoscaler),
];

/// The case of a seed; of one family, if there is one of that name.
pub fn case(seed: u64, family: Option<&str>) -> Option<Case> {
    let mut random = Random::new(seed);
    let chosen: Vec<&Family> = FAMILIES
        .iter()
        .filter(|(name, _)| family.is_none_or(|wanted| wanted == *name))
        .collect();
    // Neighbouring seeds are of different families, so that a run has all of them.
    let at = usize::try_from(seed).unwrap_or(0) % chosen.len().max(1);
    let (family, make) = chosen.get(at)?;
    let namespace = super::scenario::namespace_of(seed);
    Some(Case {
        seed,
        family,
        steps: make(&mut random, &namespace),
    })
}

/// A pod template with the label `app`, and annotations for the kubelet.
fn template(app: &str, image: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": image,
                "ports": [{"name": "http", "containerPort": 8080}]}]
        }
    })
}

/// A number or a percentage.
fn int_or_percent(random: &mut Random, least: usize) -> Value {
    if random.chance(50) {
        random.between(least, 3).into()
    } else {
        json!(format!("{}%", random.pick(&[10, 25, 34, 50, 100])))
    }
}

/// A patch that replaces the image of the template.
fn image(name: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": name,
        "ports": [{"name": "http", "containerPort": 8080}]}]}}}})
}

/// One patch of two: what two requests in a row lead to depends on how fast controllers are.
fn and(mut patch: Value, other: &Value) -> Value {
    let (Some(into), Some(from)) = (patch.as_object_mut(), other.as_object()) else {
        return other.clone();
    };
    for (key, value) in from {
        let both = match into.remove(key) {
            Some(known) => and(known, value),
            None => value.clone(),
        };
        into.insert(key.clone(), both);
    }
    patch
}

/// Some of these steps, in a random order, one after the other.
fn steps(random: &mut Random, mut choices: Vec<Vec<Action>>, most: usize) -> Vec<Step> {
    let count = random.between(1, most);
    let mut chosen = Vec::new();
    while chosen.len() < count && !choices.is_empty() {
        let at = random.below(choices.len());
        chosen.push(Step::new(choices.swap_remove(at)));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_repeats_its_case_and_neighbours_are_of_all_families() {
        let text = |seed| case(seed, None).unwrap().describe();
        assert_eq!(text(3), text(3));
        let mut families: Vec<_> = (0..16)
            .map(|seed| case(seed, None).unwrap().family)
            .collect();
        families.sort_unstable();
        families.dedup();
        assert_eq!(families.len(), 13);
        assert_eq!(case(9, Some("job")).unwrap().family, "job");
        assert!(case(1, Some("nothing")).is_none());
    }
}
