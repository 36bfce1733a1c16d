//! `pods/proxy`, `services/proxy` and `nodes/proxy`: any request, passed on.

use std::net::IpAddr;
use std::sync::Arc;

use control_types::status::{Status, quote};
use control_types::value::Value;
use rand::seq::SliceRandom;

use crate::admit::admit;
use crate::connector::Connector;
use crate::node;
use control_proxy::egress::target::Target;
use control_proxy::egress::trust::unverified_tls;
use control_proxy::forward::forward;
use control_proxy::name::ProxyName;
use control_registry::{Context, ServedResource};
use control_request::Answer;
use control_request::body::Body;

impl Connector {
    /// Passes a request on to the object of its path.
    ///
    /// # Errors
    /// What admission refuses; 400 for a name of another form and for addresses that are nobody's but this
    /// host's; 404; 503 when there is nothing to pass it on to.
    pub async fn proxy(
        &self,
        context: &Context,
        served: &Arc<ServedResource>,
        body: Body,
    ) -> Answer {
        admit(context, served).await?;
        let asked = &context.info.name;
        let plural = served.resource.plural;
        let kind = plural.trim_end_matches('s');
        let name = ProxyName::parse(asked).ok_or_else(|| {
            Status::bad_request(format!("invalid {kind} request {}", quote(asked)))
        })?;
        let target = match plural {
            "pods" => pod(self, context, served, &name).await?,
            "services" => service(self, context, served, &name).await?,
            _ => of_node(self, context, &name).await?,
        };
        forward(context.proxied(), &target, body).await
    }
}

async fn pod(
    connector: &Connector,
    context: &Context,
    served: &ServedResource,
    name: &ProxyName<'_>,
) -> Result<Target, Status> {
    let key = served.key(&context.info.namespace, name.name);
    let pod = served.tree(&*context.registry.get(served, &key).await?)?;
    let (host, port) = pod_address(&pod, name)?;
    Ok(Target {
        host,
        port,
        tls: name.https.then(unverified_tls),
        server_name: None,
        dialer: connector.dialer.clone(),
    })
}

/// A pod's address and the port that is meant: the one named, else the first
/// that a container declares, else the scheme's.
fn pod_address(pod: &Value, name: &ProxyName<'_>) -> Result<(String, u16), Status> {
    let declared = || {
        pod.items_at(&["spec", "containers"])
            .iter()
            .find_map(|container| container.items_at(&["ports"]).first())
            .and_then(|port| u16::try_from(port.i64_at(&["containerPort"])?).ok())
            .unwrap_or(if name.https { 443 } else { 80 })
    };
    let port = if name.port.is_empty() {
        declared()
    } else {
        number(name.port)?
    };
    let address = pod
        .items_at(&["status", "podIPs"])
        .first()
        .and_then(|ip| ip.str_at(&["ip"]))
        .unwrap_or_default();
    allowed(address)?;
    Ok((address.to_owned(), port))
}

async fn service(
    connector: &Connector,
    context: &Context,
    served: &ServedResource,
    name: &ProxyName<'_>,
) -> Result<Target, Status> {
    let registry = &context.registry;
    registry.catch_up().await?;
    let namespace = &context.info.namespace;
    let key = served.key(namespace, name.name);
    let Some(service) = served.cache()?.get(&key) else {
        return Err(Status::not_found("", "services", name.name));
    };
    let port = port_name(&served.tree(&service)?, name)?;
    let slices = registry.resource("discovery.k8s.io", "endpointslices")?;
    let prefix = format!("{namespace}/");
    let state = slices.cache()?.state();
    let mut endpoints = Vec::new();
    // A service that nobody has looked at yet is told like one that is not there.
    let mut known = false;
    for slice in state.objects.prefixed(&prefix) {
        let slice = slices.tree(slice)?;
        if slice.str_at(&["metadata", "labels", "kubernetes.io/service-name"]) == Some(name.name) {
            known = true;
            ready(&slice, &port, namespace, &mut endpoints);
        }
    }
    if !known {
        return Err(Status::not_found("", "services", name.name));
    }
    endpoints.shuffle(&mut rand::rng());
    let pods = registry.resource("", "pods")?;
    for endpoint in endpoints {
        // Only what is really a pod's is asked: an address that somebody wrote
        // into a slice may be anything that this host can reach.
        let key = pods.key(namespace, &endpoint.pod);
        let Some(pod) = pods.cache()?.get(&key) else {
            continue;
        };
        let pod = pods.tree(&pod)?;
        let has = |ip: &Value| ip.str_at(&["ip"]) == Some(&endpoint.address);
        if pod.items_at(&["status", "podIPs"]).iter().any(has) {
            return Ok(Target {
                host: endpoint.address,
                port: endpoint.port,
                tls: name.https.then(unverified_tls),
                server_name: None,
                dialer: connector.dialer.clone(),
            });
        }
    }
    Err(Status::service_unavailable(format!(
        "no endpoints available for service {}",
        quote(&context.info.name)
    )))
}

