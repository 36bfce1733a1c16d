//! Compares the allocator with one that tries every combination.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::{NodeSelector, ResourceClaimSpec, ResourceSliceSpec};

struct AnyNode;

impl Node for AnyNode {
    fn name(&self) -> &str {
        "n"
    }

    fn matches(&self, _: &NodeSelector) -> bool {
        false
    }
}

/// A device: its kind (an attribute), its size (another), the counters and the capacity
/// that it has, and whether it is tainted.
#[derive(Clone, Debug)]
struct TestDevice {
    kind: Option<u8>,
    size: u8,
    counters: Option<(u8, u8)>,
    capacity: Option<u8>,
    tainted: bool,
    in_use: bool,
}

/// A request: a count (0: all), the least size, a share of capacity, whether taints matter.
#[derive(Clone, Debug)]
struct TestRequest {
    count: u8,
    least_size: u8,
    share: u8,
    tolerant: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestConstraint {
    None,
    Match,
    Distinct,
}

#[derive(Clone, Debug)]
struct TestClaim {
    /// Alternatives; one: no list.
    requests: Vec<Vec<TestRequest>>,
    constraint: TestConstraint,
}

#[derive(Clone, Debug)]
struct Scenario {
    devices: Vec<TestDevice>,
    claims: Vec<TestClaim>,
}

fn device() -> impl Strategy<Value = TestDevice> {
    (
        prop::option::weighted(0.8, 0..3_u8),
        0..4_u8,
        prop::option::of((0..2_u8, 1..3_u8)),
        prop::option::weighted(0.3, 2..5_u8),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.15),
    )
        .prop_map(
            |(kind, size, counters, capacity, tainted, in_use)| TestDevice {
                kind,
                size,
                counters,
                capacity,
                tainted,
                // a device that is shared is in use in another way
                in_use: in_use && capacity.is_none(),
            },
        )
}

fn request() -> impl Strategy<Value = TestRequest> {
    let count = prop_oneof![4 => 1..4_u8, 1 => Just(0)];
    (count, 0..4_u8, 1..4_u8, any::<bool>()).prop_map(|(count, least_size, share, tolerant)| {
        TestRequest {
            count,
            least_size,
            share,
            tolerant,
        }
    })
}

fn claim() -> impl Strategy<Value = TestClaim> {
    let constraint = prop_oneof![
        2 => Just(TestConstraint::None),
        1 => Just(TestConstraint::Match),
        1 => Just(TestConstraint::Distinct),
    ];
    let alternatives = prop_oneof![
        3 => prop::collection::vec(request(), 1),
        1 => prop::collection::vec(request(), 2..4),
    ];
    (prop::collection::vec(alternatives, 1..3), constraint).prop_map(|(requests, constraint)| {
        TestClaim {
            requests,
            constraint,
        }
    })
}

fn scenario() -> impl Strategy<Value = Scenario> {
    (
        prop::collection::vec(device(), 1..7),
        prop::collection::vec(claim(), 1..3),
    )
        .prop_map(|(devices, claims)| Scenario { devices, claims })
}

const COUNTERS: u8 = 3;

