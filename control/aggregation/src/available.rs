//! Whether other servers can be reached: the condition `Available` of their
//! APIServices, and when their discovery is read again.
//!
//! A task looks after each. It looks again when a Service or an EndpointSlice
//! changes, but asks the server only if that made a difference, or after a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_types::status::{Status, quote};
use control_types::value::Value;
use futures::future::select_all;
use futures::stream::{FuturesUnordered, StreamExt as _};
use http::Request;
use rustc_hash::FxHashMap;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aggregator::Aggregator;
use crate::api_service::{GROUP, PLURAL};
use crate::remote::{Connection, Remote};
use crate::{discover, headers};
use control_proxy::ServiceLister as _;
use control_proxy::egress::client::explain;
use control_registry::conditions::{self, Condition};
use control_registry::{Registry, own};
use control_request::body;

/// How often a server that is available is asked whether it still is.
const EVERY: Duration = Duration::from_secs(30);
/// How soon a server that is not is asked again, at first.
const SOON: Duration = Duration::from_millis(200);
/// How often registrations are looked at when none changes: the certificate
/// shown to the servers may be another.
const LOOK: Duration = Duration::from_secs(60);
/// Changes that come together are looked at once.
const SETTLE: Duration = Duration::from_millis(20);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many times at once a server is asked: one good answer is enough.
const ATTEMPTS: usize = 5;

