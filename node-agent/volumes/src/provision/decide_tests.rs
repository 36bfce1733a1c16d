use serde_json::{Value, json};

use super::*;
use crate::testing;

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// What is decided for a claim of a class on node `n1`.
fn decided(claim: Value, class: Value) -> ProvisionDecision {
    let (claim, class): (Claim, StorageClass) = (parsed(claim), parsed(class));
    decide(&ClaimSnapshot {
        claim: &claim,
        class: Some(&class),
        attributes: None,
        has_volume: false,
        node: "n1",
    })
}

fn order_of(decision: ProvisionDecision) -> Order {
    match decision {
        ProvisionDecision::Provision(order) => *order,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_is_provisioned_on_the_node_that_the_scheduler_selected() {
    let order = order_of(decided(testing::claim(), testing::class()));
    assert_eq!(order.name, "pvc-u1");
    let range = order.request.capacity_range.expect("a range");
    assert_eq!((range.required_bytes, range.limit_bytes), (1 << 30, 0));
    assert_eq!(order.parameters.fs_type, "ext4");
    assert!(
        order.request.parameters.is_empty(),
        "the driver does not get its reserved keys"
    );
    let requirement = order
        .request
        .accessibility_requirements
        .expect("a topology");
    assert_eq!(requirement.requisite, [topology("n1")]);
}

#[test]
fn claims_of_other_nodes_provisioners_and_states_are_left_alone() {
    let annotation = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
    for (pointer, value) in [
        (annotation(SELECTED_NODE), json!("n2")),
        (annotation(SELECTED_NODE), json!("")),
        (annotation(PROVISIONER), json!("other.example.com")),
        ("/metadata/annotations".to_owned(), json!({})),
    ] {
        let mut claim = testing::claim();
        *claim.pointer_mut(&pointer).expect("a field") = value;
        assert_eq!(
            decided(claim, testing::class()),
            ProvisionDecision::Nothing,
            "{pointer}"
        );
    }
    for (field, value) in [
        ("/spec/volumeName", json!("pv")),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        (
            "/spec/dataSourceRef",
            json!({"apiGroup": "populators.example.com", "kind": "Image", "name": "i"}),
        ),
    ] {
        let mut claim = testing::claim();
        let (parent, key) = field.rsplit_once('/').expect("a field");
        claim.pointer_mut(parent).expect("a parent")[key] = value;
        assert_eq!(
            decided(claim, testing::class()),
            ProvisionDecision::Nothing,
            "{field}"
        );
    }
    let mut class = testing::class();
    class["provisioner"] = json!("other.example.com");
    assert_eq!(decided(testing::claim(), class), ProvisionDecision::Nothing);
    let (claim, class): (Claim, StorageClass) =
        (parsed(testing::claim()), parsed(testing::class()));
    let made = decide(&ClaimSnapshot {
        claim: &claim,
        class: Some(&class),
        attributes: None,
        has_volume: true,
        node: "n1",
    });
    assert_eq!(made, ProvisionDecision::Nothing);
}

#[test]
fn a_node_selects_itself_for_no_claim_and_refuses_a_class_that_excludes_it() {
    let mut claim = testing::claim();
    claim["metadata"]["annotations"]
        .as_object_mut()
        .expect("annotations")
        .remove(SELECTED_NODE);
    let mut class = testing::class();
    assert_eq!(
        decided(claim.clone(), class.clone()),
        ProvisionDecision::Nothing
    );
    // The control plane selects the node.
    class["volumeBindingMode"] = json!("Immediate");
    assert_eq!(decided(claim, class.clone()), ProvisionDecision::Nothing);
    // Selected by hand against the class.
    class["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": NODE_KEY, "values": ["n2"]}]}]);
    let refused = decided(testing::claim(), class);
    assert!(
        matches!(refused, ProvisionDecision::Refuse(_)),
        "{refused:?}"
    );
}

#[test]
fn a_class_of_attributes_must_exist_and_be_of_the_driver() {
    let mut object = testing::claim();
    object["spec"]["volumeAttributesClassName"] = json!("fast");
    let (claim, class): (Claim, StorageClass) = (parsed(object), parsed(testing::class()));
    let with = |attributes: Option<&AttributesClass>| {
        decide(&ClaimSnapshot {
            claim: &claim,
            class: Some(&class),
            attributes,
            has_volume: false,
            node: "n1",
        })
    };
    let attributes = |driver: &str| -> AttributesClass {
        parsed(json!({"metadata": {"name": "fast"}, "driverName": driver,
            "parameters": {"readIOPS": "100"}}))
    };
    assert!(matches!(with(None), ProvisionDecision::Refuse(_)));
    assert!(matches!(
        with(Some(&attributes("other"))),
        ProvisionDecision::Refuse(_)
    ));
    let order = order_of(with(Some(&attributes(NAME))));
    let expected = BTreeMap::from([("readIOPS".to_owned(), "100".to_owned())]);
    assert_eq!(order.request.mutable_parameters, expected);
}

