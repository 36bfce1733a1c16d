//! The other servers, as the APIServices in the cache name them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use control_metrics::{Kind, Page};
use control_pki::CertificateKeyPair;
use control_store::Revision;
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use rustc_hash::FxHashMap;

use control_openapi::Swagger;

use crate::api_service::{GROUP, PLURAL, is_remote};
use crate::remote::Remote;
use control_proxy::Egress;
use control_registry::Registry;
use control_registry::conditions::is_true;
use control_request::RequestInfo;

/// The certificate by which extension API servers know this one, so that they
/// believe whom it names as a request's user. May be replaced while the server
/// runs. Cheap to clone.
#[derive(Clone)]
pub struct ProxyIdentity(Arc<ArcSwap<CertificateKeyPair>>);

impl ProxyIdentity {
    /// Shows this certificate, of the front-proxy authority.
    #[must_use]
    pub fn new(issued: CertificateKeyPair) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(issued)))
    }

    /// Shows another one on connections that are made from now on.
    pub fn replace(&self, issued: CertificateKeyPair) {
        self.0.store(Arc::new(issued));
    }

    fn now(&self) -> Arc<CertificateKeyPair> {
        self.0.load_full()
    }
}

impl std::fmt::Debug for ProxyIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ProxyIdentity")
            .finish_non_exhaustive()
    }
}

/// A version of a group that this server serves beside the tables, until another server is
/// registered for it.
#[derive(Debug)]
pub struct LocalVersion {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// What discovery says of it, in the aggregated form.
    pub entry: Value,
}

/// What other servers serve, at the moment.
#[derive(Debug)]
pub struct Aggregator {
    pub(crate) registry: Arc<Registry>,
    egress: Egress,
    identity: Option<ProxyIdentity>,
    snapshot: ArcSwap<Snapshot>,
    /// This server as the one that serves groups beside the tables.
    pub(crate) local: Vec<Arc<Remote>>,
    /// Counts changes of what discovery says of them.
    generation: AtomicU64,
    /// How often which could no longer be reached, and why.
    pub(crate) lost: LostCounts,
}

