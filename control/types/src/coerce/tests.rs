use super::*;
use crate::registry;
use crate::value;

fn of(kind: &str) -> TypeId {
    registry::resources()
        .iter()
        .find(|one| one.kind == kind)
        .unwrap()
        .schema
}

fn coerced(kind: &str, mut value: Value) -> (Value, Vec<String>) {
    let findings = coerce(&mut value, of(kind)).unwrap();
    (value, findings)
}

fn error(kind: &str, mut value: Value) -> String {
    coerce(&mut value, of(kind)).unwrap_err().to_string()
}

#[test]
fn fields_come_out_in_the_order_of_the_struct_without_nulls_and_zero_values() {
    let (pod, findings) = coerced(
        "Pod",
        value!({
            "spec": {"hostNetwork": false, "restartPolicy": "Always", "nodeName": "", "containers": [{"image": "i", "name": "c", "args": []}],
                "terminationGracePeriodSeconds": 0, "volumes": null, "nodeSelector": {}},
            "metadata": {"labels": {"b": "1", "a": null}, "name": "x", "generation": 0},
            "kind": "Pod", "apiVersion": "v1"
        }),
    );
    assert!(findings.is_empty());
    assert_eq!(
        pod.to_string(),
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","labels":{"a":"","b":"1"}},"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Always","terminationGracePeriodSeconds":0}}"#
    );
}

#[test]
fn unknown_fields_are_dropped_and_named_by_path() {
    let (pod, findings) = coerced(
        "Pod",
        value!({"spec": {"containers": [{"name": "c"}, {"name": "d", "foo": 1}], "bar": {"x": 1}}, "x": 2}),
    );
    assert_eq!(
        findings,
        [
            "unknown field \"spec.containers[1].foo\"",
            "unknown field \"spec.bar\"",
            "unknown field \"x\""
        ]
    );
    assert_eq!(
        pod,
        value!({"spec": {"containers": [{"name": "c"}, {"name": "d"}]}})
    );
    assert_eq!(
        strict_error(&findings[1..]),
        "strict decoding error: unknown field \"spec.bar\", unknown field \"x\""
    );
}

#[test]
fn type_errors_are_worded_as_go_words_them() {
    for (kind, value, expected) in [
        (
            "Pod",
            value!({"spec": {"tolerations": "x"}}),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.tolerations of type []v1.Toleration",
        ),
        (
            "Pod",
            value!({"spec": {"containers": [7]}}),
            "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            "Pod",
            value!({"spec": {"containers": [{"command": [7]}]}}),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.command of type string",
        ),
        (
            "Pod",
            value!({"spec": []}),
            "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
        ),
        (
            "Pod",
            value!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "Pod",
            value!([]),
            "json: cannot unmarshal array into Go value of type v1.Pod",
        ),
        (
            "Service",
            value!({"spec": {"ports": [{"targetPort": 1.5}]}}),
            "json: cannot unmarshal number 1.5 into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            "Service",
            value!({"spec": {"ports": [{"port": 2147483648_i64}]}}),
            "json: cannot unmarshal number 2147483648 into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            "PersistentVolume",
            value!({"spec": {"local": []}}),
            "json: cannot unmarshal array into Go struct field PersistentVolumeSpec.spec.PersistentVolumeSource.local of type v1.LocalVolumeSource",
        ),
        (
            "Secret",
            value!({"data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        (
            "Secret",
            value!({"data": []}),
            "json: cannot unmarshal array into Go struct field Secret.data of type map[string][]uint8",
        ),
        (
            "Secret",
            value!({"data": {"a": "a/b"}}),
            "illegal base64 data at input byte 0",
        ),
        (
            "Secret",
            value!({"data": {"a": "10%"}}),
            "illegal base64 data at input byte 2",
        ),
        (
            "Secret",
            value!({"type": []}),
            "json: cannot unmarshal array into Go struct field Secret.type of type v1.SecretType",
        ),
        (
            "Pod",
            value!({"metadata": {"creationTimestamp": "x"}}),
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
    ] {
        assert_eq!(error(kind, value.clone()), expected, "{value}");
    }
}

#[test]
fn an_error_of_a_custom_decoder_ends_decoding_while_a_type_error_waits() {
    let text = error(
        "Pod",
        value!({"spec": {"nodeName": 1, "containers": [{"resources": {"limits": {"cpu": "x"}}}]}}),
    );
    assert!(text.starts_with("quantities must match"), "{text}");
}

#[test]
fn quantities_and_times_become_canonical() {
    let (pod, _) = coerced(
        "Pod",
        value!({"metadata": {"creationTimestamp": "2024-01-01T02:00:00.5+02:00"},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": 1024, "cpu": "1000m"}}}]}}),
    );
    assert_eq!(
        pod.str_at(&["metadata", "creationTimestamp"]),
        Some("2024-01-01T00:00:00Z")
    );
    let limits = pod
        .path(&["spec", "containers", "0", "resources", "limits"])
        .unwrap();
    assert_eq!(limits.to_string(), r#"{"cpu":"1","memory":"1024"}"#);
}

#[test]
fn what_go_writes_although_it_is_zero_is_added() {
    let (mut deployment, _) = coerced(
        "Deployment",
        value!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "x"}, "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c"}]}}}}),
    );
    complete(&mut deployment, of("Deployment"));
    assert_eq!(
        deployment.to_string(),
        r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"x"},"spec":{"selector":{},"template":{"metadata":{},"spec":{"containers":[{"name":"c","resources":{}}]}},"strategy":{}},"status":{}}"#
    );
    let (mut role, _) = coerced("ClusterRole", value!({"metadata": {}}));
    complete(&mut role, of("ClusterRole"));
    assert_eq!(role, value!({"metadata": {}, "rules": null}));
    let (mut service, _) = coerced("Service", value!({"spec": {"ports": [{"port": 80}]}}));
    complete(&mut service, of("Service"));
    assert_eq!(
        service.path(&["spec", "ports", "0"]),
        Some(&value!({"port": 80, "targetPort": 0}))
    );
    assert_eq!(
        service.path(&["status"]),
        Some(&value!({"loadBalancer": {}}))
    );
}