impl Scenario {
    fn slices(&self) -> [Value; 2] {
        let devices = self.devices.iter().enumerate().map(|(number, device)| {
            let mut json = json!({
                "name": format!("d{number}"),
                "attributes": {"size": {"int": device.size}},
            });
            if let Some(kind) = device.kind {
                json["attributes"]["kind"] = json!({"string": format!("k{kind}")});
            }
            if let Some((set, amount)) = device.counters {
                json["consumesCounters"] = json!([{"counterSet": format!("s{set}"),
                    "counters": {"c": {"value": amount.to_string()}}}]);
            }
            if let Some(capacity) = device.capacity {
                json["allowMultipleAllocations"] = json!(true);
                json["capacity"] = json!({"memory": {"value": capacity.to_string()}});
            }
            if device.tainted {
                json["taints"] = json!([{"key": "t", "effect": "NoSchedule"}]);
            }
            json
        });
        let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 2});
        let counters = ["s0", "s1"]
            .map(|name| json!({"name": name, "counters": {"c": {"value": COUNTERS.to_string()}}}));
        [
            json!({"driver": "d", "pool": pool, "nodeName": "n",
                "devices": devices.collect::<Vec<_>>()}),
            json!({"driver": "d", "pool": pool, "nodeName": "n", "sharedCounters": counters}),
        ]
    }

    fn specs(&self) -> Vec<Value> {
        let claims = self.claims.iter().map(|claim| {
            let requests = claim.requests.iter().enumerate();
            let requests: Vec<Value> = requests
                .map(|(number, alternatives)| {
                    let specs: Vec<Value> = alternatives.iter().map(TestRequest::spec).collect();
                    let name = format!("r{number}");
                    match specs.as_slice() {
                        [exactly] => json!({"name": name, "exactly": exactly}),
                        list => {
                            let list: Vec<Value> = list
                                .iter()
                                .enumerate()
                                .map(|(number, spec)| {
                                    let mut spec = spec.clone();
                                    spec["name"] = json!(format!("a{number}"));
                                    spec
                                })
                                .collect();
                            json!({"name": name, "firstAvailable": list})
                        }
                    }
                })
                .collect();
            let constraints = match claim.constraint {
                TestConstraint::None => json!([]),
                TestConstraint::Match => json!([{"matchAttribute": "d/kind"}]),
                TestConstraint::Distinct => json!([{"distinctAttribute": "d/kind"}]),
            };
            json!({"devices": {"requests": requests, "constraints": constraints}})
        });
        claims.collect()
    }

    fn allocate(&self) -> Result<Option<Vec<api::AllocationResult>>, AllocationError> {
        let mut inventory = Inventory::default();
        for (number, slice) in self.slices().into_iter().enumerate() {
            let spec: ResourceSliceSpec = serde_json::from_value(slice).expect("a slice");
            inventory.set_slice(&format!("s{number}"), std::sync::Arc::new(spec));
        }
        let mut allocated = AllocatedDevices::default();
        for (number, device) in self.devices.iter().enumerate() {
            if device.in_use {
                let name = format!("d{number}");
                let results = json!([{"driver": "d", "pool": "p", "device": name}]);
                let allocation = json!({"devices": {"results": results}});
                allocated.add(&serde_json::from_value(allocation).expect("an allocation"));
            }
        }
        let claims = self.specs().into_iter().map(|spec| {
            let spec: ResourceClaimSpec = serde_json::from_value(spec).expect("a spec");
            Claim {
                namespace: "ns".into(),
                name: "c".into(),
                spec: std::sync::Arc::new(spec),
            }
        });
        let class = std::sync::Arc::default();
        let classes = |_: &str| Some(std::sync::Arc::clone(&class));
        let mut selectors = SelectorCache::default();
        let mut allocator = Allocator::new(
            &inventory,
            &allocated,
            Features::default(),
            claims.collect(),
            &classes,
            &mut selectors,
        );
        let found = allocator.allocate(&AnyNode, &mut selectors, &mut Effort::default())?;
        let Some(found) = found else { return Ok(None) };
        let mut share = 0;
        let mut share_id = || {
            share += 1;
            share.to_string().into()
        };
        allocator.results(&found, "n", &mut share_id).map(Some)
    }

    /// Whether there is any solution.
    fn is_feasible(&self) -> bool {
        let requests: Vec<(usize, &[TestRequest])> = self
            .claims
            .iter()
            .enumerate()
            .flat_map(|(claim, of)| of.requests.iter().map(move |one| (claim, one.as_slice())))
            .collect();
        self.any(&requests, &mut Vec::new())
    }

    /// Tries all subsets of devices for each request, in turn.
    fn any<'a>(
        &self,
        requests: &[(usize, &'a [TestRequest])],
        chosen: &mut Vec<(usize, usize, &'a TestRequest)>,
    ) -> bool {
        let Some(((claim, alternatives), rest)) = requests.split_first() else {
            return true;
        };
        alternatives.iter().any(|request| {
            (1_u32..1 << self.devices.len()).any(|subset| {
                let picked = (0..self.devices.len()).filter(|number| subset >> number & 1 == 1);
                let picked: Vec<usize> = picked.collect();
                if !self.is_what_is_asked_for(request, &picked) {
                    return false;
                }
                let before = chosen.len();
                chosen.extend(picked.iter().map(|number| (*claim, *number, request)));
                let found = self.is_allowed(chosen) && self.any(rest, chosen);
                chosen.truncate(before);
                found
            })
        })
    }

    fn matching(&self, request: &TestRequest) -> Vec<usize> {
        let devices = self.devices.iter().enumerate();
        devices
            .filter(|(_, device)| {
                device.size >= request.least_size
                    && match device.capacity {
                        // without capacity, none can be asked for
                        None => request.share == 1,
                        Some(capacity) => request.share == 1 || capacity >= request.share,
                    }
            })
            .map(|(number, _)| number)
            .collect()
    }

    fn is_what_is_asked_for(&self, request: &TestRequest, picked: &[usize]) -> bool {
        let matching = self.matching(request);
        if request.count == 0 {
            return picked == matching;
        }
        picked.len() == usize::from(request.count)
            && picked.iter().all(|number| matching.contains(number))
    }

    /// Whether devices can be given to requests at the same time.
    fn is_allowed(&self, chosen: &[(usize, usize, &TestRequest)]) -> bool {
        let mut uses: BTreeMap<usize, usize> = BTreeMap::new();
        let mut consumed: BTreeMap<usize, u8> = BTreeMap::new();
        let mut counters = [0_u8; 2];
        for device in self.devices.iter().filter(|device| device.in_use) {
            if let Some((set, amount)) = device.counters {
                counters[usize::from(set)] += amount;
            }
        }
        let mut are_counters_used = false;
        for (_, number, request) in chosen {
            let device = &self.devices[*number];
            let times = uses.entry(*number).or_default();
            *times += 1;
            if let Some((set, amount)) = device.counters
                && *times == 1
            {
                counters[usize::from(set)] += amount;
                are_counters_used = true;
            }
            if device.in_use || device.tainted && !request.tolerant {
                return false;
            }
            match device.capacity {
                None if *times > 1 => return false,
                None => {}
                Some(capacity) => {
                    // no request for capacity: all of it
                    let share = if request.share == 1 {
                        capacity
                    } else {
                        request.share
                    };
                    let all = consumed.entry(*number).or_default();
                    *all += share;
                    if *all > capacity {
                        return false;
                    }
                }
            }
        }
        (!are_counters_used || counters.iter().all(|counter| *counter <= COUNTERS))
            && (0..self.claims.len()).all(|claim| {
                let of_claim = chosen.iter().filter(|(of, _, _)| *of == claim);
                let kinds: Vec<Option<u8>> = of_claim
                    .map(|(_, number, _)| self.devices[*number].kind)
                    .collect();
                self.claims[claim].constraint.holds(&kinds)
            })
    }

    /// The choice that an allocation says.
    fn choice<'a>(
        &'a self,
        results: &[api::AllocationResult],
    ) -> Vec<(usize, usize, &'a TestRequest)> {
        let mut chosen = Vec::new();
        for (claim, result) in results.iter().enumerate() {
            for device in &result.devices.results {
                let (request, alternative) = device
                    .request
                    .split_once('/')
                    .unwrap_or((&device.request, "a0"));
                let number = |text: &str| text[1..].parse::<usize>().expect("a number");
                let request = &self.claims[claim].requests[number(request)][number(alternative)];
                chosen.push((claim, number(&device.device), request));
            }
        }
        chosen
    }
}

