//! Random clusters.

use control_client::View;
use serde_json::{Value, json};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";

/// Numbers from which a test case is generated.
pub(super) struct Tape<'a>(pub(super) std::slice::Iter<'a, u16>);

impl Tape<'_> {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % bound
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub(super) fn pick_one<T: Clone>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())].clone()
    }
}

pub(super) fn read<V: View>(object: &Value) -> V {
    serde_json::from_value(object.clone()).expect("an object")
}

/// The objects of a case, as JSON.
#[derive(Clone, Default)]
pub(super) struct Objects {
    pub(super) nodes: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) claims: Vec<Value>,
    pub(super) classes: Vec<Value>,
    pub(super) csi_nodes: Vec<Value>,
    pub(super) drivers: Vec<Value>,
    pub(super) capacities: Vec<Value>,
    pub(super) attachments: Vec<Value>,
    /// Pods, with the nodes that they are on.
    pub(super) placed: Vec<(Value, String)>,
}

fn meta(name: &str, namespace: &str, revision: u32) -> Value {
    json!({"name": name, "namespace": namespace, "uid": format!("uid-{namespace}-{name}"),
        "resourceVersion": revision.to_string()})
}

fn affinity(tape: &mut Tape<'_>) -> Value {
    let zones = ["a", "b", "c"];
    match tape.below(7) {
        0 | 1 => json!([{"matchExpressions": [{"key": HOST, "operator": "In",
            "values": [format!("n{}", tape.below(6))]}]}]),
        2 => {
            json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [tape.pick_one(&zones)]}]}])
        }
        3 => json!([
            {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": [tape.pick_one(&zones)]}]},
            {"matchExpressions": [{"key": HOST, "operator": "In",
                "values": [format!("n{}", tape.below(6))]}]},
        ]),
        4 => {
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}])
        }
        5 => json!([]),
        _ => Value::Null,
    }
}