#[test]
fn coercing_twice_changes_nothing() {
    let (once, _) = coerced(
        "Pod",
        value!({"spec": {"volumes": [{"name": "a", "emptyDir": {}, "hostPath": null}], "containers": [null]}}),
    );
    let (mut completed, _) = coerced("Pod", once.clone());
    assert_eq!(once.to_string(), completed.to_string());
    complete(&mut completed, of("Pod"));
    let (again, findings) = coerced("Pod", completed);
    assert!(findings.is_empty());
    assert_eq!(
        again.path(&["spec", "volumes"]),
        once.path(&["spec", "volumes"])
    );
}

#[test]
fn embedded_raw_objects_and_schemas_are_kept() {
    let schema = value!({"type": "object", "properties": {"a": {"additionalProperties": false, "default": {"x": null}, "items": {"type": "string"}}}});
    let (crd, findings) = coerced(
        "CustomResourceDefinition",
        value!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": (schema.clone())}}]}}),
    );
    assert!(findings.is_empty(), "{findings:?}");
    let kept = crd
        .path(&["spec", "versions", "0", "schema", "openAPIV3Schema"])
        .unwrap();
    assert_eq!(kept, &schema);
    assert_eq!(
        error(
            "CustomResourceDefinition",
            value!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"additionalProperties": 1}}}]}}),
        ),
        "boolean or JSON schema expected"
    );
}

#[test]
fn base64_errors_name_the_offset() {
    for (text, expected) in [
        ("", Ok(())),
        ("AAEC", Ok(())),
        ("AAE=", Ok(())),
        ("AA==", Ok(())),
        ("AA\n==", Ok(())),
        ("-lead", Err(0)),
        ("10.0", Err(2)),
        ("a..b", Err(1)),
        ("AAE", Err(0)),
        ("AA=", Err(3)),
        ("AAECA", Err(4)),
        ("A===", Err(1)),
        ("AAE=A", Err(4)),
    ] {
        assert_eq!(check_base64(text), expected, "{text:?}");
    }
}

#[test]
fn what_protobuf_does_not_hold_is_dropped() {
    let role = TypeId::by_name("io.k8s.api.rbac.v1.ClusterRole").unwrap();
    let mut value = crate::value!({
        "metadata": {"name": "a", "labels": {}, "ownerReferences": []},
        "rules": []
    });
    arrange(&mut value, role, true);
    assert_eq!(
        value.to_string(),
        r#"{"metadata":{"name":"a"},"rules":null}"#
    );
    let pod = TypeId::by_name("io.k8s.api.core.v1.Pod").unwrap();
    let mut value = crate::value!({
        "spec": {"containers": [{"name": "c", "args": [], "env": [{"name": "x"}], "resources": {"limits": {}}}], "volumes": [{"name": "v", "emptyDir": {}}]}
    });
    arrange(&mut value, pod, true);
    assert_eq!(
        value.to_string(),
        r#"{"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","env":[{"name":"x"}],"resources":{}}]}}"#
    );
}

#[test]
fn members_come_into_the_order_of_the_struct() {
    let pod = TypeId::by_name("io.k8s.api.core.v1.Pod").unwrap();
    let mut value = crate::value!({
        "status": {"phase": "Pending"},
        "metadata": {"uid": "u", "labels": {"b": "1", "a": "2"}, "finalizers": [], "name": "n"},
        "kind": "Pod"
    });
    arrange(&mut value, pod, false);
    assert_eq!(
        value.to_string(),
        r#"{"kind":"Pod","metadata":{"name":"n","uid":"u","labels":{"a":"2","b":"1"},"finalizers":[]},"status":{"phase":"Pending"}}"#
    );
}

#[test]
fn a_time_that_is_no_pointer_stays_null() {
    let event = TypeId::by_name("io.k8s.api.core.v1.Event").unwrap();
    let mut value = crate::value!({"metadata": {"creationTimestamp": null}, "eventTime": null, "related": null});
    arrange(&mut value, event, true);
    assert_eq!(value.to_string(), r#"{"metadata":{},"eventTime":null}"#);
}
