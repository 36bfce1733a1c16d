//! Delays and timeouts of policy.

use std::time::Duration;

/// How long after a failure all is compiled anew.
pub const RETRY: Duration = Duration::from_secs(1);
/// How often what the CNI plugin waits for is looked at though nobody said that
/// something changed.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How long the CNI plugin's question may wait for an answer.
pub const PATIENCE: Duration = Duration::from_secs(20);
