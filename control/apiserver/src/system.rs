//! What every cluster has from its first moment, and the server's own upkeep.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use control_types::meta;
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::cluster_info;
use crate::server::Error;
use crate::write::Decision;

/// How often the server looks after its own objects.
const ROUND: Duration = Duration::from_secs(10);
/// How many rounds of history the store keeps: five minutes.
const HISTORY: usize = 30;

fn failed(object: &str) -> impl FnOnce(Status) -> Error + '_ {
    move |source| Error::Bootstrap {
        object: object.to_owned(),
        source,
    }
}

/// Makes the namespaces that every cluster has.
///
/// # Errors
/// When one cannot be made.
pub async fn namespaces(api: &Api) -> Result<(), Error> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let object = value!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"}
        });
        ensure(api, "", "namespaces", name, object, |_, _| false)
            .await
            .map_err(failed(name))?;
    }
    Ok(())
}

/// Makes the range from which services get their addresses known as an object.
///
/// # Errors
/// When it cannot be written.
pub async fn service_cidr(api: &Api) -> Result<(), Error> {
    let ranges: Vec<String> = api
        .config
        .service_cidrs
        .iter()
        .map(ToString::to_string)
        .collect();
    if ranges.is_empty() {
        return Ok(());
    }
    let at = control_types::time::now();
    let object = value!({
        "kind": "ServiceCIDR",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": (ranges)},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": (at.as_str()),
            "reason": "", "message": "Kubernetes Service CIDR is ready"
        }]}
    });
    ensure(
        api,
        "networking.k8s.io",
        "servicecidrs",
        "kubernetes",
        object,
        |_, _| false,
    )
    .await
    .map_err(failed("kubernetes"))
}

/// Makes or mends the `kubernetes` Service and its endpoints.
///
/// # Errors
/// When one of them cannot be written.
pub async fn kubernetes_service(api: &Api) -> Result<(), Error> {
    let config = &api.config;
    let Some(address) = api.allocators.first_address() else {
        return Ok(());
    };
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let address = address.to_string();
    let port = i64::from(config.advertise_port);
    let labels = value!({"component": "apiserver", "provider": "kubernetes"});
    let service = value!({
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": (labels)},
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": (address.as_str()),
            "clusterIPs": [(address.as_str())],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": [family],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster"
        },
        "status": {"loadBalancer": {}}
    });
    ensure(
        api,
        "",
        "services",
        "default/kubernetes",
        service,
        |_, _| false,
    )
    .await
    .map_err(failed("default/kubernetes"))?;
    let own = config.advertise_address.to_string();
    let mirror = "endpointslice.kubernetes.io/skip-mirror";
    let endpoints = value!({
        "kind": "Endpoints",
        "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {mirror: "true"}},
        "subsets": [{
            "addresses": [{"ip": (own.as_str())}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}]
        }]
    });
    ensure(
        api,
        "",
        "endpoints",
        "default/kubernetes",
        endpoints,
        |old, new| copy(old, new, &["subsets"]),
    )
    .await
    .map_err(failed("default/kubernetes"))?;
    let kind = if matches!(config.advertise_address, IpAddr::V4(_)) {
        "IPv4"
    } else {
        "IPv6"
    };
    let slice = value!({
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"}
        },
        "addressType": kind,
        "endpoints": [{"addresses": [(own.as_str())], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}]
    });
    ensure(
        api,
        "discovery.k8s.io",
        "endpointslices",
        "default/kubernetes",
        slice,
        |old, new| copy(old, new, &["endpoints", "ports"]),
    )
    .await
    .map_err(failed("default/kubernetes"))
}

/// Publishes whom this server believes, where extension servers and stock
/// components look: kube-system/extension-apiserver-authentication.
///
/// # Errors
/// When it cannot be written.
pub async fn authentication(api: &Api) -> Result<(), Error> {
    let Some(authorities) = api.config.access.authorities() else {
        return Ok(());
    };
    let mut data = value!({"client-ca-file": (authorities.clients.as_str())});
    if let Some(proxies) = &authorities.front_proxy {
        data.insert("requestheader-client-ca-file", proxies.as_str());
        for (key, list) in [
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["X-Remote-Extra-"]"#,
            ),
        ] {
            data.insert(key, list);
        }
    }
    let name = "extension-apiserver-authentication";
    let object = value!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": (data)
    });
    let key = format!("kube-system/{name}");
    ensure(api, "", "configmaps", &key, object, |old, new| {
        copy(old, new, &["data"])
    })
    .await
    .map_err(failed(&key))
}

/// Publishes what a machine that joins must know: kube-public/cluster-info.
///
/// # Errors
/// When it cannot be written.
pub async fn cluster_info(api: &Api) -> Result<(), Error> {
    let Some(authorities) = api.config.access.authorities() else {
        return Ok(());
    };
    let object = cluster_info::object(&api.config, &authorities.clients);
    let key = format!("{}/{}", cluster_info::NAMESPACE, cluster_info::NAME);
    ensure(api, "", "configmaps", &key, object, cluster_info::mend)
        .await
        .map_err(failed(&key))
}

/// Copies members and tells whether any differed.
fn copy(old: &mut Value, new: &Value, members: &[&'static str]) -> bool {
    let mut changed = false;
    for member in members {
        let wanted = new.get(member).cloned().unwrap_or_default();
        if old.get(member) != Some(&wanted) {
            old.insert(*member, wanted);
            changed = true;
        }
    }
    changed
}

/// Makes an object if it is missing; else lets `mend` change it.
async fn ensure(
    api: &Api,
    group: &str,
    plural: &str,
    key: &str,
    mut object: Value,
    mend: impl Fn(&mut Value, &Value) -> bool,
) -> Result<(), Status> {
    let served = api.resource(group, plural)?;
    crate::managed::made(api, served, &mut object);
    meta::set_uid(&mut object, &uuid::Uuid::new_v4().to_string());
    meta::set_creation_timestamp(&mut object, jiff::Timestamp::now());
    api.modify(served, key, false, None, |current| {
        Ok(match current {
            None => Decision::Put(object.clone()),
            Some(mut current) => {
                if mend(&mut current.object, &object) {
                    Decision::Put(current.object)
                } else {
                    Decision::Keep(current.object)
                }
            }
        })
    })
    .await
    .map(|_| ())
}

/// Looks after the server's own objects, the allocators and the store's
/// history until shutdown.
pub async fn keep(api: Arc<Api>, shutdown: CancellationToken) {
    let mut revisions = std::collections::VecDeque::new();
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    rounds.tick().await;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = rounds.tick() => {}
        }
        for result in [
            namespaces(&api).await,
            kubernetes_service(&api).await,
            authentication(&api).await,
            cluster_info(&api).await,
        ] {
            if let Err(error) = result {
                tracing::warn!(%error, "cannot look after the server's own objects");
            }
        }
        api.allocators.rebuild(&api);
        revisions.push_back(api.store().revision());
        if revisions.len() > HISTORY
            && let Some(old) = revisions.pop_front()
            && old > api.store().compacted()
            && let Err(error) = api.store().compact(old).await
        {
            tracing::warn!(%error, "cannot compact the store");
        }
    }
}
