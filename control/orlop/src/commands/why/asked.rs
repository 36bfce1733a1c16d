//! Resolves the ends on the command line to addresses and ports.

use std::{collections::BTreeMap, net::IpAddr};

use control_client::{Client, Resource, Selection, resources};
use ebpf_abi::Protocol;
use node_agent::explain::FlowQuestion;
use node_agent_policy::{Compiler, End, check::Objects};
use serde::Deserialize;

use crate::error::Error;
use crate::values::InvalidValue;

/// Endpoints of a service that are looked at.
const ENDPOINTS: usize = 8;

/// ICMP, for which one rule of IPv4 and IPv6 stands.
const ICMP: Protocol = Protocol(1);

/// One end, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedPeer {
    /// The end.
    pub who: FlowEndName,
    /// Its port, if it was given.
    pub port: Option<u16>,
    /// The protocol.
    pub protocol: Protocol,
}

/// The kind of end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEndName {
    /// A pod.
    Pod(String, String),
    /// A service: its endpoints.
    Service(String, String),
    /// A node.
    Node(String),
    /// An address.
    Address(IpAddr),
}

/// A named flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEnd {
    /// The addresses of both ends.
    pub question: FlowQuestion,
    /// The Service whose endpoint is the server.
    pub service: Option<String>,
}

/// The flows to explain.
#[derive(Debug)]
pub struct FlowQuery {
    /// The flows, one for each pair of addresses.
    pub flows: Vec<NamedEnd>,
    /// Endpoints of the service that get no connections, in words.
    pub unused: Vec<String>,
}

/// Why there is no flow between two ends.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The Service has other ports.
    #[error("the service has no port {port}/{protocol}; its ports are {ports}")]
    NoPort {
        /// The port.
        port: u16,
        /// The protocol.
        protocol: Protocol,
        /// The Service's ports.
        ports: String,
    },
    /// The Service has no ports.
    #[error("the service has no ports")]
    NoPorts,
    /// The Service has no endpoints.
    #[error("the service has no endpoints")]
    NoEndpoints,
    /// So many endpoints get no connections.
    #[error("none of the service's {0} endpoints is ready")]
    NoneReady(usize),
    /// The command line names no port.
    #[error("which port? Write it behind the peer: PEER:PORT")]
    WhichPort,
    /// One end has IPv4 addresses, the other IPv6 addresses.
    #[error("the two ends have no addresses of the same IP version")]
    NoCommonFamily,
    /// The client is a Service.
    #[error("service {namespace}/{name} asks nobody: name one of its pods")]
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// This end does not exist, or not yet.
    #[error("{0} is not there, or has no address")]
    NoAddress(String),
}

/// Services by namespace and name.
pub type Services = BTreeMap<(String, String), ServiceEndpoints>;

/// The ports of a service, and its endpoints at them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceEndpoints {
    ports: Vec<(u16, Protocol)>,
    endpoints: Vec<Endpoint>,
}

/// One endpoint at one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The service's port.
    asked: u16,
    protocol: Protocol,
    address: IpAddr,
    port: u16,
    readiness: Readiness,
}

/// Whether an endpoint gets connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// Ends, and gets connections only while no endpoint is ready.
    Terminating,
    NotReady,
}

/// Reads a pod.
///
/// # Errors
/// What is wrong, for people.
pub fn pod(text: &str) -> Result<AskedPeer, InvalidValue> {
    let peer = peer(text)?;
    match peer.who {
        FlowEndName::Pod(..) => Ok(peer),
        _ => Err(InvalidValue::new(text, "pod", "write NAMESPACE/NAME")),
    }
}