impl TestConstraint {
    fn holds(self, kinds: &[Option<u8>]) -> bool {
        let others = |at: usize| kinds.iter().take(at);
        self == Self::None
            || kinds.iter().enumerate().all(|(at, kind)| {
                kind.is_some()
                    && match self {
                        Self::Match => others(at).all(|other| other == kind),
                        _ => others(at).all(|other| other != kind),
                    }
            })
    }
}

impl TestRequest {
    fn spec(&self) -> Value {
        let expression = format!("device.attributes['d'].size >= {}", self.least_size);
        let mut spec = json!({
            "deviceClassName": "c",
            "selectors": [{"cel": {"expression": expression}}],
            "allocationMode": if self.count == 0 { "All" } else { "ExactCount" },
            "count": self.count,
        });
        if self.share > 1 {
            spec["capacity"] = json!({"requests": {"memory": self.share.to_string()}});
        }
        if self.tolerant {
            spec["tolerations"] = json!([{"operator": "Exists"}]);
        }
        spec
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 400 }))]

    #[test]
    fn devices_are_found_exactly_when_there_is_a_solution(scenario in scenario()) {
        match scenario.allocate() {
            Ok(Some(results)) => {
                let chosen = scenario.choice(&results);
                prop_assert!(scenario.is_allowed(&chosen), "{chosen:?}");
                for (claim, of) in scenario.claims.iter().enumerate() {
                    for request in &of.requests {
                        let satisfied = request.iter().any(|alternative| {
                            let picked: Vec<usize> = chosen
                                .iter()
                                .filter(|(c, _, r)| *c == claim && std::ptr::eq(*r, alternative))
                                .map(|(_, number, _)| *number)
                                .collect();
                            scenario.is_what_is_asked_for(alternative, &picked)
                        });
                        prop_assert!(satisfied, "{results:?}");
                    }
                }
            }
            // all devices are asked for, and a constraint forbids them: upstream's error
            Err(AllocationError::ConstraintNotSatisfied { .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
            Ok(None) => prop_assert!(!scenario.is_feasible()),
        }
    }
}
