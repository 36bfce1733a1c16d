//! What all handlers share.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use control_openapi::Merged;
use control_proxy::egress::Kind;
use control_registry::{Registry, ServedResource};
use tokio_util::sync::CancellationToken;

use crate::aggregate::Aggregator;
use crate::components::Components;
use crate::config::Config;
use crate::discovery::Made;
use crate::fairness::Fairness;
use crate::lifecycle::Lifecycle;
use crate::local_storage::LocalStorage;
use crate::metrics::Metrics;
use crate::node_metrics::NodeMetrics;
use crate::pod_endpoints;
use crate::post_start_hooks::comparison::Rounds;
use crate::post_start_hooks::history::Marks;

/// What all handlers share.
pub struct Api {
    /// The objects that are served.
    pub registry: Arc<Registry>,
    /// How the server was configured.
    pub config: Config,
    /// Counters.
    pub metrics: Metrics,
    /// What other servers serve.
    pub aggregator: Aggregator,
    /// What nodes and pods use.
    pub node_metrics: NodeMetrics,
    /// The resource from which nodes read pods for network policy.
    pub(crate) pod_endpoints: Option<Arc<ServedResource>>,
    /// The resources from which nodes read claims and volumes of their own.
    pub(crate) local_storage: Option<LocalStorage>,
    /// The last discovery document of built-in and custom resources together.
    pub(crate) discovery: ArcSwapOption<Made>,
    /// What documents of OpenAPI last said of them.
    pub(crate) openapi: Merged,
    /// When the server was made.
    pub(crate) started: jiff::Timestamp,
    /// Other parts of the control plane.
    pub components: Components,
    /// How far the server is from its end.
    pub lifecycle: Lifecycle,
    /// Who is served first.
    pub(crate) fairness: Arc<Fairness>,
    /// Ends what callers in the process hold open, and the server's own tasks.
    pub shutdown: CancellationToken,
    /// Tells this run of the server from every other.
    pub(crate) instance: uuid::Uuid,
    pub(crate) history: Marks,
    /// Which cache is compared with the store next.
    pub(crate) rounds: Rounds,
    /// Knows the server's long-lived tasks.
    pub(crate) supervisor: control_supervise::Supervisor,
}

impl Deref for Api {
    type Target = Registry;

    #[inline]
    fn deref(&self) -> &Registry {
        &self.registry
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Api")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

impl Api {
    pub(crate) fn new(
        config: Config,
        registry: Arc<Registry>,
        metrics: Metrics,
        shutdown: CancellationToken,
    ) -> Self {
        let mut config = config;
        let to_cluster = config.egress.to(Kind::Cluster);
        config.kubelets = config.kubelets.map(|kubelets| kubelets.by(to_cluster));
        let seats = config.chain.max_requests + config.chain.max_mutating_requests;
        let core = |plural| registry.served("", "v1", plural);
        let pod_endpoints = core("pods").map(|pods| Arc::new(pod_endpoints::served(&pods)));
        let local_storage = core("persistentvolumeclaims")
            .zip(core("persistentvolumes"))
            .map(|(claims, volumes)| LocalStorage::of(&claims, &volumes));
        Self {
            fairness: Arc::new(Fairness::new(seats)),
            started: jiff::Timestamp::now(),
            lifecycle: Lifecycle::default(),
            registry,
            config,
            metrics,
            aggregator: Aggregator::default(),
            node_metrics: NodeMetrics::default(),
            pod_endpoints,
            local_storage,
            components: Components::default(),
            discovery: ArcSwapOption::empty(),
            openapi: Merged::default(),
            shutdown,
            instance: uuid::Uuid::new_v4(),
            history: Marks::default(),
            rounds: Rounds::default(),
            supervisor: control_supervise::Supervisor::current(),
        }
    }
}
