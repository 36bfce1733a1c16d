//! The definition of ClusterNetworkPolicy, to be installed where it is absent.

/// A `CustomResourceDefinition` as YAML: the fields and rules of
/// network-policy-api v0.2, its experimental peers by node among them, without
/// those by domain name: such a peer is refused instead of being stored and not
/// obeyed.
pub const CLUSTER_NETWORK_POLICY: &str =
    include_str!("custom_resource/clusternetworkpolicies.yaml");

#[cfg(test)]
mod tests;
