//! Aggregation: groups and versions of the API that other servers serve, as
//! APIService objects say (`kube-aggregator` in stock).
//!
//! ```text
//! APIServices ──▶ Snapshot of Remotes ──▶ proxy       requests, with the caller's identity
//!                        │                discovery   their groups among ours
//!                        ▼
//!                  keep: one task a Remote: can it be reached (condition Available),
//!                        which resources does it have
//! ```
//!
//! A request for a group and version that this server serves itself costs one
//! look at an empty snapshot.

mod available;
mod discover;
mod headers;
mod merge;
mod proxy;
mod remote;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};
use control_metrics::{Kind, Page};
use control_pki::Issued;
use control_store::Revision;
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use rustc_hash::FxHashMap;

use control_openapi::Swagger;

use crate::api::Api;
use crate::local_storage;
use crate::node_metrics;
use crate::pod_endpoints;
use control_registry::conditions::is_true;
use control_request::RequestInfo;

pub(crate) use available::keep;
pub(crate) use merge::{Form, join, merge};
pub(crate) use proxy::proxy;
pub(crate) use remote::Remote;

/// The group of the registrations.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";
/// Their plural.
pub(crate) const PLURAL: &str = "apiservices";

/// The certificate by which extension API servers know this one, so that they
/// believe whom it names as a request's user. May be replaced while the server
/// runs. Cheap to clone.
#[derive(Clone)]
pub struct ProxyIdentity(Arc<ArcSwap<Issued>>);

impl ProxyIdentity {
    /// Shows this certificate, of the front-proxy authority.
    #[must_use]
    pub fn new(issued: Issued) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(issued)))
    }

    /// Shows another one on connections that are made from now on.
    pub fn replace(&self, issued: Issued) {
        self.0.store(Arc::new(issued));
    }

    fn now(&self) -> Arc<Issued> {
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

/// What other servers serve, at the moment.
#[derive(Debug, Default)]
pub struct Aggregator {
    snapshot: ArcSwap<Snapshot>,
    /// This server as the one that serves groups beside the tables.
    own: OnceLock<Vec<Arc<Remote>>>,
    /// Counts changes of what discovery says of them.
    generation: AtomicU64,
    /// How often which could no longer be reached, and why.
    lost: Lost,
}

/// How often an API service turned unavailable, by its name and the reason.
#[derive(Debug, Default)]
struct Lost(Mutex<BTreeMap<(String, &'static str), u64>>);

impl Lost {
    fn count(&self, name: &str, reason: &'static str) {
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
pub(crate) struct Snapshot {
    /// The revision of the APIServices that it shows.
    revision: Revision,
    identity: Option<Arc<Issued>>,
    /// By group.
    remotes: FxHashMap<String, Vec<Arc<Remote>>>,
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
    /// What other servers serve now.
    pub(crate) fn now(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// The number of the state that discovery shows.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Discovery says something else from now on.
    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The server that a request is for, if it is not this one.
    pub(crate) fn of(&self, info: &RequestInfo) -> Option<Arc<Remote>> {
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
        (document.is_none() || !found.is_own()).then(|| Arc::clone(found))
    }

    /// The documents of OpenAPI 3 that other servers have: places and addresses.
    pub(crate) fn documents(&self) -> Vec<(String, String)> {
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
    pub(crate) fn swaggers(&self) -> Vec<Arc<Swagger>> {
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
    pub(crate) fn refresh(&self, api: &Api) -> Result<(), Status> {
        let state = api.resource(GROUP, PLURAL)?.cache()?.state();
        let before = self.snapshot.load_full();
        let identity = api.config.proxy_identity.as_ref().map(ProxyIdentity::now);
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
                _ => {
                    let egress = &api.config.egress;
                    Arc::new(Remote::of(&service, identity.clone(), egress))
                }
            };
            remote.set_available(is_true(&service, "Available"));
            remotes
                .entry(remote.group.clone())
                .or_default()
                .push(remote);
        }
        for own in self.own.get_or_init(|| own(api)) {
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
}

/// The groups that this server serves beside the tables.
fn own(api: &Api) -> Vec<Arc<Remote>> {
    let served = own_versions(api).into_iter();
    served
        .map(|(group, version)| {
            let entry = match group {
                pod_endpoints::GROUP => pod_endpoints::entry(),
                local_storage::GROUP => local_storage::entry(),
                _ => node_metrics::entry(),
            };
            Arc::new(Remote::own(group, version, entry))
        })
        .collect()
}

/// Group and version of what this server serves beside the tables and lists among the
/// groups of the cluster.
pub(crate) fn own_versions(api: &Api) -> Vec<(&'static str, &'static str)> {
    let mut all = Vec::new();
    if api.config.whole {
        all.push((pod_endpoints::GROUP, pod_endpoints::VERSION));
        all.push((local_storage::GROUP, local_storage::VERSION));
        if api.config.kubelets.is_some() {
            all.push((node_metrics::GROUP, node_metrics::VERSION));
        }
    }
    all
}

/// Writes which API services cannot be reached.
pub(crate) fn write(api: &Api, page: &mut Page) {
    let name = "aggregator_unavailable_apiservice";
    page.family(
        name,
        Kind::Gauge,
        "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
    );
    let cache = api.resource(GROUP, PLURAL).ok();
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
    api.aggregator.lost.write(page);
}

/// Whether an APIService names another server.
pub(crate) fn is_remote(service: &Value) -> bool {
    service
        .path(&["spec", "service"])
        .is_some_and(|service| !service.is_null())
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
