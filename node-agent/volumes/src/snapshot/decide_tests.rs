use super::*;
use crate::testing;

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
    match decided(snapshot(), None, &[class("local", NAME, true)]) {
        SnapshotStep::CreateContent(mut object) => {
            object["metadata"]["uid"] = json!("c1");
            object
        }
        other => panic!("{other:?}"),
    }
}

/// What is decided on node `n1`, which has the volume of the claim.
fn decided(
    snapshot: Value,
    content: Option<Value>,
    classes: &[Arc<SnapshotClass>],
) -> SnapshotStep {
    let (snapshot, content): (Snapshot, Option<Content>) = (parsed(snapshot), content.map(parsed));
    let claim: Claim = parsed(testing::claim());
    let volume: Volume = parsed(testing::volume("n1"));
    decide_snapshot(&SnapshotState {
        snapshot: &snapshot,
        content: content.as_ref(),
        claim: Some(&claim),
        volume: Some(&volume),
        classes,
        node: "n1",
    })
}

#[test]
fn a_snapshot_gets_finalizers_a_class_a_content_and_a_status_in_this_order() {
    let classes = [class("local", NAME, true)];
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
    assert_eq!(step, SnapshotStep::SetClass("local".to_owned()));
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
    let classes = [class("local", NAME, true)];
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
    let two = [class("a", NAME, true), class("b", NAME, true)];
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

#[test]
fn a_snapshot_that_exists_is_bound_by_the_node_that_has_it() {
    let mut object = snapshot();
    object["spec"]["source"] = json!({"volumeSnapshotContentName": "imported"});
    let mut imported = content();
    imported["spec"]["source"] = json!({"snapshotHandle": "snapshot-0"});
    imported["spec"]["volumeSnapshotRef"] = json!({"namespace": "default", "name": "before"});
    let step = decided(object.clone(), Some(imported.clone()), &[]);
    assert_eq!(step, SnapshotStep::BindContent);
    imported["metadata"]["labels"][MANAGED_BY] = json!("n2");
    assert_eq!(decided(object, Some(imported), &[]), SnapshotStep::Nothing);
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
fn a_content_is_copied_once_and_its_copy_deleted_with_its_snapshot_alone() {
    let step = |content: &Value| decide_content(&parsed(content.clone()), "n1");
    let new = content();
    assert_eq!(
        step(&new),
        ContentStep::Create {
            name: "snapshot-s1".to_owned(),
            volume: "pvc-u1".to_owned()
        }
    );
    assert_eq!(
        decide_content(&parsed(new.clone()), "n2"),
        ContentStep::Nothing
    );
    let mut made = new.clone();
    made["status"] = json!({"snapshotHandle": "snapshot-s1", "readyToUse": true});
    assert_eq!(step(&made), ContentStep::Nothing);
    made["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(step(&made), ContentStep::Nothing, "its snapshot stays");
    made["metadata"]["annotations"] = json!({BEING_DELETED: "yes"});
    let delete = ContentStep::Delete {
        snapshot: "snapshot-s1".to_owned(),
    };
    assert_eq!(step(&made), delete);
    made["spec"]["deletionPolicy"] = json!("Retain");
    assert_eq!(step(&made), ContentStep::RemoveFinalizer);
    let mut imported = new;
    imported["spec"]["source"] = json!({"snapshotHandle": "snapshot-0"});
    let describe = ContentStep::Describe {
        snapshot: "snapshot-0".to_owned(),
    };
    assert_eq!(step(&imported), describe);
    imported["metadata"]["finalizers"] = json!([]);
    assert_eq!(step(&imported), ContentStep::AddFinalizer);
}

#[test]
fn a_volume_is_restored_from_a_ready_snapshot_of_this_node_into_one_that_is_not_smaller() {
    let mut object = snapshot();
    object["status"] =
        json!({"readyToUse": true, "boundVolumeSnapshotContentName": "snapcontent-s1"});
    let mut made = content();
    made["status"] = json!({"snapshotHandle": "snapshot-s1", "readyToUse": true,
        "restoreSize": 1 << 30});
    let restored = |claim: Value, snapshot: &Value, content: &Value| {
        let content: Content = parsed(content.clone());
        let (claim, snapshot): (Claim, Snapshot) = (parsed(claim), parsed(snapshot.clone()));
        restore_source(&claim, &snapshot, Some(&content), "n1")
    };
    let source = restored(testing::claim(), &object, &made).expect("a source");
    assert_eq!(
        source.snapshot.expect("a snapshot").snapshot_id,
        "snapshot-s1"
    );
    let refused = |claim, snapshot: &Value, content: &Value| {
        let refused = restored(claim, snapshot, content);
        refused.expect_err("a reason").to_string()
    };
    let mut small = testing::claim();
    small["spec"]["resources"]["requests"]["storage"] = json!("1Mi");
    assert!(refused(small, &object, &made).contains("is less than the size 1073741824"));
    let mut block = testing::claim();
    block["spec"]["volumeMode"] = json!("Block");
    assert!(refused(block.clone(), &object, &made).contains("modifies the mode"));
    let mut allowed = made.clone();
    allowed["metadata"]["annotations"] = json!({MODE_CHANGE: "true"});
    assert!(restored(block, &object, &allowed).is_ok());
    let mut elsewhere = made.clone();
    elsewhere["metadata"]["labels"][MANAGED_BY] = json!("n2");
    assert!(refused(testing::claim(), &object, &elsewhere).contains("is on node n2"));
    let mut other = made.clone();
    other["spec"]["volumeSnapshotRef"]["uid"] = json!("s9");
    assert!(refused(testing::claim(), &object, &other).contains("is not bound"));
    object["status"]["readyToUse"] = json!(false);
    assert!(refused(testing::claim(), &object, &made).contains("is not Ready"));
}