/// How often an API service turned unavailable, by its name and the reason.
#[derive(Debug, Default)]
pub(crate) struct LostCounts(Mutex<BTreeMap<(String, &'static str), u64>>);

impl LostCounts {
    pub(crate) fn count(&self, name: &str, reason: &'static str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry((name.to_owned(), reason)).or_default() += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    fn write(&self, page: &mut Page) {
        // Less the usual end of its name it would be called like the gauge.
        page.bare_counter(
            "aggregator_unavailable_apiservice_total",
            "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
        );
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((name, reason), count) in &*all {
            let labels = [("name", name.as_str()), ("reason", reason)];
            page.sample(
                "aggregator_unavailable_apiservice_total",
                &labels,
                *count as f64,
            );
        }
    }
}

/// The other servers at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The revision of the APIServices that it shows.
    revision: Revision,
    identity: Option<Arc<CertificateKeyPair>>,
    /// By group.
    pub(crate) remotes: FxHashMap<String, Vec<Arc<Remote>>>,
}

impl Snapshot {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Remote>> {
        self.remotes.values().flatten()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.remotes.is_empty()
    }

    /// The one that serves a group's version.
    pub fn get(&self, group: &str, version: &str) -> Option<&Arc<Remote>> {
        let versions = self.remotes.get(group)?;
        versions.iter().find(|remote| remote.version == version)
    }

    /// Those of a group.
    pub fn of_group(&self, group: &str) -> &[Arc<Remote>] {
        self.remotes.get(group).map_or(&[], Vec::as_slice)
    }
}

impl Aggregator {
    /// Follows the APIServices of `registry`; `identity` is what this server shows to other
    /// servers, `local` what it serves beside the tables.
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        egress: Egress,
        identity: Option<ProxyIdentity>,
        local: Vec<LocalVersion>,
    ) -> Self {
        let local = local
            .into_iter()
            .map(|one| Arc::new(Remote::local(one.group, one.version, one.entry)));
        Self {
            registry,
            egress,
            identity,
            snapshot: ArcSwap::default(),
            local: local.collect(),
            generation: AtomicU64::default(),
            lost: LostCounts::default(),
        }
    }

    /// What other servers serve now.
    pub fn now(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// The number of the state that discovery shows.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether this server itself answers for a group's version beside the tables.
    #[must_use]
    pub fn serves_locally(&self, group: &str, version: &str) -> bool {
        let now = self.now();
        now.get(group, version).is_some_and(|one| one.is_local())
    }

    /// Discovery says something else from now on.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The server that a request is for, if it is not this one.
    pub fn remote_for(&self, info: &RequestInfo) -> Option<Arc<Remote>> {
        let now = self.now();
        if now.is_empty() {
            return None;
        }
        if info.is_resource {
            return now.get(&info.group, &info.version).cloned();
        }
        let document = info.path.strip_prefix("/openapi/v3");
        let (group, version) = group_version(document.unwrap_or(&info.path))?;
        let found = now.get(group, version)?;
        // This server has no document of what it serves for others.
        (document.is_none() || !found.is_local()).then(|| Arc::clone(found))
    }

    /// The documents of OpenAPI 3 that other servers have: places and addresses.
    pub fn documents(&self) -> Vec<(String, String)> {
        let now = self.now();
        now.all()
            .filter_map(|remote| {
                let known = remote.discovered.load_full()?;
                let place = remote.path().trim_start_matches('/').to_owned();
                Some((place, known.document.clone()?))
            })
            .collect()
    }

    /// What the documents of `OpenAPI` 2 of other servers say of what they serve here, in
    /// the order in which they count.
    pub fn swaggers(&self) -> Vec<Arc<Swagger>> {
        let now = self.now();
        let mut all: Vec<_> = now.all().collect();
        all.sort_by(|a, b| {
            let place = |one: &Remote| (-one.group_priority, -one.version_priority);
            (place(a), &a.name).cmp(&(place(b), &b.name))
        });
        let all = all.into_iter().filter(|one| one.is_available());
        all.filter_map(|one| one.discovered.load_full()?.swagger.clone())
            .collect()
    }

    /// Makes the snapshot as new as the cache of APIServices. Those whose
    /// registration is the same as before stay who they were.
    ///
    /// # Errors
    /// When an APIService cannot be read.
    pub fn refresh(&self) -> Result<(), Status> {
        let state = self.registry.resource(GROUP, PLURAL)?.cache()?.state();
        let before = self.snapshot.load_full();
        let identity = self.identity.as_ref().map(ProxyIdentity::now);
        if before.revision == state.revision
            && before.identity.as_ref().map(Arc::as_ptr) == identity.as_ref().map(Arc::as_ptr)
        {
            return Ok(());
        }
        let mut remotes: FxHashMap<String, Vec<Arc<Remote>>> = FxHashMap::default();
        for object in state.objects.iter() {
            let service = object.value().map_err(Status::internal)?;
            if !is_remote(&service) {
                continue;
            }
            let old = before
                .all()
                .find(|remote| remote.name == meta::name(&service));
            let remote = match old {
                Some(old) if old.is_of(&service, identity.as_ref()) => Arc::clone(old),
                _ => Arc::new(Remote::new(&service, identity.clone(), &self.egress)),
            };
            remote.set_available(is_true(&service, "Available"));
            remotes
                .entry(remote.group.clone())
                .or_default()
                .push(remote);
        }
        for own in &self.local {
            let of_group = remotes.entry(own.group.clone()).or_default();
            // Another server is asked instead, if one is registered.
            if of_group.iter().all(|other| other.version != own.version) {
                of_group.push(Arc::clone(own));
            }
        }
        for versions in remotes.values_mut() {
            versions.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        let same = before.all().count() == remotes.values().map(Vec::len).sum::<usize>()
            && remotes
                .values()
                .flatten()
                .all(|new| before.all().any(|old| Arc::ptr_eq(old, new)));
        self.snapshot.store(Arc::new(Snapshot {
            revision: state.revision,
            identity,
            remotes,
        }));
        if !same {
            self.changed();
        }
        Ok(())
    }

    /// Writes which API services cannot be reached.
    pub fn write_metrics(&self, page: &mut Page) {
        let name = "aggregator_unavailable_apiservice";
        page.family(
            name,
            Kind::Gauge,
            "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
        );
        let cache = self.registry.resource(GROUP, PLURAL).ok();
        let Some(cache) = cache.and_then(|served| served.cache.as_ref()) else {
            return;
        };
        for object in cache.state().objects.iter() {
            let Ok(service) = object.value() else {
                continue;
            };
            let unavailable = !is_true(&service, "Available");
            let labels = [("name", meta::name(&service))];
            page.sample(name, &labels, f64::from(u8::from(unavailable)));
        }
        self.lost.write(page);
    }
}

/// Group and version of a discovery path: `/apis/<group>/<version>`, `/api/v1`.
fn group_version(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_matches('/');
    if let Some(version) = path.strip_prefix("api/") {
        return (!version.contains('/')).then_some(("", version));
    }
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    (!version.contains('/')).then_some((group, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_paths_name_a_group_and_a_version() {
        for (path, expected) in [
            ("/apis/a.example/v1", Some(("a.example", "v1"))),
            ("/apis/a.example/v1/", Some(("a.example", "v1"))),
            ("/api/v1", Some(("", "v1"))),
            ("/apis/a.example", None),
            ("/apis", None),
            ("/apis/a/b/c", None),
            ("/healthz", None),
        ] {
            assert_eq!(group_version(path), expected, "{path}");
        }
    }
}
