//! What handlers of objects share.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use control_admission::{AdmissionChain, AdmissionMetrics, Settings as AdmissionSettings};
use control_kinds::admission::ReservedAddresses;
use control_proxy::Egress;
use control_store::Store;
use control_strategy::ObjectCache;
use control_watch_cache::Caches;
use control_watch_cache::storage::Transform;
use ipnet::IpNet;
use tokio_util::sync::CancellationToken;

use crate::allocate::Allocators;
use crate::authorizer::Authorizer;
use crate::custom::Definitions;
use crate::custom::conversion::ConversionWebhooks;
use crate::served_resource;
use crate::storage::Storage;

/// What handlers of objects share: storage, what Services get, admission, rights.
pub struct Registry {
    /// The objects.
    pub storage: Arc<Storage>,
    /// Addresses and ports of Services.
    pub allocators: Allocators,
    /// The plugins of admission.
    pub admission: AdmissionChain,
    /// Counters of admission.
    pub admission_metrics: AdmissionMetrics,
    /// What users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// How watches are served.
    pub watches: WatchSettings,
}

/// How watches are served.
#[derive(Debug, Clone, Copy)]
pub struct WatchSettings {
    /// How long a watch lasts at least whose client does not say.
    pub min_request_timeout: Duration,
    /// Whether a watch may begin with all objects.
    pub initial_events: bool,
}

/// What a registry is made of.
pub struct RegistryConfig<'a> {
    /// Where objects live.
    pub store: Arc<dyn Store>,
    /// What is encrypted at rest, and how.
    pub transform: Transform,
    /// By which ways webhooks are reached.
    pub egress: &'a Egress,
    /// Who converts custom objects.
    pub conversions: ConversionWebhooks,
    /// Addresses and ports of Services.
    pub allocators: Allocators,
    /// Which plugins of admission are on.
    pub admission: &'a AdmissionSettings,
    /// Counters of admission.
    pub admission_metrics: AdmissionMetrics,
    /// Where other hosts reach this server.
    pub advertise_address: IpAddr,
    /// Ranges of Service addresses.
    pub service_cidrs: &'a [IpNet],
    /// What users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// How watches are served.
    pub watches: WatchSettings,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Registry");
        shown
            .field("storage", &self.storage)
            .finish_non_exhaustive()
    }
}

impl Deref for Registry {
    type Target = Storage;

    #[inline]
    fn deref(&self) -> &Storage {
        &self.storage
    }
}

impl Registry {
    /// Reads the store and fills the caches, which follow it until `shutdown`. The feeder ends
    /// then.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn load(
        config: RegistryConfig<'_>,
        shutdown: CancellationToken,
    ) -> Result<(Self, control_supervise::TaskHandle), control_store::Error> {
        let RegistryConfig {
            store,
            transform,
            egress,
            conversions,
            ..
        } = config;
        let tables = served_resource::tables();
        let (definitions, custom) = Definitions::load(&store, &transform, &conversions).await?;
        let caches = Arc::new(Caches::new(
            tables.caches.into_iter().chain(custom),
            Arc::clone(&store),
            transform.clone(),
        ));
        let feeder = Arc::clone(&caches).start(shutdown).await?;
        let storage = Storage::new(
            store,
            caches,
            tables.resources,
            transform,
            definitions,
            conversions,
        );
        let cache = |group: &str, plural: &str| {
            let served = storage.served(group, "v1", plural)?;
            let cache: Arc<dyn ObjectCache> = served.cache.clone()?;
            Some(cache)
        };
        let reserved = ReservedAddresses {
            server: vec![config.advertise_address.to_canonical()],
            services: config.service_cidrs.to_vec(),
        };
        let admission = AdmissionChain::new(config.admission, reserved, cache, egress);
        let registry = Self {
            storage: Arc::new(storage),
            allocators: config.allocators,
            admission,
            admission_metrics: config.admission_metrics,
            authorizer: config.authorizer,
            watches: config.watches,
        };
        Ok((registry, feeder))
    }
}
