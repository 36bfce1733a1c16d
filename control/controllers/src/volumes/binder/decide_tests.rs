use serde_json::{Value, json};

use super::decide::*;
use crate::views::{Claim, StorageClass, Volume};
use std::sync::Arc;

fn claim(fields: Value) -> Claim {
    let mut object = json!({"metadata": {"namespace": "n", "name": "c", "uid": "1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"}});
    merge(&mut object, &fields);
    serde_json::from_value(object).unwrap()
}

fn volume(name: &str, fields: Value) -> Arc<Volume> {
    let mut object = json!({"metadata": {"name": name, "uid": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "d"}},
        "status": {"phase": "Available"}});
    merge(&mut object, &fields);
    Arc::new(serde_json::from_value(object).unwrap())
}

fn class(name: &str, provisioner: &str, mode: &str, default: bool) -> Arc<StorageClass> {
    let object = json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"storageclass.kubernetes.io/is-default-class": default.to_string()}},
        "provisioner": provisioner, "volumeBindingMode": mode});
    Arc::new(serde_json::from_value(object).unwrap())
}

fn merge(target: &mut Value, fields: &Value) {
    for (name, value) in fields.as_object().unwrap() {
        if value.is_object() && target[name].is_object() {
            merge(&mut target[name], value);
        } else {
            target[name] = value.clone();
        }
    }
}

/// A line for each action.
fn lines(actions: &[BinderAction]) -> Vec<String> {
    let print = |event: &BinderEvent| {
        let severity = if event.warning { "Warning" } else { "Normal" };
        format!(
            "{severity} {} {:?}: {}",
            event.reason, event.about, event.message
        )
    };
    let line = |action: &BinderAction| match action {
        BinderAction::Record(event) => print(event),
        BinderAction::VolumePhase(phase, event) => {
            let event = event.as_ref().map(print).unwrap_or_default();
            format!("volume {phase} {event}").trim_end().to_owned()
        }
        BinderAction::ClaimStatus(change, event) => {
            let event = event.as_ref().map(print).unwrap_or_default();
            format!("claim {change} {event}").trim_end().to_owned()
        }
        other => format!("{other:?}"),
    };
    actions.iter().map(line).collect()
}

fn decide_with(
    claim: &Claim,
    volumes: &[Arc<Volume>],
    classes: &[Arc<StorageClass>],
    pods: &[&str],
) -> (Option<String>, Vec<String>) {
    let decision = decide_claim(&BindingSnapshot {
        claim,
        volumes,
        classes,
        unscheduled: &|| pods.iter().map(|pod| (*pod).into()).collect(),
    });
    let volume = decision
        .volume
        .map(|volume| volume.metadata.name.to_string());
    (volume, lines(&decision.actions))
}

fn on_claim(claim: Value, volumes: &[Arc<Volume>]) -> (Option<String>, Vec<String>) {
    decide_with(&self::claim(claim), volumes, &[], &[])
}

fn on_volume(volume: Value, claim: Option<Value>) -> Vec<String> {
    let (volume, claim) = (self::volume("v", volume), claim.map(self::claim));
    lines(&decide_volume(&VolumeSnapshot {
        volume: &volume,
        claim: claim.as_ref(),
        users: &Vec::new,
    }))
}

const BOUND_STATUS: &str =
    r#"claim {"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"phase":"Bound"}"#;

