//! What all handlers share: the resources served, their caches, the store.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwapOption;
use control_admission::AdmissionChain;
use control_kinds::admission::ReservedAddresses;
use control_openapi::Merged;
use control_proxy::ServiceLister;
use control_store::{Precondition, Revision, Store};
use control_types::registry;
use control_types::status::Status;
use control_types::value::Value;
use rustc_hash::FxHashMap;
use tokio_util::sync::CancellationToken;

use crate::aggregate::Aggregator;
use crate::allocate::Allocators;
use crate::components::Components;
use crate::config::Config;
use crate::custom::Definitions;
use crate::custom::conversion::Converter;
use crate::discovery::Made;
use crate::duties::comparison::Rounds;
use crate::duties::history::Marks;
use crate::fairness::Fairness;
use crate::lifecycle::Lifecycle;
use crate::local_storage::LocalStorage;
use crate::metrics::Metrics;
use crate::node_metrics::NodeMetrics;
use crate::pod_endpoints;
use crate::write::store_error;
use control_proxy::egress::Kind;
use control_strategy::{ObjectCache, ServedVersion};

pub use control_strategy::name_of;
use control_watch_cache::storage::{self, Transform};
use control_watch_cache::{Behind, Cached, Caches, DecodeError, ResourceCache};

/// A resource in one version, as it is served, with its objects.
pub struct ServedResource {
    /// The resource in this version.
    pub version: Arc<ServedVersion>,
    /// The objects; `None` for resources that only answer (reviews, bindings).
    pub cache: Option<Arc<ResourceCache>>,
    /// Converts objects of a custom resource by its webhook, if it has one.
    pub converter: Option<Arc<Converter>>,
    /// Rewrites a cached object for a read-only view of another resource.
    pub projection: Option<Projection>,
}

/// Makes the object that is served of a cached one.
pub type Projection = fn(&Cached) -> Result<Value, DecodeError>;

