use super::*;

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// The snapshot `default/before` of the claim `data`, with its finalizers.
fn snapshot() -> Value {
    json!({
        "metadata": {
            "namespace": "default", "name": "before", "uid": "s1", "resourceVersion": "3",
            "finalizers": [SOURCE_PROTECTION, BOUND_PROTECTION],
        },
        "spec": {
            "source": {"persistentVolumeClaimName": "data"},
            "volumeSnapshotClassName": "local",
        },
    })
}

fn class(name: &str, driver: &str, is_default: bool) -> Arc<SnapshotClass> {
    let annotations = json!({DEFAULT: is_default.to_string()});
    Arc::new(parsed(json!({
        "metadata": {"name": name, "annotations": annotations},
        "driver": driver, "deletionPolicy": "Delete",
    })))
}

/// The content that is made for that snapshot.
fn content() -> Value {
    match decided(snapshot(), None, &[class("local", DRIVER, true)]) {
        SnapshotStep::CreateContent(mut object) => {
            object["metadata"]["uid"] = json!("c1");
            object
        }
        other => panic!("{other:?}"),
    }
}

/// The volume of the claim `data`, on node `n1`.
fn volume() -> Volume {
    parsed(json!({
        "metadata": {"name": "pvc-u1"},
        "spec": {
            "claimRef": {"namespace": "default", "name": "data", "uid": "u1"},
            "csi": {"driver": DRIVER, "volumeHandle": "pvc-u1"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.csi.orlop.dev/node", "operator": "In", "values": ["n1"]}
            ]}]}},
        },
    }))
}

/// The decision when the claim's volume is on node `n1`.
fn decided(
    snapshot: Value,
    content: Option<Value>,
    classes: &[Arc<SnapshotClass>],
) -> SnapshotStep {
    let (snapshot, content): (SnapshotView, Option<SnapshotContent>) =
        (parsed(snapshot), content.map(parsed));
    let claim: Claim = parsed(json!({
        "metadata": {"namespace": "default", "name": "data", "uid": "u1"},
        "spec": {"volumeName": "pvc-u1"},
    }));
    decide_snapshot(&SnapshotState {
        snapshot: &snapshot,
        content: content.as_ref(),
        claim: Some(&claim),
        volume: Some(&volume()),
        classes,
    })
}

#[test]
fn a_snapshot_gets_finalizers_a_class_a_content_and_a_status_in_this_order() {
    let classes = [class("local", DRIVER, true)];
    let mut object = snapshot();
    object["metadata"]["finalizers"] = json!([]);
    let finalizers = [SOURCE_PROTECTION, BOUND_PROTECTION]
        .map(str::to_owned)
        .to_vec();
    let step = decided(object, None, &classes);
    assert_eq!(step, SnapshotStep::SetFinalizers(finalizers));
    let mut object = snapshot();
    object["spec"]["volumeSnapshotClassName"].take();
    let step = decided(object, None, &classes);
    assert_eq!(step, SnapshotStep::SetClass("local".into()));
    let made = content();
    assert_eq!(made["metadata"]["name"], "snapcontent-s1");
    assert_eq!(made["metadata"]["labels"][MANAGED_BY], "n1");
    assert_eq!(made["spec"]["source"]["volumeHandle"], "pvc-u1");
    assert_eq!(made["spec"]["sourceVolumeMode"], "Filesystem");
    assert_eq!(made["spec"]["volumeSnapshotRef"]["uid"], "s1");
    let mut ready = made;
    ready["status"] = json!({"snapshotHandle": "snapshot-s1", "readyToUse": true,
        "creationTime": 1_767_225_600_000_000_000_i64, "restoreSize": 1 << 30});
    let SnapshotStep::SetStatus(status) = decided(snapshot(), Some(ready.clone()), &classes) else {
        panic!("a status");
    };
    assert_eq!(
        status,
        json!({
            "boundVolumeSnapshotContentName": "snapcontent-s1", "readyToUse": true,
            "creationTime": "2026-01-01T00:00:00Z", "restoreSize": "1Gi", "error": null,
        })
    );
    let mut told = snapshot();
    told["status"] = status;
    assert_eq!(decided(told, Some(ready), &classes), SnapshotStep::Nothing);
}

#[test]
fn a_snapshot_whose_content_is_gone_is_not_taken_again() {
    let classes = [class("local", DRIVER, true)];
    let mut object = snapshot();
    object["status"] = json!({
        "boundVolumeSnapshotContentName": "snapcontent-s1", "readyToUse": true,
    });
    let SnapshotStep::SetStatus(status) = decided(object.clone(), None, &classes) else {
        panic!("a status");
    };
    assert_eq!(status["readyToUse"], false);
    assert_eq!(
        status["error"]["message"],
        "VolumeSnapshotContent is missing"
    );
    object["status"] = status;
    assert_eq!(decided(object, None, &classes), SnapshotStep::Nothing);
}