#[test]
fn claim_gets_the_smallest_free_volume_with_the_fewest_modes() {
    let many = json!(["ReadOnlyMany", "ReadWriteOnce"]);
    let volumes = [
        volume("large", json!({"spec": {"capacity": {"storage": "5Gi"}}})),
        volume("fits", json!({"spec": {"capacity": {"storage": "1024Mi"}}})),
        volume("modes", json!({"spec": {"accessModes": many}})),
        volume("small", json!({"spec": {"capacity": {"storage": "1G"}}})),
        volume("class", json!({"spec": {"storageClassName": "x"}})),
        volume("block", json!({"spec": {"volumeMode": "Block"}})),
        volume(
            "taken",
            json!({"spec": {"claimRef": {"namespace": "n", "name": "d"}}}),
        ),
        volume(
            "going",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ),
        volume("new", json!({"status": {"phase": "Pending"}})),
        volume("other", json!({"spec": {"accessModes": ["ReadWriteMany"]}})),
        volume(
            "attributes",
            json!({"spec": {"volumeAttributesClassName": "fast"}}),
        ),
    ];
    let (chosen, actions) = on_claim(json!({}), &volumes);
    assert_eq!(chosen.as_deref(), Some("fits"));
    assert_eq!(
        actions,
        [
            "BindVolume { mark: true }",
            "volume Bound",
            "BindClaim { mark: true }",
            r#"claim {"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1024Mi"},"phase":"Bound"}"#,
        ]
    );
    let (chosen, _) = on_claim(json!({}), &volumes[2..]);
    assert_eq!(chosen.as_deref(), Some("modes"));
    let (chosen, _) = on_claim(json!({}), &volumes[3..]);
    assert_eq!(chosen, None);
}

#[test]
fn selector_and_reservation_choose() {
    let selector = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
    let volumes = [
        volume("plain", json!({})),
        volume("labelled", json!({"metadata": {"labels": {"a": "b"}}})),
    ];
    assert_eq!(on_claim(selector, &volumes).0.as_deref(), Some("labelled"));
    let reserved = json!({"spec": {"claimRef": {"namespace": "n", "name": "c"},
        "capacity": {"storage": "9Gi"}, "storageClassName": "any"}});
    let volumes = [volume("plain", json!({})), volume("reserved", reserved)];
    let (chosen, actions) = on_claim(json!({}), &volumes);
    assert_eq!(chosen.as_deref(), Some("reserved"));
    // the user who reserved it chose it, not this controller
    assert_eq!(actions[0], "BindVolume { mark: false }");
    assert_eq!(actions[2], "BindClaim { mark: true }");
}

#[test]
fn named_volume_is_bound_only_if_it_satisfies_the_claim() {
    let asks = json!({"spec": {"volumeName": "v"}});
    let (_, actions) = on_claim(asks.clone(), &[volume("v", json!({}))]);
    assert_eq!(
        actions,
        [
            "BindVolume { mark: true }",
            "volume Bound",
            "BindClaim { mark: false }",
            BOUND_STATUS
        ]
    );
    assert!(on_claim(asks.clone(), &[]).1.is_empty());
    for (fields, why) in [
        (
            json!({"spec": {"capacity": {"storage": "1Mi"}}}),
            "requested PV is too small",
        ),
        (
            json!({"spec": {"storageClassName": "x"}}),
            "storageClassName does not match",
        ),
        (
            json!({"spec": {"volumeAttributesClassName": "x"}}),
            "volumeAttributesClassName does not match",
        ),
        (
            json!({"spec": {"volumeMode": "Block"}}),
            "incompatible volumeMode",
        ),
        (
            json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
            "incompatible accessMode",
        ),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            "the volume is marked for deletion \"v\"",
        ),
    ] {
        let (chosen, actions) = on_claim(asks.clone(), &[volume("v", fields)]);
        assert_eq!(chosen, None);
        let message =
            format!("Warning VolumeMismatch Claim: Cannot bind to requested volume \"v\": {why}");
        assert_eq!(actions, [message]);
    }
    let taken = json!({"spec": {"claimRef": {"namespace": "n", "name": "d", "uid": "2"}}});
    let (_, actions) = on_claim(asks, &[volume("v", taken)]);
    assert_eq!(
        actions,
        ["Warning FailedBinding Claim: volume \"v\" already bound to a different claim."]
    );
}

