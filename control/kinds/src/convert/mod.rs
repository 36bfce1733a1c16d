//! Conversion between versions of a kind that differ in more than their name.

mod autoscaler;

use control_types::value::Value;

pub(crate) use autoscaler::default_metric;

/// Brings a `HorizontalPodAutoscaler` from `autoscaling/v1` to `v2`.
pub fn autoscaler_from_v1(object: &mut Value) {
    autoscaler::from_v1(object);
}

/// Converts a `HorizontalPodAutoscaler` from `autoscaling/v2` to `v1`. Annotations keep
/// fields that `v1` lacks.
pub fn autoscaler_to_v1(object: &mut Value) {
    autoscaler::to_v1(object);
}
