//! APIServices: one for every group and version that this server serves, and
//! whether each of them can be reached.

use std::time::Duration;

use control_types::meta;
use control_types::status::{Status, quote};
use control_types::value;
use control_types::value::Value;
use futures::FutureExt;
use futures::future::join_all;

use super::conditions::{self, Condition};
use super::{Duty, own};
use crate::api::Api;

pub(super) static REGISTRATION: Duty = Duty {
    name: "own API services",
    follows: &[],
    // Made at start; who deletes one later means it.
    every: Duration::MAX,
    run: |api| register(api).boxed(),
    stop: None,
};

pub(super) static CUSTOM: Duty = Duty {
    name: "API services of custom resources",
    follows: &[("apiextensions.k8s.io", "customresourcedefinitions")],
    every: Duration::from_secs(30),
    run: |api| register_custom(api).boxed(),
    stop: None,
};

pub(super) static AVAILABILITY: Duty = Duty {
    name: "API services",
    follows: &[
        (GROUP, PLURAL),
        ("", "services"),
        ("discovery.k8s.io", "endpointslices"),
    ],
    every: Duration::from_secs(30),
    run: |api| judge_all(api).boxed(),
    stop: None,
};

const GROUP: &str = "apiregistration.k8s.io";
const PLURAL: &str = "apiservices";
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
    join_all(written).await.into_iter().collect()
}

/// One for every version of a group that definitions bring, while they do.
async fn register_custom(api: &Api) -> Result<(), Status> {
    api.definitions.refresh(api).await?;
    let mut wanted = Vec::new();
    {
        let now = api.definitions.now();
        for group in now.groups() {
            wanted.extend(now.versions(group).into_iter().map(|v| (group, v)));
        }
    }
    let served = api.resource(GROUP, PLURAL)?;
    for object in served.cache()?.state().objects.iter() {
        let (version, group) = object.name().split_once('.').unwrap_or_default();
        if object.label(MANAGED) == Some("true") && !wanted.contains(&(group, version)) {
            own::delete(api, served, object.name()).await?;
        }
    }
    let written = wanted.into_iter().map(|(group, version)| async move {
        let object = value!({
            "kind": "APIService",
            "apiVersion": "apiregistration.k8s.io/v1",
            "metadata": {"name": (format!("{version}.{group}")), "labels": {MANAGED: "true"}},
            "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": 1000, "versionPriority": 100
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
        let wanted = judge(api, &service)?;
        if conditions::set(&mut service, &wanted) {
            own::change(api, served, meta::name(&service), |stored| {
                conditions::set(stored, &wanted)
            })
            .await?;
        }
    }
    Ok(())
}

fn available(status: &'static str, reason: &'static str, message: String) -> Condition {
    Condition {
        kind: "Available",
        status,
        reason,
        message,
    }
}

fn local() -> Condition {
    let message = "Local APIServices are always available".to_owned();
    available("True", "Local", message)
}

/// Looks up what an APIService names.
fn judge(api: &Api, object: &Value) -> Result<Condition, Status> {
    let Some(reference) = object.path(&["spec", "service"]).filter(|r| !r.is_null()) else {
        return Ok(local());
    };
    let text = |member: &str| reference.str_at(&[member]).unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let service = match api.cached("", "services", &format!("{namespace}/{name}")) {
        Some(service) => Some(service.value().map_err(Status::internal)?),
        None => None,
    };
    let state = api
        .resource("discovery.k8s.io", "endpointslices")?
        .cache()?
        .state();
    let mut slices = Vec::new();
    for slice in state.objects.prefixed(&format!("{namespace}/")) {
        if slice.label("kubernetes.io/service-name") == Some(name) {
            slices.push(slice.value().map_err(Status::internal)?);
        }
    }
    Ok(remote(reference, service.as_ref(), &slices))
}

/// Whether a service that is said to serve an API could do so.
fn remote(reference: &Value, service: Option<&Value>, slices: &[Value]) -> Condition {
    let text = |member: &str| reference.str_at(&[member]).unwrap_or_default();
    let name = text("name");
    let namespace = quote(text("namespace"));
    let port = reference.i64_at(&["port"]).unwrap_or(443);
    let no = |reason, message| available("False", reason, message);
    let Some(service) = service else {
        let message = format!("service/{name} in {namespace} is not present");
        return no("ServiceNotFound", message);
    };
    if service.str_at(&["spec", "type"]) == Some("ClusterIP") {
        let ports = service.items_at(&["spec", "ports"]);
        let Some(found) = ports.iter().find(|p| p.i64_at(&["port"]) == Some(port)) else {
            let message = format!("service/{name} in {namespace} is not listening on port {port}");
            return no("ServicePortError", message);
        };
        if slices.is_empty() {
            let message = format!("cannot find endpointslices for service/{name} in {namespace}");
            return no("EndpointsNotFound", message);
        }
        let port_name = found.str_at(&["name"]).unwrap_or_default();
        if !slices.iter().any(|slice| has_endpoint(slice, port_name)) {
            let port = quote(port_name);
            let message = format!(
                "endpointslices for service/{name} in {namespace} have no addresses with port name {port}"
            );
            return no("MissingEndpoints", message);
        }
    }
    no(
        "FailedDiscoveryCheck",
        "this server does not forward requests to other API servers".into(),
    )
}

fn has_endpoint(slice: &Value, port: &str) -> bool {
    let ready = slice
        .items_at(&["endpoints"])
        .iter()
        .any(|endpoint| endpoint.bool_at(&["conditions", "ready"]) != Some(false));
    ready
        && slice.items_at(&["ports"]).iter().any(|found| {
            found.str_at(&["name"]).unwrap_or_default() == port && found.i64_at(&["port"]).is_some()
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

    #[test]
    fn what_is_missing_of_a_remote_service_is_told() {
        let reference = value!({"name": "s", "namespace": "n", "port": 443});
        let service = |port: i64| value!({"spec": {"type": "ClusterIP", "ports": [{"name": "https", "port": port}]}});
        let slice = |ready: bool| {
            value!({
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
                "ports": [{"name": "https", "port": 8443}]
            })
        };
        for (service, slices, reason) in [
            (None, vec![], "ServiceNotFound"),
            (Some(service(80)), vec![], "ServicePortError"),
            (Some(service(443)), vec![], "EndpointsNotFound"),
            (Some(service(443)), vec![slice(false)], "MissingEndpoints"),
            (
                Some(service(443)),
                vec![slice(true)],
                "FailedDiscoveryCheck",
            ),
        ] {
            let said = remote(&reference, service.as_ref(), &slices);
            assert_eq!((said.status, said.reason), ("False", reason));
        }
    }
}
