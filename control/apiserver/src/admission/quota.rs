//! `ResourceQuota`: a write takes what it needs from the quotas of its namespace
//! before it is stored, or is refused.
//!
//! A quota is charged by a write of its own, on the condition that it is still as it
//! was when the charge was found to fit. So requests that come at the same time,
//! through this server or another one of the same store, never get more than there
//! is. What was charged for an object that then was not stored is found by the
//! controller that counts anew.

use std::hash::BuildHasher as _;

use control_kinds::quota::{self as rules, Charge, Request, Unpaid};
use control_types::coerce;
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use rustc_hash::FxBuildHasher;
use tokio::sync::Mutex;

use super::{Change, refuse};
use crate::api::{Api, Served};
use crate::chain::Context;
use crate::managed::{self, Endpoint};
use crate::options::plain;
use crate::write::Decision;

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

/// What a write owes, by the quotas as they are known here.
///
/// # Errors
/// 403 when it is too much, or does not say how much it is; 500 when no quota covers
/// a scope that one must cover.
pub(crate) fn owed(
    context: &Context,
    served: &Served,
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
    let quotas = super::values(api, "", "resourcequotas", namespace)?;
    if quotas.is_empty() && limits.is_empty() {
        return Ok(Vec::new());
    }
    let classes = if resource.plural == "resourceclaims" {
        classes(api)?
    } else {
        Vec::new()
    };
    let now = jiff::Timestamp::now();
    rules::assess(&quotas, &request, limits, &classes, now).map_err(|why| match why {
        Unpaid::Refused(why) => refuse(served, change.new, &why),
        Unpaid::Uncovered(why) => plain(why),
    })
}

/// What a new object owes, by quotas that are as new as the store if need be.
///
/// # Errors
/// 403 when it is too much, or does not say how much it is.
pub(crate) async fn owed_by_new(
    context: &Context,
    served: &Served,
    object: &Value,
) -> Result<Vec<Charge>, Status> {
    let change = Change {
        subresource: "",
        new: object,
        old: None,
    };
    match owed(context, served, change) {
        Ok(charges) => Ok(charges),
        // There may be more again than is known here.
        Err(_) => {
            context.api.catch_up().await?;
            owed(context, served, change)
        }
    }
}

/// Takes what is owed from the quotas. With `dry_run` it only tells whether it could.
///
/// # Errors
/// 403 when there is not enough; what a quota before has given stays taken.
pub(crate) async fn charge(
    context: &Context,
    served: &Served,
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
            let paid = rules::pay(&old, charge).map_err(|why| refuse(served, object, &why))?;
            let Some(used) = paid else {
                return Ok(Decision::Keep(old));
            };
            coerce::complete(&mut old, quotas.resource.schema);
            let mut new = old.clone();
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
