//! Tests volumes of pods from the decision to the binding, against the fake API. The tests act as
//! binder and provisioner.

use super::*;

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            if let Some(object) = target.as_object_mut() {
                object.remove(name);
            }
        } else {
            merge(&mut target[name.as_str()], value);
        }
    }
}

impl Api {
    /// Patches an object as an API server does, and lets watchers know.
    pub(super) fn patch(
        &self,
        plural: &'static str,
        name: &str,
        patch: &Value,
    ) -> Response<FakeBody> {
        let patched = {
            let mut objects = self.objects.lock().unwrap();
            let of_kind = objects.entry(plural).or_default();
            let known = of_kind
                .iter_mut()
                .find(|object| object["metadata"]["name"] == name);
            let Some(object) = known else {
                return answer(
                    404,
                    &json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}),
                );
            };
            let expected = &patch["metadata"]["resourceVersion"];
            if !expected.is_null() && *expected != object["metadata"]["resourceVersion"] {
                return answer(
                    409,
                    &json!({"kind": "Status", "code": 409, "reason": "Conflict",
                    "message": format!("Operation cannot be fulfilled on {plural} \"{name}\": the object has been modified")}),
                );
            }
            merge(object, patch);
            let revision = object["metadata"]["resourceVersion"].as_str();
            let revision: u64 = revision.and_then(|it| it.parse().ok()).expect("a revision");
            object["metadata"]["resourceVersion"] = json!((revision + 100).to_string());
            object.clone()
        };
        self.tell(plural, "MODIFIED", &patched);
        answer(200, &patched)
    }

    /// Changes an object.
    fn change(&self, plural: &'static str, name: &str, patch: &Value) {
        assert_eq!(self.patch(plural, name, patch).status(), 200);
    }

    pub(super) fn object(&self, plural: &str, name: &str) -> Value {
        let objects = self.objects.lock().unwrap();
        let of_kind = objects.get(plural).map_or(&[][..], Vec::as_slice);
        let mut of_name = of_kind
            .iter()
            .filter(|object| object["metadata"]["name"] == name);
        of_name.next().cloned().unwrap_or_default()
    }

    /// Binds a claim as the binder does.
    fn bind_claim(&self, claim: &str, volume: &str) {
        let patch = json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": volume}, "status": {"phase": "Bound"},
        });
        self.change("persistentvolumeclaims", claim, &patch);
    }

    /// Whether this was ever written of a pod.
    fn has_said(&self, pod: &str, message: &str) -> bool {
        let conditions = self.conditions.lock().unwrap();
        let mut of_pod = conditions.iter().filter(|(name, _)| name == pod);
        of_pod.any(|(_, condition)| condition["message"] == message)
    }

    fn message(&self, pod: &str) -> String {
        let condition = self.condition(pod).unwrap_or_default();
        condition["message"].as_str().unwrap_or_default().to_owned()
    }
}

fn class(provisioner: &str) -> Value {
    json!({"metadata": {"name": "late", "resourceVersion": "1"}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer"})
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "3"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"}})
}

fn local_volume(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "3"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            ]}]}}},
        "status": {"phase": "Available"}
    })
}

fn user(name: &str, claim: &str) -> Value {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod(name, json!({"volumes": volumes}))
}

#[test]
fn a_claim_takes_the_volume_of_the_node_before_its_pod_is_bound() {
    in_virtual_time(|| async {
        let api = Api::with([
            ("nodes", vec![node("a"), node("b")]),
            ("pods", vec![user("p", "x")]),
            (
                "storageclasses",
                vec![class("kubernetes.io/no-provisioner")],
            ),
            ("persistentvolumeclaims", vec![claim("x")]),
            ("persistentvolumes", vec![local_volume("v", "b")]),
        ]);
        api.scheduled(async || {
            after(5).await;
            let volume = api.object("persistentvolumes", "v");
            assert_eq!(
                volume["spec"]["claimRef"],
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
                    "name": "x", "uid": "uid-x", "resourceVersion": "3"})
            );
            assert_eq!(
                volume["metadata"]["annotations"],
                json!({"pv.kubernetes.io/bound-by-controller": "yes"})
            );
            assert_eq!(api.bound(), 0);
            api.bind_claim("x", "v");
            after(2).await;
            assert_eq!(api.bound(), 1);
            assert_eq!(*api.bound_to.lock().unwrap(), ["b"]);
        })
        .await;
    });
}

#[test]
fn two_pods_never_take_the_same_volume() {
    in_virtual_time(|| async {
        let pods = ["x", "y", "z"].map(|claim| user(&format!("of-{claim}"), claim));
        let api = Api::with([
            ("nodes", vec![node("a")]),
            ("pods", pods.to_vec()),
            (
                "storageclasses",
                vec![class("kubernetes.io/no-provisioner")],
            ),
            (
                "persistentvolumeclaims",
                ["x", "y", "z"].map(claim).to_vec(),
            ),
            (
                "persistentvolumes",
                ["v", "w"].map(|name| local_volume(name, "a")).to_vec(),
            ),
        ]);
        api.scheduled(async || {
            after(5).await;
            let claim_of = |volume: &str| api.object("persistentvolumes", volume)["spec"]["claimRef"]["name"].clone();
            assert_eq!([claim_of("v"), claim_of("w")], [json!("x"), json!("y")]);
            assert!(api.message("of-z").starts_with("0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."), "{}", api.message("of-z"));
            // A third volume helps.
            let third = local_volume("u", "a");
            api.objects.lock().unwrap().entry("persistentvolumes").or_default().push(third.clone());
            api.tell("persistentvolumes", "ADDED", &third);
            after(5).await;
            assert_eq!(claim_of("u"), json!("z"));
        })
        .await;
    });
}

