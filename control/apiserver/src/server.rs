//! The server: started, served, stopped.

use std::convert::Infallible;
use std::sync::Arc;

use control_supervise::{TaskHandle, task};
use http::{Request, Response};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::util::BoxCloneSyncService;

use crate::api::Api;
use crate::chain::Chain;
use crate::config::Config;
use crate::error::Error;
use crate::features::Feature;
use crate::listen::{self, Tls};
use crate::metrics::Metrics;
use crate::post_start_hooks;
use crate::post_start_hooks::context::HookContext;
use control_metrics_server::{GROUP, VERSION};
use control_registry::allocate::Allocators;
use control_registry::custom::conversion::ConversionWebhooks;
use control_registry::{Registry, RegistryConfig, WatchSettings, custom};
use control_request::body::Body;
use control_watch_cache::storage::Transform;

/// The in-process transport and what the listener serves: give it a request,
/// with a [`control_access::User`] in its extensions, and it answers.
pub type Service = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// How often is looked whether requests are still open.
const DRAINED: std::time::Duration = std::time::Duration::from_millis(50);

/// The API server.
#[derive(Debug)]
pub struct ApiServer {
    api: Arc<Api>,
    chain: Chain,
    feeder: TaskHandle,
    upkeep: Vec<TaskHandle>,
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
        let (registry, aggregator) = (Arc::clone(&api.registry), Arc::clone(&api.aggregator));
        let hooks = Arc::new(HookContext::new(&api.config, registry, aggregator));
        post_start_hooks::first(&hooks).await?;
        // Access learns of the roles that were just made before anybody asks:
        // else the first requests would be refused that are allowed later.
        if let Err(status) = api.catch_up().await {
            tracing::warn!(%status, "access begins with what is known of roles so far");
        }
        let access = &api.config.access;
        access.attach(&api.registry, &api.metrics.access, &api.shutdown);
        if let Err(status) = api.aggregator.refresh() {
            tracing::warn!(%status, "other API servers are not known yet");
        }
        let mut upkeep = upkeep(&api, &shutdown);
        let stopping = api.lifecycle.stopping();
        upkeep.extend(post_start_hooks::start(&hooks, stopping, &shutdown));
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
fn upkeep(api: &Arc<Api>, shutdown: &CancellationToken) -> Vec<TaskHandle> {
    let (fairness, end) = (Arc::clone(&api.fairness), shutdown.clone());
    // What was configured before is in force when this returns.
    let mut first = Some(control_flow_control::follow(&fairness, end.clone()));
    let definitions = each_run(&api.storage, shutdown, custom::follow);
    let remotes = each_run(&api.aggregator, shutdown, control_aggregation::keep);
    let levels = move || {
        let again = || control_flow_control::follow(&fairness, end.clone());
        first.take().unwrap_or_else(again)
    };
    let task_of = |name| task(name).until(shutdown);
    let mut tasks = vec![
        task_of("definition-follower").spawn_restarting(definitions),
        task_of("api-service-follower").spawn_restarting(remotes),
        task_of("flow-control-follower").spawn_restarting(levels),
    ];
    if let Some(kubelets) = api.config.kubelets.clone().filter(|_| api.config.whole) {
        let (api, shutdown) = (Arc::clone(api), shutdown.clone());
        tasks.push(task("node-metrics").spawn_restarting(move || {
            let (metrics, aggregator) =
                (Arc::clone(&api.node_metrics), Arc::clone(&api.aggregator));
            let is_served = move || aggregator.serves_locally(GROUP, VERSION);
            control_metrics_server::keep(metrics, kubelets.clone(), is_served, shutdown.clone())
        }));
    }
    tasks
}

/// Gives a task what it needs, for each of its runs.
fn each_run<T, F>(
    of: &Arc<T>,
    shutdown: &CancellationToken,
    run: fn(Arc<T>, CancellationToken) -> F,
) -> impl FnMut() -> F + use<T, F> {
    let (of, shutdown) = (Arc::clone(of), shutdown.clone());
    move || run(Arc::clone(&of), shutdown.clone())
}
