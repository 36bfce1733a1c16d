//! The view of Services.

use std::net::IpAddr;
use std::sync::Arc;

use compact_str::CompactString;
use control_client::{Identity, Meta, Object, Resource, StringMap, Uid, resources};
use control_load_balancer::ASSIGNED;
use ebpf_abi::Protocol;
use node_agent_plan as plan;
use serde::Deserialize;
use smallvec::SmallVec;

use crate::SharedView;

/// A Service: its identity and the fields that parts of the agent read. The plan's form
/// stands once for cache and plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ReadService")]
pub struct Service {
    identity: Identity,
    state: Arc<plan::ServiceState>,
    cluster_ips: SmallVec<[CompactString; 1]>,
    ports: Box<[ServicePort]>,
    external_name: Option<Box<str>>,
    load_balancer: Option<Box<LoadBalancer>>,
}

/// A port of a [`Service`] or of an [`EndpointSlice`](crate::EndpointSlice).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; may be empty.
    pub name: CompactString,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number; 0 where a slice gives none.
    pub port: u16,
}

/// What is read of a Service of type `LoadBalancer` besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancer {
    /// The Service's labels.
    pub labels: StringMap,
    /// Whether Orlop's controller assigned the addresses.
    pub is_assigned: bool,
    /// Whether the Service is being deleted.
    pub is_terminating: bool,
    /// Whether only nodes with an endpoint serve it (`externalTrafficPolicy: Local`).
    pub is_local: bool,
    /// The addresses that packets to it carry.
    pub addresses: Box<[IpAddr]>,
}

/// A Service as the API has it.
#[derive(Deserialize)]
struct ReadService {
    metadata: Meta,
    #[serde(default)]
    spec: plan::ServiceSpec,
    #[serde(default)]
    status: plan::ServiceStatus,
}

objects!(Service of resources::SERVICES);

impl SharedView for Service {}

impl Service {
    /// Its uid.
    #[must_use]
    pub const fn uid(&self) -> &Uid {
        &self.identity.uid
    }

    /// The plan's form of it.
    #[must_use]
    pub const fn state(&self) -> &Arc<plan::ServiceState> {
        &self.state
    }

    /// Its first cluster IP as the API writes it; `None` where it has none, or is headless.
    #[must_use]
    pub fn cluster_ip(&self) -> Option<&str> {
        let first = self.cluster_ips.first()?.as_str();
        (!matches!(first, "" | "None")).then_some(first)
    }

    /// Its cluster IPs; none for headless and external ones.
    pub fn cluster_ips(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.cluster_ips.iter().filter_map(|text| text.parse().ok())
    }

    /// Whether its name stands for its endpoints.
    #[must_use]
    pub fn is_headless(&self) -> bool {
        self.cluster_ips.first().is_some_and(|text| text == "None")
    }

    /// Its ports.
    #[must_use]
    pub const fn ports(&self) -> &[ServicePort] {
        &self.ports
    }

    /// The name for which it stands, if its type is `ExternalName`.
    #[must_use]
    pub fn external_name(&self) -> Option<&str> {
        self.external_name.as_deref()
    }

    /// What is read of it if its type is `LoadBalancer`.
    #[must_use]
    pub fn load_balancer(&self) -> Option<&LoadBalancer> {
        self.load_balancer.as_deref()
    }
}

impl From<ReadService> for Service {
    fn from(
        ReadService {
            metadata,
            spec,
            status,
        }: ReadService,
    ) -> Self {
        let listed = spec.cluster_ips.iter().map(CompactString::from);
        let mut cluster_ips: SmallVec<_> = listed.collect();
        if cluster_ips.is_empty() {
            cluster_ips.extend(spec.cluster_ip.as_ref().map(CompactString::from));
        }
        let ports = spec.ports.iter().filter_map(|port| {
            ServicePort::new(port.name.as_deref(), port.protocol.as_deref(), port.port)
        });
        let ports = ports.collect();
        let (external_name, load_balancer) = match spec.kind.as_deref() {
            Some("ExternalName") => {
                let name = spec.external_name.as_deref().unwrap_or_default();
                (Some(name.into()), None)
            }
            Some("LoadBalancer") => {
                let load_balancer = LoadBalancer::new(&metadata, &spec, &status);
                (None, Some(Box::new(load_balancer)))
            }
            _ => (None, None),
        };
        let service = plan::Service {
            metadata: planned(&metadata),
            spec,
            status,
        };
        Self {
            identity: metadata.into(),
            state: Arc::new((&service).into()),
            cluster_ips,
            ports,
            external_name,
            load_balancer,
        }
    }
}

impl LoadBalancer {
    fn new(meta: &Meta, spec: &plan::ServiceSpec, status: &plan::ServiceStatus) -> Self {
        let ingress = status.load_balancer.ingress.iter();
        let carried = ingress.filter(|it| it.ip_mode.as_deref() != Some("Proxy"));
        let addresses = carried.filter_map(|it| it.ip.as_deref()?.parse().ok());
        Self {
            labels: meta.labels.clone(),
            is_assigned: meta.annotations.contains_key(ASSIGNED),
            is_terminating: meta.is_terminating(),
            is_local: spec.external_traffic_policy.as_deref() == Some("Local"),
            addresses: addresses.collect(),
        }
    }
}

impl ServicePort {
    /// `None` where the protocol is none that the API knows.
    pub(crate) fn new(name: Option<&str>, protocol: Option<&str>, port: i64) -> Option<Self> {
        Some(Self {
            name: name.unwrap_or_default().into(),
            protocol: plan::parse_protocol(protocol.filter(|it| !it.is_empty()))?,
            port: u16::try_from(port).unwrap_or_default(),
        })
    }
}

fn planned(meta: &Meta) -> plan::Metadata {
    let pairs = |map: &StringMap| {
        let pairs = map.iter();
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    plan::Metadata {
        name: meta.name.to_string(),
        namespace: meta.namespace.to_string(),
        labels: pairs(&meta.labels),
        annotations: pairs(&meta.annotations),
        creation_timestamp: meta.creation_timestamp.as_ref().map(ToString::to_string),
    }
}
