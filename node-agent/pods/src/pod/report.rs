//! Writes a pod's status to the API: only what changed, the newest only, and
//! what matters at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control_client::{Backoff, Client, Error, Patch, View};
use node_agent_objects::pod::Pod;
use node_agent_objects::status::PodStatus;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::conditions::{DISRUPTION, OWN_CONDITIONS, RESETTING, RESIZE_CONDITIONS};

/// How long a status waits for a better one when nothing hangs on it.
const PATIENCE: Duration = Duration::from_millis(300);

/// The status that is to be written next.
#[derive(Clone, Default)]
struct PendingStatus {
    status: Option<Arc<PodStatus>>,
    urgent: bool,
    number: u64,
}

/// Writes the status of one pod to the API.
pub struct StatusReporter {
    wish: watch::Sender<PendingStatus>,
    written: watch::Receiver<u64>,
    base: watch::Sender<Option<Arc<Pod>>>,
    task: tokio::task::AbortHandle,
}

impl StatusReporter {
    /// A writer for `pod`, as the API has it now.
    #[must_use]
    pub fn new(client: Client, pod: Arc<Pod>) -> Self {
        let (wish, wishes) = watch::channel(PendingStatus::default());
        let (done, written) = watch::channel(0);
        let (base, bases) = watch::channel(None);
        let task = ReporterTask {
            client,
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            base: pod.status.clone(),
            revision: pod.metadata.revision(),
        };
        let (done, mut first) = (Arc::new(done), true);
        let task = control_supervise::task("status-reporter")
            .detail(format!("{}/{}", pod.namespace(), pod.name()))
            .spawn_restarting(move || {
                let mut wishes = wishes.clone();
                if !std::mem::take(&mut first) {
                    wishes.mark_changed();
                }
                task.clone().run(wishes, bases.clone(), done.clone())
            })
            .abort_handle();
        Self {
            wish,
            written,
            base,
            task,
        }
    }

    /// Wants `status` written; at once when `urgent`.
    pub fn set(&self, status: Arc<PodStatus>, urgent: bool) {
        self.wish.send_if_modified(|wish| {
            if wish.status.as_ref() == Some(&status) && (wish.urgent || !urgent) {
                return false;
            }
            wish.status = Some(status);
            wish.urgent |= urgent;
            wish.number += 1;
            true
        });
    }

    /// Tells what the API has now.
    pub fn seen(&self, pod: Arc<Pod>) {
        self.base.send_replace(Some(pod));
    }

    /// Waits until what was set last is written, or cannot be any more.
    pub async fn flush(&self) {
        let number = self.wish.borrow().number;
        self.wish.send_modify(|wish| wish.urgent = true);
        let mut written = self.written.clone();
        let _ = written.wait_for(|written| *written >= number).await;
    }
}

impl Drop for StatusReporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct ReporterTask {
    client: Client,
    namespace: String,
    name: String,
    uid: String,
    /// The status that the API has, as far as is known.
    base: PodStatus,
    /// The revision that `base` is of.
    revision: Option<u64>,
}