#[test]
fn interrupted_binding_goes_on_where_it_stopped() {
    let bound = json!({"spec": {"claimRef": {"namespace": "n", "name": "c", "uid": "1"}},
        "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}});
    let (_, actions) = on_claim(json!({}), &[volume("v", bound.clone())]);
    assert_eq!(
        actions,
        ["volume Bound", "BindClaim { mark: true }", BOUND_STATUS]
    );
    let mut volume = volume("v", bound);
    Arc::get_mut(&mut volume).unwrap().status.phase = "Bound".into();
    let half = json!({"spec": {"volumeName": "v"},
        "metadata": {"annotations": {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}}});
    let (_, actions) = on_claim(half, std::slice::from_ref(&volume));
    assert_eq!(actions, [BOUND_STATUS]);
    let whole = json!({"spec": {"volumeName": "v"},
        "metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "status": {"phase": "Bound",
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1000Mi"}}});
    // the capacity of a bound claim is the resizer's
    assert!(on_claim(whole, &[volume]).1.is_empty());
}

#[test]
fn bound_claim_whose_volume_is_gone_is_lost_once() {
    let completed = json!({BIND_COMPLETED: "yes"});
    let bound = |name: &str, phase: &str| {
        json!({"spec": {"volumeName": name}, "metadata": {"annotations": completed},
            "status": {"phase": phase, "capacity": {"storage": "1Gi"}}})
    };
    let lost = "claim {\"capacity\":null,\"phase\":\"Lost\"} Warning";
    assert_eq!(
        on_claim(bound("v", "Bound"), &[]).1,
        [format!(
            "{lost} ClaimLost Claim: Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        )]
    );
    assert_eq!(
        on_claim(bound("", "Bound"), &[]).1,
        [format!(
            "{lost} ClaimLost Claim: Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        )]
    );
    let other = json!({"spec": {"claimRef": {"namespace": "n", "name": "c", "uid": "2"}}});
    assert_eq!(
        on_claim(bound("v", "Bound"), &[volume("v", other)]).1,
        [format!(
            "{lost} ClaimMisbound Claim: Two claims are bound to the same volume, this one is bound incorrectly"
        )]
    );
    assert!(on_claim(bound("v", "Lost"), &[]).1.is_empty());
}

#[test]
fn claim_without_volume_goes_to_its_provisioner_or_says_why_not() {
    let classes = [
        class("csi", "d.example.com", "Immediate", false),
        class("late", "d.example.com", "WaitForFirstConsumer", false),
        class("static", "kubernetes.io/no-provisioner", "Immediate", false),
        class("ebs", "kubernetes.io/aws-ebs", "Immediate", false),
    ];
    let with = |name: &str, annotations: Value, pods: &[&str]| {
        let claim = claim(json!({"spec": {"storageClassName": name},
            "metadata": {"annotations": annotations}}));
        decide_with(&claim, &[], &classes, pods).1
    };
    let waiting = |driver: &str| {
        format!(
            "Normal ExternalProvisioning Claim: Waiting for a volume to be created either by the external provisioner '{driver}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        )
    };
    let annotate = |driver: &str| {
        format!(
            "AnnotateClaim([(\"volume.beta.kubernetes.io/storage-provisioner\", Some(\"{driver}\")), (\"volume.kubernetes.io/storage-provisioner\", Some(\"{driver}\"))])"
        )
    };
    let driver = "d.example.com";
    assert_eq!(
        with("csi", json!({}), &[]),
        [annotate(driver), waiting(driver)]
    );
    let marked = json!({"volume.kubernetes.io/storage-provisioner": driver});
    assert_eq!(with("csi", marked, &[]), [waiting(driver)]);
    assert_eq!(
        with("ebs", json!({}), &[]),
        [annotate("ebs.csi.aws.com"), waiting("ebs.csi.aws.com")]
    );
    let selected = json!({"volume.kubernetes.io/selected-node": "a"});
    assert_eq!(
        with("late", selected, &[]),
        [annotate(driver), waiting(driver)]
    );
    for (pods, message) in [
        (
            &[][..],
            "Normal WaitForFirstConsumer Claim: waiting for first consumer to be created before binding",
        ),
        (
            &["p"],
            "Normal WaitForPodScheduled Claim: waiting for pod p to be scheduled",
        ),
        (
            &["p", "q"],
            "Normal WaitForPodScheduled Claim: waiting for pods p,q to be scheduled",
        ),
    ] {
        assert_eq!(with("late", json!({}), pods), [message]);
    }
    assert_eq!(
        with("static", json!({}), &[]),
        [
            "Warning ProvisioningFailed Claim: no volume plugin matched name: kubernetes.io/no-provisioner"
        ]
    );
    assert_eq!(
        with("none", json!({}), &[]),
        ["Warning ProvisioningFailed Claim: storageclass.storage.k8s.io \"none\" not found"]
    );
    assert_eq!(
        with("", json!({}), &[]),
        [
            "Normal FailedBinding Claim: no persistent volumes available for this claim and no storage class is set"
        ]
    );
}

#[test]
fn claim_that_waits_for_its_consumer_takes_only_a_reserved_volume() {
    let classes = [class("late", "d", "WaitForFirstConsumer", false)];
    let claim = claim(json!({"spec": {"storageClassName": "late"}}));
    let free = volume("free", json!({"spec": {"storageClassName": "late"}}));
    assert_eq!(decide_with(&claim, &[free], &classes, &[]).0, None);
    let reserved = volume(
        "reserved",
        json!({"spec": {"storageClassName": "late",
            "claimRef": {"namespace": "n", "name": "c", "uid": "1"}}}),
    );
    let (chosen, _) = decide_with(&claim, &[reserved], &classes, &[]);
    assert_eq!(chosen.as_deref(), Some("reserved"));
}

#[test]
fn claim_that_names_no_class_gets_the_youngest_default() {
    let mut classes = [
        class("b", "d", "Immediate", true),
        class("a", "d", "Immediate", true),
        class("c", "d", "Immediate", false),
    ];
    let unset = json!({"spec": {"storageClassName": null}});
    let assigned =
        |classes: &[Arc<StorageClass>]| decide_with(&claim(unset.clone()), &[], classes, &[]).1;
    assert_eq!(assigned(&classes), ["AssignClass(\"a\")"]);
    let young = "2026-01-02T00:00:00Z".parse().unwrap();
    Arc::get_mut(&mut classes[0])
        .unwrap()
        .metadata
        .creation_timestamp = Some(young);
    assert_eq!(assigned(&classes), ["AssignClass(\"b\")"]);
    // the empty class is a choice
    let (_, actions) = decide_with(&claim(json!({})), &[], &classes, &[]);
    assert!(
        actions[0].starts_with("Normal FailedBinding"),
        "{actions:?}"
    );
}

#[test]
fn volume_follows_its_claim() {
    let mine = json!({"namespace": "n", "name": "c", "uid": "1"});
    let bound = json!({"spec": {"claimRef": mine}, "status": {"phase": "Bound"}});
    let pending = json!({"status": {"phase": "Pending"}});
    assert_eq!(on_volume(pending, None), ["volume Available"]);
    assert!(on_volume(json!({}), None).is_empty());
    let reserved = json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}},
        "status": {"phase": "Bound"}});
    assert_eq!(on_volume(reserved, Some(json!({}))), ["volume Available"]);
    assert_eq!(on_volume(bound.clone(), Some(json!({}))), ["SyncClaim"]);
    let block = json!({"spec": {"volumeMode": "Block"}});
    assert_eq!(
        on_volume(bound.clone(), Some(block)),
        [
            "Warning VolumeMismatch Volume: Cannot bind PersistentVolume to requested PersistentVolumeClaim \"c\" due to incompatible volumeMode.",
            "Warning VolumeMismatch Claim: Cannot bind PersistentVolume \"v\" to requested PersistentVolumeClaim due to incompatible volumeMode.",
        ]
    );
    let here = json!({"spec": {"volumeName": "v"}});
    assert!(on_volume(bound.clone(), Some(here)).is_empty());
    let elsewhere = json!({"spec": {"volumeName": "w"}});
    assert_eq!(
        on_volume(bound.clone(), Some(elsewhere.clone())),
        ["UnbindVolume { whole: false }", "volume Available"]
    );
    let mut chosen = bound.clone();
    chosen["metadata"] = json!({"annotations": {BOUND_BY_CONTROLLER: "yes"}});
    assert_eq!(
        on_volume(chosen, Some(elsewhere.clone())),
        ["UnbindVolume { whole: true }", "volume Available"]
    );
    let mut made = bound;
    made["metadata"] = json!({"annotations": {"pv.kubernetes.io/provisioned-by": "d"}});
    made["spec"]["persistentVolumeReclaimPolicy"] = "Delete".into();
    assert_eq!(on_volume(made, Some(elsewhere)), ["volume Released"]);
}

#[test]
fn released_volume_follows_its_policy() {
    let released = |policy: &str, fields: Value| {
        let mut volume = json!({"spec": {"persistentVolumeReclaimPolicy": policy,
            "claimRef": {"namespace": "n", "name": "c", "uid": "1"}}, "status": {"phase": "Bound"}});
        merge(&mut volume, &fields);
        on_volume(volume, None)
    };
    assert_eq!(released("Retain", json!({})), ["volume Released"]);
    assert_eq!(released("Delete", json!({})), ["volume Released"]);
    let nfs = json!({"spec": {"csi": null, "nfs": {"server": "s"}}});
    assert_eq!(
        released("Delete", nfs),
        [
            "volume Failed Warning VolumeFailedDelete Volume: error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched"
        ]
    );
    let host = json!({"spec": {"csi": null, "hostPath": {"path": "/data"}}});
    assert_eq!(
        released("Delete", host),
        [
            "volume Failed Warning VolumeFailedDelete Volume: host_path deleter only supports /tmp/.+ but received provided /data"
        ]
    );
    assert_eq!(
        released("Recycle", json!({})),
        [
            "volume Failed Warning VolumeFailedRecycle Volume: No recycler plugin found for the volume!"
        ]
    );
    assert_eq!(
        released("Burn", json!({})),
        [
            "volume Failed Warning VolumeUnknownReclaimPolicy Volume: Volume has unrecognized PersistentVolumeReclaimPolicy"
        ]
    );
    for phase in ["Released", "Failed"] {
        assert!(released("Retain", json!({"status": {"phase": phase}})).is_empty());
    }
}

#[test]
fn recycled_volume_waits_for_the_pods_that_use_it() {
    let volume = volume(
        "v",
        json!({"spec": {"persistentVolumeReclaimPolicy": "Recycle",
            "claimRef": {"namespace": "n", "name": "c", "uid": "1"}}}),
    );
    let actions = decide_volume(&VolumeSnapshot {
        volume: &volume,
        claim: None,
        users: &|| vec!["n/p".to_owned(), "n/q".to_owned()],
    });
    assert_eq!(
        lines(&actions),
        [
            "Normal VolumeFailedRecycle Volume: Volume is used by pods: n/p,n/q",
            "volume Released"
        ]
    );
}

#[test]
fn volume_of_an_in_tree_plugin_has_its_finalizer_and_its_successor() {
    let made_by = |provisioner: &str, policy: &str, finalizers: &[&str]| {
        on_volume(
            json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": provisioner},
                "finalizers": finalizers}, "spec": {"persistentVolumeReclaimPolicy": policy}}),
            None,
        )
    };
    let (ours, theirs) = (
        "kubernetes.io/pv-controller",
        "external-provisioner.volume.kubernetes.io/finalizer",
    );
    assert!(made_by("d.example.com", "Delete", &[theirs]).is_empty());
    assert_eq!(
        made_by("kubernetes.io/x", "Delete", &[theirs]),
        ["ChangeVolume { migrated_to: None, finalizers: Some([\"kubernetes.io/pv-controller\"]) }"]
    );
    assert_eq!(
        made_by("kubernetes.io/x", "Retain", &[ours]),
        ["ChangeVolume { migrated_to: None, finalizers: Some([]) }"]
    );
    assert_eq!(
        made_by("kubernetes.io/aws-ebs", "Delete", &[ours, theirs]),
        [
            "ChangeVolume { migrated_to: Some(Some(\"ebs.csi.aws.com\")), finalizers: Some([\"external-provisioner.volume.kubernetes.io/finalizer\"]) }"
        ]
    );
}
