//! The numbers of a rolling update.

use crate::views::{Deployment, IntOrString};

/// How far a rollout may deviate from the desired size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutBounds {
    /// The wanted size.
    pub replicas: i32,
    /// Pods above it; 0 unless rolling.
    pub max_surge: i32,
    /// Pods below it; 0 unless rolling, and never more than the size.
    pub max_unavailable: i32,
    /// Whether the strategy is a rolling update.
    pub rolling: bool,
}

impl RolloutBounds {
    /// The bounds of a Deployment. Surge rounds up and unavailability down; if
    /// both come to nothing, one pod may be unavailable, as the rollout could
    /// never move otherwise.
    #[must_use]
    pub fn for_deployment(deployment: &Deployment) -> Self {
        let replicas = deployment.spec.replicas.unwrap_or(1);
        let strategy = &deployment.spec.strategy;
        let rolling = strategy.r#type != "Recreate";
        if !rolling {
            return Self {
                replicas,
                max_surge: 0,
                max_unavailable: 0,
                rolling,
            };
        }
        let update = strategy.rolling_update.as_ref();
        let scaled = |value: Option<&IntOrString>, up| {
            value
                .and_then(|v| v.scaled(replicas, up))
                .unwrap_or(0)
                .max(0)
        };
        let max_surge = scaled(update.and_then(|u| u.max_surge.as_ref()), true);
        let mut max_unavailable = scaled(update.and_then(|u| u.max_unavailable.as_ref()), false);
        if max_surge == 0 && max_unavailable == 0 {
            max_unavailable = 1;
        }
        Self {
            replicas,
            max_surge,
            max_unavailable: max_unavailable.min(replicas),
            rolling,
        }
    }
}

/// The size that the newest set, now of size `current`, may grow to when all
/// sets together have `total` pods.
#[must_use]
pub fn new_set_size(bounds: &RolloutBounds, total: i32, current: i32) -> i32 {
    if !bounds.rolling {
        return bounds.replicas;
    }
    let room = bounds.replicas + bounds.max_surge - total;
    current + room.min(bounds.replicas - current).max(0)
}

/// The share of one set, of size `size`, in `to_add` pods that a change of the
/// Deployment's size brings (or takes, when negative). `before` is the greatest
/// size that the Deployment could have before; `added` is what other sets got.
#[must_use]
pub fn proportion(size: i32, bounds: &RolloutBounds, before: i32, to_add: i32, added: i32) -> i32 {
    if size == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let fraction = if bounds.replicas == 0 {
        -size
    } else if before == 0 {
        0
    } else {
        let product = i64::from(size) * i64::from(bounds.replicas + bounds.max_surge);
        i32::try_from(round_div(product, i64::from(before))).unwrap_or(size) - size
    };
    let allowed = to_add - added;
    if to_add > 0 {
        fraction.min(allowed)
    } else {
        fraction.max(allowed)
    }
}

/// Division of numbers that are not negative, rounded half up.
fn round_div(a: i64, b: i64) -> i64 {
    (2 * a + b) / (2 * b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(replicas: i32, surge: &str, unavailable: &str) -> (i32, i32) {
        let number = |s: &str| {
            s.parse::<i32>()
                .map_or_else(|_| serde_json::json!(s), |n| serde_json::json!(n))
        };
        let deployment: Deployment = serde_json::from_value(serde_json::json!({"spec":{
            "replicas":replicas,
            "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":number(surge),"maxUnavailable":number(unavailable)}}}}))
        .unwrap();
        let b = RolloutBounds::for_deployment(&deployment);
        (b.max_surge, b.max_unavailable)
    }

    #[test]
    fn bounds_resolve_percentages() {
        assert_eq!(bounds(10, "25%", "25%"), (3, 2));
        assert_eq!(bounds(3, "25%", "25%"), (1, 0));
        assert_eq!(bounds(2, "0%", "1%"), (0, 1));
        assert_eq!(bounds(1, "1", "5"), (1, 1));
        assert_eq!(bounds(0, "25%", "25%"), (0, 0));
    }

    #[test]
    fn newest_set_grows_within_the_surge() {
        let b = RolloutBounds {
            replicas: 10,
            max_surge: 3,
            max_unavailable: 2,
            rolling: true,
        };
        assert_eq!(new_set_size(&b, 10, 0), 3);
        assert_eq!(new_set_size(&b, 13, 3), 3);
        assert_eq!(new_set_size(&b, 9, 9), 10);
        assert_eq!(new_set_size(&b, 20, 0), 0);
    }

    #[test]
    fn shares_follow_the_sizes() {
        let b = RolloutBounds {
            replicas: 20,
            max_surge: 0,
            max_unavailable: 1,
            rolling: true,
        };
        // 10 pods in sets of 8 and 2 become 20
        assert_eq!(proportion(8, &b, 10, 10, 0), 8);
        assert_eq!(proportion(2, &b, 10, 10, 8), 2);
        // nothing is left for the third
        assert_eq!(proportion(5, &b, 10, 10, 10), 0);
        let zero = RolloutBounds {
            replicas: 0,
            max_surge: 0,
            max_unavailable: 0,
            rolling: true,
        };
        assert_eq!(proportion(8, &zero, 10, -10, 0), -8);
    }
}