/// What all handlers share.
pub struct Api {
    /// How the server was configured.
    pub config: Config,
    /// All caches.
    pub caches: Arc<Caches>,
    /// Counters.
    pub metrics: Metrics,
    /// Addresses and ports of Services.
    pub allocators: Allocators,
    /// What is served of custom resources.
    pub definitions: Definitions,
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
    /// The plugins of admission.
    pub(crate) admission: AdmissionChain,
    pub(crate) transform: Transform,
    /// Knows the server's long-lived tasks.
    pub(crate) supervisor: control_supervise::Supervisor,
    resources: FxHashMap<(&'static str, &'static str, &'static str), Arc<ServedResource>>,
    /// One of each group, in the version in which it is stored, if served.
    by_plural: FxHashMap<&'static str, Vec<Arc<ServedResource>>>,
}

/// The table of resources and the caches behind them, before the server runs.
pub(crate) struct Tables {
    pub resources: FxHashMap<(&'static str, &'static str, &'static str), Arc<ServedResource>>,
    pub caches: Vec<Arc<ResourceCache>>,
}

/// Builds the tables for all resources of the registry. Versions of one
/// resource share a cache.
pub(crate) fn tables() -> Tables {
    let mut caches: FxHashMap<String, Arc<ResourceCache>> = FxHashMap::default();
    let mut resources = FxHashMap::default();
    for resource in registry::resources() {
        let kind = control_kinds::of(resource.group, resource.kind);
        let stored = resource.verbs.contains(&"get") && resource.verbs.contains(&"create");
        let cache = stored.then(|| {
            let prefix = storage::prefix_of(resource);
            let kind = control_kinds::of(resource.storage.group, resource.kind);
            Arc::clone(
                caches
                    .entry(prefix.clone())
                    .or_insert_with(|| Arc::new(ResourceCache::new(kind.into(), &prefix))),
            )
        });
        let stored_as = (resource.storage.group, resource.storage.version);
        let version = ServedVersion::new(resource, kind.into(), stored_as);
        let served = ServedResource {
            version: Arc::new(version),
            cache,
            converter: None,
            projection: None,
        };
        resources.insert(
            (resource.group, resource.version, resource.plural),
            Arc::new(served),
        );
    }
    Tables {
        resources,
        caches: caches.into_values().collect(),
    }
}

fn by_plural(
    resources: &FxHashMap<(&'static str, &'static str, &'static str), Arc<ServedResource>>,
) -> FxHashMap<&'static str, Vec<Arc<ServedResource>>> {
    let mut all: FxHashMap<_, Vec<Arc<ServedResource>>> = FxHashMap::default();
    for served in resources.values() {
        let resource = served.resource;
        let groups = all.entry(resource.plural).or_default();
        match groups
            .iter_mut()
            .find(|one| one.resource.group == resource.group)
        {
            None => groups.push(Arc::clone(served)),
            Some(one) if served.stored_as.1 == resource.version => *one = Arc::clone(served),
            Some(_) => {}
        }
    }
    all
}

impl std::fmt::Debug for Api {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Api")
            .field("caches", &self.caches)
            .field("resources", &self.resources.len())
            .finish_non_exhaustive()
    }
}

impl Api {
    pub(crate) fn new(
        config: Config,
        caches: Arc<Caches>,
        resources: FxHashMap<(&'static str, &'static str, &'static str), Arc<ServedResource>>,
        transform: Transform,
        allocators: Allocators,
        definitions: Definitions,
        shutdown: CancellationToken,
    ) -> Self {
        let cache = |group: &str, plural: &str| {
            let known = registry::lookup(group, "v1", plural)?;
            let served = resources.get(&(known.group, known.version, known.plural))?;
            let cache: Arc<dyn ObjectCache> = served.cache.clone()?;
            Some(cache)
        };
        let reserved = ReservedAddresses {
            server: vec![config.advertise_address.to_canonical()],
            services: config.service_cidrs.clone(),
        };
        let settings = &config.chain.admission;
        let admission = AdmissionChain::new(settings, reserved, cache, &config.egress);
        let mut config = config;
        let to_cluster = config.egress.to(Kind::Cluster);
        config.kubelets = config.kubelets.map(|kubelets| kubelets.by(to_cluster));
        let seats = config.chain.max_requests + config.chain.max_mutating_requests;
        let pod_endpoints = resources
            .get(&("", "v1", "pods"))
            .map(|pods| Arc::new(pod_endpoints::served(pods)));
        let core = |plural| resources.get(&("", "v1", plural));
        let local_storage = core("persistentvolumeclaims")
            .zip(core("persistentvolumes"))
            .map(|(claims, volumes)| LocalStorage::of(claims, volumes));
        Self {
            fairness: Arc::new(Fairness::new(seats)),
            started: jiff::Timestamp::now(),
            lifecycle: Lifecycle::default(),
            config,
            caches,
            metrics: Metrics::default(),
            allocators,
            definitions,
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
            admission,
            transform,
            supervisor: control_supervise::Supervisor::current(),
            by_plural: by_plural(&resources),
            resources,
        }
    }

    /// The resource of a path.
    #[must_use]
    pub fn served(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ServedResource>> {
        if let Some(known) = registry::lookup(group, version, plural) {
            let key = (known.group, known.version, known.plural);
            return self.resources.get(&key).cloned();
        }
        self.definitions.now().get(group, version, plural).cloned()
    }

    /// The resource of a path, after what is served of custom resources has become
    /// as new as what this server knows of their definitions.
    ///
    /// # Errors
    /// When definitions cannot be read.
    pub async fn served_now(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<Option<Arc<ServedResource>>, Status> {
        if registry::lookup(group, version, plural).is_none() {
            self.definitions.refresh(self).await?;
        }
        Ok(self.served(group, version, plural))
    }

    /// A resource of the registry that is known to exist, in its first version.
    ///
    /// # Errors
    /// 404, when the registry does not have it after all.
    pub fn resource(&self, group: &str, plural: &str) -> Result<&Arc<ServedResource>, Status> {
        let groups = self.by_plural.get(plural).into_iter().flatten();
        groups
            .into_iter()
            .find(|served| served.resource.group == group)
            .ok_or_else(Status::unknown_path)
    }

    /// What is served of a kind in a version.
    #[must_use]
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<ServedResource>> {
        let known = self.resources.values().find(|served| {
            let resource = served.resource;
            (resource.group, resource.version, resource.kind) == (group, version, kind)
                && !served.is_review()
        });
        known.cloned().or_else(|| {
            let definitions = self.definitions.now();
            let custom = definitions.resources_of(group, version);
            custom
                .into_iter()
                .find(|served| served.resource.kind == kind)
                .cloned()
        })
    }

    /// All resources of the tables whose objects are stored, each in the version in
    /// which it is.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Arc<ServedResource>> {
        let mut seen = rustc_hash::FxHashSet::default();
        self.resources.values().filter(move |served| {
            served.cache.is_some()
                && served.is_stored_form()
                && seen.insert((served.resource.group, served.resource.plural))
        })
    }

    /// Whether anything is served in this group.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.resources.keys().any(|(known, ..)| *known == group)
            || self.definitions.now().has_group(group)
    }

    /// Whether anything is served in this group and version.
    #[must_use]
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.resources
            .keys()
            .any(|(known, in_version, _)| *known == group && *in_version == version)
            || self.definitions.now().has_version(group, version)
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.config.store
    }

    /// Waits until the caches are as new as the store.
    ///
    /// # Errors
    /// 504 when that takes too long.
    pub async fn catch_up(&self) -> Result<(), Status> {
        let Err(behind) = self.caches.catch_up().await else {
            return Ok(());
        };
        // Without a leader the store says so itself, and at once.
        if self.store().outage().is_some()
            && let Err(error) = self.store().latest().await
        {
            return Err(store_error(&error));
        }
        Err(too_far(behind))
    }

    /// Waits until the caches have reached a revision that a client named.
    ///
    /// # Errors
    /// 504 when that takes too long.
    pub async fn reach(&self, revision: Revision) -> Result<(), Status> {
        self.caches.reach(revision).await.map_err(too_far)
    }

