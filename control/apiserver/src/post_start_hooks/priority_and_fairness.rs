//! Priority levels and flow schemas: those that every cluster has, and whether the level that
//! a schema names exists.

use std::time::Duration;

use control_flow_control::dangling;
use control_flow_control::mandatory::{self, GROUP, LEVELS, SCHEMAS};
use futures::FutureExt;

use super::PostStartHook;

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("flow control", Duration::from_secs(60), |context| {
        mandatory::ensure_objects(context).boxed()
    })
    .following(&[(GROUP, LEVELS), (GROUP, SCHEMAS)]);

pub(super) static DANGLING: PostStartHook =
    PostStartHook::new("flow schemas", Duration::from_secs(60), |context| {
        dangling::update_conditions(context).boxed()
    })
    .following(&[(GROUP, LEVELS), (GROUP, SCHEMAS)])
    .settling(AT_ONCE);

/// Schemas change seldom, and who made one looks at once whether it is dangling.
const AT_ONCE: Duration = Duration::from_millis(1);