#[test]
fn a_provisioner_that_gives_up_has_the_pod_placed_again() {
    in_virtual_time(|| async {
        let api = Api::with([
            ("nodes", vec![node("a")]),
            ("pods", vec![user("p", "x")]),
            ("storageclasses", vec![class("example.com/disks")]),
            ("persistentvolumeclaims", vec![claim("x")]),
        ]);
        const NODE: &str = "volume.kubernetes.io/selected-node";
        api.scheduled(async || {
            after(5).await;
            let selected = || api.object("persistentvolumeclaims", "x")["metadata"]["annotations"][NODE].clone();
            assert_eq!(selected(), json!("a"));
            let reset = json!({"metadata": {"annotations": {NODE: null}}});
            api.change("persistentvolumeclaims", "x", &reset);
            tokio::time::sleep(Duration::from_millis(1500)).await;
            assert_eq!(
                api.message("p"),
                "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"x\""
            );
            assert_eq!(api.bound(), 0);
            after(10).await;
            assert_eq!(selected(), json!("a"));
            let made = local_volume("made", "a");
            api.objects.lock().unwrap().entry("persistentvolumes").or_default().push(made.clone());
            api.tell("persistentvolumes", "ADDED", &made);
            api.bind_claim("x", "made");
            after(2).await;
            assert_eq!(api.bound(), 1);
        })
        .await;
    });
}

#[test]
fn a_volume_that_cannot_be_reached_from_the_node_is_no_success() {
    in_virtual_time(|| async {
        let api = Api::with([
            ("nodes", vec![node("a")]),
            ("pods", vec![user("p", "x")]),
            ("storageclasses", vec![class("example.com/disks")]),
            ("persistentvolumeclaims", vec![claim("x")]),
            ("persistentvolumes", vec![local_volume("elsewhere", "b")]),
        ]);
        api.scheduled(async || {
            after(5).await;
            api.bind_claim("x", "elsewhere");
            after(2).await;
            let message = "running PreBind plugin \"VolumeBinding\": binding volumes: pv \"elsewhere\" node affinity doesn't match node \"a\": no matching NodeSelectorTerms";
            assert!(api.has_said("p", message));
            after(20).await;
            assert_eq!(api.bound(), 0);
            assert!(api.message("p").starts_with("0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity."), "{}", api.message("p"));
        })
        .await;
    });
}

#[test]
fn binding_volumes_has_an_end() {
    in_virtual_time(|| async {
        let api = Api::with([
            ("nodes", vec![node("a")]),
            ("pods", vec![user("p", "x")]),
            ("storageclasses", vec![class("example.com/disks")]),
            ("persistentvolumeclaims", vec![claim("x")]),
        ]);
        api.scheduled(async || {
            after(599).await;
            assert_eq!(api.message("p"), "");
            after(3).await;
            assert_eq!(
                api.message("p"),
                "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded"
            );
            assert_eq!(api.bound(), 0);
        })
        .await;
    });
}

#[test]
fn a_pod_that_goes_while_it_waits_ends_the_wait() {
    in_virtual_time(|| async {
        let waiting = user("p", "x");
        let api = Api::with([
            ("nodes", vec![node("a")]),
            ("pods", vec![waiting.clone()]),
            ("storageclasses", vec![class("example.com/disks")]),
            ("persistentvolumeclaims", vec![claim("x")]),
        ]);
        api.scheduled(async || {
            after(5).await;
            api.tell("pods", "DELETED", &waiting);
            after(2).await;
            api.bind_claim("x", "v");
            after(20).await;
            assert_eq!((api.bound(), api.message("p")), (0, String::new()));
        })
        .await;
    });
}

#[test]
fn a_volume_that_changed_meanwhile_is_looked_at_again() {
    in_virtual_time(|| async {
        let api = Api::with([
            ("nodes", vec![node("a")]),
            ("pods", vec![user("p", "x")]),
            (
                "storageclasses",
                vec![class("kubernetes.io/no-provisioner")],
            ),
            ("persistentvolumeclaims", vec![claim("x")]),
            ("persistentvolumes", vec![local_volume("v", "a")]),
        ]);
        // The server knows a newer volume than the scheduler is shown at first.
        api.objects
            .lock()
            .unwrap()
            .get_mut("pods")
            .expect("pods")
            .clear();
        api.scheduled(async || {
            after(1).await;
            let newer = json!({"metadata": {"resourceVersion": "7", "labels": {"new": "yes"}}});
            merge(
                &mut api
                    .objects
                    .lock()
                    .unwrap()
                    .get_mut("persistentvolumes")
                    .expect("volumes")[0],
                &newer,
            );
            api.tell("pods", "ADDED", &user("p", "x"));
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(
                api.object("persistentvolumes", "v")["spec"]["claimRef"],
                Value::Null
            );
            assert!(
                api.message("p")
                    .starts_with("running PreBind plugin \"VolumeBinding\": "),
                "{}",
                api.message("p")
            );
            api.tell(
                "persistentvolumes",
                "MODIFIED",
                &api.object("persistentvolumes", "v"),
            );
            after(5).await;
            assert_eq!(
                api.object("persistentvolumes", "v")["spec"]["claimRef"]["name"],
                "x"
            );
        })
        .await;
    });
}
