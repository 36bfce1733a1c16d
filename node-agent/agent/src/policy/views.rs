//! What policy reads of the API's objects.

use control_client::{Meta, Resource, View, resources};
use node_agent_policy::objects;
use serde::Deserialize;

/// Its definition is installed by `orlop policy crd`; many clusters have none.
pub const CLUSTER_NETWORK_POLICIES: Resource = Resource::cluster(
    "policy.networking.k8s.io",
    "v1alpha2",
    "clusternetworkpolicies",
    "ClusterNetworkPolicy",
);

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident of $resource:expr => $($field:ident: $type:ident),*;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Deserialize)]
            pub struct $name {
                metadata: Meta,
                $(#[serde(default)] $field: Option<objects::$type>,)*
            }

            impl View for $name {
                const RESOURCE: Resource = $resource;

                fn meta(&self) -> &Meta {
                    &self.metadata
                }
            }

            impl $name {
                /// The compiler's form of it.
                pub fn planned(&self) -> objects::$name {
                    objects::$name {
                        metadata: metadata(&self.metadata),
                        $($field: self.$field.clone().unwrap_or_default(),)*
                    }
                }
            }
        )*
    };
}

views! {
    /// A Pod, of any node.
    Pod of resources::PODS => spec: PodSpec, status: PodStatus;
    /// A Namespace.
    Namespace of resources::NAMESPACES =>;
    /// A Node.
    Node of resources::NODES => status: NodeStatus;
    /// A NetworkPolicy.
    NetworkPolicy of resources::NETWORK_POLICIES => spec: NetworkPolicySpec;
    /// A ClusterNetworkPolicy.
    ClusterNetworkPolicy of CLUSTER_NETWORK_POLICIES => spec: ClusterNetworkPolicySpec;
}

fn metadata(meta: &Meta) -> objects::Metadata {
    let pairs = |map: &control_client::StringMap| {
        map.iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    objects::Metadata {
        name: meta.name.to_string(),
        namespace: meta.namespace.to_string(),
        labels: pairs(&meta.labels),
        annotations: pairs(&meta.annotations),
        creation_timestamp: meta.creation_timestamp.as_ref().map(ToString::to_string),
    }
}
