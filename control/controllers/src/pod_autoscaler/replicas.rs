//! How many replicas a metric asks for. Pure, with upstream's rounding and its treatment
//! of pods that are not ready or have no metrics.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::error::MetricError;
use super::view::ScaledPod;
use crate::views::{Phase, Text};

/// For so long after its start the CPU usage of a pod may be that of its start.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_secs(300);
/// A pod that was not ready by then was never ready.
const INITIAL_READINESS: SignedDuration = SignedDuration::from_secs(30);

/// A metric of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// In thousandths.
    pub(super) value: i64,
    pub(super) timestamp: Timestamp,
    /// The time over which it was taken.
    pub(super) window: SignedDuration,
}

/// Metrics by pod.
pub(super) type Samples = BTreeMap<Text, Sample>;

/// Within how much of the target the number of replicas stays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerances {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Tolerances {
    fn is_within(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// A number of replicas, and the usage that leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// In thousandths; on average, where the target is an average.
    pub(super) usage: i64,
    /// In percent of the requests, where the target is a utilization.
    pub(super) utilization: Option<i32>,
}

/// The value with which a metric is compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum Goal<'a> {
    /// Percent of these requests, which are in thousandths.
    Utilization(i32, &'a BTreeMap<Text, i64>),
    /// An average in thousandths.
    Average(i64),
}

/// The pods and settings against which the metrics of a round are judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round<'a> {
    /// Replicas that the target asks for.
    pub(super) current: i32,
    /// Its pods.
    pub(super) pods: &'a [ScaledPod],
    pub(super) tolerances: Tolerances,
    pub(super) now: Timestamp,
}

/// Pods by what their metrics are worth.
#[derive(Debug, Default)]
struct Groups<'a> {
    ready: usize,
    unready: BTreeSet<&'a Text>,
    missing: BTreeSet<&'a Text>,
    ignored: BTreeSet<&'a Text>,
}

impl Round<'_> {
    /// Computes replicas from a per-pod metric. With `is_cpu`, the usage of starting pods
    /// does not count.
    ///
    /// # Errors
    /// When there is no usable value, in upstream's words.
    pub(super) fn by_pods(
        &self,
        mut samples: Samples,
        goal: Goal<'_>,
        is_cpu: bool,
    ) -> Result<Proposal, MetricError> {
        if self.pods.is_empty() {
            return Err(MetricError::NoPods);
        }
        let groups = self.group(&samples, is_cpu);
        samples.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
        if samples.is_empty() {
            return Err(MetricError::NoSamples);
        }
        let (ratio, usage, utilization) = goal.ratio(&samples)?;
        let proposal = |replicas| Proposal {
            replicas,
            usage,
            utilization,
        };
        let up_with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !up_with_unready && groups.missing.is_empty() {
            if self.tolerances.is_within(ratio) {
                return Ok(proposal(self.current));
            }
            return Ok(proposal(ceil(ratio * float(groups.ready))));
        }
        let assume = |samples: &mut Samples, pod: &Text, value: i64| {
            let sample = Sample {
                value,
                timestamp: self.now,
                window: SignedDuration::ZERO,
            };
            samples.insert(pod.clone(), sample);
        };
        for pod in &groups.missing {
            if ratio < 1.0 {
                // to scale down, those without metrics count as busy
                assume(&mut samples, pod, goal.busy(pod));
            } else if ratio > 1.0 {
                assume(&mut samples, pod, 0);
            }
        }
        if up_with_unready {
            for pod in &groups.unready {
                assume(&mut samples, pod, 0);
            }
        }
        let (new_ratio, ..) = goal.ratio(&samples)?;
        let turns = (ratio < 1.0 && new_ratio > 1.0) || (ratio > 1.0 && new_ratio < 1.0);
        if self.tolerances.is_within(new_ratio) || turns {
            return Ok(proposal(self.current));
        }
        let replicas = ceil(new_ratio * float(samples.len()));
        let turns = (new_ratio < 1.0 && replicas > self.current)
            || (new_ratio > 1.0 && replicas < self.current);
        Ok(proposal(if turns { self.current } else { replicas }))
    }

    /// Computes replicas from one value for all pods.
    ///
    /// # Errors
    /// When the target has no pods, in upstream's words.
    pub(super) fn by_value(&self, usage: i64, target: i64) -> Result<Proposal, MetricError> {
        let ratio = quotient(usage, target);
        let replicas = if self.current == 0 {
            ceil(ratio)
        } else if self.tolerances.is_within(ratio) {
            self.current
        } else if self.pods.is_empty() {
            return Err(MetricError::NoReadyPods);
        } else {
            let ready = self.pods.iter().filter(|pod| pod.is_running_and_ready());
            ceil(ratio * float(ready.count()))
        };
        Ok(Proposal {
            replicas,
            usage,
            utilization: None,
        })
    }

    /// Replicas by a value that is divided among pods, of which there are `replicas`.
    pub(super) fn by_average(&self, usage: i64, target: i64, replicas: i32) -> Proposal {
        let ratio = as_float(usage) / (as_float(target) * f64::from(replicas));
        let wanted = if self.tolerances.is_within(ratio) {
            replicas
        } else {
            ceil(quotient(usage, target))
        };
        Proposal {
            replicas: wanted,
            usage: if usage == i64::MAX {
                usage
            } else {
                ceil_i64(as_float(usage) / f64::from(replicas))
            },
            utilization: None,
        }
    }

    fn group(&self, samples: &Samples, is_cpu: bool) -> Groups<'_> {
        let mut groups = Groups::default();
        for pod in self.pods {
            let name = &pod.metadata.name;
            if pod.metadata.is_terminating() || pod.status.phase == Phase::Failed {
                groups.ignored.insert(name);
            } else if pod.status.phase == Phase::Pending {
                groups.unready.insert(name);
            } else if let Some(sample) = samples.get(name) {
                if is_cpu && self.is_starting(pod, sample) {
                    groups.unready.insert(name);
                } else {
                    groups.ready += 1;
                }
            } else {
                groups.missing.insert(name);
            }
        }
        groups
    }

    /// Whether the CPU usage of a pod may be that of its start.
    fn is_starting(&self, pod: &ScaledPod, sample: &Sample) -> bool {
        let (Some(ready), Some(started)) = (pod.ready(), pod.status.start_time) else {
            return true;
        };
        let since = ready.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH);
        let after = |time: Timestamp, span| time.checked_add(span).unwrap_or(Timestamp::MAX);
        let is_unready = ready.status == "False";
        if after(started, CPU_INITIALIZATION) > self.now {
            is_unready || sample.timestamp < after(since, sample.window)
        } else {
            is_unready && after(started, INITIAL_READINESS) > since
        }
    }
}

