//! HorizontalPodAutoscalers: as many pods as there is work.

mod behavior;
mod decide;
#[cfg(test)]
mod decide_tests;
mod error;
#[cfg(test)]
mod loop_tests;
mod metrics;
mod replicas;
mod view;

pub use view::HorizontalPodAutoscaler;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Discard, Error, Patch, Queue, Resource, Selection, resources};
use control_types::labels::Selector;
use http::Method;
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};

use self::behavior::ScalingHistory;
use self::decide::{Course, Evaluation, Measurements, Rescale};
use self::error::{MetricError, ScaleError};
use self::replicas::Round;
use self::view::{AUTOSCALERS, Scale, ScaledPod};
use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::seconds_now;
use crate::work::{self, Outcome};

/// How often each autoscaler is looked at.
const PERIOD: Duration = Duration::from_secs(15);
/// How often the number of replicas is written again after a conflict.
const RETRIES: usize = 5;

/// Scales by metrics.
pub const CONTROLLER: Controller = Controller {
    name: "horizontal-pod-autoscaler-controller",
    service_account: "horizontal-pod-autoscaler",
    start: |ctx| {
        let this = Arc::new(Autoscalers {
            client: ctx.client.clone(),
            recorder: ctx.recorder("horizontal-pod-autoscaler"),
            autoscalers: ctx.autoscalers(),
            past: Mutex::default(),
            selectors: Mutex::default(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.autoscalers.on_change(move |change| {
            if let Some(hpa) = change.latest() {
                // Metrics of pods that just started say little: a new autoscaler is
                // looked at after a period, as all are.
                listener
                    .queue
                    .add_after(Key::from_meta(&hpa.metadata), PERIOD);
            }
        });
        let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
        Box::pin(async move {
            this.autoscalers.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            let name = "horizontalpodautoscaler";
            this.queue.run(name, workers, &shutdown, work).await;
        })
    },
};

struct Autoscalers {
    client: Client,
    recorder: Recorder,
    autoscalers: Arc<KindCache<HorizontalPodAutoscaler>>,
    past: Mutex<HashMap<Key, ScalingHistory>>,
    /// The pod selector of each autoscaler, to find pods that two of them select.
    selectors: Mutex<HashMap<Key, Selector>>,
    queue: Queue<Key>,
}

/// The `scale` subresource of the target object.
struct ScaleTarget {
    resource: Resource,
    object: Value,
    scale: Scale,
}

impl Autoscalers {
    fn past(&self) -> MutexGuard<'_, HashMap<Key, ScalingHistory>> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn selectors(&self) -> MutexGuard<'_, HashMap<Key, Selector>> {
        self.selectors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(hpa) = self.autoscalers.by_key(&key) else {
            self.past().remove(&key);
            self.selectors().remove(&key);
            return Ok(None);
        };
        let mut look = Evaluation::new(&hpa, seconds_now());
        self.look(&key, &hpa, &mut look).await;
        let about = ObjectReference::to_object(&AUTOSCALERS, &hpa.metadata);
        for notice in &look.notices {
            if notice.is_warning {
                self.recorder
                    .warning(&about, notice.reason, notice.message.clone());
            } else {
                self.recorder
                    .normal(&about, notice.reason, notice.message.clone());
            }
        }
        if look.status != hpa.status
            && let Err(error) = self.write_status(&hpa, &look).await
        {
            self.recorder
                .warning(&about, "FailedUpdateStatus", error.chain());
        }
        Ok(Some(PERIOD))
    }

    async fn look(&self, key: &Key, hpa: &HorizontalPodAutoscaler, look: &mut Evaluation<'_>) {
        let target = match self.target(hpa).await {
            Ok(target) => target,
            Err(error) => return look.no_scale(&error.to_string()),
        };
        let current = target.scale.spec.replicas;
        let mut past = self.past().get(key).cloned().unwrap_or_default();
        past.begin(current, Timestamp::now());
        let rescale = match look.course(current) {
            Course::Disabled => {
                look.without_metrics();
                None
            }
            Course::Bound(to, reason) => {
                look.without_metrics();
                (to != current).then(|| Rescale {
                    from: current,
                    to,
                    reason: reason.to_owned(),
                })
            }
            Course::Measure => {
                let Some(pods) = self.pods(key, &target.scale, look).await else {
                    self.past().insert(key.clone(), past);
                    return;
                };
                let answers = self.answers(hpa, &target.scale).await;
                let measured = Measurements {
                    round: Round {
                        current,
                        pods: &pods,
                        tolerances: decide::tolerances(hpa),
                        now: Timestamp::now(),
                    },
                    actual: target.scale.status.replicas,
                    answers: &answers,
                };
                let desired = hpa.status.desired_replicas;
                let rescale = look.measure(&measured, &mut past);
                if look.has_failed() {
                    look.status.desired_replicas = desired;
                    self.past().insert(key.clone(), past);
                    return;
                }
                rescale
            }
        };
        match rescale {
            None => look.stays(current),
            Some(rescale) => match self.rescale(hpa, target, rescale.to).await {
                Ok(()) => {
                    let behavior = hpa.spec.behavior.as_ref();
                    past.scaled(rescale.from, rescale.to, behavior, Timestamp::now());
                    look.rescaled(&rescale);
                }
                Err(error) => look.rescale_failed(&rescale, &error.chain()),
            },
        }
        self.past().insert(key.clone(), past);
    }

    /// Reads the scale of the target.
    async fn target(&self, hpa: &HorizontalPodAutoscaler) -> Result<ScaleTarget, ScaleError> {
        let of = &hpa.spec.scale_target_ref;
        let (group, version) = metrics::group_version(&of.api_version);
        let resource = metrics::scalable(&self.client, (group, version, &of.kind)).await?;
        let object = self.read_scale(&resource, hpa).await;
        let object = object.map_err(ScaleError::Client)?;
        let scale = Scale::deserialize(&object).map_err(ScaleError::Decode)?;
        Ok(ScaleTarget {
            resource,
            object,
            scale,
        })
    }

    async fn read_scale(
        &self,
        resource: &Resource,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<Value, Error> {
        let root = if resource.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let (version, plural) = (resource.api_version(), &resource.plural);
        let (namespace, name) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref.name);
        let path = format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}/scale");
        self.client.request(Method::GET, &path, None::<&()>).await
    }

    /// Returns the pods of a target. Returns `None` and sets a condition if they cannot
    /// be told from those of others.
    async fn pods(
        &self,
        key: &Key,
        scale: &Scale,
        look: &mut Evaluation<'_>,
    ) -> Option<Vec<ScaledPod>> {
        let current = scale.spec.replicas;
        let text = &scale.status.selector;
        if text.is_empty() {
            let reason = ("SelectorRequired", "InvalidSelector");
            look.bad_selector(current, reason, "selector is required");
            return None;
        }
        let selector = match Selector::parse(text) {
            Ok(selector) => selector,
            Err(error) => {
                let problem = format!(
                    "couldn't convert selector into a corresponding internal selector object: {error}"
                );
                let reason = ("InvalidSelector", "InvalidSelector");
                look.bad_selector(current, reason, &problem);
                return None;
            }
        };
        self.selectors().insert(key.clone(), selector);
        let selection = Selection::all()
            .namespace(key.namespace.as_str())
            .labels(text.as_str());
        let pods = self
            .client
            .list::<ScaledPod>(&resources::PODS, &selection)
            .await;
        let pods = match pods {
            Ok(pods) => pods.items,
            Err(error) => {
                let problem = format!("unable to get pods: {}", error.chain());
                look.bad_selector(current, ("FailedGetPods", "FailedGetPods"), &problem);
                return None;
            }
        };
        let others = self.selecting(key, &pods);
        if others.len() > 1 {
            let others: Vec<String> = others.into_iter().collect();
            let problem = format!(
                "pods by selector {text} are controlled by multiple HPAs: [{}]",
                others.join(" ")
            );
            let reason = ("AmbiguousSelector", "AmbiguousSelector");
            look.bad_selector(current, reason, &problem);
            return None;
        }
        Some(pods)
    }

    /// The autoscalers that count any of these pods.
    fn selecting(&self, key: &Key, pods: &[ScaledPod]) -> BTreeSet<String> {
        let selectors = self.selectors();
        let of_namespace = selectors
            .iter()
            .filter(|(other, _)| other.namespace == key.namespace);
        of_namespace
            .filter(|(_, selector)| {
                pods.iter()
                    .any(|pod| selector.matches_with(|label| pod.metadata.labels.get(label)))
            })
            .map(|(other, _)| format!("{{{} {}}}", other.name, other.namespace))
            .collect()
    }

    async fn answers(
        &self,
        hpa: &HorizontalPodAutoscaler,
        scale: &Scale,
    ) -> Vec<Result<decide::MetricsAnswer, MetricError>> {
        let (namespace, selector) = (&hpa.metadata.namespace, &scale.status.selector);
        let all = hpa.spec.metrics.iter();
        let all = all.map(|spec| metrics::fetch(&self.client, namespace, selector, spec));
        futures::future::join_all(all).await
    }

    /// Writes a number of replicas, again after a conflict.
    async fn rescale(
        &self,
        hpa: &HorizontalPodAutoscaler,
        target: ScaleTarget,
        replicas: i32,
    ) -> Result<(), Error> {
        let resource = &target.resource;
        let mut object = target.object;
        let mut tries = 0;
        loop {
            object["spec"]["replicas"] = replicas.into();
            let (namespace, name) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref.name);
            let written = self
                .client
                .update_subresource::<Discard>(resource, namespace, name, "scale", &object)
                .await;
            tries += 1;
            match written {
                Err(error) if error.is_conflict() && tries < RETRIES => {
                    object = self.read_scale(resource, hpa).await?;
                }
                other => return other.map(drop),
            }
        }
    }

    async fn write_status(
        &self,
        hpa: &HorizontalPodAutoscaler,
        look: &Evaluation<'_>,
    ) -> Result<(), Error> {
        let (meta, status) = (&hpa.metadata, &look.status);
        let patch = json!({
            "metadata": work::precondition(meta),
            "status": {
                "lastScaleTime": status.last_scale_time,
                "currentReplicas": status.current_replicas,
                "desiredReplicas": status.desired_replicas,
                "currentMetrics": status.current_metrics,
                "conditions": status.conditions,
            },
        });
        let result = self
            .client
            .patch_status::<Discard>(
                &AUTOSCALERS,
                &meta.namespace,
                &meta.name,
                Patch::Merge(&patch),
            )
            .await;
        work::unless_gone(result)
    }
}
