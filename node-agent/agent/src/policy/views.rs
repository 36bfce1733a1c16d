//! What policy reads of the API's objects.

use control_client::{Meta, Resource, View, resources};
use node_agent_informers::Node;
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
    /// A NetworkPolicy.
    NetworkPolicy of resources::NETWORK_POLICIES => spec: NetworkPolicySpec;
    /// A ClusterNetworkPolicy.
    ClusterNetworkPolicy of CLUSTER_NETWORK_POLICIES => spec: ClusterNetworkPolicySpec;
}

/// Returns the compiler's form of a Node. Its addresses are also those that it has on the
/// overlay, from which it speaks to pods behind that.
pub fn planned_node(node: &Node) -> objects::Node {
    let given = node.addresses().iter().map(|it| it.address.to_string());
    let mut addresses: Vec<String> = given.collect();
    for range in node.pod_cidrs() {
        let address = range.network().to_string();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let addresses = addresses.into_iter();
    objects::Node {
        metadata: metadata(node.meta()),
        spec: objects::NodeSpec {
            pod_cidr: String::new(),
            pod_cidrs: node.pod_cidr_texts().map(str::to_owned).collect(),
        },
        status: objects::NodeStatus {
            addresses: addresses
                .map(|address| objects::NodeAddress { address })
                .collect(),
        },
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_by_its_addresses_on_the_overlay_too() {
        let node: Node = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a"},
            "spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24", "fd00:1::/64"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
        }))
        .expect("a node");
        let planned = planned_node(&node);
        let addresses: Vec<_> = planned
            .status
            .addresses
            .iter()
            .map(|it| &*it.address)
            .collect();
        assert_eq!(addresses, ["192.0.2.1", "10.0.1.0", "fd00:1::"]);
        let ranges: Vec<_> = planned.spec.ranges().collect();
        assert_eq!(ranges, ["10.0.1.0/24", "fd00:1::/64", "10.0.1.0/24"]);
    }
}
