//! A controller and its start.

use futures::future::BoxFuture;

use crate::context::Context;

/// A controller: its name and the function that starts it.
pub struct Controller {
    /// The name that the configuration selects it by; upstream's, where there
    /// is one.
    pub name: &'static str,
    /// The service account in `kube-system` that has the rights it needs, by
    /// the bootstrap policy (`system:controller:…`); empty: it acts as the reader.
    pub service_account: &'static str,
    /// Registers with the caches it needs, and returns its work: a future that
    /// ends after shutdown.
    pub start: fn(&Context) -> BoxFuture<'static, ()>,
}
