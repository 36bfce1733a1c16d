//! When that happened for which the endpoints of a Service are written: kube-proxy measures
//! from there how long the network takes to follow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use control_client::time;
use jiff::Timestamp;
use serde_json::Value;

use crate::key::Key;
use crate::views::{Pod, Service, Text};

/// The annotation of endpoints and slices.
pub const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

#[derive(Default)]
struct LastTriggerTime {
    pods: HashMap<Text, Timestamp>,
    service: Option<Timestamp>,
}

/// The last trigger times of each Service and its pods.
#[derive(Default)]
pub struct TriggerTimes(Mutex<HashMap<Key, LastTriggerTime>>);

impl TriggerTimes {
    /// The earliest of the changes since the last call, as the annotation's value; null when
    /// nothing has a later time than it had then. Of a Service that is new here, its creation.
    pub fn next(&self, key: &Key, service: &Service, pods: &[Arc<Pod>]) -> Value {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let created = service.metadata.creation_timestamp;
        let times = pods.iter().filter_map(|pod| {
            let ready = pod.condition("Ready")?;
            Some((pod.metadata.name.clone(), ready.last_transition_time?))
        });
        let times: HashMap<Text, Timestamp> = times.collect();
        let is_known = all.contains_key(key);
        let seen = all.entry(key.clone()).or_default();
        let changed = times
            .iter()
            .filter(|(name, time)| seen.pods.get(*name).is_none_or(|seen| *time > seen))
            .map(|(_, time)| *time)
            .chain(created.filter(|_| created > seen.service));
        let earliest = changed.min();
        *seen = LastTriggerTime {
            pods: times,
            service: created,
        };
        let trigger = if is_known { earliest } else { created };
        trigger.map_or(Value::Null, |at| time::seconds(at).into())
    }

    /// Forgets a deleted Service.
    pub fn forget(&self, key: &Key) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(second: u32) -> Arc<Pod> {
        let at = format!("2026-01-01T00:00:{second:02}Z");
        let pod = json!({"metadata": {"name": "p"}, "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": at}]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn trigger_is_the_creation_of_a_new_service_and_then_the_earliest_change() {
        let service: Service = serde_json::from_value(json!({"metadata": {"name": "s",
            "creationTimestamp": "2026-01-01T00:00:30Z"}, "spec": {}}))
        .unwrap();
        let (times, key) = (TriggerTimes::default(), Key::new("n", "s"));
        let next = |pods: &[Arc<Pod>]| times.next(&key, &service, pods);
        assert_eq!(next(&[pod(10)]), "2026-01-01T00:00:30Z");
        assert_eq!(next(&[pod(10)]), Value::Null);
        assert_eq!(next(&[pod(40)]), "2026-01-01T00:00:40Z");
        assert_eq!(next(&[]), Value::Null);
        times.forget(&key);
        assert_eq!(next(&[]), "2026-01-01T00:00:30Z");
    }
}
