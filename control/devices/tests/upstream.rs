//! Tests that the allocator chooses the same devices as kube-scheduler's.
//!
//! `upstream.jsonl.gz` holds random claims, slices and devices in use, each with the result of
//! `structured.Allocator` of `k8s.io/dynamic-resource-allocation` v0.36.3 with the features of
//! kube-scheduler 1.36.
//!
//! `distinctAttribute` over several devices of one request is not compared, because upstream
//! considers only the last device.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use control_devices::api::{AllocationResult, DeviceClassSpec, NodeSelector, ResourceSliceSpec};
use control_devices::{
    AllocatedDevices, Allocator, Claim, Effort, Features, Inventory, Node, SelectorCache,
};
use serde_json::Value;

/// A node, as labels.
struct RecordedNode {
    name: String,
    labels: HashMap<String, String>,
}

impl Node for RecordedNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn matches(&self, selector: &NodeSelector) -> bool {
        // the recording has nothing but `In`
        selector.node_selector_terms.iter().any(|term| {
            term.match_expressions.iter().all(|requirement| {
                let label = self.labels.get(requirement.key.as_str());
                label.is_some_and(|label| requirement.values.iter().any(|value| value == label))
            })
        })
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("as recorded")
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What our allocator makes of a recorded scenario: results, or an error.
fn allocate(scenario: &Value) -> Value {
    let mut inventory = Inventory::default();
    for slice in items(&scenario["slices"]) {
        let spec: ResourceSliceSpec = read(&slice["spec"]);
        inventory.set_slice(text(&slice["metadata"]["name"]), Arc::new(spec));
    }
    let mut allocated = AllocatedDevices::default();
    let results = serde_json::json!({"devices": {"results": scenario["allocated"]}});
    allocated.add(&read::<AllocationResult>(&results));
    let classes: HashMap<&str, Arc<DeviceClassSpec>> = items(&scenario["classes"])
        .iter()
        .map(|class| {
            (
                text(&class["metadata"]["name"]),
                Arc::new(read(&class["spec"])),
            )
        })
        .collect();
    let claims = items(&scenario["claims"]).iter().map(|claim| Claim {
        namespace: text(&claim["metadata"]["namespace"]).into(),
        name: text(&claim["metadata"]["name"]).into(),
        spec: Arc::new(read(&claim["spec"])),
    });
    let node = RecordedNode {
        name: text(&scenario["node"]["metadata"]["name"]).to_owned(),
        labels: read(&scenario["node"]["metadata"]["labels"]),
    };
    let mut selectors = SelectorCache::default();
    let mut allocator = Allocator::new(
        &inventory,
        &allocated,
        Features::default(),
        claims.collect(),
        &|name| classes.get(name).cloned(),
        &mut selectors,
    );
    let found = allocator.allocate(&node, &mut selectors, &mut Effort::default());
    let results = found.and_then(|found| match found {
        None => Ok(Vec::new()),
        Some(found) => allocator.results(&found, &node.name, &mut || "share".into()),
    });
    match results {
        Ok(results) => serde_json::json!({"results": results}),
        Err(error) => serde_json::json!({"error": error.to_string()}),
    }
}

/// An answer without what differs each time or is written in two ways.
fn normal(mut answer: Value) -> Value {
    if let Some(Value::Array(results)) = answer.get_mut("results") {
        for result in results {
            if let Some(Value::Array(devices)) = result["devices"].get_mut("results") {
                for device in devices {
                    if device.get("shareID").is_some() {
                        device["shareID"] = "share".into();
                    }
                }
            }
        }
    } else if answer.get("error").is_none() {
        answer["results"] = Value::Array(Vec::new());
    }
    answer
}

#[test]
fn the_same_devices_are_chosen() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upstream.jsonl.gz");
    let file = std::fs::File::open(path).expect("the recording");
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    let (mut agree, mut differ) = (0, Vec::new());
    for (number, line) in lines.enumerate() {
        let recorded: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let (ours, theirs) = (
            normal(allocate(&recorded["scenario"])),
            normal(recorded["answer"].clone()),
        );
        if ours == theirs {
            agree += 1;
        } else {
            differ.push(format!("{number}\n ours   {ours}\n theirs {theirs}"));
        }
    }
    println!("{agree} agree, {} differ", differ.len());
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(agree >= 400, "{agree}");
}
