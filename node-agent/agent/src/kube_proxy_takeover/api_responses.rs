//! Which Services answer a client on this node: those with a TCP port and a ready endpoint
//! are connected to, each port once.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use control_client::{Client, Error, Meta, Selection, resources};
use serde::Deserialize;
use tokio::{net::TcpStream, sync::Semaphore, task::JoinSet, time::timeout};

/// How long a Service may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections at a time.
const AT_ONCE: usize = 64;
/// The label that names a slice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of Services that another program than kube-proxy serves.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";

#[derive(Deserialize)]
struct RawService {
    metadata: Meta,
    #[serde(default)]
    spec: RawServiceSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawServiceSpec {
    #[serde(rename = "clusterIPs")]
    cluster_ips: Vec<String>,
    ports: Vec<RawServicePort>,
}

#[derive(Deserialize)]
struct RawServicePort {
    port: u16,
    #[serde(default)]
    protocol: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSlice {
    metadata: Meta,
    #[serde(default)]
    endpoints: Option<Vec<RawEndpoint>>,
}

#[derive(Deserialize)]
struct RawEndpoint {
    #[serde(default)]
    conditions: RawConditions,
}

#[derive(Default, Deserialize)]
struct RawConditions {
    ready: Option<bool>,
}

/// Returns the ports of Services, as `NAMESPACE/NAME ADDRESS:PORT`, that accept a connection
/// of this process, and how many were asked.
///
/// # Errors
/// What the API server says when it is asked for Services and their endpoints.
pub async fn answering(client: &Client) -> Result<(BTreeSet<String>, usize), Error> {
    let (services, slices) = listed(client).await?;
    let places = places(&services, &slices);
    let asked = places.len();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut all = JoinSet::new();
    for (name, place) in places {
        let turns = Arc::clone(&turns);
        all.spawn(async move {
            let _turn = turns.acquire_owned().await;
            // A single lost packet is no verdict.
            for _ in 0..2 {
                if let Ok(Ok(_)) = timeout(PATIENCE, TcpStream::connect(place)).await {
                    return Some(name);
                }
            }
            None
        });
    }
    let answers = all.join_all().await;
    Ok((answers.into_iter().flatten().collect(), asked))
}

/// Returns the Services with a ready endpoint, as `NAMESPACE/NAME ADDRESS`, whose address is not
/// among these.
///
/// # Errors
/// What the API server says when it is asked for Services and their endpoints.
pub async fn unnamed(client: &Client, named: &BTreeSet<IpAddr>) -> Result<BTreeSet<String>, Error> {
    let (services, slices) = listed(client).await?;
    let all = serving(&services, &slices);
    let unnamed = all.filter(|(_, address)| !named.contains(address));
    Ok(unnamed
        .map(|(service, address)| format!("{} {address}", service.full_name()))
        .collect())
}

async fn listed(client: &Client) -> Result<(Vec<RawService>, Vec<RawSlice>), Error> {
    let services = client
        .list::<RawService>(&resources::SERVICES, &Selection::all())
        .await?;
    let slices = client
        .list::<RawSlice>(&resources::ENDPOINT_SLICES, &Selection::all())
        .await?;
    Ok((services.items, slices.items))
}

impl RawService {
    fn full_name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }
}

/// Services of kube-proxy with a ready endpoint, by each of their addresses.
fn serving<'a>(
    services: &'a [RawService],
    slices: &[RawSlice],
) -> impl Iterator<Item = (&'a RawService, IpAddr)> {
    let ready: BTreeSet<(String, String)> = slices
        .iter()
        .filter(|slice| {
            let mut endpoints = slice.endpoints.iter().flatten();
            endpoints.any(|it| it.conditions.ready != Some(false))
        })
        .filter_map(|slice| {
            let meta = &slice.metadata;
            let service = meta.labels.get(SERVICE_NAME)?;
            Some((meta.namespace.to_string(), service.to_string()))
        })
        .collect();
    services
        .iter()
        .filter(move |service| {
            let meta = &service.metadata;
            let name = (meta.namespace.to_string(), meta.name.to_string());
            ready.contains(&name) && !meta.labels.contains_key(OTHER_PROXY)
        })
        .flat_map(|service| {
            // A headless Service has `None` for an address.
            let addresses = service.spec.cluster_ips.iter();
            addresses.filter_map(move |it| Some((service, it.parse().ok()?)))
        })
}

/// Where Services with a ready endpoint are to answer.
fn places(services: &[RawService], slices: &[RawSlice]) -> BTreeMap<String, SocketAddr> {
    let mut places = BTreeMap::new();
    for (service, address) in serving(services, slices) {
        let tcp = |port: &&RawServicePort| port.protocol.as_deref().unwrap_or("TCP") == "TCP";
        for port in service.spec.ports.iter().filter(tcp) {
            let place = SocketAddr::new(address, port.port);
            places.insert(format!("{} {place}", service.full_name()), place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn service(name: &str, addresses: &[&str], ports: &Value) -> RawService {
        let meta = json!({"namespace": "ns", "name": name});
        let spec = json!({"clusterIPs": addresses, "ports": ports});
        from_value(json!({"metadata": meta, "spec": spec})).expect("a Service")
    }

    fn slice(of: &str, endpoints: &Value) -> RawSlice {
        let meta = json!({"namespace": "ns", "name": of, "labels": {SERVICE_NAME: of}});
        from_value(json!({"metadata": meta, "endpoints": endpoints})).expect("a slice")
    }

    #[test]
    fn tcp_ports_of_services_with_a_ready_endpoint_are_asked() {
        let tcp = json!([{"port": 80}, {"port": 53, "protocol": "UDP"}]);
        let services = [
            service("web", &["10.96.0.1", "fd00::1"], &tcp),
            service("starting", &["10.96.0.2"], &tcp),
            service("empty", &["10.96.0.3"], &tcp),
            service("headless", &["None"], &tcp),
        ];
        let slices = [
            slice("web", &json!([{"conditions": {"ready": false}}, {}])),
            slice("starting", &json!([{"conditions": {"ready": false}}])),
            slice("empty", &Value::Null),
            slice("headless", &json!([{}])),
        ];
        let found = places(&services, &slices);
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["ns/web 10.96.0.1:80", "ns/web [fd00::1]:80"]);
    }

    #[test]
    fn kube_proxy_s_rules_name_all_services_but_those_of_another_proxy() {
        let udp = json!([{"port": 53, "protocol": "UDP"}]);
        let meta = json!({"namespace": "ns", "name": "others", "labels": {OTHER_PROXY: "x"}});
        let spec = json!({"clusterIPs": ["10.96.0.9"], "ports": udp});
        let others = from_value(json!({"metadata": meta, "spec": spec})).expect("a Service");
        let services = [service("dns", &["10.96.0.2", "fd00::2"], &udp), others];
        let slices = [slice("dns", &json!([{}])), slice("others", &json!([{}]))];
        let found: Vec<_> = serving(&services, &slices)
            .map(|it| it.1.to_string())
            .collect();
        assert_eq!(found, ["10.96.0.2", "fd00::2"]);
    }
}
