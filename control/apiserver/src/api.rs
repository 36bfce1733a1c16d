//! What all handlers share.

use std::ops::Deref;
use std::sync::Arc;

use control_aggregation::{Aggregator, LocalVersion};
use control_connect::Connector;
use control_discovery::{Discovery, OpenApi};
use control_flow_control::Fairness;
use control_metrics_server::NodeMetrics;
use control_proxy::egress::Kind;
use control_registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::components::Components;
use crate::config::Config;
use crate::health::HealthChecks;
use crate::lifecycle::Lifecycle;
use crate::local_storage::STORAGE;
use crate::metrics::Metrics;
use crate::pod_endpoints::NETWORK;
use crate::projected_group::{ProjectedGroup, ServedProjections};

/// The groups that are made of other resources.
const PROJECTED: [&ProjectedGroup; 2] = [&NETWORK, &STORAGE];

/// What all handlers share.
pub struct Api {
    /// The objects that are served.
    pub registry: Arc<Registry>,
    /// How the server was configured.
    pub config: Config,
    /// Counters.
    pub metrics: Metrics,
    /// What other servers serve.
    pub(crate) aggregator: Arc<Aggregator>,
    /// What nodes and pods use.
    pub(crate) node_metrics: Arc<NodeMetrics>,
    /// Connections to nodes, pods and Services.
    pub(crate) connector: Connector,
    /// The groups that are made of other resources.
    pub(crate) projected: [ServedProjections; 2],
    /// Which groups, versions and resources there are.
    pub(crate) discovery: Discovery,
    /// What they look like.
    pub(crate) openapi: Arc<OpenApi>,
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
        config.kubelets = config
            .kubelets
            .map(|kubelets| kubelets.by(to_cluster.clone()));
        let seats = config.chain.max_requests + config.chain.max_mutating_requests;
        let storage = || Arc::clone(&registry.storage);
        let aggregator = Arc::new(Aggregator::new(
            Arc::clone(&registry),
            config.egress.clone(),
            config.proxy_identity.clone(),
            local_versions(&config),
        ));
        let projected = PROJECTED.map(|group| group.serve(&registry));
        Self {
            fairness: Arc::new(Fairness::new(seats, storage())),
            discovery: Discovery::new(storage(), Arc::clone(&aggregator), config.address()),
            openapi: Arc::new(OpenApi::new(storage(), Arc::clone(&aggregator))),
            node_metrics: Arc::new(NodeMetrics::new(storage())),
            connector: Connector::new(config.kubelets.clone(), to_cluster),
            started: jiff::Timestamp::now(),
            lifecycle: Lifecycle::default(),
            registry,
            config,
            metrics,
            aggregator,
            projected,
            components: Components::default(),
            shutdown,
            supervisor: control_supervise::Supervisor::current(),
        }
    }

    /// The health checks of this server.
    #[must_use]
    pub fn health(&self) -> HealthChecks<'_> {
        HealthChecks {
            storage: &self.storage,
            supervisor: &self.supervisor,
            lifecycle: &self.lifecycle,
            counts: &self.metrics.health,
        }
    }
}

/// What a server serves beside the tables and lists among the groups of the cluster.
fn local_versions(config: &Config) -> Vec<LocalVersion> {
    let mut all = Vec::new();
    if config.whole {
        all.extend(PROJECTED.map(ProjectedGroup::local_version));
        if config.kubelets.is_some() {
            all.push(LocalVersion {
                group: control_metrics_server::GROUP,
                version: control_metrics_server::VERSION,
                entry: control_metrics_server::entry(),
            });
        }
    }
    all
}
