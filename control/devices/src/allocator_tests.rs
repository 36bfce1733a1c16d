use serde_json::{Value, json};

#[path = "allocator_world.rs"]
mod world;

use self::world::{NODE, TestNode, World, read};

use super::*;
use crate::api::ResourceClaimSpec;
use crate::score::allocation_score;

fn exactly(count: i64, selector: &str) -> Value {
    let selectors = if selector.is_empty() {
        json!([])
    } else {
        json!([{"cel": {"expression": selector}}])
    };
    json!({"name": "r", "exactly": {
        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count,
        "selectors": selectors,
    }})
}

fn all() -> Value {
    json!({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}})
}

fn names(names: &[&str]) -> Result<Option<Vec<String>>, String> {
    Ok(Some(names.iter().map(|name| (*name).to_owned()).collect()))
}

fn plain(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

#[test]
fn the_first_free_devices_are_taken() {
    let world = World::new()
        .local(plain(&["a", "b", "c"]))
        .in_use(json!([{"driver": "d", "pool": "pool", "device": "a"}]));
    assert_eq!(world.one(exactly(2, "")), names(&["b", "c"]));
    assert_eq!(world.one(exactly(3, "")), Ok(None));
}

#[test]
fn a_device_is_given_once() {
    let world = World::new().local(plain(&["a", "b"]));
    let claim = json!({"requests": [exactly(1, "")]});
    assert_eq!(
        world.devices(json!([claim, claim])),
        Ok(Some(vec![vec!["a".to_owned()], vec!["b".to_owned()]]))
    );
    assert_eq!(world.devices(json!([claim, claim, claim])), Ok(None));
}

#[test]
fn devices_must_satisfy_class_and_request() {
    let world = World::new()
        .class(
            "gpu",
            json!({"selectors": [{"cel": {"expression": "device.attributes['d'].kind == 'gpu'"}}]}),
        )
        .local(json!([
            {"name": "nic", "attributes": {"kind": {"string": "nic"}, "size": {"int": 9}}},
            {"name": "small", "attributes": {"kind": {"string": "gpu"}, "size": {"int": 1}}},
            {"name": "big", "attributes": {"kind": {"string": "gpu"}, "size": {"int": 9}}},
        ]));
    assert_eq!(
        world.one(exactly(1, "device.attributes['d'].size > 5")),
        names(&["big"])
    );
}

#[test]
fn a_selector_without_result_stops_the_search() {
    let world = World::new().local(plain(&["a"]));
    assert_eq!(
        world.one(exactly(1, "device.attributes['d'].size > 5")),
        Err("claim ns/c0: selector #0: CEL runtime error: no such key: size".to_owned())
    );
    let world = World::new()
        .class(
            "gpu",
            json!({"selectors": [{"cel": {"expression": "nonsense"}}]}),
        )
        .local(plain(&["a"]));
    let error = world.one(exactly(1, "")).expect_err("an error");
    assert!(
        error.starts_with("class gpu: selector #0: CEL compile error: compilation failed: "),
        "{error}"
    );
}

#[test]
fn devices_of_other_nodes_are_not_taken() {
    let world = World::new()
        .slice("a", json!({"nodeName": "node-2", "devices": [{"name": "far"}]}))
        .slice("b", json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]}]}]}, "devices": [{"name": "zonal"}]}))
        .slice("c", json!({"allNodes": true, "devices": [{"name": "anywhere"}]}));
    assert_eq!(world.one(exactly(2, "")), names(&["zonal", "anywhere"]));
    assert_eq!(world.one(exactly(3, "")), Ok(None));
    let results = world.results(
        &TestNode {
            name: "node-9",
            zone: "b",
        },
        json!([{"requests": [exactly(1, "")]}]),
    );
    let results = results.expect("a result").expect("devices");
    assert_eq!(results[0]["devices"]["results"][0]["device"], "anywhere");
    assert_eq!(results[0]["nodeSelector"], Value::Null);
}