/// Reads an end.
///
/// # Errors
/// What is wrong, for people.
pub fn peer(text: &str) -> Result<AskedPeer, InvalidValue> {
    let wrong = || {
        let way_out = "write NAMESPACE/NAME, svc/NAMESPACE/NAME, node/NAME or an address, with \
                       :PORT, and followed by /udp, /sctp or /icmp unless it is TCP";
        InvalidValue::new(text, "end of a connection", way_out)
    };
    let protocol = |word: &str| match word.to_ascii_lowercase().as_str() {
        "tcp" => Some(Protocol::TCP),
        "udp" => Some(Protocol::UDP),
        "sctp" => Some(Protocol::SCTP),
        "icmp" => Some(ICMP),
        _ => None,
    };
    // A pod may be called `udp`.
    let split = text.rsplit_once('/').and_then(|(rest, word)| {
        let is_whole = rest.contains('/') || rest.contains(':') || rest.parse::<IpAddr>().is_ok();
        is_whole.then_some(())?;
        Some((rest, protocol(word)?))
    });
    let (rest, protocol) = split.unwrap_or((text, Protocol::TCP));
    if let Ok(address) = rest.trim_matches(['[', ']']).parse() {
        return Ok(AskedPeer {
            who: FlowEndName::Address(address),
            port: None,
            protocol,
        });
    }
    let (name, port) = match rest.rsplit_once(':') {
        Some((name, port)) => (name, Some(port.parse().map_err(|_| wrong())?)),
        None => (rest, None),
    };
    let words: Vec<&str> = name.split('/').collect();
    if words.iter().any(|word| word.is_empty()) {
        return Err(wrong());
    }
    let owned = |text: &&str| (*text).to_owned();
    let who = match words.as_slice() {
        ["svc" | "service", namespace, name] => FlowEndName::Service(owned(namespace), owned(name)),
        ["pod", namespace, name] => FlowEndName::Pod(owned(namespace), owned(name)),
        ["node", name] => FlowEndName::Node(owned(name)),
        [namespace, name] => FlowEndName::Pod(owned(namespace), owned(name)),
        [address] => FlowEndName::Address(
            address
                .trim_matches(['[', ']'])
                .parse()
                .map_err(|_| wrong())?,
        ),
        _ => return Err(wrong()),
    };
    Ok(AskedPeer {
        who,
        port,
        protocol,
    })
}

/// Returns the endpoints of the named Services.
///
/// # Errors
/// The API server's error.
pub async fn services(client: &Client, peers: [&AskedPeer; 2]) -> Result<Services, Error> {
    let mut all = Services::new();
    for peer in peers {
        let FlowEndName::Service(namespace, name) = &peer.who else {
            continue;
        };
        let service: Service = client
            .get(&resources::SERVICES, namespace, name)
            .await
            .map_err(Error::Client)?;
        let its = Selection::all()
            .namespace(namespace)
            .labels(format!("kubernetes.io/service-name={name}"));
        let slices = client
            .list::<Slice>(&SLICES, &its)
            .await
            .map_err(Error::Client)?;
        let endpoints = endpoints(&service, &slices.items);
        all.insert((namespace.clone(), name.clone()), endpoints);
    }
    Ok(all)
}

const SLICES: Resource =
    Resource::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");

