//! APIServices of this server: one for every group and version that it serves.

use std::collections::HashSet;
use std::time::Duration;

use control_types::meta;
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use futures::FutureExt;
use futures::future::join_all;

use super::{PostStartHook, SETTLE};
use crate::aggregate::{self, GROUP, PLURAL};
use crate::api::Api;
use control_registry::conditions::{self, Condition};
use control_registry::own;

pub(super) static REGISTRATION: PostStartHook = PostStartHook {
    name: "own API services",
    follows: &[],
    // Made at start; who deletes one later means it.
    every: Duration::MAX,
    settle: SETTLE,
    run: |api| register(api).boxed(),
    stop: None,
};

pub(super) static CUSTOM: PostStartHook = PostStartHook {
    name: "API services of custom resources",
    follows: &[("apiextensions.k8s.io", "customresourcedefinitions")],
    every: Duration::from_secs(30),
    settle: SETTLE,
    run: |api| register_custom(api, false).boxed(),
    stop: None,
};

/// Puts back what others changed of them.
pub(super) static CUSTOM_KEPT: PostStartHook = PostStartHook {
    name: "API services of custom resources, looked at again",
    follows: &[],
    every: Duration::from_secs(30),
    settle: SETTLE,
    run: |api| register_custom(api, true).boxed(),
    stop: None,
};

pub(super) static AVAILABILITY: PostStartHook = PostStartHook {
    name: "API services",
    follows: &[(GROUP, PLURAL)],
    every: Duration::from_secs(30),
    settle: SETTLE,
    run: |api| judge_all(api).boxed(),
    stop: None,
};

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

async fn register(api: &Api) -> Result<(), Status> {
    // All at once: they share the store's commits.
    let written = LOCAL.iter().map(|entry| async move {
        let &(group, version, group_priority, version_priority) = entry;
        let mut spec = Value::object();
        if !group.is_empty() {
            spec.insert("group", group);
        }
        spec.insert("version", version);
        spec.insert("groupPriorityMinimum", group_priority);
        spec.insert("versionPriority", version_priority);
        let object = value!({
            "kind": "APIService",
            "apiVersion": "apiregistration.k8s.io/v1",
            "metadata": {"name": (format!("{version}.{group}")), "labels": {MANAGED: "onstart"}},
            "spec": (spec)
        });
        own::ensure(api, (GROUP, PLURAL), own::OWN, object, |stored, wanted| {
            // One that is not managed is an administrator's.
            meta::label(stored, MANAGED).is_some() && own::copy(stored, wanted, &["spec"])
        })
        .await
    });
    join_all(written)
        .await
        .into_iter()
        .collect::<Result<(), _>>()?;
    for own in aggregate::own_versions(api) {
        beside_tables(api, own).await?;
    }
    Ok(())
}

/// Registers a group that is served beside the tables. An APIService that exists is not
/// changed: who installs a metrics server makes that of `metrics.k8s.io` theirs.
async fn beside_tables(api: &Api, (group, version): (&str, &str)) -> Result<(), Status> {
    let object = value!({
        "kind": "APIService",
        "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {"name": (format!("{version}.{group}")), "labels": {MANAGED: "onstart"}},
        "spec": {
            "group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100
        }
    });
    own::ensure(api, (GROUP, PLURAL), own::OWN, object, |_, _| false).await
}

/// One for every version of a group that definitions bring, while they do.
async fn register_custom(api: &Api, thoroughly: bool) -> Result<(), Status> {
    api.definitions.refresh(api).await?;
    let mut wanted = HashSet::new();
    {
        let now = api.definitions.now();
        for group in now.groups() {
            wanted.extend(now.versions(group).into_iter().map(|v| (group, v)));
        }
    }
    let served = api.resource(GROUP, PLURAL)?;
    let state = served.cache()?.state();
    for object in state.objects.iter() {
        let (version, group) = object.name().split_once('.').unwrap_or_default();
        if object.label(MANAGED) != Some("true") {
            continue;
        }
        if !wanted.contains(&(group, version)) {
            own::delete(api, served, object.name()).await?;
        } else if !thoroughly {
            // With many definitions most are there: they are looked at in their time.
            wanted.remove(&(group, version));
        }
    }
    let written = wanted.into_iter().map(|(group, version)| async move {
        let object = value!({
            "kind": "APIService",
            "apiVersion": "apiregistration.k8s.io/v1",
            "metadata": {"name": (format!("{version}.{group}")), "labels": {MANAGED: "true"}},
            "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": CUSTOM_PRIORITY, "versionPriority": CUSTOM_VERSION_PRIORITY
            }
        });
        own::ensure(api, (GROUP, PLURAL), own::OWN, object, |stored, wanted| {
            meta::label(stored, MANAGED).is_some() && own::copy(stored, wanted, &["spec"])
        })
        .await
    });
    join_all(written).await.into_iter().collect()
}

async fn judge_all(api: &Api) -> Result<(), Status> {
    let served = api.resource(GROUP, PLURAL)?;
    for mut service in own::all(api, GROUP, PLURAL)? {
        // Others are asked (`crate::aggregate`).
        if aggregate::is_remote(&service) {
            continue;
        }
        let wanted = local();
        if conditions::set(&mut service, &wanted) {
            own::change(api, served, meta::name(&service), |stored| {
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
pub(crate) fn local_priority(group: &str, version: Option<&str>) -> (i64, i64) {
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
