//! The view of EndpointSlices. A cluster's endpoints are most of what an agent reads and
//! keeps.

use std::net::IpAddr;
use std::sync::Arc;

use compact_str::CompactString;
use control_client::{Identity, Meta, Object, Resource, resources};
use jiff::Timestamp;
use node_agent_plan as plan;
use serde::Deserialize;
use smallvec::SmallVec;

use crate::{ServicePort, SharedView};

/// When the objects behind an EndpointSlice changed (the endpoints controllers write it).
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label that names an EndpointSlice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// An EndpointSlice: its identity, the plan's form of it, and what that leaves out but DNS
/// needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ReadSlice")]
pub struct EndpointSlice {
    identity: Identity,
    triggered: Option<Timestamp>,
    state: Arc<plan::SliceState>,
    /// Whatever DNS cannot read from the plan's form: of headless Services, and of slices
    /// with hostnames or unusual addresses.
    named: Option<Box<NamedEndpoints>>,
}

/// A ready endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its addresses, at least one.
    pub addresses: SmallVec<[IpAddr; 1]>,
    /// Its hostname, if it has one.
    pub hostname: Option<Box<str>>,
}

#[derive(Clone, Debug)]
struct NamedEndpoints {
    service: Box<str>,
    hosts: Box<[Host]>,
    ports: Box<[ServicePort]>,
}

/// An EndpointSlice as the API has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadSlice {
    metadata: Meta,
    #[serde(default)]
    address_type: CompactString,
    #[serde(default)]
    endpoints: plan::Endpoints,
    #[serde(default)]
    ports: Option<Vec<plan::EndpointPort>>,
}

objects!(EndpointSlice of resources::ENDPOINT_SLICES);

impl SharedView for EndpointSlice {}

impl EndpointSlice {
    /// The plan's form of it.
    #[must_use]
    pub const fn state(&self) -> &Arc<plan::SliceState> {
        &self.state
    }

    /// When what it follows from changed, if its controller says so.
    #[must_use]
    pub const fn triggered(&self) -> Option<Timestamp> {
        self.triggered
    }

    /// The name of its Service, which may be headless.
    #[must_use]
    pub fn service(&self) -> Option<&str> {
        let named = self.named.as_ref().map(|it| &*it.service);
        named.or_else(|| self.state.service())
    }

    /// Its ready endpoints.
    pub fn hosts(&self) -> impl Iterator<Item = Host> + '_ {
        let named = self.named.iter().flat_map(|it| it.hosts.iter().cloned());
        let planned = self.named.is_none().then(|| self.state.listed_endpoints());
        let planned = planned.into_iter().flatten().filter(|it| it.is_ready);
        named.chain(planned.map(|it| Host {
            addresses: SmallVec::from_buf([it.address]),
            hostname: None,
        }))
    }

    /// Whether one of its ready endpoints has this address.
    #[must_use]
    pub fn has_host_at(&self, address: IpAddr) -> bool {
        match &self.named {
            Some(named) => named.hosts.iter().any(|it| it.addresses.contains(&address)),
            None => {
                let mut endpoints = self.state.listed_endpoints();
                endpoints.any(|it| it.is_ready && it.address == address)
            }
        }
    }

    /// Its ports.
    #[must_use]
    pub fn ports(&self) -> Vec<ServicePort> {
        match &self.named {
            Some(named) => named.ports.to_vec(),
            None => {
                let ports = self.state.named_ports();
                let port = |(name, protocol, port): (&str, _, _)| ServicePort {
                    name: name.into(),
                    protocol,
                    port,
                };
                ports.map(port).collect()
            }
        }
    }
}

impl From<ReadSlice> for EndpointSlice {
    fn from(read: ReadSlice) -> Self {
        let label = |label: &str| read.metadata.labels.get(label);
        let ports = read.ports.unwrap_or_default();
        let state = plan::SliceState::new(label, &read.address_type, &read.endpoints, &ports);
        let mut endpoints = read.endpoints.iter();
        let is_plain = state.is_complete()
            && endpoints.all(|it| it.hostname().is_none() && it.addresses().nth(1).is_none());
        let service = label(SERVICE_NAME).filter(|_| !is_plain);
        let named =
            service.map(|service| Box::new(NamedEndpoints::new(service, &read.endpoints, &ports)));
        let triggered = read.metadata.annotations.get(TRIGGER);
        Self {
            triggered: triggered.and_then(|text| text.parse().ok()),
            identity: read.metadata.into(),
            state: Arc::new(state),
            named,
        }
    }
}