pub(super) fn objects(tape: &mut Tape<'_>) -> Objects {
    let mut all = Objects::default();
    let zones = ["a", "b", "c"];
    for number in 0..=tape.below(5) {
        let name = format!("n{number}");
        let mut node = json!({"metadata": meta(&name, "", 1)});
        node["metadata"]["labels"] = json!({HOST: name});
        if !tape.one_in(5) {
            let key = if tape.one_in(4) { BETA_ZONE } else { ZONE };
            node["metadata"]["labels"][key] = tape.pick_one(&zones).into();
        }
        all.nodes.push(node);
        if !tape.one_in(4) {
            let mut csi_node = json!({"metadata": meta(&name, "", 1), "spec": {"drivers": [
                {"name": "d1"}, {"name": "d2", "allocatable": {"count": tape.below(3)}},
            ]}});
            if tape.one_in(2) {
                csi_node["spec"]["drivers"][0]["allocatable"] = json!({"count": tape.below(4)});
            }
            all.csi_nodes.push(csi_node);
        }
    }
    for (name, provisioner) in [
        ("static", "kubernetes.io/no-provisioner"),
        ("made", "d1"),
        ("tracked", "d2"),
    ] {
        let mut class = json!({"metadata": meta(name, "", 1), "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer"});
        if tape.one_in(3) {
            class["allowedTopologies"] = json!([{"matchLabelExpressions": [
                {"key": ZONE, "values": [tape.pick_one(&zones), tape.pick_one(&zones)]}]}]);
        }
        all.classes.push(class);
    }
    all.drivers
        .push(json!({"metadata": meta("d2", "", 1), "spec": {"storageCapacity": true}}));
    all.drivers
        .push(json!({"metadata": meta("d1", "", 1), "spec": {}}));
    for number in 0..tape.below(4) {
        let mut capacity = json!({"metadata": meta(&format!("c{number}"), "s", 1),
            "storageClassName": tape.pick_one(&["tracked", "made"]),
            "capacity": format!("{}Gi", tape.below(5)),
            "nodeTopology": {"matchLabels": {ZONE: tape.pick_one(&zones)}}});
        match tape.below(5) {
            0 => capacity["nodeTopology"] = Value::Null,
            1 => capacity["nodeTopology"] = json!({}),
            2 => capacity["maximumVolumeSize"] = json!("1Gi"),
            3 => capacity["capacity"] = Value::Null,
            _ => {}
        }
        all.capacities.push(capacity);
    }
    let modes = ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"];
    for number in 0..tape.below(5) {
        let mut claim = json!({"metadata": meta(&format!("x{number}"), "n", 10), "spec": {
            "storageClassName": tape.pick_one(&["static", "made", "tracked", "static"]),
            "accessModes": [tape.pick_one(&modes)],
            "resources": {"requests": {"storage": format!("{}Gi", tape.below(4))}},
        }});
        if tape.one_in(8) {
            claim["spec"]["volumeMode"] = "Block".into();
        }
        if tape.one_in(8) {
            claim["spec"]["volumeAttributesClassName"] = "gold".into();
        }
        if tape.one_in(6) {
            claim["spec"]["selector"] = json!({"matchLabels": {"tier": "fast"}});
        }
        if tape.one_in(8) {
            let node = format!("n{}", tape.below(6));
            claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": node});
        }
        all.claims.push(claim);
    }
    for number in 0..tape.below(9) {
        let name = format!("v{number}");
        let mut volume = json!({"metadata": meta(&name, "", 20), "spec": {
            "storageClassName": tape.pick_one(&["static", "made", "static", "else"]),
            "accessModes": [modes[0], tape.pick_one(&modes)],
            "capacity": {"storage": format!("{}Gi", tape.below(5))},
        }, "status": {"phase": tape.pick_one(&["Available", "Available", "Available", "Released"])}});
        if tape.one_in(2) {
            volume["spec"]["csi"] = json!({"driver": tape.pick_one(&["d1", "d2"]),
                "volumeHandle": format!("h{}", tape.below(6))});
        }
        let terms = affinity(tape);
        if !terms.is_null() {
            volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
        }
        if tape.one_in(2) {
            volume["metadata"]["labels"] = json!({"tier": "fast"});
        }
        if tape.one_in(4) {
            let key = tape.pick_one(&[ZONE, BETA_ZONE]);
            volume["metadata"]["labels"][key] = tape.pick_one(&["a", "b__c", "a__", " b "]).into();
        }
        if tape.one_in(10) {
            volume["spec"]["volumeMode"] = "Block".into();
        }
        if tape.one_in(10) {
            volume["spec"]["volumeAttributesClassName"] = "gold".into();
        }
        if tape.one_in(12) {
            volume["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let claims = all.claims.len();
        if claims > 0 && tape.one_in(3) {
            let claim = &mut all.claims[tape.below(claims)];
            let uid = tape.pick_one(&[claim["metadata"]["uid"].clone(), json!(""), json!("other")]);
            volume["spec"]["claimRef"] =
                json!({"namespace": "n", "name": claim["metadata"]["name"], "uid": uid});
            if tape.one_in(2) && claim["spec"]["volumeName"].is_null() {
                claim["spec"]["volumeName"] = name.clone().into();
                claim["metadata"]["annotations"] =
                    json!({"pv.kubernetes.io/bind-completed": "yes"});
            }
        }
        if tape.one_in(3) {
            all.attachments.push(
                json!({"metadata": meta(&format!("a{number}"), "", 1), "spec": {
                "attacher": tape.pick_one(&["d1", "d2"]), "nodeName": format!("n{}", tape.below(6)),
                "source": {"persistentVolumeName": name}}}),
            );
        }
        all.volumes.push(volume);
    }
    for number in 0..tape.below(4) {
        let pod = pod_object(tape, &format!("old{number}"), all.claims.len());
        all.placed.push((pod, format!("n{}", tape.below(6))));
    }
    all
}

pub(super) fn pod_object(tape: &mut Tape<'_>, name: &str, claims: usize) -> Value {
    let mut volumes = Vec::new();
    for at in 0..tape.below(4) {
        let mut volume = match tape.below(8) {
            0 => json!({"gcePersistentDisk": {"pdName": "disk", "readOnly": tape.one_in(2)}}),
            1 => json!({"iscsi": {"iqn": "q", "readOnly": tape.one_in(2)}}),
            2 => json!({"rbd": {"monitors": [tape.pick_one(&["m1", "m2"]), "m3"], "image": "i",
                "readOnly": tape.one_in(2)}}),
            _ if claims > 0 => {
                let claim = format!("x{}", tape.below(claims));
                json!({"persistentVolumeClaim": {"claimName": claim}})
            }
            _ => json!({"emptyDir": {}}),
        };
        volume["name"] = format!("volume{at}").into();
        volumes.push(volume);
    }
    json!({"metadata": meta(name, "n", 1), "spec": {"volumes": volumes}})
}
