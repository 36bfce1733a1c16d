//! A cluster in a few words.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::api::{DeviceClassSpec, NodeSelector, ResourceSliceSpec};
use crate::{AllocatedDevices, Allocator, Claim, Effort, Features, Inventory, Node, SelectorCache};

/// A cluster in a few words.
#[derive(Default)]
pub(super) struct World {
    pub(super) inventory: Inventory,
    pub(super) allocated: AllocatedDevices,
    pub(super) classes: FxHashMap<String, Arc<DeviceClassSpec>>,
    pub(super) features: Features,
    pub(super) effort: Effort,
}

pub(super) struct TestNode {
    pub(super) name: &'static str,
    pub(super) zone: &'static str,
}

impl Node for TestNode {
    fn name(&self) -> &str {
        self.name
    }

    fn matches(&self, selector: &NodeSelector) -> bool {
        selector.node_selector_terms.iter().any(|term| {
            let mut requirements = term.match_expressions.iter();
            requirements.all(|requirement| requirement.values.iter().any(|one| one == self.zone))
        })
    }
}

pub(super) const NODE: TestNode = TestNode {
    name: "node-1",
    zone: "a",
};

pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

impl World {
    pub(super) fn new() -> Self {
        let mut world = Self::default().class("gpu", json!({}));
        world.effort.steps_per_node = 20_000;
        world
    }

    pub(super) fn class(mut self, name: &str, spec: Value) -> Self {
        self.classes.insert(name.to_owned(), Arc::new(read(spec)));
        self
    }

    /// A slice of the driver `d`, in a pool of one slice.
    pub(super) fn slice(self, name: &str, spec: Value) -> Self {
        self.part(name, name, 1, 1, spec)
    }

    pub(super) fn part(
        mut self,
        name: &str,
        pool: &str,
        generation: i64,
        count: i64,
        spec: Value,
    ) -> Self {
        let mut spec: ResourceSliceSpec = read(spec);
        if spec.driver.is_empty() {
            spec.driver = "d".into();
        }
        spec.pool.name = pool.into();
        spec.pool.generation = generation;
        spec.pool.resource_slice_count = count;
        self.inventory.set_slice(name, Arc::new(spec));
        self
    }

    /// A slice of `node-1`.
    pub(super) fn local(self, devices: Value) -> Self {
        self.slice("pool", json!({"nodeName": "node-1", "devices": devices}))
    }

    pub(super) fn in_use(mut self, results: Value) -> Self {
        let allocation = read(json!({"devices": {"results": results}}));
        self.allocated.add(&allocation);
        self
    }

    pub(super) fn results(&self, node: &TestNode, claims: Value) -> Result<Option<Value>, String> {
        let claims: Vec<Claim> = read::<Vec<Value>>(claims)
            .into_iter()
            .enumerate()
            .map(|(number, devices)| Claim {
                namespace: "ns".into(),
                name: format!("c{number}").into(),
                spec: Arc::new(read(json!({"devices": devices}))),
            })
            .collect();
        let mut selectors = SelectorCache::default();
        let mut effort = self.effort;
        let classes = |name: &str| self.classes.get(name).cloned();
        let mut allocator = Allocator::new(
            &self.inventory,
            &self.allocated,
            self.features,
            claims,
            &classes,
            &mut selectors,
        );
        let found = allocator
            .allocate(node, &mut selectors, &mut effort)
            .map_err(|error| error.to_string())?;
        let Some(found) = found else { return Ok(None) };
        let mut shares = 0;
        let mut share_id = || {
            shares += 1;
            format!("share-{shares}").into()
        };
        let results = allocator
            .results(&found, node.name, &mut share_id)
            .map_err(|error| error.to_string())?;
        Ok(Some(serde_json::to_value(results).expect("results")))
    }

    /// Names of the devices of each claim.
    pub(super) fn devices(&self, claims: Value) -> Result<Option<Vec<Vec<String>>>, String> {
        let Some(Value::Array(results)) = self.results(&NODE, claims)? else {
            return Ok(None);
        };
        let names = |result: &Value| {
            let results = result["devices"]["results"].as_array().cloned();
            let results = results.unwrap_or_default().into_iter();
            let device = |one: Value| one["device"].as_str().unwrap_or_default().to_owned();
            results.map(device).collect()
        };
        Ok(Some(results.iter().map(names).collect()))
    }

    pub(super) fn one(&self, request: Value) -> Result<Option<Vec<String>>, String> {
        let devices = self.devices(json!([{"requests": [request]}]))?;
        Ok(devices.map(|claims| claims.concat()))
    }
}
