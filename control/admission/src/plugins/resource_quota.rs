//! `ResourceQuota`: a write takes what it needs from the quotas of its namespace
//! before it is stored, or is refused.
//!
//! A quota is charged by a write of its own, on the condition that it is still as it
//! was when the charge was found to fit. So requests that come at the same time,
//! through this server or another one of the same store, never get more than there
//! is. What was charged for an object that then was not stored is found by the
//! controller that counts anew.
//!
//! A quota holds from its creation on: usage that its status lacks is counted by the
//! first request that needs it, and stored with that request's charge. A namespace
//! without a cached quota is looked up in the store, at most twice a minute: another API
//! server of the same store may have made one.

use std::hash::BuildHasher as _;
use std::sync::{Mutex as SyncMutex, PoisonError};
use std::time::{Duration, Instant};

use compact_str::CompactString;
use control_kinds::quota::{self as rules, Charge, CountedObjects, Limits, Request, Unpaid};
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use rustc_hash::{FxBuildHasher, FxHashMap};
use tokio::sync::Mutex;

use control_request::plain_error;

use crate::admission::Change;
use crate::attributes::Attributes;
use crate::cluster::trees;

/// How many namespaces are charged at the same time at most.
const TURNS: usize = 64;

/// Takes turns: charges of one namespace follow each other instead of failing each
/// other's condition. Two namespaces may have one turn; no more comes of that than
/// waiting.
#[derive(Debug)]
struct Turns([Mutex<()>; TURNS]);

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl Turns {
    fn turn(&self, namespace: &str) -> &Mutex<()> {
        let hash = FxBuildHasher.hash_one(namespace);
        let at = usize::try_from(hash % (TURNS as u64)).unwrap_or_default();
        &self.0[at]
    }
}

/// How long the answer that a namespace has no quota holds.
const LIVE_LOOKUP_TTL: Duration = Duration::from_secs(30);
/// For how many namespaces such an answer is kept.
const LIVE_LOOKUPS: usize = 1024;

/// The namespaces whose quotas were looked up in the store lately, and when.
#[derive(Debug, Default)]
struct LiveLookups(SyncMutex<FxHashMap<CompactString, Instant>>);

impl LiveLookups {
    /// Whether the namespace is to be looked up now; if so, the lookup is noted.
    fn begin(&self, namespace: &str, now: Instant) -> bool {
        let mut lookups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < LIVE_LOOKUP_TTL;
        if lookups.get(namespace).is_some_and(is_recent) {
            return false;
        }
        if lookups.len() >= LIVE_LOOKUPS {
            lookups.retain(|_, at| is_recent(at));
        }
        if lookups.len() >= LIVE_LOOKUPS {
            lookups.clear();
        }
        lookups.insert(namespace.into(), now);
        true
    }

    /// Forgets a lookup that failed.
    fn failed(&self, namespace: &str) {
        let mut lookups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lookups.remove(namespace);
    }
}

/// The plugin. Quotas are charged last of all, right before an object is stored.
#[derive(Debug)]
pub struct ResourceQuota {
    /// Whether it is on.
    is_enabled: bool,
    /// What may not be without a quota.
    limits: Limits,
    /// Order among charges.
    turns: Turns,
    /// Namespaces that had no quota when they were looked up.
    lookups: LiveLookups,
}

impl ResourceQuota {
    pub(crate) fn new(is_enabled: bool, limits: Limits) -> Self {
        Self {
            is_enabled,
            limits,
            turns: Turns::default(),
            lookups: LiveLookups::default(),
        }
    }

