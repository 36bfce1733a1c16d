//! APIServices of this server: one for every group and version that it serves.

use std::collections::HashSet;

use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, value};
use futures::future::join_all;

use crate::aggregator::Aggregator;
use crate::api_service::{GROUP, PLURAL, is_remote};
use control_registry::conditions::{self, Condition};
use control_registry::{Registry, own};

/// The priorities of groups that definitions bring, and of their versions.
const CUSTOM_PRIORITY: i64 = 1000;
const CUSTOM_VERSION_PRIORITY: i64 = 100;
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Group, version, the group's priority among groups, and the version's within
/// the group.
const LOCAL: &[(&str, &str, i64, i64)] = &[
    ("", "v1", 18000, 1),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("apiextensions.k8s.io", "v1", 16700, 15),
    ("apps", "v1", 17800, 15),
    ("authentication.k8s.io", "v1", 17700, 15),
    ("authorization.k8s.io", "v1", 17600, 15),
    ("autoscaling", "v1", 17500, 15),
    ("autoscaling", "v2", 17500, 30),
    ("batch", "v1", 17400, 15),
    ("certificates.k8s.io", "v1", 17300, 15),
    ("coordination.k8s.io", "v1", 16500, 15),
    ("discovery.k8s.io", "v1", 16200, 15),
    ("events.k8s.io", "v1", 17750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16100, 21),
    ("networking.k8s.io", "v1", 17200, 15),
    ("node.k8s.io", "v1", 16300, 15),
    ("policy", "v1", 17100, 15),
    ("rbac.authorization.k8s.io", "v1", 17000, 15),
    ("resource.k8s.io", "v1", 16200, 21),
    ("scheduling.k8s.io", "v1", 16600, 15),
    ("storage.k8s.io", "v1", 16800, 15),
];

/// Creates and mends the APIServices of what this server serves.
///
/// # Errors
/// When they cannot be written.
pub async fn register(aggregator: &Aggregator) -> Result<(), Status> {
    let registry: &Registry = &aggregator.registry;
    // All at once: they share the store's commits.
    let written = LOCAL.iter().map(|entry| async move {
        let &(group, version, group_priority, version_priority) = entry;
        let priorities = (group_priority, version_priority);
        let object = api_service((group, version), "onstart", priorities);
        own::ensure(registry, (GROUP, PLURAL), own::OWN, object, mend).await
    });
    join_all(written)
        .await
        .into_iter()
        .collect::<Result<(), _>>()?;
    for one in &aggregator.local {
        // One that exists is not changed: who installs a metrics server makes the APIService of
        // `metrics.k8s.io` theirs.
        let object = api_service((&one.group, &one.version), "onstart", (100, 100));
        own::ensure(registry, (GROUP, PLURAL), own::OWN, object, |_, _| false).await?;
    }
    Ok(())
}

/// An APIService of this server, with the priorities of its group and of the version in it.
fn api_service((group, version): (&str, &str), managed: &str, priorities: (i64, i64)) -> Value {
    let mut spec = Value::object();
    if !group.is_empty() {
        spec.insert("group", group);
    }
    spec.insert("version", version);
    spec.insert("groupPriorityMinimum", priorities.0);
    spec.insert("versionPriority", priorities.1);
    value!({
        "kind": "APIService",
        "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {"name": (format!("{version}.{group}")), "labels": {MANAGED: managed}},
        "spec": (spec)
    })
}

/// Brings an APIService up to date. One that is not managed is an administrator's.
fn mend(stored: &mut Value, wanted: &Value) -> bool {
    meta::label(stored, MANAGED).is_some() && own::copy(stored, wanted, &["spec"])
}

/// Keeps one APIService for every version of a group that definitions bring, while they do;
/// `thoroughly`: those that exist are mended, too.
///
/// # Errors
/// When they cannot be written.
pub async fn register_custom(registry: &Registry, thoroughly: bool) -> Result<(), Status> {
    registry.definitions.refresh(registry).await?;
    let mut wanted = HashSet::new();
    {
        let now = registry.definitions.now();
        for group in now.groups() {
            wanted.extend(now.versions(group).into_iter().map(|v| (group, v)));
        }
    }
    let served = registry.resource(GROUP, PLURAL)?;
    let state = served.cache()?.state();
    for object in state.objects.iter() {
        let (version, group) = object.name().split_once('.').unwrap_or_default();
        if object.label(MANAGED) != Some("true") {
            continue;
        }
        if !wanted.contains(&(group, version)) {
            own::delete(registry, served, object.name()).await?;
        } else if !thoroughly {
            // With many definitions most are there: they are looked at in their time.
            wanted.remove(&(group, version));
        }
    }
    let written = wanted.into_iter().map(|(group, version)| async move {
        let priorities = (CUSTOM_PRIORITY, CUSTOM_VERSION_PRIORITY);
        let object = api_service((group, version), "true", priorities);
        own::ensure(registry, (GROUP, PLURAL), own::OWN, object, mend).await
    });
    join_all(written).await.into_iter().collect()
}

/// Sets the condition `Available` of the APIServices of this server.
///
/// # Errors
/// When it cannot be written.
pub async fn update_conditions(registry: &Registry) -> Result<(), Status> {
    let served = registry.resource(GROUP, PLURAL)?;
    for mut service in own::all(registry, GROUP, PLURAL)? {
        // Others are asked (`crate::available`).
        if is_remote(&service) {
            continue;
        }
        let wanted = local();
        if conditions::set(&mut service, &wanted) {
            own::change(registry, served, meta::name(&service), |stored| {
                conditions::set(stored, &wanted)
            })
            .await?;
        }
    }
    Ok(())
}

fn local() -> Condition {
    Condition {
        kind: "Available",
        status: "True",
        reason: "Local",
        message: "Local APIServices are always available".to_owned(),
    }
}

/// The priority of a group of this server among all groups, and of a version
/// within it: what its APIService says, or would say if it had one.
pub fn local_priority(group: &str, version: Option<&str>) -> (i64, i64) {
    if group == GROUP {
        // Above what anybody may ask for.
        return (20_001, 0);
    }
    let of_group = || LOCAL.iter().filter(|entry| entry.0 == group);
    let found = of_group().find(|entry| version.is_none_or(|version| version == entry.1));
    found.map_or((CUSTOM_PRIORITY, CUSTOM_VERSION_PRIORITY), |entry| {
        (entry.2, entry.3)
    })
}

#[cfg(test)]
mod tests {
    use control_types::registry;

    use super::*;

    #[test]
    fn every_served_group_and_version_is_in_the_table() {
        for resource in registry::resources() {
            // What registers has no registration itself.
            if resource.group == GROUP {
                continue;
            }
            assert!(
                LOCAL
                    .iter()
                    .any(|entry| (entry.0, entry.1) == (resource.group, resource.version)),
                "{}/{}",
                resource.group,
                resource.version
            );
        }
    }
}
