//! How fast the number of replicas may change: bounds, rates and stabilization.

use jiff::{SignedDuration, Timestamp};

use super::view::{Behavior, Rules};

/// For how long recommendations count when scaling down, unless the spec says it.
const DOWNSCALE_STABILIZATION: i32 = 300;
const SCALE_UP_FACTOR: i32 = 2;
const SCALE_UP_MINIMUM: i32 = 4;

/// Recent recommendations and scalings. They are lost with the process, as upstream's are.
#[derive(Debug, Clone, Default)]
pub(super) struct ScalingHistory {
    recommendations: Vec<(i32, Timestamp)>,
    ups: Vec<(i32, Timestamp)>,
    downs: Vec<(i32, Timestamp)>,
}

/// The reason and message of a condition.
pub(super) type ConditionReason = (&'static str, &'static str);

/// A number of replicas within all bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BoundedReplicas {
    pub(super) replicas: i32,
    /// Reason of the condition AbleToScale.
    pub(super) able: ConditionReason,
    /// Whether a bound was met, and which.
    pub(super) limited: (bool, ConditionReason),
}

/// The bounds of a number of replicas.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplicaBounds<'a> {
    pub(super) current: i32,
    pub(super) min: i32,
    pub(super) max: i32,
    pub(super) behavior: Option<&'a Behavior>,
    pub(super) now: Timestamp,
}

const READY: ConditionReason = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: ConditionReason = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: ConditionReason = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const WITHIN: ConditionReason = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const UP_LIMIT: ConditionReason = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const TOO_MANY: ConditionReason = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const DOWN_LIMIT: ConditionReason = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);
const TOO_FEW: ConditionReason = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);

