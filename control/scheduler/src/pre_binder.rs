//! Dependencies of the PreBind writes.

use std::sync::Arc;
use std::time::Duration;

use control_client::events::Recorder;
use control_client::{Cache, Client};

use crate::catalog::Catalog;
use crate::view::{Node, Pod};

/// The environment of bindings.
#[derive(Clone)]
pub struct PreBinder {
    /// Writes.
    pub client: Client,
    /// Shows when writes took effect.
    pub catalog: Arc<Catalog>,
    /// Nodes, which must still fit.
    pub nodes: Cache<Node>,
    /// Pods, which must still be there.
    pub pods: Cache<Pod>,
    /// How long volumes may take to be made and bound (`bindTimeoutSeconds`).
    pub bind_timeout: Duration,
    /// Records events about waiting.
    pub recorder: Recorder,
}