impl NamedEndpoints {
    fn new(service: &str, endpoints: &plan::Endpoints, ports: &[plan::EndpointPort]) -> Self {
        let ready = endpoints.iter().filter(|it| it.is_ready());
        let hosts = ready.filter_map(|it| {
            let addresses: SmallVec<_> = it.addresses().collect();
            (!addresses.is_empty()).then(|| Host {
                addresses,
                hostname: it.hostname().map(Into::into),
            })
        });
        let ports = ports.iter().filter_map(|port| {
            let (name, protocol) = (port.name.as_deref(), port.protocol.as_deref());
            ServicePort::new(name, protocol, port.port.unwrap_or_default())
        });
        Self {
            service: service.into(),
            hosts: hosts.collect(),
            ports: ports.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(headless: bool) -> serde_json::Value {
        let mut written = serde_json::json!({
            "metadata": {
                "name": "web-4", "namespace": "ns", "resourceVersion": "7",
                "labels": {"app": "web", "kubernetes.io/service-name": "web"},
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u"}],
            },
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.0.0.1", "10.0.0.2"], "conditions": {"ready": false, "serving": true},
                    "nodeName": "a", "zone": "z", "hints": {"forZones": [{"name": "z"}]}},
                {"addresses": [], "conditions": null},
                {"addresses": null},
                {"addresses": ["10.0.0.3"], "hints": null, "nodeName": null},
                {"addresses": ["10.0.0.4"], "hints": {"forZones": null, "forNodes": [{"name": "b"}]}},
                {"addresses": ["fd00::1"]},
                {"addresses": ["10.0.0"]},
            ],
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}, {"name": "x", "port": 0}],
        });
        if headless {
            written["metadata"]["labels"]["service.kubernetes.io/headless"] = "".into();
        }
        written
    }

    #[test]
    fn a_slice_is_read_without_its_texts_and_planned_as_it_was_written() {
        for headless in [false, true] {
            let written = written(headless);
            let slice: EndpointSlice = serde_json::from_value(written.clone()).expect("a slice");
            let of_text: EndpointSlice =
                serde_json::from_str(&written.to_string()).expect("a slice");
            let whole: plan::EndpointSlice = serde_json::from_value(written).expect("a slice");
            assert_eq!(**slice.state(), plan::SliceState::from(&whole));
            assert_eq!(slice.state(), of_text.state());
            assert_eq!(slice.state().service(), (!headless).then_some("web"));
            assert_eq!(slice.service(), Some("web"));
            assert_eq!(slice.resource_version(), "7");
            let triggered = slice.triggered().map(|it| it.to_string());
            assert_eq!(triggered.as_deref(), Some("2026-01-01T00:00:00Z"));
        }
        for bare in [
            r#"{"metadata": {}}"#,
            r#"{"metadata": {}, "endpoints": null, "ports": null}"#,
        ] {
            let bare: EndpointSlice = serde_json::from_str(bare).expect("a slice");
            assert_eq!(**bare.state(), plan::SliceState::default());
            assert_eq!(bare.service(), None);
            assert!(bare.hosts().next().is_none() && bare.ports().is_empty());
        }
    }

    fn hosts(slice: &EndpointSlice) -> Vec<String> {
        let text = |host: Host| format!("{:?} {:?}", host.hostname, host.addresses.as_slice());
        slice.hosts().map(text).collect()
    }

    #[test]
    fn names_are_read_from_the_plan_s_form_where_it_has_all_of_a_slice() {
        let read = |endpoints: serde_json::Value, headless: bool| -> EndpointSlice {
            let mut written = written(headless);
            written["endpoints"] = endpoints;
            written["ports"] = serde_json::json!([{"name": "http", "port": 80}]);
            serde_json::from_value(written).expect("a slice")
        };
        let plain = serde_json::json!([
            {"addresses": ["10.0.0.1"]},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
            {"addresses": ["10.0.0.3"], "hostname": ""},
        ]);
        for headless in [false, true] {
            let slice = read(plain.clone(), headless);
            assert_eq!(slice.named.is_some(), headless);
            assert_eq!(hosts(&slice), ["None [10.0.0.1]", "None [10.0.0.3]"]);
            assert!(slice.has_host_at(IpAddr::from([10, 0, 0, 3])));
            assert!(!slice.has_host_at(IpAddr::from([10, 0, 0, 2])));
            let port = ServicePort::new(Some("http"), None, 80).expect("a port");
            assert_eq!(slice.ports(), [port]);
        }
        for (endpoint, expected) in [
            (
                serde_json::json!({"addresses": ["10.0.0.1"], "hostname": "db-0"}),
                r#"Some("db-0") [10.0.0.1]"#,
            ),
            (
                serde_json::json!({"addresses": ["10.0.0.1", "10.0.0.2"]}),
                "None [10.0.0.1, 10.0.0.2]",
            ),
            // No datapath, but a name.
            (
                serde_json::json!({"addresses": ["224.0.0.1"]}),
                "None [224.0.0.1]",
            ),
        ] {
            let slice = read(serde_json::json!([endpoint]), false);
            assert_eq!(hosts(&slice), [expected]);
        }
    }
}
