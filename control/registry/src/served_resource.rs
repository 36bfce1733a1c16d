//! A resource in one version with its objects.

use std::sync::Arc;

use control_strategy::ServedVersion;
use control_types::registry;
use control_types::status::Status;
use control_types::value::Value;
use control_watch_cache::{CacheEntry, DecodeError, ResourceCache, storage};
use rustc_hash::FxHashMap;

use crate::custom::conversion::Converter;

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
pub type Projection = fn(&CacheEntry) -> Result<Value, DecodeError>;

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
    /// Who converts its objects, if versions differ in more than their names.
    #[inline]
    #[must_use]
    pub fn converter(&self) -> Option<&Converter> {
        self.converter.as_deref()
    }

    /// Whether a stored object is another one here than by its name of the version.
    #[must_use]
    pub fn needs_conversion(&self, object: &CacheEntry) -> bool {
        self.converter().is_some() && object.api_version() != self.api_version
    }

    /// The cache.
    ///
    /// # Errors
    /// 405 for resources without stored objects.
    #[inline]
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
    #[inline]
    #[must_use]
    pub fn is_review(&self) -> bool {
        self.cache.is_none()
    }

    /// Whether a cached object lies in the very form in which it is served. Objects of
    /// a custom kind may have been stored in a version that was the stored one before.
    #[inline]
    #[must_use]
    pub fn is_form_of(&self, object: &CacheEntry) -> bool {
        // What a cached object states is looked at only if that matters.
        self.is_stored_form()
            && (!self.resource.is_custom() || object.api_version() == self.api_version)
    }

    /// The bytes of a cached object in the version that is served here.
    ///
    /// # Errors
    /// 500 when the bytes cannot be read.
    #[inline]
    pub fn json(&self, object: &CacheEntry) -> Result<bytes::Bytes, Status> {
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
    pub fn tree(&self, object: &CacheEntry) -> Result<Value, Status> {
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

/// Resources by group, version and plural.
pub type ResourceTable = FxHashMap<(&'static str, &'static str, &'static str), Arc<ServedResource>>;

/// The table of resources and the caches behind them, before the server runs.
pub struct Tables {
    pub resources: ResourceTable,
    pub caches: Vec<Arc<ResourceCache>>,
}

/// Builds the tables for all resources of the registry. Versions of one
/// resource share a cache.
pub fn tables() -> Tables {
    let mut caches: FxHashMap<String, Arc<ResourceCache>> = FxHashMap::default();
    let mut resources = FxHashMap::default();
    for resource in registry::resources() {
        let kind = control_kinds::find_kind(resource.group, resource.kind);
        let stored = resource.verbs.contains(&"get") && resource.verbs.contains(&"create");
        let cache = stored.then(|| {
            let prefix = storage::prefix_of(resource);
            let kind = control_kinds::find_kind(resource.storage.group, resource.kind);
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