impl Goal<'_> {
    /// Usage by target, the average usage, and the utilization.
    fn ratio(&self, samples: &Samples) -> Result<(f64, i64, Option<i32>), MetricError> {
        match self {
            Self::Average(target) => {
                let total = total(samples.values().map(|sample| sample.value));
                let usage = total / count(samples.len());
                Ok((quotient(usage, *target), usage, None))
            }
            Self::Utilization(target, requests) => {
                let known: Vec<(i64, i64)> = samples
                    .iter()
                    .filter_map(|(pod, sample)| Some((sample.value, *requests.get(pod)?)))
                    .collect();
                let used = total(known.iter().map(|(used, _)| *used));
                let requested = total(known.iter().map(|(_, requested)| *requested));
                if requested == 0 {
                    return Err(MetricError::NoKnownPods);
                }
                let percent = used.saturating_mul(100) / requested;
                let percent = i32::try_from(percent).unwrap_or(i32::MAX);
                let ratio = f64::from(percent) / f64::from(*target);
                Ok((ratio, used / count(known.len()), Some(percent)))
            }
        }
    }

    /// Returns the usage that is assumed of a pod without metrics when it counts as busy.
    fn busy(&self, pod: &Text) -> i64 {
        match self {
            Self::Average(target) => *target,
            Self::Utilization(target, requests) => {
                let request = requests.get(pod).copied().unwrap_or(0);
                request.saturating_mul(i64::from((*target).max(100))) / 100
            }
        }
    }
}

/// Returns each pod's request of a resource in thousandths: that of the named container;
/// otherwise the pod-level request; otherwise the sum over all containers.
///
/// # Errors
/// When a request is missing, in upstream's words.
pub(super) fn requests(
    pods: &[ScaledPod],
    container: &str,
    resource: &str,
) -> Result<BTreeMap<Text, i64>, MetricError> {
    let mut all = BTreeMap::new();
    for pod in pods {
        all.insert(
            pod.metadata.name.clone(),
            request(pod, container, resource)?,
        );
    }
    Ok(all)
}

fn request(pod: &ScaledPod, container: &str, resource: &str) -> Result<i64, MetricError> {
    let name = &pod.metadata.name;
    let spec = &pod.spec;
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|c| c.restart_policy == "Always");
    let containers = spec.containers.iter().chain(sidecars);
    // pod-level requests cover some resources, those of containers the others
    let is_pod_level = ["cpu", "memory"]
        .iter()
        .any(|r| spec.resources.requests.contains_key(*r))
        || spec
            .resources
            .requests
            .keys()
            .any(|r| r.starts_with("hugepages-"));
    if container.is_empty() && is_pod_level {
        if let Some(request) = spec.resources.request(resource) {
            return Ok(request);
        }
        let of_containers: Vec<i64> = containers
            .filter_map(|c| c.resources.request(resource))
            .collect();
        if of_containers.is_empty() {
            return Err(MetricError::NoPodRequest {
                resource: resource.to_owned(),
                pod: name.to_string(),
            });
        }
        return Ok(total(of_containers.into_iter()));
    }
    let mut sum = 0_i64;
    for one in containers {
        if container.is_empty() || one.name == container {
            let Some(request) = one.resources.request(resource) else {
                return Err(MetricError::NoRequest {
                    resource: resource.to_owned(),
                    container: one.name.to_string(),
                    pod: name.to_string(),
                });
            };
            sum = sum.saturating_add(request);
        }
        if one.name == container {
            return Ok(sum);
        }
    }
    if container.is_empty() {
        Ok(sum)
    } else {
        Err(MetricError::NoContainer {
            container: container.to_owned(),
            pod: name.to_string(),
        })
    }
}

/// The sum, capped at 64 bits.
pub(super) fn total(values: impl Iterator<Item = i64>) -> i64 {
    values.fold(0, i64::saturating_add)
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX).max(1)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ratios are floats upstream, too"
)]
const fn as_float(value: i64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "numbers of pods are small")]
const fn float(length: usize) -> f64 {
    length as f64
}

fn quotient(usage: i64, target: i64) -> f64 {
    as_float(usage) / as_float(target)
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn ceil_i64(value: f64) -> i64 {
    value.ceil() as i64
}
