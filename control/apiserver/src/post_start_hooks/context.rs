//! What hooks work on.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use control_aggregation::Aggregator;
use control_auth::Access;
use control_registry::Registry;
use ipnet::IpNet;

use super::comparison::Rounds;
use super::history::Marks;
use crate::config::Config;
use crate::features::Gates;

/// What hooks work on.
pub(crate) struct HookContext {
    /// The objects that are served.
    pub registry: Arc<Registry>,
    /// What other servers serve.
    pub aggregator: Arc<Aggregator>,
    /// Authentication and authorization.
    pub access: Arc<dyn Access>,
    /// Where other hosts reach this server.
    pub address: SocketAddr,
    /// Where clients reach the servers together.
    pub shared_address: Option<SocketAddr>,
    /// Ranges of Service addresses.
    pub service_cidrs: Vec<IpNet>,
    /// Feature gates.
    pub gates: Gates,
    /// Tells this run of the server from every other.
    pub instance: uuid::Uuid,
    /// Up to where the store's history may be forgotten.
    pub history: Marks,
    /// Which cache is compared with the store next.
    pub rounds: Rounds,
}

impl Deref for HookContext {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.registry
    }
}

impl HookContext {
    pub(crate) fn new(
        config: &Config,
        registry: Arc<Registry>,
        aggregator: Arc<Aggregator>,
    ) -> Self {
        Self {
            registry,
            aggregator,
            access: Arc::clone(&config.access),
            address: config.address(),
            shared_address: config.chain.shared_address,
            service_cidrs: config.service_cidrs.clone(),
            gates: config.chain.gates,
            instance: uuid::Uuid::new_v4(),
            history: Marks::default(),
            rounds: Rounds::default(),
        }
    }
}
