//! Whose claims are whose: tables.

use serde_json::{Value, json};

use super::super::state::PreparedDevice;
use super::*;

/// A pod with three claims: one that is there, one made for it, and one that
/// nothing is made for; and with extended resources.
fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "a", "uid": "p-1"},
        "spec": {
            "resourceClaims": [
                {"name": "shared", "resourceClaimName": "gpu"},
                {"name": "own", "resourceClaimTemplateName": "t"},
                {"name": "none", "resourceClaimTemplateName": "t"}],
            "containers": [
                {"name": "all", "resources": {"claims": [{"name": "shared"}, {"name": "none"}]}},
                {"name": "one", "resources": {"claims": [
                    {"name": "shared", "request": "r1"}, {"name": "own", "request": "r/big"}]}},
                {"name": "ext", "resources": {"requests": {"example.com/gpu": "1", "example.com/nic": "0"}}},
                {"name": "bare"}]},
        "status": {
            "resourceClaimStatuses": [{"name": "own", "resourceClaimName": "web-own-x"}, {"name": "none"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "web-ext", "requestMappings": [
                {"containerName": "ext", "resourceName": "example.com/gpu", "requestName": "c-0"},
                {"containerName": "ext", "resourceName": "example.com/nic", "requestName": "c-1"},
                {"containerName": "bare", "resourceName": "example.com/gpu", "requestName": "c-2"}]}}}))
    .unwrap()
}

