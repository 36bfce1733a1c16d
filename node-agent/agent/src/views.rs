//! What the agent reads of the API's objects.

use control_client::{Meta, Resource, View, resources};
use node_agent_plan as plan;
use serde::Deserialize;

/// A Service, as far as the datapath is concerned.
#[derive(Debug, Deserialize)]
pub struct Service {
    metadata: Meta,
    #[serde(default)]
    spec: plan::ServiceSpec,
}

impl View for Service {
    const RESOURCE: Resource = resources::SERVICES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Service {
    /// The plan's form of it.
    pub fn planned(&self) -> plan::Service {
        plan::Service {
            metadata: metadata(&self.metadata),
            spec: self.spec.clone(),
        }
    }
}

/// An EndpointSlice, likewise.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    metadata: Meta,
    #[serde(default)]
    address_type: String,
    #[serde(default)]
    endpoints: Option<Vec<plan::Endpoint>>,
    #[serde(default)]
    ports: Option<Vec<plan::EndpointPort>>,
}

impl View for EndpointSlice {
    const RESOURCE: Resource = resources::ENDPOINT_SLICES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl EndpointSlice {
    /// The plan's form of it.
    pub fn planned(&self) -> plan::EndpointSlice {
        plan::EndpointSlice {
            metadata: metadata(&self.metadata),
            address_type: self.address_type.clone(),
            endpoints: self.endpoints.clone().unwrap_or_default(),
            ports: self.ports.clone().unwrap_or_default(),
        }
    }
}

fn metadata(meta: &Meta) -> plan::Metadata {
    plan::Metadata {
        name: meta.name.to_string(),
        namespace: meta.namespace.to_string(),
        labels: meta
            .labels
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    }
}
