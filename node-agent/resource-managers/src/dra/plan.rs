//! Which claims a pod and its containers use, whether they may, and what is
//! asked of which driver: pure functions.

use std::collections::{BTreeMap, BTreeSet};

use node_agent_cri::api as cri;
use node_agent_objects::pod::{Container, Pod};
use node_agent_objects::resource_claim::{ContainerClaim, PodResourceClaim, ResourceClaim};
use node_agent_objects::status::{ResourceHealth, ResourceStatus};

use super::state::{ClaimKey, ClaimTable};
use super::{Error, api};
use crate::devices::api as monitors;

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedClaim<'a> {
    /// The claim's name.
    pub claim: &'a str,
    /// Whether it has to have been made for this very pod.
    pub own: bool,
}

/// A claim that is allocated and reserved for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsableClaim {
    /// The claim's uid.
    pub uid: String,
    /// The drivers of its devices.
    pub drivers: BTreeSet<String>,
}

/// The claim that is meant by one of the pod's; none when none is needed.
fn used<'a>(pod: &'a Pod, claim: &'a PodResourceClaim) -> Result<Option<UsedClaim<'a>>, Error> {
    if let Some(claim) = claim.resource_claim_name.as_deref() {
        return Ok(Some(UsedClaim { claim, own: false }));
    }
    if claim.resource_claim_template_name.is_none() {
        return Err(Error::Unsupported {
            pod: name(pod),
            claim: claim.name.clone(),
        });
    }
    let statuses = &pod.status.resource_claim_statuses;
    let made = statuses.iter().find(|status| status.name == claim.name);
    let made = made.ok_or_else(|| Error::NotCreated(name(pod)))?;
    let claim = made.resource_claim_name.as_deref();
    Ok(claim.map(|claim| UsedClaim { claim, own: true }))
}

fn name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name())
}

/// All claims that the pod uses, each once.
///
/// # Errors
/// When it is not known (yet) which they are.
pub fn claims(pod: &Pod) -> Result<Vec<UsedClaim<'_>>, Error> {
    let mut all: Vec<UsedClaim<'_>> = Vec::new();
    let of_spec = pod
        .spec
        .resource_claims
        .iter()
        .map(|claim| used(pod, claim));
    let extended = pod.status.extended_resource_claim_status.as_ref();
    let extended = extended.map(|status| {
        Ok(Some(UsedClaim {
            claim: status.resource_claim_name.as_str(),
            own: false,
        }))
    });
    for one in of_spec.chain(extended) {
        let Some(one) = one? else { continue };
        match all.iter_mut().find(|known| known.claim == one.claim) {
            Some(known) => known.own |= one.own,
            None => all.push(one),
        }
    }
    Ok(all)
}

/// What of which claims a container uses: the claim, and the request of it, or
/// nothing for all.
///
/// # Errors
/// When it is not known (yet) which claims they are.
pub fn requests<'a>(
    pod: &'a Pod,
    container: &'a Container,
) -> Result<Vec<(&'a str, &'a str)>, Error> {
    let mut all = Vec::new();
    for claim in &pod.spec.resource_claims {
        let own = container.resources.claims.iter();
        let own: Vec<&ContainerClaim> = own.filter(|c| c.name == claim.name).collect();
        if own.is_empty() {
            continue;
        }
        if let Some(used) = used(pod, claim)? {
            all.extend(own.iter().map(|c| (used.claim, c.request.as_str())));
        }
    }
    let Some(extended) = &pod.status.extended_resource_claim_status else {
        return Ok(all);
    };
    let mappings = extended.request_mappings.iter();
    let own = mappings.filter(|m| {
        let asked = container.resources.requests.get(&m.resource_name);
        let asked = asked.or_else(|| container.resources.limits.get(&m.resource_name));
        m.container_name == container.name && asked.is_some_and(|count| count != "0")
    });
    all.extend(own.map(|m| {
        (
            extended.resource_claim_name.as_str(),
            m.request_name.as_str(),
        )
    }));
    Ok(all)
}

/// What the pod may make use of by the claim.
///
/// # Errors
/// Why it may not.
pub fn usable(
    pod: &Pod,
    used: &UsedClaim<'_>,
    claim: &ResourceClaim,
) -> Result<UsableClaim, Error> {
    let meta = &claim.metadata;
    if used.own && meta.controller().is_none_or(|owner| owner.uid != pod.uid()) {
        return Err(Error::NotOwned {
            claim: format!("{}/{}", pod.namespace(), used.claim),
            pod: name(pod),
        });
    }
    let status = &claim.status;
    if !status.reserved_for.iter().any(|by| by.uid == pod.uid()) {
        return Err(Error::NotReserved {
            claim: format!("{} ({})", used.claim, meta.uid),
            pod: format!("{} ({})", pod.name(), pod.uid()),
        });
    }
    let allocation = status.allocation.as_ref();
    let allocation = allocation.ok_or_else(|| Error::NotAllocated(used.claim.to_owned()))?;
    let results = allocation.devices.results.iter();
    Ok(UsableClaim {
        uid: meta.uid.to_string(),
        drivers: results.map(|result| result.driver.clone()).collect(),
    })
}

/// Claims by driver, with their keys, for one call each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriverBatches(BTreeMap<String, Vec<(ClaimKey, api::Claim)>>);

