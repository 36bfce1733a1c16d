//! The views of the ranges and addresses of Services.

use control_client::{Meta, Resource, View};
use ipnet::IpNet;
use serde::Deserialize;

use super::common::Text;

const SERVICE_CIDRS: Resource =
    Resource::cluster("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR");
const IP_ADDRESSES: Resource =
    Resource::cluster("networking.k8s.io", "v1", "ipaddresses", "IPAddress");
/// Keeps a range that Services need.
pub(crate) const SERVICE_CIDR_FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// A ServiceCIDR.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    /// Name and finalizers.
    pub metadata: Meta,
    /// Its ranges.
    pub spec: Spec,
    /// Whether it is ready.
    pub status: Status,
}

/// The ranges of a ServiceCIDR.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// One of each IP version at most.
    pub cidrs: Option<Vec<Text>>,
}

/// The status of a ServiceCIDR.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    /// `Ready` is among them.
    pub conditions: Option<Vec<CidrCondition>>,
}

/// One condition.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CidrCondition {
    /// The type of condition.
    pub r#type: Text,
    /// `True`, `False` or `Unknown`.
    pub status: Text,
    /// One word.
    pub reason: Text,
    /// A sentence.
    pub message: Text,
}

impl View for ServiceCidr {
    const RESOURCE: Resource = SERVICE_CIDRS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// An IPAddress; its name is the address.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct IpAddress {
    /// Its name.
    pub metadata: Meta,
}

impl View for IpAddress {
    const RESOURCE: Resource = IP_ADDRESSES;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl ServiceCidr {
    /// Its ranges that can be read.
    pub(crate) fn nets(&self) -> impl Iterator<Item = IpNet> + '_ {
        let cidrs = self.spec.cidrs.iter().flatten();
        cidrs.filter_map(|text| text.parse().ok())
    }

    /// Whether it has the finalizer that keeps it.
    pub(crate) fn is_protected(&self) -> bool {
        self.metadata
            .finalizers
            .iter()
            .any(|name| name == SERVICE_CIDR_FINALIZER)
    }
}
