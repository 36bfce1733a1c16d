//! The initial objects of clusters in the model.

use serde_json::{Value, json};

use crate::api::Api;

/// The nodes of every cluster.
pub const NODES: [&str; 3] = ["n0", "n1", "n2"];

/// Namespaces and nodes.
pub fn base(api: &Api) {
    for name in ["default", "kube-system", "kube-node-lease", "a"] {
        api.put("namespaces", json!({"metadata": {"name": name}}));
    }
    for name in NODES {
        api.put("nodes", node(name));
    }
}

pub fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": "main"}},
        "spec": {"taints": []},
        "status": {}})
}

/// A pod template with a label `app`. Its pods leave a failed node after half a minute.
pub fn template(app: &str, image: &str) -> Value {
    let tolerate = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30});
    json!({"metadata": {"labels": {"app": app}}, "spec": {
        "containers": [{"name": "c", "image": image, "ports": [{"containerPort": 80}]}],
        "tolerations": [tolerate("node.kubernetes.io/not-ready"),
            tolerate("node.kubernetes.io/unreachable")]}})
}

pub fn deployment(name: &str, replicas: i32) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": template(name, "one"), "progressDeadlineSeconds": 600,
        "revisionHistoryLimit": 2, "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}})
}

pub fn replica_set(name: &str, replicas: i32) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": name}}, "template": template(name, "one")}})
}

pub fn replication_controller(name: &str, replicas: i32) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"replicas": replicas,
        "selector": {"app": name}, "template": template(name, "one")}})
}

/// A StatefulSet with a claim for each pod.
pub fn stateful_set(name: &str, replicas: i32, policy: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": name}}, "template": template(name, "one"),
        "serviceName": name, "podManagementPolicy": policy, "revisionHistoryLimit": 1,
        "ordinals": {"start": 0},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "volumeClaimTemplates": [{"metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"]}}]}})
}

/// A DaemonSet for the nodes of the main pool.
pub fn daemon_set(name: &str, surge: i32, unavailable: i32) -> Value {
    let mut template = template(name, "one");
    template["spec"]["nodeSelector"] = json!({"pool": "main"});
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {
        "selector": {"matchLabels": {"app": name}}, "template": template,
        "revisionHistoryLimit": 1, "updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}})
}

pub fn service(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"type": "ClusterIP",
        "selector": {"app": name}, "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
        "ipFamilies": ["IPv4"], "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}})
}

/// A Job of one success.
pub fn job(name: &str, spec: Value) -> Value {
    let mut job = json!({"metadata": {"name": name, "namespace": "a"}, "spec": {
        "template": {"metadata": {}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "one"}]}}}});
    crate::patch::merge(&mut job["spec"], &spec);
    // The defaults need the uid, which the server gives.
    job["status"] = json!({});
    job
}

pub fn cron_job(name: &str, schedule: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"schedule": schedule,
        "concurrencyPolicy": policy, "suspend": false, "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1, "jobTemplate": {"spec": {"template": {"metadata": {},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "one"}]}}}}},
        "status": {}})
}

/// A definition of a namespaced custom resource, such as `widgets`.
pub fn definition(plural: &str, kind: &str) -> Value {
    json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
        "versions": [{"name": "v1", "served": true, "storage": true}]}})
}

/// An object of any kind that is owned by another.
pub fn owned(name: &str, owner: (&str, &str, &Value)) -> Value {
    let (api_version, kind, owner) = owner;
    json!({"metadata": {"name": name, "namespace": "a", "ownerReferences": [{
        "apiVersion": api_version, "kind": kind, "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}]}})
}

/// One of nearly everything that a controller acts on.
pub fn everything(api: &Api) {
    base(api);
    api.put("deployments.apps", deployment("web", 2));
    api.put("services", service("web"));
    api.put("statefulsets.apps", stateful_set("db", 2, "OrderedReady"));
    api.put("daemonsets.apps", daemon_set("agent", 0, 1));
    api.put("replicasets.apps", replica_set("set", 2));
    api.put("replicationcontrollers", replication_controller("old", 1));
    api.put(
        "jobs.batch",
        job(
            "once",
            json!({"completions": 2, "ttlSecondsAfterFinished": 20}),
        ),
    );
    api.put("cronjobs.batch", cron_job("tick", "*/2 * * * *", "Forbid"));
    api.put(
        "poddisruptionbudgets.policy",
        json!({
        "metadata": {"name": "web", "namespace": "a"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}, "status": {}}),
    );
    api.put(
        "services",
        json!({"metadata": {"name": "outside", "namespace": "a"},
        "spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}),
    );
    api.put(
        "endpoints",
        json!({"metadata": {"name": "outside", "namespace": "a"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]}),
    );
    api.put(
        "resourcequotas",
        json!({"metadata": {"name": "quota", "namespace": "a"},
        "spec": {"hard": {"pods": "50"}}}),
    );
    api.put(
        "persistentvolumeclaims",
        json!({"metadata": {"name": "claim", "namespace": "a"},
        "spec": {"volumeName": "volume"}, "status": {"phase": "Bound"}}),
    );
    api.put(
        "persistentvolumes",
        json!({"metadata": {"name": "volume"},
        "spec": {"claimRef": {"namespace": "a", "name": "claim"}}, "status": {"phase": "Bound"}}),
    );
    api.put(
        "serviceaccounts",
        json!({"metadata": {"name": "robot", "namespace": "a"}}),
    );
    api.put(
        "clusterroles.rbac.authorization.k8s.io",
        json!({"metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "all"}}]},
        "rules": []}),
    );
    api.put(
        "clusterroles.rbac.authorization.k8s.io",
        json!({"metadata": {"name": "part",
        "labels": {"part": "all"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    );
    api.put(
        "customresourcedefinitions.apiextensions.k8s.io",
        definition("widgets", "Widget"),
    );
    let owner = api.put(
        "configmaps",
        json!({"metadata": {"name": "owner", "namespace": "a"}}),
    );
    api.put("secrets", owned("child", ("v1", "ConfigMap", &owner)));
    api.put(
        "widgets.example.com",
        owned("child", ("v1", "ConfigMap", &owner)),
    );
}