    /// Waits until the cache of a resource has what a reader wants: a revision, or all
    /// that the store has. It is counted.
    ///
    /// # Errors
    /// 504 when that takes too long.
    pub async fn fresh(
        &self,
        served: &ServedResource,
        wanted: Option<Revision>,
    ) -> Result<(), Status> {
        let began = Instant::now();
        let found = match wanted {
            None => self.catch_up().await,
            Some(revision) => self.reach(revision).await,
        };
        if let Some(cache) = &served.cache {
            cache.counts().waited(began.elapsed());
            if wanted.is_none() {
                cache.counts().read_consistently(found.is_ok());
            }
        }
        found
    }

    /// An object of the newest snapshot, which may lag behind the store a
    /// little. For decisions that tolerate that.
    #[must_use]
    pub fn cached(&self, group: &str, plural: &str, key: &str) -> Option<Arc<Cached>> {
        self.resource(group, plural).ok()?.cache.as_ref()?.get(key)
    }

    /// An object by key, as new as the store.
    ///
    /// # Errors
    /// 404 when there is none, 504 when the cache lags.
    pub async fn get(&self, served: &ServedResource, key: &str) -> Result<Arc<Cached>, Status> {
        self.catch_up().await?;
        served
            .cache()?
            .get(key)
            .ok_or_else(|| served.not_found(key))
    }
}

impl ServiceLister for Api {
    fn service(&self, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
        let service = self.cached("", "services", &format!("{namespace}/{name}"));
        let service = service.map(|service| service.value().map_err(Status::internal));
        service.transpose()
    }

    fn endpoint_slices(&self, namespace: &str, service: &str) -> Result<Vec<Value>, Status> {
        let state = self
            .resource("discovery.k8s.io", "endpointslices")?
            .cache()?
            .state();
        let prefix = format!("{namespace}/");
        state
            .objects
            .prefixed(&prefix)
            .filter(|slice| slice.label("kubernetes.io/service-name") == Some(service))
            .map(|slice| slice.value().map_err(Status::internal))
            .collect()
    }
}

fn too_far(behind: Behind) -> Status {
    Status::too_large_resource_version(behind.wanted, behind.applied)
}

// === impl ServedResource ===

impl std::ops::Deref for ServedResource {
    type Target = ServedVersion;

    #[inline]
    fn deref(&self) -> &ServedVersion {
        &self.version
    }
}

impl std::fmt::Debug for ServedResource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ServedResource")
            .field("resource", &self.resource.plural)
            .field("api_version", &self.api_version)
            .finish_non_exhaustive()
    }
}

impl ServedResource {
    /// The cache.
    ///
    /// # Errors
    /// 405 for resources without stored objects.
    pub fn cache(&self) -> Result<&Arc<ResourceCache>, Status> {
        self.cache.as_ref().ok_or_else(Status::method_not_allowed)
    }

    /// The key of an object in the store.
    ///
    /// # Errors
    /// 405 for resources without stored objects.
    pub fn store_key(&self, key: &str) -> Result<bytes::Bytes, Status> {
        Ok(format!("{}{key}", self.cache()?.prefix()).into())
    }

    /// Whether the resource only answers questions and stores nothing.
    #[must_use]
    pub fn is_review(&self) -> bool {
        self.cache.is_none()
    }

    /// Whether a cached object lies in the very form in which it is served. Objects of
    /// a custom kind may have been stored in a version that was the stored one before.
    #[must_use]
    pub fn is_form_of(&self, object: &Cached) -> bool {
        // What a cached object states is looked at only if that matters.
        self.is_stored_form()
            && (!self.resource.is_custom() || object.api_version() == self.api_version)
    }

    /// The bytes of a cached object in the version that is served here.
    ///
    /// # Errors
    /// 500 when the bytes cannot be read.
    pub fn json(&self, object: &Cached) -> Result<bytes::Bytes, Status> {
        if self.is_form_of(object) {
            return Ok(object.json_bytes());
        }
        Ok(self.tree(object)?.to_vec().into())
    }

    /// A cached object as a tree in the version that is served here. What only a
    /// webhook converts must have been (see [`ServedResource::in_version`]).
    ///
    /// # Errors
    /// 500 when the bytes cannot be read.
    pub fn tree(&self, object: &Cached) -> Result<Value, Status> {
        if let Some(project) = self.projection {
            return project(object).map_err(Status::internal);
        }
        let mut value = object.value().map_err(Status::internal)?;
        if !self.is_form_of(object) {
            self.convert_by_tables(&mut value)?;
        }
        Ok(value)
    }
}

/// What must be true of the stored object for a write that was decided on
/// `revision`; 0: on its absence.
#[must_use]
pub(crate) fn precondition(revision: Revision) -> Precondition {
    if revision == 0 {
        Precondition::Absent
    } else {
        Precondition::ModRevision(revision)
    }
}