impl ScalingHistory {
    /// Notes the number of replicas before the first recommendation.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((current, now));
        }
    }

    /// Bounds a recommendation, and notes it.
    pub(super) fn normalize(
        &mut self,
        desired: i32,
        bounds: &ReplicaBounds<'_>,
    ) -> BoundedReplicas {
        let (stabilized, reason) = match bounds.behavior {
            None => self.stabilize_down(desired, bounds.now),
            Some(behavior) => self.stabilize(desired, bounds, behavior),
        };
        let (replicas, limit) = match bounds.behavior {
            None => within_rules(stabilized, bounds),
            Some(behavior) => self.within_rates(stabilized, bounds, behavior),
        };
        BoundedReplicas {
            replicas,
            able: if stabilized == desired { READY } else { reason },
            limited: (replicas != stabilized, limit),
        }
    }

    /// Notes that the number of replicas was changed.
    pub(super) fn scaled(
        &mut self,
        from: i32,
        to: i32,
        behavior: Option<&Behavior>,
        now: Timestamp,
    ) {
        let Some(behavior) = behavior else { return };
        let (events, rules) = if to > from {
            (&mut self.ups, &behavior.scale_up)
        } else {
            (&mut self.downs, &behavior.scale_down)
        };
        let longest = rules
            .policies
            .iter()
            .map(|policy| policy.period_seconds)
            .max();
        let cutoff = before(now, longest.unwrap_or(0));
        replace_old(
            events,
            (from.abs_diff(to).try_into().unwrap_or(i32::MAX), now),
            |at| at < cutoff,
        );
    }

    fn stabilize_down(&mut self, desired: i32, now: Timestamp) -> (i32, ConditionReason) {
        let cutoff = before(now, DOWNSCALE_STABILIZATION);
        let recent = self.recommendations.iter().filter(|(_, at)| *at >= cutoff);
        let highest = recent.map(|(count, _)| *count).max();
        replace_old(&mut self.recommendations, (desired, now), |at| at < cutoff);
        (
            highest.map_or(desired, |highest| highest.max(desired)),
            DOWN_STABILIZED,
        )
    }

    fn stabilize(
        &mut self,
        desired: i32,
        bounds: &ReplicaBounds<'_>,
        behavior: &Behavior,
    ) -> (i32, ConditionReason) {
        let window = |rules: &Rules, default: i32| {
            before(
                bounds.now,
                rules.stabilization_window_seconds.unwrap_or(default),
            )
        };
        let up_cutoff = window(&behavior.scale_up, 0);
        let down_cutoff = window(&behavior.scale_down, DOWNSCALE_STABILIZATION);
        let (mut up, mut down) = (desired, desired);
        for (count, at) in &self.recommendations {
            if *at > up_cutoff {
                up = up.min(*count);
            }
            if *at > down_cutoff {
                down = down.max(*count);
            }
        }
        let is_old = |at| at < up_cutoff && at < down_cutoff;
        replace_old(&mut self.recommendations, (desired, bounds.now), is_old);
        let reason = if desired >= bounds.current {
            UP_STABILIZED
        } else {
            DOWN_STABILIZED
        };
        (bounds.current.max(up).min(down), reason)
    }

    fn within_rates(
        &self,
        desired: i32,
        bounds: &ReplicaBounds<'_>,
        behavior: &Behavior,
    ) -> (i32, ConditionReason) {
        let current = bounds.current;
        if desired > current {
            let rate = self.up_limit(bounds, &behavior.scale_up).max(current);
            let (most, reason) = if bounds.max > rate {
                (rate, UP_LIMIT)
            } else {
                (bounds.max, TOO_MANY)
            };
            if desired > most {
                return (most, reason);
            }
        } else if desired < current {
            let rate = self.down_limit(bounds, &behavior.scale_down).min(current);
            let (least, reason) = if bounds.min < rate {
                (rate, DOWN_LIMIT)
            } else {
                (bounds.min, TOO_FEW)
            };
            if desired < least {
                return (least, reason);
            }
        }
        (desired, WITHIN)
    }

    /// Replicas at the beginning of a period that ends now.
    fn at_start(&self, bounds: &ReplicaBounds<'_>, seconds: i32) -> i32 {
        let cutoff = before(bounds.now, seconds);
        let changed = |events: &[(i32, Timestamp)]| {
            let recent = events.iter().filter(|(_, at)| *at > cutoff);
            recent.map(|(count, _)| *count).fold(0, i32::saturating_add)
        };
        let added = changed(&self.ups);
        bounds
            .current
            .saturating_sub(added)
            .saturating_add(changed(&self.downs))
    }

    fn up_limit(&self, bounds: &ReplicaBounds<'_>, rules: &Rules) -> i32 {
        let proposals = rules.policies.iter().map(|policy| {
            let start = self.at_start(bounds, policy.period_seconds);
            if policy.r#type == "Pods" {
                start.saturating_add(policy.value)
            } else {
                cast((f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil())
            }
        });
        match rules.select_policy.as_str() {
            "Disabled" => bounds.current,
            "Min" => proposals.min().unwrap_or(i32::MAX),
            _ => proposals.max().unwrap_or(i32::MIN),
        }
    }

    fn down_limit(&self, bounds: &ReplicaBounds<'_>, rules: &Rules) -> i32 {
        let proposals = rules.policies.iter().map(|policy| {
            let start = self.at_start(bounds, policy.period_seconds);
            if policy.r#type == "Pods" {
                start.saturating_sub(policy.value)
            } else {
                cast(f64::from(start) * (1.0 - f64::from(policy.value) / 100.0))
            }
        });
        match rules.select_policy.as_str() {
            "Disabled" => bounds.current,
            "Min" => proposals.max().unwrap_or(i32::MIN),
            _ => proposals.min().unwrap_or(i32::MAX),
        }
    }
}

fn within_rules(desired: i32, bounds: &ReplicaBounds<'_>) -> (i32, ConditionReason) {
    let rate = bounds
        .current
        .saturating_mul(SCALE_UP_FACTOR)
        .max(SCALE_UP_MINIMUM);
    let (most, reason) = if bounds.max > rate {
        (rate, UP_LIMIT)
    } else {
        (bounds.max, TOO_MANY)
    };
    if desired < bounds.min {
        (bounds.min, TOO_FEW)
    } else if desired > most {
        (most, reason)
    } else {
        (desired, WITHIN)
    }
}

/// Puts an entry in the place of the last old one, or at the end.
fn replace_old(
    list: &mut Vec<(i32, Timestamp)>,
    new: (i32, Timestamp),
    is_old: impl Fn(Timestamp) -> bool,
) {
    match list.iter_mut().rev().find(|(_, at)| is_old(*at)) {
        Some(old) => *old = new,
        None => list.push(new),
    }
}

fn before(now: Timestamp, seconds: i32) -> Timestamp {
    now.checked_sub(SignedDuration::from_secs(i64::from(seconds)))
        .unwrap_or(Timestamp::MIN)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates and cuts, as upstream's"
)]
const fn cast(value: f64) -> i32 {
    value as i32
}
