//! Claims and the volumes that are bound to them.

use control_client::{Propagation, resources};
use serde_json::{Value, json};

use super::{steps, template};
use crate::controllers::scenario::{AFTER_PERIOD, Action, Step};
use tests::random::Random;

const MODES: [&str; 3] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"];

fn volume(random: &mut Random, case: &str, number: usize) -> Action {
    let size = format!("{}Gi", random.between(1, 5));
    let mut modes: Vec<&str> = random.some(&MODES, 50).into_iter().copied().collect();
    if modes.is_empty() {
        modes.push(MODES[0]);
    }
    let mut spec = json!({
        "capacity": {"storage": size}, "accessModes": modes,
        "persistentVolumeReclaimPolicy": random.pick(&["Retain", "Delete"]),
        "storageClassName": class(random, case),
        "nfs": {"server": "192.0.2.9", "path": format!("/{number}")},
    });
    if random.chance(20) {
        spec["claimRef"] = json!({"namespace": case, "name": "claim-0"});
    }
    let name = format!("{case}-volume-{number}");
    let labels = json!({"disk": random.pick(&["fast", "slow"])});
    let object = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels}, "spec": spec});
    Action::Create(resources::PERSISTENT_VOLUMES, object)
}

/// A class that only this case has.
fn class(random: &mut Random, case: &str) -> String {
    format!("{case}-{}", random.pick(&["a", "a", "b"]))
}

fn claim(random: &mut Random, case: &str, number: usize) -> Action {
    let mut spec = json!({
        "accessModes": [random.pick(&MODES)],
        "storageClassName": class(random, case),
        "resources": {"requests": {"storage": format!("{}Gi", random.between(1, 4))}},
    });
    if random.chance(20) {
        spec["selector"] = json!({"matchLabels": {"disk": "fast"}});
    }
    if random.chance(20) {
        spec["volumeName"] = format!("{case}-volume-{}", random.below(3)).into();
    }
    let object = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{number}")}, "spec": spec});
    Action::Create(resources::PERSISTENT_VOLUME_CLAIMS, object)
}

pub fn volumes(random: &mut Random, case: &str) -> Vec<Step> {
    let claims = || resources::PERSISTENT_VOLUME_CLAIMS;
    let volumes: Vec<Action> = (0..random.between(1, 3))
        .map(|number| volume(random, case, number))
        .collect();
    // One after the other: which of two claims gets a volume is a matter of time.
    let asking: Vec<Step> = (0..random.between(1, 2))
        .map(|number| Step::new([claim(random, case, number)]))
        .collect();
    let mut all = Vec::new();
    if random.chance(60) {
        all.push(Step::new(volumes));
        all.extend(asking);
    } else {
        all.extend(asking);
        // Upstream looks at a claim that names its volume only once a period.
        let late = volumes
            .into_iter()
            .map(|one| Step::new([one]).calm(AFTER_PERIOD));
        all.extend(late);
    }
    let mut pod = template("user", "one", &json!({}));
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "user".into();
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "claim-0"}}]);
    let delete_claim = || Action::Delete(claims(), "claim-0".to_owned(), Propagation::Background);
    let delete_volume = |number: usize| {
        let name = format!("{case}-volume-{number}");
        Action::Delete(resources::PERSISTENT_VOLUMES, name, Propagation::Background)
    };
    let clear: Value = json!({"spec": {"claimRef": null}});
    let choices = vec![
        vec![delete_claim()],
        vec![Action::Create(resources::PODS, pod)],
        vec![delete_volume(0)],
        vec![Action::Patch(
            resources::PERSISTENT_VOLUMES,
            format!("{case}-volume-0"),
            clear,
        )],
        vec![Action::DeletePod("user".to_owned())],
        vec![claim(random, case, 7)],
    ];
    all.extend(steps(random, choices, 4));
    all
}
