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
use control_kinds::quota::{self as rules, Charge, Counted, Request, Unpaid};
use control_types::coerce;
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use rustc_hash::{FxBuildHasher, FxHashMap};
use tokio::sync::Mutex;

use super::{Change, refuse};
use crate::api::{Api, ServedResource};
use crate::chain::Context;
use crate::managed::{self, Endpoint};
use crate::write::Decision;
use control_request::plain_error;

/// How many namespaces are charged at the same time at most.
const TURNS: usize = 64;

/// Takes turns: charges of one namespace follow each other instead of failing each
/// other's condition. Two namespaces may have one turn; no more comes of that than
/// waiting.
#[derive(Debug)]
pub(crate) struct Turns([Mutex<()>; TURNS]);

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl Turns {
    fn of(&self, namespace: &str) -> &Mutex<()> {
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
pub(crate) struct LiveLookups(SyncMutex<FxHashMap<CompactString, Instant>>);

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

/// What a write owes, by the quotas as they are known here. Usage that a quota's status
/// lacks is counted with caches as new as the store.
///
/// # Errors
/// 403 when it is too much, or does not say how much it is; 500 when no quota covers
/// a scope that one must cover; 504 when the caches are too far behind to count.
pub(crate) async fn owed(
    context: &Context,
    served: &ServedResource,
    change: Change<'_>,
) -> Result<Vec<Charge>, Status> {
    let resource = served.resource;
    let namespace = meta::namespace(change.new);
    let request = Request {
        group: resource.group,
        plural: resource.plural,
        subresource: change.subresource,
        new: change.new,
        old: change.old,
    };
    let api = &context.api;
    if !resource.namespaced
        || !request.is_measured()
        || !super::on(api, super::Plugin::ResourceQuota)
    {
        return Ok(Vec::new());
    }
    let limits = &api.config.chain.admission.quota_limits;
    let known = || super::values(api, "", "resourcequotas", namespace);
    let mut quotas = known()?;
    if quotas.is_empty() && api.quota_lookups.begin(namespace, Instant::now()) {
        let caught_up = api.catch_up().await;
        caught_up.inspect_err(|_| api.quota_lookups.failed(namespace))?;
        quotas = known()?;
    }
    if quotas.is_empty() && limits.is_empty() {
        return Ok(Vec::new());
    }
    let classes = if resource.plural == "resourceclaims" {
        classes(api)?
    } else {
        Vec::new()
    };
    let now = jiff::Timestamp::now();
    let (group, plural) = (resource.group, resource.plural);
    let is_unknown = |quota: &Value| rules::is_usage_unknown(quota, group, plural, &classes);
    let mut counted = FxHashMap::default();
    if quotas.iter().any(is_unknown) {
        api.catch_up().await?;
        // Somebody may have counted meanwhile.
        quotas = known()?;
        let all = Counted {
            group: group.to_owned(),
            plural: plural.to_owned(),
            objects: super::values_of(served, namespace)?,
        };
        for quota in quotas.iter_mut().filter(|quota| is_unknown(quota)) {
            let usage = rules::count_unknown(quota, &all, &classes, now);
            rules::fill_unknown(quota, &usage);
            counted.insert(meta::name(quota).to_owned(), usage);
        }
    }
    let assessed = rules::assess(&quotas, &request, limits, &classes, now);
    let mut charges = assessed.map_err(|why| match why {
        Unpaid::Refused(why) => refuse(served, change.new, &why),
        Unpaid::Uncovered(why) => plain_error(why),
    })?;
    for charge in &mut charges {
        charge.counted = counted.remove(&charge.quota).unwrap_or_default();
    }
    Ok(charges)
}

/// What a new object owes, by quotas that are as new as the store if need be.
///
/// # Errors
/// 403 when it is too much, or does not say how much it is.
pub(crate) async fn owed_by_new(
    context: &Context,
    served: &ServedResource,
    object: &Value,
) -> Result<Vec<Charge>, Status> {
    let change = Change {
        subresource: "",
        new: object,
        old: None,
    };
    match owed(context, served, change).await {
        Ok(charges) => Ok(charges),
        // There may be more again than is known here.
        Err(_) => {
            context.api.catch_up().await?;
            owed(context, served, change).await
        }
    }
}

/// Takes what is owed from the quotas. With `dry_run` it only tells whether it could.
///
/// # Errors
/// 403 when there is not enough; what a quota before has given stays taken.
pub(crate) async fn charge(
    context: &Context,
    served: &ServedResource,
    object: &Value,
    charges: &[Charge],
    dry_run: bool,
) -> Result<(), Status> {
    if charges.is_empty() || dry_run {
        return Ok(());
    }
    let api = &context.api;
    let quotas = api.resource("", "resourcequotas")?;
    let namespace = meta::namespace(object);
    let _turn = api.turns.of(namespace).lock().await;
    for charge in charges {
        let key = quotas.key(namespace, &charge.quota);
        api.modify(quotas, &key, false, None, |current| {
            let Some(current) = current else {
                // It is gone, and limits nothing any more.
                return Ok(Decision::Keep(Value::Null));
            };
            let mut old = current.object;
            let mut new = old.clone();
            rules::fill_unknown(&mut new, &charge.counted);
            let paid = rules::pay(&new, charge).map_err(|why| refuse(served, object, &why))?;
            let Some(used) = paid else {
                return Ok(Decision::Keep(old));
            };
            coerce::complete(&mut old, quotas.resource.schema);
            coerce::complete(&mut new, quotas.resource.schema);
            new.set_path(&["status", "used"], used);
            Endpoint::of(api, quotas, "status").write(Some(&old), &mut new, managed::OWN);
            coerce::complete(&mut new, quotas.resource.schema);
            Ok(Decision::Put(new))
        })
        .await?;
    }
    Ok(())
}

/// All device classes, and the extended resource that each stands for.
fn classes(api: &Api) -> Result<Vec<(String, String)>, Status> {
    let classes = super::values(api, "resource.k8s.io", "deviceclasses", "")?;
    let pair = |class: &Value| {
        let extended = class.str_at(&["spec", "extendedResourceName"]);
        let name = meta::name(class).to_owned();
        (name, extended.unwrap_or_default().to_owned())
    };
    Ok(classes.iter().map(pair).collect())
}
