//! Tests messages about missing devices, chosen nodes, and reservations.

use control_client::{Cache, Change, View};
use serde_json::{Value, json};

use super::*;
use crate::catalog::CatalogEvent;
use crate::cluster::Cluster;
use crate::devices::DynamicResources;
use crate::event::{Event, Subject};
use crate::place::{Decision, place};
use crate::plugins::Plugin;
use crate::view::Node;

fn objects<V: View>(objects: Value) -> Cache<V> {
    let Value::Array(objects) = objects else {
        return Cache::fixed([]);
    };
    let objects = objects.into_iter();
    Cache::fixed(objects.map(|object| serde_json::from_value(object).expect("an object")))
}

fn pod(spec: &Value, status: &Value) -> Pod {
    named_pod("p", spec, status)
}

fn named_pod(name: &str, spec: &Value, status: &Value) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("{name}-uid")},
        "spec": spec, "status": status
    });
    serde_json::from_value(pod).expect("a pod")
}

fn using(claim: &str) -> Pod {
    pod(
        &json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}),
        &json!({}),
    )
}

fn claim(name: &str, spec: &Value, status: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("{name}-uid")},
        "spec": spec, "status": status})
}

fn one_gpu() -> Value {
    json!({"devices": {"requests": [{"name": "r", "exactly": {
        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}})
}

fn slice(node: &str, devices: &[&str]) -> Value {
    let devices: Vec<Value> = devices.iter().map(|name| json!({"name": name})).collect();
    json!({"metadata": {"name": node}, "spec": {
        "driver": "d", "nodeName": node, "devices": devices,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
}

fn catalog(claims: &[Value], slices: &[Value]) -> Catalog {
    Catalog {
        resource_claims: objects(json!(claims)),
        resource_slices: objects(json!(slices)),
        device_classes: objects(json!([{"metadata": {"name": "gpu"},
            "spec": {"extendedResourceName": "example.com/gpu"}}])),
        ..Catalog::default()
    }
}

fn cluster(catalog: Catalog, nodes: &[&str]) -> Cluster {
    let mut cluster = Cluster::from_catalog(catalog);
    for name in nodes {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}},
        }))
        .expect("a node");
        cluster.snapshot.set_node(&Arc::new(node));
    }
    cluster
}

fn lacks(pod: &Pod, catalog: &Catalog) -> String {
    match DeviceState::prepare(
        &Snapshot::new(),
        pod,
        catalog,
        &AssumedDevices::from_catalog(catalog),
    ) {
        Ok(_) => String::new(),
        Err(unmet) => unmet.reason,
    }
}

/// Returns the chosen node of a pod with its reservation, or the reason why there is
/// none.
fn goes_to(
    cluster: &mut Cluster,
    pod: &Pod,
) -> Result<(String, crate::reserve::Reservation), String> {
    match place(cluster, pod, 0) {
        Decision::Place {
            node, reservation, ..
        } => Ok((cluster.snapshot.name(node).to_owned(), reservation)),
        Decision::Unschedulable(diagnosis) => Err(diagnosis.full_message("preemption: none")),
        Decision::Failed(message) => Err(message),
    }
}

fn devices(reservation: &crate::reserve::Reservation) -> Vec<String> {
    let claims = reservation.devices.claims.iter();
    let allocations = claims.filter_map(|claim| claim.allocation.as_ref());
    let results = allocations.flat_map(|allocation| &allocation.devices.results);
    results
        .map(|result| format!("{}/{}", result.pool, result.device))
        .collect()
}

#[test]
fn claims_must_exist_and_belong_to_the_pod() {
    let made = |statuses: Value| {
        pod(
            &json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}),
            &json!({"resourceClaimStatuses": statuses}),
        )
    };
    let with = |claim: Value| catalog(&[claim], &[]);
    let plain = with(claim("c", &one_gpu(), &json!({})));
    assert_eq!(
        lacks(&using("missing"), &plain),
        "could not find ResourceClaim \"n/missing\""
    );
    assert_eq!(lacks(&using("c"), &plain), "");
    let mut going = claim("c", &one_gpu(), &json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(
        lacks(&using("c"), &with(going)),
        "resourceclaim \"c\" is being deleted"
    );
    assert_eq!(
        lacks(&made(json!([])), &plain),
        "pod \"n/p\": ResourceClaim not created yet"
    );
    let status = json!([{"name": "gpu", "resourceClaimName": "c"}]);
    assert_eq!(
        lacks(&made(status.clone()), &plain),
        "ResourceClaim n/c was not created for Pod n/p (Pod is not owner)"
    );
    let mut owned = claim("c", &one_gpu(), &json!({}));
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod",
        "name": "p", "uid": "p-uid", "controller": true}]);
    assert_eq!(lacks(&made(status), &with(owned)), "");
    assert_eq!(
        lacks(&made(json!([{"name": "gpu"}])), &plain),
        "",
        "none was needed"
    );
}

