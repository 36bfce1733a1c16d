//! Checks storage version migrations: each ends, at most one per resource runs at a time, and
//! every object that existed before is rewritten.

use control_client::Resource;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cases;
use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::objects;

const MIGRATIONS: &str = "storageversionmigrations.storagemigration.k8s.io";
const RESOURCES: &[&str] = &[MIGRATIONS, "configmaps"];

fn migration(name: &str, resource: &str) -> Value {
    json!({"metadata": {"name": name},
        "spec": {"resource": {"group": "", "resource": resource}}, "status": {}})
}

fn actions() -> Vec<Action> {
    let mut actions = vec![
        Action::Create(
            "configmaps",
            json!({"metadata": {"name": "new", "namespace": "a"}}),
        ),
        Action::Delete(key("configmaps", "a", "old"), "Background"),
    ];
    for (name, resource) in [
        ("m0", "configmaps"),
        ("m1", "configmaps"),
        ("m2", "nothing"),
    ] {
        actions.push(Action::Create(MIGRATIONS, migration(name, resource)));
        actions.push(Action::Delete(key(MIGRATIONS, "", name), "Background"));
    }
    actions
}

fn is(migration: &Value, condition: &str) -> bool {
    let conditions = migration["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == condition && one["status"] == "True")
}

async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&["storage-version-migrator-controller"]);
    objects::base(&cluster.api);
    cluster.api.serve_gated(Resource::cluster(
        "storagemigration.k8s.io",
        "v1beta1",
        "storageversionmigrations",
        "StorageVersionMigration",
    ));
    let old = json!({"metadata": {"name": "old", "namespace": "a"}});
    cluster.api.put("configmaps", old);
    cluster.api.put(MIGRATIONS, migration("m0", "configmaps"));
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    for migration in cluster.api.list(MIGRATIONS) {
        assert!(!is(&migration, "Running"), "{migration}");
        let exists = migration["spec"]["resource"]["resource"] == "configmaps";
        let end = if exists { "Succeeded" } else { "Failed" };
        assert!(is(&migration, end), "{migration}");
    }
    let mut running: Vec<String> = Vec::new();
    for event in cluster.api.events_since(0) {
        if event.key.resource != MIGRATIONS {
            continue;
        }
        running.retain(|name| *name != event.key.name);
        let runs = is(&event.object, "Running") && event.kind != "DELETED";
        if runs && event.object["spec"]["resource"]["resource"] == "configmaps" {
            running.push(event.key.name.clone());
        }
        assert!(running.len() <= 1, "{running:?} at {}", event.revision);
    }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn migrations_end_one_after_the_other(
        seed in any::<u64>(),
        steps in history(actions(), RESOURCES, 10),
    ) {
        simulate(seed, || run(&steps));
    }
}