#[test]
fn the_volume_belongs_to_its_claim_and_its_node_and_is_kept_until_its_storage_is_deleted() {
    let (claim, class): (Claim, StorageClass) =
        (parsed(testing::claim()), parsed(testing::class()));
    let order = order_of(decided(testing::claim(), testing::class()));
    let made = api::Volume {
        capacity_bytes: (1 << 30) + 4096,
        volume_id: "pvc-u1".to_owned(),
        volume_context: BTreeMap::new(),
        content_source: None,
        accessible_topology: vec![topology("n1")],
    };
    let object = volume_object(&order, &claim, &class, &made, "n1");
    assert_eq!(
        object,
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": "pvc-u1",
                "annotations": {
                    PROVISIONED_BY: NAME,
                    DELETION_SECRET_NAME: "",
                    DELETION_SECRET_NAMESPACE: "",
                },
                "finalizers": [FINALIZER],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1048580Ki"},
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": "default", "name": "data", "uid": "u1", "resourceVersion": "7",
                },
                "csi": {
                    "driver": NAME, "volumeHandle": "pvc-u1", "fsType": "ext4",
                    "volumeAttributes": {IDENTITY: "n1-csi.orlop.dev"},
                },
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": NODE_KEY, "operator": "In", "values": ["n1"]}
                ]}]}},
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "local",
                "volumeMode": "Filesystem",
            },
        })
    );
    let again: Volume = parsed(object);
    assert_eq!(again.handle_on("n1"), Some("pvc-u1"));
    assert_eq!(again.handle_on("n2"), None);
    assert!(again.is_of(&claim.metadata));
    let mut retained = testing::class();
    retained["reclaimPolicy"] = json!("Retain");
    let retained: StorageClass = parsed(retained);
    let object = volume_object(&order, &claim, &retained, &made, "n1");
    assert_eq!(object["metadata"]["finalizers"], Value::Null);
}

#[test]
fn access_modes_become_those_that_the_driver_tells_apart() {
    let modes = |apart| {
        let wanted = ["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"].map(str::to_owned);
        let all = volume_capabilities(&wanted, None, "xfs", &["noatime".to_owned()], apart);
        let first = all[0].mount.clone().expect("a mount");
        assert_eq!(
            (first.fs_type.as_str(), first.mount_flags.len()),
            ("xfs", 1)
        );
        let mode = |it: api::VolumeCapability| it.access_mode.expect("a mode").mode();
        all.into_iter().map(mode).collect::<Vec<_>>()
    };
    use api::Mode::{
        MultiNodeMultiWriter, SingleNodeMultiWriter, SingleNodeSingleWriter, SingleNodeWriter,
    };
    assert_eq!(
        modes(false),
        [SingleNodeWriter, SingleNodeWriter, MultiNodeMultiWriter]
    );
    assert_eq!(
        modes(true),
        [
            SingleNodeMultiWriter,
            SingleNodeSingleWriter,
            MultiNodeMultiWriter
        ]
    );
    let block = volume_capabilities(&["ReadWriteOnce".to_owned()], Some("Block"), "", &[], true);
    assert!(block[0].block.is_some() && block[0].mount.is_none());
}

#[test]
fn a_clone_is_made_of_a_bound_claim_of_this_node_that_is_not_larger() {
    let mut object = testing::claim();
    object["metadata"]["uid"] = json!("u2");
    object["spec"]["dataSource"] = json!({"kind": "PersistentVolumeClaim", "name": "data"});
    let claim: Claim = parsed(object.clone());
    let source: Claim = parsed(testing::claim());
    let volume: Volume = parsed(testing::volume("n1"));
    let made = clone_source(&claim, Some(&source), Some(&volume), "n1").expect("a source");
    assert_eq!(made.volume.expect("a volume").volume_id, "pvc-u1");
    let refused = |claim: &Claim, source, volume, node| {
        let refused = clone_source(claim, source, volume, node);
        refused.expect_err("a reason").to_string()
    };
    let elsewhere_of = |source, volume| {
        let refused = clone_source(&claim, source, volume, "n1");
        matches!(refused, Err(Error::SourceElsewhere(_)))
    };
    let elsewhere: Volume = parsed(testing::volume("n2"));
    assert!(elsewhere_of(Some(&source), Some(&elsewhere)));
    assert!(elsewhere_of(None, None));
    assert!(!elsewhere_of(Some(&source), None));
    assert!(refused(&claim, Some(&source), None, "n1").contains("bound"));
    object["spec"]["resources"]["requests"]["storage"] = json!("512Mi");
    let small: Claim = parsed(object.clone());
    assert!(refused(&small, Some(&source), Some(&volume), "n1").contains("requested 536870912"));
    object["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    object["spec"]["volumeMode"] = json!("Block");
    let block: Claim = parsed(object);
    assert!(refused(&block, Some(&source), Some(&volume), "n1").contains("volume modes"));
}
