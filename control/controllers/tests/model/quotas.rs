//! Checks quotas: the recorded usage equals the usage of existing objects.

use std::time::Duration;

use serde_json::json;

use crate::cluster::{Cluster, simulate};
use crate::history::key;
use crate::objects;

#[test]
fn quota_of_a_pod_on_a_dead_node_is_given_back_when_its_grace_period_ends() {
    simulate(1, || async {
        let mut cluster = Cluster::new(&["resourcequota-controller"]);
        objects::base(&cluster.api);
        cluster.api.put(
            "resourcequotas",
            json!({"metadata": {"name": "quota", "namespace": "a"}, "spec": {"hard": {"pods": "5"}}}),
        );
        cluster.api.put(
            "pods",
            json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"nodeName": "n0"}}),
        );
        cluster.dead.lock().unwrap().insert("n0".to_owned());
        cluster.restart();
        cluster.pass(Duration::from_secs(10)).await;
        let used = |cluster: &Cluster| {
            let quota = cluster.api.get("resourcequotas", "a", "quota").unwrap();
            quota["status"]["used"]["pods"].clone()
        };
        assert_eq!(used(&cluster), "1");
        cluster.api.delete(&key("pods", "a", "p"), &json!({}));
        cluster.pass(Duration::from_secs(20)).await;
        assert_eq!(used(&cluster), "1");
        cluster.pass(Duration::from_secs(15)).await;
        assert_eq!(used(&cluster), "0");
    });
}
