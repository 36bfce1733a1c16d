//! What admission needs of the API server that it is a part of.

use std::sync::Arc;

use control_access::Attributes as AccessAttributes;
use control_kinds::policies::Decision;
use control_proxy::ServiceLister;
use control_strategy::{CachedObject, ObjectCache, ServedVersion};
use control_types::status::Status;
use control_types::value::Value;
use futures::future::BoxFuture;

/// All that admission needs of the API server.
pub trait Cluster: Lister + ResourceMapper + Writer + Authorizer + ServiceLister {}

impl<T: Lister + ResourceMapper + Writer + Authorizer + ServiceLister> Cluster for T {}

/// Cached objects of built-in resources, which may lag behind the store a little.
pub trait Lister: Send + Sync {
    /// Returns the cache of a resource.
    fn cache(&self, group: &str, plural: &str) -> Option<&dyn ObjectCache>;

    /// Waits until the caches are as new as the store.
    fn catch_up(&self) -> BoxFuture<'_, Result<(), Status>>;
}

/// Resources of the API, custom ones among them.
pub trait ResourceMapper: Send + Sync {
    /// Returns the resource of a path.
    fn resource_of_path(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Arc<ServedVersion>>;

    /// Returns the resource of a kind.
    fn resource_of_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<Arc<ServedVersion>>;

    /// Returns all resources whose objects are those of `served`, itself among them: other
    /// versions, and the two groups of events.
    fn equivalents(&self, served: &ServedVersion) -> Vec<Arc<ServedVersion>>;

    /// Returns the cached objects of a resource.
    fn objects(&self, served: &ServedVersion) -> Option<Arc<dyn ObjectCache>>;

    /// Brings an object of one resource into the version of an equivalent one.
    ///
    /// # Errors
    /// When a webhook that converts cannot be asked.
    fn convert<'a>(
        &'a self,
        object: &'a mut Value,
        from: &'a ServedVersion,
        to: &'a ServedVersion,
    ) -> BoxFuture<'a, Result<(), Status>>;
}

/// The rights of users.
pub trait Authorizer: Send + Sync {
    /// Returns the reason why the user may not do this; none if the user may.
    fn denial(&self, attributes: &AccessAttributes) -> Option<String>;

    /// Decides whether the user may do this, with reasons as far as they are known at once.
    fn explain(&self, attributes: &AccessAttributes) -> Decision;
}

/// Makes a quota's next state of the present one; none where nothing is to be written.
pub type QuotaUpdate<'a> = &'a (dyn Fn(&Value) -> Result<Option<Value>, Status> + Send + Sync);

/// The objects that admission writes itself.
pub trait Writer: Send + Sync {
    /// Creates a namespace if it is missing.
    ///
    /// # Errors
    /// When it cannot be written.
    fn create_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Status>>;

    /// Updates the usage that a quota states, on condition that it is still what `update` was
    /// given. A quota that is gone limits nothing any more.
    ///
    /// # Errors
    /// What `update` returns, or that the quota cannot be written.
    fn update_quota<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        update: QuotaUpdate<'a>,
    ) -> BoxFuture<'a, Result<(), Status>>;
}

impl dyn Cluster + '_ {
    /// Returns a cached object.
    pub(crate) fn get(
        &self,
        group: &str,
        plural: &str,
        key: &str,
    ) -> Option<Arc<dyn CachedObject>> {
        self.cache(group, plural)?.get(key)
    }

    /// Returns a cached object as a tree; one that cannot be read counts as missing.
    pub(crate) fn object(&self, group: &str, plural: &str, key: &str) -> Option<Value> {
        if key.is_empty() {
            return None;
        }
        self.get(group, plural, key)?.value().ok()
    }

    /// Returns all cached objects of a resource, of one namespace if that is named.
    ///
    /// # Errors
    /// 500 when one cannot be read.
    pub(crate) fn list(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
    ) -> Result<Vec<Value>, Status> {
        let cache = self.cache(group, plural).ok_or_else(Status::unknown_path)?;
        trees(cache, namespace)
    }

    /// Returns an object that a request names, which may have been made a moment ago: one that
    /// the caches lack is looked for again when they are as new as the store.
    ///
    /// # Errors
    /// 504 when the caches lag.
    pub(crate) async fn find(
        &self,
        group: &str,
        plural: &str,
        key: &str,
    ) -> Result<Option<Arc<dyn CachedObject>>, Status> {
        if let Some(found) = self.get(group, plural, key) {
            return Ok(Some(found));
        }
        self.catch_up().await?;
        Ok(self.get(group, plural, key))
    }
}

/// Returns all objects of a namespace, or of all of them if it is empty.
///
/// # Errors
/// 500 when one cannot be read.
pub(crate) fn trees(cache: &dyn ObjectCache, namespace: &str) -> Result<Vec<Value>, Status> {
    let (_, objects) = cache.list(namespace);
    objects.iter().map(|object| object.value()).collect()
}