impl ReporterTask {
    async fn run(
        mut self,
        mut wishes: watch::Receiver<PendingStatus>,
        mut bases: watch::Receiver<Option<Arc<Pod>>>,
        done: Arc<watch::Sender<u64>>,
    ) {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        loop {
            let next = tokio::select! {
                changed = wishes.changed() => changed,
                changed = bases.changed() => changed,
            };
            if next.is_err() {
                return;
            }
            if !wishes.borrow().urgent {
                let _ = tokio::time::timeout(PATIENCE, wishes.wait_for(|w| w.urgent)).await;
            }
            loop {
                self.rebase(&mut bases);
                let wish = wishes.borrow_and_update().clone();
                let Some(status) = wish.status else { break };
                let Some(patch) = patch(&self.uid, &self.base, &status) else {
                    done.send_replace(wish.number);
                    break;
                };
                let written = self
                    .client
                    .patch_status::<WrittenStatus>(
                        &Pod::RESOURCE,
                        &self.namespace,
                        &self.name,
                        Patch::Strategic(&patch),
                    )
                    .await;
                match written {
                    Ok(written) => {
                        self.revision = written.metadata.revision().max(self.revision);
                        self.base = (*status).clone();
                        done.send_replace(wish.number);
                        backoff.reset();
                        break;
                    }
                    Err(error @ (Error::NotFound(_) | Error::Conflict(_))) => {
                        // gone, or another pod of that name: nothing to tell
                        tracing::debug!(pod = %self.name, error = error.chain(), "pod of a status update no longer exists");
                        done.send_replace(u64::MAX);
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(namespace = %self.namespace, pod = %self.name,
                            error = error.chain(), "failed to update pod status");
                        if matches!(
                            error,
                            Error::Invalid(_) | Error::Forbidden(_) | Error::BadRequest(_)
                        ) {
                            // the same again would fail again
                            self.base = (*status).clone();
                            done.send_replace(wish.number);
                            break;
                        }
                        tokio::time::sleep(backoff.after(&error)).await;
                    }
                }
            }
        }
    }

    /// Takes over what the API has, when that is newer than what was written.
    fn rebase(&mut self, bases: &mut watch::Receiver<Option<Arc<Pod>>>) {
        let Some(pod) = bases.borrow_and_update().clone() else {
            return;
        };
        let revision = pod.metadata.revision();
        if revision.is_none() || revision > self.revision {
            self.base = pod.status.clone();
            self.revision = revision;
        }
    }
}

#[derive(serde::Deserialize)]
struct WrittenStatus {
    metadata: control_client::Meta,
}