/// The name of the service's port that is meant; empty is a port without name.
fn port_name(service: &Value, name: &ProxyName<'_>) -> Result<String, Status> {
    let Ok(number) = name.port.parse::<i64>() else {
        return Ok(name.port.to_owned());
    };
    service
        .items_at(&["spec", "ports"])
        .iter()
        .find(|port| port.i64_at(&["port"]) == Some(number))
        .map(|port| port.str_at(&["name"]).unwrap_or_default().to_owned())
        .ok_or_else(|| {
            Status::service_unavailable(format!(
                "no service port {number} found for service {}",
                quote(name.name)
            ))
        })
}

/// An endpoint that is said to be a pod's.
#[derive(Debug, PartialEq, Eq)]
struct PodEndpoint {
    address: String,
    port: u16,
    pod: String,
}

/// The ready endpoints of a slice with a port of that name.
fn ready(slice: &Value, port: &str, namespace: &str, out: &mut Vec<PodEndpoint>) {
    let port = slice
        .items_at(&["ports"])
        .iter()
        .find(|known| known.str_at(&["name"]).unwrap_or_default() == port)
        .and_then(|known| u16::try_from(known.i64_at(&["port"])?).ok());
    let Some(port) = port else { return };
    for endpoint in slice.items_at(&["endpoints"]) {
        let ready = endpoint.bool_at(&["conditions", "ready"]).unwrap_or(true);
        let of_pod = endpoint.str_at(&["targetRef", "kind"]) == Some("Pod")
            && endpoint.str_at(&["targetRef", "namespace"]) == Some(namespace);
        let pod = endpoint.str_at(&["targetRef", "name"]);
        let addresses = endpoint.items_at(&["addresses"]);
        if let (true, true, Some(pod)) = (ready, of_pod, pod) {
            out.extend(
                addresses
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|address| PodEndpoint {
                        address: address.to_owned(),
                        port,
                        pod: pod.to_owned(),
                    }),
            );
        }
    }
}

/// A node: its agent, or another port of its.
async fn of_node(
    connector: &Connector,
    context: &Context,
    name: &ProxyName<'_>,
) -> Result<Target, Status> {
    let endpoint = node::endpoint(context, name.name).await?;
    // Resolved once: who answers for the name must not answer the check and the connection
    // differently.
    let address = checked(resolve(&endpoint.host).await?)?;
    if name.port.is_empty() || name.port == endpoint.port.to_string() {
        let target = connector.kubelets()?.target(&endpoint, true);
        return Ok(Target {
            host: address,
            server_name: Some(endpoint.host),
            ..target
        });
    }
    Ok(Target {
        host: address,
        port: number(name.port)?,
        tls: name.https.then(unverified_tls),
        server_name: Some(endpoint.host),
        dialer: connector.dialer.clone(),
    })
}

async fn resolve(host: &str) -> Result<Vec<String>, Status> {
    if host.parse::<IpAddr>().is_ok() {
        return Ok(vec![host.to_owned()]);
    }
    let found = tokio::net::lookup_host((host, 0))
        .await
        .map_err(|error| Status::bad_request(format!("lookup {host}: {error}")))?;
    Ok(found.map(|address| address.ip().to_string()).collect())
}

/// Returns the address to connect to, if all that a name stands for are allowed.
fn checked(addresses: Vec<String>) -> Result<String, Status> {
    for address in &addresses {
        allowed(address)?;
    }
    let mut addresses = addresses.into_iter();
    addresses
        .next()
        .ok_or_else(|| Status::bad_request("address not allowed"))
}

