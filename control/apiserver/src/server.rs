//! The server: started, served, stopped.

use std::convert::Infallible;
use std::sync::Arc;

use control_supervise::{Running, task};
use http::{Request, Response};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::util::BoxCloneSyncService;

use crate::aggregate;
use crate::api::Api;
use crate::chain::Chain;
use crate::config::Config;
use crate::fairness;
use crate::features::Feature;
use crate::listen::{self, Tls};
use crate::metrics::Metrics;
use control_registry::allocate::Allocators;
use control_registry::custom;
use control_registry::custom::conversion::ConversionWebhooks;
use control_registry::{Registry, RegistryConfig, WatchSettings};
use control_request::body::Body;
use control_watch_cache::storage::Transform;

/// The in-process transport and what the listener serves: give it a request,
/// with a [`control_access::User`] in its extensions, and it answers.
pub type Service = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// How often is looked whether requests are still open.
const DRAINED: std::time::Duration = std::time::Duration::from_millis(50);

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[source] control_store::Error),
    /// No range for Service addresses, or more than one of a family.
    #[error("service address ranges must be one, or one of each family: {0}")]
    ServiceRange(String),
    /// What every cluster has could not be made.
    #[error("cannot look after `{hook}` at start")]
    PostStartHook {
        /// What could not be done.
        hook: &'static str,
        /// What the API answered.
        #[source]
        source: control_types::status::Status,
    },
}

/// The API server.
#[derive(Debug)]
pub struct ApiServer {
    api: Arc<Api>,
    chain: Chain,
    feeder: Running,
    upkeep: Vec<Running>,
}

impl ApiServer {
    /// Reads the store, fills the caches and makes the objects that every
    /// cluster has. Once this returns, requests are answered.
    ///
    /// # Errors
    /// When the store or the configuration cannot be used.
    pub async fn new(config: Config) -> Result<Self, Error> {
        let allocators = Allocators::new(&config.service_cidrs, config.node_ports)
            .map_err(Error::ServiceRange)?;
        let shutdown = CancellationToken::new();
        let (metrics, counters) = Metrics::new();
        let settings = &config.chain;
        let registry = RegistryConfig {
            store: Arc::clone(&config.store),
            transform: Transform::new(config.encryption.clone()),
            egress: &config.egress,
            conversions: ConversionWebhooks {
                egress: config.egress.clone(),
                counts: counters.conversions,
            },
            allocators,
            admission: &settings.admission,
            admission_metrics: counters.admission,
            advertise_address: config.advertise_address,
            service_cidrs: &config.service_cidrs,
            authorizer: Arc::clone(&config.access) as _,
            watches: WatchSettings {
                min_request_timeout: settings.min_request_timeout,
                initial_events: settings.gates.enabled(Feature::WatchList),
            },
        };
        let (registry, feeder) = Registry::load(registry, shutdown.clone())
            .await
            .map_err(Error::Store)?;
        let api = Arc::new(Api::new(
            config,
            Arc::new(registry),
            metrics,
            shutdown.clone(),
        ));
        api.allocators.rebuild(&api);
        crate::post_start_hooks::first(&api).await?;
        // Access learns of the roles that were just made before anybody asks:
        // else the first requests would be refused that are allowed later.
        if let Err(status) = api.catch_up().await {
            tracing::warn!(%status, "access begins with what is known of roles so far");
        }
        api.config.access.attach(&api);
        if let Err(status) = api.aggregator.refresh(&api) {
            tracing::warn!(%status, "other API servers are not known yet");
        }
        let upkeep = upkeep(&api, &shutdown);
        let chain = Chain::new(Arc::clone(&api));
        Ok(Self {
            api,
            chain,
            feeder,
            upkeep,
        })
    }