#[test]
fn an_allocation_says_which_nodes_have_it() {
    let zonal = |name: &str, zone: &str| {
        json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": [zone]}]}]}, "devices": [{"name": name}]})
    };
    let world = World::new()
        .slice("a", zonal("x", "a"))
        .slice("b", zonal("y", "a"));
    let results = world.results(&NODE, json!([{"requests": [exactly(2, "")]}]));
    assert_eq!(
        results.expect("a result").expect("devices")[0]["nodeSelector"],
        json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]}]}]})
    );
    let world = World::new().local(plain(&["a"]));
    let results = world.results(&NODE, json!([{"requests": [exactly(1, "")]}]));
    let local = json!({"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]});
    assert_eq!(
        results.expect("a result").expect("devices")[0]["nodeSelector"],
        local
    );
    let world = World::new().slice(
        "c",
        json!({"allNodes": true, "devices": [{"name": "binds", "bindsToNode": true}]}),
    );
    let results = world.results(&NODE, json!([{"requests": [exactly(1, "")]}]));
    assert_eq!(
        results.expect("a result").expect("devices")[0]["nodeSelector"],
        local
    );
}

#[test]
fn each_device_can_name_its_nodes() {
    let world = World::new().slice(
        "a",
        json!({"perDeviceNodeSelection": true, "devices": [
            {"name": "far", "nodeName": "node-2"},
            {"name": "near", "nodeName": "node-1"},
            {"name": "anywhere", "allNodes": true},
        ]}),
    );
    assert_eq!(world.one(exactly(2, "")), names(&["near", "anywhere"]));
    assert_eq!(world.one(exactly(3, "")), Ok(None));
}

#[test]
fn only_the_newest_generation_counts_and_only_when_it_is_whole() {
    let local = |name: &str| json!({"nodeName": "node-1", "devices": [{"name": name}]});
    let old = World::new().part("s1", "p", 1, 1, local("old"));
    assert_eq!(old.one(exactly(1, "")), names(&["old"]));
    let replacing = old.part("s2", "p", 2, 2, local("new-1"));
    assert_eq!(replacing.one(exactly(1, "")), Ok(None));
    assert_eq!(
        replacing.one(all()),
        Err("claim ns/c0, request r: asks for all devices, but resource pool d/p is currently being updated".to_owned())
    );
    let replaced = replacing.part("s3", "p", 2, 2, local("new-2"));
    assert_eq!(replaced.one(exactly(2, "")), names(&["new-1", "new-2"]));
    assert_eq!(replaced.one(all()), names(&["new-1", "new-2"]));
}

#[test]
fn a_pool_with_equal_device_names_is_invalid() {
    let local = json!({"nodeName": "node-1", "devices": [{"name": "a"}]});
    let world = World::new()
        .part("s1", "p", 1, 2, local.clone())
        .part("s2", "p", 1, 2, local);
    assert_eq!(
        world.one(exactly(1, "")),
        Err("invalid resource pools were encountered".to_owned())
    );
    assert_eq!(
        world.one(all()),
        Err("claim ns/c0, request r: asks for all devices, but resource pool d/p is currently invalid".to_owned())
    );
    let other = world.slice(
        "z",
        json!({"nodeName": "node-1", "devices": [{"name": "good"}]}),
    );
    assert_eq!(other.one(exactly(1, "")), names(&["good"]));
}

#[test]
fn all_devices_must_be_free_and_at_least_one() {
    let world = World::new().local(plain(&["a", "b"]));
    assert_eq!(world.one(all()), names(&["a", "b"]));
    let world = world.in_use(json!([{"driver": "d", "pool": "pool", "device": "b"}]));
    assert_eq!(world.one(all()), Ok(None));
    assert_eq!(World::new().one(all()), Ok(None));
}

#[test]
fn administrators_get_devices_in_use() {
    let mut request = all();
    request["exactly"]["adminAccess"] = json!(true);
    let world = World::new()
        .local(plain(&["a", "b"]))
        .in_use(json!([{"driver": "d", "pool": "pool", "device": "b"}]));
    assert_eq!(world.one(request), names(&["a", "b"]));
    let world = World::new()
        .local(plain(&["a"]))
        .in_use(json!([{"driver": "d", "pool": "pool", "device": "a", "adminAccess": true}]));
    assert_eq!(world.one(exactly(1, "")), names(&["a"]));
}

#[test]
fn a_claim_has_at_most_32_devices() {
    let many: Vec<String> = (0..40).map(|i| format!("d{i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let world = World::new().local(plain(&many));
    assert_eq!(
        world.one(exactly(33, "")),
        Err("claim ns/c0: number of requested devices 33 exceeds the claim limit of 32".to_owned())
    );
    assert!(world.one(exactly(32, "")).expect("no error").is_some());
}

#[test]
fn the_first_alternative_that_fits_is_taken() {
    let list = json!({"name": "r", "firstAvailable": [
        {"name": "big", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3},
        {"name": "small", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
    ]});
    let world = World::new().local(plain(&["a", "b"]));
    let results = world.results(
        &NODE,
        json!([{"requests": [list], "config": [
            {"requests": ["r/small"], "opaque": {"driver": "d", "parameters": {"a": 1}}},
            {"requests": ["r/big"], "opaque": {"driver": "d", "parameters": {"a": 2}}},
        ]}]),
    );
    let results = results.expect("a result").expect("devices");
    assert_eq!(results[0]["devices"]["results"][0]["request"], "r/small");
    assert_eq!(
        results[0]["devices"]["config"],
        json!([{"source": "FromClaim", "requests": ["r/small"],
            "opaque": {"driver": "d", "parameters": {"a": 1}}}])
    );
    let spec: ResourceClaimSpec = read(json!({"devices": {"requests": [list]}}));
    let allocation: AllocationResult = read(results[0].clone());
    assert_eq!(allocation_score(&spec, &allocation), 7);
}

#[test]
fn configuration_of_classes_comes_first_and_once() {
    let world = World::new()
        .class(
            "gpu",
            json!({"config": [{"opaque": {"driver": "d", "parameters": {}}}]}),
        )
        .local(plain(&["a", "b"]));
    let (mut first, mut second) = (exactly(1, ""), exactly(1, ""));
    first["name"] = json!("r1");
    second["name"] = json!("r2");
    let config = json!([{"opaque": {"driver": "e", "parameters": {}}}]);
    let results = world.results(
        &NODE,
        json!([{"requests": [first, second], "config": config}]),
    );
    assert_eq!(
        results.expect("a result").expect("devices")[0]["devices"]["config"],
        json!([
            {"source": "FromClass", "requests": ["r1", "r2"],
                "opaque": {"driver": "d", "parameters": {}}},
            {"source": "FromClaim", "opaque": {"driver": "e", "parameters": {}}},
        ])
    );
}

#[test]
fn constraints_hold_across_requests() {
    let device =
        |name: &str, numa: i64| json!({"name": name, "attributes": {"numa": {"int": numa}}});
    let world = World::new().local(json!([device("a", 0), device("b", 1), device("c", 1)]));
    let claim = |kind: &str, count| json!([{"requests": [exactly(count, "")], "constraints": [{kind: "d/numa"}]}]);
    let taken = |devices: &[&str]| {
        Ok(Some(vec![
            devices
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        ]))
    };
    assert_eq!(
        world.devices(claim("matchAttribute", 2)),
        taken(&["b", "c"])
    );
    assert_eq!(world.devices(claim("matchAttribute", 3)), Ok(None));
    assert_eq!(
        world.devices(claim("distinctAttribute", 2)),
        taken(&["a", "b"])
    );
    assert_eq!(world.devices(claim("distinctAttribute", 3)), Ok(None));
    let unknown = json!([{"requests": [exactly(1, "")], "constraints": [{}]}]);
    assert_eq!(
        world.devices(unknown),
        Err(
            "claim ns/c0, constraint #0: empty constraint (unsupported constraint type?)"
                .to_owned()
        )
    );
    let all = json!([{"requests": [all()], "constraints": [{"matchAttribute": "d/numa"}]}]);
    assert_eq!(
        world.devices(all),
        Err("claim ns/c0, request r: cannot add device d/pool/b because a claim constraint would not be satisfied".to_owned())
    );
}

#[test]
fn taints_must_be_tolerated() {
    let world = World::new().local(json!([
        {"name": "a", "taints": [{"key": "sick", "effect": "NoSchedule"}]},
        {"name": "b", "taints": [{"key": "odd", "effect": "None"}]},
    ]));
    assert_eq!(world.one(exactly(1, "")), names(&["b"]));
    let mut tolerant = exactly(1, "");
    tolerant["exactly"]["tolerations"] = json!([{"operator": "Exists", "key": "sick"}]);
    assert_eq!(world.one(tolerant), names(&["a"]));
    let mut world = World::new().local(plain(&["a"]));
    world.inventory.set_taint_rule(
        "rule",
        read(json!({"deviceSelector": {"driver": "d", "device": "a"},
            "taint": {"key": "sick", "effect": "NoExecute"}})),
    );
    assert_eq!(world.one(exactly(1, "")), Ok(None));
    world.inventory.remove_taint_rule("rule");
    assert_eq!(world.one(exactly(1, "")), names(&["a"]));
}

#[test]
fn partitions_share_counters() {
    let device = |name: &str, memory: &str| {
        json!({"name": name, "consumesCounters": [
            {"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]})
    };
    let world = World::new()
        .part(
            "s1",
            "p",
            1,
            2,
            json!({"nodeName": "node-1", "devices": [
            device("whole", "40Gi"), device("half-1", "20Gi"), device("half-2", "20Gi")]}),
        )
        .part(
            "s2",
            "p",
            1,
            2,
            json!({"nodeName": "node-1", "sharedCounters": [
            {"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]}),
        );
    assert_eq!(world.one(exactly(1, "")), names(&["whole"]));
    assert_eq!(world.one(exactly(2, "")), names(&["half-1", "half-2"]));
    assert_eq!(world.one(exactly(3, "")), Ok(None));
    let world = world.in_use(json!([{"driver": "d", "pool": "p", "device": "half-1"}]));
    assert_eq!(world.one(exactly(1, "")), names(&["half-2"]));
    let wrong = World::new().local(json!([device("a", "1")]));
    assert_eq!(
        wrong.one(exactly(1, "")),
        Err("invalid resource pools were encountered".to_owned())
    );
}

#[test]
fn claims_share_a_device_as_long_as_capacity_is_left() {
    let world = World::new().local(json!([
        {"name": "a", "allowMultipleAllocations": true,
            "capacity": {"memory": {"value": "4Gi", "requestPolicy": {"default": "1Gi"}}}},
    ]));
    let claim = |memory: &str| {
        let mut request = exactly(1, "");
        request["exactly"]["capacity"] = json!({"requests": {"memory": memory}});
        json!({"requests": [request]})
    };
    let results = world.results(&NODE, json!([claim("1Gi"), claim("2Gi")]));
    let results = results.expect("a result").expect("devices");
    assert_eq!(
        results[1]["devices"]["results"],
        json!([{"request": "r", "driver": "d", "pool": "pool", "device": "a",
            "shareID": "share-2", "consumedCapacity": {"memory": "2Gi"}}])
    );
    assert_eq!(world.devices(json!([claim("3Gi"), claim("2Gi")])), Ok(None));
    let world = world.in_use(json!([{"driver": "d", "pool": "pool", "device": "a",
        "shareID": "x", "consumedCapacity": {"memory": "3Gi"}}]));
    assert!(
        world
            .devices(json!([claim("1Gi")]))
            .expect("no error")
            .is_some()
    );
    assert_eq!(world.devices(json!([claim("2Gi")])), Ok(None));
}

#[test]
fn devices_with_binding_conditions_come_last() {
    let world = World::new()
        .slice(
            "a",
            json!({"nodeName": "node-1", "devices": [{"name": "slow",
            "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}]}),
        )
        .slice(
            "b",
            json!({"nodeName": "node-1", "devices": [{"name": "fast"}]}),
        );
    assert_eq!(world.one(exactly(1, "")), names(&["fast"]));
    let results = world.results(&NODE, json!([{"requests": [exactly(2, "")]}]));
    let results = results.expect("a result").expect("devices");
    assert_eq!(
        results[0]["devices"]["results"][1]["bindingConditions"],
        json!(["ready"])
    );
    let mut without = World::new().slice(
        "a",
        json!({"nodeName": "node-1", "devices": [
        {"name": "slow", "bindingConditions": ["ready"], "bindingFailureConditions": ["f"]}]}),
    );
    without.features.binding_conditions = false;
    assert_eq!(without.one(exactly(1, "")), Ok(None));
}

#[test]
fn features_that_are_off_are_said_so() {
    let mut world = World::new().local(plain(&["a"]));
    world.features.prioritized_list = false;
    world.features.consumable_capacity = false;
    let list = json!({"name": "r", "firstAvailable": [
        {"name": "x", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}]});
    assert_eq!(
        world.one(list),
        Err("claim ns/c0, request r: has subrequests, but the DRAPrioritizedList feature is disabled".to_owned())
    );
    let mut sized = exactly(1, "");
    sized["exactly"]["capacity"] = json!({"requests": {"memory": "1"}});
    assert_eq!(
        world.one(sized),
        Err("claim ns/c0, request r: has capacity requests, but the DRAConsumableCapacity feature is disabled".to_owned())
    );
}

#[test]
fn a_hopeless_search_is_given_up() {
    let devices: Vec<Value> = (0..40)
        .map(|i| json!({"name": format!("d{i}"), "attributes": {"kind": {"int": i % 2}}}))
        .collect();
    let world = World::new().local(json!(devices));
    // half of the devices have one value, half the other
    let claim = |kind: &str, count| json!([{"requests": [exactly(count, "")], "constraints": [{kind: "d/kind"}]}]);
    assert_eq!(world.devices(claim("matchAttribute", 21)), Ok(None));
    // another request lacks devices, whatever is chosen for the first
    let mut other = exactly(1, "device.attributes['d'].kind == 7");
    other["name"] = json!("other");
    assert_eq!(
        world.devices(json!([{"requests": [exactly(20, ""), other]}])),
        Ok(None)
    );
    // nobody can tell without trying all combinations
    let devices: Vec<Value> = (0..40)
        .map(|i| json!({"name": format!("d{i}"), "attributes": {"kind": {"int": i % 20}}}))
        .collect();
    let world = World::new().local(json!(devices));
    assert_eq!(
        world.devices(claim("distinctAttribute", 21)),
        Err("node node-1: timed out trying to allocate devices".to_owned())
    );
}

#[test]
fn huge_claims_do_not_exhaust_the_stack() {
    let many: Vec<Value> = (0..600).map(|i| json!({"name": format!("d{i}")})).collect();
    let mut world = World::new().local(json!(many));
    world.effort = Effort::default();
    let claims = |count| -> Value {
        let claim = json!({"requests": [exactly(32, "")]});
        std::iter::repeat_n(claim, count).collect()
    };
    let found = world.devices(claims(18)).expect("no error");
    assert_eq!(found.expect("devices").concat().len(), 18 * 32);
    assert_eq!(
        world.devices(claims(1000)),
        Err("node node-1: timed out trying to allocate devices".to_owned())
    );
    let empty: Value = std::iter::repeat_n(json!({}), 20_000).collect();
    assert!(world.devices(empty).expect("no error").is_some());
}

#[test]
fn nodes_with_the_same_slices_share_one_search() {
    let world = World::new().slice(
        "c",
        json!({"allNodes": true, "devices": [
        {"name": "a", "bindsToNode": true}]}),
    );
    let claim = Claim {
        namespace: "ns".into(),
        name: "c".into(),
        spec: Arc::new(read(json!({"devices": {"requests": [exactly(1, "")]}}))),
    };
    let mut selectors = SelectorCache::default();
    let mut effort = Effort::default();
    let classes = |name: &str| world.classes.get(name).cloned();
    let mut allocator = Allocator::new(
        &world.inventory,
        &world.allocated,
        world.features,
        vec![claim],
        &classes,
        &mut selectors,
    );
    let mut find = |name| {
        let node = TestNode { name, zone: "" };
        let found = allocator.allocate(&node, &mut selectors, &mut effort);
        (found.expect("no error").expect("devices"), effort.steps)
    };
    let (first, steps) = find("one");
    let (second, steps_after) = find("two");
    assert_eq!(steps, steps_after);
    assert!(Arc::ptr_eq(&first, &second));
    let results = allocator.results(&second, "two", &mut CompactString::default);
    let selector = results.expect("results").remove(0).node_selector;
    let selector = selector.expect("a selector").node_selector_terms.remove(0);
    assert_eq!(selector.match_fields[0].values, ["two"]);
}
