//! `IPPool`s: following them, and saying how full they are.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use control_client::{Change, Client, Meta, Resource, View};
use control_load_balancer::{IpPoolSpec, Pool, PoolError};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::allocate::Assignment;
use crate::views::{Condition, null_as_default, seconds_now};

/// `IPPool`s.
pub(super) const IP_POOLS: Resource =
    Resource::cluster("orlop.dev", "v1alpha1", "ippools", "IPPool");

/// How often it is looked whether the kind is defined by now: at first, since
/// a cluster defines it as it starts; and later.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(30);
/// For how many looks it is soon.
const HOPEFUL: u32 = 60;

/// An `IPPool`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct IpPool {
    pub metadata: Meta,
    pub spec: IpPoolSpec,
    pub status: IpPoolStatus,
}

/// The status that we report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct IpPoolStatus {
    pub total: Option<i64>,
    pub assigned: Option<i64>,
    pub available: Option<i64>,
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl View for IpPool {
    const RESOURCE: Resource = IP_POOLS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// Waits until the API server serves pools; `false` at shutdown.
pub(super) async fn wait_until_served(client: &Client, shutdown: &CancellationToken) -> bool {
    let mut looks = 0_u32;
    loop {
        let served = client.serves(&IP_POOLS).await.unwrap_or(false);
        if served {
            return true;
        }
        looks = looks.saturating_add(1);
        let pause = if looks < HOPEFUL { SOON } else { LATER };
        tokio::select! {
            () = shutdown.cancelled() => return false,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Whether a change is more than our own status.
pub(super) fn is_news(change: &Change<IpPool>) -> bool {
    match (&change.previous, &change.current) {
        (Some(previous), Some(current)) => {
            previous.spec != current.spec || previous.metadata.uid != current.metadata.uid
        }
        _ => true,
    }
}

/// Returns the pools whose status has to change: their names, and a patch each.
/// `objects`, `pools` and `wrong` have the same length and order.
pub(super) fn statuses(
    objects: &[Arc<IpPool>],
    pools: &[Pool],
    wrong: &[Option<PoolError>],
    assigned: &[Assignment],
) -> Vec<(String, Value)> {
    let in_use: BTreeSet<IpAddr> = assigned
        .iter()
        .flat_map(|it| it.addresses.clone())
        .collect();
    let mut used = vec![0_i64; pools.len()];
    for address in in_use {
        // Addresses in overlapping pools count for the first one.
        if let Some(at) = pools.iter().position(|pool| pool.contains(address)) {
            used[at] += 1;
        }
    }
    let mut patches = Vec::new();
    for (at, (object, pool)) in objects.iter().zip(pools).enumerate() {
        let total = pool.size();
        let available = total.saturating_sub(used[at]).max(0);
        let (status, reason, message) = judged(at, pools, wrong.get(at).and_then(Option::as_ref));
        let mut conditions = object.status.conditions.clone();
        let ready = conditions.iter().find(|c| c.r#type == "Ready");
        let same = ready.is_some_and(|c| {
            c.status == status
                && c.reason == reason
                && c.message == message
                && c.observed_generation == Some(object.metadata.generation)
        });
        let counts = (Some(total), Some(used[at]), Some(available));
        let old = &object.status;
        if same && (old.total, old.assigned, old.available) == counts {
            continue;
        }
        if !same {
            let since = ready
                .filter(|c| c.status == status)
                .and_then(|c| c.last_transition_time)
                .unwrap_or_else(seconds_now);
            conditions.retain(|c| c.r#type != "Ready");
            conditions.push(Condition {
                r#type: "Ready".into(),
                status: status.into(),
                reason: reason.into(),
                message,
                last_transition_time: Some(since),
                observed_generation: Some(object.metadata.generation),
                ..Condition::default()
            });
        }
        let patch = json!({"status": {
            "total": total, "assigned": used[at], "available": available,
            "conditions": conditions,
        }});
        patches.push((object.metadata.name.to_string(), patch));
    }
    patches
}

fn judged(
    at: usize,
    pools: &[Pool],
    wrong: Option<&PoolError>,
) -> (&'static str, &'static str, String) {
    if let Some(error) = wrong {
        return ("False", "InvalidRanges", error.to_string());
    }
    let own = &pools[at];
    let overlapping = pools.iter().find(|other| {
        let mut ranges = other.ranges.iter();
        other.name != own.name && ranges.any(|range| own.ranges.iter().any(|r| r.overlaps(range)))
    });
    match overlapping {
        Some(other) => (
            "True",
            "Overlap",
            format!("it has addresses in common with pool `{}`", other.name),
        ),
        None => ("True", "Valid", String::from("all ranges are usable")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    fn object(name: &str, ranges: &[&str]) -> Arc<IpPool> {
        Arc::new(
            serde_json::from_value(
                json!({"metadata": {"name": name, "generation": 1}, "spec": {"ranges": ranges}}),
            )
            .unwrap(),
        )
    }

    fn of(objects: &[Arc<IpPool>]) -> Vec<(String, Value)> {
        let (pools, wrong): (Vec<_>, Vec<_>) = objects
            .iter()
            .map(|o| Pool::from_spec(&o.metadata.name, &o.spec))
            .unzip();
        let held = |name: &str, address: &str| Assignment {
            key: Key::new("d", name),
            addresses: vec![address.parse().unwrap()],
            problem: None,
        };
        // two Services share one address
        let assigned = [
            held("a", "10.0.0.1"),
            held("b", "10.0.0.1"),
            held("c", "10.0.0.3"),
        ];
        statuses(objects, &pools, &wrong, &assigned)
    }

    #[test]
    fn shared_addresses_and_overlapping_pools_count_once() {
        let objects = [
            object("a", &["10.0.0.0/30"]),
            object("b", &["10.0.0.3-10.0.0.9"]),
        ];
        let all = of(&objects);
        let counts = |at: usize| {
            let status = &all[at].1["status"];
            (
                status["total"].clone(),
                status["assigned"].clone(),
                status["available"].clone(),
            )
        };
        assert_eq!(counts(0), (json!(4), json!(2), json!(2)));
        assert_eq!(counts(1), (json!(7), json!(0), json!(7)));
        assert_eq!(all[0].1["status"]["conditions"][0]["reason"], "Overlap");
    }

    #[test]
    fn what_is_said_already_is_not_said_again() {
        let mut objects = vec![object("a", &["10.0.0.0/30", "x"])];
        let all = of(&objects);
        assert_eq!(all[0].1["status"]["conditions"][0]["status"], "False");
        let told: IpPoolStatus = serde_json::from_value(all[0].1["status"].clone()).unwrap();
        let mut known = IpPool::clone(&objects[0]);
        known.status = told;
        objects = vec![Arc::new(known)];
        assert!(of(&objects).is_empty());
    }
}