/// Looks after all other servers until shutdown.
pub async fn keep(aggregator: Arc<Aggregator>, shutdown: CancellationToken) {
    let Some(mut wake) = wake(&aggregator.registry, GROUP, PLURAL) else {
        return;
    };
    let tasks = TaskTracker::new();
    let mut known: FxHashMap<String, (Arc<Remote>, CancellationToken)> = FxHashMap::default();
    loop {
        wake.mark_unchanged();
        if let Err(error) = aggregator.refresh() {
            tracing::warn!(%error, "API services cannot be followed");
        }
        let now = Arc::clone(&aggregator.now());
        known.retain(|_, (remote, end)| {
            let stays = now.all().any(|one| Arc::ptr_eq(one, remote));
            if !stays {
                end.cancel();
            }
            stays
        });
        for remote in now.all().filter(|remote| !remote.is_local()) {
            if known.contains_key(&remote.name) {
                continue;
            }
            let end = shutdown.child_token();
            let (with, to, ended) = (Arc::clone(&aggregator), Arc::clone(remote), end.clone());
            let work = control_supervise::task("api-service-availability")
                .detail(&*remote.name)
                .until(&end)
                .restarting(move || {
                    let work = look_after(Arc::clone(&with), Arc::clone(&to));
                    let ended = ended.clone();
                    async move {
                        tokio::select! {
                            () = ended.cancelled() => {}
                            () = work => {}
                        }
                    }
                });
            tasks.spawn(work);
            known.insert(remote.name.clone(), (Arc::clone(remote), end));
        }
        tokio::select! {
            () = shutdown.cancelled() => break,
            changed = wake.changed() => if changed.is_err() { break },
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    tasks.close();
    tasks.wait().await;
}

fn wake(
    registry: &Registry,
    group: &str,
    plural: &str,
) -> Option<tokio::sync::watch::Receiver<u64>> {
    let served = registry.resource(group, plural).ok()?;
    Some(served.cache.as_ref()?.wake())
}

/// Looks after one server for ever.
async fn look_after(aggregator: Arc<Aggregator>, remote: Arc<Remote>) {
    let registry = &aggregator.registry;
    let mut wakes: Vec<_> = [("", "services"), ("discovery.k8s.io", "endpointslices")]
        .iter()
        .filter_map(|(group, plural)| wake(registry, group, plural))
        .collect();
    let mut seen: Option<Result<Vec<String>, Condition>> = None;
    let mut failures = 0_u32;
    let mut next = Instant::now();
    loop {
        for wake in &mut wakes {
            wake.mark_unchanged();
        }
        let found = reachable(registry, &remote);
        if Instant::now() >= next || seen.as_ref() != Some(&found) {
            let condition = match &found {
                Ok(addresses) => check(&remote, addresses).await,
                Err(condition) => condition.clone(),
            };
            let good = condition.status == "True";
            if !good && failures == 0 {
                aggregator.lost.count(&remote.name, condition.reason);
            }
            failures = if good { 0 } else { failures.saturating_add(1) };
            if let Err(error) = tell(registry, &remote, &condition).await {
                tracing::warn!(name = %remote.name, %error, "cannot tell whether an API service is available");
            }
            let address = found.as_ref().ok().and_then(|all| all.first());
            match address.filter(|_| good) {
                Some(address) => discover::renew(&aggregator, &remote, address).await,
                None => discover::stale(&aggregator, &remote),
            }
            next = Instant::now() + pause(failures);
            seen = Some(found);
        }
        let changed = async {
            if wakes.is_empty() {
                return std::future::pending().await;
            }
            let _ = select_all(wakes.iter_mut().map(|wake| Box::pin(wake.changed()))).await;
            tokio::time::sleep(SETTLE).await;
        };
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep_until(next.into()) => {}
        }
    }
}

/// How long to wait after so many failures in a row.
fn pause(failures: u32) -> Duration {
    match failures {
        0 => EVERY,
        some => SOON.saturating_mul(1 << (some - 1).min(10)).min(EVERY),
    }
}

async fn tell(registry: &Registry, remote: &Remote, condition: &Condition) -> Result<(), Status> {
    let served = registry.resource(GROUP, PLURAL)?;
    own::change(registry, served, &remote.name, |stored| {
        // One that is registered otherwise meanwhile has another to look after it.
        stored.get("spec") == Some(remote.spec()) && conditions::set(stored, condition)
    })
    .await
}

fn available(status: &'static str, reason: &'static str, message: String) -> Condition {
    Condition {
        kind: "Available",
        status,
        reason,
        message,
    }
}

/// The addresses of a server in a fixed order, or why there is none.
fn reachable(registry: &Registry, remote: &Remote) -> Result<Vec<String>, Condition> {
    let (namespace, name) = (remote.namespace.as_str(), remote.service.as_str());
    let unknown = |reason, error: &dyn std::fmt::Display| {
        let namespace = quote(namespace);
        let message = format!("service/{name} in {namespace} cannot be checked due to: {error}");
        available("Unknown", reason, message)
    };
    let service = registry.cached("", "services", &format!("{namespace}/{name}"));
    let service = match service.map(|service| service.value()).transpose() {
        Ok(service) => service,
        Err(error) => return Err(unknown("ServiceAccessError", &error)),
    };
    let slices = registry
        .endpoint_slices(namespace, name)
        .map_err(|error| unknown("EndpointsAccessError", &error))?;
    if let Some(missing) = missing(remote, service.as_ref(), &slices) {
        return Err(missing);
    }
    let mut addresses = remote
        .location(&*registry.storage)
        .map_err(|error| available("False", "FailedDiscoveryCheck", error.to_string()))?
        .addresses;
    addresses.sort_unstable();
    Ok(addresses)
}

/// What a Service lacks that is said to serve an API.
fn missing(remote: &Remote, service: Option<&Value>, slices: &[Value]) -> Option<Condition> {
    let (name, port) = (remote.service.as_str(), remote.port);
    let namespace = quote(&remote.namespace);
    let no = |reason, message| Some(available("False", reason, message));
    let Some(service) = service else {
        let message = format!("service/{name} in {namespace} is not present");
        return no("ServiceNotFound", message);
    };
    // Others may be reached although nothing is known of their endpoints.
    if service.str_at(&["spec", "type"]) != Some("ClusterIP") {
        return None;
    }
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
    None
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

/// Asks a server for what every server of its group and version must have.
async fn check(remote: &Remote, addresses: &[String]) -> Condition {
    let connection = match remote.connection() {
        Ok(connection) => connection,
        Err(error) => return available("False", "FailedDiscoveryCheck", explain(error)),
    };
    let mut attempts: FuturesUnordered<_> = addresses
        .iter()
        .cycle()
        .take(ATTEMPTS)
        .map(|address| attempt(connection, format!("https://{address}{}", remote.path())))
        .collect();
    let mut last = String::new();
    while let Some(done) = attempts.next().await {
        match done {
            Ok(()) => return available("True", "Passed", "all checks passed".into()),
            Err(error) => last = explain(&error),
        }
    }
    available("False", "FailedDiscoveryCheck", last)
}

/// Error for a server that does not show what it must have, in the words of stock.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("failing or missing response from {url}")]
    Request { url: String, source: http::Error },
    #[error("failing or missing response from {url}: bad status from {url}: {code}")]
    Refused { url: String, code: u16 },
    #[error("failing or missing response from {url}: Get {}: {why}", quote(url))]
    NoAnswer { url: String, why: String },
}

async fn attempt(connection: &Connection, url: String) -> Result<(), CheckError> {
    let mut request = match Request::get(&url).body(body::empty()) {
        Ok(request) => request,
        Err(source) => return Err(CheckError::Request { url, source }),
    };
    headers::identify(request.headers_mut(), &headers::aggregator());
    let why = match tokio::time::timeout(TIMEOUT, connection.client.request(request)).await {
        Ok(Ok(response)) if response.status().is_success() => return Ok(()),
        Ok(Ok(response)) => {
            let code = response.status().as_u16();
            return Err(CheckError::Refused { url, code });
        }
        Ok(Err(error)) => explain(&error),
        Err(_) => "context deadline exceeded".to_owned(),
    };
    Err(CheckError::NoAnswer { url, why })
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;
    use control_proxy::egress::Egress;

    #[test]
    fn what_is_missing_of_a_remote_service_is_told() {
        let remote = Remote::new(
            &value!({"metadata": {"name": "v1.g"}, "spec": {
                "group": "g", "version": "v1",
                "service": {"name": "s", "namespace": "n", "port": 443}
            }}),
            None,
            &Egress::default(),
        );
        let service = |port: i64| value!({"spec": {"type": "ClusterIP", "ports": [{"name": "https", "port": port}]}});
        let slice = |ready: bool| {
            value!({
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
                "ports": [{"name": "https", "port": 8443}]
            })
        };
        for (service, slices, reason, message) in [
            (
                None,
                vec![],
                "ServiceNotFound",
                "service/s in \"n\" is not present",
            ),
            (
                Some(service(80)),
                vec![],
                "ServicePortError",
                "service/s in \"n\" is not listening on port 443",
            ),
            (
                Some(service(443)),
                vec![],
                "EndpointsNotFound",
                "cannot find endpointslices for service/s in \"n\"",
            ),
            (
                Some(service(443)),
                vec![slice(false)],
                "MissingEndpoints",
                "endpointslices for service/s in \"n\" have no addresses with port name \"https\"",
            ),
        ] {
            let told = missing(&remote, service.as_ref(), &slices).expect("something");
            assert_eq!((told.status, told.reason), ("False", reason));
            assert_eq!(told.message, message);
        }
        assert_eq!(missing(&remote, Some(&service(443)), &[slice(true)]), None);
    }

    #[test]
    fn servers_that_fail_are_asked_ever_more_seldom() {
        assert_eq!(pause(0), EVERY);
        assert_eq!(pause(1), SOON);
        assert_eq!(pause(2), SOON * 2);
        assert_eq!(pause(40), EVERY);
    }
}