    /// What all handlers share; for components in the same process that need
    /// more than the service.
    #[must_use]
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// The in-process transport.
    #[must_use]
    pub fn service(&self) -> Service {
        let chain = self.chain.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request| {
            let chain = chain.clone();
            async move { Ok(chain.answer(request).await) }
        }))
    }

    /// As [`ApiServer::serve_with`], where nobody calls the server in the process.
    pub async fn serve(
        self,
        listeners: impl IntoIterator<Item = TcpListener>,
        tls: Tls,
        shutdown: CancellationToken,
    ) {
        self.serve_with(listeners, tls, shutdown, async {}).await;
    }

    /// Serves listeners until `shutdown`: then the server is not ready any more, and
    /// its address is taken back. After the delay that the settings name it ends
    /// watches and lets open requests finish. Then it waits for `callers`, by which
    /// those in the process are told to end and do, and stops its own tasks. The
    /// in-process transport must not be used afterwards.
    pub async fn serve_with(
        self,
        listeners: impl IntoIterator<Item = TcpListener>,
        tls: Tls,
        shutdown: CancellationToken,
        callers: impl Future<Output = ()>,
    ) {
        let settings = &self.api.config.chain;
        let close = CancellationToken::new();
        let grace = settings.shutdown_grace;
        let system = match listen::SystemRuntime::start() {
            Ok(system) => Some(system),
            Err(error) => {
                tracing::warn!(%error, "nodes are served by the threads that serve everybody");
                None
            }
        };
        let system = system.as_ref();
        let serving = futures::future::join_all(listeners.into_iter().map(|listener| {
            let chain = self.chain.clone();
            listen::serve(listener, tls.clone(), chain, system, grace, close.clone())
        }));
        let ending = async {
            shutdown.cancelled().await;
            let lifecycle = &self.api.lifecycle;
            lifecycle.stop();
            tokio::time::sleep(settings.shutdown_delay).await;
            // Watches last as long as their clients: they must be ended, or
            // the connections never drain.
            lifecycle.drain();
            self.api.caches.rouse();
            if settings.shutdown_retry_after {
                lifecycle.refuse();
                let drained = async {
                    while lifecycle.open() > 0 {
                        tokio::time::sleep(DRAINED).await;
                    }
                };
                // What is still open then is given up by the listeners.
                let _ = tokio::time::timeout(grace, drained).await;
            }
            close.cancel();
        };
        let (_, ()) = tokio::join!(serving, ending);
        self.api.lifecycle.finish_drain();
        callers.await;
        self.api.shutdown.cancel();
        futures::future::join_all(self.upkeep).await;
        self.feeder.await;
        if let Some(tracer) = &settings.tracer {
            tracer.close().await;
        }
        if let Some(audit) = &settings.audit {
            audit.close().await;
        }
    }
}

/// Starts what the server does besides answering requests.
fn upkeep(api: &Arc<Api>, shutdown: &CancellationToken) -> Vec<Running> {
    // Makes what a task needs for each of its runs.
    let each = || {
        let (api, shutdown) = (Arc::clone(api), shutdown.clone());
        move || (Arc::clone(&api), shutdown.clone())
    };
    let (definitions, remotes, metrics, levels) = (each(), each(), each(), each());
    // What was configured before is in force when this returns.
    let mut first = Some(fairness::follow(api, shutdown.clone()));
    let mut tasks = vec![
        task("definition-follower")
            .until(shutdown)
            .spawn_restarting(move || {
                let (api, shutdown) = definitions();
                custom::follow(Arc::clone(&api.storage), shutdown)
            }),
        task("api-service-follower")
            .until(shutdown)
            .spawn_restarting(move || {
                let (api, shutdown) = remotes();
                aggregate::keep(api, shutdown)
            }),
        // It returns at once where nobody asks nodes.
        task("node-metrics").spawn_restarting(move || {
            let (api, shutdown) = metrics();
            crate::node_metrics::keep(api, shutdown)
        }),
        task("flow-control-follower")
            .until(shutdown)
            .spawn_restarting(move || {
                let (api, shutdown) = levels();
                first
                    .take()
                    .unwrap_or_else(|| fairness::follow(&api, shutdown))
            }),
    ];
    tasks.extend(crate::post_start_hooks::start(api, shutdown));
    tasks
}