fn claim(changes: &Value) -> ResourceClaim {
    let mut value = json!({
        "metadata": {"name": "gpu", "namespace": "a", "uid": "c-1"},
        "status": {
            "allocation": {"devices": {"results": [{"driver": "d.io"}, {"driver": "e.io"}, {"driver": "d.io"}]}},
            "reservedFor": [{"uid": "other"}, {"uid": "p-1"}]}});
    for (key, change) in changes.as_object().unwrap() {
        let (outer, inner) = key.split_once('.').unwrap();
        value[outer][inner] = change.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn table() -> ClaimTable {
    let device = |name: &str, requests: &[&str]| api::Device {
        device_name: name.to_owned(),
        pool_name: "n".to_owned(),
        request_names: requests.iter().map(|r| (*r).to_owned()).collect(),
        cdi_device_ids: vec![format!("d.io/x={name}"), format!("d.io/x=both")],
        share_id: None,
    };
    let mut table = ClaimTable::default();
    for (name, devices) in [
        (
            "gpu",
            vec![
                device("g0", &["r0"]),
                device("g1", &["r1"]),
                device("any", &[]),
            ],
        ),
        ("web-own-x", vec![device("o", &["r"]), device("q", &["q"])]),
        (
            "web-ext",
            vec![device("e0", &["c-0"]), device("e1", &["c-1"])],
        ),
    ] {
        let key = ("a".to_owned(), name.to_owned());
        let usable = UsableClaim {
            uid: name.to_owned(),
            drivers: ["d.io".to_owned()].into(),
        };
        table.enter("p-1", &key, &usable).unwrap();
        table.set(&key, "d.io", devices);
    }
    table
}

#[test]
fn a_pod_uses_what_it_names_what_was_made_for_it_and_what_stands_for_its_resources() {
    let pod = pod();
    let used = |claim, own| UsedClaim { claim, own };
    assert_eq!(
        claims(&pod).unwrap(),
        [
            used("gpu", false),
            used("web-own-x", true),
            used("web-ext", false)
        ]
    );
    let mut early = pod.clone();
    early.status.resource_claim_statuses.clear();
    let error = claims(&early).unwrap_err().to_string();
    assert_eq!(error, r#"pod "a/web": ResourceClaim not created yet"#);
    let mut newer = pod;
    newer.spec.resource_claims[0].resource_claim_name = None;
    assert!(matches!(claims(&newer), Err(Error::Unsupported { .. })));
}

#[test]
fn a_claim_is_used_only_by_whom_it_is_reserved_for_and_made_for() {
    let pod = pod();
    let shared = UsedClaim {
        claim: "gpu",
        own: false,
    };
    let own = UsedClaim {
        own: true,
        ..shared.clone()
    };
    let found = usable(&pod, &shared, &claim(&json!({}))).unwrap();
    assert_eq!(found.uid, "c-1");
    assert_eq!(found.drivers, ["d.io".to_owned(), "e.io".to_owned()].into());

    let owner = |uid: &str, controller: bool| {
        claim(&json!({"metadata.ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": controller}]}))
    };
    assert!(usable(&pod, &own, &owner("p-1", true)).is_ok());
    for stranger in [owner("p-0", true), owner("p-1", false), claim(&json!({}))] {
        let found = usable(&pod, &own, &stranger);
        assert!(matches!(found, Err(Error::NotOwned { .. })), "{found:?}");
    }
    let taken = claim(&json!({"status.reservedFor": [{"uid": "other"}]}));
    let error = usable(&pod, &shared, &taken).unwrap_err().to_string();
    assert_eq!(
        error,
        "pod web (p-1) is not allowed to use ResourceClaim gpu (c-1)"
    );
    let waiting = claim(&json!({"status.allocation": null}));
    let found = usable(&pod, &shared, &waiting);
    assert!(matches!(found, Err(Error::NotAllocated(_))), "{found:?}");
}

#[test]
fn a_container_gets_the_devices_of_its_requests_and_no_others() {
    let (pod, mut table) = (pod(), table());
    // of a request with alternatives, a driver names the request
    let mut own = pod.clone();
    own.spec.containers[1].resources.claims[1].request = "r".to_owned();
    let of = |pod: &Pod, name: &str| {
        let container = pod.spec.container(name).unwrap();
        let found = cdi_devices(&table, pod, container).unwrap();
        found.join(" ").replace("d.io/x=", "")
    };
    assert_eq!(of(&pod, "all"), "g0 both g1 any");
    assert_eq!(of(&own, "one"), "g1 both any o");
    assert_eq!(
        of(&pod, "ext"),
        "e0 both",
        "of what it asks for none of, it gets none"
    );
    assert_eq!(of(&pod, "bare"), "");
    table.remove(&("a".to_owned(), "gpu".to_owned()));
    let all = pod.spec.container("all").unwrap();
    let error = cdi_devices(&table, &pod, all).unwrap_err().to_string();
    assert_eq!(error, "ResourceClaim gpu is not prepared on this node");
}

#[test]
fn monitors_are_told_of_all_devices_of_a_containers_claims() {
    let (pod, table) = (pod(), table());
    let of = |name: &str| pod_resources(&table, &pod, pod.spec.container(name).unwrap());
    let names: Vec<String> = of("one").into_iter().map(|r| r.claim_name).collect();
    assert_eq!(names, ["gpu", "web-own-x"]);
    let all = &of("ext")[0];
    assert_eq!(
        (all.claim_name.as_str(), all.claim_namespace.as_str()),
        ("web-ext", "a")
    );
    assert_eq!(all.claim_resources.len(), 2);
    let first = &all.claim_resources[0];
    assert_eq!(
        (first.driver_name.as_str(), first.pool_name.as_str()),
        ("d.io", "n")
    );
    let ids: Vec<&str> = first.cdi_devices.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(ids, ["d.io/x=e0", "d.io/x=both"]);
    assert!(of("bare").is_empty());
}

#[test]
fn the_health_of_devices_is_told_by_claim_and_request() {
    let (pod, mut table) = (pod(), table());
    // one that the runtime does not know
    let plain = api::Device {
        pool_name: "n".to_owned(),
        device_name: "bare".to_owned(),
        request_names: vec!["q".to_owned()],
        ..api::Device::default()
    };
    assert!(
        PreparedDevice::from(plain.clone())
            .cdi_device_ids
            .is_empty()
    );
    let key = ("a".to_owned(), "web-own-x".to_owned());
    table.set(
        &key,
        "d.io",
        vec![
            plain.clone(),
            api::Device {
                request_names: vec!["r".to_owned()],
                ..plain
            },
        ],
    );
    let found = health(&table, &pod, |driver, pool, device| match device {
        "g1" => ("Unhealthy", Some(format!("{driver} {pool}"))),
        _ => ("Healthy", None),
    });
    let names: Vec<&String> = found.keys().collect();
    assert_eq!(names, ["all", "one"]);
    let lines = |name: &str| -> Vec<String> {
        let all = found[name].iter().flat_map(|status| {
            status.resources.iter().map(|r| {
                let message = r.message.as_deref().unwrap_or("-");
                format!("{} {} {} {message}", status.name, r.resource_id, r.health)
            })
        });
        all.collect()
    };
    assert_eq!(
        lines("all"),
        [
            "claim:shared d.io/x=g0 Healthy -",
            "claim:shared d.io/x=g1 Unhealthy d.io n",
            "claim:shared d.io/x=any Healthy -"
        ]
    );
    assert_eq!(
        lines("one"),
        [
            "claim:own/r/big d.io/n/bare Healthy -",
            "claim:shared/r1 d.io/x=g1 Unhealthy d.io n",
            "claim:shared/r1 d.io/x=any Healthy -"
        ]
    );
}

#[test]
fn a_driver_has_to_answer_about_every_claim_and_about_no_other() {
    let mut batches = DriverBatches::default();
    let key = |name: &str| ("a".to_owned(), name.to_owned());
    let drivers = ["d.io".to_owned(), "e.io".to_owned()];
    batches.add(&key("gpu"), "c-1", drivers.iter());
    batches.add(&key("nic"), "c-2", drivers[..1].iter());
    let asked: Vec<(&str, usize)> = batches
        .iter()
        .map(|(d, all)| (d.as_str(), all.len()))
        .collect();
    assert_eq!(asked, [("d.io", 2), ("e.io", 1)]);
    let (_, asked) = batches.iter().next().unwrap();
    let with = |told: &[(&str, &str)]| {
        let told = told.iter().map(|(uid, error)| {
            let error = (*error).to_owned();
            ((*uid).to_owned(), api::Unprepared { error })
        });
        let found = answers("M", asked, told.collect(), |a| &a.error);
        found.map(|all| all.len()).map_err(|e| e.to_string())
    };
    let fails = |why: &str| Err::<usize, String>(why.to_owned());
    assert_eq!(with(&[("c-1", ""), ("c-2", "")]), Ok(2));
    assert_eq!(with(&[("c-1", "")]), fails("M skipped 1 ResourceClaims"));
    assert_eq!(
        with(&[("c-1", "no"), ("c-2", "")]),
        fails("M failed for ResourceClaim gpu: no")
    );
    assert_eq!(
        with(&[("c-1", ""), ("c-2", ""), ("c-9", "")]),
        fails("M returned result for unknown claim UID c-9")
    );
}