#[derive(Deserialize, Default)]
#[serde(default)]
struct Service {
    spec: ServiceSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServiceSpec {
    ports: Vec<Port>,
}

/// Of a Service (`port` is its own) or of a slice (`port` is the endpoints').
#[derive(Deserialize, Default)]
#[serde(default)]
struct Port {
    name: Option<String>,
    port: u16,
    protocol: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Slice {
    ports: Vec<Port>,
    endpoints: Vec<SliceEndpoint>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SliceEndpoint {
    addresses: Vec<String>,
    conditions: Conditions,
}

/// Absent conditions count as ready and serving, and as not terminating.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

impl Conditions {
    fn readiness(&self) -> Readiness {
        if self.ready.unwrap_or(true) {
            Readiness::Ready
        } else if self.serving.unwrap_or(false) && self.terminating.unwrap_or(false) {
            Readiness::Terminating
        } else {
            Readiness::NotReady
        }
    }
}

fn endpoints(service: &Service, slices: &[Slice]) -> ServiceEndpoints {
    let name = |port: &Port| port.name.clone().unwrap_or_default();
    let mut ports = Vec::new();
    let mut all = Vec::new();
    for asked in &service.spec.ports {
        let Some(protocol) = node_agent_policy::policy::protocol(asked.protocol.as_deref()) else {
            continue;
        };
        ports.push((asked.port, protocol));
        for slice in slices {
            for port in slice.ports.iter().filter(|it| name(it) == name(asked)) {
                for endpoint in &slice.endpoints {
                    let addresses = endpoint.addresses.iter();
                    all.extend(addresses.filter_map(|it| {
                        Some(Endpoint {
                            asked: asked.port,
                            protocol,
                            address: it.parse().ok()?,
                            port: port.port,
                            readiness: endpoint.conditions.readiness(),
                        })
                    }));
                }
            }
        }
    }
    all.sort_by_key(|it| (it.asked, it.address));
    ServiceEndpoints {
        ports,
        endpoints: all,
    }
}

impl ServiceEndpoints {
    /// The endpoints that get connections to a port, and those that do not.
    fn at(
        &self,
        port: Option<u16>,
        protocol: Protocol,
    ) -> Result<(Vec<&Endpoint>, Vec<&Endpoint>), FlowError> {
        let is_asked =
            |asked: u16, of: Protocol| port.is_none_or(|port| asked == port && of == protocol);
        if !self.ports.iter().any(|(port, of)| is_asked(*port, *of)) {
            let ports: Vec<String> = self
                .ports
                .iter()
                .map(|(port, protocol)| format!("{port}/{protocol}"))
                .collect();
            return Err(match (port, ports.is_empty()) {
                (Some(port), false) => FlowError::NoPort {
                    port,
                    protocol,
                    ports: ports.join(", "),
                },
                _ => FlowError::NoPorts,
            });
        }
        let its: Vec<&Endpoint> = self
            .endpoints
            .iter()
            .filter(|it| is_asked(it.asked, it.protocol))
            .collect();
        // As kube-proxy has it: terminating ones serve while none is ready.
        let best = if its.iter().any(|it| it.readiness == Readiness::Ready) {
            Readiness::Ready
        } else {
            Readiness::Terminating
        };
        let (used, unused): (Vec<_>, Vec<_>) = its.into_iter().partition(|it| it.readiness == best);
        if used.is_empty() {
            return Err(match unused.len() {
                0 => FlowError::NoEndpoints,
                count => FlowError::NoneReady(count),
            });
        }
        Ok((used, unused))
    }
}

/// Returns the flows between two ends: one for each family that both have, and for each
/// endpoint of a Service.
///
/// # Errors
/// An unknown end, a missing port, no common family.
pub fn flows(
    compiler: &Compiler,
    objects: &Objects,
    services: &Services,
    from: &AskedPeer,
    to: &AskedPeer,
) -> Result<FlowQuery, FlowError> {
    let mut unused = Vec::new();
    let sources = addresses(compiler, objects, from)?;
    let targets: Vec<(IpAddr, u16, Protocol, Option<String>)> = match &to.who {
        FlowEndName::Service(namespace, name) => {
            let none = ServiceEndpoints::default();
            let known = services.get(&(namespace.clone(), name.clone()));
            let (used, others) = known.unwrap_or(&none).at(to.port, to.protocol)?;
            unused.extend(
                others
                    .iter()
                    .map(|it| std::net::SocketAddr::new(it.address, it.port).to_string()),
            );
            used.into_iter()
                .take(ENDPOINTS)
                .map(|it| {
                    let service = format!("{namespace}/{name}:{}", it.asked);
                    (it.address, it.port, it.protocol, Some(service))
                })
                .collect()
        }
        _ => {
            let port = match to.port {
                Some(port) => port,
                None if to.protocol == ICMP => 0,
                None => return Err(FlowError::WhichPort),
            };
            let addresses = addresses(compiler, objects, to)?.into_iter();
            addresses
                .map(|address| (address, port, to.protocol, None))
                .collect()
        }
    };
    let mut flows = Vec::new();
    for (to, port, protocol, service) in targets {
        let same = sources.iter().filter(|it| it.is_ipv4() == to.is_ipv4());
        for from in same {
            flows.push(NamedEnd {
                question: FlowQuestion {
                    from: *from,
                    to,
                    protocol,
                    port,
                },
                service: service.clone(),
            });
        }
    }
    if flows.is_empty() {
        return Err(FlowError::NoCommonFamily);
    }
    Ok(FlowQuery { flows, unused })
}

fn addresses(
    compiler: &Compiler,
    objects: &Objects,
    peer: &AskedPeer,
) -> Result<Vec<IpAddr>, FlowError> {
    let (end, what) = match &peer.who {
        FlowEndName::Address(address) => return Ok(vec![*address]),
        FlowEndName::Service(namespace, name) => {
            return Err(FlowError::Service {
                namespace: namespace.clone(),
                name: name.clone(),
            });
        }
        FlowEndName::Node(name) => (End::Node(name.clone()), format!("node `{name}`")),
        FlowEndName::Pod(namespace, name) => {
            let pod = objects.pods.get(&(namespace.clone(), name.clone()));
            let end = match pod {
                Some(pod) if pod.spec.host_network => End::Node(pod.spec.node_name.clone()),
                _ => End::Pod {
                    namespace: namespace.clone(),
                    name: name.clone(),
                },
            };
            (end, format!("pod `{namespace}/{name}`"))
        }
    };
    match compiler.addresses(&end) {
        none if none.is_empty() => Err(FlowError::NoAddress(what)),
        addresses => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use node_agent_policy::{Config, check};
    use serde_json::json;

    use super::*;

    fn who(text: &str) -> (FlowEndName, Option<u16>, Protocol) {
        let peer = peer(text).unwrap();
        (peer.who, peer.port, peer.protocol)
    }

    #[test]
    fn ends_are_understood() {
        let pod = |namespace: &str, name: &str| FlowEndName::Pod(namespace.into(), name.into());
        let at = |text: &str| FlowEndName::Address(text.parse().unwrap());
        for (text, expected) in [
            ("shop/web", (pod("shop", "web"), None, Protocol::TCP)),
            ("shop/web:80", (pod("shop", "web"), Some(80), Protocol::TCP)),
            ("shop/udp", (pod("shop", "udp"), None, Protocol::TCP)),
            (
                "shop/web:53/UDP",
                (pod("shop", "web"), Some(53), Protocol::UDP),
            ),
            ("shop/web/icmp", (pod("shop", "web"), None, ICMP)),
            (
                "pod/node/web:1",
                (pod("node", "web"), Some(1), Protocol::TCP),
            ),
            (
                "svc/shop/db:5432",
                (
                    FlowEndName::Service("shop".into(), "db".into()),
                    Some(5432),
                    Protocol::TCP,
                ),
            ),
            (
                "node/n1:22",
                (FlowEndName::Node("n1".into()), Some(22), Protocol::TCP),
            ),
            ("192.0.2.1", (at("192.0.2.1"), None, Protocol::TCP)),
            (
                "192.0.2.1:53/udp",
                (at("192.0.2.1"), Some(53), Protocol::UDP),
            ),
            ("fd00::1", (at("fd00::1"), None, Protocol::TCP)),
            ("fd00::1/icmp", (at("fd00::1"), None, ICMP)),
            ("[fd00::1]:9/sctp", (at("fd00::1"), Some(9), Protocol::SCTP)),
        ] {
            assert_eq!(who(text), expected, "{text}");
        }
        for text in ["", "web", "shop/", "shop/web:http", "a/b/c/d", "/web"] {
            assert!(peer(text).is_err(), "{text}");
        }
        assert!(super::pod("node/n1").is_err() && super::pod("shop/web").is_ok());
    }

    #[test]
    fn flows_are_between_addresses_of_one_family_and_to_each_endpoint() {
        let pod = |name: &str, v4: &str, v6: &str| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {"nodeName": "n1"},
                "status": {"podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}]},
            })
        };
        let documents = vec![
            pod("web", "10.0.0.1", "fd00::1"),
            pod("db", "10.0.0.2", "fd00::2"),
        ];
        let (objects, _) = check::read(documents).unwrap();
        let mut compiler = Compiler::new(Config::default());
        objects.apply_to(&mut compiler);
        compiler.sync();
        let of = |service: serde_json::Value| serde_json::from_value(service).unwrap();
        let service: Service = of(json!({"spec": {"ports": [{"name": "sql", "port": 5432}]}}));
        let slice: Slice = serde_json::from_value(json!({
            "ports": [{"name": "sql", "port": 15432}, {"name": "other", "port": 1}],
            "endpoints": [
                {"addresses": ["10.0.0.2"]},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": true}},
                {"addresses": ["10.0.0.4"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.5"],
                    "conditions": {"ready": false, "serving": true, "terminating": true}},
            ],
        }))
        .unwrap();
        let key = ("shop".to_owned(), "db".to_owned());
        let services = Services::from([(key, endpoints(&service, &[slice]))]);
        let asked = |to: &str| {
            let found = flows(
                &compiler,
                &objects,
                &services,
                &peer("shop/web").unwrap(),
                &peer(to).unwrap(),
            )?;
            let texts = found.flows.iter().map(|it| {
                let service = it.service.clone().unwrap_or_default();
                let FlowQuestion { from, to, port, .. } = it.question;
                format!("{from} {to} {port} {service}")
            });
            Ok::<_, FlowError>(texts.collect::<Vec<_>>())
        };
        assert_eq!(
            asked("shop/db:80").unwrap(),
            ["10.0.0.1 10.0.0.2 80 ", "fd00::1 fd00::2 80 "]
        );
        assert_eq!(
            asked("svc/shop/db:5432").unwrap(),
            [
                "10.0.0.1 10.0.0.2 15432 shop/db:5432",
                "10.0.0.1 10.0.0.3 15432 shop/db:5432"
            ]
        );
        assert_eq!(asked("192.0.2.1:7").unwrap(), ["10.0.0.1 192.0.2.1 7 "]);
        assert_eq!(asked("192.0.2.1/icmp").unwrap(), ["10.0.0.1 192.0.2.1 0 "]);
        assert!(matches!(asked("shop/db"), Err(FlowError::WhichPort)));
        assert_eq!(
            asked("svc/shop/db:1").unwrap_err().to_string(),
            "the service has no port 1/TCP; its ports are 5432/TCP"
        );
        assert!(matches!(asked("shop/gone:1"), Err(FlowError::NoAddress(_))));
    }

    #[test]
    fn endpoints_that_are_not_ready_get_no_connections() {
        let of = |conditions: &[(bool, bool, bool)]| {
            let endpoints: Vec<_> = (1..)
                .zip(conditions)
                .map(|(number, (ready, serving, terminating))| {
                    json!({"addresses": [format!("10.0.0.{number}")], "conditions":
                        {"ready": ready, "serving": serving, "terminating": terminating}})
                })
                .collect();
            let slice = json!({"ports": [{"port": 80}], "endpoints": endpoints});
            let service = json!({"spec": {"ports": [{"port": 80}]}});
            super::endpoints(
                &serde_json::from_value(service).unwrap(),
                &[serde_json::from_value(slice).unwrap()],
            )
        };
        let used = |endpoints: &ServiceEndpoints| {
            let (used, unused) = endpoints.at(Some(80), Protocol::TCP)?;
            let texts = |all: Vec<&Endpoint>| -> Vec<String> {
                all.iter().map(|it| it.address.to_string()).collect()
            };
            Ok::<_, FlowError>((texts(used), texts(unused)))
        };
        let (ready, gone, ending) = (
            (true, true, false),
            (false, false, false),
            (false, true, true),
        );
        let of_all = used(&of(&[ready, gone, ending])).unwrap();
        assert_eq!((of_all.0.len(), of_all.1.len()), (1, 2));
        assert_eq!(of_all.0, ["10.0.0.1"]);
        assert_eq!(used(&of(&[gone, ending])).unwrap().0, ["10.0.0.2"]);
        let none = used(&of(&[gone, gone])).unwrap_err().to_string();
        assert_eq!(none, "none of the service's 2 endpoints is ready");
    }
}