/// The strategic merge patch that makes `new` of `old`; none when they are the
/// same. Conditions merge by type, so those of others are left alone.
#[must_use]
pub fn patch(uid: &str, old: &PodStatus, new: &PodStatus) -> Option<Value> {
    let (old_map, new_map) = (to_map(old), to_map(new));
    let mut status = Map::new();
    for (key, value) in &new_map {
        if key == "conditions" || old_map.get(key) == Some(value) {
            continue;
        }
        status.insert(key.clone(), replaced(key, old_map.get(key), value));
    }
    for key in old_map.keys() {
        if !new_map.contains_key(key) && key != "conditions" && OURS.contains(&key.as_str()) {
            status.insert(key.clone(), Value::Null);
        }
    }
    let own: BTreeMap<&str, _> = old
        .conditions
        .iter()
        .map(|c| (c.r#type.as_str(), c))
        .collect();
    let of_resize = |c: &str| RESIZE_CONDITIONS.contains(&c);
    let mut changed: Vec<Value> = new
        .conditions
        .iter()
        .filter(|c| {
            let kind = c.r#type.as_str();
            OWN_CONDITIONS.contains(&kind)
                || of_resize(kind)
                || [DISRUPTION, RESETTING].contains(&kind)
        })
        .filter(|c| own.get(c.r#type.as_str()) != Some(c))
        .map(|c| {
            let mut value = serde_json::to_value(c).unwrap_or_default();
            // what is empty now and was not before must be taken away
            if let (Some(map), Some(before)) = (value.as_object_mut(), own.get(c.r#type.as_str())) {
                for (key, was) in [("reason", &before.reason), ("message", &before.message)] {
                    if !was.is_empty() && !map.contains_key(key) {
                        map.insert(key.to_owned(), Value::Null);
                    }
                }
            }
            value
        })
        .collect();
    for gone in old.conditions.iter().filter(|c| of_resize(&c.r#type)) {
        if new.condition(&gone.r#type).is_none() {
            changed.push(json!({"$patch": "delete", "type": gone.r#type}));
        }
    }
    if !changed.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(changed));
    }
    (!status.is_empty()).then(|| json!({"metadata": {"uid": uid}, "status": status}))
}

/// The fields that the agent may take away again.
const OURS: [&str; 11] = [
    "reason",
    "message",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "allocatedResources",
    "resources",
];

/// Lists that the API merges by key are replaced as a whole, and what objects
/// have no more is taken out of them.
fn replaced(key: &str, old: Option<&Value>, value: &Value) -> Value {
    match value {
        Value::Object(new) => {
            let old = old.and_then(Value::as_object);
            let known = |name: &str| old.and_then(|old| old.get(name));
            let kept = new
                .iter()
                .filter(|(name, value)| known(name) != Some(value))
                .map(|(name, value)| (name.clone(), replaced(name, known(name), value)));
            let gone = old.into_iter().flat_map(Map::keys);
            let gone = gone.filter(|name| !new.contains_key(*name));
            kept.chain(gone.map(|name| (name.clone(), Value::Null)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) if key == "podIPs" || key == "hostIPs" => {
            let mut all = vec![json!({"$patch": "replace"})];
            all.extend(items.iter().cloned());
            Value::Array(all)
        }
        other => other.clone(),
    }
}

fn to_map(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_objects::status::{PodCondition, PodIp};

    fn condition(r#type: &str, status: &str, reason: &str) -> PodCondition {
        PodCondition {
            r#type: r#type.into(),
            status: status.into(),
            reason: reason.into(),
            ..PodCondition::default()
        }
    }

    #[test]
    fn patch_holds_what_changed_and_nothing_of_others() {
        let old = PodStatus {
            phase: "Pending".into(),
            qos_class: "BestEffort".into(),
            conditions: vec![
                condition("Ready", "False", "ContainersNotReady"),
                condition("Gate", "True", ""),
            ],
            ..PodStatus::default()
        };
        let mut new = old.clone();
        assert_eq!(patch("u", &old, &new), None);
        new.phase = "Running".into();
        new.pod_ip = "10.0.0.1".into();
        new.pod_ips = vec![PodIp {
            ip: "10.0.0.1".into(),
        }];
        new.conditions = vec![
            condition("Ready", "True", ""),
            condition("Gate", "False", "stale"),
        ];
        let patch = patch("u", &old, &new).unwrap();
        assert_eq!(
            patch,
            json!({"metadata": {"uid": "u"}, "status": {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null, "reason": null}],
            }})
        );
    }

    #[test]
    fn amounts_that_are_no_more_are_taken_away() {
        let of = |json: Value| PodStatus {
            resources: serde_json::from_value(json).unwrap(),
            ..PodStatus::default()
        };
        let old = of(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}}));
        let new = of(json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}));
        let told = |old: &PodStatus, new: &PodStatus| {
            patch("u", old, new).unwrap()["status"]["resources"].clone()
        };
        assert_eq!(
            told(&old, &new),
            json!({"limits": {"cpu": "2", "memory": null}})
        );
        assert_eq!(
            told(&new, &of(json!({}))),
            json!({"limits": null, "requests": null})
        );
        assert_eq!(told(&PodStatus::default(), &of(json!({}))), json!({}));
    }

    #[test]
    fn every_condition_that_the_agent_makes_is_written() {
        let kinds = [DISRUPTION, RESETTING].into_iter();
        for kind in kinds.chain(OWN_CONDITIONS).chain(RESIZE_CONDITIONS) {
            let new = PodStatus {
                conditions: vec![condition(kind, "True", "")],
                ..PodStatus::default()
            };
            let patch = patch("u", &PodStatus::default(), &new).unwrap();
            assert_eq!(patch["status"]["conditions"][0]["type"], kind);
        }
    }

    #[test]
    fn conditions_of_a_resize_go_with_it() {
        let old = PodStatus {
            conditions: vec![condition("PodResizePending", "True", "Deferred")],
            ..PodStatus::default()
        };
        let patch = patch("u", &old, &PodStatus::default()).unwrap();
        assert_eq!(
            patch["status"]["conditions"],
            json!([{"$patch": "delete", "type": "PodResizePending"}])
        );
    }

    #[test]
    fn what_went_is_taken_away() {
        let old = PodStatus {
            reason: "Evicted".into(),
            start_time: Some("2026-01-01T00:00:00Z".into()),
            ..PodStatus::default()
        };
        let patch = patch("u", &old, &PodStatus::default()).unwrap();
        assert_eq!(patch["status"], json!({"reason": null}));
    }
}
