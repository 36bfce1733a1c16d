use super::*;
use crate::snapshot::views::MANAGED_BY;
use crate::testing;

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// The content of the snapshot `default/before` of a volume on node `n1`.
fn content() -> Value {
    json!({
        "metadata": {
            "name": "snapcontent-s1", "uid": "c1",
            "labels": {MANAGED_BY: "n1"}, "finalizers": [CONTENT_PROTECTION],
        },
        "spec": {
            "deletionPolicy": "Delete", "driver": NAME,
            "source": {"volumeHandle": "pvc-u1"}, "sourceVolumeMode": "Filesystem",
            "volumeSnapshotClassName": "local",
            "volumeSnapshotRef": {"namespace": "default", "name": "before", "uid": "s1"},
        },
    })
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
    let mut object = json!({
        "metadata": {"namespace": "default", "name": "before", "uid": "s1"},
        "status": {"readyToUse": true, "boundVolumeSnapshotContentName": "snapcontent-s1"},
    });
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
