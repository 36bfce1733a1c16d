//! The view of ClusterRoles.

use control_client::{Meta, Resource, View};
use serde::Deserialize;
use serde_json::Value;

use super::common::LabelSelector;

const CLUSTER_ROLES: Resource = Resource::cluster(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterroles",
    "ClusterRole",
);

/// A ClusterRole.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterRole {
    /// Name and labels.
    pub metadata: Meta,
    /// The current rules.
    pub rules: Option<Vec<Value>>,
    /// Selects the roles to aggregate.
    pub aggregation_rule: Option<AggregationRule>,
}

/// The selectors of the aggregated roles.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregationRule {
    /// Selectors over roles; each alone suffices.
    pub cluster_role_selectors: Vec<LabelSelector>,
}

impl View for ClusterRole {
    const RESOURCE: Resource = CLUSTER_ROLES;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl ClusterRole {
    /// Whether its rules are those of others.
    pub(crate) fn is_aggregated(&self) -> bool {
        self.aggregation_rule.is_some()
    }
}
