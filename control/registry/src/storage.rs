//! Resources, their caches and the store behind them.

use std::sync::Arc;
use std::time::Instant;

use control_proxy::ServiceLister;
use control_store::{Precondition, Revision, Store};
use control_types::registry;
use control_types::status::Status;
use control_types::value::Value;
use control_watch_cache::storage::Transform;
use control_watch_cache::{CacheEntry, Caches, CatchUpTimeout};
use rustc_hash::FxHashMap;

use crate::counts::StorageCounts;
use crate::custom::Definitions;
use crate::custom::conversion::ConversionWebhooks;
use crate::served_resource::{ResourceTable, ServedResource};
use crate::store_error::store_error;

/// The objects of all resources: in memory to be read, in the store to be written.
pub struct Storage {
    store: Arc<dyn Store>,
    /// All caches.
    pub caches: Arc<Caches>,
    /// What is served of custom resources.
    pub definitions: Definitions,
    /// Counters.
    pub counts: StorageCounts,
    /// What is encrypted at rest, and how.
    pub transform: Transform,
    pub(crate) webhooks: ConversionWebhooks,
    resources: ResourceTable,
    /// One of each group, in the version in which it is stored, if served.
    by_plural: FxHashMap<&'static str, Vec<Arc<ServedResource>>>,
}

fn by_plural(resources: &ResourceTable) -> FxHashMap<&'static str, Vec<Arc<ServedResource>>> {
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

impl std::fmt::Debug for Storage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Storage")
            .field("caches", &self.caches)
            .field("resources", &self.resources.len())
            .finish_non_exhaustive()
    }
}

impl Storage {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        caches: Arc<Caches>,
        resources: ResourceTable,
        transform: Transform,
        definitions: Definitions,
        webhooks: ConversionWebhooks,
    ) -> Self {
        Self {
            store,
            caches,
            definitions,
            counts: StorageCounts::default(),
            transform,
            webhooks,
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
    pub fn stored(&self) -> impl Iterator<Item = &Arc<ServedResource>> {
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
        &self.store
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
    pub fn cached(&self, group: &str, plural: &str, key: &str) -> Option<Arc<CacheEntry>> {
        self.resource(group, plural).ok()?.cache.as_ref()?.get(key)
    }

    /// An object by key, as new as the store.
    ///
    /// # Errors
    /// 404 when there is none, 504 when the cache lags.
    pub async fn get(&self, served: &ServedResource, key: &str) -> Result<Arc<CacheEntry>, Status> {
        self.catch_up().await?;
        served
            .cache()?
            .get(key)
            .ok_or_else(|| served.not_found(key))
    }
}

impl ServiceLister for Storage {
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

fn too_far(behind: CatchUpTimeout) -> Status {
    Status::too_large_resource_version(behind.wanted, behind.applied)
}

/// What must be true of the stored object for a write that was decided on
/// `revision`; 0: on its absence.
#[must_use]
pub fn precondition(revision: Revision) -> Precondition {
    if revision == 0 {
        Precondition::Absent
    } else {
        Precondition::ModRevision(revision)
    }
}
