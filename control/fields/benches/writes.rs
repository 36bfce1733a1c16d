//! Measures the cost of ownership per write: tracking of creates and updates, and an
//! apply. A plain program; `cargo bench -p control-fields`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use control_fields::manager::{Writer, apply, update};
use control_fields::update::Versions;
use control_fields::{Filter, Schema};
use control_types::coerce;
use control_types::schema::TypeId;
use control_types::value;
use control_types::value::Value;

/// A kind in one version.
struct Kind {
    schema: TypeId,
    filter: Option<Filter>,
}

impl Kind {
    fn new(name: &str) -> Self {
        let status: &[&str] = &["status"];
        Self {
            schema: TypeId::by_name(name).expect("a type"),
            filter: Some(Filter::Exclude([status].into_iter().collect())),
        }
    }

    fn written(&self, mut object: Value) -> Value {
        coerce::complete(&mut object, self.schema);
        update(self, &self.empty(), &mut object, &writer("kubectl-create"));
        control_types::meta::set_uid(&mut object, "3f9d3f0e-6f0c-4a53-8c3e-3d1f5b6c7d8e");
        object
    }
}

impl Versions for Kind {
    fn schema(&self, _: &str) -> Option<Schema<'_>> {
        Some(Schema::Struct(self.schema))
    }
    fn convert(&self, _: &Value, _: &str, _: &str) -> Option<Value> {
        None
    }
    fn filter(&self, _: &str) -> Option<&Filter> {
        self.filter.as_ref()
    }
    fn empty(&self) -> Value {
        let mut empty = Value::object();
        coerce::complete(&mut empty, self.schema);
        empty
    }
}

fn writer(name: &str) -> Writer<'_> {
    Writer {
        name,
        api_version: "v1",
        kind: "Pod",
        subresource: "",
        now: "2026-01-02T03:04:05Z",
    }
}

fn config_map() -> Value {
    value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default", "labels": {"app": "web"}}, "data": {"a": "1", "b": "2", "c": "3"}})
}

fn pod() -> Value {
    let container = |name: &str| {
        value!({
            "name": name, "image": "registry.example/web:1.2.3", "imagePullPolicy": "IfNotPresent",
            "args": ["--listen", ":8080"], "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}, {"name": "token", "mountPath": "/var/run/secrets"}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "securityContext": {"allowPrivilegeEscalation": false}
        })
    };
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-5d8f6c7b9-x2x4z", "namespace": "default",
            "labels": {"app": "web", "pod-template-hash": "5d8f6c7b9"}, "annotations": {"checksum/config": "abc"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f6c7b9", "uid": "u", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"containers": [(container("web")), (container("side"))],
            "volumes": [{"name": "config", "configMap": {"name": "c", "defaultMode": 420}}, {"name": "token", "emptyDir": {}}],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "serviceAccountName": "default",
            "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": true,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]},
        "status": {"phase": "Pending", "qosClass": "Burstable"}
    })
}

/// The time of one run, the best of many rounds; without that of `prepare`.
fn measure<T>(what: &str, prepare: impl Fn() -> T, run: impl Fn(&mut T)) {
    const ROUNDS: usize = 30;
    const RUNS: u32 = 300;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let mut all: Vec<T> = (0..RUNS).map(|_| prepare()).collect();
        let began = Instant::now();
        for one in &mut all {
            run(black_box(one));
        }
        best = best.min(began.elapsed() / RUNS);
    }
    println!("{what:<40} {:>8.1} µs", best.as_secs_f64() * 1e6);
}

fn main() {
    let maps = Kind::new("io.k8s.api.core.v1.ConfigMap");
    let pods = Kind::new("io.k8s.api.core.v1.Pod");
    let (empty_map, empty_pod) = (maps.empty(), pods.empty());
    measure("ConfigMap created", config_map, |new| {
        coerce::complete(new, maps.schema);
        update(&maps, &empty_map, new, &writer("bench"));
    });
    let live = maps.written(config_map());
    let changed = || {
        let mut new = live.clone();
        new.set_path(&["data", "a"], "9");
        new
    };
    measure("ConfigMap updated by another", changed, |new| {
        update(&maps, &live, new, &writer("bench"));
    });
    let owned = || {
        let mut new = live.clone();
        new.set_path(&["data", "a"], "9");
        new
    };
    measure("ConfigMap updated by its owner", owned, |new| {
        update(&maps, &live, new, &writer("kubectl-create"));
    });
    measure("pod created", pod, |new| {
        coerce::complete(new, pods.schema);
        update(&pods, &empty_pod, new, &writer("bench"));
    });
    let live = pods.written(pod());
    let labelled = || {
        let mut new = live.clone();
        new.set_path(&["metadata", "labels", "x"], "9");
        new
    };
    measure("pod labelled by another", labelled, |new| {
        update(&pods, &live, new, &writer("bench"));
    });
    let same = || live.clone();
    measure("pod written without change", same, |new| {
        update(&pods, &live, new, &writer("bench"));
    });
    let config = pod();
    let nothing = || ();
    measure("pod applied anew", nothing, |()| {
        let mut config = config.clone();
        config.remove("status");
        let made = apply(&pods, &empty_pod, &config, &writer("bench"), false);
        black_box(made.expect("no conflict"));
    });
}