    /// Returns what a write owes, by the quotas as they are known here. Usage that a quota's
    /// status lacks is counted with caches as new as the store.
    ///
    /// # Errors
    /// 403 when it is too much, or does not say how much it is; 500 when no quota covers
    /// a scope that one must cover; 504 when the caches are too far behind to count.
    pub async fn assess(
        &self,
        attributes: &Attributes<'_>,
        change: Change<'_>,
    ) -> Result<Vec<Charge>, Status> {
        let resource = attributes.served.resource;
        let namespace = meta::namespace(change.new);
        let request = Request {
            group: resource.group,
            plural: resource.plural,
            subresource: attributes.subresource,
            new: change.new,
            old: change.old,
        };
        if !resource.namespaced || !request.is_measured() || !self.is_enabled {
            return Ok(Vec::new());
        }
        let (cluster, limits) = (attributes.cluster, &self.limits);
        let known = || cluster.list("", "resourcequotas", namespace);
        let mut quotas = known()?;
        if quotas.is_empty() && self.lookups.begin(namespace, Instant::now()) {
            let caught_up = cluster.catch_up().await;
            caught_up.inspect_err(|_| self.lookups.failed(namespace))?;
            quotas = known()?;
        }
        if quotas.is_empty() && limits.is_empty() {
            return Ok(Vec::new());
        }
        let classes = if resource.plural == "resourceclaims" {
            classes(attributes)?
        } else {
            Vec::new()
        };
        let now = jiff::Timestamp::now();
        let (group, plural) = (resource.group, resource.plural);
        let is_unknown = |quota: &Value| rules::is_usage_unknown(quota, group, plural, &classes);
        let mut counted = FxHashMap::default();
        if quotas.iter().any(is_unknown) {
            cluster.catch_up().await?;
            // Somebody may have counted meanwhile.
            quotas = known()?;
            let objects = cluster.objects(attributes.served);
            let objects = objects.ok_or_else(Status::method_not_allowed)?;
            let all = CountedObjects {
                group: group.to_owned(),
                plural: plural.to_owned(),
                objects: trees(&*objects, namespace)?,
            };
            for quota in quotas.iter_mut().filter(|quota| is_unknown(quota)) {
                let usage = rules::count_unknown(quota, &all, &classes, now);
                rules::fill_unknown(quota, &usage);
                counted.insert(meta::name(quota).to_owned(), usage);
            }
        }
        let assessed = rules::assess(&quotas, &request, limits, &classes, now);
        let mut charges = assessed.map_err(|why| match why {
            Unpaid::Refused(why) => attributes.refuse(change.new, &why),
            Unpaid::Uncovered(why) => plain_error(why),
        })?;
        for charge in &mut charges {
            charge.counted = counted.remove(&charge.quota).unwrap_or_default();
        }
        Ok(charges)
    }

    /// Returns what a new object owes, by quotas that are as new as the store if need be.
    ///
    /// # Errors
    /// 403 when it is too much, or does not say how much it is.
    pub async fn assess_new(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<Vec<Charge>, Status> {
        let change = Change {
            new: object,
            old: None,
        };
        match self.assess(attributes, change).await {
            Ok(charges) => Ok(charges),
            // There may be more again than is known here.
            Err(_) => {
                attributes.cluster.catch_up().await?;
                self.assess(attributes, change).await
            }
        }
    }

    /// Takes what is owed from the quotas. A dry run takes nothing.
    ///
    /// # Errors
    /// 403 when there is not enough; what a quota before has given stays taken.
    pub async fn charge(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        charges: &[Charge],
    ) -> Result<(), Status> {
        if charges.is_empty() || attributes.dry_run {
            return Ok(());
        }
        let namespace = meta::namespace(object);
        let _turn = self.turns.turn(namespace).lock().await;
        for charge in charges {
            let update = |quota: &Value| {
                let mut new = quota.clone();
                rules::fill_unknown(&mut new, &charge.counted);
                let paid =
                    rules::pay(&new, charge).map_err(|why| attributes.refuse(object, &why))?;
                Ok(paid.map(|used| {
                    new.set_path(&["status", "used"], used);
                    new
                }))
            };
            let cluster = attributes.cluster;
            cluster
                .update_quota(namespace, &charge.quota, &update)
                .await?;
        }
        Ok(())
    }
}

/// Returns all device classes, and the extended resource that each stands for.
fn classes(attributes: &Attributes<'_>) -> Result<Vec<(String, String)>, Status> {
    let classes = attributes
        .cluster
        .list("resource.k8s.io", "deviceclasses", "")?;
    let pair = |class: &Value| {
        let extended = class.str_at(&["spec", "extendedResourceName"]);
        let name = meta::name(class).to_owned();
        (name, extended.unwrap_or_default().to_owned())
    };
    Ok(classes.iter().map(pair).collect())
}
