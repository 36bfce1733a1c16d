//! APIServices of this server: one for every group and version that it serves.

use std::time::Duration;

use control_aggregation::{GROUP, PLURAL, registration};
use futures::FutureExt;

use super::PostStartHook;

/// Made at start; who deletes one later means it.
pub(super) static REGISTRATION: PostStartHook =
    PostStartHook::new("own API services", Duration::MAX, |context| {
        registration::register(&context.aggregator).boxed()
    });

pub(super) static CUSTOM: PostStartHook = PostStartHook::new(
    "API services of custom resources",
    Duration::from_secs(30),
    |context| registration::register_custom(context, false).boxed(),
)
.following(&[("apiextensions.k8s.io", "customresourcedefinitions")]);

/// Restores API services of custom resources that others have changed.
pub(super) static CUSTOM_KEPT: PostStartHook = PostStartHook::new(
    "API services of custom resources, looked at again",
    Duration::from_secs(30),
    |context| registration::register_custom(context, true).boxed(),
);

pub(super) static AVAILABILITY: PostStartHook =
    PostStartHook::new("API services", Duration::from_secs(30), |context| {
        registration::update_conditions(context).boxed()
    })
    .following(&[(GROUP, PLURAL)]);
