//! Lean views of services and their endpoints.

use std::net::IpAddr;

use compact_str::CompactString;
use control_client::{Meta, Resource, View, resources};
use serde::Deserialize;

/// The view of a service.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Service {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its spec.
    #[serde(default)]
    pub spec: ServiceSpec,
}

/// Spec of a [`Service`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ExternalName` or a type with addresses.
    pub r#type: CompactString,
    /// Addresses; `None` for a headless service.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<CompactString>,
    /// The first address, for servers that fill in no list.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: CompactString,
    /// The target of an `ExternalName`.
    pub external_name: CompactString,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// A port of a [`Service`] or an [`EndpointSlice`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its name; may be empty.
    pub name: Option<CompactString>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Option<CompactString>,
    /// Its number.
    pub port: Option<u16>,
}

/// The view of an endpoint slice.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct EndpointSlice {
    /// The object's metadata.
    pub metadata: Meta,
    /// The endpoints.
    #[serde(default)]
    pub endpoints: Option<Vec<Endpoint>>,
    /// Their ports.
    #[serde(default)]
    pub ports: Option<Vec<Port>>,
}

/// One endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    /// Its addresses.
    pub addresses: Vec<CompactString>,
    /// The pod's hostname, where it has one.
    pub hostname: Option<CompactString>,
    /// How it is.
    pub conditions: Conditions,
}

/// Conditions of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Whether it takes connections; unknown counts as yes.
    pub ready: Option<bool>,
}

impl Service {
    /// Its cluster addresses; none for headless and external ones.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let single = self
            .spec
            .cluster_ips
            .is_empty()
            .then_some(&self.spec.cluster_ip);
        self.spec
            .cluster_ips
            .iter()
            .chain(single)
            .filter_map(|address| address.parse().ok())
    }

    /// Returns whether its name resolves to its endpoints.
    #[must_use]
    pub fn is_headless(&self) -> bool {
        self.spec.cluster_ip == "None"
    }

    /// Returns the target of an `ExternalName`.
    #[must_use]
    pub fn external_name(&self) -> Option<&str> {
        (self.spec.r#type == "ExternalName").then_some(self.spec.external_name.as_str())
    }
}

impl Port {
    /// Whether it is `_name._protocol`, without the underscores.
    #[must_use]
    pub fn is(&self, name: &str, protocol: &str) -> bool {
        let known = self.name.as_deref().unwrap_or("");
        known.eq_ignore_ascii_case(name)
            && self
                .protocol
                .as_deref()
                .unwrap_or("TCP")
                .eq_ignore_ascii_case(protocol)
    }
}

impl View for Service {
    const RESOURCE: Resource = resources::SERVICES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl View for EndpointSlice {
    const RESOURCE: Resource = resources::ENDPOINT_SLICES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}