#[test]
fn classes_must_exist() {
    let without = Catalog {
        device_classes: objects(json!([])),
        ..catalog(&[claim("c", &one_gpu(), &json!({}))], &[])
    };
    assert_eq!(
        lacks(&using("c"), &without),
        "request r: device class gpu does not exist"
    );
    let list = json!({"devices": {"requests": [{"name": "r", "firstAvailable": [
        {"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "other"}]}]}});
    assert_eq!(
        lacks(&using("c"), &catalog(&[claim("c", &list, &json!({}))], &[])),
        "request r/b: device class other does not exist"
    );
    let unknown = json!({"devices": {"requests": [{"name": "r"}]}});
    assert_eq!(
        lacks(
            &using("c"),
            &catalog(&[claim("c", &unknown, &json!({}))], &[])
        ),
        "resource claim n/c, request r: unknown request type"
    );
}

#[test]
fn a_pod_goes_where_devices_are_and_the_next_gets_others() {
    let claims = ["c1", "c2", "c3"].map(|name| claim(name, &one_gpu(), &json!({})));
    let slices = [slice("b", &["x", "y"])];
    let mut cluster = cluster(catalog(&claims, &slices), &["a", "b"]);
    for (name, device) in [("c1", "b/x"), ("c2", "b/y")] {
        let pod = using(name);
        let (node, reservation) = goes_to(&mut cluster, &pod).expect("a node");
        assert_eq!(node, "b");
        assert_eq!(devices(&reservation), [device]);
        cluster.assumed.reserve(&pod, &reservation);
        assert_eq!(
            goes_to(&mut cluster, &pod).expect_err("in the process"),
            format!(
                "0/2 nodes are available: resource claim n/{name} is in the process of being allocated. \
                 no new claims to deallocate, preemption: none"
            )
        );
        if name == "c2" {
            assert_eq!(
                goes_to(&mut cluster, &using("c3")).expect_err("no device"),
                "0/2 nodes are available: 2 cannot allocate all claims. \
                 still not schedulable, preemption: none"
            );
            cluster.assumed.unreserve(&pod, &reservation);
            assert!(goes_to(&mut cluster, &using("c3")).is_ok());
        }
    }
}

#[test]
fn a_pod_follows_the_devices_that_its_claim_has() {
    let allocated = json!({"allocation": {"devices": {"results": [
        {"request": "r", "driver": "d", "pool": "b", "device": "x"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}});
    let mut reserved = allocated.clone();
    reserved["reservedFor"] = json!([{"resource": "pods", "name": "p", "uid": "p-uid"}]);
    let catalog_of = |status: &Value| catalog(&[claim("c", &one_gpu(), status)], &[]);
    let mut both = cluster(catalog_of(&allocated), &["a", "b"]);
    let (node, reservation) = goes_to(&mut both, &using("c")).expect("a node");
    assert_eq!(node, "b");
    assert_eq!(
        reservation.devices.claims.len(),
        1,
        "to be reserved for the pod"
    );
    let mut both = cluster(catalog_of(&reserved), &["a", "b"]);
    let (node, reservation) = goes_to(&mut both, &using("c")).expect("a node");
    assert_eq!(node, "b");
    assert!(reservation.devices.is_empty());
    // nothing else uses it: it is deallocated
    let mut other = cluster(catalog_of(&reserved), &["a"]);
    assert_eq!(
        goes_to(&mut other, &using("c")).expect_err("not there"),
        "0/1 nodes are available: 1 resourceclaim not available on the node. \
         deallocation of ResourceClaim completed, preemption: none"
    );
    let mut shared = reserved.clone();
    shared["reservedFor"] = json!([{"resource": "pods", "name": "q", "uid": "q-uid"}]);
    let mut other = cluster(catalog_of(&shared), &["a"]);
    assert!(
        goes_to(&mut other, &using("c"))
            .expect_err("not there")
            .contains("still not schedulable"),
    );
}

#[test]
fn devices_that_failed_to_become_ready_are_given_back() {
    let status = |conditions: Value, timestamp: &str| {
        json!({"allocation": {"allocationTimestamp": timestamp, "devices": {"results": [
            {"request": "r", "driver": "d", "pool": "a", "device": "x",
                "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}]}},
            "devices": [{"driver": "d", "pool": "a", "device": "x", "conditions": conditions}]})
    };
    let goes = |status: Value| {
        let catalog = catalog(&[claim("c", &one_gpu(), &status)], &[]);
        goes_to(&mut cluster(catalog, &["a"]), &using("c")).map(|(node, _)| node)
    };
    let soon = "2999-01-01T00:00:00Z";
    assert_eq!(goes(status(json!([]), soon)), Ok("a".to_owned()));
    let failed = json!([{"type": "failed", "status": "True"}]);
    assert!(
        goes(status(failed, soon))
            .expect_err("failed")
            .contains("deallocation of ResourceClaim completed")
    );
    assert!(
        goes(status(json!([]), "2020-01-01T00:00:00Z")).is_err(),
        "overdue"
    );
    let ready = json!([{"type": "ready", "status": "True"}]);
    assert_eq!(
        goes(status(ready, "2020-01-01T00:00:00Z")),
        Ok("a".to_owned())
    );
}

#[test]
fn wrong_selectors_fail_the_attempt() {
    let mut spec = one_gpu();
    spec["devices"]["requests"][0]["exactly"]["selectors"] =
        json!([{"cel": {"expression": "device.attributes['d'].size > 1"}}]);
    let catalog = catalog(&[claim("c", &spec, &json!({}))], &[slice("a", &["x"])]);
    assert_eq!(
        goes_to(&mut cluster(catalog, &["a"]), &using("c")).expect_err("an error"),
        "running \"DynamicResources\" filter plugin: claim n/c: selector #0: CEL runtime error: no such key: size"
    );
}

#[test]
fn better_alternatives_score_higher() {
    let list = json!({"devices": {"requests": [{"name": "r", "firstAvailable": [
        {"name": "two", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
        {"name": "one", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}]}]}});
    let slices = [slice("a", &["x"]), slice("b", &["x", "y"])];
    let catalog = catalog(&[claim("c", &list, &json!({}))], &slices);
    let (node, reservation) =
        goes_to(&mut cluster(catalog, &["a", "b"]), &using("c")).expect("a node");
    assert_eq!(node, "b");
    assert_eq!(devices(&reservation), ["b/x", "b/y"]);
}

#[test]
fn devices_satisfy_extended_resources() {
    let pod = pod(
        &json!({"containers": [{"name": "main", "resources": {"requests": {
            "cpu": "1", "example.com/gpu": "2"}}}]}),
        &json!({}),
    );
    let slices = [slice("b", &["x", "y"])];
    let mut both = cluster(catalog(&[], &slices), &["a", "b"]);
    let (node, reservation) = goes_to(&mut both, &pod).expect("a node");
    assert_eq!(node, "b");
    assert_eq!(devices(&reservation), ["b/x", "b/y"]);
    let made = &reservation.devices.claims[0];
    let mappings = made.mappings.as_ref().expect("a claim to be made");
    assert_eq!(
        serde_json::to_value(mappings).expect("mappings"),
        json!([{"containerName": "main", "resourceName": "example.com/gpu",
            "requestName": "container-0-request-1"}])
    );
    assert_eq!(made.claim.spec.devices.requests.len(), 1);
    both.assumed.reserve(&pod, &reservation);
    assert!(
        goes_to(
            &mut both,
            &named_pod(
                "q",
                &json!({"containers": [{"name": "main",
        "resources": {"requests": {"example.com/gpu": "1"}}}]}),
                &json!({})
            )
        )
        .is_err()
    );
    // a claim that an earlier attempt left
    let mut stale = claim("stale", &one_gpu(), &json!({}));
    stale["metadata"]["annotations"] =
        json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    stale["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod",
        "name": "p", "uid": "p-uid", "controller": true}]);
    let mut left = cluster(catalog(&[stale], &slices), &["a", "b"]);
    assert_eq!(
        goes_to(&mut left, &pod).expect_err("stale"),
        "0/2 nodes are available: 2 cannot schedule extended resource claim. \
         deletion of ResourceClaim completed, preemption: none"
    );
}

#[test]
fn a_pod_without_claims_has_nothing_to_do_with_devices() {
    let pod = pod(&json!({"containers": [{"name": "c"}]}), &json!({}));
    let catalog = catalog(&[], &[]);
    let assumed = AssumedDevices::from_catalog(&catalog);
    let state = DeviceState::prepare(&Snapshot::new(), &pod, &catalog, &assumed).expect("a state");
    assert!(state.work.is_none());
    assert_eq!(state.post_filter(), "no new claims to deallocate");
}

#[test]
fn changes_of_claims_wake_the_pods_that_they_may_help() {
    let read = |value: &Value| -> Arc<ResourceClaim> {
        Arc::new(serde_json::from_value(value.clone()).expect("a claim"))
    };
    let free = |name: &str| read(&claim(name, &one_gpu(), &json!({})));
    let allocated = |name: &str| read(&claim(name, &one_gpu(), &json!({"allocation": {}})));
    let cluster = cluster(catalog(&[claim("c", &one_gpu(), &json!({}))], &[]), &[]);
    let hint = |pod: &Pod, previous: Option<&Arc<ResourceClaim>>, current: &Arc<ResourceClaim>| {
        let event = CatalogEvent::ResourceClaim(Change {
            previous: previous.cloned(),
            current: Some(Arc::clone(current)),
        });
        let subject = Subject::Object(&event);
        let wake = event.wake();
        DynamicResources.hint(&cluster, pod, &Event { wake, subject })
    };
    assert!(hint(&using("c"), None, &free("c")));
    assert!(hint(&using("c"), Some(&free("c")), &allocated("c")));
    assert!(
        !hint(&using("c"), Some(&free("c")), &free("c")),
        "its status is as before"
    );
    assert!(
        !hint(&using("c"), None, &free("other")),
        "it has nothing to do with it"
    );
    assert!(
        hint(&using("c"), Some(&allocated("other")), &free("other")),
        "devices are free"
    );
    assert!(
        !hint(&using("missing"), None, &free("other")),
        "its claim does not exist"
    );
}