#[test]
fn what_keeps_a_snapshot_from_being_taken_is_its_error() {
    let message =
        |snapshot: Value, content: Option<Value>, classes: &[Arc<SnapshotClass>]| match decided(
            snapshot, content, classes,
        ) {
            SnapshotStep::SetStatus(status) => status["error"]["message"].clone(),
            other => panic!("{other:?}"),
        };
    let mut unclassed = snapshot();
    unclassed["spec"]["volumeSnapshotClassName"].take();
    let none = message(unclassed.clone(), None, &[]);
    assert_eq!(none, "cannot find default snapshot class");
    let two = [class("a", DRIVER, true), class("b", DRIVER, true)];
    assert_eq!(
        message(unclassed, None, &two),
        "2 default snapshot classes were found"
    );
    let missing = message(snapshot(), None, &[]);
    assert!(
        missing
            .as_str()
            .is_some_and(|it| it.contains("\"local\" not found")),
        "{missing}"
    );
    let foreign = message(
        snapshot(),
        None,
        &[class("local", "other.example.com", true)],
    );
    assert!(
        foreign
            .as_str()
            .is_some_and(|it| it.contains("other.example.com")),
        "{foreign}"
    );
    let mut other = content();
    other["spec"]["volumeSnapshotRef"]["uid"] = json!("s9");
    let stolen = message(snapshot(), Some(other), &[]);
    assert!(
        stolen
            .as_str()
            .is_some_and(|it| it.contains("different snapshot")),
        "{stolen}"
    );
}

/// The content of a snapshot that exists, as an operator makes it.
fn imported() -> Value {
    json!({
        "metadata": {"name": "imported", "uid": "c2"},
        "spec": {
            "deletionPolicy": "Delete", "driver": DRIVER,
            "source": {"snapshotHandle": "snapshot-0@node-1.example.com"},
            "volumeSnapshotRef": {"namespace": "default", "name": "before"},
        },
    })
}

#[test]
fn a_snapshot_that_exists_is_bound_to_the_content_that_names_it() {
    let mut object = snapshot();
    object["spec"]["source"] = json!({"volumeSnapshotContentName": "imported"});
    let step = decided(object.clone(), Some(imported()), &[]);
    assert_eq!(step, SnapshotStep::BindContent);
    let mut foreign = imported();
    foreign["spec"]["driver"] = json!("other.example.com");
    let step = decided(object, Some(foreign), &[]);
    assert_eq!(step, SnapshotStep::Nothing);
}

#[test]
fn a_content_belongs_to_the_node_of_its_snapshots_identifier_or_of_its_volume() {
    let volumes = [Arc::new(volume())];
    let node = |source: Value| {
        let mut content = imported();
        content["spec"]["source"] = source;
        let content: SnapshotContent = parsed(content);
        node_of_content(&content, &volumes).map(str::to_owned)
    };
    let of_snapshot = |handle: &str| node(json!({"snapshotHandle": handle}));
    let named = of_snapshot("snapshot-0@node-1.example.com");
    assert_eq!(named.as_deref(), Some("node-1.example.com"));
    for unknown in ["snapshot-0", "snapshot-0@", ""] {
        assert_eq!(of_snapshot(unknown), None, "{unknown}");
    }
    let of_volume = |handle: &str| node(json!({"volumeHandle": handle}));
    assert_eq!(of_volume("pvc-u1").as_deref(), Some("n1"));
    assert_eq!(of_volume("pvc-u2"), None);
}

#[test]
fn a_snapshot_that_is_deleted_takes_its_content_with_it_unless_that_is_retained() {
    let mut going = snapshot();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut kept = content();
    let delete = |content: &Value| decided(going.clone(), Some(content.clone()), &[]);
    assert_eq!(
        delete(&kept),
        SnapshotStep::DeleteContent {
            mark: true,
            delete: true
        }
    );
    kept["metadata"]["annotations"] = json!({BEING_DELETED: "yes"});
    assert_eq!(
        delete(&kept),
        SnapshotStep::DeleteContent {
            mark: false,
            delete: true
        }
    );
    let mut deleted = kept.clone();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(delete(&deleted), SnapshotStep::Nothing);
    kept["spec"]["deletionPolicy"] = json!("Retain");
    assert_eq!(delete(&kept), SnapshotStep::SetFinalizers(Vec::new()));
    assert_eq!(
        decided(going, None, &[]),
        SnapshotStep::SetFinalizers(Vec::new())
    );
}

#[test]
fn a_snapshot_of_a_pre_provisioned_content_goes_once_that_is_gone() {
    let mut going = snapshot();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    going["spec"] = json!({"source": {"volumeSnapshotContentName": "imported"}});
    let mut imported = content();
    imported["metadata"]["name"] = json!("imported");
    imported["metadata"]["annotations"] = json!({BEING_DELETED: "yes"});
    imported["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let going: SnapshotView = parsed(going);
    let decide = |content: Option<&SnapshotContent>| {
        decide_snapshot(&SnapshotState {
            snapshot: &going,
            content,
            claim: None,
            volume: None,
            classes: &[],
        })
    };
    let mut foreign = imported.clone();
    foreign["spec"]["driver"] = json!("other.example.com");
    let (imported, foreign): (SnapshotContent, SnapshotContent) =
        (parsed(imported), parsed(foreign));
    assert_eq!(decide(Some(&imported)), SnapshotStep::Nothing);
    assert_eq!(decide(Some(&foreign)), SnapshotStep::Nothing);
    assert_eq!(decide(None), SnapshotStep::SetFinalizers(Vec::new()));
}
