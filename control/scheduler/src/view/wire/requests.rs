//! Computes the resources that a pod needs of a node.

use compact_str::CompactString;
use control_types::quantity::Quantity;
use serde::Deserialize;

use super::{RawContainer, RawPodSpec, RawPodStatus};
use crate::view::Requests;

/// Quantities by resource: thousandths for `cpu`, whole units otherwise.
#[derive(Clone, Default, Deserialize)]
#[serde(from = "StringOrNumberMap")]
pub(super) struct Quantities(pub(super) Vec<(CompactString, i64)>);

/// JSON allows quantities to be numbers.
#[derive(Deserialize)]
struct StringOrNumberMap(std::collections::BTreeMap<CompactString, StringOrNumber>);

#[derive(Deserialize)]
#[serde(untagged)]
enum StringOrNumber {
    String(CompactString),
    Number(serde_json::Number),
}

impl From<StringOrNumberMap> for Quantities {
    fn from(map: StringOrNumberMap) -> Self {
        let quantity = |name: &str, text: &str| {
            // the API server accepts no other; an invalid one counts as zero
            let quantity = Quantity::parse(text).unwrap_or(Quantity::ZERO);
            if name == "cpu" {
                quantity.milli_value()
            } else {
                quantity.value()
            }
        };
        Self(
            map.0
                .into_iter()
                .map(|(name, value)| {
                    let number = match value {
                        StringOrNumber::String(text) => quantity(&name, &text),
                        StringOrNumber::Number(number) => quantity(&name, &number.to_string()),
                    };
                    (name, number)
                })
                .collect(),
        )
    }
}

impl Quantities {
    pub(super) fn get(&self, name: &str) -> Option<i64> {
        self.0
            .iter()
            .find(|(candidate, _)| candidate == name)
            .map(|(_, value)| *value)
    }

    fn combine(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) {
        for (name, value) in &other.0 {
            match self.0.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = with(*known, *value),
                None => self.0.push((name.clone(), with(0, *value))),
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    fn raise(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }
}

/// The effective amounts during an in-place resize (KEP-1287): the maximum of requested,
/// granted and actual amounts. Requests that the node can never grant do not count.
struct Resizes<'a> {
    infeasible: bool,
    status: &'a RawPodStatus,
}

impl<'a> Resizes<'a> {
    fn of(status: &'a RawPodStatus) -> Self {
        let mut conditions = status.conditions.iter();
        let pending = conditions.find(|it| it.r#type == "PodResizePending");
        Self {
            infeasible: pending.is_some_and(|it| it.rest.reason == "Infeasible"),
            status,
        }
    }

    fn effective(
        &self,
        asked: &Quantities,
        in_force: &Quantities,
        granted: &Quantities,
    ) -> Quantities {
        let mut most = in_force.clone();
        most.raise(granted);
        if !self.infeasible {
            most.raise(asked);
        }
        most
    }

    /// Returns the amounts of a container that keeps running; others cannot change.
    fn container(&self, container: &RawContainer) -> Quantities {
        let asked = &container.resources.requests;
        let RawPodStatus {
            container_statuses: containers,
            init_container_statuses: sidecars,
            ..
        } = self.status;
        let mut running = containers.iter().chain(sidecars);
        let status = running.find(|it| it.name == container.name);
        match status.and_then(|it| Some((it, it.resources.as_ref()?))) {
            Some((status, resources)) => {
                self.effective(asked, &resources.requests, &status.allocated_resources)
            }
            None => asked.clone(),
        }
    }
}

/// Sums up what a pod needs (KEP-753 for sidecars, KEP-2837 for pod-level requests,
/// KEP-1287 and KEP-5419 for resizes).
pub(super) fn requests(spec: &RawPodSpec, status: &RawPodStatus) -> Requests {
    const CPU: i64 = 100;
    const MEMORY: i64 = 200 << 20;

    let resizes = Resizes::of(status);
    let total = |nonzero: bool, with_whole: bool| {
        let of = |container: &RawContainer, runs_on: bool| {
            let mut requests = if runs_on {
                resizes.container(container)
            } else {
                container.resources.requests.clone()
            };
            if nonzero {
                for (name, default) in [("cpu", CPU), ("memory", MEMORY)] {
                    if requests.get(name).is_none() {
                        requests.0.push((name.into(), default));
                    }
                }
            }
            requests
        };
        let mut sum = Quantities::default();
        for container in &spec.containers {
            sum.add(&of(container, true));
        }
        // init containers run one after the other, beside the sidecars that
        // were started before them
        let mut sidecars = Quantities::default();
        let mut starting = Quantities::default();
        for container in &spec.init_containers {
            let is_sidecar = container.restart_policy == "Always";
            let mut needs = of(container, is_sidecar);
            if is_sidecar {
                sum.add(&needs);
                sidecars.add(&needs);
                needs = sidecars.clone();
            } else {
                needs.add(&sidecars);
            }
            starting.raise(&needs);
        }
        sum.raise(&starting);
        let asked = &spec.resources.requests;
        let whole = match &status.resources {
            Some(in_force) => {
                resizes.effective(asked, &in_force.requests, &status.allocated_resources)
            }
            None => asked.clone(),
        };
        let overridden = asked.0.iter().filter(|_| with_whole);
        for (name, _) in overridden {
            let value = &whole.get(name).unwrap_or(0);
            if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
                match sum.0.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => *known = *value,
                    None => sum.0.push((name.clone(), *value)),
                }
            }
        }
        sum.add(&spec.overhead);
        sum
    };
    let sum = total(false, true);
    let nonzero = total(true, true);
    let scored = total(true, false);
    let mut extended: Vec<(CompactString, i64)> = sum
        .0
        .iter()
        .filter(|(name, value)| {
            *value != 0 && !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
        })
        .cloned()
        .collect();
    extended.sort();
    Requests {
        cpu: sum.get("cpu").unwrap_or(0),
        memory: sum.get("memory").unwrap_or(0),
        storage: sum.get("ephemeral-storage").unwrap_or(0),
        cpu_nonzero: nonzero.get("cpu").unwrap_or(0),
        memory_nonzero: nonzero.get("memory").unwrap_or(0),
        cpu_scored: scored.get("cpu").unwrap_or(0),
        memory_scored: scored.get("memory").unwrap_or(0),
        extended: extended.into(),
    }
}