impl DriverBatches {
    /// Has the drivers asked about a claim.
    pub fn add<'a>(
        &mut self,
        key: &ClaimKey,
        uid: &str,
        drivers: impl Iterator<Item = &'a String>,
    ) {
        for driver in drivers {
            let claim = api::Claim {
                namespace: key.0.clone(),
                uid: uid.to_owned(),
                name: key.1.clone(),
            };
            let all = self.0.entry(driver.clone()).or_default();
            all.push((key.clone(), claim));
        }
    }

    /// Each driver with its claims.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Vec<(ClaimKey, api::Claim)>)> {
        self.0.iter()
    }
}

/// What a driver answered about each claim that it was asked about; `error` is
/// what it says against one.
///
/// # Errors
/// When it says something against one, says nothing about one, or tells of one
/// that it was not asked about.
pub fn answers<A>(
    method: &'static str,
    asked: &[(ClaimKey, api::Claim)],
    mut told: BTreeMap<String, A>,
    error: impl Fn(&A) -> &str,
) -> Result<Vec<(ClaimKey, A)>, Error> {
    let mut all = Vec::with_capacity(asked.len());
    let mut skipped = 0;
    for (key, claim) in asked {
        let Some(answer) = told.remove(&claim.uid) else {
            skipped += 1;
            continue;
        };
        let why = error(&answer);
        if !why.is_empty() {
            return Err(Error::Refused {
                method,
                claim: claim.name.clone(),
                why: why.to_owned(),
            });
        }
        all.push((key.clone(), answer));
    }
    if let Some(uid) = told.into_keys().next() {
        return Err(Error::Stranger { method, uid });
    }
    if skipped > 0 {
        return Err(Error::Skipped { method, skipped });
    }
    Ok(all)
}

/// What the runtime knows the devices by that a container gets, each once.
///
/// # Errors
/// When a claim was not prepared.
pub fn cdi_devices(
    table: &ClaimTable,
    pod: &Pod,
    container: &Container,
) -> Result<Vec<String>, Error> {
    let mut all: Vec<String> = Vec::new();
    for (claim, request) in requests(pod, container)? {
        let held = table.get(pod.namespace(), claim);
        let held = held.ok_or_else(|| Error::NotPrepared(claim.to_owned()))?;
        let devices = held.drivers.values().flatten();
        for id in devices
            .filter(|device| device.is_for(request))
            .flat_map(|device| &device.cdi_device_ids)
        {
            if !all.contains(id) {
                all.push(id.clone());
            }
        }
    }
    Ok(all)
}

/// What monitors are told of the claims that a container uses: all of each.
#[must_use]
pub fn pod_resources(
    table: &ClaimTable,
    pod: &Pod,
    container: &Container,
) -> Vec<monitors::DynamicResource> {
    let used = requests(pod, container).unwrap_or_default();
    let names: BTreeSet<&str> = used.into_iter().map(|(claim, _)| claim).collect();
    let held = names.into_iter().filter_map(|name| {
        let held = table.get(pod.namespace(), name)?;
        let devices = held.drivers.iter();
        let devices = devices.flat_map(|(driver, own)| own.iter().map(move |d| (driver, d)));
        Some(monitors::DynamicResource {
            claim_name: name.to_owned(),
            claim_namespace: pod.namespace().to_owned(),
            claim_resources: devices
                .map(|(driver, device)| monitors::ClaimResource {
                    cdi_devices: (device.cdi_device_ids.iter())
                        .map(|id| cri::CdiDevice { name: id.clone() })
                        .collect(),
                    driver_name: driver.clone(),
                    pool_name: device.pool_name.clone(),
                    device_name: device.device_name.clone(),
                    share_id: device.share_id.clone(),
                })
                .collect(),
        })
    });
    held.collect()
}

/// By container: how the devices are that it has by claims. `health` says that
/// of a driver's device in a pool.
#[must_use]
pub fn health(
    table: &ClaimTable,
    pod: &Pod,
    health: impl Fn(&str, &str, &str) -> (&'static str, Option<String>),
) -> BTreeMap<String, Vec<ResourceStatus>> {
    let mut all = BTreeMap::new();
    for container in &pod.spec.containers {
        let mut own: BTreeMap<String, Vec<ResourceHealth>> = BTreeMap::new();
        for wanted in &container.resources.claims {
            let claims = pod.spec.resource_claims.iter();
            let Some(held) = claims
                .filter(|claim| claim.name == wanted.name)
                .find_map(|claim| used(pod, claim).ok().flatten())
                .and_then(|used| table.get(pod.namespace(), used.claim))
            else {
                continue;
            };
            let name = match wanted.request.as_str() {
                "" => format!("claim:{}", wanted.name),
                request => format!("claim:{}/{request}", wanted.name),
            };
            // of a request with alternatives, devices name the request only
            let request = wanted.request.split('/').next().unwrap_or_default();
            let mut resources: Vec<ResourceHealth> = Vec::new();
            for (driver, devices) in &held.drivers {
                for device in devices.iter().filter(|d| d.is_for(request)) {
                    let (pool, name) = (&device.pool_name, &device.device_name);
                    let first = device.cdi_device_ids.first().cloned();
                    let id = first.unwrap_or_else(|| format!("{driver}/{pool}/{name}"));
                    if resources.iter().any(|known| known.resource_id == id) {
                        continue;
                    }
                    let (health, message) = health(driver, pool, name);
                    resources.push(ResourceHealth {
                        resource_id: id,
                        health: health.to_owned(),
                        message,
                    });
                }
            }
            if !resources.is_empty() {
                own.insert(name, resources);
            }
        }
        if !own.is_empty() {
            let own = own.into_iter();
            let own = own.map(|(name, resources)| ResourceStatus { name, resources });
            all.insert(container.name.clone(), own.collect());
        }
    }
    all
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
