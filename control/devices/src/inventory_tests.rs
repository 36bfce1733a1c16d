use super::*;

fn slice(node: &str, devices: &[&str]) -> Arc<ResourceSliceSpec> {
    let devices: Vec<_> = devices
        .iter()
        .map(|name| serde_json::json!({"name": name}))
        .collect();
    let spec = serde_json::json!({
        "driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": node,
        "devices": devices,
    });
    Arc::new(serde_json::from_value(spec).expect("a slice"))
}

fn on(inventory: &Inventory, node: &str) -> Vec<u64> {
    inventory.for_node(node).map(|slice| slice.serial).collect()
}

#[test]
fn a_slice_moves_to_another_node_and_goes() {
    let mut inventory = Inventory::default();
    inventory.set_slice("s", slice("a", &["x"]));
    assert_eq!(on(&inventory, "a"), [1]);
    inventory.set_slice("s", slice("a", &["x"]));
    assert_eq!(on(&inventory, "a"), [1], "nothing changed");
    inventory.set_slice("s", slice("b", &["x"]));
    assert_eq!(
        (on(&inventory, "a"), on(&inventory, "b")),
        (vec![], vec![2])
    );
    inventory.remove_slice("s");
    assert!(inventory.is_empty());
    assert!(on(&inventory, "b").is_empty());
    assert!(inventory.pools.is_empty() && inventory.on_node.is_empty());
}

#[test]
fn a_rule_taints_the_devices_that_it_selects() {
    let mut inventory = Inventory::default();
    inventory.set_slice("s", slice("a", &["x", "y"]));
    inventory.set_slice("t", slice("b", &["z"]));
    let rule = serde_json::json!({
        "deviceSelector": {"device": "y"}, "taint": {"key": "k", "effect": "NoSchedule"}
    });
    let rule: DeviceTaintRuleSpec = serde_json::from_value(rule).expect("a rule");
    inventory.set_taint_rule("r", rule);
    let taints = |inventory: &Inventory, node: &str| -> Vec<usize> {
        let devices = inventory
            .for_node(node)
            .flat_map(|slice| &slice.spec.devices);
        devices.map(|device| device.taints.len()).collect()
    };
    assert_eq!(taints(&inventory, "a"), [0, 1]);
    assert_eq!(taints(&inventory, "b"), [0]);
    inventory.set_slice("u", slice("c", &["y"]));
    assert_eq!(taints(&inventory, "c"), [1], "slices that come later, too");
    inventory.remove_taint_rule("r");
    assert_eq!(taints(&inventory, "a"), [0, 0]);
}