fn number(port: &str) -> Result<u16, Status> {
    port.parse().map_err(|_| {
        Status::service_unavailable(format!(
            "error trying to reach service: {} is not a port's number",
            quote(port)
        ))
    })
}

/// This host's own addresses and those of its link are not for callers: behind
/// them may be what trusts whoever reaches it.
fn allowed(address: &str) -> Result<(), Status> {
    let global = address.parse::<IpAddr>().is_ok_and(|address| {
        let outside = match address.to_canonical() {
            IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_broadcast(),
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        };
        let address = address.to_canonical();
        outside && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
    });
    if global {
        Ok(())
    } else {
        Err(Status::bad_request("address not allowed"))
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn name(text: &str) -> ProxyName<'_> {
        ProxyName::parse(text).expect("a name")
    }

    #[test]
    fn a_pod_s_port_is_the_named_the_declared_or_the_scheme_s() {
        let pod = value!({
            "spec": {"containers": [{"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080}]}]},
            "status": {"podIPs": [{"ip": "10.1.2.3"}]}
        });
        let bare =
            value!({"spec": {"containers": [{}]}, "status": {"podIPs": [{"ip": "fd00::3"}]}});
        for (pod, asked, host, port) in [
            (&pod, "p", "10.1.2.3", 8080),
            (&pod, "p:81", "10.1.2.3", 81),
            (&bare, "p", "fd00::3", 80),
            (&bare, "https:p:", "fd00::3", 443),
        ] {
            let found = pod_address(pod, &name(asked)).expect("an address");
            assert_eq!(found, (host.to_owned(), port), "{asked}");
        }
    }

    #[test]
    fn addresses_of_this_host_are_not_for_callers() {
        for address in [
            "",
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "0.0.0.0",
            "::",
            "255.255.255.255",
        ] {
            let status = allowed(address).expect_err(address);
            assert_eq!(
                (status.code, status.message.as_str()),
                (400, "address not allowed")
            );
        }
        for address in [
            "10.1.2.3",
            "192.168.0.1",
            "8.8.8.8",
            "fd00::1",
            "2001:db8::1",
        ] {
            allowed(address).expect(address);
        }
    }

    #[test]
    fn a_name_leads_to_an_address_that_was_checked() {
        let addresses = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let found = checked(addresses(&["10.1.2.3", "fd00::1"]));
        assert_eq!(found.as_deref(), Ok("10.1.2.3"));
        for wrong in [&[][..], &["127.0.0.1"], &["10.1.2.3", "::1"]] {
            let status = checked(addresses(wrong)).expect_err("not allowed");
            assert_eq!(status.code, 400, "{wrong:?}");
        }
    }

    #[test]
    fn a_service_s_port_may_be_a_number_of_the_service() {
        let service = value!({"spec": {"ports": [{"name": "http", "port": 80}, {"port": 81}]}});
        assert_eq!(port_name(&service, &name("s:80")), Ok("http".into()));
        assert_eq!(port_name(&service, &name("s:81")), Ok(String::new()));
        assert_eq!(port_name(&service, &name("s:http")), Ok("http".into()));
        assert_eq!(port_name(&service, &name("s")), Ok(String::new()));
        let status = port_name(&service, &name("s:82")).expect_err("no such port");
        assert_eq!(status.message, "no service port 82 found for service \"s\"");
    }

    #[test]
    fn only_ready_pods_of_the_namespace_are_endpoints() {
        let pod = |name: &str, namespace: &str| value!({"kind": "Pod", "name": name, "namespace": namespace});
        let slice = value!({
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "targetRef": (pod("a", "n"))},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}, "targetRef": (pod("b", "n"))},
                {"addresses": ["10.0.0.3"], "targetRef": (pod("c", "other"))},
                {"addresses": ["10.0.0.4"]},
                {"addresses": ["10.0.0.5"], "targetRef": (pod("d", "n"))}
            ]
        });
        let mut found = Vec::new();
        ready(&slice, "http", "n", &mut found);
        let addresses: Vec<_> = found.iter().map(|one| one.address.as_str()).collect();
        assert_eq!(addresses, ["10.0.0.1", "10.0.0.5"]);
        found.clear();
        ready(&slice, "https", "n", &mut found);
        assert_eq!(found, []);
    }
}
